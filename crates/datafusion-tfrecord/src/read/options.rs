//! [`ReadOptions`]: how to read the records of a table.

use arrow_schema::SchemaRef;
use arrow_tfrecord::MappingOptions;
use tfrecord_framing::{Container, CrcPolicy};

use tfr_files::OwnedFiles;
use tfr_stores::LocationText;

/// Options of [`open`](super::open()). All of them are optional.
///
/// ```
/// use datafusion_tfrecord::ReadOptions;
///
/// let options = ReadOptions { infer_records: None, ..ReadOptions::default() };
/// assert_eq!(options.infer_files, Some(256));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ReadOptions {
    /// The columns. They may include those of `key=value` directories.
    pub schema: Option<SchemaRef>,
    /// The types of some columns, if the columns are not declared. The others keep theirs.
    pub types: Option<SchemaRef>,
    /// The types of the columns of `key=value` directories, if the other columns are not declared. Other columns in
    /// this schema are ignored.
    pub partition_types: Option<SchemaRef>,
    /// A `schema.pbtxt` of TensorFlow Metadata with the columns: a path or URL.
    pub schema_file: Option<LocationText>,
    /// Whether a `features.json` of TensorFlow Datasets next to the files determines the columns, if no schema does.
    pub features_file: bool,
    /// The split to read, by the manifest or else by the names of the files.
    pub split: Option<String>,
    /// How columns are stored in the records: the options of the writer. Settings that are not given are taken from
    /// the manifest; without a manifest, records with feature lists are read as sequences. Records of type
    /// [bytes](arrow_tfrecord::RecordType::Bytes) become one binary column `record`, whatever they contain.
    pub mapping: Option<MappingOptions>,
    /// Number of files to infer the schema from, or to search for declared columns, evenly spaced if there are more.
    /// `None` for all.
    pub infer_files: Option<usize>,
    /// Number of records to inspect at the start of each of these files. `None` for all.
    pub infer_records: Option<usize>,
    /// How files contain their records; `None` detects it from the content of each file.
    pub container: Option<Container>,
    /// Whether to verify checksums.
    pub crc: CrcPolicy,
    /// Whether to pass over damaged records, instead of failing at the first. Each file with damage is reported to the
    /// session's [`Findings`](tfr_files::Findings), or logged. Files are then not divided, and the manifest's number of
    /// rows is not used.
    pub skips_damaged: bool,
    /// Whether a feature that always has the same number of values, more than one, is inferred as a `FixedSizeList`
    /// instead of a `List`.
    pub fixed_size_lists: bool,
    /// What to do about files that belong to a table format, such as Delta Lake.
    pub owned: OwnedFiles,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            schema: None,
            types: None,
            partition_types: None,
            schema_file: None,
            features_file: true,
            split: None,
            mapping: None,
            infer_files: Some(256),
            infer_records: Some(1000),
            container: None,
            crc: CrcPolicy::default(),
            skips_damaged: false,
            fixed_size_lists: false,
            owned: OwnedFiles::default(),
        }
    }
}
