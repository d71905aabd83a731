//! TFRecord for Apache DataFusion: files of `tf.train.Example` are tables, and query results become shards of them, all
//! of them or none.
//!
//! ```text
//! any plan -> [DealExec] -> TfRecordWriteExec -> [CoalescePartitionsExec] -> TfRecordCommitExec
//! ```
//!
//! | you want | use |
//! |---|---|
//! | TFRecord files as a table | [`read::open()`] with [`ReadOptions`] |
//! | to write the result of a plan | [`plan_write`] with [`WriteOptions`], then run the [`TfRecordCommitExec`] |
//! | the set in an object store | [`write::WriteTarget`], and the store among the session's [`UploadStores`](tfr_files::stores::UploadStores) |
//! | `COPY (SELECT ...) TO 'shards/' STORED AS TFRECORD` | [`TfRecordFormatFactory`], registered with the session |
//! | the same shards again from the same input | [`reproducible`] on the session's configuration |
//! | the options of all this as text, with their help | [`options`] |
//! | records, tensors and images in SQL | [`functions`] |
//!
//! Shards are staged where no reader looks and published together when the last row is on disk; see
//! [`tfrecord_shards`] for the protocol. [`mod@write`] tells how rows find their shard, [`mod@read`] how files become tables.

mod error;
mod format;
pub mod functions;
pub mod options;
pub mod read;
pub mod write;

pub use error::{Error, ErrorKind};
pub use format::{TfRecordFormat, TfRecordFormatFactory};
pub use read::ReadOptions;
pub use write::{
    DealExec, SplitOptions, TfRecordCommitExec, TfRecordWriteExec, WriteOptions, plan_write, reproducible,
};
