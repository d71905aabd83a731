//! Files read in parts: the same rows, in the same order, as in one piece.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryArray, Int64Array, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::Int64Type;
use arrow_tfrecord::WriterBuilder;
use datafusion::common::Result;
use datafusion::physical_plan::{ExecutionPlan, collect_partitioned};
use tfr_formats::InputOptions;
use tfr_tests::{Scratch, run, shard_files, tfr_sql};
use tfrecord_framing::{FOOTER_LEN, HEADER_LEN, masked_crc32c};

use crate::session;

/// The rows of a table, partition after partition, and how many partitions there were.
async fn rows(location: &Path, threads: usize) -> (RecordBatch, usize) {
    try_rows(location, threads).await.unwrap()
}

async fn try_rows(location: &Path, threads: usize) -> Result<(RecordBatch, usize)> {
    // However short the file is.
    let context = session::open(session::settings(threads).with_repartition_file_min_size(1));
    let locations = [location.display().to_string().into()];
    let table = tfr_formats::open_locations(&context.state(), &locations, &InputOptions::default(), None).await?;
    let rows = context.read_table(table)?;
    let schema = Arc::clone(rows.schema().inner());
    let plan: Arc<dyn ExecutionPlan> = rows.create_physical_plan().await?;
    let partitions = collect_partitioned(plan, context.task_ctx()).await?;
    let batches: Vec<_> = partitions.iter().flatten().cloned().collect();
    Ok((concat_batches(&schema, &batches)?, partitions.len()))
}

fn file(rows: &RecordBatch) -> Vec<u8> {
    let mut writer = WriterBuilder::new(rows.schema()).build(Vec::new()).unwrap();
    writer.write(rows).unwrap();
    writer.finish().unwrap()
}

fn table(payloads: &[Vec<u8>]) -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..payloads.len() as i64));
    let blobs: ArrayRef = Arc::new(BinaryArray::from_iter_values(payloads));
    RecordBatch::try_from_iter([("blob", blobs), ("id", ids)]).unwrap()
}

/// Reads the file in one part, in some, and in as many as it has bytes, which cuts it at each of them.
async fn assert_cut_anywhere(path: &Path, expected: &RecordBatch) {
    let len = fs::metadata(path).unwrap().len() as usize;
    let mut most = 0;
    for parts in (1..=32).chain((40..len).step_by(37)).chain([len]) {
        let (found, partitions) = rows(path, parts).await;
        assert!(found.columns() == expected.columns(), "{parts} parts: {found:?}");
        most = most.max(partitions);
    }
    assert!(most > 1, "never cut");
}

/// Records that hold files of framed records, which hold such files themselves: wherever the file is cut, what is taken
/// for the start of a record must be one.
#[tokio::test]
async fn split_is_not_misled_by_records_inside_records() {
    let scratch = Scratch::default();
    let innermost = file(&table(&[vec![], b"a".to_vec()]));
    let inner = file(&table(&[innermost.clone(), vec![0; 5], innermost.clone()]));
    let outer = table(&[b"first".to_vec(), inner.clone(), vec![], inner, innermost, b"last".to_vec()]);
    let path = scratch.join("nested.tfrecord");
    fs::write(&path, file(&outer)).unwrap();
    assert_cut_anywhere(&path, &outer).await;
}

/// A record that holds a sound record and, behind it, a header that leads to where the next record of the file starts:
/// whoever takes the sound one for a record of the file meets no damage after it.
#[tokio::test]
async fn split_is_not_misled_by_a_chain_leaving_a_record() {
    let scratch = Scratch::default();
    let bait = file(&table(&[b"bait".to_vec()]));
    let records = |header: &[u8]| {
        let trap = [&[b'-'; 50][..], &bait, header, &[b'-'; 20]].concat();
        table(&[vec![b'+'; 30], trap.clone(), vec![], trap, vec![b'+'; 300]])
    };
    // What stands between the header and the end of its record does not depend on the header.
    let blank = file(&records(&[0; HEADER_LEN]));
    let header = blank.windows(bait.len()).position(|window| window == bait).unwrap() + bait.len();
    let first = 16 + u64::from_le_bytes(*blank.first_chunk().unwrap()) as usize;
    let second = first + 16 + u64::from_le_bytes(*blank[first..].first_chunk().unwrap()) as usize;
    let length = ((second - header - HEADER_LEN - FOOTER_LEN) as u64).to_le_bytes();
    let chained = records(&[&length[..], &masked_crc32c(&length).to_le_bytes()].concat());
    let path = scratch.join("chained.tfrecord");
    fs::write(&path, file(&chained)).unwrap();
    assert_cut_anywhere(&path, &chained).await;
}

/// Wherever a file is damaged and wherever it is cut, the error has the number of the record in the file, and its byte.
#[tokio::test]
async fn split_reports_damage_by_position_in_the_file() {
    let scratch = Scratch::default();
    let sound = file(&table(&(0..30).map(|length| vec![b'+'; length]).collect::<Vec<_>>()));
    let mut start = 0;
    for record in 0..30 {
        let frame = 16 + u64::from_le_bytes(*sound[start..].first_chunk().unwrap()) as usize;
        for field in [0, HEADER_LEN + 3] {
            let mut damaged = sound.clone();
            damaged[start + field] ^= 1;
            let path = scratch.join(format!("{record}-{field}.tfrecord"));
            fs::write(&path, damaged).unwrap();
            for parts in [1, 2, 7, 100] {
                let error = try_rows(&path, parts).await.map(|(rows, _)| rows.num_rows()).unwrap_err().to_string();
                assert!(error.contains(&format!("record {record} at byte {start}: ")), "{parts} parts: {error}");
            }
        }
        start += frame;
    }
}

/// Shards of our own are cut where the manifest says, whether compressed or not; the files of others are searched.
#[tokio::test]
async fn long_files_are_read_in_parts() {
    let scratch = Scratch::default();
    for compression in ["none", "gzip", "zlib"] {
        let out = scratch.join(compression);
        let rows_of = "SELECT value AS id, arrow_cast(repeat(md5(value::varchar), 800), 'Utf8') AS text";
        run(tfr_sql().arg(format!("{rows_of} FROM generate_series(1, 2000)")).arg("--out").arg(&out).args([
            "--shards",
            "1",
            "--compression",
            compression,
            "--quiet",
        ]))
        .success();
        let shard = shard_files(&out).remove(0);
        assert_eq!(shard_files(&out).len(), 1);
        let foreign = scratch.join(format!("foreign-{compression}.tfrecord"));
        fs::copy(&shard, &foreign).unwrap();

        let (whole, _) = rows(&out, 1).await;
        assert!(whole.column_by_name("id").unwrap().as_primitive::<Int64Type>().values().iter().copied().eq(1..=2000));
        for location in [&out, &foreign] {
            let (found, partitions) = rows(location, 2).await;
            assert!(found == whole || location == &foreign, "{compression}");
            let expected = match (compression, location == &out) {
                ("none", _) | ("gzip", true) => 2,
                _ => 1,
            };
            assert_eq!(partitions, expected, "{}", location.display());
            let (one, _) = rows(location, 1).await;
            assert!(found == one, "{}", location.display());
        }
    }
}
