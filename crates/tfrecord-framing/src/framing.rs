//! [`Framing`]: how records become a file, in either format.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use crate::array_record::{ChunkCodec, ChunkOptions};
use crate::{Compression, Container, Level};

/// The format of a file of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum RecordFormat {
    /// Records one after the other.
    #[default]
    TfRecord,
    /// Records that are read by number: see [`array_record`](crate::array_record).
    ArrayRecord,
}

impl RecordFormat {
    /// All formats.
    pub const ALL: [Self; 2] = [Self::TfRecord, Self::ArrayRecord];

    /// Returns the extension of file names, with its dot.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::TfRecord => ".tfrecord",
            Self::ArrayRecord => ".array_record",
        }
    }
}

impl fmt::Display for RecordFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::TfRecord => "tfrecord",
            Self::ArrayRecord => "array_record",
        })
    }
}

impl FromStr for RecordFormat {
    type Err = UnknownRecordFormat;

    /// Parses `tfrecord` or `array_record`, ignoring case. `array-record` and `arrayrecord` are accepted too.
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name.trim().to_ascii_lowercase().as_str() {
            "tfrecord" => Ok(Self::TfRecord),
            "array_record" | "array-record" | "arrayrecord" => Ok(Self::ArrayRecord),
            _ => Err(UnknownRecordFormat(name.into())),
        }
    }
}

/// A name that is not a valid [`RecordFormat`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown record format {0:?}, expected tfrecord or array_record")]
pub struct UnknownRecordFormat(String);

/// How records become a file: their format, with its own compression.
///
/// ```
/// use tfrecord_framing::{Compression, Framing, array_record::ChunkOptions};
///
/// assert_eq!(Framing::from(Compression::Gzip).suffix(), ".tfrecord.gz");
/// assert_eq!(Framing::ArrayRecord(ChunkOptions::default()).suffix(), ".array_record");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Framing {
    /// TFRecord: a frame around each record, and the file compressed as a whole.
    TfRecord(Compression, Level),
    /// ArrayRecord: chunks of records, each compressed, and an index of them.
    ArrayRecord(ChunkOptions),
}

impl Framing {
    /// Returns the framing by options that were given one by one: the compression and the level are those of TFRecord,
    /// the codec and the number of records of a chunk those of ArrayRecord.
    ///
    /// # Errors
    /// If a value was given that the format does not have.
    pub fn try_new(
        format: RecordFormat,
        (compression, level): (Compression, Level),
        (codec, group_size): (ChunkCodec, Option<NonZeroU32>),
    ) -> Result<Self, FramingConflict> {
        let conflict = |compression: &dyn fmt::Display, expected| {
            Err(FramingConflict::Compression { format, compression: compression.to_string(), expected })
        };
        match format {
            RecordFormat::TfRecord if codec != ChunkCodec::None => conflict(&codec, "none, gzip or zlib"),
            RecordFormat::TfRecord if group_size.is_some() => Err(FramingConflict::GroupSize { format }),
            RecordFormat::TfRecord if compression == Compression::None && level != Level::default() => {
                Err(FramingConflict::Level { format, level })
            }
            RecordFormat::TfRecord => Ok(Self::TfRecord(compression, level)),
            RecordFormat::ArrayRecord if compression != Compression::None => conflict(&compression, "none or zstd"),
            RecordFormat::ArrayRecord if level != Level::default() => Err(FramingConflict::Level { format, level }),
            RecordFormat::ArrayRecord => {
                let group_size = group_size.unwrap_or(ChunkOptions::default().group_size);
                Ok(Self::ArrayRecord(ChunkOptions { group_size, codec }))
            }
        }
    }

    /// Returns the format.
    pub const fn format(self) -> RecordFormat {
        match self {
            Self::TfRecord(..) => RecordFormat::TfRecord,
            Self::ArrayRecord(_) => RecordFormat::ArrayRecord,
        }
    }

    /// Returns how the file contains its records.
    pub const fn container(self) -> Container {
        match self {
            Self::TfRecord(compression, _) => Container::TfRecord(compression),
            Self::ArrayRecord(_) => Container::ArrayRecord,
        }
    }

    /// Returns how the file is compressed as a whole.
    pub const fn compression(self) -> Compression {
        match self {
            Self::TfRecord(compression, _) => compression,
            Self::ArrayRecord(_) => Compression::None,
        }
    }

    /// Returns the chunks of the file, if it has chunks.
    pub const fn chunks(self) -> Option<ChunkOptions> {
        match self {
            Self::TfRecord(..) => None,
            Self::ArrayRecord(chunks) => Some(chunks),
        }
    }

    /// Whether anything is compressed, so that threads have work to share.
    pub fn is_compressed(self) -> bool {
        match self {
            Self::TfRecord(compression, _) => compression != Compression::None,
            Self::ArrayRecord(chunks) => chunks.codec != ChunkCodec::None,
        }
    }

    /// Returns the end of file names: the extension, and the suffix of the compression.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::TfRecord(Compression::None, _) => RecordFormat::TfRecord.extension(),
            Self::TfRecord(Compression::Gzip, _) => ".tfrecord.gz",
            Self::TfRecord(Compression::Zlib, _) => ".tfrecord.deflate",
            Self::ArrayRecord(_) => RecordFormat::ArrayRecord.extension(),
        }
    }
}

impl Default for Framing {
    /// TFRecord, uncompressed.
    fn default() -> Self {
        Compression::None.into()
    }
}

impl From<Compression> for Framing {
    fn from(compression: Compression) -> Self {
        Self::TfRecord(compression, Level::default())
    }
}

impl From<(Compression, Level)> for Framing {
    fn from((compression, level): (Compression, Level)) -> Self {
        Self::TfRecord(compression, level)
    }
}

impl From<ChunkOptions> for Framing {
    fn from(chunks: ChunkOptions) -> Self {
        Self::ArrayRecord(chunks)
    }
}

impl fmt::Display for Framing {
    /// Formats the compression, and for ArrayRecord the format and the chunks: `gzip`, `array_record by 1, zstd`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TfRecord(compression, _) => compression.fmt(f),
            Self::ArrayRecord(ChunkOptions { group_size, codec }) => {
                write!(f, "{} by {group_size}, {codec}", RecordFormat::ArrayRecord)
            }
        }
    }
}

/// A value that another format than the chosen one has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FramingConflict {
    /// The compression.
    #[error("record format {format} with compression {compression}, expected {expected}")]
    Compression {
        /// The format.
        format: RecordFormat,
        /// The compression.
        compression: String,
        /// The compressions of the format.
        expected: &'static str,
    },

    /// A compression level. The default level is that of an option that was not given.
    #[error("record format {format} with level {level}: only gzip and zlib have levels")]
    Level {
        /// The format.
        format: RecordFormat,
        /// The level.
        level: Level,
    },

    /// A number of records of a chunk.
    #[error("record format {format} with a group size: only array_record has groups")]
    GroupSize {
        /// The format.
        format: RecordFormat,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn framing_suffixes_are_those_of_the_format_and_its_compression() {
        for compression in [Compression::None, Compression::Gzip, Compression::Zlib] {
            let expected = format!("{}{}", RecordFormat::TfRecord.extension(), compression.suffix());
            assert_eq!(Framing::from(compression).suffix(), expected);
        }
    }

    #[test]
    fn framing_rejects_values_of_the_other_format() {
        let framing = |format, compression, codec, group_size| {
            Framing::try_new(format, (compression, Level::default()), (codec, NonZeroU32::new(group_size)))
        };
        use RecordFormat::{ArrayRecord, TfRecord};
        let options = ChunkOptions { group_size: NonZeroU32::MIN.saturating_add(6), codec: ChunkCodec::Zstd };
        assert_eq!(framing(ArrayRecord, Compression::None, ChunkCodec::Zstd, 7), Ok(options.into()));
        assert_eq!(framing(ArrayRecord, Compression::None, ChunkCodec::None, 0), Ok(ChunkOptions::default().into()));
        assert_eq!(framing(TfRecord, Compression::Zlib, ChunkCodec::None, 0), Ok(Compression::Zlib.into()));
        let level = Level::try_from(3).unwrap();
        let leveled = Framing::try_new(ArrayRecord, (Compression::None, level), (ChunkCodec::Zstd, None));
        assert_eq!(leveled, Err(FramingConflict::Level { format: ArrayRecord, level }));
        let message = |framing: Result<Framing, FramingConflict>| framing.map_err(|conflict| conflict.to_string());
        insta::assert_debug_snapshot!(
            [
                framing(ArrayRecord, Compression::Gzip, ChunkCodec::None, 1),
                framing(TfRecord, Compression::None, ChunkCodec::Zstd, 0),
                framing(TfRecord, Compression::None, ChunkCodec::None, 1),
            ]
            .map(message),
            @r#"
        [
            Err(
                "record format array_record with compression gzip, expected none or zstd",
            ),
            Err(
                "record format tfrecord with compression zstd, expected none, gzip or zlib",
            ),
            Err(
                "record format tfrecord with a group size: only array_record has groups",
            ),
        ]
        "#
        );
    }
}
