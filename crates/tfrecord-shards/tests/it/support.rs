//! Sets to write and ways to look at them.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use arrow_tfrecord::{Encoder, Mapping, MappingOptions, RecordBuffer};
use tfrecord_framing::{Compression, Level, RecordReader, RecordWriter, append_record};
use tfrecord_shards::{
    Capabilities, LocalCommit, Manifest, Progress, RewriteOptions, RunId, SaveMode, SchemaDescription, SetDescription,
    SetState, ShardGroup, ShardWriter, ShardedWriterBuilder, Sharding, SplitDescription, StagedShard, check, reshard,
};

pub const SHARDS: u32 = 2;

pub fn count(shards: usize) -> Sharding {
    Sharding::Count(NonZeroUsize::new(shards).unwrap())
}

pub fn ids(values: impl IntoIterator<Item = i64>) -> RecordBatch {
    let ids = Int64Array::from_iter_values(values);
    RecordBatch::try_from_iter([("id", Arc::new(ids) as ArrayRef)]).unwrap()
}

pub fn encode(batch: &RecordBatch) -> RecordBuffer {
    let mapping = Mapping::try_new(&batch.schema(), &MappingOptions::default()).unwrap();
    let mut records = RecordBuffer::default();
    Encoder::new(Arc::new(mapping)).encode(batch, &mut records).unwrap();
    records
}

/// A set that can be told from others by its query, while all sets have files of the same names and lengths.
pub fn describe(tag: &str) -> SetDescription {
    let options = MappingOptions::default();
    let mut description =
        SetDescription::new(&Mapping::try_new(&ids([]).schema(), &options).unwrap(), &options).unwrap();
    description.query = Some(tag.to_owned());
    description
}

/// Stages the shards of the set `tag`.
pub fn stage(commit: &LocalCommit, tag: &str) -> Vec<StagedShard> {
    (0..SHARDS).map(|sequence| stage_shard(commit, tag, sequence, ShardGroup::default())).collect()
}

/// Stages a shard of a group of the set `tag`.
pub fn stage_shard(commit: &LocalCommit, tag: &str, sequence: u32, group: ShardGroup) -> StagedShard {
    let first = tag.bytes().map(i64::from).sum::<i64>() * 16; // two varint bytes each
    let records = encode(&ids(first..first + 10));
    let file = commit.create_shard_in(0, sequence, group).unwrap();
    let mut shard = ShardWriter::new(file, (Compression::None, Level::default()));
    shard.append(&records, 0..records.len()).unwrap();
    let (file, stats) = shard.finish().unwrap();
    file.seal(stats).unwrap()
}

/// A group of a set that is [`describe_grouped`].
pub fn group(dt: &str, split: &str) -> ShardGroup {
    ShardGroup { partition_values: vec![("dt".to_owned(), Some(dt.to_owned()))], split: Some(split.to_owned()) }
}

/// A set that is split, and partitioned by `dt`.
pub fn describe_grouped(tag: &str) -> SetDescription {
    let split = |name: &str, fraction| SplitDescription::new(name, fraction);
    let columns = Schema::new(vec![Field::new("dt", DataType::Utf8, true)]);
    SetDescription {
        splits: vec![split("train", 0.75), split("eval", 0.25)],
        partition_columns: Some(SchemaDescription::try_new(&columns).unwrap()),
        ..describe(tag)
    }
}

/// Stages a grouped set of three shards in two directories.
pub fn stage_grouped(commit: &LocalCommit, tag: &str, partitions: [&str; 2]) -> Vec<StagedShard> {
    let groups = [(partitions[0], "train"), (partitions[1], "train"), (partitions[1], "eval")];
    let stage = |((dt, split), n)| stage_shard(commit, tag, n, group(dt, split));
    groups.into_iter().zip(0..).map(stage).collect()
}

pub fn write_grouped(
    out: &Path,
    mode: SaveMode,
    tag: &str,
    partitions: [&str; 2],
) -> tfrecord_shards::Result<Manifest> {
    let commit = LocalCommit::begin(out, mode, RunId::new(), &[])?;
    let shards = stage_grouped(&commit, tag, partitions);
    commit.publish(shards, describe_grouped(tag))
}

/// Writes the set `tag`.
pub fn write(out: &Path, mode: SaveMode, tag: &str) -> tfrecord_shards::Result<Manifest> {
    let commit = LocalCommit::begin(out, mode, RunId::new(), &[])?;
    let shards = stage(&commit, tag);
    commit.publish(shards, describe(tag))
}

pub fn begin(out: &Path, mode: SaveMode, capabilities: Capabilities) -> tfrecord_shards::Result<LocalCommit> {
    LocalCommit::begin_with(out, mode, RunId::new(), &[], capabilities)
}

/// What the target can only be staged inside.
pub const IN_PLACE: Capabilities = Capabilities { beside: false, exchange: true };

/// The tag of the set in `dir`, if it is whole, with `+` before that of each run that has appended to it; every byte of it
/// is compared with the manifest.
pub fn whole(dir: &Path) -> Option<String> {
    let SetState::Whole(manifest) = check(dir).unwrap() else { return None };
    for shard in &manifest.shards {
        let bytes = fs::read(dir.join(&shard.path)).unwrap();
        assert_eq!(crc32c::crc32c(&bytes), shard.crc32c, "{} is of another set", shard.path);
    }
    let appended = manifest.appended.into_iter().flat_map(|run| ["+".to_owned(), run.query.unwrap_or_default()]);
    Some(manifest.query.into_iter().chain(appended).collect())
}

/// Every file under `dir`, and what it holds.
pub fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.insert(format!("{name}/"), Vec::new());
            found.extend(files(&entry.path()).into_iter().map(|(inner, bytes)| (format!("{name}/{inner}"), bytes)));
        } else {
            found.insert(name, fs::read(entry.path()).unwrap());
        }
    }
    found
}

/// Copies a directory with all that is in it.
pub fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_all(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

pub fn names(dir: &Path) -> Vec<String> {
    files(dir).into_keys().collect()
}

/// The names of the files of a set of [`SHARDS`] shards.
pub const SET: [&str; 4] =
    ["_SUCCESS", "_manifest.json", "part-00000-of-00002.tfrecord", "part-00001-of-00002.tfrecord"];

/// These records, framed.
pub fn frames<'a>(payloads: impl IntoIterator<Item = &'a [u8]>) -> RecordBuffer {
    let mut records = RecordBuffer::default();
    for payload in payloads {
        let mut frame = Vec::new();
        let fill = |bytes: &mut Vec<u8>| {
            bytes.extend_from_slice(payload);
            Ok::<_, Infallible>(())
        };
        append_record(&mut frame, fill).unwrap();
        records.push_frame(&frame);
    }
    records
}

/// The records of a file, or of the set in a directory, which is whole.
pub fn payloads(path: &Path) -> Vec<Vec<u8>> {
    let files = if path.is_dir() {
        let SetState::Whole(manifest) = check(path).unwrap() else { panic!("{} is not whole", path.display()) };
        manifest.shards.iter().map(|shard| path.join(&shard.path)).collect()
    } else {
        vec![path.to_owned()]
    };
    let read = |path| {
        let mut reader = RecordReader::detect(fs::File::open(path).unwrap());
        let mut records = Vec::new();
        let mut record = Vec::new();
        while reader.read_record(&mut record).unwrap() {
            records.push(record.clone());
        }
        records
    };
    files.into_iter().flat_map(read).collect()
}

pub fn refusal(inputs: &[PathBuf], out: &Path) -> tfrecord_shards::Error {
    let before = files(out.parent().unwrap());
    let error = reshard(inputs, out, &RewriteOptions::default(), &Progress::default()).unwrap_err();
    assert_eq!(files(out.parent().unwrap()), before, "{error}");
    error
}

pub fn write_file(path: &Path, records: &[Vec<u8>], compression: Compression) {
    let mut writer = RecordWriter::with_compression(Vec::new(), compression, Level::default());
    records.iter().for_each(|record| writer.write_record(record).unwrap());
    fs::write(path, writer.finish().unwrap()).unwrap();
}

pub fn write_set(out: &Path, values: std::ops::Range<i64>, sharding: Sharding, compression: Compression) -> Manifest {
    let batch = ids(values);
    let builder = ShardedWriterBuilder::new(batch.schema())
        .with_sharding(sharding)
        .with_compression(compression, Level::default())
        .with_query("SELECT id FROM t");
    let mut writer = builder.build(out).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap()
}
