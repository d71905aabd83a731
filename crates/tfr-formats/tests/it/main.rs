//! Tables over realistic files, read end to end.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking and says why it skips"
)]

mod arrow_ipc;
mod avro;
mod changed;
mod corpus;
mod csv;
mod csv_forms;
mod files;
mod hive_serdes;
mod hive_text;
mod json;
mod libsvm;
mod listing;
mod orc;
mod parquet;
mod parquet_types;
mod parts;
mod sql;
mod support;
mod tfrecord;
mod values;
