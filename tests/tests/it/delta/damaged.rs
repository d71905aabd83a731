//! Damaged tables: each is refused, and the error names what is wrong.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tfr_tests::Scratch;

use super::{copied, edit_log, is_checkpoint, log, read};
use crate::lake::{Damage, assert_refused, cut, flip};

/// Edits the actions of all commits.
fn edit(table: &Path, change: impl Fn(&mut Value)) {
    edit_log(table, |text| {
        let lines = text.lines().map(|line| {
            let mut action = serde_json::from_str(line).unwrap();
            change(&mut action);
            format!("{action}\n")
        });
        lines.collect()
    });
}

/// The files in a directory of a table whose names contain a text.
fn files(directory: &Path, part: &str) -> Vec<std::path::PathBuf> {
    let paths = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = paths.filter(|path| path.to_str().unwrap().contains(part)).collect();
    assert!(!paths.is_empty(), "no {part} in {}", directory.display());
    paths.sort();
    paths
}

/// The last file that a table adds.
fn last_added(table: &Path) -> std::path::PathBuf {
    let actions = log(table).into_iter().flat_map(|file| {
        let text = fs::read_to_string(file).unwrap();
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>()
    });
    let mut paths = actions.filter_map(|action| action["add"]["path"].as_str().map(str::to_owned));
    table.join(paths.next_back().unwrap())
}

fn vectors(table: &Path, key: &str, change: impl Fn(i64) -> i64) {
    edit(table, |action| {
        if let Some(value) = action.pointer_mut(&format!("/add/deletionVector/{key}")) {
            *value = json!(change(value.as_i64().unwrap()));
        }
    });
}

const DAMAGES: &[(&str, Damage, &str)] = &[
    ("history_dml", |t| fs::remove_file(&log(t)[1]).unwrap(), "lacks version 1"),
    ("change_feed", |t| fs::remove_file(&log(t)[0]).unwrap(), "lacks version 0"),
    ("change_feed", |t| cut(log(t).last().unwrap()), "00000000000000000002.json: damaged file of a Delta table: line"),
    (
        "change_feed",
        |t| fs::write(log(t).last().unwrap(), "").unwrap(),
        "0002.json: damaged file of a Delta table: it contains nothing",
    ),
    (
        "dv_file",
        |t| files(t, "deletion_vector_").iter().for_each(|file| fs::remove_file(file).unwrap()),
        "there is no such file",
    ),
    (
        "dv_file",
        |t| {
            files(t, "deletion_vector_")
                .iter()
                .for_each(|file| flip(file, fs::metadata(file).unwrap().len() as usize - 6))
        },
        "its checksum is",
    ),
    ("dv_file", |t| vectors(t, "sizeInBytes", |size| size + 1), "but the log records"),
    ("dv_file", |t| vectors(t, "cardinality", |count| count + 1), "rows, but the log records"),
    (
        "dv_file",
        |t| {
            edit(t, |action| {
                if let Some(Value::Array(features)) = action.pointer_mut("/protocol/readerFeatures") {
                    features.push(json!("fancyReading"));
                }
            });
        },
        "the reader feature \"fancyReading\"",
    ),
    (
        "history_dml",
        |t| {
            edit(t, |action| {
                if let Some(version) = action.pointer_mut("/protocol/minReaderVersion") {
                    *version = json!(4);
                }
            });
        },
        "version 4 of the protocol",
    ),
    (
        "map_name_part",
        |t| {
            edit(t, |action| {
                if let Some(mode) = action.pointer_mut("/metaData/configuration/delta.columnMapping.mode") {
                    *mode = json!("fancy");
                }
            });
        },
        "the column mapping mode \"fancy\"",
    ),
    (
        "map_name_part",
        |t| {
            edit(t, |action| {
                if let Some(Value::Object(properties)) = action.pointer_mut("/metaData/configuration") {
                    properties.remove("delta.columnMapping.mode");
                }
            });
        },
        "but no mapping mode",
    ),
    (
        "check_constraint",
        |t| fs::remove_file(last_added(t)).unwrap(),
        ".parquet: no such file, but the metadata of the table",
    ),
    ("check_constraint", |t| cut(&last_added(t)), "bytes, but the log records"),
    (
        "check_constraint",
        |t| {
            edit(t, |action| {
                if let Some(Value::String(stats)) = action.pointer_mut("/add/stats") {
                    *stats = stats.replace("\"numRecords\":", "\"numRecords\":1");
                }
            });
        },
        "but the metadata of its table records 1",
    ),
    (
        "ckpt_struct_stats",
        |t| files(&t.join("_delta_log"), ".checkpoint.").iter().for_each(|file| cut(file)),
        "checkpoint.parquet: damage",
    ),
    (
        "ckpt_multi",
        |t| {
            let parts = files(&t.join("_delta_log"), ".checkpoint.0");
            fs::copy(&parts[0], &parts[1]).map(drop).unwrap();
        },
        "the checkpoint has 2 actions protocol instead of one",
    ),
    (
        "ckpt_v2_parquet",
        |t| {
            let checkpoint = &files(&t.join("_delta_log"), ".checkpoint.")[0];
            let name = checkpoint.file_name().unwrap().to_str().unwrap();
            let newest = log(t).last().unwrap().file_stem().unwrap().to_str().unwrap().to_owned();
            assert!(!name.starts_with(&newest));
            fs::rename(checkpoint, checkpoint.with_file_name(name.replacen(&name[..20], &newest, 1))).unwrap();
        },
        "it is a checkpoint of version ",
    ),
    (
        "check_constraint",
        |t| edit_log(t, |text| text.replace("\"add\":{\"path\":\"", "\"add\":{\"path\":\"./")),
        "names the file \"./",
    ),
    ("ckpt_multi", |t| fs::remove_file(&files(&t.join("_delta_log"), ".checkpoint.0")[0]).unwrap(), "lacks version 0"),
    (
        "ckpt_v2_parquet",
        |t| fs::remove_file(&files(&t.join("_delta_log/_sidecars"), ".parquet")[0]).unwrap(),
        "a checkpoint names it, but there is no such file",
    ),
    (
        "part_types",
        |t| edit_log(t, |text| text.replace("\"pint\":\"-1\"", "\"pint\":\"-1.5\"")),
        "\"-1.5\" for partition column \"pint\", which is not a value of type Int32",
    ),
    (
        "part_types",
        |t| edit_log(t, |text| text.replace("\"pint\":\"-1\"", "\"PINT\":\"-1\"")),
        "the log has no value of its partition column \"pint\"",
    ),
    (
        "part_types",
        |t| edit_log(t, |text| text.replace("1969-12-31T23:59:59.500001Z", "1969-12-31")),
        "\"1969-12-31\" for partition column \"pts\"",
    ),
    (
        "check_constraint",
        |t| edit_log(t, |text| text.replace("\"{\\\"numRecords\\\":", "\"{numRecords:")),
        "the log has statistics that are not valid",
    ),
    (
        "ckpt_multi",
        |t| fs::write(t.join("_delta_log/_last_checkpoint"), r#"{"version":77,"size":1}"#).unwrap(),
        "`_last_checkpoint` names version 77 of the Delta table, but its log ends at",
    ),
    (
        "dv_file",
        |t| edit_log(t, |text| text.replace("\"readerFeatures\":[\"deletionVectors\",", "\"readerFeatures\":[")),
        "a deletion vector, without that feature in its protocol,",
    ),
    (
        "history_dml",
        |t| edit_log(t, |text| text.replace("\\\"name\\\":\\\"name\\\"", "\\\"name\\\":\\\"ID\\\"")),
        "the column \"ID\" has the name or the id of another one",
    ),
    ("history_dml", |t| edit_log(t, |text| format!("{text}[null]\n")), "it is not an object"),
    (
        "types_int96",
        |t| edit_log(t, |text| text.replace("\\\"type\\\":\\\"timestamp\\\"", "\\\"type\\\":\\\"binary\\\"")),
        "FixedSizeBinary(12)",
    ),
    (
        "history_dml",
        |t| {
            edit_log(t, |text| {
                let protocol = text.lines().find(|line| line.contains("\"protocol\"")).map(str::to_owned);
                format!("{text}{}\n", protocol.unwrap_or_default())
            });
        },
        "it contains more than one action protocol",
    ),
];

#[test]
fn delta_tables_with_damage_are_refused() {
    for (table, damage, named) in DAMAGES {
        assert_refused(copied, table, *damage, named);
    }
}

/// A version whose files were removed since.
#[test]
fn delta_version_without_its_files_names_the_first() {
    let scratch = Scratch::default();
    let table = copied(&scratch, "history_dml");
    let first = fs::read_to_string(&log(&table)[0]).unwrap();
    let added = first.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let path = added.filter_map(|action| action["add"]["path"].as_str().map(str::to_owned)).next().unwrap();
    let _ = fs::remove_file(table.join(&path));
    let found = read(&table, Some(0));
    assert!(found.code == Some(1) && found.stderr.contains(&format!("{path}: no such file")), "{found:?}");
}

/// What names the newest checkpoint may name one that is gone, and may be damaged.
#[test]
fn delta_log_is_read_without_its_last_checkpoint() {
    let scratch = Scratch::default();
    let table = copied(&scratch, "ckpt_multi");
    let hint = table.join("_delta_log/_last_checkpoint");
    for text in [r#"{"version":0,"size":1}"#, r#"{"version""#, ""] {
        fs::write(&hint, text).unwrap();
        assert_eq!(read(&table, None).code, Some(0), "{text:?}");
    }
    assert!(files(&table.join("_delta_log"), ".checkpoint.").iter().all(|file| is_checkpoint(file)));
    // It does not matter for a version that is named.
    fs::write(&hint, r#"{"version":77,"size":1}"#).unwrap();
    let newest = log(&table).last().unwrap().file_stem().unwrap().to_str().unwrap().parse().unwrap();
    assert_eq!(read(&table, Some(newest)).code, Some(0));
}
