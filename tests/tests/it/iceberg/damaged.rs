//! Damaged tables: each is refused, and the error names what is wrong.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use tfr_tests::Scratch;

use super::{copied, edit, metadata};
use crate::lake::{Damage, assert_refused, cut, flip, read_table};

/// The files below a directory whose names satisfy a condition.
fn files(directory: &Path, is: fn(&str) -> bool) -> Vec<PathBuf> {
    let (mut found, mut directories) = (Vec::new(), vec![directory.to_owned()]);
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => directories.push(path),
                false if is(path.file_name().unwrap().to_str().unwrap()) => found.push(path),
                false => {}
            }
        }
    }
    assert!(!found.is_empty());
    found.sort();
    found
}

fn remove(directory: &Path, is: fn(&str) -> bool) {
    files(directory, is).iter().for_each(|file| fs::remove_file(file).unwrap());
}

fn cut_all(directory: &Path, is: fn(&str) -> bool) {
    files(directory, is).iter().for_each(|file| cut(file));
}

fn is_manifest(name: &str) -> bool {
    name.ends_with(".avro") && !name.starts_with("snap-")
}

fn is_list(name: &str) -> bool {
    name.starts_with("snap-")
}

fn is_data(name: &str) -> bool {
    name.contains("-0-0") && name.ends_with(".parquet")
}

fn is_delete(name: &str) -> bool {
    !is_data(name) && name.ends_with(".parquet")
}

fn is_puffin(name: &str) -> bool {
    name.ends_with(".puffin")
}

const DAMAGES: &[(&str, Damage, &str)] = &[
    ("rewritten", |t| remove(t, is_manifest), ".avro: no such file, but the metadata of the table"),
    ("rewritten", |t| cut_all(t, is_manifest), "but its list records"),
    ("rewritten", |t| remove(t, is_list), "metadata/snap-"),
    ("rewritten", |t| cut_all(t, is_list), "metadata/snap-"),
    (
        "rewritten",
        |t| cut_all(t, |name| name.ends_with(".metadata.json")),
        "metadata.json: damaged file of an Iceberg table: EOF",
    ),
    (
        "rewritten",
        |t| {
            edit(t, |metadata| {
                metadata["current-snapshot-id"] = json!(77);
                metadata["refs"] = json!({"main": {"snapshot-id": 77, "type": "branch"}});
            });
        },
        "no branch \"main\": expected ",
    ),
    (
        "rewritten",
        |t| edit(t, |metadata| metadata["refs"]["main"]["snapshot-id"] = json!(77)),
        "its current snapshot is not that of its branch main",
    ),
    ("rewritten", |t| edit(t, |metadata| metadata["current-schema-id"] = json!(77)), "it has no schema 77"),
    ("rewritten", |t| edit(t, |metadata| metadata["format-version"] = json!(9)), "version 9 of the format"),
    (
        "rewritten",
        |t| edit(t, |metadata| metadata["partition-specs"][0]["spec-id"] = json!(5)),
        "it has partition spec 0, which the metadata file does not list",
    ),
    (
        "rewritten",
        |t| edit(t, |metadata| metadata["encryption-keys"] = json!([{"key-id": "k"}])),
        "an Iceberg table with encryption is not supported",
    ),
    (
        "rewritten",
        |t| edit(t, |metadata| metadata["properties"]["schema.name-mapping.default"] = json!("[")),
        "a name mapping that is not valid",
    ),
    (
        "rewritten",
        |t| {
            edit(t, |metadata| {
                let snapshots = metadata["snapshots"].as_array_mut().unwrap();
                snapshots.push(snapshots[0].clone());
            });
        },
        "it has two snapshots with the id ",
    ),
    (
        "v3_defaults",
        |t| {
            edit(t, |metadata| {
                for column in metadata["schemas"].as_array_mut().unwrap() {
                    let fields = column["fields"].as_array_mut().unwrap().iter_mut();
                    let with_default = fields.filter(|field| field.get("initial-default").is_some());
                    with_default.for_each(|field| field["initial-default"] = json!({"x": 1}));
                }
            });
        },
        "metadata.json: damaged file of an Iceberg table: the default {\"x\":1} of the column ",
    ),
    ("rewritten", |t| fs::write(t.join("metadata/version-hint.text"), "99").unwrap(), "there is no v99.metadata.json"),
    ("rewritten", |t| remove(t, is_data), ".parquet: no such file, but the metadata of the table"),
    ("rewritten", |t| cut_all(t, is_data), "but its manifest records"),
    ("v2_posdel_gran", |t| remove(t, is_delete), "-deletes.parquet: no such file, but the metadata of the table"),
    ("v2_eqdel_part", |t| remove(t, is_delete), ".parquet: no such file, but the metadata of the table"),
    ("v3_dv_part", |t| remove(t, is_puffin), ".puffin: no such file, but the metadata of the table"),
    ("v3_dv_part", |t| flip(&files(t, is_puffin)[0], 4 + 4 + 4 + 8 + 4 + 8 + 8), "its checksum is"),
    ("v3_dv_part", |t| flip(&files(t, is_puffin)[0], 7), "bytes, but its manifest records"),
    ("v3_dv_part", |t| flip(&files(t, is_puffin)[0], 8), "its checksum is"),
    ("meta_gzip", |t| cut_all(t, |name| name.ends_with(".gz.metadata.json")), "v3.gz.metadata.json: damage"),
    (
        "snap_rollback",
        |t| {
            let lists = files(t, is_list);
            for list in &lists[1..] {
                fs::copy(&lists[0], list).unwrap();
            }
        },
        "it is not the list of snapshot",
    ),
];

#[test]
fn iceberg_tables_with_damage_are_refused() {
    for (table, damage, named) in DAMAGES {
        assert_refused(copied, table, *damage, named);
    }
}

/// A file that is named like metadata, and is none.
#[test]
fn iceberg_metadata_file_that_is_cut_is_damaged_and_not_json() {
    let scratch = Scratch::default();
    let table = copied(&scratch, "rewritten");
    cut_all(&table, |name| name.ends_with(".metadata.json"));
    let found = read_table(&metadata(&table), "");
    assert!(found.code == Some(1) && found.stderr.contains("damaged file of an Iceberg table"), "{found:?}");
}
