//! [`ReadOptions`]: how the records of a table become rows.

use arrow_schema::SchemaRef;
use arrow_tfrecord::MappingOptions;
use tfrecord_framing::{Compression, CrcPolicy};

use tfr_files::{LocationText, OwnedFiles};

/// What [`open`](super::open()) may be told about the files. All of it can be left out.
///
/// ```
/// use datafusion_tfrecord::ReadOptions;
///
/// let options = ReadOptions { infer_records: None, ..ReadOptions::default() };
/// assert_eq!(options.infer_files, Some(256));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ReadOptions {
    /// The columns. Those of `key=value` directories may be among them.
    pub schema: Option<SchemaRef>,
    /// The types of columns of `key=value` directories, where the others are not declared; other columns in it are of no
    /// concern.
    pub partition_types: Option<SchemaRef>,
    /// A `schema.pbtxt` of TensorFlow Metadata with the columns: a path or URL.
    pub schema_file: Option<LocationText>,
    /// In which form columns stand in the records: the options of the writer. Those in the manifest hold where nothing else is
    /// said; where there is none, feature lists in the records tell that these are sequences. Records of type [bytes](arrow_tfrecord::RecordType::Bytes) are one binary column `record`, whatever is in them.
    pub mapping: Option<MappingOptions>,
    /// How many files the schema is inferred from, or searched for declared columns, evenly spaced if there are more;
    /// `None`: all.
    pub infer_files: Option<usize>,
    /// How many records of each of these files are looked at for it, the first ones; `None`: all.
    pub infer_records: Option<usize>,
    /// The compression; `None`: told from the content of each file.
    pub compression: Option<Compression>,
    /// Whether checksums are checked.
    pub crc: CrcPolicy,
    /// Whether a feature that always has the same number of values, more than one, is inferred as a `FixedSizeList`; as a
    /// `List` otherwise.
    pub fixed_size_lists: bool,
    /// What is done about files that belong to a table of a table format, such as Delta Lake.
    pub owned: OwnedFiles,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            schema: None,
            partition_types: None,
            schema_file: None,
            mapping: None,
            infer_files: Some(256),
            infer_records: Some(1000),
            compression: None,
            crc: CrcPolicy::default(),
            fixed_size_lists: false,
            owned: OwnedFiles::default(),
        }
    }
}
