//! The machine against a model of a file system: a publication may die before any step, or a step may fail.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use arrow_tfrecord::{Mapping, MappingOptions};

use super::*;

fn description() -> SetDescription {
    let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]));
    let options = MappingOptions::default();
    SetDescription::new(&Mapping::try_new(&schema, &options).unwrap(), &options).unwrap()
}

fn staged(partition: u32, sequence: u32) -> StagedShard {
    let stats = ShardStats { rows: 1, framed_bytes: 20, file_bytes: 20, crc32c: 7, offsets: Vec::new() };
    StagedShard::new(format!("{partition}-{sequence}"), partition, sequence, stats)
}

#[test]
fn shards_are_numbered_by_partition_and_sequence() {
    let shards = vec![staged(1, 0), staged(0, 10), staged(0, 2)];
    let (mut publication, manifest) =
        Publication::new(Staging::Beside, SaveMode::Error, shards, description(), &RunId::new()).unwrap();
    let steps: Vec<_> = std::iter::from_fn(|| publication.next_step()).map(|step| step.to_string()).collect();
    assert_eq!(
        steps,
        [
            "discard what is not of the set",
            "write _manifest.json",
            "move staging/0-2 to staging/part-00000-of-00003.tfrecord",
            "move staging/0-10 to staging/part-00001-of-00003.tfrecord",
            "move staging/1-0 to staging/part-00002-of-00003.tfrecord",
            "write _SUCCESS",
            "sync staging",
            "inspect the target",
        ]
    );
    assert_eq!(manifest.totals.rows, 3);
    assert_eq!(manifest.shards[2].path, "part-00002-of-00003.tfrecord");
}

#[test]
fn two_shards_in_one_place_are_refused() {
    let shards = vec![staged(0, 0), staged(0, 1), staged(0, 0)];
    let error = Publication::new(Staging::Beside, SaveMode::Error, shards, description(), &RunId::new()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::ShardTwice { partition: 0, sequence: 0 }), "{error}");
}

#[test]
fn prefixes_that_hide_or_lead_away_are_refused() {
    for prefix in ["", ".part", "_part", "a/b", "../part", "a\\b", "a\nb", &"p".repeat(201)] {
        assert!(check_prefix(prefix).is_err(), "{prefix:?}");
    }
    for prefix in ["part", "train", "my data", "größe-1"] {
        assert!(check_prefix(prefix).is_ok(), "{prefix:?}");
    }
}

/// A directory: its files and what each holds.
type Files = BTreeMap<String, String>;

/// A file system with the three directories, in which one step may fail.
struct Model {
    directories: RefCell<BTreeMap<u8, Files>>,
    exchange: bool,
    fail_at: Option<usize>,
    taken: RefCell<usize>,
}

fn key(place: Place) -> u8 {
    match place {
        Place::Staging => 0,
        Place::Replaced => 1,
        Place::Target => 2,
    }
}

impl Model {
    /// `old` is in the target, and two new shards are staged, beside one that was given up.
    fn new(old: Option<Files>, exchange: bool, fail_at: Option<usize>) -> Self {
        let staging = [("0-0", "new"), ("0-1", "new"), ("0-2", "given up")]
            .map(|(name, content)| (name.to_owned(), content.to_owned()));
        let mut directories = BTreeMap::from([(key(Place::Staging), Files::from(staging))]);
        directories.extend(old.map(|old| (key(Place::Target), old)));
        Self { directories: RefCell::new(directories), exchange, fail_at, taken: RefCell::new(0) }
    }

    fn target(&self) -> Option<Files> {
        self.directories.borrow().get(&key(Place::Target)).cloned()
    }

    fn rename(&self, from: &Spot, to: &Spot) {
        let mut directories = self.directories.borrow_mut();
        match (&from.name, &to.name) {
            (Some(from_name), Some(to_name)) => {
                let content = directories.get_mut(&key(from.place)).unwrap().remove(from_name).unwrap();
                let target = directories.entry(key(to.place)).or_default();
                assert!(target.insert(to_name.clone(), content).is_none(), "{to} was there already");
            }
            (None, None) => {
                let files = directories.remove(&key(from.place)).unwrap();
                let replaced = directories.insert(key(to.place), files);
                assert!(replaced.is_none_or(|files| files.is_empty()), "{to} was not empty");
            }
            _ => panic!("{from} cannot become {to}"),
        }
    }
}

impl Store for Model {
    fn perform(&self, step: &Step) -> Result<Outcome> {
        let index = self.taken.replace_with(|taken| *taken + 1);
        if self.fail_at == Some(index) {
            return Err(ErrorKind::Write(std::io::ErrorKind::StorageFull.into()).into());
        }
        match step {
            Step::Write { name, .. } => {
                let mut directories = self.directories.borrow_mut();
                directories.get_mut(&key(Place::Staging)).unwrap().insert((*name).to_owned(), "new".to_owned());
            }
            Step::Move { from, to } => self.rename(from, to),
            Step::Exchange if !self.exchange => return Ok(Outcome::Unsupported),
            Step::Exchange => {
                let mut directories = self.directories.borrow_mut();
                let staging = directories.remove(&key(Place::Staging)).unwrap();
                let target = directories.insert(key(Place::Target), staging).unwrap();
                directories.insert(key(Place::Staging), target);
            }
            Step::Inspect => {
                return Ok(Outcome::Found(match self.target() {
                    Some(files) if !files.is_empty() => Target::Occupied(files.into_keys().collect()),
                    _ => Target::Vacant,
                }));
            }
            Step::RemoveStaging => {
                self.directories.borrow_mut().remove(&key(Place::Staging));
            }
            Step::RemoveFiles { place, files } => {
                let removed = self.directories.borrow_mut().remove(&key(*place)).unwrap();
                assert_eq!(&removed.into_keys().collect::<Vec<_>>(), files);
            }
            Step::Discard { except } => {
                self.directories
                    .borrow_mut()
                    .get_mut(&key(Place::Staging))
                    .unwrap()
                    .retain(|name, _| except.contains(name));
            }
            Step::Sync(_) | Step::SyncName | Step::RemoveLeftovers => {}
        }
        Ok(Outcome::Done)
    }
}

/// Publishes up to a step; undoes it all if a step fails.
fn publish(model: &Model, staging: Staging, until: usize) -> (usize, Result<()>) {
    let shards = vec![staged(0, 0), staged(0, 1)];
    let (mut publication, _) =
        Publication::new(staging, SaveMode::Overwrite, shards, description(), &RunId::new()).unwrap();
    for taken in 0..until {
        let Some(step) = publication.next_step() else { return (taken, Ok(())) };
        match model.perform(&step) {
            Ok(outcome) => publication.performed(step, outcome),
            Err(error) => {
                if !publication.is_committed() {
                    publication.undo().iter().for_each(|step| drop(model.perform(step).unwrap()));
                }
                return (taken, Err(error));
            }
        }
    }
    (until, Ok(()))
}

fn set(content: &str, shards: &[&str]) -> Files {
    let names = shards.iter().copied().chain([MANIFEST_NAME, SUCCESS_NAME]);
    names.map(|name| (name.to_owned(), content.to_owned())).collect()
}

fn new_set() -> Files {
    set("new", &["part-00000-of-00002.tfrecord", "part-00001-of-00002.tfrecord"])
}

/// Every combination of what is there and what the file system can do.
fn cases() -> Vec<(&'static str, Staging, Option<Files>, bool)> {
    // One of the old shards has the name of a new one, so that a mixture would show.
    let old = || set("old", &["part-00000-of-00002.tfrecord", "part-00000-of-00001.tfrecord"]);
    vec![
        ("absent", Staging::Beside, None, true),
        ("empty", Staging::Beside, Some(Files::new()), true),
        ("exchange", Staging::Beside, Some(old()), true),
        ("two renames", Staging::Beside, Some(old()), false),
        ("empty, in place", Staging::Inside, Some(Files::new()), true),
        ("overwrite, in place", Staging::Inside, Some(old()), true),
    ]
}

#[test]
fn whenever_it_dies_the_target_is_old_or_new_or_no_set() {
    for (name, staging, old, exchange) in cases() {
        let mut died_at = 0;
        loop {
            let model = Model::new(old.clone(), exchange, None);
            let (taken, result) = publish(&model, staging, died_at);
            result.unwrap();
            let target = model.target();
            // What a reader takes for a set has a `_SUCCESS`.
            if target.as_ref().is_some_and(|files| files.contains_key(SUCCESS_NAME)) {
                assert!(target == old || target == Some(new_set()), "{name}, step {died_at}: {target:#?}");
            }
            if taken < died_at {
                assert_eq!(target, Some(new_set()), "{name}");
                break;
            }
            died_at += 1;
        }
        assert!(died_at > 8, "{name}: {died_at} steps");
    }
}

#[test]
fn whichever_step_fails_the_target_is_as_before_or_new() {
    for (name, staging, old, exchange) in cases() {
        for failing in 0.. {
            let model = Model::new(old.clone(), exchange, Some(failing));
            let (_, result) = publish(&model, staging, usize::MAX);
            let target = model.target();
            match result {
                Ok(()) => {
                    assert_eq!(target, Some(new_set()), "{name}");
                    break;
                }
                Err(_) => assert!(target == old || target == Some(new_set()), "{name}, step {failing}: {target:#?}"),
            }
        }
    }
}
