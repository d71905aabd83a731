//! Shards read back by protobuf: the oracle for tests that have no TensorFlow at hand.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use prost::Message;
use tfr_proto::tensorflow::{Example, feature::Kind};
use tfrecord_framing::{Compression, RecordReader};

/// A record: its features by name, sorted.
pub type Record = Vec<(String, Feature)>;

/// The value of a feature.
#[derive(Debug, Clone, PartialEq)]
pub enum Feature {
    /// `bytes_list`
    Bytes(Vec<Vec<u8>>),
    /// `float_list`
    Float(Vec<f32>),
    /// `int64_list`
    Int64(Vec<i64>),
    /// None of the three is set.
    Unset,
}

/// The shards in a directory, in the order of their names.
pub fn shard_files(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(directory)
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().contains(".tfrecord")))
        .collect();
    files.sort();
    files
}

/// The records of every shard in a directory, shard after shard.
pub fn read_shards(directory: &Path) -> Vec<Record> {
    shard_files(directory).iter().flat_map(|file| read_file(file)).collect()
}

/// The records of one file, compressed as its name says.
pub fn read_file(path: &Path) -> Vec<Record> {
    let compression = match path.extension().and_then(|extension| extension.to_str()) {
        Some("gz") => Compression::Gzip,
        Some("zlib") => Compression::Zlib,
        _ => Compression::None,
    };
    let mut reader = RecordReader::with_compression(File::open(path).unwrap(), compression);
    let (mut records, mut payload) = (Vec::new(), Vec::new());
    while reader.read_record(&mut payload).unwrap_or_else(|error| panic!("{}: {error}", path.display())) {
        records.push(record(&payload));
    }
    records
}

fn record(payload: &[u8]) -> Record {
    let example = Example::decode(payload).expect("a record is an Example");
    let features = example.features.unwrap_or_default().feature;
    let mut record: Record = features.into_iter().map(|(name, feature)| (name, value(feature.kind))).collect();
    record.sort_by(|(a, _), (b, _)| a.cmp(b));
    record
}

fn value(kind: Option<Kind>) -> Feature {
    match kind {
        Some(Kind::BytesList(list)) => Feature::Bytes(list.value),
        Some(Kind::FloatList(list)) => Feature::Float(list.value),
        Some(Kind::Int64List(list)) => Feature::Int64(list.value),
        None => Feature::Unset,
    }
}
