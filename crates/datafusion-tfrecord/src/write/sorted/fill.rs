//! [`Fill`]: first phase of the sort. Encodes rows and adds the records with their keys to the sorter.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_tfrecord::RecordBuffer;
use datafusion_common::{Result, resources_err};
use datafusion_execution::SendableRecordBatchStream;
use futures::{TryStreamExt, pin_mut};
use tfrecord_shards::sort::SortKey;
use tfrecord_shards::{Block, ShardDeal, UnitSize};

use super::Sorting;
use super::arrangement::{GroupRule, RecordOrder};
use crate::write::metrics::{SortMetrics, WriteMetrics};
use crate::write::observe::RowEncoder;
use crate::write::run::Run;
use crate::write::units::{PartitionPlace, Unit, units};

/// Adds the rows of one write partition to the sorter.
pub(super) struct Fill {
    sorting: Arc<Sorting>,
    place: PartitionPlace,
    encoder: RowEncoder,
    size: Arc<UnitSize>,
    metrics: WriteMetrics,
    sort_metrics: SortMetrics,
}

/// Records and their sort keys.
struct KeyedUnit {
    keys: Vec<SortKey>,
    records: RecordBuffer,
}

impl Fill {
    pub(super) fn new(
        sorting: Arc<Sorting>,
        place: PartitionPlace,
        encoder: RowEncoder,
        metrics: WriteMetrics,
        sort_metrics: SortMetrics,
    ) -> Self {
        let size = Arc::new(UnitSize::new(sorting.unit_bytes));
        Self { sorting, place, encoder, size, metrics, sort_metrics }
    }

    /// Adds all rows, and returns their number.
    pub(super) async fn run(self, run: &Arc<Run>, input: SendableRecordBatchStream) -> Result<u64> {
        let this = Arc::new(self);
        let mut deal = match this.sorting.arrangement.order {
            RecordOrder::RoundRobin { shards } => Some(this.place.deal(shards)),
            RecordOrder::Kept | RecordOrder::Shuffled { .. } => None,
        };
        let pushed = units(input, Arc::clone(&this.size))
            .map_ok(|unit| {
                let this = Arc::clone(&this);
                let dealt = deal.as_mut().map(|deal| blocks(deal, &unit)).unwrap_or_default();
                // In one job, since the encoded records are in the caches of the thread that encoded them.
                run.compute(move |_| {
                    let unit = this.encode(&unit, &dealt)?;
                    this.push(unit)
                })
            })
            .try_buffered(run.window(this.place.partitions));
        pin_mut!(pushed);
        let mut rows = 0;
        while let Some(more) = pushed.try_next().await? {
            rows += more;
        }
        Ok(rows)
    }

    fn encode(&self, unit: &Unit, blocks: &[Block]) -> Result<KeyedUnit> {
        let _timer = self.metrics.elapsed_compute.timer();
        let arrangement = &self.sorting.arrangement;
        let rows = unit.batches.iter().map(RecordBatch::num_rows).sum();
        let (mut records, reserved) = self.sorting.inputs.buffer(|| self.size.buffer(rows));
        let mut groups = Vec::new();
        for rows in &unit.batches {
            let start = records.len();
            let first_row = unit.rows_before + start as u64;
            let columns = arrangement.records(rows)?;
            let encoded = self.encoder.encode(&columns, first_row, &mut records);
            encoded.map_err(|error| self.place.encode_error(error, first_row))?;
            if let GroupRule::Columns { partitions, splits } = &arrangement.groups {
                let of_rows = self.sorting.groups.of((partitions, splits.as_ref()), rows, (&records, start), first_row);
                groups.append(&mut of_rows.map_err(|error| self.place.locate(error))?);
            }
        }
        self.size.note(&records);
        self.sort_metrics.rows_encoded.add(records.len());
        self.sorting.inputs.reserve(reserved, &records);
        let group = |record| groups.get(record).copied().unwrap_or(0);
        let keys = match arrangement.order {
            RecordOrder::Shuffled { seed } => {
                let key = |record| SortKey::shuffled(group(record), records.payload(record), seed);
                (0..records.len()).map(key).collect()
            }
            RecordOrder::Kept => {
                let first = input_order_key(self.place.partition, unit.rows_before, records.len())?;
                (first..).zip(0..records.len()).map(|(key, record)| SortKey::new(group(record), key)).collect()
            }
            RecordOrder::RoundRobin { .. } => {
                let mut keys = Vec::with_capacity(records.len());
                for block in blocks {
                    let first = round_robin_key(block, self.place.partition)?;
                    // Planning ensures that there are fewer shards.
                    let shard = u32::try_from(block.shard).unwrap_or(u32::MAX);
                    keys.extend((first..).take(block.rows).map(|key| SortKey::new(shard, key)));
                }
                keys
            }
        };
        Ok(KeyedUnit { keys, records })
    }

    fn push(&self, KeyedUnit { keys, records }: KeyedUnit) -> Result<u64> {
        let _timer = self.metrics.elapsed_compute.timer();
        let rows = keys.len() as u64;
        self.sorting.inputs.push(&keys, records)?;
        Ok(rows)
    }
}

/// Bits of a key for the partition, if keys represent the order of rows.
const PARTITION_BITS: u32 = 20;

/// Bits below them for the row in its partition, if the input order is preserved.
const ROW_BITS: u32 = u64::BITS - PARTITION_BITS;

/// The same for round-robin assignment: bits for the row in the partition's block. The round is above the partition.
const IN_TURN_BITS: u32 = ShardDeal::MAX_BLOCK.ilog2();

/// Returns the key of the first of `rows` rows in input order: by partition, then row.
fn input_order_key(partition: u32, first: u64, rows: usize) -> Result<u64> {
    let behind = first.saturating_add(rows as u64);
    if partition >> PARTITION_BITS > 0 || behind >> ROW_BITS > 0 {
        return resources_err!(
            "row {behind} of write partition {partition} cannot be sorted: at most 2^{PARTITION_BITS} partitions of fewer \
             than 2^{ROW_BITS} rows can be"
        );
    }
    Ok(u64::from(partition) << ROW_BITS | first)
}

/// Returns the key of the first row of a block: by round, then partition, then position in the partition's block.
fn round_robin_key(Block { round, start, .. }: &Block, partition: u32) -> Result<u64> {
    const ROUND_BITS: u32 = ROW_BITS - IN_TURN_BITS;
    if partition >> PARTITION_BITS > 0 || round >> ROUND_BITS > 0 || start >> IN_TURN_BITS > 0 {
        return resources_err!(
            "round {round} of write partition {partition} cannot be sorted: at most 2^{PARTITION_BITS} partitions of \
             2^{ROUND_BITS} rounds can be"
        );
    }
    Ok((round << PARTITION_BITS | u64::from(partition)) << IN_TURN_BITS | *start as u64)
}

/// Assigns the rows of a unit to blocks.
fn blocks(deal: &mut ShardDeal, unit: &Unit) -> Vec<Block> {
    let mut left = usize::try_from(unit.rows()).unwrap_or(usize::MAX);
    let mut blocks = Vec::new();
    while left > 0 {
        let block = deal.deal_block(left);
        left -= block.rows;
        blocks.push(block);
    }
    blocks
}
