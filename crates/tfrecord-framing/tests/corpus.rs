//! Files written by other systems, in `../shared/corpus` next to the workspace.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::print_stderr, reason = "a test that is skipped says so")]

use std::{fs, path::PathBuf};

use tfrecord_framing::array_record::Footer;
use tfrecord_framing::{Damage, ErrorKind, RecordReader, RecordScanner, Records, Result};

/// A TFRecord file of the manifest, with the expected result.
struct Entry {
    path: String,
    error: bool,
    /// Intact records before the damage.
    rows: usize,
    /// Whether its frames are damaged, and not only their payloads.
    damaged: bool,
    /// A note, usually the position of the damage.
    note: String,
}

fn entries() -> Option<(PathBuf, Vec<Entry>)> {
    let corpus = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    let Ok(manifest) = fs::read_to_string(corpus.join("MANIFEST.csv")) else {
        eprintln!("skipped: no corpus at {}", corpus.display());
        return None;
    };
    let rows = rows(&manifest);
    let column = |name| rows[0].iter().position(|column| column == name).unwrap();
    let (path, kind, expect, count, note) =
        (column("path"), column("kind"), column("expect"), column("rows"), column("note"));
    let tfrecords = rows.iter().filter(|row| row.get(kind).is_some_and(|kind| kind == "tfrecord"));
    let entries = tfrecords.map(|row| Entry {
        path: row[path].clone(),
        error: row[expect] == "error",
        rows: row[count].parse().unwrap(),
        damaged: row[expect] == "error" && !row[note].contains("frames and checksums are sound"),
        note: row[note].clone(),
    });
    let entries: Vec<_> = entries.collect();
    Some((corpus, entries))
}

/// Parses RFC 4180, as far as the manifest needs it.
fn rows(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '"' if quoted && chars.peek() == Some(&'"') => cell.extend(chars.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut cell)),
            '\n' if !quoted => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            '\r' if !quoted => {}
            char => cell.push(char),
        }
    }
    rows
}

fn read(file: &[u8]) -> (Records, Result<()>) {
    let (mut reader, mut records) = (RecordReader::detect(file), Records::new());
    loop {
        match reader.read_records(100, &mut records) {
            Ok(0) => return (records, Ok(())),
            Ok(_) => {}
            Err(error) => return (records, Err(error)),
        }
    }
}

fn scan(mut file: &[u8]) -> (Records, Vec<Damage>) {
    let mut scanner = RecordScanner::detect();
    let (mut records, mut damage) = (Records::new(), Vec::new());
    while scanner.scan(&mut file, 100, &mut records, &mut damage).unwrap() > 0 {}
    scanner.finish(&mut records, &mut damage).unwrap();
    (records, damage)
}

#[test]
fn corpus_files_read_as_their_manifest_describes() {
    let Some((corpus, entries)) = entries() else { return };
    assert!(entries.len() >= 49);
    for Entry { path, error, rows, damaged, note } in entries {
        let file = fs::read(corpus.join(&path)).unwrap();
        let (records, end) = read(&file);
        // The manifest is that of readers of TFRecord.
        if path.contains(".array_record") {
            let footer = Footer::locate(&file[65_536..], file.len() as u64).unwrap();
            let footer = Footer::decode(&file[footer.start as usize..footer.end as usize], footer.start).unwrap();
            assert_eq!((records.len() as u64, end.is_ok()), (footer.records(), true), "{path}");
            continue;
        }
        let (salvaged, damage) = scan(&file);
        assert_eq!(end.is_err(), damaged, "{path}: {end:?}");
        assert_eq!(damage.is_empty(), !damaged, "{path}: {damage:?}");
        // The manifest's reader dropped what it had inflated before the damage, so its row count is a lower bound.
        let at_least = matches!(&end, Err(end) if matches!(end.kind(), ErrorKind::Compression { .. }));
        assert!(
            records.len() == rows || (at_least && records.len() > rows),
            "{path}: {} records, {end:?}",
            records.len()
        );
        assert!(salvaged.len() >= records.len(), "{path}");
        if let Err(end) = end {
            assert!(error);
            assert_eq!(end.position().record, records.len() as u64, "{path}: {end}");
            if note.contains(" at byte ") && !at_least {
                assert!(note.contains(&end.position().to_string()), "{path}: {end}, expected {note}");
            }
        }
    }
}
