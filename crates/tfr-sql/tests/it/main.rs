//! The command as a user meets it: what it prints, what it leaves on disk, how it ends.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod allow;
mod arrangement;
mod cluster;
mod dry_run;
mod example_lists;
mod feature_names;
mod files;
mod help;
mod library;
mod limits;
mod mapping;
mod memory;
mod messages;
mod mistakes;
mod names;
mod pipes;
mod print;
mod read;
mod rejects;
mod signals;
mod stats;
mod table;
mod tools;
mod usage;
mod workbench;
mod write;
