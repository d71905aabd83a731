//! [`ShardedWriter`]: the same rows give the same set.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, Int64Array, RecordBatch, StringArray, UInt64Array};
use rayon::{ThreadPool, ThreadPoolBuilder};
use tfrecord_framing::{Compression, Level, RecordReader};
use tfrecord_shards::{ErrorKind, Manifest, ShardedWriter, ShardedWriterBuilder, Sharding};

use crate::support::{count, encode, files, names};

/// Rows of different lengths, some with nulls.
pub fn rows(count: usize) -> RecordBatch {
    let ids = Int64Array::from_iter_values((0..count as i64).map(|row| row * row));
    let scores = Float32Array::from_iter((0..count).map(|row| (row % 7 != 0).then_some(row as f32)));
    let names = StringArray::from_iter_values((0..count).map(|row| "x".repeat(row * 7919 % 600)));
    RecordBatch::try_from_iter([
        ("id", Arc::new(ids) as ArrayRef),
        ("score", Arc::new(scores)),
        ("name", Arc::new(names)),
    ])
    .unwrap()
}

pub fn pool(threads: usize) -> Arc<ThreadPool> {
    Arc::new(ThreadPoolBuilder::new().num_threads(threads).build().unwrap())
}

pub fn write(out: &Path, builder: ShardedWriterBuilder, rows: &RecordBatch, batch_len: usize) -> Manifest {
    let mut writer = builder.build(out).unwrap();
    for start in (0..rows.num_rows()).step_by(batch_len) {
        writer.write(&rows.slice(start, batch_len.min(rows.num_rows() - start))).unwrap();
    }
    writer.finish().unwrap()
}

/// Every file of a set but for what differs between runs.
pub fn comparable(out: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = files(out);
    let manifest = String::from_utf8(files["_manifest.json"].clone()).unwrap();
    let keys = ["\"run\":", "\"created\":", "\"manifest_crc32c\":"];
    let varies = |line: &&str| !keys.iter().any(|key| line.contains(key));
    assert_eq!(manifest.lines().count() - manifest.lines().filter(varies).count(), 3);
    files.insert("_manifest.json".to_owned(), manifest.lines().filter(varies).collect::<String>().into_bytes());
    files
}

/// The records of a set, shard by shard.
pub fn read(out: &Path, manifest: &Manifest) -> Vec<Vec<Vec<u8>>> {
    let read_shard = |path: &String| {
        let file = fs::File::open(out.join(path)).unwrap();
        let mut reader = RecordReader::with_compression(file, manifest.compression);
        let mut records = Vec::new();
        let mut record = Vec::new();
        while reader.read_record(&mut record).unwrap() {
            records.push(record.clone());
        }
        records
    };
    manifest.shards.iter().map(|shard| read_shard(&shard.path)).collect()
}

#[test]
fn neither_batches_nor_threads_change_a_byte() {
    let rows = rows(6_000);
    for sharding in [count(3), Sharding::Rows(1_700), Sharding::Bytes(700_000)] {
        for compression in [Compression::None, Compression::Gzip, Compression::Zlib] {
            let dir = tempfile::tempdir().unwrap();
            let builder = ShardedWriterBuilder::new(rows.schema())
                .with_sharding(sharding)
                .with_compression(compression, Level::default());
            let mut expected = None;
            for (threads, batch_len) in [(1, 6_000), (1, 13), (3, 997), (4, 6_000)] {
                let out = dir.path().join(format!("{threads}-{batch_len}"));
                write(&out, builder.clone().with_pool(pool(threads)), &rows, batch_len);
                let found = comparable(&out);
                let expected = expected.get_or_insert_with(|| found.clone());
                assert!(*expected == found, "{sharding:?}, {compression}: {threads} threads, {batch_len} rows a batch");
            }
        }
    }
}

#[test]
fn writer_assigns_every_row_by_the_sharding_rule() {
    let rows = rows(5_000);
    let records = encode(&rows);
    let payload = |row: usize| records.slice(row..row + 1)[12..].split_last_chunk::<4>().unwrap().0.to_vec();
    let expected: Vec<_> = (0..rows.num_rows()).map(payload).collect();
    let dir = tempfile::tempdir().unwrap();

    let out = dir.path().join("cut");
    let builder = ShardedWriterBuilder::new(rows.schema()).with_sharding(Sharding::Rows(1_234));
    let manifest = write(&out, builder.clone(), &rows, 100);
    assert_eq!(read(&out, &manifest), expected.chunks(1_234).map(<[_]>::to_vec).collect::<Vec<_>>());

    let out = dir.path().join("dealt");
    let manifest =
        write(&out, builder.with_sharding(count(7)).with_compression(Compression::Gzip, Level::default()), &rows, 100);
    let mut shards = vec![Vec::new(); 7];
    let mut rule = tfrecord_shards::ShardDeal::new(7.try_into().unwrap());
    for piece in rule.deal(rows.num_rows()) {
        shards[piece.shard].extend_from_slice(&expected[piece.records]);
    }
    assert_eq!(read(&out, &manifest), shards);
}

#[test]
fn shard_size_is_never_exceeded() {
    let rows = rows(3_000);
    let dir = tempfile::tempdir().unwrap();
    let builder = ShardedWriterBuilder::new(rows.schema()).with_sharding(Sharding::Bytes(50_000));
    let manifest = write(&dir.path().join("shards"), builder, &rows, 512);
    assert!(manifest.shards.len() > 15);
    assert!(manifest.shards.iter().all(|shard| shard.framed_bytes <= 50_000));
    // No shard but the last has room for another record.
    assert!(manifest.shards.iter().rev().skip(1).all(|shard| shard.framed_bytes > 50_000 - 700));
}

#[test]
fn writer_without_rows_makes_the_requested_shards() {
    let rows = rows(0);
    for (sharding, shards) in [(count(3), 3), (Sharding::default(), 1), (Sharding::Rows(5), 1)] {
        for compression in [Compression::None, Compression::Gzip, Compression::Zlib] {
            let dir = tempfile::tempdir().unwrap();
            let out = dir.path().join("shards");
            let builder = ShardedWriterBuilder::new(rows.schema())
                .with_sharding(sharding)
                .with_compression(compression, Level::default());
            let manifest = write(&out, builder, &rows, 1);
            assert_eq!(read(&out, &manifest), vec![Vec::<Vec<u8>>::new(); shards]);
        }
    }
}

#[test]
fn writer_runs_within_its_own_pool_of_one_thread() {
    let rows = rows(4_000);
    let dir = tempfile::tempdir().unwrap();
    let pool = pool(1);
    let builder =
        ShardedWriterBuilder::new(rows.schema()).with_sharding(Sharding::Rows(100)).with_pool(Arc::clone(&pool));
    let manifest = pool.install(|| write(&dir.path().join("shards"), builder, &rows, 300));
    assert_eq!(manifest.totals.rows, 4_000);
}

/// A writer of numbers, the rows of which must fit an int64.
fn numbers(out: &Path) -> ShardedWriter {
    ShardedWriterBuilder::new(number_rows(0, None).schema()).with_pool(pool(2)).build(out).unwrap()
}

fn number_rows(rows: usize, too_large: Option<usize>) -> RecordBatch {
    let numbers = (0..rows).map(|row| if Some(row) == too_large { u64::MAX } else { row as u64 });
    let numbers = UInt64Array::from_iter_values(numbers);
    RecordBatch::try_from_iter([("n", Arc::new(numbers) as ArrayRef)]).unwrap()
}

#[test]
fn writer_leaves_nothing_if_a_row_cannot_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = numbers(&dir.path().join("shards"));
    writer.write(&number_rows(70_000, None)).unwrap();
    let failed = writer.write(&number_rows(70_000, Some(12_345)));
    let error =
        failed.and_then(|()| writer.write(&number_rows(70_000, None))).and_then(|()| writer.finish()).unwrap_err();
    assert!(error.to_string().contains("row 82345"), "{error}");
    assert_eq!(names(dir.path()), [""; 0]);
}

#[test]
fn failed_writer_publishes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = numbers(&dir.path().join("shards"));
    // The error may come with any of the writes that follow.
    let failed = (0..1_000).any(|turn| writer.write(&number_rows(2_000, (turn == 0).then_some(0))).is_err());
    assert!(failed);
    let error = writer.finish().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Failed), "{error}");
    assert_eq!(names(dir.path()), [""; 0]);
}

#[test]
fn dropped_writer_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = numbers(&dir.path().join("made/shards"));
    writer.write(&number_rows(100_000, None)).unwrap();
    drop(writer);
    assert_eq!(names(dir.path()), [""; 0]);
}

#[test]
fn a_batch_of_another_schema_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = numbers(&dir.path().join("shards"));
    let error = writer.write(&rows(10)).and_then(|()| writer.finish()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Encode(_)), "{error}");
}
