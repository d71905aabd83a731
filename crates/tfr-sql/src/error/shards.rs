//! Hints for shard sets that cannot be written or read.

use std::io;
use std::path::Path;

use tfrecord_shards::{AttemptError, Error, ErrorKind, Finding, FindingKind, MANIFEST_NAME};

use super::{columns, framing};

/// `EMFILE` of Linux and macOS, for which [`io::ErrorKind`] has no variant: the process has too many open files.
const EMFILE: i32 = 24;

/// Returns a hint, if there is one.
pub fn hint(error: &Error) -> Option<String> {
    let hint = match error.kind() {
        ErrorKind::Encode(error) => return columns::hint(error),
        ErrorKind::Framing(error) => return framing::hint(error).map(str::to_owned),
        ErrorKind::Damaged { .. } => "tfr-sql verify reports all damage, tfr-sql salvage keeps the intact records",
        ErrorKind::NotWhole(_) => {
            "tfr-sql verify reports all damage, tfr-sql salvage keeps the intact records; files that are named one by \
             one are read whatever the manifest tells"
        }
        ErrorKind::ChangedManifest { .. } => {
            "restore the manifest, or write the set again; with declared columns, a pattern reads the files whatever the \
             manifest tells"
        }
        ErrorKind::InsideSet { .. } => "choose a directory next to that set",
        ErrorKind::ManifestForm { source, .. } if hint(source).is_some() => return hint(source),
        ErrorKind::ManifestForm { .. } => "restore the manifest, or write the set again",
        ErrorKind::NotAFile { .. } => "write its content to a file and name that",
        ErrorKind::Twice { .. } => "name it once; to have its records twice, copy it or link to it",
        ErrorKind::MixedForms { .. } => {
            "write each to a set of its own; or bring them into one form with a query: tfr-sql \"SELECT ... FROM 'one' \
             UNION ALL BY NAME SELECT ... FROM 'other'\" --out DIR"
        }
        ErrorKind::SameIndex { .. } => "name one of them, or choose --name idx",
        ErrorKind::NothingSound { findings, .. } => {
            let first = findings.first().map(Finding::to_string).unwrap_or_default();
            return Some(format!("nothing was written; what is wrong first: {first}"));
        }
        ErrorKind::NoFiles { .. } => {
            "hidden files, those whose names start with _, and sidecars such as .json are passed over"
        }
        ErrorKind::MixedGroups { .. } => {
            "name one of them at a time, and write each to a directory of its own; files that are named one by one are \
             mixed whatever their directories tell"
        }
        ErrorKind::CompressedIndex { .. } => "make uncompressed files of them with tfr-sql reshard",
        ErrorKind::Io { source, .. } | ErrorKind::Write(source) => match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                "make room, or write elsewhere: nothing of this run has been kept"
            }
            // EMFILE has no kind of its own.
            _ if source.raw_os_error() == Some(EMFILE) => {
                "ask for fewer shards, or raise the limit on open files with ulimit -n"
            }
            _ => return None,
        },
        ErrorKind::Protected { .. } | ErrorKind::NotADirectory { .. } => "name a directory for the set alone",
        ErrorKind::NotEmpty { path, .. } if path.join(MANIFEST_NAME).is_file() => {
            "this is a set already: --mode append adds to it, --mode overwrite replaces it; or choose another directory"
        }
        ErrorKind::NotEmpty { .. } => {
            "choose another directory; --mode overwrite replaces a set that tfr-sql has written, --mode append adds to it"
        }
        ErrorKind::AlreadyThere { .. } => "choose another name, or replace the existing files with --mode overwrite",
        ErrorKind::OtherKind { .. } => "choose another name, or move the existing file away",
        ErrorKind::ForeignFiles { path, .. } => {
            return Some(format!("choose another directory, or move these files away; {}", copied(path)));
        }
        ErrorKind::UnknownForm { path } => return Some(copied(path)),
        ErrorKind::Overlap { .. } => {
            "write to another path: the output must not be an input, contain one or be inside one"
        }
        ErrorKind::Busy { .. } => "wait for that run to end, or choose another directory",
        ErrorKind::Superseded { .. } => {
            "nothing of this run has been kept; run it again when the other one has ended, or choose another place"
        }
        ErrorKind::PartitionName { .. } => "give it another name in the query, one that does not start with a dot",
        ErrorKind::LongName { .. } => {
            "partition by columns of few and short values, and choose short prefixes and names of splits"
        }
        ErrorKind::OtherForm { .. } => {
            "write it as the set was written: tfr-sql schema prints its columns, _manifest.json has all options (CAST changes \
             a column's type, NULL AS name adds a column that may be null); or write it to another directory"
        }
        ErrorKind::OtherPartitions { .. } => {
            "name the columns that the set is partitioned by with --partition-by; a set without partitions is replaced as a \
             whole, with --mode overwrite"
        }
        ErrorKind::NoPartitionColumns => {
            "name the columns that the set is partitioned by, or replace all of it with --mode overwrite"
        }
        ErrorKind::NewColumns { .. } => {
            "add --add-columns to the query, and they are null in the existing rows; or leave them out"
        }
        ErrorKind::NotAppendable { .. } => {
            "replace the existing set with --mode overwrite, or write to another directory"
        }
        ErrorKind::Attempt(AttemptError::DamagedTask { .. }) => "run tfr-sql task for it again, then tfr-sql finish",
        ErrorKind::EmptyCompressed { .. } => "copy or write it again",
        ErrorKind::TooManyShards => "make shards larger",
        ErrorKind::SpillDamaged { .. } => "run it again, with temporary files on another disk",
        ErrorKind::Prefix { .. } => {
            "use a short one without slashes and control characters that starts with a letter or a digit"
        }
        ErrorKind::NoManifest { .. } => "name the directory of a set that tfr-sql has written",
        ErrorKind::ManifestSyntax { .. } | ErrorKind::ManifestContent { .. } => {
            "restore the manifest, or move the directory away and write the set again"
        }
        ErrorKind::ManifestVersion { .. } | ErrorKind::MappingOptions(_) => "read it with a newer release",
        _ => return None,
    };
    Some(hint.to_owned())
}

/// Returns the way out for rows of a directory that cannot be appended to.
fn copied(directory: &Path) -> String {
    let directory = directory.display().to_string();
    format!(
        "to go on with the rows that are there, copy them to a set and append to that: tfr-sql \"SELECT * FROM '{}/'\" \
         --out DIR",
        directory.trim_end_matches('/')
    )
}

/// Returns a hint for one finding about a file or directory.
pub fn finding_hint(finding: &Finding) -> Option<&'static str> {
    match &finding.kind {
        FindingKind::MissingParts(_) => Some("wait for the copy to end, or name the files by a pattern"),
        FindingKind::Damage(damage) if damage.range.start == 0 && has_other_format(&finding.path) => {
            Some("only TFRecord files can be checked")
        }
        FindingKind::MissingSidecar | FindingKind::ChangedSidecar => Some("tfr-sql describe writes it again"),
        _ => None,
    }
}

/// Whether the name says that a file is a table of another format.
fn has_other_format(path: &Path) -> bool {
    const ENDINGS: [&str; 10] = ["arrow", "avro", "csv", "feather", "json", "jsonl", "ndjson", "orc", "parquet", "tsv"];
    path.extension().is_some_and(|ending| ENDINGS.iter().any(|other| ending.eq_ignore_ascii_case(other)))
}

#[cfg(test)]
mod tests;
