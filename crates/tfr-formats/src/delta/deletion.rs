//! Reads deletion vectors, which are in the log or in files.

use crc_fast::{CrcAlgorithm::Crc32IsoHdlc, checksum};
use datafusion_common::Result as EngineResult;
use tfr_files::DeletedRows;

use super::actions::DeletionVector;
use crate::error::TableError;
use crate::table::Place;
use crate::table::bitmap::{decode_z85, deleted_rows};

/// The Z85 digits of a UUID.
const UUID: usize = 20;

/// The bytes of a length or a checksum in a file of vectors.
const WORD: usize = 4;

/// Where the first vector of a file begins, after the version of the format.
const FIRST: u64 = 1;

/// Reads the deleted rows of a data file, which messages call `file`.
///
/// # Errors
/// The vector cannot be read, or does not have the size, the checksum or the number of rows that are recorded.
pub(super) async fn read(place: &Place, vector: &DeletionVector, file: &str) -> EngineResult<DeletedRows> {
    let damaged = |from: &str, reason: String| crate::Error::from(TableError::deletion_vector(file, from, &reason));
    let (from, bytes) = match vector.storage_type.as_str() {
        "i" => {
            let bytes = decode_z85(&vector.path_or_inline_dv);
            let mut bytes = bytes.ok_or_else(|| damaged("the log", "it is not Z85".to_owned()))?;
            // The encoding has groups of four bytes.
            let size = usize::try_from(vector.size_in_bytes).unwrap_or(usize::MAX);
            if bytes.len().checked_sub(size).is_none_or(|padding| padding >= WORD) {
                let reason = format!("it has {} bytes, but the log records {size}", bytes.len());
                return Err(damaged("the log", reason).into());
            }
            bytes.truncate(size);
            ("the log".to_owned(), bytes)
        }
        "u" | "p" => {
            let path = match vector.storage_type.as_str() {
                "p" => place.resolve(&vector.path_or_inline_dv)?,
                _ => {
                    let relative = relative(&vector.path_or_inline_dv);
                    place.resolve(
                        &relative.ok_or_else(|| damaged("the log", "its file has no valid name".to_owned()))?,
                    )?
                }
            };
            let from = place.name(&path);
            let start = vector.offset.unwrap_or(FIRST);
            let length = vector.size_in_bytes.saturating_add(2 * WORD as u64);
            let end = start.checked_add(length).ok_or_else(|| damaged(&from, format!("its offset is {start}")))?;
            if place.head(&path).await?.is_none() {
                return Err(damaged(&from, "there is no such file".to_owned()).into());
            }
            let bytes = place.read_range(&path, start..end).await?;
            let word = |bytes: &[u8]| <[u8; WORD]>::try_from(bytes).map(u32::from_be_bytes).ok();
            let parts = bytes.split_at_checked(WORD).and_then(|(size, rest)| {
                let (vector, sum) = rest.split_at_checked(rest.len().checked_sub(WORD)?)?;
                Some((word(size)?, vector, word(sum)?))
            });
            let (size, contents, sum) = parts.ok_or_else(|| damaged(&from, "it is cut off".to_owned()))?;
            if u64::from(size) != vector.size_in_bytes || contents.len() as u64 != vector.size_in_bytes {
                let reason = format!("it has {size} bytes, but the log records {}", vector.size_in_bytes);
                return Err(damaged(&from, reason).into());
            }
            let found = checksum(Crc32IsoHdlc, contents);
            if found != u64::from(sum) {
                return Err(damaged(&from, format!("its checksum is {found:08x}, but {sum:08x} is recorded")).into());
            }
            (from, contents.to_vec())
        }
        other => return Err(damaged("the log", format!("its storage type is {other:?}")).into()),
    };
    let rows = deleted_rows(&bytes).map_err(|reason| damaged(&from, reason))?;
    match rows.count() == vector.cardinality {
        true => Ok(rows),
        false => {
            let reason = format!("it has {} rows, but the log records {}", rows.count(), vector.cardinality);
            Err(damaged(&from, reason).into())
        }
    }
}

/// Returns the path of a file of vectors: a random prefix and a UUID.
fn relative(text: &str) -> Option<String> {
    let (prefix, uuid) = text.split_at_checked(text.len().checked_sub(UUID)?)?;
    let uuid: String = decode_z85(uuid)?.iter().map(|byte| format!("{byte:02x}")).collect();
    let groups: Option<Vec<_>> =
        [0..8, 8..12, 12..16, 16..20, 20..32].into_iter().map(|group| uuid.get(group)).collect();
    let name = format!("deletion_vector_{}.bin", groups?.join("-"));
    let is_plain = prefix.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    match prefix {
        "" => Some(name),
        _ if is_plain => Some(format!("{prefix}/{name}")),
        _ => None,
    }
}
