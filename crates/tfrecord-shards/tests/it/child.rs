//! Tests that need a process of their own, to die in or to be limited: the test binary runs itself.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Output};

const OUT: &str = "TFRECORD_SHARDS_TEST_OUT";
const ARGUMENT: &str = "TFRECORD_SHARDS_TEST_ARGUMENT";

/// A test that runs only as somebody's child, by its path in this binary.
pub struct Child {
    test: &'static str,
    out: PathBuf,
    argument: String,
}

impl Child {
    pub fn new(test: &'static str, out: impl Into<PathBuf>, argument: impl Into<String>) -> Self {
        Self { test, out: out.into(), argument: argument.into() }
    }

    /// Runs the child to its end.
    pub fn run(&self) -> Output {
        self.run_as(Command::new(env::current_exe().unwrap()))
    }

    /// Runs the child in a shell that has run `setup` before. There `$OUT` is the target.
    pub fn run_in_shell(&self, setup: &str) -> Output {
        let mut shell = Command::new("sh");
        shell.args(["-ec", &format!("{setup}\nexec \"$0\" \"$@\"")]).arg(env::current_exe().unwrap());
        shell.env("OUT", &self.out);
        self.run_as(shell)
    }

    fn run_as(&self, mut command: Command) -> Output {
        command.args(["--exact", self.test, "--ignored", "--nocapture", "--test-threads=1"]);
        command.env(OUT, &self.out).env(ARGUMENT, &self.argument).output().unwrap()
    }
}

/// In the child: the target and the argument.
pub fn arguments() -> (PathBuf, String) {
    (PathBuf::from(env::var_os(OUT).unwrap()), env::var(ARGUMENT).unwrap())
}

/// What the child has said.
pub fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

pub fn assert_success(output: &Output) {
    assert!(output.status.success(), "{}: {}", output.status, said(output));
}
