//! Damaged files that other systems wrote, and some of our own: what `verify` finds, and what `salvage` brings back.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use tfr_tests::{Corpus, Entry, Scratch, payloads, repository, run, shard_files, tfr_sql};
use tfrecord_framing::{Compression, FOOTER_LEN, HEADER_LEN, masked_crc32c};
use tfrecord_shards::{Finding, FindingKind, Progress, RewriteOptions, salvage, verify};

use crate::round_trip::report;
use crate::session;

/// The TFRecord files of the corpus.
fn entries(corpus: &Corpus) -> Vec<Entry> {
    let mut entries = corpus.entries(&["tfrecord", "tfds"]);
    entries.retain(|entry| entry.kind == "tfrecord" || entry.path.contains(".tfrecord"));
    assert!(entries.len() >= 57, "{}", entries.len());
    entries
}

/// Whether the frames of a file are damaged, and not only what is in them.
fn is_damaged(entry: &Entry) -> bool {
    entry.expect == "error" && !entry.note.contains("frames and checksums are sound")
}

/// The sound records of an uncompressed file and the stretches between them, by trying every byte.
fn by_hand(file: &[u8]) -> (Vec<Vec<u8>>, Vec<Range<u64>>) {
    let crc = |bytes: &[u8], stored: &[u8]| masked_crc32c(bytes).to_le_bytes() == *stored;
    let header = |at: usize| {
        let head = file.get(at..at + HEADER_LEN)?;
        let length = u64::from_le_bytes(*head.first_chunk()?);
        crc(&head[..8], &head[8..]).then(|| usize::try_from(length).ok()).flatten()
    };
    let record = |at: usize| {
        let start = at + HEADER_LEN;
        let end = start.checked_add(header(at)?)?;
        let payload = file.get(start..end)?;
        crc(payload, file.get(end..end + FOOTER_LEN)?).then(|| payload.to_vec())
    };
    let (mut records, mut lost) = (Vec::new(), Vec::<Range<u64>>::new());
    let mut at = 0;
    while at < file.len() {
        match record(at) {
            Some(payload) => {
                at += payload.len() + HEADER_LEN + FOOTER_LEN;
                records.push(payload);
            }
            None => {
                match lost.last_mut().filter(|last| last.end == at as u64) {
                    Some(last) => last.end += 1,
                    None => lost.push(at as u64..at as u64 + 1),
                }
                at += 1;
            }
        }
    }
    (records, lost)
}

/// What `verify` and `salvage` get wrong about a file.
fn check(path: &Path, damaged: bool, rows: Option<u64>) -> Vec<String> {
    let mut wrong = Vec::new();
    let inputs = [path.to_owned()];
    let found = match verify(&inputs, &Progress::default()) {
        Ok(found) => found,
        Err(error) => return vec![format!("verify: {error}")],
    };
    let ranges = |findings: &[Finding]| -> Vec<Range<u64>> {
        let damage = findings.iter().filter_map(|finding| match &finding.kind {
            FindingKind::Damage(damage) => Some(damage.range.clone()),
            _ => None,
        });
        damage.collect()
    };
    if ranges(&found.findings).is_empty() == damaged {
        wrong.push(format!("verify: {:?}", found.findings));
    }

    let scratch = Scratch::default();
    let out = scratch.join("saved");
    let saved = match salvage(&inputs, &out, &RewriteOptions::default(), &Progress::default()) {
        Ok(saved) => saved,
        Err(error) => {
            let is_right = found.records == 0 && rows == Some(0) && error.to_string().ends_with("no intact record");
            wrong.extend((!is_right || out.exists()).then(|| format!("salvage: {error}")));
            return wrong;
        }
    };
    let records: Vec<_> = shard_files(&out).iter().flat_map(|shard| payloads(shard)).collect();
    let bytes = fs::read(path).unwrap();
    let is_plain = matches!(Compression::detect(&bytes), None | Some(Compression::None));
    if is_plain {
        let (expected, lost) = by_hand(&bytes);
        if records != expected {
            wrong.push(format!("salvage: {} records instead of {}", records.len(), expected.len()));
        }
        for (who, findings) in [("verify", &found.findings), ("salvage", &saved.findings)] {
            if ranges(findings) != lost {
                wrong.push(format!("{who}: lost {:?} instead of {lost:?}", ranges(findings)));
            }
        }
    }
    // Of a damaged gzip file the corpus counts what another reader has delivered.
    let is_right = |rows: u64| if damaged { records.len() as u64 >= rows } else { records.len() as u64 == rows };
    if !rows.is_none_or(is_right) {
        wrong.push(format!("salvage: {} records instead of {rows:?}", records.len()));
    }
    if found.records != records.len() as u64 || saved.manifest.totals.rows != records.len() as u64 {
        wrong.push(format!("{} and {} records counted", found.records, saved.manifest.totals.rows));
    }
    wrong
}

#[test]
fn salvage_keeps_sound_records_of_the_corpus() {
    let Some(corpus) = Corpus::find() else { return };
    let check = |entry: Entry| {
        let wrong = check(&corpus.join(&entry.path), is_damaged(&entry), entry.rows);
        (entry.path, wrong)
    };
    report(entries(&corpus).into_iter().map(check).collect());
}

/// Sound files of other writers: nothing is found, and every record moves.
#[test]
fn salvage_keeps_every_record_of_golden_files() {
    let golden = repository().join("../shared/golden");
    let mut wrong = BTreeMap::new();
    for writer in ["tf", "tfx_bsl", "spark"] {
        let Ok(files) = fs::read_dir(golden.join(writer)) else {
            eprintln!("skipped: {} is not there", golden.display());
            return;
        };
        let files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
        for file in files.iter().filter(|file| file.to_string_lossy().contains(".tfrecord")) {
            wrong.insert(file.display().to_string(), check(file, false, Some(payloads(file).len() as u64)));
        }
    }
    assert_eq!(wrong.len(), 69);
    report(wrong);
}

/// Damaged files, and those whose records are no Examples, are refused by a query, with the record and its byte.
#[tokio::test]
async fn queries_refuse_damaged_files() {
    let Some(corpus) = Corpus::find() else { return };
    let context = session::of_command(2);
    let mut wrong = BTreeMap::new();
    for entry in entries(&corpus).into_iter().filter(|entry| entry.expect == "error") {
        let path = corpus.join(&entry.path);
        let table = format!("t=\"{}\",format=tfrecord", path.display());
        let differences = match session::select_all_of(&context, &table).await {
            Ok(rows) => vec![format!("{} rows of {}", rows.num_rows(), rows.schema())],
            Err(error) => {
                let error = error.to_string();
                let name = path.file_name().unwrap().to_str().unwrap();
                let place = place(&entry);
                let is_named = error.contains(name) && place.is_none_or(|place| error.contains(&place));
                if is_named { vec![] } else { vec![error] }
            }
        };
        wrong.insert(entry.path, differences);
    }
    assert_eq!(wrong.len(), 16);
    report(wrong);
}

/// Where the manifest's note says that the damage is: `record 3 at byte 389`.
fn place(entry: &Entry) -> Option<String> {
    // A reader of compressed files may have seen less.
    let note = entry.note.get(entry.note.find("record ")?..).filter(|_| !entry.note.starts_with("gzip"))?;
    let place: String = note.chars().take_while(|char| !matches!(char, ':' | ';' | ',' | ')')).collect();
    place.contains(" at byte ").then_some(place)
}

/// The command over all of them, each way, with little more memory than it needs to start: whatever a file says of its own
/// lengths. `verify` prints a line for each damage.
#[test]
fn no_file_takes_more_than_its_size() {
    // Not where the stack of the thread that plans just fits and leaves no room for those of others.
    const KIBIBYTES: u32 = 900_000;

    let Some(corpus) = Corpus::find() else { return };
    for entry in entries(&corpus) {
        let scratch = Scratch::default();
        let path = corpus.join(&entry.path);
        let query = format!("SELECT * FROM '{}'", path.display());
        let limited = |arguments: &[&OsStr]| {
            let mut command = Command::new("sh");
            command.args(["-c", &format!("ulimit -v {KIBIBYTES}; exec \"$@\""), "sh"]).arg(tfr_sql().get_program());
            let finished = run(command.args(arguments).args(["--threads", "1"]));
            assert!(!finished.stderr.contains("panicked at"), "{}: {}", entry.path, finished.stderr);
            finished
        };
        // Files of another format by their names, and records of another type, are refused too.
        let read = limited(&[query.as_ref()]);
        let is_expected = if entry.expect == "error" { read.code == Some(1) } else { matches!(read.code, Some(0 | 1)) };
        assert!(is_expected, "{}: {:?}: {}", entry.path, read.code, read.stderr);

        let damage = if is_damaged(&entry) { 1 } else { 0 };
        let verified = limited(&["verify".as_ref(), path.as_os_str()]).exits_with(damage);
        let lines: Vec<_> = verified.stdout.lines().collect();
        assert_eq!(lines.len(), damage as usize, "{}: {lines:?}", entry.path);
        assert!(lines.iter().all(|line| line.starts_with(&format!("{}: record ", path.display()))), "{lines:?}");

        let out = scratch.join("out");
        let salvaged = limited(&["salvage".as_ref(), path.as_os_str(), "--out".as_ref(), out.as_os_str()]);
        let is_lost = damage != 0 && entry.rows == Some(0);
        assert_eq!((salvaged.code, out.exists()), (Some(i32::from(is_lost)), !is_lost), "{}", salvaged.stderr);
    }
}
