use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_tfrecord::Choice;
use tfrecord_framing::{Level, RecordWriter};
use tfrecord_shards::{ShardedWriterBuilder, Sharding};

use super::*;
use crate::form::SchemaForm;
use crate::stats::Vocabularies;

type Outcome = std::result::Result<(), Box<dyn std::error::Error>>;

fn example(a: i64, name: Option<&str>) -> Vec<u8> {
    let mut columns = vec![("a", Arc::new(Int64Array::from(vec![a])) as ArrayRef)];
    columns.extend(name.map(|name| ("name", Arc::new(StringArray::from(vec![name])) as ArrayRef)));
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mapping = Arc::new(Mapping::try_new(&batch.schema(), &MappingOptions::default()).unwrap());
    let mut records = arrow_tfrecord::RecordBuffer::default();
    Encoder::new(mapping).encode(&batch, &mut records).unwrap();
    records.payload(0).to_vec()
}

fn write(path: PathBuf, records: &[Vec<u8>], compression: Compression) {
    let mut writer = RecordWriter::with_compression(Vec::new(), compression, Level::default());
    records.iter().for_each(|record| writer.write_record(record).unwrap());
    fs::write(path, writer.finish().unwrap()).unwrap();
}

fn split(set: &Description, name: &str) -> Result<Vec<u64>> {
    let info = set.dataset_info("set")?;
    Ok(info
        .splits()
        .iter()
        .find(|split| split.name == name)
        .map(|split| split.shard_lengths.clone())
        .unwrap_or_default())
}

/// Types and presence are those of all records of all files.
#[test]
fn describe_infers_types_and_presence_from_records() -> Outcome {
    let dir = tempfile::tempdir()?;
    let file = |name: &str| dir.path().join(name);
    write(file("train-00000-of-00002"), &[example(1, None), example(2, Some("x"))], Compression::None);
    write(file("train-00001-of-00002"), &[], Compression::None);
    write(file("val-00000-of-00001"), &[example(3, Some("y"))], Compression::None);
    fs::write(file("notes.txt"), "not a record")?;
    let set = describe(dir.path(), &DescribeOptions::default())?;
    assert_eq!(set.statistics.rows(), 3);
    let missing = |name: &str| set.statistics.feature(name).map(|feature| feature.missing());
    assert_eq!((missing("a"), missing("name"), missing("b")), (Some(0), Some(1), None));
    assert_eq!((split(&set, "train")?, split(&set, "val")?), (vec![2, 0], vec![1]));
    let python = set.table("set/").render(SchemaForm::Python)?;
    assert!(python.contains(r#""a": tf.io.FixedLenFeature([], tf.int64)"#), "{python}");
    assert!(python.contains("COMPRESSION = \"\"\n"));
    let pbtxt = set.table("set/").render(SchemaForm::Pbtxt)?;
    assert!(pbtxt.contains("value: \"x\"\n    value: \"y\""), "{pbtxt}");
    Ok(())
}

#[test]
fn describe_uses_a_schema_next_to_the_files() -> Outcome {
    let dir = tempfile::tempdir()?;
    write(dir.path().join("data-00000-of-00001"), &[example(1, Some("x"))], Compression::Gzip);
    let schema = dir.path().join(SCHEMA_NAME);
    fs::write(&schema, "feature { name: \"a\" type: INT bool_domain {} }")?;
    let set = describe(dir.path(), &DescribeOptions::default())?;
    assert_eq!(set.table("set/").render(SchemaForm::Arrow)?, "a  List(Boolean)\n");
    assert_eq!(set.compression(), Some(Compression::Gzip));
    let error = set.dataset_info("set").unwrap_err();
    assert!(error.to_string().contains("compressed with GZIP") || error.to_string().contains("gzip"), "{error}");

    fs::write(&schema, "feature {")?;
    let error = describe(dir.path(), &DescribeOptions::default()).unwrap_err();
    assert!(error.to_string().ends_with("schema.pbtxt"), "{error}");
    Ok(())
}

/// A manifest tells types that records cannot, and which split a shard is of.
#[test]
fn describe_uses_the_manifest() -> Outcome {
    let dir = tempfile::tempdir()?;
    let out = dir.path().join("set");
    let labels: ArrayRef = Arc::new(StringArray::from(vec!["cat", "dog", "cat"]));
    let batch = RecordBatch::try_from_iter([("label", labels)])?;
    let words = ["cat", "dog"].map(str::to_owned).to_vec();
    let options = MappingOptions::default().with_choice("label", Choice::Index).with_vocabulary("label", words);
    let builder = ShardedWriterBuilder::new(batch.schema()).with_mapping(options).with_sharding(Sharding::Rows(2));
    let mut writer = builder.build(&out)?;
    writer.write(&batch)?;
    writer.finish()?;
    let set = describe(&out, &DescribeOptions::default())?;
    let label = set.statistics.feature("label").ok_or("no label")?;
    assert_eq!(label.max(), Some(1.0));
    let vocabularies = Vocabularies::new(&set.mapping);
    let frequent: Vec<_> = label.frequent(2).iter().map(|frequent| vocabularies.text(label, &frequent.value)).collect();
    assert_eq!(frequent, ["0: cat", "1: dog"]);
    assert!(set.statistics.to_html("set", &vocabularies).contains("1: dog"));
    assert_eq!(split(&set, "train")?, [2, 1]);
    let labels = crate::tfds::label_files(&set.mapping, Some(&set.statistics))?;
    assert_eq!(labels, [("label.labels.txt".to_owned(), "cat\ndog\n".to_owned())]);

    fs::remove_file(out.join("part-00001-of-00002.tfrecord"))?;
    let error = describe(&out, &DescribeOptions::default()).unwrap_err();
    assert!(error.to_string().starts_with("not a complete set: "), "{error}");
    Ok(())
}

#[test]
fn describe_names_files_it_cannot_read() -> Outcome {
    let dir = tempfile::tempdir()?;
    let error = describe(dir.path(), &DescribeOptions::default()).unwrap_err();
    assert!(error.to_string().ends_with("contains no TFRecord file"), "{error}");

    let path = dir.path().join("part-00000-of-00001.tfrecord");
    write(path.clone(), &[example(1, None)], Compression::None);
    let mut bytes = fs::read(&path)?;
    bytes.truncate(bytes.len() - 1);
    fs::write(&path, bytes)?;
    let error = describe(dir.path(), &DescribeOptions::default()).unwrap_err();
    assert!(error.to_string().ends_with("part-00000-of-00001.tfrecord"), "{error}");
    let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    assert!(source.contains("record 0"), "{source}");
    Ok(())
}
