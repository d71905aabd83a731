//! A run is killed before every step of its publication.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process;

use tfrecord_shards::{Capabilities, Progress, RunId, SaveMode, SetState, check, leftovers, remove_leftovers, verify};

use crate::child::{Child, arguments, said};
use crate::support::{
    SET, begin, copy_all, describe, describe_grouped, names, stage, stage_grouped, whole, write, write_grouped,
};

/// What is there before, and what the file system can do.
#[derive(Debug, Clone, Copy)]
struct Case {
    old: Old,
    beside: bool,
    exchange: bool,
    mode: SaveMode,
}

impl Case {
    const OVERWRITE: Self = Self { old: Old::Absent, beside: true, exchange: true, mode: SaveMode::Overwrite };
    const PARTITIONS: Self = Self { old: Old::Set, mode: SaveMode::OverwritePartitions, ..Self::OVERWRITE };

    fn capabilities(self) -> Capabilities {
        Capabilities { beside: self.beside, exchange: self.exchange }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Old {
    Absent,
    Empty,
    Set,
}

#[test]
fn publish_to_nothing_survives_a_kill_at_any_step() {
    dies_at_every_step(Case::OVERWRITE);
}

#[test]
fn publish_to_an_empty_directory_survives_a_kill_at_any_step() {
    dies_at_every_step(Case { old: Old::Empty, ..Case::OVERWRITE });
}

#[test]
fn overwrite_by_exchange_survives_a_kill_at_any_step() {
    dies_at_every_step(Case { old: Old::Set, ..Case::OVERWRITE });
}

#[test]
fn overwrite_by_two_renames_survives_a_kill_at_any_step() {
    dies_at_every_step(Case { old: Old::Set, exchange: false, ..Case::OVERWRITE });
}

#[test]
fn publish_in_place_survives_a_kill_at_any_step() {
    dies_at_every_step(Case { old: Old::Empty, beside: false, ..Case::OVERWRITE });
}

#[test]
fn overwrite_in_place_survives_a_kill_at_any_step() {
    dies_at_every_step(Case { old: Old::Set, beside: false, ..Case::OVERWRITE });
}

#[test]
fn append_survives_a_kill_at_any_step() {
    dies_at_every_step(Case { old: Old::Set, mode: SaveMode::Append, ..Case::OVERWRITE });
}

#[test]
fn append_in_place_survives_a_kill_at_any_step() {
    dies_at_every_step(Case { old: Old::Set, beside: false, mode: SaveMode::Append, ..Case::OVERWRITE });
}

#[test]
fn append_to_nothing_survives_a_kill_at_any_step() {
    dies_at_every_step(Case { mode: SaveMode::Append, ..Case::OVERWRITE });
}

#[test]
fn overwritten_partitions_survive_a_kill_at_any_step() {
    dies_at_every_step(Case::PARTITIONS);
}

#[test]
fn overwritten_partitions_in_place_survive_a_kill_at_any_step() {
    dies_at_every_step(Case { beside: false, ..Case::PARTITIONS });
}

#[test]
fn overwritten_partitions_of_nothing_survive_a_kill_at_any_step() {
    dies_at_every_step(Case { old: Old::Absent, ..Case::PARTITIONS });
}

/// Between the call that makes a staging directory and the one that locks it, its parent is locked.
#[test]
fn leftovers_treat_a_run_about_to_begin_as_live() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    let staging = dir.path().join(format!(".tfr-{}-shards", RunId::new()));
    let parent = fs::File::open(dir.path()).unwrap();
    parent.lock_shared().unwrap();
    fs::create_dir(&staging).unwrap();
    let left = leftovers(&out).unwrap();
    assert!(left.len() == 1 && left[0].live, "{left:?}");
    assert_eq!(remove_leftovers(&out).unwrap().kept, left);
    assert!(staging.exists());
    // It has died before it was locked.
    drop(parent);
    assert!(!leftovers(&out).unwrap()[0].live);
    assert_eq!(remove_leftovers(&out).unwrap().removed.len(), 1);
    assert!(!staging.exists());
}

/// What was to be put in the place of an index goes once its run is dead, and holds up nobody who replaces the set.
#[test]
fn hidden_files_are_removed_once_their_run_is_dead() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    write_grouped(&out, SaveMode::Error, "old", ["1", "2"]).unwrap();
    let run = RunId::new();
    let hidden = [format!("._manifest.json.{run}"), format!(".x.idx.{run}")].map(|name| out.join(name));
    let file = fs::File::create_new(&hidden[0]).unwrap();
    fs::write(&hidden[1], "0 20\n").unwrap();
    file.lock().unwrap();
    assert!(leftovers(&out).unwrap().iter().all(|left| left.live), "a run lives if anything of it is locked");
    drop(file);
    let removed = remove_leftovers(&out).unwrap().removed;
    assert_eq!(removed.iter().map(|left| &left.path).collect::<Vec<_>>(), hidden.iter().collect::<Vec<_>>());
    fs::write(&hidden[1], "0 20\n").unwrap();
    write(&out, SaveMode::Overwrite, "new").unwrap();
    assert_eq!((whole(&out).as_deref(), names(&out)), (Some("new"), SET.map(str::to_owned).to_vec()));
}

fn dies_at_every_step(case: Case) {
    for step in 0.. {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("shards");
        match case.old {
            Old::Absent => {}
            Old::Empty => fs::create_dir(&out).unwrap(),
            Old::Set => drop(write_grouped(&out, SaveMode::Error, "old", ["1", "2"]).unwrap()),
        }
        let argument = format!("{step} {} {} {:?}", case.beside, case.exchange, case.mode);
        let output = Child::new("kill::dying_run", &out, argument).run();
        if output.status.success() {
            assert!(step > 8, "{case:?}: only {step} steps");
            assert_eq!(whole(&out).as_deref(), Some(new_set(case)), "{case:?}");
            return;
        }
        let said = said(&output);
        assert!(said.contains("dies before"), "{case:?}, step {step}: {said}");
        check_what_is_left(case, &out, &said);
        check_next_run(case, dir.path(), &out, &said);
    }
}

fn new_set(case: Case) -> &'static str {
    if case.mode.keeps_set() && case.old == Old::Set { "old+new" } else { "new" }
}

/// The target is the old set, the new one, or none.
fn check_what_is_left(case: Case, out: &Path, said: &str) {
    let state = check(out).unwrap();
    match (&state, case.old) {
        (SetState::Whole(_), old) => {
            let found = whole(out).unwrap();
            assert!(found == new_set(case) || (found == "old" && old == Old::Set), "{case:?}: {said}");
        }
        (SetState::Absent, Old::Absent | Old::Empty) => {}
        (SetState::Absent, Old::Set) => assert!(!case.exchange && !case.mode.keeps_set(), "{case:?}: {said}"),
        (SetState::Incomplete { .. }, _) => {
            assert!(!case.beside && new_set(case) == "new", "{case:?}: {said}");
        }
        (SetState::Foreign, _) => panic!("{case:?}: our own set is taken for something else: {said}"),
    }
}

/// The next run finds what the dead one left, succeeds, and leaves nothing but its set.
fn check_next_run(case: Case, dir: &Path, out: &Path, said: &str) {
    let left = leftovers(out).unwrap();
    assert!(left.iter().all(|leftover| !leftover.live && leftover.path.exists()), "{left:?}");
    assert_eq!(left.is_empty(), names(dir).iter().all(|name| !name.contains(".tfr-")), "{case:?}: {said}");
    if matches!(check(out).unwrap(), SetState::Whole(_)) {
        check_removal(case, dir, out, said);
    }
    if case.mode == SaveMode::OverwritePartitions && case.old == Old::Set {
        check_mending(case, dir, out, said);
    }
    let vacant = matches!(check(out).unwrap(), SetState::Absent);
    if vacant && case.beside {
        let next = write(out, SaveMode::Error, "next").unwrap();
        assert_eq!(leftovers(out).unwrap(), left, "only an overwriting run removes what others have left");
        assert_eq!(whole(out), next.query);
    }
    let left = leftovers(out).unwrap();
    let commit = begin(out, SaveMode::Overwrite, case.capabilities()).unwrap();
    assert_eq!(commit.leftovers(), left);
    let shards = stage(&commit, "last");
    commit.publish(shards, describe("last")).unwrap_or_else(|error| panic!("{case:?}: {error}: {said}"));
    assert_eq!(whole(out).as_deref(), Some("last"));
    assert_eq!(names(out), SET, "{case:?}: {said}");
    assert_eq!(fs::read_dir(dir).unwrap().count(), 1, "{case:?}: {:?}: {said}", names(dir));
}

/// What it has left can be removed from a whole set, to the last directory, and the set stays. Works on a copy.
fn check_removal(case: Case, dir: &Path, out: &Path, said: &str) {
    let copy = tempfile::tempdir().unwrap();
    copy_all(dir, copy.path());
    let copied = copy.path().join(out.file_name().unwrap());
    let removed = remove_leftovers(&copied).unwrap();
    assert_eq!(removed.kept, [], "{case:?}: {said}");
    assert_eq!(leftovers(&copied).unwrap(), [], "{case:?}: {said}");
    assert_eq!(whole(&copied), whole(out), "{case:?}: {said}");
    assert_eq!(fs::read_dir(copy.path()).unwrap().count(), 1, "{case:?}: {said}");
    let SetState::Whole(manifest) = check(&copied).unwrap() else { panic!("{case:?}: {said}") };
    let is_listed = |name: &String| manifest.shards.iter().any(|shard| shard.path.starts_with(name.as_str()));
    let found = names(&copied);
    let others = found.iter().filter(|name| !name.starts_with('_') && !is_listed(name));
    assert_eq!(others.collect::<Vec<_>>(), [""; 0], "{case:?}: {said}");
}

/// The next run that replaces partitions, or appends, leaves no file in them that the manifest does not list. Works on copies.
fn check_mending(case: Case, dir: &Path, out: &Path, said: &str) {
    for mode in [SaveMode::OverwritePartitions, SaveMode::Append] {
        let copy = tempfile::tempdir().unwrap();
        copy_all(dir, copy.path());
        let copied = copy.path().join(out.file_name().unwrap());
        let before = whole(&copied).unwrap();
        let manifest = write_grouped(&copied, mode, "next", ["3", "4"]).unwrap();
        assert_eq!(whole(&copied), Some(format!("{before}+next")), "{case:?}: {said}");
        let listed: BTreeSet<_> = manifest.shards.into_iter().map(|shard| shard.path).collect();
        let found: BTreeSet<_> = names(&copied).into_iter().filter(|name| name.ends_with(".tfrecord")).collect();
        match mode {
            SaveMode::OverwritePartitions => {
                assert_eq!(found, listed, "{case:?}: {said}");
                assert_eq!(verify(&[copied], &Progress::default()).unwrap().findings.len(), 0, "{case:?}: {said}");
                assert_eq!(fs::read_dir(copy.path()).unwrap().count(), 1, "{case:?}: {said}");
            }
            // Of a run that has published nothing, an append leaves shards, which it reports.
            _ => assert!(found == listed || before == "old", "{case:?}: {said}: {found:?}"),
        }
    }
}

#[test]
#[ignore = "dies, as the child of the other tests"]
fn dying_run() {
    let (out, argument) = arguments();
    let argument: Vec<_> = argument.split(' ').collect();
    let capabilities = Capabilities { beside: argument[1] == "true", exchange: argument[2] == "true" };
    let modes = [SaveMode::Append, SaveMode::Overwrite, SaveMode::OverwritePartitions];
    let mode = modes.into_iter().find(|mode| format!("{mode:?}") == argument[3]).unwrap();
    let commit = begin(&out, mode, capabilities).unwrap();
    let shards = stage_grouped(&commit, "new", ["2", "3"]);
    let mut left: usize = argument[0].parse().unwrap();
    let published = commit.publish_observed(shards, describe_grouped("new"), &mut |step| {
        if left == 0 {
            eprintln!("dies before: {step}");
            process::abort();
        }
        left -= 1;
    });
    published.unwrap();
}
