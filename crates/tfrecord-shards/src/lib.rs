//! A TFRecord data set as one directory of shards, which is there whole or not at all.
//!
//! A TFRecord file has no footer: cut at a record's end it is a valid, shorter file, and a model trained on it is worse
//! without anybody knowing why. So shards are staged where no reader looks, and a set becomes visible with its last
//! shard, its [`Manifest`] and an empty `_SUCCESS`, all in one step.
//!
//! | you want | use |
//! |---|---|
//! | record batches in, a set of shards out | [`ShardedWriter`] |
//! | one shard, from framed records | [`ShardWriter`] |
//! | to spread rows over shards yourself | [`ShardRule`], [`ShardDeal`], [`ShardCut`], [`ShardRanges`] |
//! | to give every key to one split | [`Splits`], [`key_hashes`] |
//! | to stage shards from many tasks and publish them together | [`LocalCommit`], [`OpenShards`] |
//! | to add rows to a set | [`SaveMode::Append`], [`Manifest::check_append`] |
//! | shards in `key=value` directories, or in splits | [`ShardGroup`] |
//! | to know whether a directory is a whole set | [`check`], [`Manifest::read`] |
//! | to know all that is wrong with files and sets | [`verify`](fn@verify) |
//! | the sound records of damaged ones in a new set | [`salvage`] |
//! | other shards of the same records, which are not decoded | [`reshard`] |
//! | files beside the shards that are of the set | [`Sidecar`], [`LocalCommit::publish_with`], [`put_sidecars`] |
//! | an index that tells where each record is | [`index`](fn@index) |
//! | to see what killed runs have left, and to remove it | [`leftovers`], [`remove_leftovers`] |
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
//! The crate is synchronous and writes to the local file system only. [`objects`] holds the decisions of a commit to an
//! object store, for who does the input and output.

mod append;
pub mod commit;
mod error;
mod filler;
mod finding;
mod form;
mod frames;
mod group;
mod index;
mod input;
mod job;
mod leftovers;
mod local;
mod manifest;
mod names;
pub mod objects;
mod open_shards;
mod progress;
mod rewrite;
mod schema;
mod shard_writer;
mod sharding;
mod sidecar;
pub mod sort;
mod sorted_filler;
mod split;
mod staging;
mod stored;
mod survey;
mod table_staging;
mod target;
mod uncached;
mod verify;
mod writer;

pub use commit::{Leftover, SaveMode, SetState, StagedShard, StagedUpload, check_prefix};
pub use error::{Error, ErrorKind, Result, SidecarsError};
pub use finding::{Finding, FindingKind, ShardFigures};
pub use form::FormDifference;
pub use group::{NULL_PARTITION, ShardGroup, ShardPlace};
pub use index::{Index, IndexName, Indexing, index};
pub use input::{files, is_sidecar};
pub use leftovers::{RemovedLeftovers, leftovers, remove_leftovers};
#[doc(hidden)]
pub use local::Capabilities;
pub use local::{LocalCommit, Removal, ShardFile};
pub use manifest::{
    AppendedRun, Disagreement, FORMAT_VERSION, FormatVersion, Manifest, OFFSET_INTERVAL, RecordOffset, SNAPSHOT_RUN,
    SetDescription, SetLayout, ShardEntry, SplitDescription, Totals,
};
pub use names::{
    MANIFEST_NAME, ObjectNames, ParseRunIdError, ParseShardNameError, RunId, SUCCESS_NAME, ShardName, is_table_part,
};
pub use open_shards::{OpenShard, OpenShards, ShardSinks};
pub use progress::Progress;
pub use rewrite::{Reshard, RewriteOptions, Salvage, reshard, salvage};
pub use schema::{FieldDescription, SchemaDescription};
pub use shard_writer::{ShardStats, ShardWriter};
pub use sharding::{Block, Piece, ShardCut, ShardDeal, ShardRanges, ShardRule, Sharding};
pub use sidecar::{IndexFile, Sidecar, SidecarEntry, StagedIndex, put_sidecars};
pub use split::{KeyTypeError, ParseSplitsError, Splits, check_key_type, key_hashes, record_hash};
pub use stored::{FileStore, Input, StoredFiles};
pub use table_staging::TableStaging;
pub use target::{Preflight, check, guarded, preflight};
pub use verify::{Verification, verify};
pub use writer::{ShardedWriter, ShardedWriterBuilder};
