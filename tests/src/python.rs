//! An interpreter with TensorFlow and pyarrow, of exactly the versions in `tests/interop/requirements.txt`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::programs::{repository, run_within};

const REQUIREMENTS: &str = include_str!("../interop/requirements.txt");

/// Half a gigabyte comes over the network.
const INSTALLED_WITHIN: Duration = Duration::from_secs(900);

/// Runs a script of `tests/interop` (or another path of the repository) with TensorFlow at hand.
///
/// The environment is made once, under `target/`, and shared by every test. Where that cannot be done (no python3, no
/// network) the reason is the error; see [`skip`].
///
/// # Errors
/// Why there is no such interpreter.
pub fn python(script: &str) -> Result<Command, String> {
    let interpreter = environment()?;
    let mut command = Command::new(interpreter);
    command
        .arg(repository().join(script))
        .current_dir(repository())
        .env("TF_CPP_MIN_LOG_LEVEL", "3")
        .env("CUDA_VISIBLE_DEVICES", "")
        .env("PYTHONDONTWRITEBYTECODE", "1");
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

fn environment() -> Result<PathBuf, String> {
    let directory = repository().join("target/interop");
    fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    // Another set of requirements is another environment. Any checksum tells them apart.
    let name = format!("venv-{:08x}", tfrecord_framing::masked_crc32c(REQUIREMENTS.as_bytes()));
    let venv = directory.join(&name);
    let (interpreter, complete) = (venv.join("bin/python"), venv.join("complete"));

    let lock = File::create(directory.join(format!("{name}.lock"))).map_err(|error| error.to_string())?;
    lock.lock().map_err(|error| error.to_string())?;
    if !complete.exists() {
        install(&venv, &interpreter)?;
        fs::write(&complete, "").map_err(|error| error.to_string())?;
    }
    Ok(interpreter)
}

fn install(venv: &Path, interpreter: &Path) -> Result<(), String> {
    let python3 = || Command::new("python3");
    // `run` fails the test when a program is missing, but this one may be.
    python3().arg("--version").output().map_err(|error| format!("python3: {error}"))?;
    step(python3().args(["-c", "import sys; sys.exit(sys.version_info < (3, 11) and 'python3 is older than 3.11')"]))?;
    eprintln!("installing TensorFlow into {}", venv.display());
    step(python3().args(["-m", "venv", "--clear"]).arg(venv))?;
    step(
        Command::new(interpreter)
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"])
            .arg(repository().join("tests/interop/requirements.txt")),
    )
}

fn step(command: &mut Command) -> Result<(), String> {
    let finished = run_within(INSTALLED_WITHIN, command);
    match finished.code {
        Some(0) => Ok(()),
        _ => Err(format!("{command:?}: {}", finished.stderr.trim())),
    }
}
