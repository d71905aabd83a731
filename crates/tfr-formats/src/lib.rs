//! Table providers for Apache DataFusion over the files that Hive, Spark and pandas write.
//!
//! Reads Parquet, ORC, Avro, Arrow IPC, CSV, JSON, Hive text, libsvm and TFRecord from a file, a directory, a pattern
//! or a list of these.
//!
//! | you have | use |
//! |---|---|
//! | `--table events=data/*.csv,delimiter=;` | [`TableSpec`] and [`open_table`] |
//! | `SELECT ... FROM 'data/*.parquet'` | [`paths_as_tables`] |
//! | `CREATE EXTERNAL TABLE ... STORED AS CSV` | [`table_factory`] |
//! | correct results from the engine, also for fields of null structs | `tfr_engine::exact`, on the session's builder |
//!
//! The format is detected from the content ([`detect`]), not from the name. Every format is read through a
//! [`DirectoryTable`](tfr_files::DirectoryTable), which lists files, merges schemas, plans scans and names the file in
//! every error.
//!
//! ```
//! use tfr_formats::{InputFormat, TableSpec};
//!
//! let spec: TableSpec = r#"trips="data/a,b.csv",delimiter=;,null=NA,types=string"#.parse()?;
//! assert_eq!(spec.name, "trips");
//! assert_eq!(spec.locations[0].to_string(), "data/a,b.csv");
//! assert_eq!(spec.options.csv.delimiter, Some(b';'));
//! # Ok::<(), tfr_formats::Error>(())
//! ```

mod arrow;
mod avro;
mod calendar;
mod content;
pub mod csv;
mod delta;
pub mod detect;
mod error;
mod field_access;
mod foreign;
mod forward;
mod hive_acid;
mod hive_table;
pub mod hive_text;
mod hugging_face;
mod iceberg;
mod input_format;
pub mod json;
pub mod libsvm;
mod mapped;
pub mod metastore;
mod names;
mod nulls;
mod open;
mod options;
pub mod orc;
pub mod parquet;
mod paths;
mod piped;
mod spec;
mod table;
pub mod text;

pub use arrow::ArrowPipe;
pub use calendar::{CalendarOption, WriterZone};
pub use delta::DeltaOptions;
pub use error::{Error, ErrorKind, FilePlace, HiveRefusal, Line, MetastoreError, Result, TableError, Within};
pub use foreign::{UnsupportedFormat, foreign_formats};
pub use hive_acid::WriteIds;
pub use hive_table::{HiveReader, HiveTable, input_format_of};
pub use iceberg::IcebergOptions;
pub use input_format::InputFormat;
pub use names::NameMatching;
pub use open::{STORED_AS, open_locations, open_table, table_factory};
pub use options::{InputOption, InputOptions, PATH, PinnedVersions, input_options};
pub use parquet::PageTooLong;
pub use paths::{CurrentSession, paths_as_tables};
pub use piped::PipedFiles;
pub use spec::TableSpec;
