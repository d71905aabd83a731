//! The schemas that TFX, TensorFlow Datasets, Merlin and Transformers4Rec have published, and the records beside them.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test may panic and print")]

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use arrow_schema::{DataType, Field, Schema};
use arrow_tfrecord::is_example_list;
use serde_json::Value;
use tfrecord_framing::{RecordReader, Records};
use tfrecord_sidecars::describe::{DescribeOptions, describe};
use tfrecord_sidecars::{SchemaForm, json_line, textproto, tfmd};

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

/// The corpus, which lies beside the repository where it is at hand.
fn corpus() -> Option<PathBuf> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    if corpus.is_dir() {
        return Some(corpus);
    }
    eprintln!("skipped: the corpus is not at hand");
    None
}

fn files(folder: &Path, wanted: &dyn Fn(&str) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().is_some_and(|name| wanted(&name.to_string_lossy())) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The number of features of each schema is in the corpus's own list.
#[test]
fn every_schema_is_read_or_refused_by_name() -> Result {
    let Some(corpus) = corpus() else { return Ok(()) };
    let manifest = fs::read_to_string(corpus.join("MANIFEST.csv"))?;
    let schemas = files(&corpus.join("tfmd"), &|name| name.ends_with(".pbtxt"));
    assert!(schemas.len() >= 18, "{}", schemas.len());
    let mut lines = String::new();
    for path in schemas {
        let name = path.strip_prefix(&corpus)?.to_string_lossy().into_owned();
        let row = manifest.lines().find(|row| row.starts_with(&format!("{name},"))).ok_or("not listed")?;
        let expected: usize = row.split(',').nth(4).ok_or("no number of rows")?.parse()?;
        let read = match tfmd::schema_from_pbtxt(&fs::read_to_string(&path)?) {
            Ok(schema) => {
                let mut types: BTreeMap<String, usize> = BTreeMap::new();
                for field in schema.fields() {
                    let not_null = if field.is_nullable() { "" } else { " not null" };
                    *types.entry(format!("{}{not_null}", field.data_type())).or_default() += 1;
                }
                let types: Vec<_> = types.iter().map(|(name, count)| format!("{count} {name}")).collect();
                format!("{} of {expected} features: {}", schema.fields().len(), types.join(", "))
            }
            Err(error) => error.to_string(),
        };
        lines += &format!("{}\n  {read}\n", name.trim_start_matches("tfmd/"));
    }
    insta::assert_snapshot!(lines);
    Ok(())
}

/// What TensorFlow Datasets has told of its features, describing its records tells, too.
#[test]
fn describe_matches_features_of_tensorflow_datasets() -> Result {
    let Some(corpus) = corpus() else { return Ok(()) };
    let mut compared = 0;
    for path in files(&corpus.join("tfds"), &|name| name == "features.json") {
        let features = |json: &str| -> Result<BTreeMap<String, &'static str>> {
            let mut shown = BTreeMap::new();
            tell(&serde_json::from_str(json)?, "", &mut shown);
            Ok(shown)
        };
        let described = describe(path.parent().ok_or("no folder")?, &DescribeOptions::default())?;
        let (ours, theirs) = (described.table("set/").render(SchemaForm::FeaturesJson)?, fs::read_to_string(&path)?);
        let theirs = features(&theirs)?;
        assert_eq!(features(&ours)?, theirs, "{}", path.display());
        compared += theirs.len();
    }
    assert!(compared >= 20, "{compared}");
    Ok(())
}

/// The same of what TFX has told of its examples: their types, and which features have one value in each.
#[test]
fn describe_matches_schemas_of_tfx() -> Result {
    let Some(corpus) = corpus() else { return Ok(()) };
    for (records, schema, without_kind) in [
        // Of the tract there is no value in the records: its features are of no kind.
        ("csv_example_gen/Split-eval", "schema_gen/schema.pbtxt", &["pickup_census_tract"][..]),
        ("penguin/data/Split-train", "penguin/schema/schema.pbtxt", &[]),
    ] {
        let described = describe(&corpus.join("tfrecord/tfx").join(records), &DescribeOptions::default())?;
        let ours = tfmd::schema_from_pbtxt(&described.table("set/").render(SchemaForm::Pbtxt)?)?;
        let theirs = tfmd::schema_from_pbtxt(&fs::read_to_string(corpus.join("tfmd/tfx").join(schema))?)?;
        let kinds = |schema: &Schema| -> BTreeMap<String, &'static str> {
            schema.fields().iter().map(|field| (field.name().clone(), kind(field.data_type()))).collect()
        };
        let mut expected = kinds(&theirs);
        expected.retain(|name, _| !without_kind.contains(&name.as_str()));
        assert_eq!(kinds(&ours), expected, "{records}");
        let is_one = |field: &Field| !field.is_nullable() && !matches!(field.data_type(), DataType::List(_));
        for field in theirs.fields().iter().filter(|field| is_one(field)) {
            assert!(is_one(ours.field_with_name(field.name())?), "{records}: {}", field.name());
        }
    }
    Ok(())
}

/// The kinds of all features below one, by the names that they have in records.
fn tell(feature: &Value, name: &str, shown: &mut BTreeMap<String, &'static str>) {
    let below = |inner: &str| if name.is_empty() { inner.to_owned() } else { format!("{name}/{inner}") };
    if let Some(features) = feature["featuresDict"]["features"].as_object() {
        features.iter().for_each(|(inner, feature)| tell(feature, &below(inner), shown));
    } else if let Some(languages) = feature["content"]["languages"].as_array() {
        shown.extend(languages.iter().filter_map(Value::as_str).map(|language| (below(language), "bytes")));
    } else if let Some(sequence) = feature.get("sequence") {
        tell(&sequence["feature"], name, shown);
    } else if feature.get("text").is_some() || feature.get("image").is_some() {
        shown.insert(name.to_owned(), "bytes");
    } else if feature.get("classLabel").is_some() {
        shown.insert(name.to_owned(), "int64");
    } else {
        let dtype = [&feature["tensor"]["dtype"], &feature["boundingBox"]["dtype"]].into_iter().find_map(Value::as_str);
        let kind = match dtype {
            Some(dtype) if dtype.starts_with("float") => "float",
            Some("object" | "string") => "bytes",
            Some(_) => "int64",
            None => panic!("{name}: {feature}"),
        };
        shown.insert(name.to_owned(), kind);
    }
}

fn kind(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Int64 => "int64",
        DataType::Float32 => "float",
        DataType::Utf8 | DataType::Binary => "bytes",
        DataType::List(item) | DataType::FixedSizeList(item, _) => kind(item.data_type()),
        other => panic!("{other}"),
    }
}

fn records(path: &Path) -> Result<Records> {
    let mut records = Records::new();
    RecordReader::detect(BufReader::new(File::open(path)?)).read_records(usize::MAX, &mut records)?;
    Ok(records)
}

/// The lines of sound files hold the values that other readers found, whatever wrote the files.
#[test]
fn json_lines_match_other_readers() -> Result {
    let Some(corpus) = corpus() else { return Ok(()) };
    let (mut compared, mut refused) = (0, 0);
    for expectation in files(&corpus.join("expected/tfrecord"), &|name| name.ends_with(".jsonl")) {
        let name = expectation.strip_prefix(corpus.join("expected"))?.with_extension("");
        let Ok(records) = records(&corpus.join(name)) else { continue };
        for (record, line) in records.iter().zip(fs::read_to_string(&expectation)?.lines()) {
            let expected: Value = serde_json::from_str(line)?;
            if expected.get("features").is_none() {
                refused += 1;
                continue;
            }
            // Other readers take an ExampleListWithContext for an Example, whose names are messages.
            let is_message = |features: &Value| {
                features.as_object().is_some_and(|map| map.keys().any(|name| name.starts_with('\n')))
            };
            if is_example_list(record) && is_message(&expected["features"]) {
                refused += 1;
                continue;
            }
            assert!(!textproto(record)?.is_empty() || record.is_empty(), "{line}");
            let read: Value = serde_json::from_str(&json_line(record)?)?;
            let (features, lists) = match expected.get("feature_lists") {
                Some(lists) => (&read["context"], Some((lists, &read["feature_lists"]))),
                None => (&read, None),
            };
            same(&expected["features"], features, &|expected, found| same_feature(expected, found))?;
            if let Some((expected, found)) = lists {
                same(expected, found, &|expected, found| {
                    let steps = expected.as_array().into_iter().flatten().zip(found.as_array().into_iter().flatten());
                    expected.as_array().map(Vec::len) == found.as_array().map(Vec::len)
                        && steps.into_iter().all(|(expected, found)| same_feature(expected, found))
                })?;
            }
            compared += 1;
        }
    }
    assert!(compared > 1000, "{compared} compared, {refused} of other types");
    Ok(())
}

fn same(expected: &Value, found: &Value, equal: &dyn Fn(&Value, &Value) -> bool) -> Result {
    let (expected, found) = (expected.as_object().ok_or("no map")?, found.as_object().ok_or("no map")?);
    assert_eq!(expected.keys().collect::<Vec<_>>(), found.keys().collect::<Vec<_>>());
    for (name, values) in expected {
        assert!(equal(values, &found[name]), "{name}: expected {values}, found {}", found[name]);
    }
    Ok(())
}

fn same_feature(expected: &Value, found: &Value) -> bool {
    if expected.get("none").is_some() {
        return found.is_null();
    }
    let Some((kind, values)) = expected.as_object().and_then(|kinds| kinds.iter().next()) else { return false };
    let (Some(values), Some(found)) = (values.as_array(), found.as_array()) else { return false };
    let single = |value: &Value| value.to_string().parse::<f32>().ok().map(f32::to_bits);
    values.len() == found.len()
        && values.iter().zip(found).all(|(value, found)| match kind.as_str() {
            "float" if value.is_number() => single(value) == single(found),
            "bytes" => same_bytes(value, found),
            _ => value == found,
        })
}

fn same_bytes(expected: &Value, found: &Value) -> bool {
    let bytes = match (found.as_str(), found["b64"].as_str()) {
        (Some(text), _) => text.as_bytes().to_vec(),
        (_, Some(coded)) => base64(coded),
        _ => return false,
    };
    match (expected.as_str(), expected["len"].as_u64()) {
        (Some(coded), _) => base64(coded) == bytes,
        // Long ones are told by their length and a digest that takes another crate.
        (_, Some(len)) => len == bytes.len() as u64,
        _ => false,
    }
}

fn base64(text: &str) -> Vec<u8> {
    use base64::prelude::{BASE64_STANDARD, Engine};
    BASE64_STANDARD.decode(text).unwrap()
}
