//! Writing: from a plan that yields rows to a published set of shards.
//!
//! | | input partitions | write partitions | a row's shard |
//! |---|---|---|---|
//! | a number of shards | `P` | `min(P, N)`, below them a [`DealExec`] | dealt in blocks, the same number of rows to each |
//! | a size or a number of rows for each shard | `P` | `P` | each partition fills one shard after the other |
//! | ordered | one | one | contiguous: ranges of equal length, or one shard after the other |
//! | shuffled, in splits, in directories, or for hosts | `P`, or one if ordered | as many | all partitions sort the records together, then each group is cut |
//! | a number of shards that cannot all be open | `P` | `P` | as dealt; all partitions sort the records by shard |
//!
//! The number of shards is exact in the first case, whatever the partitions hold, without hashing rows; why so, and what
//! it costs, is told at [`DealExec`]. Records are sorted with [`tfrecord_shards::sort`]: in memory that is booked with the engine
//! as what can be spilled, and past that in its temporary files. In no case do batch sizes, threads or the speed of partitions show in the shards:
//! they follow from the rows of each input partition, in their order.
//!
//! # Where work is done
//! The engine's threads run the query, cut its rows to blocks and wait. Encoding, checksums and compression run on a pool
//! of their own, a bounded number of jobs for each partition, whose results are taken in order; so one partition can
//! use every core. Files are synced on blocking threads, a bounded number at a time.
//!
//! # Beside the shards
//! [`WriteOptions::emit`] asks for files for other readers. Statistics of each write partition are gathered by the jobs that encode,
//! in the order of its rows; indexes are written while their shards are; the committer makes the files when the shards have names. All
//! of it is part of the commit.
//!
//! # Object stores
//! Where the target is a prefix of an object store, shards are multipart uploads to their final keys, which are completed
//! when all rows are in them: what is decided then is told at [`tfrecord_shards::objects`]. The store must be one of the
//! session's [`UploadStores`](tfr_files::stores::UploadStores). Parts are 8 MiB, and those that are being filled take up to a quarter of the
//! engine's memory, 1 GiB at most; past that they wait in its temporary files. An upload that a killed process has left, or
//! whose beginning was never answered, cannot be found through `object_store`: a lifecycle rule of the bucket removes it (on
//! S3 `AbortIncompleteMultipartUpload`; Azure does so by itself).
//!
//! # When something fails
//! Errors and panics, wherever they happen, end the run with an error, and a stream that is dropped ends it without one.
//! Partitions that sort together end each other. Either way, jobs that have not started are skipped, those that have are waited for, and with the last one goes
//! everything that was staged.

mod commit;
mod deal;
mod describe;
mod exec;
mod metrics;
mod observe;
mod options;
mod partition;
mod plan;
mod report;
mod run;
mod running;
mod sealing;
mod sorted;
mod staging;
mod target;
mod unit_writer;
mod units;
mod upload;

pub use commit::{TfRecordCommitExec, WriteOutcome};
pub use deal::{DealExec, SHARD_COLUMN};
pub use exec::TfRecordWriteExec;
pub use options::{Layout, SplitOptions, WriteOptions};
pub use plan::{local_inputs, plan_write, record_schema, reproducible, spread};
pub use target::WriteTarget;
pub use tfrecord_sidecars::snapshot::SnapshotNulls;
pub use tfrecord_sidecars::{Emit, SidecarKind};
