//! [`InputFormat`]: the formats that can be read.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A format that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum InputFormat {
    /// Apache Parquet.
    Parquet,
    /// Delimited text: CSV, TSV and their kin.
    Csv,
    /// TFRecord: records of `tf.train.Example`.
    TfRecord,
    /// ArrayRecord: the same records in chunks that are read by number.
    ArrayRecord,
    /// Apache ORC.
    Orc,
    /// Apache Avro object container files.
    Avro,
    /// JSON: an object a line.
    Json,
    /// Arrow IPC, file or stream.
    Arrow,
    /// Text as Hive's LazySimpleSerDe writes it.
    HiveText,
    /// libsvm: a label and pairs of index and value a line.
    LibSvm,
    /// Delta Lake: a directory with a log.
    Delta,
    /// Apache Iceberg: a directory with metadata, or a metadata file.
    Iceberg,
}

impl InputFormat {
    /// The formats by the names that users know them by, first the one for messages about names.
    pub(crate) const NAMES: &[(&str, Self)] = &[
        ("parquet", Self::Parquet),
        ("csv", Self::Csv),
        ("tsv", Self::Csv),
        ("tfrecord", Self::TfRecord),
        ("array_record", Self::ArrayRecord),
        ("orc", Self::Orc),
        ("avro", Self::Avro),
        ("json", Self::Json),
        ("arrow", Self::Arrow),
        ("hive-text", Self::HiveText),
        ("libsvm", Self::LibSvm),
        ("delta", Self::Delta),
        ("iceberg", Self::Iceberg),
        // Names that other systems have for them.
        ("textfile", Self::HiveText),
        ("arrayrecord", Self::ArrayRecord),
        ("jsonl", Self::Json),
        ("ndjson", Self::Json),
        ("svmlight", Self::LibSvm),
    ];

    /// Reads `parquet`, `csv`, `tsv`, `tfrecord`, `array_record`, `orc`, `avro`, `json`, `arrow`, `hive-text`, `libsvm`,
    /// `delta` or `iceberg`, whatever the case.
    pub fn parse(text: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(name, _)| text.eq_ignore_ascii_case(name)).map(|(_, format)| *format)
    }

    /// The name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Parquet => "Parquet",
            Self::Csv => "CSV",
            Self::TfRecord => "TFRecord",
            Self::ArrayRecord => "ArrayRecord",
            Self::Orc => "ORC",
            Self::Avro => "Avro",
            Self::Json => "JSON",
            Self::Arrow => "Arrow IPC",
            Self::HiveText => "Hive text",
            Self::LibSvm => "libsvm",
            Self::Delta => "Delta Lake",
            Self::Iceberg => "Apache Iceberg",
        }
    }

    /// Returns the format that a file has by the ending of its name.
    pub(crate) fn of_file_name(name: &str) -> Option<Self> {
        let name = name.rsplit('/').next()?.to_ascii_lowercase();
        let mut parts = name
            .rsplit('.')
            .filter(|part| !matches!(*part, "gz" | "gzip" | "zlib" | "bz2" | "xz" | "zst" | "zstd" | "deflate"));
        let last = parts.next()?;
        // A name without an ending.
        parts.next()?;
        // `mnist.tfrecord-00000-of-00001`
        if last.starts_with("tfrecord") {
            return Some(Self::TfRecord);
        }
        if last.starts_with("array_record") {
            return Some(Self::ArrayRecord);
        }
        match last {
            "parquet" | "parq" | "pqt" => Some(Self::Parquet),
            "csv" | "tsv" | "tab" => Some(Self::Csv),
            "orc" => Some(Self::Orc),
            "avro" => Some(Self::Avro),
            "json" | "jsonl" | "ndjson" => Some(Self::Json),
            "arrow" | "arrows" | "feather" | "ipc" => Some(Self::Arrow),
            "libsvm" | "svm" | "svmlight" => Some(Self::LibSvm),
            _ => None,
        }
    }

    /// Whether its files contain the records of TensorFlow.
    pub(crate) fn is_records(self) -> bool {
        matches!(self, Self::TfRecord | Self::ArrayRecord)
    }

    /// Whether its files are text, which may be compressed and in one of several encodings.
    pub(crate) fn is_text(self) -> bool {
        matches!(self, Self::Csv | Self::Json | Self::HiveText | Self::LibSvm)
    }
}

impl fmt::Display for InputFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
