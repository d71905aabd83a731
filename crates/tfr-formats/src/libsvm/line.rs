//! Parses one line.

use super::options::{IndexBase, LibSvmOptions};
use crate::csv::{is_float, is_in_float_range};

/// Number of characters of a text shown in messages.
const SHOWN_CHARS: usize = 40;

/// The content of a line.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Example {
    /// Whether labels are integers.
    whole_labels: bool,
    pub(super) labels: Vec<f64>,
    /// The labels, if they are integers.
    pub(super) integers: Vec<i64>,
    pub(super) qid: Option<i64>,
    pub(super) indices: Vec<i64>,
    pub(super) values: Vec<f64>,
    /// The position of each index in the line, counted from 0.
    pub(super) positions: Vec<usize>,
}

/// The position of a defect in a line, counted from 0, and its description.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    pub(super) at: usize,
    pub(super) reason: String,
}

impl Example {
    /// Creates an empty example, with integer labels if `whole_labels`.
    pub(super) fn new(whole_labels: bool) -> Self {
        Self { whole_labels, ..Self::default() }
    }

    fn clear(&mut self) {
        self.labels.clear();
        self.integers.clear();
        self.qid = None;
        self.indices.clear();
        self.values.clear();
        self.positions.clear();
    }

    /// Parses a line; returns `false` if it is blank or a comment.
    ///
    /// # Errors
    /// The line is not valid libsvm.
    pub(super) fn read(&mut self, line: &[u8], options: &LibSvmOptions) -> Result<bool, Wrong> {
        self.clear();
        let end = memchr::memchr(b'#', line).unwrap_or(line.len());
        let data = &line[..end];
        let text = std::str::from_utf8(data)
            .map_err(|error| Wrong { at: error.valid_up_to(), reason: "not UTF-8".to_owned() })?;
        let mut words = words(text).peekable();
        let Some((at, first)) = words.peek().copied() else { return Ok(false) };
        if options.multilabel && first.contains(':') {
            // Without any label.
        } else {
            words.next();
            self.read_labels(at, first, options.multilabel)?;
        }
        if let Some((at, word)) = words.peek().copied()
            && let Some(qid) = word.strip_prefix("qid:")
        {
            let number = qid.parse().map_err(|_| wrong(at + 4, "a 64-bit integer behind qid:", qid))?;
            self.qid = Some(number);
            words.next();
        }
        for (at, word) in words {
            self.read_pair(at, word, options.index_base)?;
        }
        Ok(true)
    }

    fn read_labels(&mut self, at: usize, word: &str, many: bool) -> Result<(), Wrong> {
        if !many && word.contains(',') {
            let reason = format!("expected one label, found {:?}; several need multilabel=true", shown(word));
            return Err(Wrong { at, reason });
        }
        let mut at = at;
        for label in word.split(',') {
            if self.whole_labels {
                let integer =
                    label.parse().map_err(|_| wrong(at, "a 64-bit integer as label, as it is declared", label))?;
                self.integers.push(integer);
            } else {
                let number = float(label).ok_or_else(|| wrong(at, "a number as label", label))?;
                if !is_float(label, number) {
                    return Err(rounded(at, label, "declare the label as BIGINT in CREATE EXTERNAL TABLE"));
                }
                self.labels.push(number);
            }
            at += label.len() + 1;
        }
        Ok(())
    }

    fn read_pair(&mut self, at: usize, word: &str, base: IndexBase) -> Result<(), Wrong> {
        let (index, value) = word.split_once(':').ok_or_else(|| wrong(at, "index:value", word))?;
        let number: i64 = index.parse().map_err(|_| wrong(at, "an integer as index", index))?;
        let first = i64::from(base == IndexBase::One);
        if number < first {
            let reason = format!("expected an index from {first} on, found {number}");
            return Err(Wrong { at, reason });
        }
        self.indices.push(number - first);
        self.positions.push(at);
        let value_at = at + index.len() + 1;
        let number = float(value).ok_or_else(|| wrong(value_at, "a number as value", value))?;
        if !is_float(value, number) {
            return Err(rounded(value_at, value, "append .0 to accept the nearest"));
        }
        self.values.push(number);
        Ok(())
    }
}

/// Returns the words of a text with their positions.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let start = text.as_ptr() as usize;
    text.split_ascii_whitespace().map(move |word| (word.as_ptr() as usize - start, word))
}

/// Parses a number; `None` if it is beyond the range of a float64.
fn float(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value| is_in_float_range(text, *value))
}

/// Returns the error for an integer that no float64 equals.
fn rounded(at: usize, text: &str, way_out: &str) -> Wrong {
    Wrong { at, reason: format!("no Float64 is {}: {way_out}", shown(text)) }
}

fn wrong(at: usize, expected: &str, found: &str) -> Wrong {
    Wrong { at, reason: format!("expected {expected}, found {:?}", shown(found)) }
}

fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str, options: &LibSvmOptions) -> Result<Option<Example>, Wrong> {
        let mut example = Example::default();
        Ok(example.read(line.as_bytes(), options)?.then_some(example))
    }

    #[test]
    fn libsvm_lines_are_parsed() -> Result<(), Wrong> {
        let plain = LibSvmOptions::default();
        let found = read(" -1.5\tqid:7 3:0.5  1:-2e3 3:0 # why", &plain)?;
        let expected = Example {
            labels: vec![-1.5],
            integers: vec![],
            whole_labels: false,
            qid: Some(7),
            indices: vec![3, 1, 3],
            values: vec![0.5, -2000.0, 0.0],
            positions: vec![12, 19, 26],
        };
        assert_eq!(found, Some(expected));
        assert_eq!(read("", &plain)?, None);
        assert_eq!(read("  # 1 1:1", &plain)?, None);
        assert_eq!(read("+1", &plain)?.map(|example| example.labels), Some(vec![1.0]));
        let one = LibSvmOptions { index_base: IndexBase::One, ..LibSvmOptions::default() };
        assert_eq!(read("0 1:1 5:1", &one)?.map(|example| example.indices), Some(vec![0, 4]));
        let many = LibSvmOptions { multilabel: true, ..LibSvmOptions::default() };
        assert_eq!(read("1,3 1:1", &many)?.map(|example| example.labels), Some(vec![1.0, 3.0]));
        assert_eq!(read(" 1:1", &many)?.map(|example| (example.labels, example.indices)), Some((vec![], vec![1])));
        Ok(())
    }

    #[test]
    fn libsvm_line_errors_report_the_position() {
        let plain = LibSvmOptions::default();
        let one = LibSvmOptions { index_base: IndexBase::One, ..LibSvmOptions::default() };
        for (line, options, at, reason) in [
            ("python 2:2.5", &plain, 0, "expected a number as label, found \"python\""),
            ("1:2 2:2.5", &plain, 0, "expected a number as label, found \"1:2\""),
            ("1,2 2:2.5", &plain, 0, "expected one label, found \"1,2\"; several need multilabel=true"),
            ("1 2:x", &plain, 4, "expected a number as value, found \"x\""),
            ("1 2:1e999", &plain, 4, "expected a number as value, found \"1e999\""),
            ("1 2:1 3", &plain, 6, "expected index:value, found \"3\""),
            ("1 a:1", &plain, 2, "expected an integer as index, found \"a\""),
            ("1 -2:1", &plain, 2, "expected an index from 0 on, found -2"),
            ("1 0:1", &one, 2, "expected an index from 1 on, found 0"),
            ("1 qid:x", &plain, 6, "expected a 64-bit integer behind qid:, found \"x\""),
            (
                "9007199254740993 1:1",
                &plain,
                0,
                "no Float64 is 9007199254740993: declare the label as BIGINT in CREATE EXTERNAL TABLE",
            ),
            ("1 1:-9007199254740993", &plain, 4, "no Float64 is -9007199254740993: append .0 to accept the nearest"),
            ("1 1:1 qid:1", &plain, 6, "expected an integer as index, found \"qid\""),
        ] {
            assert_eq!(read(line, options), Err(Wrong { at, reason: reason.to_owned() }), "{line}");
        }
    }
}
