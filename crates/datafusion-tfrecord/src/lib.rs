//! TFRecord support for Apache DataFusion: read files of `tf.train.Example` records as tables, and write query
//! results as TFRecord shards. A write publishes either all shards or none.
//!
//! ```text
//! any plan -> TfRecordWriteExec -> [CoalescePartitionsExec] -> TfRecordCommitExec
//! ```
//!
//! | task | use |
//! |---|---|
//! | Read TFRecord files as a table | [`read::open()`] with [`ReadOptions`] |
//! | Write the result of a plan | [`plan_write`] with [`WriteOptions`], then run the [`TfRecordCommitExec`] |
//! | Write to an object store | [`write::WriteTarget`], and the store registered in the session's [`UploadStores`](tfr_stores::UploadStores) |
//! | Run `COPY (SELECT ...) TO 'shards/' STORED AS TFRECORD` | [`TfRecordFormatFactory`], registered with the session |
//! | Get identical shards from identical input | [`reproducible`] on the session's configuration |
//! | Parse these options from text and print their help | [`options`] |
//! | Handle records, tensors and images in SQL | [`functions`] |
//!
//! Shards are staged where readers do not see them, and published together after the last row is on disk; see
//! [`tfrecord_shards`] for the protocol. [`mod@write`] describes how rows are assigned to shards, [`mod@read`] how
//! files become tables.

mod error;
mod format;
pub mod functions;
pub mod options;
pub mod read;
pub mod write;

pub use error::{Error, ErrorKind, RowSplitsConflict};
pub use format::{TfRecordFormat, TfRecordFormatFactory};
pub use read::ReadOptions;
pub use read::similar::similar;
pub use write::{
    SplitOptions, TemporaryDirectory, TfRecordCommitExec, TfRecordWriteExec, WriteOptions, plan_write, reproducible,
};
