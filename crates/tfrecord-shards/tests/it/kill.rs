//! A run is killed before every step of its publication.

use std::fs;
use std::path::Path;
use std::process;

use tfrecord_shards::{Capabilities, SaveMode, SetState, check, leftovers};

use crate::child::{Child, arguments, said};
use crate::support::{SET, begin, describe, names, stage, whole, write};

/// What is there before, and what the file system can do.
#[derive(Debug, Clone, Copy)]
struct Case {
    old: Old,
    beside: bool,
    exchange: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Old {
    Absent,
    Empty,
    Set,
}

#[test]
fn onto_nothing() {
    dies_at_every_step(Case { old: Old::Absent, beside: true, exchange: true });
}

#[test]
fn onto_an_empty_directory() {
    dies_at_every_step(Case { old: Old::Empty, beside: true, exchange: true });
}

#[test]
fn exchanged() {
    dies_at_every_step(Case { old: Old::Set, beside: true, exchange: true });
}

#[test]
fn by_two_renames() {
    dies_at_every_step(Case { old: Old::Set, beside: true, exchange: false });
}

#[test]
fn in_place_in_an_empty_directory() {
    dies_at_every_step(Case { old: Old::Empty, beside: false, exchange: true });
}

#[test]
fn in_place_over_a_set() {
    dies_at_every_step(Case { old: Old::Set, beside: false, exchange: true });
}

fn dies_at_every_step(case: Case) {
    for step in 0.. {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("shards");
        match case.old {
            Old::Absent => {}
            Old::Empty => fs::create_dir(&out).unwrap(),
            Old::Set => drop(write(&out, SaveMode::Error, "old").unwrap()),
        }
        let argument = format!("{step} {} {}", case.beside, case.exchange);
        let output = Child::new("kill::dying_run", &out, argument).run();
        if output.status.success() {
            assert!(step > 8, "{case:?}: only {step} steps");
            assert_eq!(whole(&out).as_deref(), Some("new"), "{case:?}");
            return;
        }
        let said = said(&output);
        assert!(said.contains("dies before"), "{case:?}, step {step}: {said}");
        check_what_is_left(case, &out, &said);
        check_next_run(case, dir.path(), &out, &said);
    }
}

/// The target is the old set, the new one, or none.
fn check_what_is_left(case: Case, out: &Path, said: &str) {
    let state = check(out).unwrap();
    match (&state, case.old) {
        (SetState::Whole(_), old) => {
            let found = whole(out).unwrap();
            assert!(found == "new" || (found == "old" && old == Old::Set), "{case:?}: {said}");
        }
        (SetState::Absent, Old::Absent | Old::Empty) => {}
        (SetState::Absent, Old::Set) => assert!(!case.exchange, "{case:?}: {said}"),
        (SetState::Incomplete { .. }, _) => assert!(!case.beside, "{case:?}: {said}"),
        (SetState::Foreign, _) => panic!("{case:?}: our own set is taken for something else: {said}"),
    }
}

/// The next run finds what the dead one left, succeeds, and leaves nothing but its set.
fn check_next_run(case: Case, dir: &Path, out: &Path, said: &str) {
    let left = leftovers(out).unwrap();
    assert!(left.iter().all(|leftover| !leftover.live && leftover.path.is_dir()), "{left:?}");
    assert_eq!(left.is_empty(), names(dir).iter().all(|name| !name.contains(".tfr-")), "{case:?}: {said}");
    let vacant = matches!(check(out).unwrap(), SetState::Absent);
    if vacant && case.beside {
        let next = write(out, SaveMode::Error, "next").unwrap();
        assert_eq!(leftovers(out).unwrap(), left, "only an overwriting run removes what others have left");
        assert_eq!(whole(out), next.query);
    }
    let commit =
        begin(out, SaveMode::Overwrite, Capabilities { beside: case.beside, exchange: case.exchange }).unwrap();
    assert_eq!(commit.leftovers(), left);
    let shards = stage(&commit, "last");
    commit.publish(shards, describe("last")).unwrap_or_else(|error| panic!("{case:?}: {error}: {said}"));
    assert_eq!(whole(out).as_deref(), Some("last"));
    assert_eq!(names(out), SET, "{case:?}: {said}");
    assert_eq!(fs::read_dir(dir).unwrap().count(), 1, "{case:?}: {:?}: {said}", names(dir));
}

#[test]
#[ignore = "dies, as the child of the other tests"]
fn dying_run() {
    let (out, argument) = arguments();
    let argument: Vec<_> = argument.split(' ').collect();
    let capabilities = Capabilities { beside: argument[1] == "true", exchange: argument[2] == "true" };
    let commit = begin(&out, SaveMode::Overwrite, capabilities).unwrap();
    let shards = stage(&commit, "new");
    let mut left: usize = argument[0].parse().unwrap();
    let published = commit.publish_observed(shards, describe("new"), &mut |step| {
        if left == 0 {
            eprintln!("dies before: {step}");
            process::abort();
        }
        left -= 1;
    });
    published.unwrap();
}
