//! Tests across the crates. One binary, since each links the engine.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test may panic and print"
)]

mod allow;
mod array_forms;
mod array_record_files;
mod array_record_sets;
mod array_records;
mod ballista;
mod calendar;
mod came_back;
mod checker;
mod contradictions;
mod corpus;
mod damage;
mod delta;
mod described;
mod differential;
mod drift;
mod earlier_sets;
mod examples;
mod faults;
mod foreign;
mod golden;
mod hdfs;
mod hidden;
mod hive_acid;
mod hugging_face;
mod iceberg;
mod images;
mod interop;
mod killed;
mod kinds;
mod lake;
mod matrix;
mod metastore;
mod network;
mod nulls;
mod object_stores;
mod object_tables;
mod options;
mod pages;
mod peers;
mod rebuild;
mod replaced_partitions;
mod round_trip;
mod salvaged;
mod schema_beside;
mod schemas;
mod secrets;
mod session;
mod sets;
mod sidecars;
mod slt;
mod splits;
mod store_tasks;
mod stores;
mod structure;
mod table_formats;
mod tasks;
mod tfds_directories;
mod tfrecords;
mod values;
mod whole_sets;
