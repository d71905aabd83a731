//! [`ShardedWriter`](tfrecord_shards::ShardedWriter) where all rows wait for the last one: shuffled, or cut by hosts.

use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use tfrecord_framing::{Compression, Level};
use tfrecord_shards::sort::{SpillFile, SpillStore, TempDirSpill};
use tfrecord_shards::{ErrorKind, SaveMode, ShardedWriterBuilder, Sharding, check};

use crate::support::{count, encode, files, names};
use crate::writer::{comparable, pool, read, rows, write};

/// Memory for a few records, and for all.
const MEMORY: [usize; 2] = [0, 64 << 20];

fn hosts(hosts: usize) -> Sharding {
    Sharding::Hosts(NonZeroUsize::new(hosts).unwrap())
}

#[test]
fn shuffle_is_independent_of_memory_batches_and_threads() {
    let rows = rows(6_000);
    for sharding in [count(3), Sharding::Rows(1_700), Sharding::Bytes(300_000), hosts(2)] {
        for compression in [Compression::None, Compression::Gzip] {
            for shuffle in [None, Some(7)] {
                if shuffle.is_none() && sharding != hosts(2) {
                    continue;
                }
                let dir = tempfile::tempdir().unwrap();
                let mut builder = ShardedWriterBuilder::new(rows.schema())
                    .with_sharding(sharding)
                    .with_compression(compression, Level::default());
                if let Some(seed) = shuffle {
                    builder = builder.with_shuffle(seed);
                }
                let mut expected = None;
                for (threads, batch_len, memory) in [(1, 6_000, 0), (1, 13, 1), (3, 997, 1), (4, 6_000, 0)] {
                    let out = dir.path().join(format!("{threads}-{batch_len}-{memory}"));
                    let builder = builder.clone().with_pool(pool(threads)).with_sort_memory(MEMORY[memory]);
                    let manifest = write(&out, builder, &rows, batch_len);
                    assert_eq!(manifest.seed, shuffle);
                    let found = comparable(&out);
                    let expected = expected.get_or_insert_with(|| found.clone());
                    assert!(*expected == found, "{sharding:?}, {compression}: {threads} threads, {batch_len} rows");
                }
            }
        }
    }
}

#[test]
fn shuffle_keeps_every_row_in_an_order_set_by_the_seed() {
    let rows = rows(5_000);
    let records = encode(&rows);
    let mut expected: Vec<_> = (0..rows.num_rows()).map(|row| records.payload(row).to_vec()).collect();
    let dir = tempfile::tempdir().unwrap();
    let builder = ShardedWriterBuilder::new(rows.schema()).with_sharding(count(4));
    let shuffled = |seed, memory| {
        let out = dir.path().join(format!("{seed}-{memory}"));
        let manifest = write(&out, builder.clone().with_shuffle(seed).with_sort_memory(memory), &rows, 700);
        let shards = read(&out, &manifest);
        assert!(shards.iter().all(|shard| shard.len() == 1_250));
        shards.concat()
    };
    let orders = [shuffled(1, MEMORY[0]), shuffled(2, MEMORY[1])];
    assert_ne!(orders[0], orders[1]);
    for mut order in orders {
        // One row in its place is to be expected.
        assert!(order.iter().zip(&expected).filter(|(row, was)| row == was).count() < 10);
        order.sort_unstable();
        expected.sort_unstable();
        assert_eq!(order, expected);
        expected = (0..rows.num_rows()).map(|row| records.payload(row).to_vec()).collect();
    }
}

#[test]
fn shards_by_hosts_keep_the_order_of_rows() {
    let rows = rows(3_000);
    let records = encode(&rows);
    let expected: Vec<_> = (0..rows.num_rows()).map(|row| records.payload(row).to_vec()).collect();
    for memory in MEMORY {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("shards");
        let builder = ShardedWriterBuilder::new(rows.schema()).with_sharding(hosts(2)).with_sort_memory(memory);
        let manifest = write(&out, builder, &rows, 400);
        // Less than 100 MiB are one shard.
        assert_eq!(read(&out, &manifest), std::slice::from_ref(&expected));
    }
}

#[test]
fn shuffle_of_few_rows_makes_all_shards() {
    for (count_of_rows, sharding, shards) in
        [(0, count(3), 3), (0, Sharding::default(), 1), (0, hosts(4), 1), (2, count(5), 5)]
    {
        let rows = rows(count_of_rows);
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("shards");
        let builder = ShardedWriterBuilder::new(rows.schema()).with_sharding(sharding).with_shuffle(0);
        let manifest = write(&out, builder, &rows, 1);
        let shards_read = read(&out, &manifest);
        assert_eq!((shards_read.len(), shards_read.concat().len()), (shards, count_of_rows));
    }
}

#[test]
fn shuffle_appends_to_a_set() {
    let rows = rows(300);
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    let builder = ShardedWriterBuilder::new(rows.schema())
        .with_sharding(Sharding::Rows(100))
        .with_mode(SaveMode::Append)
        .with_shuffle(3);
    write(&out, builder.clone(), &rows, 100);
    let manifest = write(&out, builder, &rows, 100);
    let shards = read(&out, &manifest);
    assert_eq!(shards.len(), 6);
    assert_eq!(shards[..3], shards[3..], "equal rows and seed");
    assert!(matches!(check(&out), Ok(tfrecord_shards::SetState::Whole(_))));
}

/// A place for temporary files where none can be made, or nothing be written.
#[derive(Debug)]
struct Broken {
    creates: bool,
}

impl SpillStore for Broken {
    fn create(&self) -> io::Result<Box<dyn SpillFile>> {
        if self.creates { Ok(Box::new(Full)) } else { Err(io::ErrorKind::PermissionDenied.into()) }
    }

    fn path(&self) -> &Path {
        Path::new("/scratch")
    }
}

#[derive(Debug)]
struct Full;

impl SpillFile for Full {
    fn append(&mut self, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::StorageFull.into())
    }

    fn read_exact_at(&self, _: &mut [u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

#[test]
fn shuffle_without_room_for_temporary_files_leaves_nothing() {
    let rows = rows(2_000);
    for creates in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let builder = ShardedWriterBuilder::new(rows.schema())
            .with_shuffle(1)
            .with_sort_memory(0)
            .with_spill(Arc::new(Broken { creates }));
        let mut writer = builder.build(dir.path().join("shards")).unwrap();
        let error = (0..100).find_map(|_| writer.write(&rows).err()).unwrap();
        assert!(error.to_string().starts_with("/scratch: cannot "), "{error}");
        assert!(matches!(writer.finish().unwrap_err().kind(), ErrorKind::Failed));
        assert_eq!(names(dir.path()), [""; 0]);
    }
}

#[test]
fn a_dropped_writer_leaves_no_temporary_files() {
    let rows = rows(2_000);
    let (dir, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let builder = ShardedWriterBuilder::new(rows.schema())
        .with_shuffle(1)
        .with_sort_memory(0)
        .with_spill(Arc::new(TempDirSpill::new(scratch.path())));
    let mut writer = builder.build(dir.path().join("shards")).unwrap();
    (0..10).for_each(|_| writer.write(&rows).unwrap());
    drop(writer);
    assert!(files(dir.path()).is_empty() && files(scratch.path()).is_empty());
}

/// Once all rows are sorted, shards are made: there is a directory in the way of one.
#[test]
fn shuffle_that_cannot_create_a_shard_leaves_nothing() {
    let rows = rows(2_000);
    let dir = tempfile::tempdir().unwrap();
    let builder = ShardedWriterBuilder::new(rows.schema()).with_shuffle(1).with_sharding(count(50));
    let mut writer = builder.build(dir.path().join("shards")).unwrap();
    writer.write(&rows).unwrap();
    let staging = std::fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
    std::fs::create_dir(staging.join("00000-00020.staged")).unwrap();
    let error = writer.finish().unwrap_err().to_string();
    assert!(error.contains("00000-00020"), "{error}");
    assert_eq!(names(dir.path()), [""; 0]);
}
