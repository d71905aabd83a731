//! The names of directories and files of a transactional table.

/// What a directory in a table or a partition is, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AcidName {
    pub(super) kind: DirectoryKind,
    /// The transaction of the compaction that has made the directory.
    pub(super) visibility: Option<i64>,
}

/// Which changes a directory has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DirectoryKind {
    /// All rows up to a write id: those of a compaction, or of a statement that replaced all rows.
    Base(i64),
    /// The changes of some write ids.
    Delta(Delta),
}

/// The changes of the write ids from the first to the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Delta {
    pub(super) is_delete: bool,
    pub(super) first: i64,
    pub(super) last: i64,
    /// The number of the statement in its transaction.
    pub(super) statement: Option<u16>,
}

impl AcidName {
    /// Parses `base_N`, `delta_N_M`, `delta_N_M_S` and `delete_delta_N_M`, each with an optional `_vN`. `None` if the name
    /// does not begin so. The error is a description of the defect.
    pub(super) fn parse(name: &str) -> Option<Result<Self, String>> {
        let (rest, is_delete) = if let Some(rest) = name.strip_prefix("delete_delta_") {
            (rest, Some(true))
        } else if let Some(rest) = name.strip_prefix("delta_") {
            (rest, Some(false))
        } else {
            (name.strip_prefix("base_")?, None)
        };
        // The directory of a partition by such a column.
        if name.contains('=') {
            return None;
        }
        Some(Self::of(rest, is_delete).ok_or_else(|| format!("{name}/ is not the name of a directory of Hive")))
    }

    fn of(rest: &str, is_delete: Option<bool>) -> Option<Self> {
        let (numbers, visibility) = match rest.split_once("_v") {
            Some((numbers, visibility)) => (numbers, Some(number(visibility)?)),
            None => (rest, None),
        };
        let Some(is_delete) = is_delete else {
            // A base of the files from before the table became transactional has the smallest number.
            let id = if numbers == i64::MIN.to_string() { i64::MIN } else { number(numbers)? };
            return Some(Self { kind: DirectoryKind::Base(id), visibility });
        };
        let numbers: Vec<_> = numbers.split('_').collect();
        let (first, last, statement) = match numbers.as_slice() {
            [first, last] => (first, last, None),
            [first, last, statement] => (first, last, Some(u16::try_from(number(statement)?).ok()?)),
            _ => return None,
        };
        let (first, last) = (number(first)?, number(last)?);
        let kind = DirectoryKind::Delta(Delta { is_delete, first, last, statement });
        (first <= last).then_some(Self { kind, visibility })
    }

    /// Returns the first and the last write id that it may have rows of.
    pub(super) fn write_ids(self) -> (i64, i64) {
        match self.kind {
            // Rows from before the table became transactional have write id 0.
            DirectoryKind::Base(last) => (0, last.max(0)),
            DirectoryKind::Delta(Delta { first, last, .. }) => (first, last),
        }
    }
}

fn number(text: &str) -> Option<i64> {
    let is_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_digits)
}

/// What a file is, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileName<'a> {
    /// It has no rows.
    Hidden,
    /// The rows of a bucket, with their ids: `bucket_00000`, `bucket_00000_0`.
    Bucket(u16),
    /// How much of the bucket file with this name is committed.
    SideFile(&'a str),
    /// Rows without ids, of a bucket if the name is one of Hive: `000000_0`, `000000_0_copy_1`.
    Raw(Option<u16>),
}

impl<'a> FileName<'a> {
    pub(super) fn parse(name: &'a str) -> Self {
        if name.starts_with(['_', '.']) {
            return Self::Hidden;
        }
        if let Some(of) = name.strip_suffix("_flush_length") {
            return Self::SideFile(of);
        }
        let bucket = name.strip_prefix("bucket_").map(|rest| rest.split_once('_').unwrap_or((rest, "0")));
        if let Some((bucket, attempt)) = bucket
            && let (Some(bucket), Some(_)) = (bucket_number(bucket), number(attempt))
        {
            return Self::Bucket(bucket);
        }
        let (rest, copy) = name.split_once("_copy_").unwrap_or((name, "1"));
        let parts = rest.split_once('_').filter(|(_, task)| number(task).is_some() && number(copy).is_some());
        Self::Raw(parts.and_then(|(bucket, _)| bucket_number(bucket)))
    }
}

/// The ids of rows have 12 bits for the bucket.
const MAX_BUCKET: i64 = (1 << 12) - 1;

fn bucket_number(text: &str) -> Option<u16> {
    number(text).filter(|bucket| *bucket <= MAX_BUCKET).map(|bucket| bucket as u16)
}

/// Where a row was written first, in the column `bucket`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BucketProperty {
    pub(super) bucket: u16,
    pub(super) statement: u16,
}

impl BucketProperty {
    /// Decodes the value of the column: three bits for the version, then the bucket and the statement, of 12 bits each. Before
    /// Hive 3 it is the bucket. `None` if the version is unknown.
    pub(super) fn decode(value: i32) -> Option<Self> {
        let bits = value as u32;
        match bits >> 29 {
            0 => Some(Self { bucket: u16::try_from(bits).ok()?, statement: 0 }),
            1 => Some(Self { bucket: (bits >> 16) as u16 & 0xfff, statement: bits as u16 & 0xfff }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delta(is_delete: bool, first: i64, last: i64, statement: Option<u16>, visibility: Option<i64>) -> AcidName {
        AcidName { kind: DirectoryKind::Delta(Delta { is_delete, first, last, statement }), visibility }
    }

    #[test]
    fn acid_directories_have_write_ids_statements_and_compactions() {
        let base = |id, visibility| AcidName { kind: DirectoryKind::Base(id), visibility };
        for (name, expected) in [
            ("base_0000002", base(2, None)),
            ("base_10000002_v0000040", base(10_000_002, Some(40))),
            ("base_-9223372036854775808", base(i64::MIN, None)),
            ("delta_0000001_0000001_0000", delta(false, 1, 1, Some(0), None)),
            ("delta_0000001_0000010", delta(false, 1, 10, None, None)),
            ("delete_delta_0000001_0000004_v0000082", delta(true, 1, 4, None, Some(82))),
        ] {
            assert_eq!(AcidName::parse(name), Some(Ok(expected)), "{name}");
        }
        for name in
            ["base_", "base_1_2", "base_-1", "delta_2_1", "delta_1", "delta_1_1_1_1", "delta_1_1_70000", "base_1_vx"]
        {
            assert!(matches!(AcidName::parse(name), Some(Err(_))), "{name}");
        }
        for name in ["base", "base_x=1", "p=1", "HIVE_UNION_SUBDIR_1"] {
            assert_eq!(AcidName::parse(name), None, "{name}");
        }
    }

    #[test]
    fn acid_files_have_buckets() {
        use FileName::{Bucket, Hidden, Raw, SideFile};
        for (name, expected) in [
            ("bucket_00000", Bucket(0)),
            ("bucket_00012_3", Bucket(12)),
            ("bucket_00001_flush_length", SideFile("bucket_00001")),
            ("_orc_acid_version", Hidden),
            (".part", Hidden),
            ("000003_0", Raw(Some(3))),
            ("000003_0_copy_12", Raw(Some(3))),
            ("part-00000-x.snappy.orc", Raw(None)),
            ("bucket_x", Raw(None)),
            ("bucket_99999", Raw(None)),
        ] {
            assert_eq!(FileName::parse(name), expected, "{name}");
        }
        let decoded = |bucket, statement| Some(BucketProperty { bucket, statement });
        assert_eq!(BucketProperty::decode(536_870_912), decoded(0, 0));
        assert_eq!(BucketProperty::decode((1 << 29) | (7 << 16) | 3), decoded(7, 3));
        assert_eq!(BucketProperty::decode(5), decoded(5, 0));
        assert_eq!(BucketProperty::decode(-1), None);
    }
}
