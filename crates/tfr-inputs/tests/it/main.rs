//! Tables as users find them, read end to end.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "a test fails by panicking and says why it skips")]

mod corpus;
mod csv;
mod listing;
mod parquet;
mod sql;
mod support;
mod tfrecord;
