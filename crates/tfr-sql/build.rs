//! Sets `TFR_SQL_COMMIT` and `TFR_SQL_COMMIT_DATE` to the commit that a release build is made from, where there is git.
//! Otherwise whoever builds may set them.
//!
//! A development build has no commit: it would be compiled again, with all of its tests, after each one. Only this package
//! and those above it depend on the commit, not the engine.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var("PROFILE").is_ok_and(|profile| profile == "release")
        && let Some(commit) = commit()
    {
        println!("cargo::rustc-env=TFR_SQL_COMMIT={commit}");
        if let Some(date) = git(&["log", "-1", "--format=%cs"]) {
            println!("cargo::rustc-env=TFR_SQL_COMMIT_DATE={date}");
        }
    }
}

/// Returns the commit that is checked out. `None` without git, or in the repository of another project.
fn commit() -> Option<String> {
    if git(&["rev-parse", "--show-prefix"])? != "crates/tfr-sql/" {
        return None;
    }
    // Which change with each commit. A file that does not exist would run this each time.
    for name in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", name])?;
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim_end().to_owned())
}
