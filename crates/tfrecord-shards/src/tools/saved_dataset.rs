//! [`SavedDataset`]: the number of records that a saved dataset of `tf.data` records in its metadata.

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::error::{AtPath, Finding, FindingKind, Result};
use crate::tools::inputs::InputFile;

/// The name of the file with the metadata: a `tensorflow.data.experimental.SnapshotMetadataRecord`.
const METADATA_NAME: &str = "snapshot.metadata";

/// Longest metadata that is read. It has some bytes for each component of an element.
const MAX_LEN: u64 = 1 << 20;

/// A saved dataset of `tf.data`, or a snapshot: `snapshot.metadata` next to a directory with the files of a run.
///
/// An element is written as a record for each of its components, and no file records how many it has. So a file that is
/// cut where a record ends is a valid, shorter one; only the metadata contains the number of elements.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SavedDataset {
    /// The metadata file.
    metadata: PathBuf,
    /// The directory with the files.
    run: PathBuf,
    elements: u64,
    /// Number of records of each element.
    components: u64,
}

impl SavedDataset {
    /// Reads the metadata, if `file` is a metadata file that records the number of elements. Unfinished snapshots and
    /// those of old versions of TensorFlow do not.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn read(file: &InputFile) -> Result<Option<Self>> {
        if file.named || file.path.file_name().is_none_or(|name| name != METADATA_NAME) || file.len > MAX_LEN {
            return Ok(None);
        }
        let mut content = Vec::new();
        file.open()?.take(MAX_LEN).read_to_end(&mut content).at("read", &file.path)?;
        Ok(Self::parse(&file.path, &content))
    }

    fn parse(path: &Path, content: &[u8]) -> Option<Self> {
        let mut fields = Fields(content);
        let (mut run, mut elements, mut components, mut is_final) = (None, 0, 0, false);
        // The numbers are those of `tensorflow/core/protobuf/snapshot.proto`.
        while !fields.0.is_empty() {
            match fields.next()? {
                (2, Value::Bytes(name)) => run = Some(std::str::from_utf8(name).ok()?),
                (5, Value::Bytes(packed)) => {
                    let mut dtypes = Fields(packed);
                    while !dtypes.0.is_empty() {
                        dtypes.varint()?;
                        components += 1;
                    }
                }
                (5, Value::Number(_)) => components += 1,
                (6, Value::Number(count)) => elements = count,
                (1000, Value::Number(flag)) => is_final = flag != 0,
                _ => {}
            }
        }
        let run = run.filter(|run| !run.is_empty() && !run.contains('/') && *run != "..")?;
        let is_counted = is_final && components > 0 && elements > 0 && i64::try_from(elements).is_ok();
        let run = path.parent()?.join(run);
        is_counted.then(|| Self { metadata: path.to_owned(), run, elements, components })
    }

    /// Whether a file is one of the run.
    pub(crate) fn contains(&self, file: &Path) -> bool {
        file.starts_with(&self.run)
    }

    /// Compares the number of records in the files of the run.
    pub(crate) fn compare(&self, found: u64) -> Option<Finding> {
        let Self { elements, components, .. } = *self;
        let kind = FindingKind::SavedElements { elements, components, found };
        (elements.saturating_mul(components) != found).then(|| Finding::new(&self.metadata, kind))
    }
}

/// The fields of an encoded protocol buffer.
struct Fields<'a>(&'a [u8]);

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Fixed,
}

impl<'a> Fields<'a> {
    /// Returns the next field with its number. `None` if it is malformed.
    fn next(&mut self) -> Option<(u64, Value<'a>)> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Number(self.varint()?),
            1 => self.take(8).map(|_| Value::Fixed)?,
            2 => {
                let len = usize::try_from(self.varint()?).ok()?;
                Value::Bytes(self.take(len)?)
            }
            5 => self.take(4).map(|_| Value::Fixed)?,
            _ => return None,
        };
        Some((tag >> 3, value))
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.take(1)?.first()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `tf.data.Dataset.save` writes it: ten elements of an int64 and a double.
    const WRITTEN: &[u8] = b"\x12\x011\x18\x01\x20\x02\x2a\x02\x09\x02\x30\x0a\xc0\x3e\x01";

    #[test]
    fn the_number_of_elements_is_read() {
        let found = SavedDataset::parse(Path::new("d/snapshot.metadata"), WRITTEN).unwrap();
        assert_eq!((found.elements, found.components, found.run.as_path()), (10, 2, Path::new("d/1")));
        assert!(
            found.contains(Path::new("d/1/00000000.shard/00000000.snapshot")) && !found.contains(Path::new("d/12/x"))
        );
        assert!(found.compare(20).is_none());
        let text = found.compare(19).unwrap().to_string();
        assert_eq!(
            text,
            "d/snapshot.metadata: records 10 elements, which are 20 records, and its files have 19 records"
        );
    }

    #[test]
    fn metadata_without_a_number_is_not_compared() {
        let unfinished = &WRITTEN[..WRITTEN.len() - 3];
        let unknown = [b"\x12\x011\x2a\x01\x09\x30".as_slice(), &[0xff; 9], b"\x01\xc0\x3e\x01"].concat();
        for content in [b"".as_slice(), unfinished, &unknown, b"\x12\x01", b"\xff\xff", &WRITTEN[3..]] {
            assert_eq!(SavedDataset::parse(Path::new("d/snapshot.metadata"), content), None, "{content:?}");
        }
    }
}
