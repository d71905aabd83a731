//! What the tests across the crates share.
//!
//! * [`tfr_sql`] and [`example`]: the programs under test, and [`Run`], one finished run of them
//! * [`Scratch`]: a directory with tables to read and a place to write to
//! * [`read_shards`]: the records of a shard set, by protobuf and not by our own decoder; [`records`]: those of a table
//! * [`S3Server`]: an object store that fails when told to; [`WebServer`]: a server that knows less than HTTP has
//! * [`HdfsCluster`]: a real HDFS
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
mod hdfs;
mod programs;
mod python;
mod s3;
mod scratch;
mod shards;
mod web;

pub use columns::{records, sequences};
pub use corpus::{Corpus, Entry};
pub use hdfs::HdfsCluster;
pub use programs::{Run, example, finish, repository, run, tfr_sql};
pub use python::{python, python_with_judges, python_with_tfx, skip};
pub use s3::{ACCESS_KEY, BUCKET, Fault, Operation, Received, S3Server, SECRET_KEY, without_stores};
pub use scratch::{Scratch, golden_table};
pub use shards::{Feature, Record, Sequence, payloads, read_file, read_sequences, read_shards, shard_files};
pub use web::{WebServer, WebServerOptions};
