//! The machine against a model of a store: a run may die before any step, a step may fail, and two runs may take their
//! steps in any order.

mod append;
mod partitions;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use arrow_tfrecord::{Mapping, MappingOptions};
use tfrecord_framing::{Compression, Framing};

use super::*;
use crate::commit::save_mode::SaveMode;
use crate::set::group::{ShardGroup, ShardPlace};
use crate::set::names::ObjectNames;
use crate::set::schema::SchemaDescription;
use crate::write::shard_writer::ShardStats;

/// A store: for each key, what it holds and which version of it that is. Shards hold the run that made them.
#[derive(Debug, Clone, Default, PartialEq)]
struct Model {
    files: BTreeMap<String, (Vec<u8>, u64)>,
    /// The manifest that is there, taken apart.
    manifest: Option<Arc<StoredManifest>>,
    versions: u64,
    /// Whether requests may have conditions.
    conditional: bool,
    /// Whether the set is partitioned by `dt`.
    partitioned: bool,
}

/// What a reader finds: nothing that is whole, or the shards of these runs, with `+` between.
#[derive(Debug, Clone, PartialEq)]
enum Read {
    Nothing,
    Set(String),
}

impl Model {
    fn new(conditional: bool) -> Self {
        Self { conditional, ..Self::default() }
    }

    fn put(&mut self, name: &str, content: &[u8]) {
        self.versions += 1;
        self.files.insert(name.to_owned(), (content.to_vec(), self.versions));
        if name == MANIFEST_NAME {
            let manifest = Manifest::from_json(content, Path::new(MANIFEST_NAME)).unwrap();
            self.manifest = Some(Arc::new(StoredManifest { manifest, version: version_of(self.versions) }));
        }
    }

    fn remove(&mut self, name: &str) {
        self.files.remove(name);
        if name == MANIFEST_NAME {
            self.manifest = None;
        }
    }

    fn read(&self) -> Read {
        let Some(StoredManifest { manifest, .. }) = self.manifest.as_deref() else {
            let loose = self.files.keys().any(|name| name.contains(".tfrecord"));
            assert!(!loose, "shards without a manifest would be read as a table: {:?}", self.files.keys());
            return Read::Nothing;
        };
        let of_run = |name: &str, run: &str| self.files.get(name).map(|(found, _)| found == run.as_bytes());
        // The first run has those that no other has added.
        let added = manifest.appended.iter().map(|run| run.shards as usize).sum::<usize>();
        let counts = [manifest.shards.len() - added].into_iter();
        let counts = counts.chain(manifest.appended.iter().map(|run| run.shards as usize));
        let runs: Vec<_> = manifest.runs().zip(counts).flat_map(|(run, count)| vec![run; count]).collect();
        let shards: Vec<_> = manifest.shards.iter().zip(runs).map(|(shard, run)| of_run(&shard.path, run)).collect();
        if !self.files.contains_key(SUCCESS_NAME) || shards.contains(&None) {
            return Read::Nothing;
        }
        assert!(!shards.contains(&Some(false)), "a mixture of sets");
        Read::Set(manifest.runs().collect::<Vec<_>>().join("+"))
    }
}

fn version_of(number: u64) -> ObjectVersion {
    ObjectVersion { e_tag: Some(number.to_string()), version: None }
}

fn out() -> PathBuf {
    PathBuf::from("s3://bucket/train/")
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
enum End {
    Done,
    Failed { committed: bool },
}

/// One run at its publication.
struct Writer {
    run: RunId,
    mode: SaveMode,
    names: Vec<String>,
    publication: Option<ObjectPublication>,
    /// The version of the manifest that it has put.
    own: Option<u64>,
    end: Option<End>,
    /// The step that fails, and whether it is done all the same.
    fault: Option<(usize, bool)>,
    taken: usize,
}

impl Writer {
    /// Begins a run with two shards, if the mode allows that.
    fn begin(store: &Model, mode: SaveMode) -> Result<Self> {
        let run = RunId::new();
        let occupant = inspect(store, mode)?;
        let own_names = occupant != Occupant::Vacant;
        let names = ObjectNames {
            prefix: "part".to_owned(),
            total: Some(2),
            suffix: Framing::default().suffix(),
            run: own_names.then(|| run.clone()),
        };
        let mut description = description();
        let (names, shards) = if store.partitioned {
            let column = Schema::new(vec![Field::new("dt", DataType::Utf8, true)]);
            description.partition_columns = Some(SchemaDescription::try_new(&column)?);
            description.replace_partitions = mode == SaveMode::OverwritePartitions;
            let values = if description.replace_partitions { ["b", "c"] } else { ["a", "b"] };
            let groups = values.map(|value| ShardGroup {
                partition_values: vec![("dt".to_owned(), Some(value.to_owned()))],
                split: None,
            });
            let place = |group| ShardPlace { group, index: 0, total: 1 };
            let names: Vec<_> = groups.iter().map(|group| names.path(place(group))).collect();
            let shards = uploads(&names).into_iter().zip(groups).map(|(shard, group)| shard.with_group(group));
            (names, shards.collect())
        } else {
            let names: Vec<_> = (0..2).map(|sequence| names.name(0, sequence)).collect();
            let shards = uploads(&names);
            (names, shards)
        };
        let publication = Some(match occupant {
            Occupant::Set { stored, .. } => ObjectPublication::append(&out(), *stored, shards, description, &run)?,
            _ => ObjectPublication::new(own_names, shards, description, &run)?,
        });
        Ok(Self { run, mode, names, publication, own: None, end: None, fault: None, taken: 0 })
    }

    /// A run that ends before it begins.
    fn refused(error: crate::Error) -> Self {
        assert!(matches!(error.kind(), ErrorKind::NotEmpty { .. } | ErrorKind::NotAppendable { .. }), "{error}");
        let end = Some(End::Failed { committed: false });
        let (run, mode) = (RunId::new(), SaveMode::Error);
        Self { run, mode, names: Vec::new(), publication: None, own: None, end, fault: None, taken: 0 }
    }

    /// Takes one step; `false` when there is none left.
    fn step(&mut self, store: &mut Model) -> bool {
        let Some(publication) = &mut self.publication else { return false };
        let Some(step) = publication.next_step() else {
            self.publication = None;
            self.end = Some(End::Done);
            return false;
        };
        let fault = self.fault.filter(|(at, _)| *at == self.taken);
        self.taken += 1;
        let performed = match fault {
            Some((_, false)) => Err(failure()),
            Some((_, true)) => self.perform(store, &step).and(Err(failure())),
            None => self.perform(store, &step),
        };
        // A manifest whose answer was lost is looked for.
        let performed = match (performed, &step) {
            (Err(_), ObjectStep::PutManifest { content, .. })
                if store.files.get(MANIFEST_NAME).is_some_and(|(found, _)| found == content) =>
            {
                self.own = store.files.get(MANIFEST_NAME).map(|(_, version)| *version);
                Ok(ObjectOutcome::Done)
            }
            (performed, _) => performed,
        };
        let publication = self.publication.as_mut().unwrap();
        if performed.and_then(|outcome| publication.performed(&step, outcome, &out())).is_err() {
            let publication = self.publication.take().unwrap();
            self.end = Some(End::Failed { committed: publication.is_committed() });
            let current = store.manifest.clone();
            for step in publication.undo(current.as_ref().map(|current| &current.manifest)) {
                self.perform(store, &step).unwrap();
            }
        }
        true
    }

    fn perform(&mut self, store: &mut Model, step: &ObjectStep) -> Result<ObjectOutcome> {
        let superseded = || Err(ErrorKind::Superseded { path: out() }.into());
        let current = store.files.get(MANIFEST_NAME).map(|(_, version)| *version);
        match step {
            ObjectStep::Inspect => return inspect(store, self.mode).map(ObjectOutcome::Found),
            ObjectStep::PutManifest { content, condition } => {
                let holds = match condition {
                    Condition::Absent => current.is_none(),
                    Condition::Unchanged(version) => current.map(version_of).as_ref() == Some(version),
                };
                if !holds && store.conditional {
                    return superseded();
                }
                store.put(MANIFEST_NAME, content);
                self.own = Some(store.versions);
            }
            ObjectStep::Complete => self.names.iter().for_each(|name| store.put(name, self.run.as_str().as_bytes())),
            ObjectStep::Confirm if current != self.own => return superseded(),
            ObjectStep::Confirm => {}
            ObjectStep::PutSuccess => store.put(SUCCESS_NAME, b""),
            ObjectStep::PutSidecars { indexes, sidecars } => {
                indexes.iter().for_each(|(_, path)| store.put(path, self.run.as_str().as_bytes()));
                sidecars.iter().for_each(|sidecar| store.put(&sidecar.path, &sidecar.content));
            }
            ObjectStep::Remove { files } => files.iter().for_each(|file| store.remove(file)),
        }
        Ok(ObjectOutcome::Done)
    }
}

fn failure() -> crate::Error {
    ErrorKind::Write(std::io::ErrorKind::ConnectionReset.into()).into()
}

fn inspect(store: &Model, mode: SaveMode) -> Result<Occupant> {
    let mut scan = PrefixScan::new(mode, store.manifest.as_deref());
    for name in store.files.keys() {
        // As long as all shards are.
        if scan.add(name.clone(), 20).is_break() {
            break;
        }
    }
    scan.finish(&out())
}

fn uploads(names: &[String]) -> Vec<StagedShard> {
    let stats = ShardStats { rows: 1, framed_bytes: 20, file_bytes: 20, crc32c: 7, ..ShardStats::default() };
    names.iter().zip(0..).map(|(name, n)| StagedShard::new(name, 0, n, stats.clone())).collect()
}

fn description() -> SetDescription {
    let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]));
    let options = MappingOptions::default();
    SetDescription::new(&Mapping::try_new(&schema, &options).unwrap(), &options).unwrap()
}

/// A store in which a run has been at work: to its end, or for some steps.
fn store_after(steps: usize, conditional: bool) -> Model {
    let mut store = Model::new(conditional);
    let mut writer = Writer::begin(&store, SaveMode::Error).unwrap();
    (0..steps).take_while(|_| writer.step(&mut store)).count();
    store
}

/// What may be there: nothing, a set, what a killed run has left, and a set beside what a killed run has left.
fn stores() -> Vec<Model> {
    let mut stores: Vec<_> = [0, 2, 3, 4, usize::MAX].map(|steps| store_after(steps, true)).into();
    let mut beside = store_after(usize::MAX, true);
    let mut killed = Writer::begin(&beside, SaveMode::Overwrite).unwrap();
    (0..2).take_while(|_| killed.step(&mut beside)).count();
    stores.push(beside);
    stores
}

#[test]
fn object_names_are_plain_only_in_an_empty_target() {
    let mut store = Model::new(true);
    let mut first = Writer::begin(&store, SaveMode::Error).unwrap();
    assert_eq!(first.names, ["part-00000-of-00002.tfrecord", "part-00001-of-00002.tfrecord"]);
    while first.step(&mut store) {}
    assert_eq!(first.end, Some(End::Done));
    let error = Writer::begin(&store, SaveMode::Error).err().unwrap();
    assert!(matches!(error.kind(), ErrorKind::NotEmpty { .. }), "{error}");
    let second = Writer::begin(&store, SaveMode::Overwrite).unwrap();
    assert_eq!(second.names[0], format!("part-{}-00000-of-00002.tfrecord", second.run));
    store.put("notes.txt", b"mine");
    let error = Writer::begin(&store, SaveMode::Overwrite).err().unwrap();
    assert!(matches!(error.kind(), ErrorKind::ForeignFiles { files, .. } if files == &["notes.txt"]), "{error}");
}

#[test]
fn object_names_with_a_run_id_are_recognized() {
    let run = RunId::new();
    for total in [None, Some(3)] {
        for compression in [Compression::None, Compression::Gzip, Compression::Zlib] {
            let suffix = Framing::from(compression).suffix();
            let names = ObjectNames { prefix: "my-part".to_owned(), total, suffix, run: Some(run.clone()) };
            assert!(ObjectNames::has_run_id(&names.name(1, 2)), "{}", names.name(1, 2));
            let plain = ObjectNames { run: None, ..names };
            assert!(!ObjectNames::has_run_id(&plain.name(1, 2)), "{}", plain.name(1, 2));
        }
    }
    for name in ["part-0190a6e0-7a5b-7c3d-8e9f-0123456789ab-00000-00000.tfrecord", "_manifest.json", "a-b-c.tfrecord"] {
        assert!(!ObjectNames::has_run_id(name), "{name}");
    }
}

#[test]
fn publication_killed_at_any_step_shows_old_new_or_nothing() {
    for (case, before) in stores().into_iter().enumerate() {
        for died_at in 0.. {
            let mut store = before.clone();
            let mut writer = Writer::begin(&store, SaveMode::Overwrite).unwrap();
            let taken = (0..died_at).take_while(|_| writer.step(&mut store)).count();
            let (read, old, new) = (store.read(), before.read(), Read::Set(writer.run.to_string()));
            if taken < died_at {
                assert_eq!((read, writer.end), (new, Some(End::Done)), "case {case}");
                let shards = store.files.keys().filter(|name| name.contains(".tfrecord"));
                assert!(shards.eq(&writer.names), "case {case}: {:?}", store.files.keys());
                break;
            }
            // What a killed run had as good as published may be seen when the next one begins to replace it.
            let had_all = before.files.keys().filter(|name| name.contains(".tfrecord")).count() == 2;
            let killed = had_all.then(|| Read::Set(before.manifest.as_ref().unwrap().manifest.run.clone()));
            assert!([Some(old), Some(new), killed].contains(&Some(read.clone())), "case {case}, {died_at}: {read:?}");
            // And the next run can replace whatever that is.
            let mut next = Writer::begin(&store, SaveMode::Overwrite).unwrap();
            while next.step(&mut store) {}
            assert_eq!(store.read(), Read::Set(next.run.to_string()), "case {case}, step {died_at}");
            assert_eq!(store.files.len(), 4, "case {case}, step {died_at}: {:?}", store.files.keys());
        }
    }
}

#[test]
fn publication_failing_at_any_step_leaves_old_or_new() {
    for (case, before) in stores().into_iter().enumerate() {
        for (failing, done) in (0..).flat_map(|step| [(step, false), (step, true)]) {
            let mut store = before.clone();
            let mut writer = Writer::begin(&store, SaveMode::Overwrite).unwrap();
            writer.fault = Some((failing, done));
            while writer.step(&mut store) {}
            let names = |store: &Model| store.files.keys().cloned().collect::<Vec<_>>();
            match writer.end.clone().unwrap() {
                End::Done | End::Failed { committed: true } => {
                    assert_eq!(store.read(), Read::Set(writer.run.to_string()), "case {case}, step {failing}");
                }
                End::Failed { committed: false } => {
                    // But for the mark of success, which replacing what is not whole begins with.
                    let mut before = before.clone();
                    if store.files.contains_key(SUCCESS_NAME) && before.files.contains_key(MANIFEST_NAME) {
                        before.put(SUCCESS_NAME, b"");
                    }
                    assert_eq!(names(&store), names(&before), "case {case}, step {failing}");
                }
            }
            if writer.taken <= failing {
                break;
            }
        }
    }
}

/// Two runs that take their steps in some order, `look`ing at the store after each.
struct Race<'a> {
    before: &'a Model,
    modes: [SaveMode; 2],
    look: fn(&Model),
}

impl Race<'_> {
    /// Every order in which both can take their steps, the first of which is to begin, each with what comes of it.
    fn all(&self, mut ended: impl FnMut(&[bool], &Model, &[Writer])) {
        // Who takes the first turns: `true` is the second run. The rest is for the first run, as long as it has steps.
        let mut beginnings = vec![Vec::new()];
        while let Some(mut turns) = beginnings.pop() {
            let mut store = self.before.clone();
            let mut writers = [None, None];
            for turn in 0.. {
                let [first, second] = [0, 1]
                    .map(|which: usize| writers[which].as_ref().is_none_or(|writer: &Writer| writer.end.is_none()));
                let is_second = match turns.get(turn) {
                    Some(is_second) => *is_second,
                    None if !first && !second => break,
                    None => {
                        if first && second {
                            beginnings.push([turns.as_slice(), &[true]].concat());
                        }
                        turns.push(!first);
                        !first
                    }
                };
                match &mut writers[usize::from(is_second)] {
                    Some(writer) => {
                        writer.step(&mut store);
                    }
                    beginning => {
                        let mode = self.modes[usize::from(is_second)];
                        *beginning = Some(Writer::begin(&store, mode).unwrap_or_else(Writer::refused));
                    }
                }
                (self.look)(&store);
            }
            let writers: Vec<_> = writers.into_iter().flatten().collect();
            ended(&turns, &store, &writers);
        }
    }
}

/// Panics if it finds a mixture.
fn read(store: &Model) {
    store.read();
}

#[test]
fn concurrent_publications_let_one_win_cleanly() {
    for (case, before) in stores().into_iter().enumerate() {
        for mode in [SaveMode::Error, SaveMode::Overwrite] {
            let is_refused = mode == SaveMode::Error && !before.files.is_empty();
            let mut races = 0;
            Race { before: &before, modes: [mode; 2], look: read }.all(|turns, store, writers| {
                races += 1;
                let place = format!("case {case}, {mode:?}, {turns:?}");
                let winners: Vec<_> = writers.iter().filter(|writer| writer.end == Some(End::Done)).collect();
                if is_refused {
                    assert!(winners.is_empty() && *store == before, "{place}");
                    return;
                }
                // One after the other is no race: both may replace what is there.
                let most = if mode == SaveMode::Error { 1 } else { 2 };
                assert!((1..=most).contains(&winners.len()), "{place}");
                let Read::Set(run) = store.read() else { panic!("{place}: nothing is left") };
                let winner = winners.iter().find(|winner| winner.run.as_str() == run).unwrap();
                let mut expected = vec![MANIFEST_NAME.to_owned(), SUCCESS_NAME.to_owned()];
                expected.extend(winner.names.clone());
                expected.sort();
                let found: Vec<_> = store.files.keys().cloned().collect();
                assert_eq!(found, expected, "{place}");
            });
            assert!(is_refused || races > 20, "case {case}, {mode:?}: {races} orders");
        }
    }
}

/// A run that is superseded and dies before it can take back what it completed after that.
#[test]
fn superseded_run_leftovers_are_found_by_the_next() {
    let mut store = Model::new(true);
    let mut slow = Writer::begin(&store, SaveMode::Error).unwrap();
    // It has put its manifest, and seen that it is there.
    (0..3).take_while(|_| slow.step(&mut store)).count();
    let mut quick = Writer::begin(&store, SaveMode::Overwrite).unwrap();
    while quick.step(&mut store) {}
    slow.step(&mut store);
    assert!(slow.names.iter().all(|name| store.files.contains_key(name)), "{:?}", store.files.keys());
    assert_eq!(store.read(), Read::Set(quick.run.to_string()));
    let mut next = Writer::begin(&store, SaveMode::Overwrite).unwrap();
    while next.step(&mut store) {}
    assert_eq!(store.read(), Read::Set(next.run.to_string()));
    assert_eq!(store.files.len(), 4, "{:?}", store.files.keys());
}

/// Where the store refuses nothing, the one that finds itself superseded leaves alone what the other has.
#[test]
fn store_without_conditions_keeps_files_of_other_runs() {
    let before = Model::new(false);
    Race { before: &before, modes: [SaveMode::Error; 2], look: |_| {} }.all(|turns, store, writers| {
        if let Some(winner) = writers.iter().find(|writer| writer.end == Some(End::Done)) {
            assert!(winner.names.iter().all(|name| store.files.contains_key(name)), "{turns:?}");
        }
    });
}

/// A store that looks first and writes then lets two manifests pass at the same time, but no mixture comes of it.
#[test]
fn concurrent_manifests_do_not_mix_sets() {
    let before = Model::new(false);
    let mut races = 0;
    Race { before: &before, modes: [SaveMode::Error; 2], look: |_| {} }.all(|turns, store, writers| {
        // Both begin, inspect, and put their manifest, before anything else.
        if turns.iter().take(6).filter(|is_second| **is_second).count() == 3 {
            races += 1;
            let done: Vec<_> = writers.iter().filter(|writer| writer.end == Some(End::Done)).collect();
            let [winner] = done.as_slice() else { panic!("{turns:?}: {} sets", done.len()) };
            assert_eq!(store.read(), Read::Set(winner.run.to_string()), "{turns:?}");
        }
    });
    assert!(races > 10, "{races} orders");
}
