//! How libsvm files are read.

use crate::text::{Compression, Encoding};

/// How libsvm files are read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LibSvmOptions {
    /// What the first feature is numbered.
    pub index_base: IndexBase,
    /// How many features there are, if a row is to have a value for each.
    pub features: Option<usize>,
    /// Whether a line may have several labels, or none.
    pub multilabel: bool,
    /// Whether lines have a query; `None`: told from the first lines of each file.
    pub qid: Option<bool>,
    /// The encoding of the text.
    pub encoding: Encoding,
    /// The compression; `None`: told from the content of each file.
    pub compression: Option<Compression>,
}

/// What the first feature is numbered in the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IndexBase {
    /// Nobody knows; indices are left as they are.
    #[default]
    AsWritten,
    /// 0.
    Zero,
    /// 1, as libsvm itself has it; indices are made one less.
    One,
}
