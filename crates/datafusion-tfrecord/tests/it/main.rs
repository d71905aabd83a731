//! Whole write plans, run by the engine on small tables, and the files that they leave.

mod deal;
mod failure;
mod order;
mod sharding;
mod sql;
mod support;
