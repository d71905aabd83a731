//! Validates the lengths in a message before anything is allocated for its body.

use arrow_ipc::{CompressionType, RecordBatch};

use super::refusal::{Refusal, damaged};

/// Maximum compression ratio: a zstd block of 4 bytes expands to at most 128 KiB, a byte of LZ4 to 255.
const MAX_ZSTD_RATIO: u64 = 32 << 10;
const MAX_LZ4_RATIO: u64 = 255;

/// Length of the prefix of a compressed buffer, which is its decompressed length.
const PREFIX_LEN: usize = 8;

/// Rejects lengths that are negative, beyond the body, or more than the bytes can decompress to. Returns the lengths of
/// the buffers, decompressed.
pub(super) fn batch(batch: &RecordBatch<'_>, body: &[u8]) -> Result<Vec<u64>, Refusal> {
    let rows = batch.length();
    if !(0..=i64::from(i32::MAX)).contains(&rows) {
        return damaged(format!("a batch of {rows} rows"));
    }
    for node in batch.nodes().into_iter().flatten() {
        let (len, nulls) = (node.length(), node.null_count());
        if !(0..=i64::from(i32::MAX)).contains(&len) || !(0..=len).contains(&nulls) {
            return damaged(format!("a column of {len} values, {nulls} of them null"));
        }
    }
    let compression = batch.compression().map(|compression| compression.codec());
    let mut lengths = Vec::new();
    for buffer in batch.buffers().into_iter().flatten() {
        let (offset, len) = (buffer.offset(), buffer.length());
        let range = usize::try_from(offset).ok().zip(usize::try_from(len).ok());
        let range = range.and_then(|(offset, len)| Some(offset..offset.checked_add(len)?));
        let Some(bytes) = range.and_then(|range| body.get(range)) else {
            return damaged(format!("a buffer of {len} bytes at byte {offset} of a body of {} bytes", body.len()));
        };
        let (Some(codec), false) = (compression, bytes.is_empty()) else {
            lengths.push(bytes.len() as u64);
            continue;
        };
        let ratio = if codec == CompressionType::LZ4_FRAME { MAX_LZ4_RATIO } else { MAX_ZSTD_RATIO };
        let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX_LEN>() else {
            return damaged(format!("a compressed buffer of {} bytes", bytes.len()));
        };
        let unpacked = i64::from_le_bytes(*prefix);
        let most = ratio.saturating_mul(rest.len() as u64);
        lengths.push(match unpacked {
            // Not compressed.
            -1 => rest.len() as u64,
            _ => match u64::try_from(unpacked).ok().filter(|unpacked| *unpacked <= most) {
                Some(unpacked) => unpacked,
                None => return damaged(format!("{} bytes cannot be decompressed to {unpacked}", rest.len())),
            },
        });
    }
    Ok(lengths)
}
