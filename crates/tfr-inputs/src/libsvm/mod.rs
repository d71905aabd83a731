//! libsvm and svmlight: a label, perhaps a query, and pairs of index and value a line, `1 qid:3 2:0.5 17:1 # comment`.
//!
//! | column | type | |
//! |---|---|---|
//! | `label` | float64 | or, with `multilabel=true`, `labels`: a list of them, `1,3` or none at all |
//! | `qid` | int64 | where the first lines have one, or with `qid=true`; null in lines without |
//! | `indices` | list of int64 | as written; with `index_base=1` one less, so that the first feature is 0 |
//! | `values` | list of float64 | the nearest to what is written |
//!
//! Indices may stand in any order and twice: nothing is sorted or summed. With `features=N` one column, `features`, a
//! list of N values with zeros where the line has none, stands for the last two, and an index that stands twice is an
//! error. Comments and lines that hold nothing else are passed over.

mod format;
mod line;
mod options;
mod rows;

use std::sync::Arc;

use datafusion_datasource::file_format::FileFormat;
use datafusion_tfrecord::directory::FileNames;

use crate::error::{ErrorKind, Result};
use crate::reader::ReaderFormat;
use crate::text::rows::LineFiles;

pub use options::{IndexBase, LibSvmOptions};

/// The format, for files that are named in messages as `names` says; `declared` if the user gave the columns.
///
/// # Errors
/// It is not known which the first feature is.
pub(crate) fn format(options: LibSvmOptions, names: FileNames, declared: bool) -> Result<Arc<dyn FileFormat>> {
    if let (Some(count), IndexBase::AsWritten) = (options.features, options.index_base) {
        let expected = "index_base=0 or index_base=1 beside it".to_owned();
        return Err(ErrorKind::OptionValue { key: "features".to_owned(), value: count.to_string(), expected }.into());
    }
    Ok(Arc::new(ReaderFormat::new(LineFiles::new(format::LibSvm::new(options, declared), names))))
}
