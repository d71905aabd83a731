//! The format of the shards of a set, in its manifest: [`ChunkDescription`], and the way from and to [`Framing`].

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};
use tfrecord_framing::array_record::{ChunkCodec, ChunkOptions};
use tfrecord_framing::{Compression, Container, Framing, Level, RecordFormat};

use super::{Manifest, SetDescription};
use crate::set::scalar;

/// Key of the compression level in [`SetDescription::options`].
const LEVEL_OPTION: &str = "level";

impl SetDescription {
    /// Sets the format of the shards and their compression, and records its level among the options.
    pub fn set_framing(&mut self, framing: Framing) {
        self.framing = framing;
        match framing {
            Framing::TfRecord(compression, level) if compression != Compression::None => {
                self.options.insert(LEVEL_OPTION.to_owned(), level.get().into());
            }
            _ => {
                self.options.remove(LEVEL_OPTION);
            }
        }
    }
}

impl Manifest {
    /// Returns the format of the shards and their compression, with the default level.
    pub fn framing(&self) -> Framing {
        match self.record_format {
            RecordFormat::TfRecord => Framing::TfRecord(self.compression, Level::default()),
            RecordFormat::ArrayRecord => Framing::ArrayRecord(self.chunks.unwrap_or_default().into()),
        }
    }

    /// Returns how the shards contain their records.
    pub fn container(&self) -> Container {
        self.framing().container()
    }
}

/// The chunks of ArrayRecord shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ChunkDescription {
    /// Number of records of a chunk; the last one of a shard may have fewer.
    pub group_size: NonZeroU32,
    /// How each chunk is compressed.
    #[serde(with = "scalar::text")]
    pub compression: ChunkCodec,
}

impl Default for ChunkDescription {
    fn default() -> Self {
        ChunkOptions::default().into()
    }
}

impl From<ChunkOptions> for ChunkDescription {
    fn from(ChunkOptions { group_size, codec }: ChunkOptions) -> Self {
        Self { group_size, compression: codec }
    }
}

impl From<ChunkDescription> for ChunkOptions {
    fn from(ChunkDescription { group_size, compression }: ChunkDescription) -> Self {
        Self { group_size, codec: compression }
    }
}

/// Whether a value need not be stored.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
