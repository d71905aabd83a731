//! Writes an Arrow IPC file as a set of shards in two splits, with everything beside them that other readers look for,
//! and the same rows once more as a saved dataset of `tf.data`.
//!
//! ```sh
//! cargo run -p tfrecord-sidecars --example write_sidecars -- TABLE.arrow OUT [COLUMN...]
//! ```
//!
//! Columns of text that are named become class labels. `OUT/shards` is for `tfds.builder_from_directory`, TensorFlow Data
//! Validation and `parse_example.py`, `OUT/snapshot` for `tf.data.Dataset.load`.

#![allow(clippy::print_stderr, reason = "an example speaks as a program does")]

use std::error::Error;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::reader::FileReader;
use arrow_schema::SchemaRef;
use arrow_tfrecord::{Choice, Encoder, Mapping, MappingOptions, RecordBuffer, Vocabulary};
use tfrecord_framing::Container;
use tfrecord_shards::{Manifest, ShardedWriterBuilder, Sharding};
use tfrecord_sidecars::snapshot::{self, Snapshot, SnapshotNulls, chunk_path};
use tfrecord_sidecars::stats::{self, Detail, Statistics, Vocabularies};
use tfrecord_sidecars::tfds::{self, DatasetInfo, ShardFile};
use tfrecord_sidecars::{SchemaForm, TableDescription};

/// Batches that a batch of the file is cut to, so that there are several of small tables too.
const PIECES: usize = 10;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(table), Some(out)) = (arguments.next(), arguments.next()) else {
        return Err("usage: write_sidecars TABLE.arrow OUT [COLUMN...]".into());
    };
    let reader = FileReader::try_new_buffered(File::open(&table)?, None)?;
    let schema = reader.schema();
    let batches = reader.collect::<Result<Vec<_>, _>>()?;
    let batches: Vec<RecordBatch> = batches.iter().flat_map(pieces).collect();

    let mut options = MappingOptions::default();
    for column in arguments {
        let column = column.to_string_lossy().into_owned();
        let mut vocabulary = Vocabulary::new(1000);
        for batch in &batches {
            vocabulary.observe(batch.column_by_name(&column).ok_or("no such column")?)?;
        }
        options = options.with_choice(&column, Choice::Index).with_vocabulary(&column, vocabulary.finish());
    }

    let shards = out.join("shards");
    fs::create_dir_all(&shards)?;
    let rest = batches.len() - batches.len() / 5;
    let mut files = write_split(&schema, &options, &batches[..rest], "train", 3, &shards)?;
    files.extend(write_split(&schema, &options, &batches[rest..], "val", 1, &shards)?);
    describe(&schema, &options, &batches, &shards, files)?;
    write_snapshot(&schema, &batches, &out.join("snapshot"))
}

fn pieces(batch: &RecordBatch) -> Vec<RecordBatch> {
    let rows = batch.num_rows().div_ceil(PIECES).max(1);
    let starts = (0..batch.num_rows()).step_by(rows);
    starts.map(|start| batch.slice(start, rows.min(batch.num_rows() - start))).collect()
}

/// Writes a set of its own, and moves its shards beside those of the other splits.
fn write_split(
    schema: &SchemaRef,
    options: &MappingOptions,
    batches: &[RecordBatch],
    split: &str,
    shards: usize,
    out: &Path,
) -> Result<Vec<ShardFile>, Box<dyn Error>> {
    let own = out.join(split);
    let rows = batches.iter().map(RecordBatch::num_rows).sum::<usize>().div_ceil(shards).max(1);
    let mut writer = ShardedWriterBuilder::new(Arc::clone(schema))
        .with_mapping(options.clone())
        .with_sharding(Sharding::Rows(rows as u64))
        .with_prefix(split)
        .build(&own)?;
    for batch in batches {
        writer.write(batch)?;
    }
    writer.finish()?;
    let manifest = Manifest::read(&own)?;
    for shard in &manifest.shards {
        fs::rename(own.join(&shard.path), out.join(&shard.path))?;
    }
    fs::remove_dir_all(own)?;
    Ok(manifest.shards.iter().map(ShardFile::from).collect())
}

fn describe(
    schema: &SchemaRef,
    options: &MappingOptions,
    batches: &[RecordBatch],
    out: &Path,
    files: Vec<ShardFile>,
) -> Result<(), Box<dyn Error>> {
    let mapping = Arc::new(Mapping::try_new(schema, options)?);
    let encoder = Encoder::new(Arc::clone(&mapping));
    let mut statistics = Statistics::new(&mapping, Detail::Values);
    for batch in batches {
        statistics.update_batch(&encoder, batch)?;
    }
    let known = Some(&statistics);
    let info = DatasetInfo::try_new("example", files)?.with_description("Written by an example.");
    fs::write(out.join(tfds::DATASET_INFO_NAME), info.to_json()?)?;
    fs::write(out.join(tfds::FEATURES_NAME), tfds::features_json(&mapping, known)?)?;
    for (name, labels) in tfds::label_files(&mapping, known)? {
        fs::write(out.join(name), labels)?;
    }
    let location = out.display().to_string();
    let table = TableDescription::new(&mapping, location).with_statistics(&statistics);
    let table = table.with_container(Container::PLAIN);
    fs::write(out.join("schema.pbtxt"), table.render(SchemaForm::Pbtxt)?)?;
    fs::write(out.join("parse_example.py"), table.render(SchemaForm::Python)?)?;
    fs::write(out.join(stats::STATS_NAME), statistics.to_proto("example"))?;
    let page = statistics.to_html("example", &Vocabularies::new(&mapping));
    fs::write(out.join(stats::PAGE_NAME), page)?;
    Ok(())
}

fn write_snapshot(schema: &SchemaRef, batches: &[RecordBatch], out: &Path) -> Result<(), Box<dyn Error>> {
    let snapshot = match Snapshot::try_new(schema, SnapshotNulls::Mask) {
        Ok(snapshot) => snapshot,
        Err(error) => {
            eprintln!("no snapshot: {error}");
            return Ok(());
        }
    };
    let halves = batches.split_at(batches.len() / 2);
    let run = "1";
    for (shard, half) in [halves.0, halves.1].into_iter().enumerate() {
        let mut records = RecordBuffer::default();
        for batch in half {
            snapshot.encode(batch, &mut records)?;
        }
        let path = out.join(chunk_path(run, shard as u64));
        fs::create_dir_all(path.parent().unwrap_or(out))?;
        fs::write(path, records.bytes())?;
    }
    let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
    fs::write(out.join(snapshot::DATASET_SPEC_NAME), snapshot.dataset_spec())?;
    fs::write(out.join(snapshot::METADATA_NAME), snapshot.metadata(run, 0, rows))?;
    Ok(())
}
