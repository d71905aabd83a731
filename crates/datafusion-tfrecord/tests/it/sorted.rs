//! Sets whose records are in another order than their rows: shuffled, in splits, in directories, or with more shards
//! than can be open.

mod failure;
mod partitions;
mod shards;
mod shuffle;
mod splits;
mod support;
