//! Reading: TFRecord and ArrayRecord files as a table.
//!
//! [`open()`] finds the files at some locations and determines their columns. The first available source is used:
//!
//! | columns | source |
//! |---|---|
//! | declared | [`ReadOptions::schema`] |
//! | from a given `schema.pbtxt` | [`ReadOptions::schema_file`] |
//! | as written, with the same types | the manifest next to the files |
//! | from a `schema.pbtxt` next to the files | the directory of the files |
//! | inferred: all features and feature lists, sorted by name | the first records of all files, or of a sample of them |
//!
//! Records with feature lists are read as `tf.train.SequenceExample`s, whatever the source of the columns, unless a
//! manifest specifies the record type.
//!
//! # Declared columns
//! A feature missing from a record is a null. To prevent a misnamed column from being null throughout, declared
//! columns are compared with what was written:
//!
//! | files | a missing column or field | a column stored differently |
//! |---|---|---|
//! | of shard sets | is an error, unless another set of the table has it | is an error: another type, unit or depth of lists |
//! | written by other tools | is a warning: null in the first records | is an error: in a feature list, in parts, or in another case |
//!
//! For files written by other tools, records are inspected until every column is found, within the limits of
//! inference. Structs with some fields declared are null where all written fields are null.
//!
//! Features that mark the [nulls](arrow_tfrecord::NullPolicy::Mask) of others, in records without a manifest, are
//! ordinary columns and cause a warning. With the option `null=mask` they are read as masks.
//!
//! # Shard sets
//! In a directory with a manifest, exactly the listed shards are read. If a shard is missing or has another size, or
//! the success marker is missing, nothing is read. A pattern that names the files reads them anyway, with the types
//! of the manifest.
//!
//! A file that the manifest does not list cannot be read together with listed files, unless the columns are declared.
//! A manifest next to such files that cannot be read is an error, since no other source specifies their types. If the
//! columns are declared, it is a warning.
//!
//! The number of rows of listed files is known without reading them, and that of ArrayRecord files by their footers.
//!
//! A scan decodes the features of wanted columns and skips the others. A feature of another kind, or with more values
//! than its column can hold, is an error with the file, the record and its byte.
//!
//! # Reading files in parts
//! A scan is divided among partitions by bytes, in the order of the files. Nothing in a TFRecord file marks where a
//! record begins, and a payload may itself contain records. A file is therefore split only at positions that are
//! certain:
//!
//! | file | split points |
//! |---|---|
//! | our shard, uncompressed or gzip | positions listed in the manifest, about one for each 16 MiB |
//! | uncompressed local file | anywhere: all threads first scan the headers, to find where records begin |
//! | zlib, gzip from other tools, uncompressed remote file, ArrayRecord | none |
//!
//! Every part must end exactly at the record where the next part begins; otherwise an error is returned. Damage is
//! reported with its record number in the file, whichever part it is in.

mod blocks;
mod boundary_scan;
mod compare;
mod declared;
mod files;
mod filter;
mod footers;
mod infer;
mod known;
mod manifest_check;
mod masks;
mod narrow;
mod open;
mod opener;
mod options;
mod partitions;
mod planned;
mod planned_files;
mod probe;
mod ragged;
mod sets;
pub(crate) mod similar;
mod split;
mod types;
mod written;

pub use blocks::Blocks;
pub(crate) use files::RecordFiles;
pub use files::RecordForm;
pub use open::open;
pub use options::ReadOptions;
pub use planned::PlannedRecords;
pub use sets::is_set;
pub use types::ColumnOrigin;
