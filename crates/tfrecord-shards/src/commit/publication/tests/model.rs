//! The machine against a model of a file system: a run may die before any step, a step may fail, and two runs may take
//! turns.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::*;

/// A directory: its files and what each holds, and the directories in it. Shards hold the run that made them.
#[derive(Debug, Clone, Default, PartialEq)]
struct Directory {
    files: BTreeMap<String, Vec<u8>>,
    directories: BTreeSet<String>,
}

impl Directory {
    fn is_empty(&self) -> bool {
        self.files.is_empty() && self.directories.is_empty()
    }

    fn put(&mut self, path: &str, content: Vec<u8>) {
        for directory in directories(&[path.to_owned()]) {
            assert!(self.directories.contains(&directory), "there is no directory for {path}");
        }
        assert!(self.files.insert(path.to_owned(), content).is_none(), "{path} was there already");
    }

    fn holds(&self, directory: &str) -> bool {
        let inside = format!("{directory}/");
        self.files.keys().chain(&self.directories).any(|path| path.starts_with(&inside))
    }

    fn manifest(&self) -> Option<Rc<Manifest>> {
        let json = self.files.get(MANIFEST_NAME)?;
        // It is read after every turn, and seldom another one.
        thread_local!(static LAST: RefCell<Vec<(Vec<u8>, Rc<Manifest>)>> = const { RefCell::new(Vec::new()) });
        LAST.with_borrow_mut(|last| {
            if let Some((_, manifest)) = last.iter().find(|(known, _)| known == json) {
                return Some(Rc::clone(manifest));
            }
            last.truncate(3);
            let manifest = Rc::new(Manifest::from_json(json, Path::new(MANIFEST_NAME)).unwrap());
            last.insert(0, (json.clone(), Rc::clone(&manifest)));
            Some(manifest)
        })
    }
}

/// A file system with a target, and for each of two runs the directories that are its own.
#[derive(Debug, Clone, Default)]
struct Model {
    target: Option<Directory>,
    staging: [Option<Directory>; 2],
    replaced: [Option<Directory>; 2],
    /// Whether a run stages inside the target.
    inside: [bool; 2],
    /// The manifests that are locked, and by whom.
    locks: BTreeMap<Vec<u8>, usize>,
    has_exchange: bool,
    has_locks: bool,
}

/// What a reader finds: nothing that is whole, or the shards of these runs.
#[derive(Debug, Clone, PartialEq)]
enum Read {
    Nothing,
    Set(Vec<String>),
}

impl Model {
    fn new(has_exchange: bool) -> Self {
        Self { has_exchange, has_locks: true, ..Self::default() }
    }

    fn read(&self) -> Read {
        let Some(target) = &self.target else { return Read::Nothing };
        let Some(manifest) = target.manifest() else { return Read::Nothing };
        let mut of_runs = vec![manifest.run.clone(); manifest.shards.len()];
        let mut end = of_runs.len();
        for appended in manifest.appended.iter().rev() {
            let start = end - appended.shards as usize;
            of_runs[start..end].fill(appended.run.clone());
            end = start;
        }
        let found: Vec<_> = manifest.shards.iter().map(|shard| target.files.get(&shard.path)).collect();
        if !target.files.contains_key(SUCCESS_NAME) || found.contains(&None) {
            return Read::Nothing;
        }
        let is_of_run = |(found, run): (&Option<&Vec<u8>>, &String)| found.is_some_and(|found| found == run.as_bytes());
        assert!(found.iter().zip(&of_runs).all(is_of_run), "a mixture of sets");
        Read::Set(manifest.runs().map(str::to_owned).collect())
    }

    /// What a run sees in the target.
    fn inspect(&self, which: usize, mode: SaveMode) -> Result<Target> {
        let path = || PathBuf::from("shards");
        let busy = || Err(ErrorKind::Busy { path: path(), run: "the other".to_owned() }.into());
        let other = 1 - which;
        if self.inside[other] && self.staging[other].is_some() {
            return busy();
        }
        let Some(target) = self.target.as_ref().filter(|target| !target.is_empty()) else {
            // The other one has moved the set aside, and is about to put its own there.
            return if self.replaced[other].is_some() { busy() } else { Ok(Target::Vacant) };
        };
        let manifest = target.manifest().map(|manifest| Box::new(Manifest::clone(&manifest)));
        match mode {
            SaveMode::Error | SaveMode::Ignore => Err(ErrorKind::NotEmpty { path: path(), found: Vec::new() }.into()),
            SaveMode::Overwrite => Ok(Target::Occupied {
                manifest,
                files: target.files.keys().cloned().collect(),
                directories: target.directories.iter().cloned().collect(),
            }),
            SaveMode::Append | SaveMode::OverwritePartitions => match (self.read(), manifest) {
                (Read::Set(_), Some(manifest)) => Ok(Target::Set(manifest)),
                _ => Err(ErrorKind::NotAppendable { path: path(), why: "not whole".to_owned() }.into()),
            },
        }
    }

    fn directory(&mut self, which: usize, place: Place) -> &mut Option<Directory> {
        match place {
            Place::Staging => &mut self.staging[which],
            Place::Replaced => &mut self.replaced[which],
            Place::Target => &mut self.target,
        }
    }

    fn rename(&mut self, which: usize, from: &Spot, to: &Spot) -> Result<()> {
        match (&from.name, &to.name) {
            (Some(from_name), Some(to_name)) => {
                let content = self.directory(which, from.place).as_mut().unwrap().files.remove(from_name).unwrap();
                self.directory(which, to.place).get_or_insert_default().put(to_name, content);
            }
            (None, None) => {
                if self.directory(which, to.place).as_ref().is_some_and(|there| !there.is_empty()) {
                    return Err(ErrorKind::NotEmpty { path: "shards".into(), found: Vec::new() }.into());
                }
                *self.directory(which, to.place) = Some(self.directory(which, from.place).take().unwrap());
            }
            _ => panic!("{from} cannot become {to}"),
        }
        Ok(())
    }

    /// Whether a run would have to wait.
    fn blocks(&self, which: usize, step: &Step) -> bool {
        let manifest = self.target.as_ref().and_then(|target| target.files.get(MANIFEST_NAME));
        *step == Step::Lock && manifest.and_then(|manifest| self.locks.get(manifest)).is_some_and(|run| *run != which)
    }

    fn perform(&mut self, which: usize, mode: SaveMode, current: Option<&Manifest>, step: &Step) -> Result<Outcome> {
        match step {
            Step::Write { name, content } => self.staging[which].as_mut().unwrap().put(name, content.clone()),
            Step::MakeDirectories { place, directories } => {
                let there = &mut self.directory(which, *place).get_or_insert_default().directories;
                return Ok(Outcome::Made(
                    directories.iter().filter(|path| there.insert((*path).clone())).cloned().collect(),
                ));
            }
            Step::Move { from, to } => self.rename(which, from, to)?,
            Step::Exchange if !self.has_exchange => return Ok(Outcome::Unsupported),
            Step::Exchange => std::mem::swap(&mut self.staging[which], &mut self.target),
            Step::Lock => {
                if let Some(manifest) = self.target.as_ref().and_then(|target| target.files.get(MANIFEST_NAME))
                    && self.has_locks
                {
                    self.locks.insert(manifest.clone(), which);
                }
            }
            Step::LockManifest if self.has_locks => {
                let manifest = self.staging[which].as_ref().unwrap().files[MANIFEST_NAME].clone();
                self.locks.insert(manifest, which);
            }
            Step::Inspect => return self.inspect(which, mode).map(Outcome::Found),
            Step::Confirm if self.target.as_ref().and_then(Directory::manifest).as_deref() != current => {
                return Err(ErrorKind::Superseded { path: "shards".into() }.into());
            }
            Step::ReplaceManifest => {
                let manifest = self.staging[which].as_mut().unwrap().files.remove(MANIFEST_NAME).unwrap();
                self.target.as_mut().unwrap().files.insert(MANIFEST_NAME.to_owned(), manifest).unwrap();
            }
            Step::RemoveStaging => self.staging[which] = None,
            Step::RemoveFiles { place, files } => {
                let removed = self.directory(which, *place).take().unwrap();
                assert_eq!(&removed.files.into_keys().collect::<Vec<_>>(), files);
            }
            Step::RemoveReplaced { files } | Step::RemoveStale { files } => {
                self.target.as_mut().unwrap().files.retain(|name, _| !files.contains(name));
            }
            Step::RemoveDirectories { place, directories } => {
                let there = self.directory(which, *place).as_mut().unwrap();
                for path in directories.iter().rev().filter(|path| !there.holds(path)).cloned().collect::<Vec<_>>() {
                    there.directories.remove(&path);
                }
            }
            Step::Discard { except } => {
                self.staging[which].as_mut().unwrap().files.retain(|name, _| except.contains(name));
            }
            Step::CheckFiles { files } => {
                let staged = &self.staging[which].as_ref().unwrap().files;
                assert!(files.iter().all(|(path, _)| staged.contains_key(path)), "not staged: {files:?}");
            }
            Step::LockManifest | Step::Confirm | Step::Sync { .. } | Step::SyncName | Step::RemoveLeftovers => {}
        }
        Ok(Outcome::Done)
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
enum End {
    Done,
    Failed { committed: bool, superseded: bool },
}

/// One run.
struct Writer {
    which: usize,
    run: RunId,
    mode: SaveMode,
    current: Option<Manifest>,
    publication: Option<Publication>,
    next: Option<Step>,
    end: Option<End>,
    fail_at: Option<usize>,
    taken: usize,
}

impl Writer {
    /// A run that has staged three shards of two groups, or of none, beside one that was given up. One that replaces
    /// partitions has one that is there and one that is not.
    fn begin(model: &mut Model, which: usize, staging: Staging, mode: SaveMode, is_grouped: bool) -> Result<Self> {
        let run = RunId::new();
        let current = match model.inspect(which, mode)? {
            Target::Vacant => None,
            Target::Set(manifest) => Some(*manifest),
            Target::Occupied { manifest, .. } => manifest.map(|manifest| *manifest),
        };
        let other = if mode == SaveMode::OverwritePartitions { "c" } else { "b" };
        let groups = if is_grouped {
            [("a", "train"), ("a", "eval"), (other, "eval")].map(|(dt, split)| group(Some(dt), split))
        } else {
            Default::default()
        };
        let shards: Vec<_> = groups.into_iter().zip(0..).map(|(group, n)| staged(0, n).with_group(group)).collect();
        let staged = shards.iter().map(|shard| shard.staged.clone()).chain(["0-9".to_owned()]);
        let files = staged.map(|name| (name, run.as_str().as_bytes().to_vec())).collect();
        model.staging[which] = Some(Directory { files, directories: BTreeSet::new() });
        model.inside[which] = staging == Staging::Inside;
        if staging == Staging::Inside {
            model.target.get_or_insert_default();
        }
        let setting = Setting { out: Path::new("shards"), staging, mode, current: current.as_ref(), run: &run };
        let description = if is_grouped { grouped() } else { SetDescription::of_records() };
        let (publication, _) = Publication::with_sidecars(setting, shards, description, |_| Ok(Vec::new()))?;
        Ok(Self {
            which,
            run,
            mode,
            current,
            publication: Some(publication),
            next: None,
            end: None,
            fail_at: None,
            taken: 0,
        })
    }

    fn is_committed(&self) -> bool {
        match &self.publication {
            Some(publication) => publication.is_committed(),
            None => matches!(self.end, Some(End::Done | End::Failed { committed: true, .. })),
        }
    }

    /// Takes a step, and undoes it all if it fails; `false` if there is none left, or it has to wait for the other run.
    fn step(&mut self, model: &mut Model) -> bool {
        let Some(publication) = &mut self.publication else { return false };
        let Some(step) = self.next.take().or_else(|| publication.next_step()) else {
            self.leave(model, End::Done);
            return false;
        };
        if model.blocks(self.which, &step) {
            self.next = Some(step);
            return false;
        }
        let performed = if self.fail_at == Some(self.taken) {
            Err(ErrorKind::Write(std::io::ErrorKind::StorageFull.into()).into())
        } else {
            model.perform(self.which, self.mode, self.current.as_ref(), &step)
        };
        self.taken += 1;
        if let Err(error) = performed.and_then(|outcome| publication.performed(&step, outcome)) {
            let committed = publication.is_committed();
            let superseded = matches!(
                error.kind(),
                ErrorKind::Superseded { .. } | ErrorKind::NotEmpty { .. } | ErrorKind::Busy { .. }
            );
            if !committed {
                for step in self.publication.take().unwrap().undo() {
                    model.perform(self.which, self.mode, None, &step).unwrap();
                }
                model.staging[self.which] = None;
            }
            self.leave(model, End::Failed { committed, superseded });
        }
        true
    }

    fn leave(&mut self, model: &mut Model, end: End) {
        self.publication = None;
        self.end = Some(end);
        model.locks.retain(|_, run| *run != self.which);
    }

    /// Takes the steps that concern nobody else: up to the lock.
    fn prepare(&mut self, model: &mut Model) {
        while self.next.is_none() {
            match self.publication.as_mut().and_then(Publication::next_step) {
                Some(step) if step != Step::Lock => {
                    let outcome = model.perform(self.which, self.mode, None, &step).unwrap();
                    self.publication.as_mut().unwrap().performed(&step, outcome).unwrap();
                }
                step => self.next = Some(step.unwrap()),
            }
        }
    }
}

/// What is there, and how it is written over or added to.
#[derive(Debug, Clone)]
struct Case {
    name: &'static str,
    staging: Staging,
    mode: SaveMode,
    before: Model,
    /// Whether the target is no set for a while.
    has_gap: bool,
}

/// A model in which a set of old shards is there, one of which has the name of a new one, so that a mixture would show.
fn with_set(has_exchange: bool, is_grouped: bool) -> Model {
    let mut model = Model::new(has_exchange);
    let mut writer = Writer::begin(&mut model, 0, Staging::Beside, SaveMode::Error, is_grouped).unwrap();
    while writer.step(&mut model) {}
    assert_eq!(writer.end, Some(End::Done));
    model
}

/// A model in which a run has replaced a partition, and was killed before it has removed the old shards.
fn after_kill() -> Model {
    let mut model = with_set(true, true);
    let mut writer = Writer::begin(&mut model, 0, Staging::Beside, SaveMode::OverwritePartitions, true).unwrap();
    while !writer.is_committed() {
        assert!(writer.step(&mut model));
    }
    let target = model.target.as_ref().unwrap();
    let manifest = target.manifest().unwrap();
    assert_eq!(manifest.replaced.len(), 2);
    assert!(manifest.replaced.iter().all(|path| path.starts_with("dt=a/") && target.files.contains_key(path)));
    assert_eq!(manifest.appended[0].replaced_partitions, ["dt=a"]);
    model.staging[0] = None;
    model.locks.clear();
    model
}

fn cases(is_grouped: bool) -> Vec<Case> {
    let case = |name, staging, mode, before, has_gap| Case { name, staging, mode, before, has_gap };
    let empty = || Model { target: Some(Directory::default()), ..Model::new(true) };
    let set = |has_exchange| with_set(has_exchange, is_grouped);
    let (beside, inside) = (Staging::Beside, Staging::Inside);
    let mut cases = vec![
        case("overwrite by exchange", beside, SaveMode::Overwrite, set(true), false),
        case("overwrite by two renames", beside, SaveMode::Overwrite, set(false), true),
        case("overwrite in place", inside, SaveMode::Overwrite, set(true), true),
        case("append", beside, SaveMode::Append, set(true), false),
        case("append in place", inside, SaveMode::Append, set(false), false),
    ];
    for mode in [SaveMode::Error, SaveMode::Overwrite, SaveMode::Append, SaveMode::Ignore] {
        cases.push(case("absent", beside, mode, Model::new(true), true));
        cases.push(case("empty", beside, mode, empty(), true));
        cases.push(case("empty, in place", inside, mode, empty(), true));
    }
    if is_grouped {
        let mode = SaveMode::OverwritePartitions;
        cases.push(case("partitions", beside, mode, set(true), false));
        cases.push(case("partitions in place", inside, mode, set(false), false));
        cases.push(case("partitions of nothing", beside, mode, Model::new(true), true));
        // The second of these runs removes what the first one has left.
        cases.push(case("partitions, again", beside, mode, after_kill(), false));
        cases.push(case("append after partitions", inside, SaveMode::Append, after_kill(), false));
    }
    cases
}

fn expected(case: &Case, before: &Read, run: &RunId) -> Read {
    match (case.mode, before) {
        (mode, Read::Set(runs)) if mode.keeps_set() => {
            Read::Set(runs.iter().cloned().chain([run.to_string()]).collect())
        }
        _ => Read::Set(vec![run.to_string()]),
    }
}

#[test]
fn publication_killed_at_any_step_shows_old_new_or_nothing() {
    for (case, is_grouped) in
        [true, false].into_iter().flat_map(|grouped| cases(grouped).into_iter().map(move |case| (case, grouped)))
    {
        for died_at in 0.. {
            let mut model = case.before.clone();
            let old = model.read();
            let mut writer = Writer::begin(&mut model, 1, case.staging, case.mode, is_grouped).unwrap();
            let taken = (0..died_at).take_while(|_| writer.step(&mut model)).count();
            let (read, new) = (model.read(), expected(&case, &old, &writer.run));
            if taken < died_at {
                assert_eq!((writer.end, read), (Some(End::Done), new), "{}", case.name);
                assert!(died_at > 8, "{}: {died_at} steps", case.name);
                // Nothing of what was replaced is left.
                let target = model.target.unwrap();
                let listed = target.manifest().unwrap().file_names();
                assert!(target.files.keys().eq(&listed), "{}: {:?}", case.name, target.files.keys());
                assert!(target.directories.iter().eq(&directories(&listed)), "{}: {:?}", case.name, target.directories);
                break;
            }
            let is_fine = if read == Read::Nothing { case.has_gap } else { read == old || read == new };
            assert!(is_fine, "{}, step {died_at}: {read:?}", case.name);
            assert!(!writer.is_committed() || read == new, "{}, step {died_at}: {read:?}", case.name);
        }
    }
}

#[test]
fn publication_failing_at_any_step_leaves_old_or_new() {
    for (case, is_grouped) in
        [true, false].into_iter().flat_map(|grouped| cases(grouped).into_iter().map(move |case| (case, grouped)))
    {
        for failing in 0.. {
            let mut model = case.before.clone();
            let old = model.read();
            let mut writer = Writer::begin(&mut model, 1, case.staging, case.mode, is_grouped).unwrap();
            writer.fail_at = Some(failing);
            while writer.step(&mut model) {}
            match writer.end.clone().unwrap() {
                End::Failed { committed: false, .. } => {
                    let before = case.before.target.clone();
                    // What an earlier run has replaced is removed first.
                    let stale = before.as_ref().and_then(Directory::manifest).map(|set| set.replaced.clone());
                    let without = |directory: Option<Directory>| {
                        directory.map(|mut directory| {
                            directory.files.retain(|path, _| !stale.iter().flatten().any(|stale| stale == path));
                            directory
                        })
                    };
                    assert_eq!(without(model.target.clone()), without(before), "{}, step {failing}", case.name);
                    assert_eq!(
                        model.replaced[1].as_ref().filter(|left| !left.files.is_empty()),
                        None,
                        "{}, step {failing}",
                        case.name
                    );
                }
                _ => assert_eq!(model.read(), expected(&case, &old, &writer.run), "{}, step {failing}", case.name),
            }
            assert_eq!(model.locks, BTreeMap::new());
            if writer.taken <= failing {
                break;
            }
        }
    }
}

/// Two runs on one set: the first takes some steps, then the second some, and so on.
fn interleaved(before: &Model, modes: [(SaveMode, Staging); 2], turns: [usize; 3]) -> (Model, Vec<Writer>, bool) {
    let mut model = before.clone();
    let begin = |model: &mut Model, which: usize| {
        let (mode, staging) = modes[which];
        let mut writer = Writer::begin(model, which, staging, mode, true)?;
        writer.prepare(model);
        Ok(writer)
    };
    let mut writers: Vec<Writer> = vec![begin(&mut model, 0).unwrap()];
    let take = |model: &mut Model, writer: &mut Writer, most: usize| {
        for _ in 0..most {
            if !writer.step(model) {
                break;
            }
        }
        model.read();
    };
    take(&mut model, &mut writers[0], turns[0]);
    let overlap = !writers[0].is_committed();
    match begin(&mut model, 1) {
        Ok(second) => writers.push(second),
        // The other one is in the target, or there is no set for a moment.
        Err(error) => {
            let error: Error = error;
            assert!(matches!(error.kind(), ErrorKind::Busy { .. }) || model.target.is_none(), "{error}");
        }
    }
    let order = [(1, turns[1]), (0, turns[2]), (1, usize::MAX), (0, usize::MAX), (1, usize::MAX)];
    for (which, most) in order {
        if let Some(writer) = writers.get_mut(which) {
            take(&mut model, writer, most);
        }
    }
    (model, writers, overlap)
}

#[test]
fn concurrent_publications_let_one_win_cleanly() {
    use SaveMode::{Append, Overwrite, OverwritePartitions};
    use Staging::{Beside, Inside};
    let mut superseded = 0;
    for modes in [
        [(Append, Beside), (Append, Beside)],
        [(Append, Beside), (Overwrite, Beside)],
        [(Overwrite, Beside), (Append, Beside)],
        [(Append, Beside), (Append, Inside)],
        [(Append, Inside), (Overwrite, Beside)],
        [(Append, Beside), (Overwrite, Inside)],
        [(OverwritePartitions, Beside), (OverwritePartitions, Beside)],
        [(OverwritePartitions, Beside), (Append, Inside)],
        [(Append, Beside), (OverwritePartitions, Beside)],
        [(OverwritePartitions, Beside), (Overwrite, Beside)],
        [(Overwrite, Inside), (OverwritePartitions, Beside)],
    ] {
        // Only who overwrites a directory beside it needs one.
        for has_exchange in [true, false].into_iter().filter(|has| *has || modes.contains(&(Overwrite, Beside))) {
            let before = with_set(has_exchange, true);
            let Read::Set(old) = before.read() else { panic!("there is no set") };
            let turns = (0..13).flat_map(|one| (0..13).map(move |two| (one, two)));
            let turns = turns.flat_map(|(one, two)| [0, 2, usize::MAX].map(|three| [one, two, three]));
            for turns in turns {
                let (model, writers, overlap) = interleaved(&before, modes, turns);
                let place = format!("{modes:?}, {turns:?}, exchange: {has_exchange}");
                let won: Vec<_> = writers.iter().filter(|writer| writer.end == Some(End::Done)).collect();
                let lost: Vec<_> = writers.iter().filter(|writer| writer.end != Some(End::Done)).collect();
                let refused = 2 - writers.len();
                assert!(won.len() + refused >= 1 && (!overlap || won.len() == 1), "{place}: {}", won.len());
                for writer in lost {
                    assert_eq!(writer.end, Some(End::Failed { committed: false, superseded: true }), "{place}");
                    superseded += 1;
                    let content = writer.run.as_str().as_bytes();
                    let target = model.target.as_ref().unwrap();
                    assert!(!target.files.values().any(|file| file == content), "{place}");
                }
                // What is there is as if one had come after the other.
                let Read::Set(runs) = model.read() else { panic!("{place}: no set is left") };
                let mut winners: Vec<_> = won.iter().map(|writer| (writer.mode, writer.run.to_string())).collect();
                let mut orders = vec![winners.clone()];
                winners.reverse();
                orders.push(winners);
                let outcome = |order: &Vec<(SaveMode, String)>| {
                    let mut runs = old.clone();
                    for (mode, run) in order {
                        if *mode == Overwrite {
                            runs.clear();
                        }
                        runs.push(run.clone());
                    }
                    runs
                };
                assert!(orders.iter().any(|order| outcome(order) == runs), "{place}: {runs:?}");
            }
        }
    }
    assert!(superseded > 1000, "{superseded}");
}

/// Where the file system has no locks, two that append may both think that they have; still there is no mixture.
#[test]
fn publication_without_locks_never_mixes_sets() {
    let before = Model { has_locks: false, ..with_set(true, true) };
    let modes = [(SaveMode::Append, Staging::Beside); 2];
    let mut one_wins = 0;
    for turns in (0..14).flat_map(|one| (0..14).map(move |two| [one, two, usize::MAX])) {
        let (model, writers, _) = interleaved(&before, modes, turns);
        let Read::Set(runs) = model.read() else { panic!("{turns:?}: no set is left") };
        assert!(writers.iter().any(|writer| writer.end == Some(End::Done) && runs.contains(&writer.run.to_string())));
        one_wins += usize::from(writers.iter().any(|writer| writer.end != Some(End::Done)));
    }
    assert!(one_wins > 20, "{one_wins}");
}
