//! Records of a file, whatever has become of its frames, and frames around them again.

use std::convert::Infallible;

use tfrecord_framing::{FOOTER_LEN, HEADER_LEN, append_record};

/// Payloads as the lengths in the headers say, as far as there are bytes; checksums are passed over.
pub fn records(mut file: &[u8]) -> Vec<&[u8]> {
    let mut records = Vec::new();
    while let Some((header, rest)) = file.split_first_chunk::<HEADER_LEN>() {
        let len = header.first_chunk().map(|len| u64::from_le_bytes(*len)).and_then(|len| usize::try_from(len).ok());
        let (record, rest) = rest.split_at(len.unwrap_or(usize::MAX).min(rest.len()));
        records.push(record);
        file = rest.get(FOOTER_LEN..).unwrap_or_default();
    }
    records
}

pub fn framed(records: &[&[u8]]) -> Vec<u8> {
    let mut file = Vec::new();
    for record in records {
        let Ok(()) = append_record(&mut file, |payload| {
            payload.extend_from_slice(record);
            Ok::<_, Infallible>(())
        });
    }
    file
}
