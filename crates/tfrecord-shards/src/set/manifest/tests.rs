use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, TimeUnit};
use base64::prelude::{BASE64_STANDARD, Engine};
use jsonschema::Validator;
use serde_json::json;

use super::*;

fn description() -> SetDescription {
    let fields = vec![
        Field::new("id", DataType::UInt64, false),
        Field::new("price", DataType::Decimal128(12, 2), true),
        Field::new("seen", DataType::Timestamp(TimeUnit::Nanosecond, Some("Europe/Berlin".into())), true),
        Field::new("tags", DataType::new_list(DataType::Utf8, true), true)
            .with_metadata([("unit".to_owned(), "none".to_owned())].into()),
        Field::new("box", DataType::new_fixed_size_list(DataType::Float32, 4, false), false),
        Field::new("kind", DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)), true),
    ];
    let schema = Arc::new(Schema::new(fields));
    let options = MappingOptions::default().with_choice("price", arrow_tfrecord::Choice::Unscaled);
    let mapping = Mapping::try_new(&schema, &options).unwrap();
    let mut description = SetDescription::new(&mapping, &options).unwrap();
    description.query = Some("SELECT * FROM t".to_owned());
    description.inputs = vec!["t.parquet".to_owned()];
    description.framing = Compression::Gzip.into();
    description.options.insert("level".to_owned(), json!(6));
    description
}

fn shard(index: usize) -> ShardEntry {
    ShardEntry {
        path: format!("part-0000{index}-of-00002.tfrecord.gz"),
        split: None,
        partition_values: BTreeMap::new(),
        rows: 10 + index as u64,
        framed_bytes: 1000,
        file_bytes: 100,
        crc32c: 0xbeef,
        offsets: vec![
            RecordOffset { record: 4, framed: 400, file: 40 },
            RecordOffset { record: 9, framed: 800, file: 79 },
        ],
    }
}

fn manifest() -> Manifest {
    Manifest::new(description(), vec![shard(0), shard(1)], &RunId::new())
}

fn schema() -> Value {
    serde_json::from_str(include_str!("../../../../../schemas/manifest.schema.json")).unwrap()
}

fn validator() -> Validator {
    jsonschema::options().should_validate_formats(true).build(&schema()).unwrap()
}

/// Reads a manifest as stored in a file.
fn read(json: &Value) -> Result<Manifest> {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(MANIFEST_NAME), serde_json::to_vec(json).unwrap()).unwrap();
    Manifest::read(dir.path())
}

/// Collects the properties that `schema` does not describe.
fn undescribed(schema: &Value, root: &Value, json: &Value, path: &str, found: &mut Vec<String>) {
    let schema = match schema["$ref"].as_str() {
        Some(reference) => root.pointer(reference.trim_start_matches('#')).unwrap(),
        None => schema,
    };
    // For a nullable property, the first alternative is the one to check.
    let schema = schema["anyOf"].get(0).unwrap_or(schema);
    let schema = match schema["$ref"].as_str() {
        Some(reference) => root.pointer(reference.trim_start_matches('#')).unwrap(),
        None => schema,
    };
    match json {
        Value::Object(members) => {
            for (name, member) in members {
                let path = format!("{path}/{name}");
                match (&schema["properties"][name], &schema["additionalProperties"]) {
                    (Value::Null, Value::Null) if schema["oneOf"].is_null() => found.push(path),
                    (Value::Null, any) => undescribed(any, root, member, &path, found),
                    (described, _) => undescribed(described, root, member, &path, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| undescribed(&schema["items"], root, item, path, found)),
        _ => {}
    }
}

/// A split and partitioned set with an appended run.
fn grouped() -> Manifest {
    let columns = ["dt", "v"].map(|name| Field::new(name, DataType::Utf8, true));
    let split = |name: &str, fraction| SplitDescription::new(name, fraction);
    let description = SetDescription {
        splits: vec![split("train", 0.9), split("eval", 0.1)],
        split_by: vec!["id".to_owned()],
        partition_columns: Some(SchemaDescription::try_new(&Schema::new(columns.to_vec())).unwrap()),
        sharding: Sharding::Hosts(std::num::NonZeroUsize::new(4).unwrap()),
        seed: Some(u64::MAX),
        ..description()
    };
    let shard = |path: &str, split: &str| ShardEntry {
        path: format!("dt=__HIVE_DEFAULT_PARTITION__/v=a%3Db/{path}.tfrecord.gz"),
        split: Some(split.to_owned()),
        partition_values: [("dt".to_owned(), None), ("v".to_owned(), Some("a=b".to_owned()))].into(),
        ..shard(0)
    };
    let (first, second) = (RunId::new(), RunId::new());
    let shards = vec![shard("train-00000-of-00001", "train"), shard("eval-00000-of-00001", "eval")];
    let manifest = Manifest::new(description.clone(), shards, &first);
    let added = vec![shard(&format!("eval-{second}-00000-of-00001"), "eval")];
    manifest
        .with_appended(SetDescription { query: None, seed: None, ..description }, added, &second, Path::new("shards"))
        .unwrap()
}

#[test]
fn manifest_json_matches_the_schema() {
    let manifest = grouped();
    let json = serde_json::to_value(&manifest).unwrap();
    let errors: Vec<_> = validator().iter_errors(&json).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    let mut unknown = Vec::new();
    undescribed(&schema(), &schema(), &json, "", &mut unknown);
    assert!(unknown.is_empty(), "the schema does not describe {unknown:#?}");
}

#[test]
fn manifest_schema_rejects_other_documents() {
    let spoil: [(&str, Value); 12] = [
        ("/format_version", json!("2.0")),
        ("/created", json!("yesterday")),
        ("/compression", json!("GZIP")),
        ("/shards/0/crc32c", json!("BEEF")),
        ("/shards/0/path", json!("/etc/passwd")),
        ("/shards/0/offsets/0", json!(16)),
        ("/schema", json!("int64")),
        ("/sharding", json!({})),
        ("/splits", json!([])),
        ("/splits/0/fraction", json!(0)),
        ("/appended/0/run", json!(7)),
        ("/partition_columns", Value::Null),
    ];
    for (pointer, value) in spoil {
        let mut json = serde_json::to_value(grouped()).unwrap();
        *json.pointer_mut(pointer).unwrap() = value;
        assert!(!validator().is_valid(&json), "{pointer}");
    }
}

#[test]
fn manifest_round_trips() {
    let manifest = manifest();
    let json: Value = serde_json::from_slice(&manifest.to_json().unwrap()).unwrap();
    let read = read(&json).unwrap();
    assert_eq!(read, manifest);
    assert_eq!(read.arrow_schema().unwrap(), description().schema.map(|schema| schema.to_schema().unwrap()));
    assert_eq!(read.mapping_options().unwrap().choices.len(), 1);
    assert_eq!(json["shards"][0]["crc32c"], "0000beef");
}

#[test]
fn manifest_records_each_append() {
    let longer = grouped();
    let manifest = &longer;
    let json: Value = serde_json::from_slice(&manifest.to_json().unwrap()).unwrap();
    assert_eq!(read(&json).unwrap(), *manifest);
    assert_eq!((manifest.totals.shards, manifest.totals.rows), (3, 30));
    let [appended] = manifest.appended.as_slice() else { panic!("{:?}", manifest.appended) };
    assert_eq!((appended.shards, appended.seed, &appended.query), (1, None, &None));
    assert_eq!(manifest.last_run(), appended.run);
    assert_eq!((manifest.query.as_deref(), manifest.seed), (Some("SELECT * FROM t"), Some(u64::MAX)));
    // Properties that a set does not have are omitted.
    let json = serde_json::to_value(self::manifest()).unwrap();
    for absent in ["splits", "split_by", "partition_columns", "appended"] {
        assert_eq!(json.get(absent), None);
    }
}

/// Each run has as many shards as are left of it, and the null partition is one like the others.
#[test]
fn manifest_records_replaced_partitions() {
    let set = grouped();
    let partition = |value: Option<&str>, directory: &str| ShardEntry {
        path: format!("dt={directory}/v=a%3Db/train-00000-of-00001.tfrecord.gz"),
        partition_values: [("dt".to_owned(), value.map(str::to_owned)), ("v".to_owned(), Some("a=b".to_owned()))]
            .into(),
        split: Some("train".to_owned()),
        ..shard(0)
    };
    let added = |values: [(Option<&str>, &str); 2], run: &RunId| {
        values.map(|(value, directory)| ShardEntry {
            path: partition(value, directory).path.replace("train-", &format!("train-{run}-")),
            ..partition(value, directory)
        })
    };
    let description = SetDescription {
        replace_partitions: true,
        splits: set.splits.clone(),
        split_by: set.split_by.clone(),
        partition_columns: set.partition_columns.clone(),
        ..description()
    };
    let null = (None, "__HIVE_DEFAULT_PARTITION__");
    let (run, next) = (RunId::new(), RunId::new());
    let shards = added([null, (Some("1"), "1")], &run).to_vec();
    let replaced = set.with_appended(description.clone(), shards, &run, Path::new("shards")).unwrap();
    let counts = |set: &Manifest| set.appended.iter().map(|run| run.shards).collect::<Vec<_>>();
    assert_eq!((replaced.shards.len(), counts(&replaced)), (2, vec![0, 2]));
    assert_eq!(replaced.appended[1].replaced_partitions, ["dt=__HIVE_DEFAULT_PARTITION__/v=a%3Db"]);
    let old: BTreeSet<_> = set.shards.iter().map(|shard| shard.path.clone()).collect();
    assert!(replaced.replaced.iter().eq(&old), "{:?}", replaced.replaced);
    assert_eq!(replaced.contradiction(), None);
    let json = serde_json::to_value(&replaced).unwrap();
    let mut unknown = Vec::new();
    undescribed(&schema(), &schema(), &json, "", &mut unknown);
    assert!(validator().is_valid(&json) && unknown.is_empty(), "the schema does not describe {unknown:#?}");

    let shards = added([(Some("1"), "1"), (Some("2"), "2")], &next).to_vec();
    let again = replaced.with_appended(description, shards, &next, Path::new("shards")).unwrap();
    assert_eq!((again.shards.len(), counts(&again)), (3, vec![0, 1, 2]));
    assert_eq!(again.replaced, [replaced.shards[1].path.clone()]);
    assert_eq!(again.appended[2].replaced_partitions, ["dt=1/v=a%3Db"]);
}

#[test]
fn groups_that_contradict_themselves_are_refused() {
    for (pointer, value, expected) in [
        ("/shards/0/split", json!("test"), "is of split \"test\", which the set does not have"),
        ("/shards/0/split", Value::Null, "is of no split"),
        ("/shards/0/partition_values/dt", json!("2026"), "is not in \"dt=2026/v=a%3Db\""),
        ("/shards/0/partition_values", json!({ "v": "a=b" }), "does not have one value for each partition column"),
        ("/shards/0/partition_values/w", json!("1"), "does not have one value for each partition column"),
        ("/shards/0/path", json!("dt=1/v=a%3Db/train-00000-of-00001.tfrecord.gz"), "is not in"),
        ("/shards/0/path", json!("dt=1//v=a%3Db/train.tfrecord.gz"), "leads out of the set"),
        ("/splits/1/name", json!("train"), "split \"train\" is declared twice"),
        ("/splits/1/fraction", json!(-0.1), "split \"eval\" has the fraction -0.1"),
        ("/splits/1/fraction", json!(0.2), "the fractions of the splits add up to 1.1"),
        ("/appended/0/shards", json!(4), "4 shards were appended, of 3 in the set"),
    ] {
        let mut json = serde_json::to_value(grouped()).unwrap();
        match json.pointer_mut(pointer) {
            Some(there) => *there = value,
            None => json["shards"][0]["partition_values"]["w"] = value,
        }
        let error = read(&json).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::ManifestContent { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{pointer}: {error}");
    }
    let mut twice = serde_json::to_value(grouped()).unwrap();
    twice["appended"][0]["run"] = twice["run"].clone();
    assert!(read(&twice).unwrap_err().to_string().contains("has written shards twice"));
    let mut no_splits = serde_json::to_value(manifest()).unwrap();
    no_splits["split_by"] = json!(["id"]);
    assert!(read(&no_splits).unwrap_err().to_string().contains("there are no splits"));
}

/// Sets of format 1.2, which could not declare splits and partitions.
#[test]
fn manifests_before_1_3_need_not_declare_groups() {
    let mut json = serde_json::to_value(manifest()).unwrap();
    json["format_version"] = json!("1.2");
    json["shards"][0]["split"] = json!("train");
    json["shards"][1]["partition_values"] = json!({ "dt": "1" });
    assert!(validator().is_valid(&json));
    assert_eq!(read(&json).unwrap().shards[0].split.as_deref(), Some("train"));
}

#[test]
fn manifest_is_reproducible_except_run_and_time() {
    let mut later = manifest();
    later.run.clone_from(&manifest().run);
    let (mut one, mut other) = (manifest(), later);
    assert_ne!(one.run, other.run);
    for manifest in [&mut one, &mut other] {
        manifest.run.clear();
        manifest.created = DateTime::UNIX_EPOCH;
    }
    assert_eq!(one.to_json().unwrap(), other.to_json().unwrap());
}

#[test]
fn newer_minor_versions_are_read_and_newer_major_ones_refused() {
    let mut json = serde_json::to_value(manifest()).unwrap();
    json["format_version"] = json!("1.7");
    json["vocabularies"] = json!({ "label": ["cat", "dog"] });
    json["shards"][0]["checked"] = json!("2027-01-01");
    assert_eq!(read(&json).unwrap().totals.rows, 21);

    let error = read(&json!({ "format_version": "2.0", "everything": "else" })).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::ManifestVersion { found, .. } if found.major == 2));
    assert!(error.to_string().ends_with("_manifest.json: expected format version 1.x, found 2.0"), "{error}");
}

#[test]
fn manifest_rejects_unknown_record_formats() {
    let mut json: Value = serde_json::to_value(manifest()).unwrap();
    json["record_format"] = json!("parquet");
    let error = read(&json).unwrap_err();
    let ErrorKind::ManifestSyntax { source, .. } = error.kind() else { panic!("{error}") };
    assert!(source.to_string().contains("unknown record format \"parquet\""), "{source}");
}

#[test]
fn manifest_rejects_contradictions() {
    let spoiled = |pointer: &str, value: Value| {
        let mut json = serde_json::to_value(manifest()).unwrap();
        *json.pointer_mut(pointer).unwrap() = value;
        read(&json).unwrap_err()
    };
    for path in ["", "/etc/passwd", "../other/part-00000-of-00001.tfrecord", "a/../../b", "."] {
        let error = spoiled("/shards/0/path", json!(path));
        assert!(error.to_string().contains("leads out of the set"), "{path:?}: {error}");
    }
    let twice = spoiled("/shards/0/path", json!(shard(1).path));
    assert!(twice.to_string().contains("listed twice"), "{twice}");
    for (pointer, value) in [
        ("/shards/0/offsets/0/record", 9), // as the next
        ("/shards/0/offsets/0/framed", 0), // as the start
        ("/shards/0/offsets/1/file", 100), // as the end
        ("/shards/0/offsets/1/framed", 4000),
    ] {
        let error = spoiled(pointer, json!(value));
        assert!(error.to_string().contains("offsets of shard"), "{pointer}: {error}");
    }
    let totals = spoiled("/totals/rows", json!(20));
    assert!(totals.to_string().contains("the shards add up to 21 rows in "), "{totals}");
    for (pointer, value) in
        [("/shards/0/crc32c", json!("xyz")), ("/compression", json!("bzip2")), ("/shards", json!(7))]
    {
        let error = spoiled(pointer, value);
        assert!(matches!(error.kind(), ErrorKind::ManifestSyntax { .. }), "{pointer}: {error}");
        assert!(std::error::Error::source(&error).is_some());
    }
}

#[test]
fn manifest_read_reports_a_missing_file() {
    let dir = tempfile::tempdir().unwrap();
    let error = Manifest::read(dir.path()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NoManifest { .. }), "{error}");
}

#[test]
fn a_damaged_schema_is_an_error() {
    let schema = manifest().schema.unwrap();
    let with_ipc = |ipc: String| SchemaDescription { ipc, ..schema.clone() }.to_schema();
    assert!(with_ipc("not base64!".to_owned()).is_err());
    let ipc = BASE64_STANDARD.decode(&schema.ipc).unwrap();
    assert!(with_ipc(BASE64_STANDARD.encode(&ipc[..40])).is_err());
    // Any damage must be found here, at the latest.
    let read = (0..ipc.len()).filter(|&at| {
        let mut damaged = ipc.clone();
        damaged[at] ^= 0x15;
        with_ipc(BASE64_STANDARD.encode(damaged)).is_ok()
    });
    assert!(read.count() < ipc.len());
}

/// A set of format 1.0.
#[test]
fn manifests_of_version_1_0_are_read() {
    let mut expected = manifest();
    expected.format_version.minor = 0;
    expected.shards.iter_mut().for_each(|shard| shard.offsets.clear());
    let json = serde_json::to_value(&expected).unwrap();
    assert!(json["shards"][0].get("offsets").is_none());
    assert!(validator().is_valid(&json));
    assert_eq!(read(&json).unwrap(), expected);
}

#[test]
fn manifest_may_lack_schema_and_mapping() {
    let manifest = Manifest::new(SetDescription::of_records(), vec![shard(0)], &RunId::new());
    let json = serde_json::to_value(&manifest).unwrap();
    let errors: Vec<_> = validator().iter_errors(&json).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    for nothing in ["schema", "mapping", "record_type"] {
        assert_eq!(json[nothing], Value::Null);
    }
    let read = read(&json).unwrap();
    assert_eq!(read, manifest);
    assert_eq!(read.arrow_schema().unwrap(), None);
    assert_eq!(read.mapping_options().unwrap(), MappingOptions::default());
}

#[test]
fn options_of_a_newer_release_are_an_error() {
    let mut manifest = manifest();
    manifest.options.insert("mapping".to_owned(), json!({ "nulls": "guess" }));
    let error = manifest.mapping_options().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::MappingOptions(_)), "{error}");
}

#[test]
fn manifest_reports_disagreements_with_the_directory() {
    let manifest = manifest();
    let (first, second) = (shard(0).path, shard(1).path);
    let sizes = |found: [Option<u64>; 2]| {
        let (first, second) = (first.clone(), second.clone());
        move |path: &str| if path == first { found[0] } else { found[1].filter(|_| path == second) }
    };
    assert_eq!(manifest.disagreement(sizes([Some(100), Some(100)]), true), None);
    let found = manifest.disagreements(sizes([Some(99), None]), false);
    let expected = [
        Disagreement::NoSuccess,
        Disagreement::Size { path: first.clone(), expected: 100, found: 99 },
        Disagreement::Missing { path: second.clone() },
    ];
    assert_eq!(found, expected);
    let lines: Vec<_> = found.iter().map(ToString::to_string).collect();
    assert_eq!(lines[1], format!("{first}: expected 100 bytes, found 99"));
    assert_eq!(manifest.disagreement(sizes([Some(99), None]), true), Some(expected[1].clone()));
}

#[test]
fn manifest_replaced_files_must_be_in_the_set() {
    let mut manifest = manifest();
    manifest.replaced = vec!["part-00000-of-00001.tfrecord".to_owned()];
    let mut json = serde_json::to_value(&manifest).unwrap();
    assert!(validator().is_valid(&json));
    assert_eq!(read(&json).unwrap(), manifest);
    json["replaced"][0] = json!("../elsewhere");
    let error = read(&json).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::ManifestContent { .. }), "{error}");
}
