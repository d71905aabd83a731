//! Sets whose records stand in another order than the rows came: shuffled, in splits, in directories, in more shards than
//! can be open.

mod failure;
mod partitions;
mod shards;
mod shuffle;
mod splits;
mod support;
