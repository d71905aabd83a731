//! Writing: executes a plan and publishes its rows as a shard set.
//!
//! | option | input partitions | write partitions | assignment of rows to shards |
//! |---|---|---|---|
//! | a number of shards | `P` | `P`, which write every shard together | round-robin in blocks, the same number of rows to each shard |
//! | a shard size or a number of rows per shard | `P` | `P` | each partition fills one shard after the other |
//! | ordered | one | one | contiguous: ranges of equal length, or one shard after the other |
//! | shuffled, splits, directories, or a number of hosts | `P`, or one if ordered | as many | all partitions sort the records together, then each group is cut |
//! | a number of shards that cannot all be open | `P` | `P` | round-robin as above; all partitions sort the records by shard |
//!
//! In the first case the number of shards is exact whatever the partitions contain, and rows are not hashed. The cost
//! is that partitions advance together: one that yields few rows for much work delays the others until it ends.
//!
//! Records are sorted with [`tfrecord_shards::sort`]: in memory that is reserved with the engine as spillable, then in the
//! engine's temporary files. The shards never depend on batch sizes, threads or the speed of partitions: they follow from
//! the rows of each input partition, in their order.
//!
//! # Where work is done
//! The engine's threads run the query, cut its rows into blocks and wait. Encoding, checksums and compression run on
//! a separate pool, with a bounded number of jobs for each partition, whose results are taken in order. One partition
//! can thus use every core. Files are synced on blocking threads, a bounded number at a time.
//!
//! # Sidecar files
//! [`WriteOptions::emit`] requests files for other readers. The encoding jobs gather statistics of each write
//! partition, in the order of its rows. Indexes are written together with their shards. The committer creates the
//! files when the shards have names. All of this is part of the commit.
//!
//! # Rejected rows
//! With [`WriteOptions::rejects`], a [`FittingRowsExec`] is below the write node. What follows sees only rows that can be
//! written, so that every assignment of rows to shards is that of a query without the others. It costs that values are
//! converted twice; nothing is checked without the option.
//!
//! # Object stores
//! If the target is a prefix in an object store, shards are multipart uploads to their final keys, completed after
//! all rows have been uploaded; [`tfrecord_shards::objects`] describes the protocol. The store must be one of the
//! session's [`UploadStores`](tfr_stores::UploadStores).
//!
//! Parts are 8 MiB. Parts being filled take up to a quarter of the engine's memory, at most 1 GiB, and beyond that
//! wait in its temporary files. An upload left by a killed process, or one whose creation was never answered, cannot
//! be found through `object_store`. A lifecycle rule of the bucket removes it (on S3
//! `AbortIncompleteMultipartUpload`; Azure does so by itself).
//!
//! # Failure
//! An error or panic anywhere ends the run with an error. Dropping the stream ends it without one. Partitions that
//! sort together end each other. In all cases, jobs that have not started are skipped, and running jobs are waited
//! for. All staged data is removed with the last job.

mod attempt_store;
mod barrier;
mod commit;
mod describe;
mod exec;
mod expected;
mod fitting;
mod metrics;
mod observe;
mod options;
mod partition;
mod plan;
mod rejects;
mod report;
mod run;
mod running;
mod sealing;
mod shards;
mod shared;
mod sorted;
mod staging;
mod target;
mod task_reports;
mod task_staging;
mod tasks;
mod units;
mod upload;

pub use commit::{TfRecordCommitExec, WriteOutcome};
pub use exec::TfRecordWriteExec;
pub use expected::ExpectedSet;
pub use fitting::FittingRowsExec;
pub use options::{Layout, SplitOptions, WriteOptions};
pub use plan::{
    fitting_rows, local_inputs, plan_tasks, plan_write, record_schema, reproducible, shards_to_count_for, spread,
};
pub use rejects::{RejectTable, Rejects, reject_schema};
pub use shared::{SharedWrite, UploadLeftovers, remove_upload_leftovers};
pub use sorted::TemporaryDirectory;
pub use target::WriteTarget;
pub use tasks::{Detached, TaskOutcome, TaskProgress, TaskStep};
pub use tfrecord_sidecars::snapshot::SnapshotNulls;
pub use tfrecord_sidecars::{Emit, SidecarKind};
