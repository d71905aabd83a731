//! [`RowsDigest`]: a plan of rows in about a byte for each file that it reads.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::planned_rows::{Rows, planned_differently};
use crate::error::TaskError;

/// Characters of an operator that are stored: enough to recognize it in an error.
const LINE: usize = 400;

/// A digest of [`Rows`].
///
/// An engine sends the plan of a stage with each of its tasks, and all tasks for an executor in one message. In full, the
/// plan has 215 bytes for each file, and the list of files again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowsDigest {
    /// Number of partitions.
    tasks: u32,
    /// The 128-bit XXH3 hash of everything, in hexadecimal. It alone decides whether plans are equal.
    hash: String,
    /// The beginning of each operator, and the hash of all of it.
    plan: Vec<(String, u64)>,
    /// A byte of the hash of each file's name and state, in the order of the names. It finds the file that differs.
    files: String,
}

impl RowsDigest {
    /// Computes the digest.
    pub fn of(rows: &Rows) -> Self {
        let plan = rows.plan.iter().map(|line| (line.chars().take(LINE).collect(), xxh3_64(line.as_bytes())));
        let files: Vec<u8> = rows.files.iter().map(|(name, state)| byte(name, state)).collect();
        let mut hash = Xxh3::new();
        hash.update(&rows.tasks.to_le_bytes());
        let files_text = rows.files.iter().flat_map(|(name, state)| [name, state]);
        for (text, kind) in rows.plan.iter().map(|line| (line, 0)).chain(files_text.map(|text| (text, 1))) {
            // Lengths keep neighbours apart.
            hash.update(&[kind]);
            hash.update(&(text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        }
        Self {
            tasks: rows.tasks,
            hash: format!("{:032x}", hash.digest128()),
            plan: plan.collect(),
            files: URL_SAFE_NO_PAD.encode(files),
        }
    }

    /// Returns the number of partitions.
    pub fn tasks(&self) -> u32 {
        self.tasks
    }

    /// Checks that the rows are those of the digest.
    pub fn check(&self, found: &Rows) -> Result<(), TaskError> {
        let digest = Self::of(found);
        if self.hash == digest.hash {
            return Ok(());
        }
        let bytes = |digest: &Self| URL_SAFE_NO_PAD.decode(&digest.files).unwrap_or_default();
        let (expected_files, found_files) = (bytes(self), bytes(&digest));
        let first = found_files.iter().zip(&expected_files).take_while(|(found, expected)| found == expected).count();
        let (expected, now) = (expected_files.len(), found_files.len());
        if let Some((name, state)) = found.files.iter().nth(first) {
            let expected = format!("one of {expected} files in another state");
            return Err(TaskError::Input { file: name.clone(), expected, found: format!("{state}, one of {now}") });
        }
        if expected != now {
            let [expected, found] = [expected, now].map(|files| format!("{files} files"));
            return Err(TaskError::Input { file: "the inputs".to_owned(), expected, found });
        }
        for number in 0..self.plan.len().max(found.plan.len()) {
            let expected = self.plan.get(number);
            if expected != digest.plan.get(number) {
                let start = expected.map_or("", |(start, _)| start.as_str());
                return Err(planned_differently(start, found.plan.get(number).map_or("", String::as_str)));
            }
        }
        Err(TaskError::Plan { expected: self.hash.clone(), found: digest.hash })
    }
}

/// A byte that depends on a file and its state.
fn byte(name: &str, state: &str) -> u8 {
    let [byte, ..] = (xxh3_64(name.as_bytes()) ^ xxh3_64(state.as_bytes()).rotate_left(1)).to_le_bytes();
    byte
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(files: u32) -> Rows {
        let name = |file| format!("file:///data/part-{file:06}.parquet");
        let names: Vec<_> = (0..files).map(name).collect();
        Rows {
            tasks: 200,
            plan: vec!["FilterExec: a > 1".to_owned(), format!("DataSourceExec: file_groups={names:?}")],
            files: names
                .into_iter()
                .map(|name| (name, "183725 bytes of 2026-11-27T10:52:30+00:00".to_owned()))
                .collect(),
        }
    }

    #[test]
    fn rows_digest_of_many_files_is_small() {
        let digest = RowsDigest::of(&rows(10_000));
        let json = serde_json::to_vec(&digest).unwrap();
        // 200 tasks with plans of this size are far from the 256 MiB of a message.
        assert!(json.len() < 20_000, "{} bytes", json.len());
        let read: RowsDigest = serde_json::from_slice(&json).unwrap();
        read.check(&rows(10_000)).unwrap();
    }

    #[test]
    fn rows_digest_names_what_differs() {
        let planned = rows(1000);
        let digest = RowsDigest::of(&planned);
        let input = |found: &Rows| match digest.check(found).unwrap_err() {
            TaskError::Input { file, expected, found } => [file, expected, found],
            error => panic!("{error:?}"),
        };

        let mut changed = planned.clone();
        let name = "file:///data/part-000700.parquet".to_owned();
        changed.files.insert(name.clone(), "5 bytes of 2026-11-28T00:00:00+00:00".to_owned());
        let [file, expected, found] = input(&changed);
        assert_eq!(file, name);
        assert_eq!(expected, "one of 1000 files in another state");
        assert_eq!(found, "5 bytes of 2026-11-28T00:00:00+00:00, one of 1000");

        let mut added = planned.clone();
        added.files.insert("file:///data/part-999999.parquet".to_owned(), "1 byte".to_owned());
        assert_eq!(input(&added)[0], "file:///data/part-999999.parquet");
        assert_eq!(input(&rows(999)), ["the inputs", "1000 files", "999 files"]);

        let mut other = planned.clone();
        other.plan[0] = "FilterExec: a > 2".to_owned();
        match digest.check(&other).unwrap_err() {
            TaskError::Plan { expected, found } => {
                assert_eq!([expected, found], ["FilterExec: a > 1", "FilterExec: a > 2"]);
            }
            error => panic!("{error:?}"),
        }
        // Beyond what is stored of a line.
        let mut other = planned.clone();
        other.plan[1].push('x');
        assert!(matches!(digest.check(&other), Err(TaskError::Plan { .. })));
        let mut other = planned;
        other.plan.pop();
        assert!(matches!(digest.check(&other), Err(TaskError::Plan { .. })));
    }
}
