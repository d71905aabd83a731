//! Tables as users find them, read end to end.

mod corpus;
mod csv;
mod listing;
mod parquet;
mod sql;
mod support;
