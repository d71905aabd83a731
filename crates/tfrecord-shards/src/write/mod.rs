//! Writes the shards of a set: assigns rows to shards, holds the open shards, and
//! [`ShardedWriter`](sharded_writer::ShardedWriter).

pub(crate) mod direct_writer;
pub(crate) mod index_lines;
pub(crate) mod index_writer;
pub(crate) mod job;
pub(crate) mod open_shards;
pub(crate) mod shard_writer;
pub(crate) mod sharded_writer;
pub(crate) mod sharding;
pub(crate) mod sorted_writer;
