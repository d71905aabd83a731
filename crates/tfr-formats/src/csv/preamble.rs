//! Lines before the records of a CSV file: those counted by `skip_lines`, and `sep=;`, which specifies the delimiter
//! for Excel.

use bytes::{Buf, Bytes, BytesMut};
use futures::{StreamExt, TryStreamExt};

use super::options::CsvOptions;
use crate::error::Result;
use crate::text::TextStream;

/// Maximum length of `"sep=;"` with its line end.
const DIRECTIVE_LEN: usize = 16;

/// The position at which the records of a file begin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Start {
    /// Number of lines before them.
    pub(super) lines: u64,
    /// The delimiter that the first line specifies, if it is a directive.
    pub(super) delimiter: Option<u8>,
    /// The byte from which lines are counted, if not the start of the file.
    pub(super) after_byte: Option<u64>,
}

/// Removes the lines before the records from the text of a file.
pub(super) async fn start(mut text: TextStream, options: &CsvOptions) -> Result<(TextStream, Start)> {
    let mut head = BytesMut::new();
    while head.len() < DIRECTIVE_LEN {
        match text.try_next().await? {
            Some(piece) => head.extend_from_slice(&piece),
            None => break,
        }
    }
    let mut piece = head.freeze();
    let delimiter = directive(&piece);
    let lines = options.skip_lines.max(usize::from(delimiter.is_some()));
    let mut left = lines;
    let mut after_cr = false;
    // Read one byte past the lines to skip: a CR may be the first half of a CR LF.
    while left > 0 || after_cr {
        if piece.is_empty() {
            match text.try_next().await? {
                Some(next) => piece = next,
                None => break,
            }
            continue;
        }
        if std::mem::take(&mut after_cr) {
            if piece[0] == b'\n' {
                piece.advance(1);
            }
            continue;
        }
        let end = match options.terminator {
            Some(terminator) => memchr::memchr(terminator, &piece),
            None => memchr::memchr2(b'\n', b'\r', &piece),
        };
        match end {
            Some(end) => {
                after_cr = options.terminator.is_none() && piece[end] == b'\r';
                piece.advance(end + 1);
                left -= 1;
            }
            None => piece.clear(),
        }
    }
    let rest = futures::stream::once(std::future::ready(Ok(piece))).chain(text).boxed();
    Ok((rest, Start { lines: lines as u64, delimiter, after_byte: None }))
}

/// Returns the delimiter that a first line `sep=;` specifies, quoted or not.
fn directive(head: &Bytes) -> Option<u8> {
    let line = head.split(|byte| matches!(byte, b'\r' | b'\n')).next().filter(|line| line.len() < head.len())?;
    let line = line.strip_prefix(b"\"").and_then(|line| line.strip_suffix(b"\"")).unwrap_or(line);
    match line {
        [s, e, p, b'=', delimiter] if [*s, *e, *p].eq_ignore_ascii_case(b"sep") && delimiter.is_ascii() => {
            Some(*delimiter)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn rest(text: &'static str, piece: usize, options: &CsvOptions) -> Result<(String, Start)> {
        let pieces: Vec<_> = text.as_bytes().chunks(piece).map(|piece| Ok(Bytes::from_static(piece))).collect();
        let (text, start) = start(futures::stream::iter(pieces).boxed(), options).await?;
        let rest: Vec<Bytes> = text.try_collect().await?;
        Ok((String::from_utf8(rest.concat()).expect("UTF-8"), start))
    }

    #[tokio::test]
    async fn lines_before_the_records_are_skipped() -> Result<()> {
        for (text, skip_lines, expected, delimiter) in [
            ("a,b\n1,2\n", 0, "a,b\n1,2\n", None),
            ("one\r\n\r\"three\nfour\na\n", 4, "a\n", None),
            ("one\r\na\n", 1, "a\n", None),
            ("one\r\n\na\n", 1, "\na\n", None),
            ("one", 3, "", None),
            ("sep=;\r\na;b\n", 0, "a;b\n", Some(b';')),
            ("\"SEP=\t\"\na\tb\n", 0, "a\tb\n", Some(b'\t')),
            ("sep=|\nnote\na|b\n", 2, "a|b\n", Some(b'|')),
            ("sep=;;\na\n", 0, "sep=;;\na\n", None),
            ("sep=;", 0, "sep=;", None),
        ] {
            let options = CsvOptions { skip_lines, ..CsvOptions::default() };
            for piece in 1..=text.len() {
                let (rest, start) = rest(text, piece, &options).await?;
                assert_eq!((rest.as_str(), start.delimiter), (expected, delimiter), "{text:?} in pieces of {piece}");
            }
        }
        let options = CsvOptions { terminator: Some(b'|'), skip_lines: 1, ..CsvOptions::default() };
        assert_eq!(rest("x\ny|a,b|1,2", 3, &options).await?.0, "a,b|1,2");
        Ok(())
    }
}
