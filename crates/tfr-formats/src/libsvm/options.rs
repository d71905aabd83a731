//! Options for libsvm files.

use crate::text::{Compression, Encoding};

/// Options for libsvm files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LibSvmOptions {
    /// The index of the first feature.
    pub index_base: IndexBase,
    /// The number of features, if a row should have a value for each.
    pub features: Option<usize>,
    /// Whether a line may have several labels, or none.
    pub multilabel: bool,
    /// Whether lines have a query; `None`: detected from the first lines of each file.
    pub qid: Option<bool>,
    /// The encoding of the text.
    pub encoding: Encoding,
    /// The compression; `None`: detected from the content of each file.
    pub compression: Option<Compression>,
}

/// The index of the first feature in the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IndexBase {
    /// Unknown; indices are kept unchanged.
    #[default]
    AsWritten,
    /// 0.
    Zero,
    /// 1, as in libsvm itself; indices are decremented.
    One,
}
