//! Reading files in parts: however they are split, the rows are the same.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, RecordBatch, StringArray};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::error::Result;
use datafusion::physical_plan::collect_partitioned;
use datafusion::prelude::SessionContext;
use datafusion_tfrecord::ReadOptions;
use tempfile::tempdir;
use tfrecord_framing::{Compression, Level};
use tfrecord_shards::{Manifest, ShardedWriterBuilder, Sharding};

use super::support::{example, examples, explained, external, framed, int64s, opened, texts, write_records};

/// Returns the ids that each partition of a scan yields.
async fn ids(context: &SessionContext) -> Result<Vec<Vec<i64>>> {
    let plan = context.sql("SELECT id, text FROM r").await?.create_physical_plan().await?;
    let partitions = collect_partitioned(plan, context.task_ctx()).await?;
    let ids = |batch: &RecordBatch| batch.column(0).as_primitive::<Int64Type>().values().to_vec();
    Ok(partitions.iter().map(|batches| batches.iter().flat_map(ids).collect()).collect())
}

/// Checks that the partitions together have the ids of all records, in order. Returns the largest number of
/// partitions with rows.
async fn most_parts(location: impl AsRef<Path>, options: &ReadOptions, records: i64) -> Result<usize> {
    let mut most = 0;
    for partitions in 1..=8 {
        let parts = ids(&opened(&location, options, partitions).await?).await?;
        assert!(parts.len() <= partitions);
        assert_eq!(parts.concat(), (0..records).collect::<Vec<_>>(), "{partitions} partitions");
        most = most.max(parts.iter().filter(|ids| !ids.is_empty()).count());
    }
    Ok(most)
}

#[tokio::test(flavor = "multi_thread")]
async fn shards_are_read_in_parts() -> Result<()> {
    // Long enough for positions in the manifest: one for each 16 MiB.
    let text = "y".repeat(700 << 10);
    let batch = |ids: std::ops::Range<i64>| {
        let texts: StringArray = ids.clone().map(|_| Some(text.as_str())).collect();
        let ids: datafusion::arrow::array::Int64Array = ids.collect();
        RecordBatch::try_from_iter([
            ("id", Arc::new(ids) as Arc<dyn Array>),
            ("text", Arc::new(texts) as Arc<dyn Array>),
        ])
    };
    let dir = tempdir()?;
    for (compression, expected) in [(Compression::None, 4), (Compression::Gzip, 4), (Compression::Zlib, 2)] {
        let out = dir.path().join(compression.to_string());
        let mut writer = ShardedWriterBuilder::new(batch(0..1)?.schema())
            .with_sharding(Sharding::Rows(30))
            .with_compression(compression, Level::try_from(1).map_err(external)?)
            .build(&out)
            .map_err(external)?;
        for start in (0..60).step_by(10) {
            writer.write(&batch(start..start + 10)?).map_err(external)?;
        }
        writer.finish().map_err(external)?;
        assert_eq!(most_parts(&out, &ReadOptions::default(), 60).await?, expected, "{compression}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn part_read_rejects_offsets_outside_the_shard() -> Result<()> {
    let dir = tempdir()?;
    let out = dir.path().join("set");
    let batch = |ids: std::ops::Range<i64>| {
        let texts: StringArray = ids.clone().map(|id| Some("z".repeat(1000 * (id as usize % 3 + 1)))).collect();
        let ids: datafusion::arrow::array::Int64Array = ids.collect();
        RecordBatch::try_from_iter([
            ("id", Arc::new(ids) as Arc<dyn Array>),
            ("text", Arc::new(texts) as Arc<dyn Array>),
        ])
    };
    let mut writer = ShardedWriterBuilder::new(batch(0..1)?.schema())
        .with_sharding(Sharding::Rows(20_000))
        .build(&out)
        .map_err(external)?;
    writer.write(&batch(0..20_000)?).map_err(external)?;
    writer.finish().map_err(external)?;
    let path = out.join("_manifest.json");
    let manifest = Manifest::read(&out).map_err(external)?;
    assert_eq!(manifest.shards[0].offsets.len(), 2);
    let edit = |change: &dyn Fn(&mut Manifest)| -> Result<()> {
        let mut manifest = manifest.clone();
        change(&mut manifest);
        Ok(fs::write(&path, manifest.to_json().map_err(external)?)?)
    };
    // A position inside a record, one with another record number, and one record more in all.
    edit(&|manifest| manifest.shards[0].offsets[0].file += 1)?;
    assert_refused(&out, "length").await?;
    edit(&|manifest| manifest.shards[0].offsets[0].record += 1)?;
    assert_refused(&out, "the records end before").await?;
    edit(&|manifest| manifest.shards[0].offsets[1].framed += 1)?;
    assert_refused(&out, "the records end before").await?;
    edit(&|manifest| {
        manifest.shards[0].rows += 1;
        manifest.totals.rows += 1;
    })?;
    assert_refused(&out, "the records end before record 20000").await?;
    edit(&|_| {})?;
    assert_eq!(most_parts(&out, &ReadOptions::default(), 20_000).await?, 3);
    Ok(())
}

async fn assert_refused(location: &Path, message: &str) -> Result<()> {
    let context = opened(location, &ReadOptions::default(), 3).await?;
    let error = ids(&context).await.map(|parts| format!("{parts:?}")).expect_err("a contradiction");
    let text = explained(&error);
    assert!(text.contains(message), "{text}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn files_without_manifest_are_read_in_parts() -> Result<()> {
    let dir = tempdir()?;
    // Texts of framed records, which look like the records around them.
    let inner = String::from_utf8_lossy(&framed(&vec![vec![]; 20], Compression::None)?).into_owned();
    let records: Vec<_> = (0..500)
        .map(|id| {
            let text = match id % 4 {
                0 => inner.clone(),
                1 => String::new(),
                _ => "x".repeat(id as usize),
            };
            example([("id", int64s(&[id])), ("text", texts(&[text.as_str()]))])
        })
        .collect();
    let file = write_records(&dir.path().join("one"), &records)?;
    assert_eq!(most_parts(&file, &ReadOptions::default(), 500).await?, 8);
    for (part, records) in records.chunks(170).enumerate() {
        write_records(&dir.path().join("some").join(format!("part-r-0000{part}")), records)?;
    }
    assert_eq!(most_parts(dir.path().join("some"), &ReadOptions::default(), 500).await?, 8);
    for compression in [Compression::Gzip, Compression::Zlib] {
        let file = dir.path().join(compression.to_string());
        fs::write(&file, framed(&records, compression)?)?;
        assert_eq!(most_parts(&file, &ReadOptions::default(), 500).await?, 1);
        // Unknown at planning, so it was split.
        let schema = opened(&file, &ReadOptions::default(), 1).await?.table_provider("r").await?.schema();
        let declared = ReadOptions { schema: Some(schema), ..ReadOptions::default() };
        assert_eq!(most_parts(&file, &declared, 500).await?, 1);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn part_read_is_not_misled_by_records_in_payloads() -> Result<()> {
    let dir = tempdir()?;
    // Every byte of the middle could start a record, judging by bytes alone.
    let inner = framed(&examples(1000..1400, |_| 0), Compression::None)?;
    let with_inner = |id: i64| {
        let text = datafusion::arrow::array::BinaryArray::from(vec![inner.as_slice()]);
        let kind = tfr_proto::tensorflow::feature::Kind::BytesList(tfr_proto::tensorflow::BytesList {
            value: vec![text.value(0).to_vec()],
        });
        example([("id", int64s(&[id])), ("text", kind)])
    };
    let records: Vec<_> = (0..4).map(with_inner).collect();
    let file = write_records(&dir.path().join("f"), &records)?;
    for partitions in 1..60 {
        let parts = ids(&opened(&file, &ReadOptions::default(), partitions).await?).await?;
        assert_eq!(parts.concat(), [0, 1, 2, 3], "{partitions} partitions");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn part_read_reports_damage_by_position_in_the_file() -> Result<()> {
    let dir = tempdir()?;
    let file = dir.path().join("f.tfrecord");
    // Ids of equal length.
    let sound = framed(&examples(1000..2000, |_| 50), Compression::None)?;
    let len = sound.len() / 1000;
    let record = format!("record 700 at byte {}", 700 * len);
    for (at, expected) in [(60, format!("{record}: payload of")), (3, format!("{record}: length"))] {
        let mut bytes = sound.clone();
        bytes[700 * len + at] ^= 4;
        fs::write(&file, &bytes)?;
        for partitions in [1, 4, 7] {
            let few = ReadOptions { infer_records: Some(10), ..ReadOptions::default() };
            let context = opened(&file, &few, partitions).await?;
            let error = explained(&ids(&context).await.expect_err("damage"));
            assert!(error.starts_with(&format!("{}: {expected}", file.display())), "{error}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn read_rejects_a_file_that_changed() -> Result<()> {
    let dir = tempdir()?;
    let file = write_records(&dir.path().join("f.tfrecord"), &examples(0..1000, |_| 50))?;
    for partitions in [1, 3] {
        let context = opened(&file, &ReadOptions::default(), partitions).await?;
        assert_eq!(ids(&context).await?.concat().len(), 1000);
        write_records(&file, &examples(1000..2000, |_| 50))?;
        let error = explained(&ids(&context).await.expect_err("another file"));
        assert!(error.contains("f.tfrecord: the file changed while it was read"), "{error}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn limit_stops_reading_early() -> Result<()> {
    let dir = tempdir()?;
    let file = dir.path().join("f.tfrecord");
    let mut bytes = framed(&examples(0..20_000, |_| 100), Compression::None)?;
    let len = bytes.len();
    bytes[len / 2] ^= 1;
    fs::write(&file, &bytes)?;
    for partitions in [1, 4] {
        let context = opened(&file, &ReadOptions::default(), partitions).await?;
        let rows = super::support::query_rows(&context, "SELECT id FROM r LIMIT 7").await?;
        assert_eq!(rows.column(0).as_primitive::<Int64Type>().values().to_vec(), (0..7).collect::<Vec<_>>());
    }
    Ok(())
}
