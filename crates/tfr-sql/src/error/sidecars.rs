//! Hints for shard sets and tables that cannot be described, and for records that cannot be shown as text.

use tfrecord_sidecars::{Error, ErrorKind, TfdsProblem};

use super::{columns, shards};

/// Returns a hint, if there is one.
pub fn hint(error: &Error) -> Option<String> {
    let hint = match error.kind() {
        ErrorKind::Malformed { .. } => "the records may be of another type: print them as hex",
        ErrorKind::Feature { hint, .. } | ErrorKind::Snapshot { hint, .. } => hint,
        ErrorKind::SnapshotNull { .. } => "fill it with coalesce(), leave such rows out, or use --null mask",
        ErrorKind::Tfds(problem) => tfds_hint(problem)?,
        ErrorKind::CompressedIndex { .. } => "use --compression none",
        ErrorKind::OtherFormat { .. } => "leave it out of --emit",
        ErrorKind::NoFile { .. } => "name the directory that the shards are in",
        ErrorKind::NotWhole { .. } => "write the set again, or salvage the existing files",
        ErrorKind::RecordType { .. } => "ask for another form: arrow, ddl and json have all records",
        ErrorKind::Records(error) => return columns::hint(error),
        ErrorKind::File { source, .. } => return hint(source),
        ErrorKind::Manifest(error) => return shards::hint(error),
        _ => return None,
    };
    Some(hint.to_owned())
}

fn tfds_hint(problem: &TfdsProblem) -> Option<&'static str> {
    Some(match problem {
        TfdsProblem::NoShard => "write one at least",
        TfdsProblem::Shard { .. } => "reshard, with --shards N in an object store and without --partition-by",
        TfdsProblem::MissingShards { .. } => "write the set again, or reshard the existing files",
        TfdsProblem::TwoTemplates { .. } => "reshard them, so that each split has shards of one name",
        TfdsProblem::Compressed { .. } => "reshard with --compression none",
        TfdsProblem::Version { .. } => "write three numbers: 1.0.0",
        TfdsProblem::NotImages { .. } => "leave it out of the images, and it is read as bytes",
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
