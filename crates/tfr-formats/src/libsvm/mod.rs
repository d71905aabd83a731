//! libsvm and svmlight. Each line has a label, an optional query and pairs of index and value:
//! `1 qid:3 2:0.5 17:1 # comment`.
//!
//! | column | type | |
//! |---|---|---|
//! | `label` | float64, or int64 if declared as `BIGINT` | with `multilabel=true`, `labels`: a list such as `1,3`, or empty |
//! | `qid` | int64 | if the first lines have one, or with `qid=true`; null in lines without |
//! | `indices` | list of int64 | as written; with `index_base=1` decremented, so that the first feature is 0 |
//! | `values` | list of float64 | rounded to the nearest |
//!
//! An integer beyond the digits of a float64 is rejected as a value. As a label it is rejected unless that is declared
//! as `BIGINT`.
//!
//! A file whose name is not conclusive is detected as libsvm if all lines in its first 4 KiB are valid, with indices in
//! ascending order.
//!
//! Indices may be in any order and repeated: nothing is sorted or summed. With `features=N` one column, `features`,
//! replaces the last two: a list of N values, with zeros where the line has none. A repeated index is then an error.
//! Comments and blank lines are skipped.

mod format;
mod line;
mod options;
mod rows;

use std::sync::Arc;

use arrow_schema::Schema;
use datafusion_datasource::file_format::FileFormat;
use tfr_stores::FileNames;

use self::line::Example;
use crate::error::{ErrorKind, Result};
use crate::text::rows::LineFiles;
use tfr_files::scan::ReaderFormat;

pub use options::{IndexBase, LibSvmOptions};

/// Whether a text with this start is libsvm; `is_whole` if the text ends there. Every line must be an example, blank or
/// a comment. Each example must have a label and ascending indices, and some must have indices.
pub(crate) fn begins_so(head: &[u8], is_whole: bool) -> bool {
    let mut lines: Vec<&[u8]> = head.split(|byte| *byte == b'\n').collect();
    // A line cut off at the end of the text is inconclusive.
    if !is_whole
        && let Some(last) = lines.pop()
        && lines.is_empty()
    {
        let end = last.iter().rposition(u8::is_ascii_whitespace).unwrap_or_default();
        lines.push(&last[..end]);
    }
    // Labels may be integers that no float64 equals.
    [false, true].into_iter().any(|whole_labels| are_examples(&lines, whole_labels))
}

fn are_examples(lines: &[&[u8]], whole_labels: bool) -> bool {
    let options = LibSvmOptions { multilabel: true, ..LibSvmOptions::default() };
    let mut example = Example::new(whole_labels);
    let mut pairs = 0;
    for line in lines {
        match example.read(line, &options) {
            Ok(true) => {
                let is_ascending = example.indices.is_sorted_by(|left, right| left < right);
                if !is_ascending || example.labels.len() + example.integers.len() == 0 {
                    return false;
                }
                pairs += example.indices.len();
            }
            Ok(false) => {}
            Err(_) => return false,
        }
    }
    pairs > 0
}

/// Returns the format, with the columns that the user `declared`; `names` determines the files' names in messages.
///
/// # Errors
/// The index of the first feature is unknown.
pub(crate) fn format(
    options: LibSvmOptions,
    names: FileNames,
    declared: Option<&Schema>,
) -> Result<Arc<dyn FileFormat>> {
    if let (Some(count), IndexBase::AsWritten) = (options.features, options.index_base) {
        let expected = "index_base=0 or index_base=1 as well".to_owned();
        return Err(ErrorKind::OptionValue { key: "features".to_owned(), value: count.to_string(), expected }.into());
    }
    Ok(Arc::new(ReaderFormat::new(LineFiles::new(format::LibSvm::new(options, declared), names))))
}
