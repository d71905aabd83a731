//! [`Plan`]: what a reader reads, and in which order.

use std::sync::Arc;

use crate::dataset::DataSet;
use crate::order::Order;
use crate::segment::Decoding;

/// The batches of a reader.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) data: Arc<DataSet>,
    pub(crate) decoding: Decoding,
    pub(crate) order: Order,
    /// Which of the rank's steps this reader has.
    pub(crate) worker: u64,
    pub(crate) workers: u64,
    pub(crate) threads: usize,
}
