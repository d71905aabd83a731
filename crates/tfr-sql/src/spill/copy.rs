//! Copies of pipes.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use tfrecord_framing::crc32c;

use super::checksums::{BLOCK, Checksums};

/// Bytes read from a pipe at a time: what Linux allows a pipe to contain.
const PIECE: usize = 1 << 20;

/// Writes a pipe, of which `head` has been read, to the new file `copy` at `path`. Returns the number of bytes.
///
/// The file is closed and read again, because on some file systems a full disk shows only then.
pub fn copy_pipe(head: &[u8], mut rest: File, mut copy: File, path: &Path) -> io::Result<u64> {
    let mut checksums = Checksums::default();
    let mut write = |bytes: &[u8]| {
        checksums.append(bytes);
        copy.write_all(bytes)
    };
    write(head)?;
    let mut buffer = vec![0; PIECE];
    loop {
        match rest.read(&mut buffer) {
            Ok(0) => break,
            Ok(len) => write(buffer.get(..len).unwrap_or_default())?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    drop(copy);
    compare(path, &checksums)?;
    Ok(checksums.len())
}

/// Compares a file with what was written to it.
fn compare(path: &Path, checksums: &Checksums) -> io::Result<()> {
    let damaged = |problem: String| Err(io::Error::new(io::ErrorKind::InvalidData, problem));
    let file = File::open(path)?;
    let (found, expected) = (file.metadata()?.len(), checksums.len());
    if found != expected {
        return damaged(format!("the copy has {found} bytes of the {expected} that were written"));
    }
    let mut buffer = vec![0; usize::try_from(BLOCK).unwrap_or(usize::MAX)];
    let mut start = 0;
    while let Some((end, checksum)) = checksums.block(start) {
        let len = usize::try_from(end - start).unwrap_or(usize::MAX).min(buffer.len());
        let block = buffer.get_mut(..len).unwrap_or_default();
        file.read_exact_at(block, start)?;
        if crc32c(block) != checksum {
            return damaged(format!("bytes {start} to {end} of the copy are not those that were written"));
        }
        start = end;
    }
    Ok(())
}
