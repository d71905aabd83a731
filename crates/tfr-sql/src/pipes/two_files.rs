//! Detects two Parquet or Arrow files behind each other in the copy of a pipe: `cat a.parquet b.parquet`.
//!
//! Such a file is read from its end, and the last footer lists the rows of the last file alone. The positions in it are
//! counted from where that file begins. So what it lists ends as far before the footer as there are bytes of other files.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use arrow::ipc::root_as_footer;
use datafusion::parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};

const PARQUET: &[u8] = b"PAR1";
const ARROW: &[u8] = b"ARROW1";

/// Lengths of the marker between the messages of an Arrow file and its footer, by versions.
const ARROW_ENDS: [u64; 3] = [8, 4, 0];

/// Returns the name of the format if the file consists of several files.
pub(super) fn find(path: &Path) -> io::Result<Option<&'static str>> {
    let file = File::open(path)?;
    let len = file.metadata()?.len();
    // A file of another format, or a damaged one, which its reader reports.
    if let Some(start) = footer_start(&file, len, PARQUET)?
        && let Ok(metadata) = ParquetMetaDataReader::new().parse_and_finish(&file)
    {
        let gap = start.saturating_sub(end_of_parquet(&metadata));
        return Ok(is_seam(&file, gap, PARQUET)?.then_some("Parquet"));
    }
    if let Some(start) = footer_start(&file, len, ARROW)? {
        let Some(end) = end_of_arrow(&file, start, len)? else { return Ok(None) };
        for marker in ARROW_ENDS {
            if is_seam(&file, start.saturating_sub(end.saturating_add(marker)), ARROW)? {
                return Ok(Some("Arrow"));
            }
        }
    }
    Ok(None)
}

/// Returns where the footer begins, if the file begins and ends with the magic number.
fn footer_start(file: &File, len: u64, magic: &[u8]) -> io::Result<Option<u64>> {
    let trailer = 4 + magic.len() as u64;
    if len < 2 * trailer || read(file, 0, magic.len())? != magic {
        return Ok(None);
    }
    let end = read(file, len - trailer, 4 + magic.len())?;
    let Some((size, found)) = end.split_first_chunk::<4>() else { return Ok(None) };
    let start = (len - trailer).checked_sub(u32::from_le_bytes(*size).into());
    Ok(start.filter(|_| found == magic))
}

/// Whether one file ends and another one begins at `at`.
fn is_seam(file: &File, at: u64, magic: &[u8]) -> io::Result<bool> {
    let Some(start) = at.checked_sub(magic.len() as u64) else { return Ok(false) };
    Ok(read(file, start, 2 * magic.len())? == [magic, magic].concat())
}

fn read(file: &File, at: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    match file.read_exact_at(&mut bytes, at) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Vec::new()),
        read => read.map(|()| bytes),
    }
}

/// Returns where the last thing that a footer lists ends.
fn end_of_parquet(metadata: &ParquetMetaData) -> u64 {
    let range = |start: Option<i64>, len: Option<i64>| {
        let (start, len) = (u64::try_from(start?).ok()?, u64::try_from(len?).ok()?);
        Some(start.saturating_add(len))
    };
    let columns = metadata.row_groups().iter().flat_map(|group| group.columns());
    let ends = columns.flat_map(|column| {
        let pages = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
        let listed = [
            range(Some(pages), Some(column.compressed_size())),
            range(column.column_index_offset(), column.column_index_length().map(i64::from)),
            range(column.offset_index_offset(), column.offset_index_length().map(i64::from)),
            range(column.bloom_filter_offset(), column.bloom_filter_length().map(i64::from)),
        ];
        listed.into_iter().flatten()
    });
    ends.max().unwrap_or(PARQUET.len() as u64)
}

/// Returns where the last message that a footer lists ends; `None` if it lists none.
fn end_of_arrow(file: &File, start: u64, len: u64) -> io::Result<Option<u64>> {
    let size = usize::try_from(len - start).unwrap_or(usize::MAX).saturating_sub(4 + ARROW.len());
    let bytes = read(file, start, size)?;
    let Ok(footer) = root_as_footer(&bytes) else { return Ok(None) };
    let blocks = [footer.dictionaries(), footer.recordBatches()].into_iter().flatten().flatten();
    let ends = blocks.filter_map(|block| {
        let lengths = [block.offset(), block.metaDataLength().into(), block.bodyLength()];
        lengths.into_iter().map(|length| u64::try_from(length).ok()).try_fold(0u64, |sum, next| sum.checked_add(next?))
    });
    Ok(ends.max())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use arrow::ipc::writer::FileWriter;
    use datafusion::parquet::arrow::ArrowWriter;

    use super::*;

    fn batch(rows: i64) -> RecordBatch {
        RecordBatch::try_from_iter([("id", Arc::new(Int64Array::from_iter_values(0..rows)) as ArrayRef)]).unwrap()
    }

    fn parquet(rows: i64) -> Vec<u8> {
        let mut writer = ArrowWriter::try_new(Vec::new(), batch(rows).schema(), None).unwrap();
        writer.write(&batch(rows)).unwrap();
        writer.into_inner().unwrap()
    }

    fn arrow(rows: i64) -> Vec<u8> {
        let mut writer = FileWriter::try_new(Vec::new(), &batch(rows).schema()).unwrap();
        writer.write(&batch(rows)).unwrap();
        writer.finish().unwrap();
        writer.into_inner().unwrap()
    }

    #[test]
    fn concatenated_files_are_detected() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("copy");
        let found = |parts: &[Vec<u8>]| {
            fs::write(&path, parts.concat()).unwrap();
            find(&path).unwrap()
        };
        let (one, other) = (parquet(3_000), parquet(7));
        assert_eq!(found(&[one.clone(), other.clone()]), Some("Parquet"));
        assert_eq!(found(&[one.clone(), other.clone(), one.clone()]), Some("Parquet"));
        assert_eq!(found(std::slice::from_ref(&one)), None);
        let (one, other) = (arrow(5), arrow(9_000));
        assert_eq!(found(&[one.clone(), other.clone()]), Some("Arrow"));
        assert_eq!(found(&[other.clone(), one.clone()]), Some("Arrow"));
        assert_eq!(found(&[other]), None);
        for text in
            [&b""[..], b"PAR1", b"PAR1PAR1", b"PAR1\xff\xff\xff\xffPAR1", b"ARROW1\0\0\x04\0\0\0ARROW1", b"a,b\n"]
        {
            assert_eq!(found(&[text.to_vec()]), None, "{text:?}");
        }
    }
}
