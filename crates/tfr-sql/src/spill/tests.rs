use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, SystemTime};

use datafusion::execution::TempFileFactory as _;
use tempfile::tempdir;
use tfr_stores::Door;

use super::names::LOCK;
use super::*;
use crate::error::Error;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn spill_directory_is_created_on_first_use() {
    let parent = tempdir().unwrap();
    let place = SpillPlace::new(parent.path().join("absent"));
    let spill = SpillDirectory(Arc::new(place));
    let error = spill.files().create_temp_file("rows").err().unwrap().to_string();
    assert!(error.contains("absent: cannot be used to spill into"), "{error}");
    assert!(matches!(spill.table(), Err(Error::SpillDirectory { .. })));

    let spill = SpillDirectory(Arc::new(SpillPlace::new(parent.path().to_owned())));
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    let file = spill.files().create_temp_file("rows").unwrap();
    assert!(file.path().unwrap().starts_with(parent.path()));
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
}

#[test]
fn spill_files_are_private_to_the_user() {
    let parent = tempdir().unwrap();
    let spill = SpillDirectory::create(Some(parent.path()), &Door::default()).unwrap();
    let file = spill.files().create_temp_file("rows").unwrap();
    let path = file.path().unwrap();
    let live = path.parent().unwrap();
    let (input, _) = spill.place().create_input(None).unwrap();
    assert_eq!([path, &input].map(mode), [0o600; 2]);
    assert_eq!([live, live.parent().unwrap()].map(mode), [0o700; 2]);
    assert_eq!(mode(&live.with_file_name(LOCK)), 0o600);
}

#[test]
fn spill_directory_is_removed_while_a_task_still_writes() {
    let parent = tempdir().unwrap();
    let spill = SpillDirectory::create(Some(parent.path()), &Door::default()).unwrap();
    let (table, files) = (spill.table().unwrap(), spill.files());
    fs::write(&table, "a table").unwrap();
    let file = files.create_temp_file("rows").unwrap();
    let mut writer = file.open_writer().unwrap();
    writer.write_all(b"some").unwrap();
    drop(spill);
    writer.write_all(b"more").unwrap();
    assert!(files.create_temp_file("more rows").is_err());
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
}

#[test]
fn spill_cleanup_removes_only_leftovers_of_killed_runs() {
    let parent = tempdir().unwrap();
    let make = |name: &str, files: &[&str], age: u64| {
        let dir = parent.path().join(name);
        fs::create_dir(&dir).unwrap();
        for file in files {
            let file = dir.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "x").unwrap();
        }
        let time = SystemTime::now() - Duration::from_secs(age);
        File::open(&dir).unwrap().set_modified(time).unwrap();
    };
    make("tfr-sql-dead00", &["lock", "live/rows", "standard input", "pipe dev-fd-5"], 0);
    make("tfr-sql-dead01", &["lock", "gone/rows"], 0);
    make("tfr-sql-dead02", &["lock"], 0);
    // Killed before it was locked, or while it was removed.
    make("tfr-sql-dead03", &[], 61);
    make("tfr-sql-dead04", &["unlocked"], 61);
    make("tfr-sql-dead05", &["gone/rows"], 61);
    make("tfr-sql-dead06", &["table", "standard input"], 61);
    // Perhaps about to be locked; not known to have been locked; with other files; of another name.
    make("tfr-sql-new000", &[], 0);
    make("tfr-sql-new001", &["unlocked"], 0);
    make("tfr-sql-backup", &["live/rows"], 1000);
    make("tfr-sql-notes0", &["lock", "notes.txt"], 1000);
    make("other", &["lock"], 1000);
    let alive = SpillDirectory::create(Some(parent.path()), &Door::default()).unwrap();
    let own = alive.0.directory().unwrap();
    let names = || -> Vec<_> {
        let entries = fs::read_dir(parent.path()).unwrap().map(|entry| entry.unwrap().path());
        let mut names: Vec<_> = entries.filter(|path| *path != own).collect();
        names.sort();
        names
    };
    let expected = ["other", "tfr-sql-backup", "tfr-sql-new000", "tfr-sql-new001", "tfr-sql-notes0"];
    let expected = expected.map(|name| parent.path().join(name));
    assert_eq!(names(), expected);
    let another = SpillDirectory::create(Some(parent.path()), &Door::default()).unwrap();
    assert!(own.join(LOCK).exists());
    drop(another);
    assert_eq!(names(), expected);
}

/// As on a file system that takes every write, and finds only when the file is closed that there is no room.
#[test]
fn pipe_copy_that_differs_is_an_error() {
    let dir = tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let content: Vec<u8> = (0..200_000_u32).map(|byte| (byte % 251) as u8).collect();
    fs::write(path("pipe"), &content[10..]).unwrap();
    let copy = |kept: &[u8]| {
        fs::write(path("kept"), kept).unwrap();
        let written = File::create(path("written")).unwrap();
        copy_pipe(&content[..10], File::open(path("pipe")).unwrap(), written, &path("kept"))
    };
    assert_eq!(copy(&content).unwrap(), 200_000);
    assert_eq!(fs::read(path("written")).unwrap(), content);
    let error = copy(&content[..150_000]).unwrap_err().to_string();
    assert_eq!(error, "the copy has 150000 bytes of the 200000 that were written");
    let mut flipped = content.clone();
    flipped[140_000] ^= 1;
    let error = copy(&flipped).unwrap_err().to_string();
    assert_eq!(error, "bytes 131072 to 200000 of the copy are not those that were written");
}
