//! Reading: TFRecord files as a table.
//!
//! [`open()`] finds the files under some locations and settles their columns:
//!
//! | columns | from |
//! |---|---|
//! | declared | [`ReadOptions::schema`] |
//! | of a `schema.pbtxt` that was named | [`ReadOptions::schema_file`] |
//! | as they were written, in the same types | the manifest beside the files |
//! | of a `schema.pbtxt` beside the files | the directory of the files |
//! | inferred: all features, sorted by name | the first records of all files, or of a sample of them |
//!
//! Of a directory with a manifest the shards that it lists are read, no other files, and if one of them is missing or
//! has another size, or the mark of success is missing, none is. A pattern that names the files reads them anyway, in
//! the types of the manifest. A file that it does not list is not read together with those that it does, unless the
//! columns are declared.
//!
//! The number of rows of files that a manifest lists is known without reading them.
//!
//! [`TfRecordSource`] decodes the features of wanted columns and passes over others. A feature of another kind, or with
//! more values than its column can hold, is an error with the file, the record and its byte.
//!
//! # Files in parts
//! A scan is divided among partitions by bytes, in the order of the files. Nothing in a TFRecord file marks where a record
//! begins, and a payload may hold records itself, so a file is cut only where that is certain:
//!
//! | file | cut |
//! |---|---|
//! | shard of ours, uncompressed or gzip | at the places that the manifest lists, about one for each 16 MiB |
//! | uncompressed local file | anywhere: headers are walked first, by all threads, to find where records begin |
//! | zlib, gzip of others, uncompressed remote file | not at all |
//!
//! Every part must end where the next begins, to the record; if not, that is an error. Damage is named by its record
//! in the file, whichever part it is in.

mod blocks;
mod filter;
mod infer;
mod known;
mod open;
mod opener;
mod options;
mod sets;
mod source;
mod split;
mod survey;
mod types;

pub(crate) use infer::infer;
pub use known::KnownFile;
pub use open::open;
pub use options::ReadOptions;
pub use sets::is_set;
pub use source::{RecordForm, TfRecordSource};
pub use types::ColumnOrigin;
