//! Disks that are full, of bytes or of files, at every stage of a run.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use tfr_tests::run;

use super::outputs::{Ending, OUTPUTS, Tally, Trial};
use super::{is_long, wrap};

/// Mounts a small disk over the working directory, and copies there and back what is in it.
const SCRIPT: &str = r#"
    work=$1 options=$2 copy=$3
    shift 3
    mkdir "$copy" && cp -a "$work/." "$copy" || exit 99
    mount -t tmpfs -o "$options" tmpfs "$work" || exit 99
    cp -a "$copy/." "$work" || exit 98
    "$@"
    code=$?
    rm -r "$copy" && mkdir "$copy" && cp -a "$work/." "$copy" || exit 97
    exit $code
"#;

#[test]
fn full_disks() {
    let mut tally = Tally::default();
    for output in OUTPUTS {
        let trial = Trial::new(output);
        for options in sizes(&trial) {
            trial.reset();
            let (work, copy) = (trial.work(), trial.path("copy"));
            let mut private = Command::new("unshare");
            private.args(["--mount", "--map-root-user", "sh", "-c", SCRIPT, "sh"]).arg(&work).arg(&options).arg(&copy);
            let ended = run(wrap(&mut private, &trial.command()));
            if ended.code == Some(99) || ended.stderr.starts_with("unshare") {
                println!("skipped: no mount of our own: {}", ended.stderr.trim());
                return;
            }
            assert!(copy.exists(), "{options}: {ended:?}");
            fs::remove_dir_all(&work).unwrap();
            fs::rename(&copy, &work).unwrap();
            let succeeded = ended.code == Some(0);
            tally.count(if succeeded { "with room" } else { "without room" });
            let judged = trial.judge(&ended, Ending::Error, false).and_then(|()| trial.clear());
            if let Err(problem) = judged {
                tally.fault(&format!("{}, {options}: {problem}", output.name));
            } else if !succeeded && !ended.stderr.contains("No space left on device") {
                tally.fault(&format!("{}, {options}: {}", output.name, ended.stderr));
            }
        }
    }
    tally.finish("full disks");
}

/// Options of a mount with room for what is there and for some of what comes: in the data, in the last files, and for all.
fn sizes(trial: &Trial) -> Vec<String> {
    let (old, new) = (trial.old_pages(), trial.new_pages());
    let (old_files, new_files) = (trial.old_files(), trial.new_files());
    let (all_pages, all_files) = (2 * (old + new) + 64, 3 * (old_files + new_files) + 64);
    let (pages, files): (BTreeSet<_>, BTreeSet<_>) = match is_long() {
        true => ((1..=old + new + 8).collect(), (1..=new_files + old_files + 8).collect()),
        false => ([1, new / 2, new.saturating_sub(1).max(1), all_pages].into(), [1, 3, new_files].into()),
    };
    // A directory takes no page, but a file: the root of the disk, too.
    let by_pages = pages.into_iter().map(|pages| format!("size={},nr_inodes={all_files}", (old + pages) * 4096));
    let by_files =
        files.into_iter().map(|files| format!("size={},nr_inodes={}", (old + all_pages) * 4096, old_files + 1 + files));
    by_pages.chain(by_files).collect()
}
