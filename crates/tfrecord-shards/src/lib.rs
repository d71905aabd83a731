//! A TFRecord data set as one directory of shards, published completely or not at all.
//!
//! A TFRecord file has no footer. A file that is truncated at a record boundary is a valid, shorter file, and a model
//! trained on it is silently worse. So shards are staged where no reader looks. The last shard, the [`Manifest`] and an
//! empty `_SUCCESS` then become visible in a single step.
//!
//! | task | use |
//! |---|---|
//! | write record batches as a shard set | [`ShardedWriter`] |
//! | write one shard from framed records | [`ShardWriter`] |
//! | assign rows to shards yourself | [`ShardRule`], [`ShardDeal`], [`ShardCut`], [`ShardRanges`] |
//! | assign every key to one split | [`Splits`], [`key_hashes`] |
//! | stage shards from many tasks and publish them together | [`LocalCommit`], [`OpenShards`] |
//! | the same from many processes or machines | [`ShardedWriterBuilder::start`], [`StagingArea`] |
//! | write the shards of a set on your own threads or to your own store | [`SetWriter`], [`PlannedWriter`], [`Destination`], [`SetCommit`] |
//! | append rows to a set | [`SaveMode::Append`], [`Manifest::check_append`] |
//! | replace partitions of a set | [`SaveMode::OverwritePartitions`] |
//! | group shards in `key=value` directories or splits | [`ShardGroup`] |
//! | check whether a directory is a complete set | [`check`], [`Manifest::read`] |
//! | report every defect of files and sets | [`verify`](fn@verify) |
//! | copy the intact records of damaged files to a new set | [`salvage`] |
//! | distribute records over other shards without decoding them | [`reshard`] |
//! | publish sidecar files with the shards | [`Sidecar`], [`LocalCommit::publish_with`], [`put_sidecars`] |
//! | write an index of record offsets | [`index`](fn@index) |
//! | count records and divide files between readers | [`count_records`], [`count_intact`] |
//! | write a table in another format, all or nothing | [`TableCommit`] |
//! | list and remove the files that killed runs left behind | [`leftovers`], [`remove_leftovers`] |
//!
//! ```
//! use std::sync::Arc;
//! use arrow_array::{ArrayRef, Float32Array, Int64Array, RecordBatch};
//! use tfrecord_shards::{SetState, ShardedWriterBuilder, Sharding, check};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let out = dir.path().join("shards");
//! let batch = RecordBatch::try_from_iter([
//!     ("label", Arc::new(Int64Array::from(vec![0, 1, 1])) as ArrayRef),
//!     ("price", Arc::new(Float32Array::from(vec![Some(9.5), None, Some(0.25)]))),
//! ])?;
//! let mut writer = ShardedWriterBuilder::new(batch.schema()).with_sharding(Sharding::Rows(2)).build(&out)?;
//! writer.write(&batch)?;
//! writer.finish()?;
//!
//! let SetState::Whole(manifest) = check(&out)? else { return Err("something is missing".into()) };
//! let shards: Vec<_> = manifest.shards.iter().map(|shard| (shard.path.as_str(), shard.rows)).collect();
//! assert_eq!(shards, [("part-00000-of-00002.tfrecord", 2), ("part-00001-of-00002.tfrecord", 1)]);
//! # Ok(())
//! # }
//! ```
//!
//! The crate is synchronous and writes to the local file system only. [`objects`] makes the decisions of a commit to an
//! object store; the caller does the input and output.

mod commit;
mod error;
mod set;
pub mod sort;
mod split;
mod tools;
mod write;

pub use commit::attempt_id::{AttemptId, ParseAttemptIdError};
pub use commit::destination::{Destination, MakeSidecars, SetCommit, ShardSink, SharedPlace, TaskAttempt};
pub use commit::leftovers::{RemovedLeftovers, leftovers, remove_leftovers};
#[doc(hidden)]
pub use commit::local::Capabilities;
pub use commit::local::{LocalCommit, Removal};
pub use commit::put_sidecars::put_sidecars;
pub use commit::report::{TaskReport, choose_reports, sound_reports};
pub use commit::settling::Settling;
pub use commit::shard_file::ShardFile;
pub use commit::shared_staging::SharedStaging;
pub use commit::staging_area::StagingArea;
#[doc(hidden)]
pub use commit::step::Step;
pub use commit::table::{TableCommit, TableFiles};
pub use commit::target::{Preflight, check, preflight};
pub use commit::{Leftover, SaveMode, SetState, StagedShard, StagedUpload, check_prefix, objects};
pub use error::{AttemptError, Error, ErrorKind, Finding, FindingKind, Result, SidecarsError};
pub use set::difference::{FormDifference, ShardFigures};
pub use set::file_names::{is_array_record, is_hidden, is_record_file, is_sidecar, is_sidecar_of_table};
pub use set::format_version::{FORMAT_VERSION, FormatVersion};
pub use set::group::{NULL_PARTITION, ShardGroup, ShardPlace};
pub use set::manifest::{
    AppendedRun, ChunkDescription, Disagreement, Manifest, OFFSET_INTERVAL, RecordOffset, RejectedRows, SNAPSHOT_RUN,
    SetDescription, SetLayout, ShardEntry, SplitDescription, Totals,
};
pub use set::names::{ObjectNames, ParseRunIdError, ParseShardNameError, RunId, ShardName};
pub use set::parts::MissingParts;
pub use set::schema::{FieldDescription, SchemaDescription};
pub use set::sidecar::{IndexName, Sidecar, SidecarEntry, StagedIndex};
pub use set::{MANIFEST_NAME, SUCCESS_NAME};
pub use split::{
    KeyTypeError, ParseSplitsError, RowSplits, RowSplitsError, Splits, check_key_type, check_split_name, key_hashes,
    record_hash,
};
pub use tools::count_records::{CountedFile, array_record_footer, count_intact, count_records, record_bounds};
pub use tools::index::{Index, Indexing, index};
pub use tools::inputs::{files, set_directories};
pub use tools::progress::Progress;
pub use tools::rewrite::{Reshard, RewriteOptions, Salvage, reshard, salvage};
pub use tools::stored::{FileStore, Input, ReadSeek, StoredFiles};
pub use tools::verify::{Verification, verify};
pub use write::index_writer::IndexFile;
pub use write::open_shards::{OpenShard, OpenShards};
pub use write::planned_set::{PlannedNames, PlannedSet, PlannedWriter};
pub use write::set_writer::{Rest, SetWriter, WriteListener, Written};
pub use write::shard_writer::{ShardStats, ShardWriter};
pub use write::sharded_writer::{ShardedWriter, ShardedWriterBuilder};
pub use write::sharding::{Block, Piece, ShardCut, ShardDeal, ShardRanges, ShardRule, Sharding};
pub use write::task_writer::TaskWriter;
pub use write::unit::{UnitRecords, UnitSize};
