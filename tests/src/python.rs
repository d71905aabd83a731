//! Interpreters with what reads shards, of exactly the versions in `tests/interop`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::programs::{repository, run_within};

/// Half a gigabyte comes over the network.
const INSTALLED_WITHIN: Duration = Duration::from_secs(900);

/// A virtual environment.
struct Environment {
    /// What it is for.
    name: &'static str,
    /// A file of `tests/interop`, and what is in it.
    requirements: (&'static str, &'static str),
    /// Programs that may be a Python which has all of that.
    interpreters: &'static [&'static str],
    /// The first and the last version of Python that has.
    versions: (u32, u32),
    /// What pip is told beside.
    arguments: &'static [&'static str],
}

const TENSORFLOW: Environment = Environment {
    name: "TensorFlow",
    requirements: ("requirements.txt", include_str!("../interop/requirements.txt")),
    interpreters: &["python3"],
    versions: (11, u32::MAX),
    arguments: &[],
};

const TFX: Environment = Environment {
    name: "TensorFlow Data Validation",
    requirements: ("requirements-tfx.txt", include_str!("../interop/requirements-tfx.txt")),
    interpreters: &["python3.11", "python3"],
    versions: (11, 11),
    arguments: &["--no-deps"],
};

const JUDGES: Environment = Environment {
    name: "PostgreSQL and DuckDB",
    requirements: ("requirements-judges.txt", include_str!("../interop/requirements-judges.txt")),
    interpreters: &["python3"],
    versions: (11, u32::MAX),
    arguments: &[],
};

/// Runs a script of `tests/interop` (or another path of the repository) with TensorFlow at hand.
///
/// The environment is made once, under `target/`, and shared by every test. Where that cannot be done (no python3, no
/// network) the reason is the error; see [`skip`].
///
/// # Errors
/// Why there is no such interpreter.
pub fn python(script: &str) -> Result<Command, String> {
    TENSORFLOW.command(script)
}

/// As [`python`], with TensorFlow Data Validation and tfx_bsl at hand, which need an older Python and TensorFlow.
///
/// # Errors
/// Why there is no such interpreter.
pub fn python_with_tfx(script: &str) -> Result<Command, String> {
    TFX.command(script)
}

/// As [`python`], with DuckDB and a PostgreSQL server at hand. An environment variable may name another interpreter that
/// has them.
///
/// # Errors
/// Why there is no such interpreter.
pub fn python_with_judges(script: &str, variable: &str) -> Result<Command, String> {
    let Some(interpreter) = std::env::var_os(variable) else { return JUDGES.command(script) };
    let mut command = Command::new(interpreter);
    command.arg(repository().join(script));
    Ok(command)
}

/// Says why a test does not run. Where `CI` is set nothing may be left out: the test fails.
#[track_caller]
pub fn skip(reason: &str) {
    assert!(
        std::env::var_os("CI").is_none_or(|value| value.is_empty()),
        "cannot be left out where CI is set: {reason}"
    );
    eprintln!("skipped: {reason}");
}

impl Environment {
    fn command(&self, script: &str) -> Result<Command, String> {
        let interpreter = self.interpreter().map_err(|reason| format!("no {} for {script}: {reason}", self.name))?;
        let mut command = Command::new(interpreter);
        command
            .arg(repository().join(script))
            .current_dir(repository())
            .env("TF_CPP_MIN_LOG_LEVEL", "3")
            .env("CUDA_VISIBLE_DEVICES", "")
            // What the tests import is compiled once, and nothing is written next to the scripts.
            .env_remove("PYTHONDONTWRITEBYTECODE")
            .env("PYTHONPYCACHEPREFIX", repository().join("target/interop/bytecode"));
        Ok(command)
    }

    /// That of the environment, which is made if need be.
    fn interpreter(&self) -> Result<PathBuf, String> {
        let directory = repository().join("target/interop");
        fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        // Another set of requirements is another environment. Any checksum tells them apart.
        let (_, requirements) = self.requirements;
        let name = format!("venv-{:08x}", tfrecord_framing::masked_crc32c(requirements.as_bytes()));
        let venv = directory.join(&name);
        let (interpreter, complete) = (venv.join("bin/python"), venv.join("complete"));

        let lock = File::create(directory.join(format!("{name}.lock"))).map_err(|error| error.to_string())?;
        lock.lock().map_err(|error| error.to_string())?;
        if !complete.exists() {
            self.install(&venv, &interpreter)?;
            fs::write(&complete, "").map_err(|error| error.to_string())?;
        }
        Ok(interpreter)
    }

    fn install(&self, venv: &Path, interpreter: &Path) -> Result<(), String> {
        let python = self.base()?;
        let (requirements, _) = self.requirements;
        eprintln!("installing {} into {}", self.name, venv.display());
        step(Command::new(python).args(["-m", "venv", "--clear"]).arg(venv))?;
        step(
            Command::new(interpreter)
                .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir"])
                // The tests import a fraction of the modules.
                .arg("--no-compile")
                .args(self.arguments)
                .arg("--requirement")
                .arg(repository().join("tests/interop").join(requirements)),
        )
    }

    /// A Python of a version that will do.
    fn base(&self) -> Result<&'static str, String> {
        let (first, last) = self.versions;
        let found: Vec<_> = self.interpreters.iter().map(|name| (*name, minor_version(name))).collect();
        let fits = |version: &Result<u32, String>| version.as_ref().is_ok_and(|minor| (first..=last).contains(minor));
        if let Some((name, _)) = found.iter().find(|(_, version)| fits(version)) {
            return Ok(name);
        }
        let shown = found.iter().map(|(name, version)| match version {
            Ok(minor) => format!("{name} is Python 3.{minor}"),
            Err(error) => format!("{name}: {error}"),
        });
        let wanted = if last == first { format!("3.{first}") } else { format!("3.{first} or newer") };
        Err(format!("it takes Python {wanted}; {}", shown.collect::<Vec<_>>().join(", ")))
    }
}

/// The `x` of the Python 3.x that a program is.
fn minor_version(program: &str) -> Result<u32, String> {
    // `run` fails the test when a program is missing, but this one may be.
    let output = Command::new(program)
        .args(["-c", "import sys; print(sys.version_info.minor)"])
        .output()
        .map_err(|error| error.to_string())?;
    String::from_utf8_lossy(&output.stdout).trim().parse().map_err(|_| "no Python runs".to_owned())
}

fn step(command: &mut Command) -> Result<(), String> {
    let finished = run_within(INSTALLED_WITHIN, command);
    match finished.code {
        Some(0) => Ok(()),
        _ => Err(format!("{command:?}: {}", finished.stderr.trim())),
    }
}
