//! Writes the shards of a set.
//!
//! [`SetWriter`](set_writer::SetWriter) appends rows to shards as they come, [`PlannedWriter`](planned_set::PlannedWriter)
//! records that were sorted first. Both leave it to the caller where shards are and on which threads work is done.
//! [`ShardedWriter`](sharded_writer::ShardedWriter) is the caller for local sets without an engine,
//! [`TaskWriter`](task_writer::TaskWriter) for local sets that several processes write.

pub(crate) mod direct_writer;
pub(crate) mod index_lines;
pub(crate) mod index_writer;
pub(crate) mod input_queue;
pub(crate) mod job;
pub(crate) mod open_shards;
pub(crate) mod planned_set;
pub(crate) mod set_writer;
pub(crate) mod shard_writer;
pub(crate) mod sharded_writer;
pub(crate) mod sharding;
pub(crate) mod sorted_writer;
pub(crate) mod task_writer;
pub(crate) mod unit;
