//! A directory that a run may open, one that it may not, and links between them.

use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use tfr_sql::{ExitStatus, Interrupt};

use super::super::library::Collected;

/// In every file and every name that must not come out.
pub const SECRET: &str = "topsecret";

/// `in/` and `tmp/` are allowed, `secret/` is not.
pub struct World {
    _dir: TempDir,
    root: PathBuf,
    /// A descriptor that this process happens to have.
    open: File,
    before: Vec<String>,
}

impl World {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for name in ["in/dt=1", "in/mixed", "in/parts", "in/broken", "tmp", "secret/empty"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        let text = format!("id,word\n1,{SECRET}\n");
        for name in ["secret/s.csv", "secret/s2.csv"] {
            fs::write(root.join(name), &text).unwrap();
        }
        fs::write(root.join("secret/map.toml"), format!("[columns.id]\nvocabulary = [\"{SECRET}\"]\n")).unwrap();
        fs::write(root.join("secret/query.sql"), format!("SELECT '{SECRET}' AS word")).unwrap();
        fs::write(root.join("secret/schema.pbtxt"), format!("feature {{ name: \"{SECRET}\" type: INT }}")).unwrap();
        for name in ["in/a.csv", "in/dt=1/b.csv", "in/mixed/ok.csv"] {
            fs::write(root.join(name), "id,word\n1,open\n").unwrap();
        }
        let open = File::open(root.join("secret/s.csv")).unwrap();
        let world = Self { _dir: dir, root, open, before: Vec::new() };
        world.write_set("secret/set", SECRET);
        world.write_set("in/set", "open");
        world.write_set("in/evil", "open");
        world.write_set("in/other", "open");
        world.link();
        let before = world.outside();
        Self { before, ..world }
    }

    fn write_set(&self, name: &str, word: &str) {
        let query = format!("SELECT '{word}' AS word, 1 AS dt");
        let out = self.path(name);
        let (status, shown) = run(&[&query, "--out", &out, "--partition-by", "dt"]);
        assert_eq!(status, ExitStatus::Done, "{shown}");
    }

    fn link(&self) {
        let fd = format!("/proc/self/fd/{}", self.open.as_raw_fd());
        let links = [
            ("in/link.csv", "../secret/s.csv".to_owned()),
            ("in/absolute.csv", self.path("secret/s.csv")),
            ("in/chain.csv", "chain2.csv".to_owned()),
            ("in/chain2.csv", "mixed/../../secret/s.csv".to_owned()),
            ("in/dir", "../secret".to_owned()),
            ("in/up", "..".to_owned()),
            ("in/root", "/proc/self/root".to_owned()),
            ("in/slash", "/".to_owned()),
            ("in/fd.csv", fd),
            ("in/loop", "loop".to_owned()),
            ("in/parts/dt=9", "../../secret".to_owned()),
            ("in/mixed/x.csv", "../../secret/s.csv".to_owned()),
            ("in/new", "../secret/made".to_owned()),
            ("in/new.csv", "../secret/made.csv".to_owned()),
            ("in/broken/_manifest.json", "../../secret/set/_manifest.json".to_owned()),
            ("in/broken/_SUCCESS", "../../secret/set/_SUCCESS".to_owned()),
            ("in/broken/dt=1", "../../secret/set/dt=1".to_owned()),
            ("in/other/schema.pbtxt", "../../secret/schema.pbtxt".to_owned()),
        ];
        for (name, target) in links {
            symlink(target, self.root.join(name)).unwrap();
        }
        // A set whose shard is elsewhere now.
        fs::rename(self.root.join("in/evil/dt=1"), self.root.join("secret/dt=1")).unwrap();
        symlink("../../secret/dt=1", self.root.join("in/evil/dt=1")).unwrap();
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn path(&self, name: &str) -> String {
        self.root.join(name).to_str().unwrap().to_owned()
    }

    /// The number of a descriptor of a file outside.
    pub fn descriptor(&self) -> i32 {
        self.open.as_raw_fd()
    }

    /// The names and the content of all that is not allowed.
    fn outside(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut directories = vec![self.root.join("secret")];
        for entry in fs::read_dir(&self.root).unwrap() {
            found.push(entry.unwrap().path().display().to_string());
        }
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(&directory).unwrap() {
                let path = entry.unwrap().path();
                let content = fs::read(&path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
                found.push(format!("{}: {}", path.display(), content.unwrap_or_default()));
                if path.is_dir() {
                    directories.push(path);
                }
            }
        }
        found.sort();
        found
    }

    /// Says how a way out succeeded, if it did.
    pub fn success(&self, case: &[String], status: ExitStatus, shown: &str) -> Option<String> {
        let outside = self.outside();
        match () {
            () if status == ExitStatus::Done => Some(format!("{case:?} is done: {shown}")),
            () if shown.contains(SECRET) => Some(format!("{case:?} shows a secret: {shown}")),
            () if outside != self.before => Some(format!("{case:?} wrote outside: {shown}\n{outside:#?}")),
            () => None,
        }
    }

    /// The arguments that allow `in/` and `tmp/`.
    pub fn allow(&self) -> [String; 4] {
        ["--allow".to_owned(), self.path("in"), "--allow".to_owned(), self.path("tmp")]
    }
}

/// Runs the command in this process. Returns the exit status, and all that it has said.
pub fn run(arguments: &[&str]) -> (ExitStatus, String) {
    let listener = Arc::new(Collected::default());
    let arguments = ["tfr-sql"].iter().chain(arguments).map(Into::into);
    let status = tfr_sql::run(arguments, || Ok(Interrupt::default()), Arc::clone(&listener) as _);
    let shown = listener.events().into_iter().filter(|event| !event.starts_with("progress: "));
    let shown = format!("{}{}", listener.text(), shown.collect::<Vec<_>>().join("\n"));
    (status, shown)
}
