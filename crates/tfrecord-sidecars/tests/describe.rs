//! Sets that TensorFlow Datasets, Spark, TensorFlow and TFX have written, described.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test may panic and print")]

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tfrecord_framing::{RecordReader, Records};
use tfrecord_sidecars::describe::{DescribeOptions, describe};
use tfrecord_sidecars::{SchemaForm, json_line};

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

/// What lies beside the repository where it is at hand.
fn shared(folder: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(folder);
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("skipped: {} is not at hand", folder.display());
    None
}

/// The splits, their shards and the numbers of records are those that TensorFlow Datasets wrote down itself.
#[test]
fn describe_matches_splits_of_tensorflow_datasets() -> Result {
    let Some(generated) = shared("corpus/tfds/generated") else { return Ok(()) };
    let mut compared = 0;
    for set in fs::read_dir(generated)? {
        for version in fs::read_dir(set?.path())? {
            let dir = version?.path();
            let theirs: Value = serde_json::from_slice(&fs::read(dir.join("dataset_info.json"))?)?;
            let description = describe(&dir, &DescribeOptions::default())?;
            let ours: Value = serde_json::from_str(&description.dataset_info("set")?.to_json()?)?;
            let splits = |info: &Value, fields: [&str; 2]| {
                let splits = info["splits"].as_array().unwrap().iter();
                splits.map(|split| (split["name"].to_string(), fields.map(|field| split[field].clone()))).collect()
            };
            let fields = ["shardLengths", "numBytes"];
            let (theirs, ours): (BTreeMap<_, _>, BTreeMap<_, _>) = (splits(&theirs, fields), splits(&ours, fields));
            assert_eq!(ours, theirs, "{}", dir.display());
            description.table("set/").render(SchemaForm::FeaturesJson)?;
            compared += 1;
        }
    }
    assert!(compared >= 2, "{compared}");
    Ok(())
}

/// Records that have a feature, and its values in all of them.
type Counts = BTreeMap<String, (u64, u64)>;

/// How many records there are, and how many have a feature, and with how many values, by the records as text; none of
/// records with feature lists, whose text is of another form.
fn counted(path: &Path) -> Result<Option<(u64, Counts)>> {
    let mut records = Records::new();
    RecordReader::detect(BufReader::new(File::open(path)?)).read_records(usize::MAX, &mut records)?;
    let mut features = Counts::new();
    for record in records.iter() {
        let line: Value = serde_json::from_str(&json_line(record)?)?;
        if line.get("feature_lists").is_some() {
            return Ok(None);
        }
        for (name, value) in line.as_object().into_iter().flatten() {
            let values = match value {
                Value::Null => continue,
                Value::Array(values) => values.len() as u64,
                _ => 1,
            };
            let (present, total) = features.entry(name.clone()).or_default();
            (*present, *total) = (*present + 1, *total + values);
        }
    }
    Ok(Some((records.iter().count() as u64, features)))
}

/// Whatever wrote a file, its description counts what its records hold.
#[test]
fn describe_counts_presence_in_the_records() -> Result {
    let Some(golden) = shared("golden") else { return Ok(()) };
    let mut compared = 0;
    for writer in ["spark", "tf", "tfx_bsl"] {
        for file in fs::read_dir(golden.join(writer))? {
            let path = file?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                continue;
            }
            let Some((rows, features)) = counted(&path)? else { continue };
            let found = describe(&path, &DescribeOptions::default()).map_err(|error| format!("{error}: {path:?}"))?;
            assert_eq!(found.statistics.rows(), rows, "{}", path.display());
            for (name, (present, total)) in features {
                let feature = found.statistics.feature(&name).ok_or_else(|| format!("{path:?}: no {name}"))?;
                let figures = (feature.present(), feature.missing(), feature.total_values());
                assert_eq!(figures, (present, rows - present, total), "{}: {name}", path.display());
                compared += 1;
            }
        }
    }
    assert!(compared >= 100, "{compared}");
    Ok(())
}
