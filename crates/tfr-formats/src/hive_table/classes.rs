//! [`Class`]: the readers by the classes of SerDes and input formats.

use crate::error::HiveRefusal;
use crate::input_format::InputFormat;

/// A reader of Hive tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Lazy,
    MultiDelimit,
    OpenCsv,
    Json,
    Parquet,
    Orc,
    Avro,
    /// A format that the user has named.
    Named(InputFormat),
}

/// The SerDes of the readers.
const SERDES: [(&str, Class); 11] = [
    ("org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe", Class::Lazy),
    ("org.apache.hadoop.hive.serde2.MultiDelimitSerDe", Class::MultiDelimit),
    // Its name before Hive 4.
    ("org.apache.hadoop.hive.contrib.serde2.MultiDelimitSerDe", Class::MultiDelimit),
    ("org.apache.hadoop.hive.serde2.OpenCSVSerde", Class::OpenCsv),
    ("org.apache.hadoop.hive.serde2.JsonSerDe", Class::Json),
    ("org.apache.hive.hcatalog.data.JsonSerDe", Class::Json),
    ("org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe", Class::Parquet),
    // Its name before Hive 0.13.
    ("parquet.hive.serde.ParquetHiveSerDe", Class::Parquet),
    ("org.apache.hadoop.hive.ql.io.orc.OrcSerde", Class::Orc),
    ("org.apache.hadoop.hive.serde2.avro.AvroSerDe", Class::Avro),
    ("org.apache.hadoop.hive.serde2.avro.AvroSerde", Class::Avro),
];

/// The input formats of Hive: their names in `STORED AS`, their classes, and the readers if no SerDe is named.
const INPUT_FORMATS: [(&str, &str, Class); 6] = [
    ("TEXTFILE", "org.apache.hadoop.mapred.TextInputFormat", Class::Lazy),
    ("JSONFILE", "org.apache.hadoop.mapred.TextInputFormat", Class::Json),
    ("PARQUET", "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat", Class::Parquet),
    ("PARQUET", "parquet.hive.DeprecatedParquetInputFormat", Class::Parquet),
    ("ORC", "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat", Class::Orc),
    ("AVRO", "org.apache.hadoop.hive.ql.io.avro.AvroContainerInputFormat", Class::Avro),
];

/// Formats of Hive that have no reader, by their names in `STORED AS`.
const OTHERS: [(&str, &str); 2] = [
    ("SEQUENCEFILE", "org.apache.hadoop.mapred.SequenceFileInputFormat"),
    ("RCFILE", "org.apache.hadoop.hive.ql.io.RCFileInputFormat"),
];

/// Returns the class of the input format that a name in `STORED AS` stands for in Hive.
pub fn input_format_of(stored_as: &str) -> Option<&'static str> {
    let known = INPUT_FORMATS.iter().map(|(name, class, _)| (*name, *class)).chain(OTHERS);
    known.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(stored_as)).map(|(_, class)| class)
}

/// Whether the files of a table of this data source of Spark are those of its classes.
pub(super) fn is_hive_provider(provider: &str) -> bool {
    let last = provider.rsplit('.').next().unwrap_or(provider);
    ["hive", "parquet", "orc", "avro", "ParquetFileFormat", "OrcFileFormat", "AvroFileFormat"]
        .iter()
        .any(|known| known.eq_ignore_ascii_case(last))
}

impl Class {
    /// Returns the reader of a SerDe over an input format.
    pub(super) fn of(serde: Option<&str>, input_format: Option<&str>) -> Result<Self, HiveRefusal> {
        let by_files = input_format.map(|class| {
            let found = INPUT_FORMATS.iter().find(|(_, known, _)| *known == class);
            found.map(|(_, _, class)| *class).ok_or_else(|| HiveRefusal::InputFormat { class: class.to_owned() })
        });
        let by_serde = serde.map(|class| {
            let found = SERDES.iter().find(|(known, _)| *known == class);
            found.map(|(_, class)| *class).ok_or_else(|| HiveRefusal::Serde { class: class.to_owned() })
        });
        // The SerDe is what a user knows.
        let by_serde = by_serde.transpose()?;
        match (by_serde, by_files.transpose()?) {
            (Some(class), Some(files)) if class.is_text() == files.is_text() && (class.is_text() || class == files) => {
                Ok(class)
            }
            (Some(_), Some(_)) => Err(HiveRefusal::Classes {
                serde: serde.unwrap_or_default().to_owned(),
                input_format: input_format.unwrap_or_default().to_owned(),
            }),
            (Some(class), None) => Ok(class),
            (None, files) => Ok(files.unwrap_or(Self::Lazy)),
        }
    }

    /// Whether the files have one row a line.
    pub(super) fn is_text(self) -> bool {
        matches!(self, Self::Lazy | Self::MultiDelimit | Self::OpenCsv | Self::Json)
    }

    pub(super) fn format(self) -> InputFormat {
        match self {
            Self::Lazy | Self::MultiDelimit | Self::OpenCsv | Self::Json => InputFormat::HiveText,
            Self::Parquet => InputFormat::Parquet,
            Self::Orc => InputFormat::Orc,
            Self::Avro => InputFormat::Avro,
            Self::Named(format) => format,
        }
    }
}
