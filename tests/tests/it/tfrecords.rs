//! TFRecord files that other systems wrote, sound and damaged: what a query makes of them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::{DataType, Field, Schema};
use arrow_tfrecord::{Encoder, Mapping, MappingOptions, RecordBuffer, RecordType};
use prost::Message;
use serde_json::{Map, Value, json};
use tfr_proto::tensorflow::serving::ExampleListWithContext;
use tfr_tests::{Corpus, Entry, Feature, Record, Sequence, read_file, read_sequences, records, repository, sequences};

use tfrecord_framing::RecordReader;

use crate::round_trip::{inferred, inferred_sequences, report};
use crate::session;

/// Files of the corpus with records of other types, which protobuf takes for Examples: sound ones, passing over what it
/// does not know. They are refused.
const OTHER_MESSAGES: [&str; 2] = [
    "tfrecord/agents/antmaze-medium-play-v0_0.tfrecord.spec",
    "tfrecord/tfx/iris_native_keras_custom_splits/StatisticsGen/statistics/4/training/stats_tfrecord",
];

/// Records of TensorFlow Ranking.
const LISTS: &str = "tfrecord/ranking/examples/data/eval_elwc.tfrecord";

/// Those with SequenceExamples.
pub const SEQUENCES: [&str; 2] = [
    "tfrecord/tfx/tfrecord_sequence/Split-eval/data_tfrecord_eval.gz",
    "tfrecord/torchdata/tfrecord/sequence_example.tfrecord",
];

#[tokio::test]
async fn sound_files_of_the_corpus() {
    let Some(corpus) = Corpus::find() else { return };
    let context = session::of_command(2);
    let mut wrong = BTreeMap::new();
    for entry in corpus.entries(&["tfrecord", "tfds"]) {
        let is_other = OTHER_MESSAGES.contains(&entry.path.as_str());
        let is_other = is_other || SEQUENCES.contains(&entry.path.as_str()) || entry.path == LISTS;
        if entry.expect != "ok" || !is_records(&entry) || is_other {
            continue;
        }
        let path = corpus.join(&entry.path);
        // Next to those of TensorFlow Datasets is a description of their columns.
        let table = format!("t={},format=tfrecord", path.display());
        let found = match entry.path.starts_with("tfds/") {
            true => session::select_all_of(&context, &table).await,
            false => session::select_all(&context, &path).await,
        };
        let differences = match found {
            Ok(found) => {
                let mut wrong = inferred(&read_file(&path), &found);
                if Some(found.num_rows() as u64) != entry.rows {
                    wrong.push(format!("{} rows instead of {:?}", found.num_rows(), entry.rows));
                }
                let expected = expectation(&corpus.join(&entry.expected));
                let found = records(&found);
                wrong.extend(found.iter().zip(&expected).enumerate().find_map(|(row, (found, expected))| {
                    let found = in_words_of_the_corpus(found);
                    (found != *expected).then(|| format!("row {row}: {found:.300} instead of {expected:.300}"))
                }));
                wrong
            }
            Err(error) => vec![error.to_string()],
        };
        wrong.insert(entry.path, differences);
    }
    assert!(wrong.len() >= 36, "{}", wrong.len());
    report(wrong);
}

/// Whether a file is one of records, and not what TensorFlow Datasets has put beside them.
pub fn is_records(entry: &Entry) -> bool {
    entry.kind == "tfrecord" || entry.path.contains(".tfrecord")
}

/// Directories as TensorFlow Datasets leaves them: the shards of all splits, and not what describes them.
#[tokio::test]
async fn tfds_directories_read_all_splits() {
    let Some(corpus) = Corpus::find() else { return };
    let context = session::of_command(2);
    let mut datasets = BTreeMap::<String, u64>::new();
    for entry in corpus.entries(&["tfds"]).iter().filter(|entry| entry.path.contains(".tfrecord")) {
        let (directory, _) = entry.path.rsplit_once('/').unwrap();
        *datasets.entry(directory.to_owned()).or_default() += entry.rows.unwrap();
    }
    assert_eq!(datasets.len(), 4);
    for (directory, rows) in datasets {
        let found = session::select_all(&context, &corpus.join(&directory)).await.unwrap();
        assert_eq!(found.num_rows() as u64, rows, "{directory}");
    }
}

#[tokio::test]
async fn records_of_other_types_are_refused() {
    let Some(corpus) = Corpus::find() else { return };
    let context = session::of_command(2);
    for name in OTHER_MESSAGES {
        let path = corpus.join(name);
        let error = session::select_all(&context, &path).await.map(|rows| rows.schema()).unwrap_err().to_string();
        assert!(error.contains("record 0 at byte 0: ") && error.contains("tf.train.Example"), "{error}");
        // Nor are they rows of nulls.
        let columns = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true)]));
        let declared = session::select_declared(&context, &path, columns).await.map(|rows| rows.num_rows());
        assert_eq!(declared.unwrap_err().to_string(), error);
    }
}

/// Records of TensorFlow Ranking are read as protobuf reads them, since the rows are the same messages again.
#[tokio::test]
async fn lists_of_examples_of_the_corpus() {
    let Some(corpus) = Corpus::find() else { return };
    let path = corpus.join(LISTS);
    let found = session::select_all(&session::of_command(2), &path).await.unwrap();
    let (mut reader, mut record) = (RecordReader::detect(BufReader::new(File::open(&path).unwrap())), Vec::new());
    let mut expected = Vec::new();
    while reader.read_record(&mut record).unwrap() {
        expected.push(ExampleListWithContext::decode(record.as_slice()).unwrap());
    }
    assert!(expected.iter().map(|message| message.examples.len()).sum::<usize>() > expected.len());
    let options = MappingOptions::default().with_record_type(RecordType::ExampleListWithContext);
    let mapping = Arc::new(Mapping::try_new(&found.schema(), &options).unwrap());
    let mut records = RecordBuffer::default();
    Encoder::new(mapping).encode(&found, &mut records).unwrap();
    let again = (0..records.len()).map(|at| ExampleListWithContext::decode(records.payload(at)).unwrap());
    assert_eq!(again.collect::<Vec<_>>(), expected);
}

/// SequenceExamples of others, by what TensorFlow says is in them.
#[tokio::test]
async fn sequences_of_the_corpus() {
    let Some(corpus) = Corpus::find() else { return };
    let context = session::of_command(2);
    let mut wrong = BTreeMap::new();
    for entry in corpus.entries(&["tfrecord"]).iter().filter(|entry| SEQUENCES.contains(&entry.path.as_str())) {
        let path = corpus.join(&entry.path);
        let found = session::select_all(&context, &path).await.unwrap();
        assert_eq!(Some(found.num_rows() as u64), entry.rows);
        let mut differences = inferred_sequences(&read_sequences(&path), &found);
        let lines = fs::read_to_string(corpus.join(&entry.expected)).unwrap();
        let expected: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let names = expected.iter().flat_map(|record| record["feature_lists"].as_object().unwrap().keys());
        let found = sequences(&found, &names.cloned().collect());
        for (row, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let steps = |steps: &Value| -> Value {
                let steps = steps.as_array().unwrap().iter();
                steps.map(|step| normalised(&json!({ "step": step }))["step"].clone()).collect()
            };
            let lists = expected["feature_lists"].as_object().unwrap().iter();
            let lists: Map<_, _> = lists.map(|(name, list)| (name.clone(), steps(list))).collect();
            let expected = (normalised(&expected["features"]), Value::from(lists));
            let steps = |steps: &[Feature]| -> Value { steps.iter().map(feature_of_the_corpus).collect() };
            let lists: Map<_, _> = found.lists.iter().map(|(name, list)| (name.clone(), steps(list))).collect();
            let found = (in_words_of_the_corpus(&found.context), Value::from(lists));
            if found != expected {
                differences.push(format!("row {row}: {found:.300?} instead of {expected:.300?}"));
            }
        }
        wrong.insert(entry.path.clone(), differences);
    }
    assert_eq!(wrong.len(), SEQUENCES.len());
    report(wrong);
}

/// The context of a `tf.train.SequenceExample` stands where an Example has its features.
#[tokio::test]
async fn the_context_of_a_sequence_is_read_by_name() {
    let Some(corpus) = Corpus::find() else { return };
    let columns = Arc::new(Schema::new(vec![Field::new("x_byte", DataType::Utf8, false)]));
    let path = corpus.join(SEQUENCES[1]);
    let rows = session::select_declared(&session::of_command(2), &path, columns).await.unwrap();
    assert_eq!(rows.num_rows(), 4);
    assert_eq!(rows.column(0).as_string::<i32>().value(0), "test str");
}

/// The records of an expectation, features without a kind left out: they are nulls, as those that are not there.
fn expectation(path: &Path) -> Vec<Value> {
    let lines = if path.is_file() { fs::read_to_string(path).unwrap() } else { String::new() };
    lines.lines().map(|line| normalised(&serde_json::from_str::<Value>(line).unwrap()["features"])).collect()
}

/// Floats as text of their 32 bits: parsing JSON may be off by one in the last of 64.
fn normalised(features: &Value) -> Value {
    let mut normal = Map::new();
    for (name, feature) in features.as_object().expect("features by name") {
        let (kind, values) = feature.as_object().unwrap().iter().next().expect("a feature has a kind");
        let float = |value: &Value| match value.as_str() {
            Some("Infinity") => json!("inf"),
            Some("-Infinity") => json!("-inf"),
            Some(_) => json!("NaN"),
            None => json!(format!("{:?}", value.as_f64().unwrap() as f32)),
        };
        match kind.as_str() {
            "none" => {}
            "float" => {
                let values: Vec<_> = values.as_array().unwrap().iter().map(float).collect();
                normal.insert(name.clone(), json!({ "float": values }));
            }
            _ => {
                normal.insert(name.clone(), feature.clone());
            }
        }
    }
    normal.into()
}

fn in_words_of_the_corpus(record: &Record) -> Value {
    record.iter().map(|(name, value)| (name.clone(), feature_of_the_corpus(value))).collect::<Map<_, _>>().into()
}

fn feature_of_the_corpus(feature: &Feature) -> Value {
    match feature {
        Feature::Int64(values) => json!({ "int64": values }),
        Feature::Float(values) => {
            json!({ "float": values.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>() })
        }
        Feature::Bytes(values) => json!({ "bytes": values.iter().map(|value| blob(value)).collect::<Vec<_>>() }),
        Feature::Unset => json!({ "none": [] }),
    }
}

fn blob(bytes: &[u8]) -> Value {
    use base64::prelude::{BASE64_STANDARD, Engine};
    use sha2::{Digest, Sha256};

    if bytes.len() <= 2048 {
        return BASE64_STANDARD.encode(bytes).into();
    }
    let digest: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    json!({ "len": bytes.len(), "sha256": digest })
}

/// Tables as TensorFlow, tfx_bsl and Spark write them, against what TensorFlow's own protobufs say of every record.
#[tokio::test]
async fn golden_files_of_three_writers() {
    let golden = repository().join("../shared/golden");
    let Ok(readback) = fs::read_to_string(golden.join("readback/tf.json")) else {
        eprintln!("skipped: {} is not there", golden.display());
        return;
    };
    let readback: BTreeMap<String, Vec<Value>> = serde_json::from_str(&readback).unwrap();
    let context = session::of_command(2);
    let mut wrong = BTreeMap::new();
    for (name, expected) in readback {
        let path = golden.join(format!("{name}.tfrecord"));
        let differences = match session::select_all(&context, &path).await {
            Ok(found) if expected.iter().any(|record| record.get("lists").is_some()) => {
                let names = expected.iter().flat_map(|record| record["lists"].as_object().unwrap().keys());
                let mut wrong = inferred_sequences(&read_sequences(&path), &found);
                let found = sequences(&found, &names.cloned().collect());
                let found: Vec<_> = found.iter().map(sequence_of_the_readback).collect();
                if found != expected {
                    wrong.push(format!("{found:.500?} instead of {expected:.500?}"));
                }
                wrong
            }
            Ok(found) => {
                let mut wrong = inferred(&read_file(&path), &found);
                let found: Vec<_> = records(&found).iter().map(in_words_of_the_readback).collect();
                let expected: Vec<_> = expected.iter().map(without_kindless).collect();
                if found != expected {
                    wrong.push(format!("{found:.500?} instead of {expected:.500?}"));
                }
                wrong
            }
            Err(error) => vec![error.to_string()],
        };
        wrong.insert(name, differences);
    }
    for compressed in ["mixed.tfrecord.gzip", "mixed.tfrecord.zlib"] {
        let path: PathBuf = golden.join("tf").join(compressed);
        let found = session::select_all(&context, &path).await.unwrap();
        wrong.insert(compressed.to_owned(), inferred(&read_file(&golden.join("tf/mixed.tfrecord")), &found));
    }
    assert_eq!(wrong.len(), 69);
    report(wrong);
}

fn without_kindless(record: &Value) -> Value {
    let features = record.as_object().expect("features by name").iter().filter(|(_, feature)| !feature.is_null());
    features.map(|(name, feature)| (name.clone(), feature.clone())).collect::<Map<_, _>>().into()
}

fn sequence_of_the_readback(sequence: &Sequence) -> Value {
    let steps = |steps: &[Feature]| -> Value { steps.iter().map(feature_of_the_readback).collect() };
    let lists: Map<_, _> = sequence.lists.iter().map(|(name, list)| (name.clone(), steps(list))).collect();
    json!({ "context": in_words_of_the_readback(&sequence.context), "lists": lists })
}

/// `{feature: [kind, values]}`, with long values cut short.
fn in_words_of_the_readback(record: &Record) -> Value {
    record.iter().map(|(name, value)| (name.clone(), feature_of_the_readback(value))).collect::<Map<_, _>>().into()
}

fn feature_of_the_readback(feature: &Feature) -> Value {
    let float = |value: &f32| match value {
        value if value.is_nan() => json!("nan"),
        value if value.is_infinite() => json!(if *value > 0.0 { "inf" } else { "-inf" }),
        value if *value == 0.0 && value.is_sign_negative() => json!("-0.0"),
        value => json!(f64::from(*value)),
    };
    match feature {
        Feature::Int64(values) => json!(["int64_list", abbreviated(values, |value| json!(value))]),
        Feature::Float(values) => json!(["float_list", abbreviated(values, float)]),
        Feature::Bytes(values) => json!(["bytes_list", abbreviated(values, |value| hex(value))]),
        Feature::Unset => Value::Null,
    }
}

fn abbreviated<T>(values: &[T], shown: impl Fn(&T) -> Value) -> Vec<Value> {
    if values.len() <= 12 {
        return values.iter().map(shown).collect();
    }
    values[..4].iter().map(shown).chain([json!(format!("..({})", values.len()))]).collect()
}

fn hex(bytes: &[u8]) -> Value {
    let digits = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    match bytes.len() {
        0..=40 => json!(format!("hex:{}", digits(bytes))),
        len => json!(format!("hex:{}..({len})", digits(&bytes[..8]))),
    }
}
