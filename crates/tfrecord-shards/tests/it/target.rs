//! What may be written to, and what is refused.

use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use tfrecord_shards::{
    Capabilities, Error, ErrorKind, LocalCommit, RunId, SUCCESS_NAME, SaveMode, SetState, check, preflight,
};

use crate::support::{IN_PLACE, SET, begin, describe, files, names, stage, whole, write};

/// Why a run cannot begin. Beforehand it is told the same.
fn refusal(out: &Path, mode: SaveMode, inputs: &[PathBuf]) -> Error {
    let error = LocalCommit::begin(out, mode, RunId::new(), inputs).unwrap_err();
    assert_eq!(preflight(out, mode, inputs).unwrap_err().to_string(), error.to_string());
    error
}

#[test]
fn roots_and_homes_are_refused() {
    let home = env::home_dir().unwrap();
    for protected in [Path::new("/"), Path::new("/tmp/.."), &home, Path::new("/home/somebody")] {
        let error = refusal(protected, SaveMode::Overwrite, &[]);
        assert!(matches!(error.kind(), ErrorKind::Protected { .. }), "{error}");
    }
}

#[test]
fn a_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("shards");
    fs::write(&file, "").unwrap();
    let error = refusal(&file, SaveMode::Overwrite, &[]);
    assert!(matches!(error.kind(), ErrorKind::NotADirectory { .. }), "{error}");
}

#[test]
fn set_is_replaced_only_by_overwrite() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    write(&out, SaveMode::Error, "old").unwrap();
    let before = files(&out);
    let error = refusal(&out, SaveMode::Error, &[]);
    assert!(error.to_string().ends_with(
        "shards: not empty: it contains part-00000-of-00002.tfrecord, part-00001-of-00002.tfrecord, _SUCCESS"
    ));
    assert_eq!(files(dir.path()).len(), before.len() + 1);
}

#[test]
fn overwrite_names_and_keeps_files_of_other_tools() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    write(&out, SaveMode::Error, "old").unwrap();
    for name in ["notes.txt", "part-00000-of-00001.tfrecord", "zebra"] {
        fs::write(out.join(name), "mine").unwrap();
    }
    fs::create_dir(out.join("a_directory")).unwrap();
    let before = files(dir.path());
    for capabilities in [Capabilities::ALL, IN_PLACE] {
        let error = begin(&out, SaveMode::Overwrite, capabilities).unwrap_err();
        assert!(error.to_string().ends_with("a_directory/, notes.txt, part-00000-of-00001.tfrecord"), "{error}");
    }
    assert_eq!(files(dir.path()), before);
}

#[test]
fn overwrite_rejects_a_directory_that_is_not_a_set() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(SUCCESS_NAME), "").unwrap();
    let error = refusal(dir.path(), SaveMode::Overwrite, &[]);
    assert!(matches!(error.kind(), ErrorKind::ForeignFiles { files, .. } if files == &[SUCCESS_NAME]), "{error}");
}

/// One rule for both modes, and what is named are the shards rather than the hidden files of Hadoop.
#[test]
fn append_and_overwrite_name_the_shards_of_other_tools() {
    let hidden = ["._SUCCESS.crc", ".part-00000-c000.tfrecord.crc", ".part-00001-c000.tfrecord.crc", "_SUCCESS"];
    for (shards, expected) in [
        (
            &["part-00000-c000.tfrecord", "part-00001-c000.tfrecord"][..],
            &["part-00000-c000.tfrecord", "part-00001-c000.tfrecord", "._SUCCESS.crc"][..],
        ),
        (
            &[
                "day=1/part-00000-c000.tfrecord",
                "day=1/.part-00000-c000.tfrecord.crc",
                "day=2/part-00000-c000.tfrecord",
            ],
            &[
                "day=1/part-00000-c000.tfrecord",
                "day=1/.part-00000-c000.tfrecord.crc",
                "day=2/part-00000-c000.tfrecord",
            ],
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        for name in shards.iter().chain(&hidden) {
            let file = dir.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "theirs").unwrap();
        }
        let before = files(dir.path());
        for mode in [SaveMode::Append, SaveMode::Overwrite] {
            let error = refusal(dir.path(), mode, &[]);
            let ErrorKind::ForeignFiles { files, .. } = error.kind() else { panic!("{mode:?}: {error}") };
            assert_eq!(files, expected, "{mode:?}");
        }
        assert_eq!(files(dir.path()), before);
    }
}

#[test]
fn overwrite_rejects_a_damaged_manifest() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    write(&out, SaveMode::Error, "old").unwrap();
    fs::write(out.join("_manifest.json"), "{").unwrap();
    let error = begin(&out, SaveMode::Overwrite, Capabilities::ALL).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::ManifestSyntax { .. }), "{error}");
    assert_eq!(names(&out), SET);
}

#[test]
fn outputs_and_inputs_do_not_overlap() {
    let dir = tempfile::tempdir().unwrap();
    let events = dir.path().join("events");
    fs::create_dir(&events).unwrap();
    let file = events.join("a.parquet");
    fs::write(&file, "").unwrap();
    for (out, input) in [(events.join("shards"), &events), (events.clone(), &file), (events.clone(), &events)] {
        let error = refusal(&out, SaveMode::Overwrite, std::slice::from_ref(input));
        assert!(matches!(error.kind(), ErrorKind::Overlap { .. }), "{error}");
    }
    // By another name it is the same directory.
    symlink(&events, dir.path().join("link")).unwrap();
    let error = refusal(&dir.path().join("link/shards"), SaveMode::Error, std::slice::from_ref(&events));
    assert!(matches!(error.kind(), ErrorKind::Overlap { .. }), "{error}");
    // Names that begin alike are not.
    assert!(preflight(dir.path().join("events2"), SaveMode::Error, &[events, file]).is_ok());
}

#[test]
fn a_link_to_a_directory_stays_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let (real, link) = (dir.path().join("real"), dir.path().join("link"));
    fs::create_dir(&real).unwrap();
    symlink(&real, &link).unwrap();
    write(&link, SaveMode::Error, "first").unwrap();
    write(&link, SaveMode::Overwrite, "second").unwrap();
    assert!(link.is_symlink());
    assert_eq!(whole(&real).as_deref(), Some("second"));

    symlink(dir.path().join("gone"), dir.path().join("broken")).unwrap();
    let error = begin(&dir.path().join("broken"), SaveMode::Error, Capabilities::ALL).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Io { .. }), "{error}");
}

#[test]
fn publish_keeps_files_that_appear_meanwhile() {
    for capabilities in [Capabilities::ALL, IN_PLACE] {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("shards");
        let commit = begin(&out, SaveMode::Error, capabilities).unwrap();
        let shards = stage(&commit, "new");
        fs::create_dir_all(&out).unwrap();
        fs::write(out.join("mine"), "").unwrap();
        let error = commit.publish(shards, describe("new")).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::NotEmpty { found, .. } if found == &["mine"]), "{error}");
        assert_eq!(names(dir.path()), ["shards/", "shards/mine"]);
    }
    for capabilities in [Capabilities::ALL, IN_PLACE] {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("shards");
        write(&out, SaveMode::Error, "old").unwrap();
        let commit = begin(&out, SaveMode::Overwrite, capabilities).unwrap();
        let shards = stage(&commit, "new");
        fs::write(out.join("mine"), "").unwrap();
        let error = commit.publish(shards, describe("new")).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::ForeignFiles { .. }), "{error}");
        assert_eq!(whole(&out).as_deref(), Some("old"));
        assert_eq!(names(dir.path()).len(), SET.len() + 2);
    }
}

#[test]
fn overwrite_replaces_a_set_that_appears_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    let commit = begin(&out, SaveMode::Overwrite, Capabilities::ALL).unwrap();
    let shards = stage(&commit, "new");
    write(&out, SaveMode::Error, "quicker").unwrap();
    commit.publish(shards, describe("new")).unwrap();
    assert_eq!(whole(&out).as_deref(), Some("new"));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn permissions_of_the_directory_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    fs::create_dir(&out).unwrap();
    fs::set_permissions(&out, Permissions::from_mode(0o750)).unwrap();
    for (mode, tag) in [(SaveMode::Error, "old"), (SaveMode::Overwrite, "new")] {
        write(&out, mode, tag).unwrap();
        assert_eq!(out.metadata().unwrap().permissions().mode() & 0o7777, 0o750);
    }
}

#[test]
fn a_set_is_whole_only_with_every_file() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    assert!(matches!(check(&out).unwrap(), SetState::Absent));
    let spoil: [(&dyn Fn(), &str); 3] = [
        (&|| fs::write(out.join(SET[2]), "short").unwrap(), "part-00000-of-00002.tfrecord: expected "),
        (&|| fs::remove_file(out.join(SET[3])).unwrap(), "part-00001-of-00002.tfrecord is missing"),
        (&|| fs::remove_file(out.join(SUCCESS_NAME)).unwrap(), "_SUCCESS is missing"),
    ];
    for (spoil, expected) in spoil {
        write(&out, SaveMode::Overwrite, "set").unwrap();
        assert!(matches!(check(&out).unwrap(), SetState::Whole(_)));
        spoil();
        let state = check(&out).unwrap();
        assert!(matches!(&state, SetState::Incomplete { why } if why.starts_with(expected)), "{state:?}");
    }
    let other = dir.path().join("other");
    fs::create_dir(&other).unwrap();
    assert!(matches!(check(&other).unwrap(), SetState::Absent));
    fs::write(other.join("notes"), "").unwrap();
    assert!(matches!(check(&other).unwrap(), SetState::Foreign));
    assert!(matches!(check(other.join("notes")).unwrap(), SetState::Foreign));
}
