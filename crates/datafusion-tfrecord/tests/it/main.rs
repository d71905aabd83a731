//! Whole write plans, run by the engine on small tables, and the files that they leave.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod deal;
mod failure;
mod order;
mod read;
mod sharding;
mod sorted;
mod sql;
mod support;
mod uploads;
