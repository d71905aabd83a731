//! The programs under test, as the build left them beside the test executable.

use std::fs;
use std::io::{Read, Seek};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// No run of a test takes longer than this, on a slow machine and a build without optimisation.
const DEADLINE: Duration = Duration::from_secs(300);

/// The repository's root.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is a folder of the repository")
}

/// `tfr-sql`, as built from the sources that are there now. Runs in the repository's root.
pub fn tfr_sql() -> Command {
    program("tfr-sql")
}

/// An example program of `examples/`. Runs in the repository's root.
pub fn example(name: &str) -> Command {
    program(&format!("examples/{name}"))
}

fn program(name: &str) -> Command {
    let tests = std::env::current_exe().expect("a test has a path");
    // target/<profile>/deps/<test> stands beside target/<profile>/<program>
    let path = tests.ancestors().nth(2).expect("a test lies in target/<profile>/deps").join(name);
    if let Err(reason) = is_current(&path) {
        panic!("{}: {reason}\n\nhint: tests/run builds every program before it tests", path.display());
    }
    let mut command = Command::new(path);
    command.current_dir(repository()).stdin(Stdio::null());
    command
}

/// Whether a program is newer than every source it was built from, by the list that cargo leaves beside it.
fn is_current(program: &Path) -> Result<(), String> {
    let modified = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    let built = modified(program).ok_or("not built")?;
    let list =
        fs::read_to_string(program.with_extension("d")).map_err(|error| format!("no list of sources: {error}"))?;
    let (_, sources) = list.split_once(": ").ok_or("an empty list of sources")?;
    let sources = sources.trim().replace("\\ ", "\0"); // a space inside a path
    let mut sources = sources.split(' ').map(|source| source.replace('\0', " "));
    match sources.find(|source| modified(Path::new(source)).is_none_or(|changed| changed > built)) {
        Some(source) => Err(format!("older than {source}")),
        None => Ok(()),
    }
}

/// A finished run.
#[derive(Debug)]
pub struct Run {
    /// The exit code; nothing when a signal ended the process.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Run {
    /// The run, if it succeeded; else the test ends with what it said.
    #[track_caller]
    pub fn success(self) -> Self {
        self.exits_with(0)
    }

    /// The run, if it ended with this code; else the test ends with what it said.
    #[track_caller]
    pub fn exits_with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "exit code\nstdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }
}

/// Runs a command to its end. One that does not end is killed, and the test fails.
pub fn run(command: &mut Command) -> Run {
    run_within(DEADLINE, command)
}

pub(crate) fn run_within(deadline: Duration, command: &mut Command) -> Run {
    // Files, not pipes: nothing has to be read while the process runs.
    let (mut stdout, mut stderr) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    command.stdout(stdout.try_clone().unwrap()).stderr(stderr.try_clone().unwrap());
    let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let code = wait(child, deadline);
    let text = |file: &mut fs::File| {
        let mut bytes = Vec::new();
        file.rewind().and_then(|()| file.read_to_end(&mut bytes)).expect("a temporary file can be read");
        String::from_utf8_lossy(&bytes).into_owned()
    };
    Run { code, stdout: text(&mut stdout), stderr: text(&mut stderr) }
}

/// Waits for a process and gives its exit code. One that does not end is killed, and the test fails.
pub fn finish(child: Child) -> Option<i32> {
    wait(child, DEADLINE)
}

fn wait(mut child: Child, deadline: Duration) -> Option<i32> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            return status.code();
        }
        if started.elapsed() > deadline {
            child.kill().expect("a child can be killed");
            panic!("still running after {deadline:?}");
        }
        thread::sleep(Duration::from_millis(2));
    }
}
