//! Shard sets whose options or manifests contradict their records: readers refuse them and `verify` finds them, as for
//! shards without a manifest.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tfr_tests::{Run, Scratch, run, tfr_sql};

const QUERY: &str = "SELECT value AS i, [value, value + 1] AS l, named_struct('x', value, 'y', 'text') AS st, \
                     CASE WHEN value > 35 THEN value END AS late FROM generate_series(1, 40)";

fn command(scratch: &Scratch) -> Command {
    let mut command = tfr_sql();
    command.current_dir(scratch.path());
    command
}

/// A set of structs and one of sequences.
fn sets() -> Scratch {
    let scratch = Scratch::default();
    run(command(&scratch).args([QUERY, "--out", "structs", "--shards", "2"])).success();
    let sequences = ["SELECT i, l, late FROM 'structs/'", "--out", "sequences", "--record-type", "sequence-example"];
    run(command(&scratch).args(sequences).args(["--sequence", "l"])).success();
    scratch
}

fn manifest(set: &Path) -> Value {
    serde_json::from_slice(&fs::read(set.join("_manifest.json")).unwrap()).unwrap()
}

fn change(set: &Path, change: impl FnOnce(&mut Value)) {
    let mut manifest = manifest(set);
    change(&mut manifest);
    fs::write(set.join("_manifest.json"), serde_json::to_vec(&manifest).unwrap()).unwrap();
}

fn without_checksum(manifest: &mut Value) {
    manifest.as_object_mut().unwrap().remove("manifest_crc32c").unwrap();
}

fn refused(found: Run, column: &str) {
    assert_ne!(found.code, Some(0), "{}", found.stdout);
    assert!(found.stderr.contains(&format!("column \"{column}\"")), "{}", found.stderr);
}

#[test]
fn options_that_match_no_feature_are_rejected() {
    let scratch = sets();
    let select = |table: &str| run(command(&scratch).args(["SELECT count(*), count(st) FROM t", "--table", table]));
    refused(select("t=structs,separator=."), "st");
    assert_eq!(select("t=structs").success().stdout.lines().last(), Some("40,40"));
    assert_eq!(select("t=structs,separator=/").success().stdout.lines().last(), Some("40,40"));
    let declared = |columns: &str, options: &str| {
        let table = format!(
            "CREATE EXTERNAL TABLE t ({columns}) STORED AS TFRECORD LOCATION 'sequences/' OPTIONS ({options}); \
             SELECT count(i), count(l) FROM t"
        );
        run(command(&scratch).arg(table))
    };
    let of_sequences = "'tfrecord.record_type' 'sequence-example', 'tfrecord.sequence' 'i,l'";
    refused(declared("i BIGINT[], l BIGINT[]", of_sequences), "i");
    let right = "'tfrecord.record_type' 'sequence-example', 'tfrecord.sequence' 'l'";
    let found = declared("i BIGINT, l BIGINT[]", right).success();
    assert_eq!(
        (found.stdout.lines().last(), found.stderr.contains("warning")),
        (Some("40,40"), false),
        "{}",
        found.stderr
    );
}

/// A column that is null in the records that are looked at is no contradiction.
#[test]
fn sound_sets_are_read_without_warnings() {
    let scratch = sets();
    for set in ["structs", "sequences"] {
        let found =
            run(command(&scratch).arg(format!("SELECT count(*), count(late) FROM '{set}/' WHERE i > 0"))).success();
        assert_eq!((found.stdout.lines().last(), found.stderr.as_str()), (Some("40,5"), ""));
        let found = run(command(&scratch).args(["verify", set])).success();
        assert_eq!(found.stdout, "");
    }
}

/// Whether the manifest states a checksum or not: those of older versions do not.
#[test]
fn a_changed_manifest_is_found_by_readers_and_verify() {
    let scratch = sets();
    let set = scratch.join("sequences");
    let drop_sequences = |manifest: &mut Value| {
        manifest["options"]["mapping"].as_object_mut().unwrap().remove("sequences").unwrap();
    };
    change(&set, drop_sequences);
    let read = run(command(&scratch).arg("SELECT l FROM 'sequences/'")).exits_with(1);
    assert!(read.stderr.contains("_manifest.json: changed after it was written"), "{}", read.stderr);
    let verified = run(command(&scratch).args(["verify", "sequences"])).exits_with(1);
    assert!(verified.stdout.contains("_manifest.json: changed after it was written"), "{}", verified.stdout);
    assert!(verified.stdout.contains("feature list \"l\""), "{}", verified.stdout);
    change(&set, without_checksum);
    refused(run(command(&scratch).arg("SELECT l FROM 'sequences/'")), "l");
    let verified = run(command(&scratch).args(["verify", "sequences"])).exits_with(1);
    assert!(
        !verified.stdout.contains("changed") && verified.stdout.contains("feature list \"l\""),
        "{}",
        verified.stdout
    );
    // Other columns can be read, and so can this one by the right option.
    run(command(&scratch).arg("SELECT i FROM 'sequences/'")).exits_with(1);
    let right = ["SELECT count(l) AS n FROM t", "--table", "t=sequences,sequence=l"];
    assert_eq!(run(command(&scratch).args(right)).success().stdout, "n\n40\n");
}

#[test]
fn a_column_that_no_record_has_is_warned_of() {
    let scratch = sets();
    let set = scratch.join("structs");
    change(&set, |manifest| {
        let fields = manifest["schema"]["fields"].as_array_mut().unwrap();
        fields[0]["name"] = json!("other");
        // The types are in the IPC form, too, which comes first where it is there.
        manifest["schema"].as_object_mut().unwrap().remove("ipc");
        without_checksum(manifest);
    });
    let found = run(command(&scratch).arg("SELECT count(other) AS n FROM 'structs/'"));
    if found.code == Some(0) {
        assert!(found.stderr.contains("column \"other\""), "{}", found.stderr);
    }
    run(command(&scratch).args(["verify", "structs"])).exits_with(1);
}

/// Blanks, the order of keys and escapes do not matter; every value does.
#[test]
fn manifests_have_checksums() {
    let scratch = sets();
    let set = scratch.join("structs");
    let verified = |code| run(command(&scratch).args(["verify", "structs"])).exits_with(code).stdout;
    let written = manifest(&set);
    assert_eq!(written["format_version"], "1.6");
    assert!(written["manifest_crc32c"].is_string());
    change(&set, |_| {});
    assert_eq!(verified(0), "");
    change(&set, |manifest| manifest["query"] = json!("SELECT 'é'"));
    assert!(verified(1).contains("changed after it was written"));
    change(&set, |manifest| manifest["future"] = json!({ "any": [1.5, null] }));
    assert!(verified(1).contains("changed after it was written"));
    change(&set, without_checksum);
    assert_eq!(verified(0), "");

    // An appended, a resharded and a described set state theirs.
    run(command(&scratch).args([QUERY, "--out", "structs", "--shards", "2", "--mode", "append"])).success();
    assert!(manifest(&set)["manifest_crc32c"].is_string());
    assert_eq!(verified(0), "");
    run(command(&scratch).args(["describe", "structs", "--emit", "stats,index"])).success();
    assert_eq!(verified(0), "");
    run(command(&scratch).args(["reshard", "structs", "--out", "resharded", "--shards", "3"])).success();
    assert!(manifest(&scratch.join("resharded"))["manifest_crc32c"].is_string());
    run(command(&scratch).args(["verify", "resharded"])).success();
}
