//! The kinds of output that faults are tried on, and how what is left of one is judged.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tfr_tests::{Run, Scratch, run, tfr_sql};
use tfrecord_shards::{Leftover, MANIFEST_NAME, leftovers, remove_leftovers};

/// A kind of output. Commands are split at blanks and separated by semicolons. In them, `{work}` is an empty directory, `{in}`
/// a shard set and `{broken}` a damaged shard. `{old}` and `{new}` are queries of generated rows, `{days}` is one of rows of two
/// of the three days that `{old}` has, `{unfit}` has the rows of `{new}` and one with a null; `{old-file}` and `{two}` are
/// queries of the same rows in one file and in two files.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    pub name: &'static str,
    /// The target, below `{work}`; `{out}` in commands.
    pub out: &'static str,
    /// Writes what is there before, if anything is.
    pub before: &'static str,
    pub command: &'static str,
    /// Files are put in place one by one, each whole.
    pub file_by_file: bool,
    /// A table next to the target appears before it, and is taken back if that fails.
    pub beside: &'static str,
    /// Commands run in the target, which can then not be renamed.
    pub inside: bool,
}

const fn output(name: &'static str, out: &'static str, before: &'static str, command: &'static str) -> Output {
    Output { name, out, before, command, file_by_file: false, beside: "", inside: false }
}

const OLD_SET: &str = "{old} --out {out} --shards 3";

pub const OUTPUTS: [Output; 22] = [
    output("set", "a/b/c/set", "", "{new} --out {out} --shards 2"),
    output("overwritten set", "set", OLD_SET, "{new} --out {out} --shards 2 --mode overwrite"),
    output("appended set", "set", OLD_SET, "{new} --out {out} --shards 2 --mode append"),
    output(
        "partitions",
        "set",
        "{old} --out {out} --partition-by day",
        "{new} --out {out} --partition-by day --mode overwrite",
    ),
    output(
        "appended partitions",
        "set",
        "{old} --out {out} --partition-by day",
        "{new} --out {out} --partition-by day --mode append",
    ),
    output(
        "replaced partitions",
        "set",
        "{old} --out {out} --partition-by day --emit stats,index",
        "{days} --out {out} --partition-by day --emit index --mode overwrite-partitions",
    ),
    output("splits", "a/b/c/set", "", "{new} --out {out} --split train=0.8,val=0.2 --shards train=2,val=1"),
    output("shuffled set", "set", OLD_SET, "{new} --out {out} --shards 2 --shuffle --seed 3 --mode overwrite"),
    output(
        "set with sidecars",
        "set",
        "{old} --out {out} --shards 2 --emit tfds,tfmd,parse-fn,stats,index",
        "{new} --out {out} --shards 2 --emit tfds,tfmd,parse-fn,stats,index --mode overwrite",
    ),
    output(
        "appended to sidecars",
        "set",
        "{old} --out {out} --shards 2 --emit stats,index",
        "{new} --out {out} --shards 2 --emit index --mode append",
    ),
    Output {
        beside: "bad",
        ..output(
            "set and rejected rows",
            "set",
            "",
            "{unfit} --out {out} --null error --rejects {work}/bad --max-rejects 1 --mode overwrite",
        )
    },
    Output {
        beside: "bad",
        ..output(
            "overwritten set and rejected rows",
            "set",
            "{old} --out {out} --rejects {work}/bad",
            "{unfit} --out {out} --null error --rejects {work}/bad --max-rejects 1 --mode overwrite",
        )
    },
    output("Parquet", "a/b/c/x.parquet", "", "{new} --out {out}"),
    output("overwritten CSV", "x.csv.gz", "{old} --out {out}", "{new} --out {out} --mode overwrite"),
    output("overwritten Arrow", "x.arrow", "{old} --out {out}", "{new} --out {out} --mode overwrite"),
    output("table directory", "a/b/c/x.arrow/", "", "{new} --out {out} --threads 2"),
    output(
        "overwritten table directory",
        "x.parquet/",
        "{old} --out {out} --threads 3",
        "{new} --out {out} --threads 2 --mode overwrite",
    ),
    output("reshard", "set", OLD_SET, "reshard {in} --out {out} --shards 3 --mode overwrite"),
    output("salvage", "a/b/c/set", "", "salvage {broken} --out {out}"),
    Output {
        file_by_file: true,
        ..output("describe", "set", OLD_SET, "describe {out} --emit tfds,tfmd,parse-fn,stats,index")
    },
    Output {
        file_by_file: true,
        ..output("describe elsewhere", "a/b/c/described", "", "describe {in} --out {out} --emit tfmd,parse-fn,stats")
    },
    Output { file_by_file: true, ..output("index", "set", "{old} --out {out} --partition-by day", "index {out}") },
];

/// How many runs there were of each kind, and what was wrong after them.
#[derive(Default)]
pub struct Tally {
    runs: BTreeMap<String, usize>,
    faults: usize,
}

impl Tally {
    pub fn count(&mut self, kind: impl Into<String>) {
        *self.runs.entry(kind.into()).or_default() += 1;
    }

    pub fn fault(&mut self, problem: &str) {
        self.faults += 1;
        println!("fault: {problem}\n");
    }

    /// The end of the test: it fails if there was a fault.
    #[track_caller]
    pub fn finish(self, what: &str) {
        println!("{what}: {} runs, {} faults: {:?}", self.runs.values().sum::<usize>(), self.faults, self.runs);
        assert_eq!(self.faults, 0, "faults, each printed above");
    }
}

/// What a directory holds: files with their content, directories with a slash behind their name.
pub type Content = BTreeMap<String, Vec<u8>>;

/// How a run ended that met a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Error,
    Kill,
}

/// An output with its old and its new content, where runs can be tried.
pub struct Trial {
    pub output: Output,
    scratch: Scratch,
    before: Content,
    /// The content of the target that there may be before and after.
    old: Content,
    new: Content,
}

impl Trial {
    pub fn new(output: Output) -> Self {
        let mut trial = Self::in_state(output, output.before);
        run(&mut trial.command()).success();
        trial.new = trial.target();
        trial.check_rows();
        // The bytes do not depend on chance.
        trial.reset();
        run(&mut trial.command()).success();
        assert_eq!(trial.difference(&trial.new), None, "{}", output.name);
        trial
    }

    /// With what a command writes before.
    pub fn in_state(output: Output, before: &str) -> Self {
        let nothing = Content::new;
        let mut trial = Self { output, scratch: Scratch::default(), before: nothing(), old: nothing(), new: nothing() };
        for directory in ["work", "tmp", "two"] {
            fs::create_dir(trial.path(directory)).unwrap();
        }
        for (name, values) in [("old", 1..=1_500), ("two/a", 2_001..=3_500), ("two/b", 3_501..=5_000)] {
            let rows = values.map(|value| format!("{value},d{}\n", value % 3)).collect::<String>();
            fs::write(trial.path(&format!("{name}.csv")), format!("value,day\n{rows}")).unwrap();
        }
        run(&mut trial.tfr_sql("{query-in} --out {in} --shards 2")).success();
        let mut shard = fs::read(tfr_tests::shard_files(&trial.path("in")).remove(0)).unwrap();
        shard[40] ^= 1;
        fs::write(trial.path("broken.tfrecord"), shard).unwrap();
        if !before.is_empty() {
            for (index, line) in before.split(" ; ").enumerate() {
                let mut command = trial.tfr_sql(line);
                if output.inside && index > 0 {
                    command.current_dir(trial.out());
                }
                run(&mut command).success();
            }
            trial.before = content(&trial.work());
        }
        trial.old = trial.target();
        trial
    }

    /// The new content holds the rows of the query, as the command reads it.
    fn check_rows(&self) {
        // What tells of records elsewhere has none.
        if self.output.command.starts_with("describe {in}") {
            return assert!(self.new.len() > 3, "{:?}", self.new.keys());
        }
        let query = format!("SELECT count(*), sum(value), count(DISTINCT value) FROM '{}'", self.out().display());
        let read = run(tfr_sql().args([&query, "--quiet", "--format", "csv"])).success();
        let command = self.output.command.to_owned();
        let (old, new) = (1..=1_500, 2_001..=5_000);
        let expected: Vec<u64> = match &command {
            _ if command.contains("{days}") => old.filter(|value| value % 3 == 0).chain(new).collect(),
            _ if (command.clone() + self.output.before).contains("append") => old.chain(new).collect(),
            _ if command.starts_with("finish") => new.collect(),
            _ if command.contains("{new}") || command.contains("{unfit}") => new.collect(),
            _ if command.contains("{in}") => (1..=1_000).collect(),
            _ if command.contains("{broken}") => {
                return assert!(read.stdout.ends_with("\n500,249434,500\n"), "{}", read.stdout);
            }
            _ => old.collect(),
        };
        let line = format!("\n{},{},{}\n", expected.len(), expected.iter().sum::<u64>(), expected.len());
        assert!(read.stdout.ends_with(&line), "{}: {}", self.output.name, read.stdout);
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.join(name)
    }

    pub fn work(&self) -> PathBuf {
        self.scratch.join("work")
    }

    pub fn out(&self) -> PathBuf {
        self.work().join(self.output.out.trim_end_matches('/'))
    }

    /// The run that is tried.
    pub fn command(&self) -> Command {
        self.tfr_sql(self.output.command)
    }

    pub fn tfr_sql(&self, line: &str) -> Command {
        let query = |first: u32, last: u32| {
            format!("SELECT value, concat('d', value % 3) AS day FROM generate_series({first}, {last})")
        };
        let mut command = tfr_sql();
        // The temporary files of runs that are killed are not judged.
        command.env("TMPDIR", self.path("tmp"));
        command.args(line.split(' ').map(|word| match word {
            "{old}" => query(1, 1_500),
            "{new}" => query(2_001, 5_000),
            "{other}" => query(6_001, 8_000),
            "{unfit}" => query(2_001, 5_001).replace("SELECT value", "SELECT nullif(value, 5001) AS value"),
            "{days}" => query(2_001, 5_000).replace("value % 3", "value % 2 + 1"),
            "{old-file}" => format!("SELECT value, day FROM '{}'", self.path("old.csv").display()),
            "{two}" => format!("SELECT value, day FROM '{}'", self.path("two").display()),
            "{query-in}" => query(1, 1_000),
            "{in}" => self.path("in").display().to_string(),
            "{broken}" => self.path("broken.tfrecord").display().to_string(),
            "{out}" => self.work().join(self.output.out).display().to_string(),
            word => word.replace("{work}", &self.work().display().to_string()),
        }));
        if !line.contains("--threads") && !line.starts_with("describe") {
            command.args(["--threads", "1"]);
        }
        command
    }

    /// Makes the state that runs begin in.
    pub fn reset(&self) {
        let work = self.work();
        for entry in fs::read_dir(&work).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
        }
        for (name, bytes) in &self.before {
            let path = work.join(name);
            if name.ends_with('/') { fs::create_dir(path) } else { fs::write(path, bytes) }.unwrap();
        }
    }

    /// The targets of a run.
    fn targets(&self) -> impl Iterator<Item = PathBuf> {
        let beside = (!self.output.beside.is_empty()).then(|| self.work().join(self.output.beside));
        std::iter::once(self.out()).chain(beside)
    }

    /// What killed runs have left.
    fn left(&self) -> Vec<Leftover> {
        self.targets().flat_map(|target| leftovers(target).unwrap()).collect()
    }

    /// What the target holds, without what killed runs have left there, and with nothing in it that differs between runs.
    fn target(&self) -> Content {
        let left: Vec<_> = self.left().into_iter().map(|leftover| leftover.path).collect();
        let work = self.work();
        let is_left = |name: &str| left.iter().any(|left| work.join(name).starts_with(left));
        let mut content = content(&work);
        content.retain(|name, _| !is_left(name) && !name.ends_with('/') && !name.ends_with(".tfrplan"));
        content.into_iter().map(|(name, bytes)| (without_runs(&name), plain(&name, bytes))).collect()
    }

    /// How the content of the target differs from another.
    fn difference(&self, expected: &Content) -> Option<String> {
        let found = self.target();
        let names = |content: &Content| content.keys().cloned().collect::<Vec<_>>();
        match found {
            _ if found == *expected => None,
            _ if names(&found) != names(expected) => Some(format!("{:?}", names(&found))),
            _ => Some(
                found
                    .iter()
                    .filter(|(name, bytes)| expected[*name] != **bytes)
                    .map(|(name, _)| name.clone() + " ")
                    .collect(),
            ),
        }
    }

    /// Whether the target holds the new content.
    pub fn is_new(&self) -> bool {
        self.difference(&self.new).is_none()
    }

    /// Whether the target holds the new content, and perhaps files of the old one that could not be removed.
    pub fn is_new_with_rest(&self) -> bool {
        let mut found = self.target();
        found.retain(|name, _| self.new.contains_key(name) || !self.old.contains_key(name));
        found == self.new
    }

    /// Whether the target is as it was before.
    pub fn is_old(&self) -> bool {
        self.difference(&self.old).is_none()
    }

    /// What is in the working directory.
    pub fn listing(&self) -> Vec<String> {
        self.scratch.listing()
    }

    /// `abandon`, which takes no options.
    pub fn abandon(&self, plan: &Path) -> Command {
        let mut command = tfr_sql();
        command.arg("abandon").arg(plan);
        command
    }

    /// What is wrong with the state that a run has left, if anything is. Where it was not let remove what it had staged, that
    /// may be there.
    pub fn judge(&self, ended: &Run, ending: Ending, removes: bool) -> Result<(), String> {
        let Run { code, stderr, .. } = ended;
        let shown =
            |problem: String| Err(format!("{problem}\nexit code {code:?}, {:?}\n{stderr}", self.scratch.listing()));
        let is_old = self.difference(&self.old);
        let mut is_new = self.difference(&self.new);
        // A sidecar of the old set that could not be removed, which a warning says.
        if removes && stderr.contains("cannot remove") && self.is_new_with_rest() {
            is_new = None;
        }
        let is_between = !self.output.beside.is_empty() && ending == Ending::Kill;
        let is_whole =
            is_old.is_none() || is_new.is_none() || (self.output.file_by_file || is_between) && self.is_some_of_both();
        if !is_whole {
            return shown(format!("neither old nor new: {}", is_old.unwrap_or_default()));
        }
        if stderr.contains("panicked") || stderr.contains("internal error") {
            return shown("a panic".to_owned());
        }
        match (ending, code) {
            (_, Some(0)) if is_new.is_some() => {
                return shown(format!("success without it: {}", is_new.unwrap_or_default()));
            }
            (_, Some(0)) | (Ending::Kill, None) => {}
            (_, Some(1 | 2)) if is_old.is_none() || self.output.file_by_file => {}
            // A job system would repeat it.
            (_, Some(1 | 2)) => return shown("it is there, and the exit code does not say so".to_owned()),
            _ => return shown("an exit code that is not documented".to_owned()),
        }
        if ending == Ending::Error && code != &Some(0) && is_old.is_none() {
            let empty: Vec<_> =
                content(&self.work()).into_keys().filter(|name| !self.before.contains_key(name)).collect();
            let left = self.left();
            if !empty.is_empty() && (left.is_empty() || !removes) {
                return shown(format!("left behind: {empty:?}"));
            }
        }
        Ok(())
    }

    /// Whether every file is that of the old or the new content.
    fn is_some_of_both(&self) -> bool {
        let found = self.target();
        let has_all = self.old.keys().all(|name| found.contains_key(name));
        has_all
            && found
                .iter()
                .all(|(name, bytes)| [&self.old, &self.new].iter().any(|content| content.get(name) == Some(bytes)))
    }

    /// Removes what is left, which must leave nothing but the content, as it was.
    pub fn clear(&self) -> Result<(), String> {
        let target = self.target();
        let found = self.left();
        if let Some(live) = found.iter().find(|leftover| leftover.live) {
            return Err(format!("taken for alive: {}", live.path.display()));
        }
        for target in self.targets() {
            remove_leftovers(target).map_err(|error| error.to_string())?;
        }
        if self.target() != target {
            return Err("removing leftovers changes the content".to_owned());
        }
        self.is_clear()
    }

    /// Whether there is nothing of runs beside and in the target.
    fn is_clear(&self) -> Result<(), String> {
        let names = content(&self.work()).into_keys();
        let hidden: Vec<_> = names.filter(|name| name.starts_with('.') || name.contains("/.")).collect();
        if hidden.is_empty() { Ok(()) } else { Err(format!("left behind, and not removed: {hidden:?}")) }
    }

    /// The same run succeeds after a kill, and removes what is left or names it.
    pub fn once_more(&self) -> Result<(), String> {
        // What was done by then is not done twice: rows would be appended again.
        if self.difference(&self.new).is_none() {
            return Ok(());
        }
        let again = run(&mut self.command());
        let shown = |problem| Err(format!("once more: {problem}\n{}\n{:?}", again.stderr, self.scratch.listing()));
        if again.code != Some(0) {
            return shown(format!("exit code {:?}", again.code));
        }
        if let Some(difference) = self.difference(&self.new) {
            return shown(difference);
        }
        let left = self.left();
        match left.iter().find(|left| !again.stderr.contains(&left.path.display().to_string())) {
            Some(left) => shown(format!("not named: {}", left.path.display())),
            None if !left.is_empty() && self.output.command.contains("overwrite") => shown("not removed".to_owned()),
            None => Ok(()),
        }
    }

    pub fn old_pages(&self) -> u64 {
        pages(&self.before)
    }

    pub fn new_pages(&self) -> u64 {
        pages(&self.new)
    }

    pub fn old_files(&self) -> u64 {
        self.before.len() as u64
    }

    pub fn new_files(&self) -> u64 {
        self.new.len() as u64
    }
}

fn pages(content: &Content) -> u64 {
    content.values().map(|bytes| (bytes.len() as u64).div_ceil(4096)).sum()
}

/// Files and directories, at any depth, by their path from `root`.
pub fn content(root: &Path) -> Content {
    fn add(root: &Path, directory: &Path, found: &mut Content) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                found.insert(name + "/", Vec::new());
                add(root, &path, found);
            } else {
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    let mut found = Content::new();
    add(root, root, &mut found);
    found
}

/// A text without the ids of runs, which are 32 hexadecimal digits.
fn without_runs(text: &str) -> String {
    let mut left = String::new();
    let mut word = String::new();
    for next in text.chars().chain(['\0']) {
        if next.is_ascii_hexdigit() {
            word.push(next);
            continue;
        }
        left.push_str(if word.len() == 32 { "RUN" } else { &word });
        word.clear();
        left.extend((next != '\0').then_some(next));
    }
    left
}

/// Of a manifest what does not differ between runs.
fn plain(name: &str, bytes: Vec<u8>) -> Vec<u8> {
    if !name.ends_with(MANIFEST_NAME) {
        return bytes;
    }
    let manifest: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    without_runs(&format!("{} {} {}", manifest["shards"], manifest["totals"], manifest["sidecars"])).into_bytes()
}
