//! Runs whole write plans on small tables, and checks the files they write.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod failure;
mod order;
mod read;
mod rejects;
mod round_robin;
mod sharding;
mod sorted;
mod sql;
mod support;
mod tasks;
mod uploads;
