//! Splits pieces of text into lines.

use std::sync::Arc;

use crate::error::{Error, ErrorKind, FilePlace, Line, Result};

/// Maximum length of a line in bytes; it keeps a batch within 32-bit offsets.
const MAX_LINE_LEN: usize = 256 << 20;

/// Splits text into lines as Hadoop's reader does: each ends with LF, CR or CR LF; the last one may lack its end.
pub(crate) struct Lines {
    file: Arc<str>,
    /// The start of an unfinished line.
    rest: Vec<u8>,
    /// The last line ended with CR, which may be the first half of CR LF.
    after_cr: bool,
    next: Line,
    /// Maximum length of a line in bytes within the memory limit.
    bound: usize,
}

impl Lines {
    /// Splits the lines of `file` from its start, or from the first line after `after_byte`.
    pub(crate) fn new(file: Arc<str>, after_byte: Option<u64>) -> Self {
        Self { file, rest: Vec::new(), after_cr: false, next: Line { number: 1, after_byte }, bound: usize::MAX }
    }

    /// Rejects lines of more than `bound` bytes.
    pub(crate) fn within(mut self, bound: usize) -> Self {
        self.bound = bound;
        self
    }

    /// Passes the lines that end in `piece`, without their ends, to `take` until it returns that it has enough. Returns
    /// how much of the piece was read.
    ///
    /// # Errors
    /// A line is longer than 256 MiB, or `take` fails.
    pub(crate) fn read(&mut self, piece: &[u8], mut take: impl FnMut(&[u8], Line) -> Result<bool>) -> Result<usize> {
        let mut read = 0;
        while read < piece.len() {
            let next = &piece[read..];
            if std::mem::take(&mut self.after_cr) && next[0] == b'\n' {
                read += 1;
                continue;
            }
            let end = memchr::memchr2(b'\n', b'\r', next);
            let len = self.rest.len() + end.unwrap_or(next.len());
            if len > self.bound {
                let place = FilePlace::new(&self.file, self.next);
                return Err(ErrorKind::LongRecord { place, bytes: self.bound as u64 }.into());
            }
            if len > MAX_LINE_LEN {
                let place = FilePlace::new(&self.file, self.next);
                return Err(Error::content(place, "the line is longer than 256 MiB"));
            }
            let Some(end) = end else {
                self.rest.extend_from_slice(next);
                return Ok(piece.len());
            };
            self.after_cr = next[end] == b'\r';
            read += end + 1;
            let go_on = if self.rest.is_empty() {
                take(&next[..end], self.next)?
            } else {
                self.rest.extend_from_slice(&next[..end]);
                let go_on = take(&self.rest, self.next)?;
                self.rest.clear();
                go_on
            };
            self.next.number += 1;
            if !go_on {
                break;
            }
        }
        Ok(read)
    }

    /// Passes on the last line if the text does not end with a line end.
    ///
    /// # Errors
    /// `take` fails.
    pub(crate) fn finish(&mut self, mut take: impl FnMut(&[u8], Line) -> Result<bool>) -> Result<()> {
        if !self.rest.is_empty() {
            take(&self.rest, self.next)?;
            self.rest.clear();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_in_pieces_of_any_size() -> Result<()> {
        let text = b"a\r\n\nb\rc\n\r\rd\r\ne";
        let expected = ["a", "", "b", "c", "", "", "d", "e"];
        for size in 1..=text.len() {
            let mut lines = Lines::new("f".into(), None);
            let mut found = Vec::new();
            let mut take = |line: &[u8], at: Line| {
                found.push((at.number, String::from_utf8_lossy(line).into_owned()));
                Ok(found.len() % 2 == 0)
            };
            for mut piece in text.chunks(size) {
                while !piece.is_empty() {
                    let read = lines.read(piece, &mut take)?;
                    piece = &piece[read..];
                }
            }
            lines.finish(&mut take)?;
            let expected = expected.iter().zip(1..).map(|(line, number)| (number, (*line).to_owned()));
            assert_eq!(found, expected.collect::<Vec<_>>(), "pieces of {size}");
        }
        Ok(())
    }
}
