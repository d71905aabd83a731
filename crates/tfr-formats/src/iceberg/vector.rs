//! Reads deletion vectors: [`deletion-vector-v1`](https://iceberg.apache.org/puffin-spec/#deletion-vector-v1-blob-type)
//! in Puffin files. Manifests record where they are.

use crc_fast::{CrcAlgorithm::Crc32IsoHdlc, checksum};
use datafusion_common::Result;
use tfr_files::DeletedRows;

use super::manifest::Entry;
use super::meta_of;
use crate::error::{Error, TableError};
use crate::table::Place;
use crate::table::bitmap::deleted_rows;

/// The bytes of a length or a checksum.
const WORD: usize = 4;

/// Reads the deleted rows of a data file from its vector.
///
/// # Errors
/// The vector cannot be read, or does not have the length, the checksum or the number of rows that are recorded.
pub(super) async fn read(place: &Place, vector: &Entry, file: &Entry) -> Result<DeletedRows> {
    let (name, from) = (place.name(&file.path), place.name(&vector.path));
    let damaged = |reason: String| Error::from(TableError::deletion_vector(&name, &from, &reason));
    let meta = meta_of(place, vector).await?;
    let (start, length) = vector.blob.ok_or_else(|| damaged("its manifest does not record where it is".to_owned()))?;
    let end = start.checked_add(length).filter(|end| *end <= meta.size);
    let end = end.ok_or_else(|| damaged(format!("it ends behind the {} bytes of its file", meta.size)))?;
    let bytes = place.read_range(&vector.path, start..end).await?;
    let rows = rows(&bytes).map_err(damaged)?;
    match rows.count() == vector.records {
        true => Ok(rows),
        false => {
            Err(damaged(format!("it has {} rows, but its manifest records {}", rows.count(), vector.records)).into())
        }
    }
}

/// Reads the rows in a vector. The error is a description of the defect.
fn rows(bytes: &[u8]) -> Result<DeletedRows, String> {
    let word = |bytes: &[u8]| <[u8; WORD]>::try_from(bytes).map(u32::from_be_bytes).ok();
    let parts = bytes.split_at_checked(WORD).and_then(|(length, rest)| {
        let (contents, sum) = rest.split_at_checked(rest.len().checked_sub(WORD)?)?;
        Some((word(length)?, contents, word(sum)?))
    });
    let (length, contents, sum) = parts.ok_or("it is cut off")?;
    if length as usize != contents.len() {
        return Err(format!("it has {length} bytes, but its manifest records {}", contents.len()));
    }
    match checksum(Crc32IsoHdlc, contents) {
        found if found == u64::from(sum) => deleted_rows(contents),
        found => Err(format!("its checksum is {found:08x}, but {sum:08x} is recorded")),
    }
}
