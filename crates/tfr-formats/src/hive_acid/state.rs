//! Which directories of a table or a partition have the rows of a snapshot.
//!
//! The rules are those of Hive. A base has all rows up to its write id; deltas have the changes after that. A compaction
//! joins several of them in one directory, and what it covers is not read, whether it is still there or not.

use super::names::{AcidName, Delta, DirectoryKind};
use super::write_ids::{Committed, Transactions, WriteIds};

/// A directory with changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AcidDirectory {
    /// Its name.
    pub(super) text: String,
    pub(super) name: AcidName,
    /// Whether a compaction has made it.
    pub(super) is_compacted: bool,
}

/// A directory whose rows or deleted rows are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) directory: AcidDirectory,
    /// Rows of write ids up to this one are in other directories.
    pub(super) floor: i64,
    /// Whether some rows in it are not read: those up to the floor, and those that were not committed.
    pub(super) is_filtered: bool,
}

/// The directories that are read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct AcidState {
    pub(super) chosen: Vec<Chosen>,
    /// Whether the files are read that are in none of these directories: those from before the table became transactional.
    pub(super) has_originals: bool,
}

/// Returns the directories that have the rows that were committed. The error is the directory, and what is wrong with it.
pub(super) fn committed(
    mut directories: Vec<AcidDirectory>,
    ids: &WriteIds,
    transactions: Option<&Transactions>,
) -> Result<AcidState, (String, String)> {
    directories.retain(|directory| {
        let visibility = directory.name.visibility.zip(transactions);
        visibility.is_none_or(|(id, transactions)| transactions.is_committed(id))
    });
    let is_valid = |id: i64, is_compacted: bool| match is_compacted {
        _ if id == i64::MIN => true,
        true => ids.is_complete(id),
        // It replaced all rows.
        false => ids.is_committed(id),
    };
    let bases = || {
        directories.iter().filter_map(|directory| match directory.name.kind {
            DirectoryKind::Base(id) => Some((id, directory)),
            DirectoryKind::Delta(_) => None,
        })
    };
    let base = newest(bases().filter(|(id, directory)| is_valid(*id, directory.is_compacted)));
    let mut current = base.map_or(0, |(id, _)| id.max(0));
    // What it covers may be gone.
    if let Some((_, newer)) = bases().find(|(id, directory)| {
        directory.is_compacted && !is_valid(*id, true) && base.is_none_or(|(base, _)| *id > base)
    }) {
        let reason = "a compaction has joined write ids in it that are open or unknown in the committed write ids";
        return Err((newer.text.clone(), reason.to_owned()));
    }
    let mut state = AcidState { chosen: Vec::new(), has_originals: base.is_none() };
    state.chosen.extend(base.map(|(_, directory)| unfiltered(directory)));
    let mut last: Option<(Delta, &AcidDirectory)> = None;
    let mut floor = current;
    for (delta, directory) in sorted(&directories) {
        let committed = ids.committed(delta.first, delta.last);
        if committed == Committed::None {
            continue;
        }
        // A transaction with several statements has a directory for each of them, unless they were joined. Rows that were
        // added and those that were deleted have directories of their own.
        let is_statement = || last.is_some_and(|(last, _)| last.last == delta.last && last.statement.is_some());
        let is_pair = || {
            last.is_some_and(|(last, of)| {
                let is_same = (last.first, last.last, last.statement) == (delta.first, delta.last, delta.statement);
                is_same && of.name.visibility == directory.name.visibility && last.is_delete != delta.is_delete
            })
        };
        if delta.last > current {
            if ids.committed(current + 1, delta.last) == Committed::None {
                continue;
            }
            (floor, current) = (current, delta.last);
        } else if delta.last < current || !is_statement() && !is_pair() {
            continue;
        }
        last = Some((delta, directory));
        let is_filtered = committed == Committed::Some || floor >= delta.first;
        state.chosen.push(Chosen { directory: directory.clone(), floor, is_filtered });
    }
    Ok(state)
}

/// Returns the directories that have the rows of a table about whose write ids nothing is known: a compaction that covers all
/// others. The error is a directory that it does not cover.
pub(super) fn compacted(directories: &[AcidDirectory]) -> Result<AcidState, String> {
    let is_compaction = |directory: &&AcidDirectory| directory.is_compacted;
    let bases = directories.iter().filter(is_compaction).filter_map(|directory| match directory.name.kind {
        DirectoryKind::Base(id) => Some((id, directory)),
        DirectoryKind::Delta(_) => None,
    });
    let base = newest(bases);
    let covered = base.map_or(0, |(id, _)| id.max(0));
    if let Some(other) = directories.iter().find(|directory| directory.name.write_ids().1 > covered) {
        return Err(other.text.clone());
    }
    // Without directories of transactions, the table has none.
    match base {
        None if !directories.is_empty() => Err(directories[0].text.clone()),
        _ => Ok(AcidState {
            chosen: base.map(|(_, base)| unfiltered(base)).into_iter().collect(),
            has_originals: base.is_none(),
        }),
    }
}

fn unfiltered(directory: &AcidDirectory) -> Chosen {
    Chosen { directory: directory.clone(), floor: i64::MIN, is_filtered: false }
}

/// Returns the base with the highest write id, of several with it the newest compaction.
fn newest<'a>(bases: impl Iterator<Item = (i64, &'a AcidDirectory)>) -> Option<(i64, &'a AcidDirectory)> {
    bases.max_by_key(|(id, directory)| (*id, directory.is_compacted, directory.name.visibility))
}

/// Returns the deltas in the order in which they are looked at: those with more write ids before those that they cover.
fn sorted(directories: &[AcidDirectory]) -> Vec<(Delta, &AcidDirectory)> {
    let deltas = directories.iter().filter_map(|directory| match directory.name.kind {
        DirectoryKind::Delta(delta) => Some((delta, directory)),
        DirectoryKind::Base(_) => None,
    });
    let mut deltas: Vec<_> = deltas.collect();
    deltas.sort_by_key(|(delta, directory)| {
        let newest = std::cmp::Reverse(directory.name.visibility);
        (delta.first, std::cmp::Reverse(delta.last), delta.statement, newest, delta.is_delete)
    });
    deltas
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directories(names: &str) -> Vec<AcidDirectory> {
        let directory = |text: &str| {
            let name = AcidName::parse(text).unwrap().unwrap();
            AcidDirectory { text: text.to_owned(), name, is_compacted: name.visibility.is_some() }
        };
        names.split_whitespace().map(directory).collect()
    }

    /// The names of the directories, `+` before those that are filtered, and `originals`.
    fn shown(state: AcidState) -> String {
        let shown = |chosen: &Chosen| format!("{}{}", if chosen.is_filtered { "+" } else { "" }, chosen.directory.text);
        let mut names: Vec<_> = state.chosen.iter().map(shown).collect();
        names.extend(state.has_originals.then(|| "originals".to_owned()));
        names.join(" ")
    }

    #[test]
    fn acid_state_has_the_committed_directories() {
        for (names, ids, expected) in [
            ("delta_1_1_0 delta_2_2_0 delete_delta_2_2_1 delta_3_3_0", "t:3:9::2", "delta_1_1_0 delta_3_3_0 originals"),
            ("delta_1_1_0 delta_2_2_0", "t:2:2:2:", "delta_1_1_0 originals"),
            // Statements, and both kinds of one statement.
            (
                "delete_delta_2_2_0 delta_2_2_1 delta_2_2_0",
                "t:2:9::",
                "delta_2_2_0 delete_delta_2_2_0 delta_2_2_1 originals",
            ),
            // A compaction, with what it covers and without.
            ("base_2_v90 delta_1_1_0 delta_2_2_0 delta_3_3_0 00", "t:3:9::", "base_2_v90 delta_3_3_0"),
            (
                "delta_1_4_v82 delete_delta_1_4_v82 delta_1_1_0 delete_delta_4_4_0 delta_5_5_0",
                "t:5:9::",
                "delta_1_4_v82 delete_delta_1_4_v82 delta_5_5_0 originals",
            ),
            // Compacted twice: the newer one alone.
            (
                "delta_1_4_v82 delete_delta_1_4_v82 delta_1_4_v90 delete_delta_1_4_v90",
                "t:4:9::",
                "delta_1_4_v90 delete_delta_1_4_v90 originals",
            ),
            ("delta_5_5_v90 delta_5_5_0 delete_delta_5_5_1", "t:5:9::", "delta_5_5_v90 originals"),
            ("delta_1_4_v82 delta_1_3_v50", "t:4:9::3", "+delta_1_4_v82 originals"),
            // INSERT OVERWRITE: committed, rolled back and open.
            ("base_2 delta_1_1_0 delta_3_3_0", "t:3:9::", "base_2 delta_3_3_0"),
            ("base_2 delta_1_1_0 delta_3_3_0", "t:3:9::2", "delta_1_1_0 delta_3_3_0 originals"),
            ("base_2 delta_1_1_0", "t:2:2:2:", "delta_1_1_0 originals"),
            ("base_2 base_2_v7 base_1_v4", "t:2:9::", "base_2_v7"),
            ("base_-9223372036854775808 delta_1_1_0", "t:1:9::", "base_-9223372036854775808 delta_1_1_0"),
            // Batches of a stream.
            ("delta_1_10", "t:4:4:4:2", "+delta_1_10 originals"),
            ("base_3_v9 delta_1_10", "t:4:9::", "base_3_v9 +delta_1_10"),
            ("base_4_v9 delta_1_10", "t:4:9::", "base_4_v9"),
        ] {
            let names = names.trim_end_matches(" 00");
            let ids = WriteIds::parse(ids).unwrap();
            let mut all = directories(names);
            for _ in 0..all.len() {
                assert_eq!(shown(committed(all.clone(), &ids, None).unwrap()), expected, "{names} {ids:?}");
                all.rotate_left(1);
            }
        }
    }

    #[test]
    fn acid_state_needs_compactions_that_were_committed_and_are_not_newer() {
        let ids = WriteIds::parse("t:5:9::").unwrap();
        let all = directories("base_2_v7 base_4_v9 delta_3_3_0 delta_4_4_0 delta_5_5_0");
        for (transactions, expected) in [
            (Transactions::new(8, Vec::new()), "base_2_v7 delta_3_3_0 delta_4_4_0 delta_5_5_0"),
            (Transactions::new(20, vec![9]), "base_2_v7 delta_3_3_0 delta_4_4_0 delta_5_5_0"),
            (Transactions::new(20, vec![7]), "base_4_v9 delta_5_5_0"),
        ] {
            assert_eq!(shown(committed(all.clone(), &ids, Some(&transactions)).unwrap()), expected);
        }
        let older = WriteIds::parse("t:3:9::").unwrap();
        assert_eq!(committed(all, &older, None).unwrap_err().0, "base_4_v9");
    }

    #[test]
    fn acid_state_without_write_ids_needs_a_compaction_that_covers_all() {
        for (names, expected) in [
            ("base_2_v7", Ok("base_2_v7")),
            ("base_2_v7 delta_1_1_0 delete_delta_2_2_0 base_1", Ok("base_2_v7")),
            ("", Ok("originals")),
            ("base_2", Err("base_2")),
            ("base_2_v7 delta_3_3_0", Err("delta_3_3_0")),
            ("base_2_v7 base_3", Err("base_3")),
            ("delta_1_4_v82", Err("delta_1_4_v82")),
        ] {
            let found = compacted(&directories(names)).map(shown);
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{names}");
        }
    }
}
