//! What the sorter must do, written down with everything in memory.

use std::collections::BTreeMap;

use tfrecord_framing::append_record;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::super::{EqualRecords, PlannedShard, SortKey};
use crate::write::sharding::{ShardCut, ShardRanges, ShardRule, Sharding};

/// A record and its key.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) key: SortKey,
    pub(super) frame: Vec<u8>,
}

impl Record {
    pub(super) fn new(key: SortKey, payload: &[u8]) -> Self {
        let mut frame = Vec::new();
        append_record(&mut frame, |out| {
            out.extend_from_slice(payload);
            Ok::<_, std::convert::Infallible>(())
        })
        .unwrap();
        Self { key, frame }
    }

    /// With a key and a group that are made of hashes of the payload.
    pub(super) fn hashed(payload: &[u8], key: impl Fn(u64) -> u64, group: impl Fn(u64) -> u32) -> Self {
        let key = key(xxh3_64_with_seed(payload, 1));
        Self::new(SortKey::new(group(xxh3_64(payload)), key), payload)
    }
}

/// An Example of a text and a number, the latter only if it is not 0.
pub(super) fn example(text: &[u8], number: u32) -> Vec<u8> {
    let field = |tag: u8, content: &[&[u8]]| {
        let content = content.concat();
        let len = u8::try_from(content.len()).unwrap();
        // Of two bytes, if need be.
        let len = if len < 128 { vec![len] } else { vec![len, 1] };
        [[tag].as_slice(), &len, &content].concat()
    };
    let entry = |name: &[u8], kind: u8, value: &[u8]| {
        let list = field(kind, &[&field(0x0a, &[value])]);
        field(0x0a, &[&field(0x0a, &[name]), &field(0x12, &[&list])])
    };
    let text = entry(b"text", 0x0a, text);
    let number = if number == 0 { Vec::new() } else { entry(b"number", 0x1a, &[u8::try_from(number).unwrap()]) };
    field(0x0a, &[&text, &number])
}

/// Every other group is cut by rows, so that rules differ between groups.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut(Sharding);

impl Cut {
    pub(super) fn new(sharding: Sharding) -> Self {
        Self(sharding)
    }

    pub(super) fn sharding(self, group: u32) -> Sharding {
        if group % 2 == 1 { Sharding::Rows(5) } else { self.0 }
    }
}

/// All records in their final order.
pub(super) fn sorted(records: &[Record], equal: EqualRecords) -> Vec<Record> {
    let mut records = records.to_vec();
    if let EqualRecords::Spread { seed } = equal {
        let mut seen: BTreeMap<(SortKey, Vec<u8>), u64> = BTreeMap::new();
        for record in &mut records {
            let number = seen.entry((record.key, record.frame.clone())).or_default();
            if *number > 0 {
                let bytes = [record.key.key().to_le_bytes().as_slice(), &number.to_le_bytes()].concat();
                let seed = seed ^ u64::from_be_bytes(*b"\0tfrcopy");
                record.key = SortKey::new(record.key.group(), xxh3_64_with_seed(&bytes, seed));
            }
            *number += 1;
        }
    }
    records.sort_by(|one, other| {
        (one.key, one.frame.len(), &one.frame).cmp(&(other.key, other.frame.len(), &other.frame))
    });
    records
}

/// Every shard with its bytes.
pub(super) fn expected_shards(records: &[Record], equal: EqualRecords, cut: Cut) -> Vec<(PlannedShard, Vec<u8>)> {
    let sorted = sorted(records, equal);
    let mut shards = Vec::new();
    for records in sorted.chunk_by(|one, next| one.key.group() == next.key.group()) {
        let group = records[0].key.group();
        let (mut rule, shards_at_least) = match cut.sharding(group) {
            Sharding::Count(count) => (ShardRule::Ranges(ShardRanges::new(count, records.len() as u64)), count.get()),
            Sharding::Rows(max) => (ShardRule::Cut(ShardCut::at_rows(max)), 1),
            Sharding::Bytes(max) => (ShardRule::Cut(ShardCut::at_bytes(max)), 1),
            Sharding::Hosts(_) => panic!("not asked for here"),
        };
        let mut bytes = vec![(0, Vec::new()); shards_at_least];
        for record in records {
            let piece = rule.place(1, |_| record.frame.len()).remove(0);
            bytes.resize(bytes.len().max(piece.shard + 1), (0, Vec::new()));
            bytes[piece.shard].0 += 1;
            bytes[piece.shard].1.extend_from_slice(&record.frame);
        }
        let of = bytes.len() as u32;
        shards.extend(
            (0..).zip(bytes).map(|(index, (rows, bytes))| {
                (PlannedShard { group, index, of, rows, bytes: bytes.len() as u64 }, bytes)
            }),
        );
    }
    shards
}
