//! What the tests across the crates share.
//!
//! * [`tfr_sql`] and [`example`]: the programs under test, and [`Run`], one finished run of them
//! * [`Scratch`]: a directory with tables to read and a place to write to
//! * [`read_shards`]: the records of a shard set, by protobuf and not by our own decoder; [`records`]: those of a table
//! * [`Corpus`]: files that other systems wrote
//! * [`python`]: an interpreter with TensorFlow, for the tests that ask it

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a fixture that cannot be set up fails its test"
)]

mod columns;
mod corpus;
mod programs;
mod python;
mod scratch;
mod shards;

pub use columns::records;
pub use corpus::{Corpus, Entry};
pub use programs::{Run, example, finish, repository, run, tfr_sql};
pub use python::{python, skip};
pub use scratch::{Scratch, golden_table};
pub use shards::{Feature, Record, payloads, read_file, read_shards, shard_files};
