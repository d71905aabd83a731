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
//! | inferred: all features and feature lists, sorted by name | the first records of all files, or of a sample of them |
//!
//! Records that have feature lists are `tf.train.SequenceExample`s, whoever tells the columns, unless a manifest says what
//! they are.
//!
//! # Declared columns
//! A feature that a record does not have is a null. So that no column is null for want of the right name, declared ones
//! are compared with what was written:
//!
//! | of files | a column or field that is not there | one that stands elsewhere |
//! |---|---|---|
//! | of sets | is refused, unless another set of the table has it | is refused: another type, unit or depth of lists |
//! | of others | is a warning: in the first records it is null | is refused: of a feature list, in parts, in another case |
//!
//! Of others the first records are looked at until every column was found, by the rules of inference at most. Structs of
//! which some fields are declared are null where all fields that were written are.
//!
//! Features that say where others hold [nulls](arrow_tfrecord::NullPolicy::Mask), in records of which no manifest tells, are
//! columns like others, and a warning; with the option `null=mask` they are what they were written as.
//!
//! # Sets
//! Of a directory with a manifest the shards that it lists are read, no other files, and if one of them is missing or
//! has another size, or the mark of success is missing, none is. A pattern that names the files reads them anyway, in
//! the types of the manifest. A file that it does not list is not read together with those that it does, unless the
//! columns are declared. A manifest beside such files that cannot be read is an error, and a warning where the columns are
//! declared: what it says of their types nobody else knows.
//!
//! The number of rows of files that a manifest lists is known without reading them.
//!
//! A scan decodes the features of wanted columns and passes over others. A feature of another kind, or with
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
mod compare;
mod declared;
mod files;
mod filter;
mod infer;
mod known;
mod look;
mod manifest_check;
mod masks;
mod narrow;
mod open;
mod opener;
mod options;
mod partitions;
mod sets;
pub(crate) mod similar;
mod split;
mod survey;
mod types;
mod written;

pub use blocks::Blocks;
pub(crate) use files::RecordFiles;
pub use files::RecordForm;
pub use known::KnownFile;
pub use open::open;
pub use options::ReadOptions;
pub use sets::is_set;
pub use types::ColumnOrigin;
