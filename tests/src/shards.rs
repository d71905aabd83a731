//! Shards read back by protobuf: the oracle for tests that have no TensorFlow at hand.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use prost::Message;
use tfr_proto::tensorflow::{Example, Features, SequenceExample, feature::Kind};
use tfrecord_framing::RecordReader;

/// A record: its features by name, sorted.
pub type Record = Vec<(String, Feature)>;

/// The value of a feature.
#[derive(Debug, Clone)]
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

/// Floats by their bits: zeros have a sign, and a NaN is equal to itself.
impl PartialEq for Feature {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => {
                a.iter().map(|value| value.to_bits()).eq(b.iter().map(|value| value.to_bits()))
            }
            (Self::Int64(a), Self::Int64(b)) => a == b,
            (Self::Unset, Self::Unset) => true,
            _ => false,
        }
    }
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

/// The records of one file.
pub fn read_file(path: &Path) -> Vec<Record> {
    payloads(path).iter().map(|payload| record(payload)).collect()
}

/// The payloads of the records of one file.
pub fn payloads(path: &Path) -> Vec<Vec<u8>> {
    let mut reader = RecordReader::detect(File::open(path).unwrap());
    let (mut payloads, mut payload) = (Vec::new(), Vec::new());
    while reader.read_record(&mut payload).unwrap_or_else(|error| panic!("{}: {error}", path.display())) {
        payloads.push(payload.clone());
    }
    payloads
}

fn record(payload: &[u8]) -> Record {
    let example = Example::decode(payload).expect("a record is an Example");
    by_name(example.features.unwrap_or_default())
}

fn by_name(features: Features) -> Record {
    let mut record: Record = features.feature.into_iter().map(|(name, feature)| (name, value(feature.kind))).collect();
    record.sort_by(|(a, _), (b, _)| a.cmp(b));
    record
}

/// A `tf.train.SequenceExample`: its context, and the steps of its feature lists by name, sorted.
#[derive(Debug, Clone, PartialEq)]
pub struct Sequence {
    /// The features of the context.
    pub context: Record,
    /// The feature lists.
    pub lists: Vec<(String, Vec<Feature>)>,
}

/// The records of one file, or of every shard in a directory, where they are SequenceExamples.
pub fn read_sequences(path: &Path) -> Vec<Sequence> {
    let files = if path.is_dir() { shard_files(path) } else { vec![path.to_owned()] };
    files.iter().flat_map(|file| payloads(file)).map(|payload| sequence(&payload)).collect()
}

fn sequence(payload: &[u8]) -> Sequence {
    let sequence = SequenceExample::decode(payload).expect("a record is a SequenceExample");
    let lists = sequence.feature_lists.unwrap_or_default().feature_list.into_iter();
    let steps = |list: tfr_proto::tensorflow::FeatureList| list.feature.into_iter().map(|step| value(step.kind));
    let mut lists: Vec<_> = lists.map(|(name, list)| (name, steps(list).collect())).collect();
    lists.sort_by(|(a, _), (b, _): &(String, Vec<Feature>)| a.cmp(b));
    Sequence { context: by_name(sequence.context.unwrap_or_default()), lists }
}

fn value(kind: Option<Kind>) -> Feature {
    match kind {
        Some(Kind::BytesList(list)) => Feature::Bytes(list.value),
        Some(Kind::FloatList(list)) => Feature::Float(list.value),
        Some(Kind::Int64List(list)) => Feature::Int64(list.value),
        None => Feature::Unset,
    }
}
