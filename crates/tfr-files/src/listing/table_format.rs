//! [`TableFormat`]: formats in which a log or a manifest determines which files of a directory are rows.
//!
//! Every format uses names that no other tool does. [`signs`] finds them among the names in one directory;
//! [`owner`](crate::listing::owner) then determines whether the files of a location belong to a table.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A table format, in which not all files are rows: some were deleted, replaced or never committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TableFormat {
    /// Delta Lake: `_delta_log/`.
    Delta,
    /// Apache Iceberg: `metadata/` with `*.metadata.json`, `version-hint.text` or `snap-*.avro`.
    Iceberg,
    /// Apache Hudi: `.hoodie/`, or `.hoodie_partition_metadata` in a partition.
    Hudi,
    /// Apache Paimon: `snapshot/`, `schema/` and `manifest/`.
    Paimon,
    /// A transactional table of Apache Hive: `base_N/`, `delta_N_M/` and `delete_delta_N_M/`.
    HiveAcid,
    /// The output of a Spark streaming query: `_spark_metadata/`.
    SparkStreaming,
    /// Manifests for Hive's symbolic links: `_symlink_format_manifest/`.
    SymlinkManifest,
    /// Lance: `_versions/` with manifests, and `*.lance` files.
    Lance,
    /// DuckLake: `ducklake-*.parquet`; its catalog is a database.
    DuckLake,
}

impl TableFormat {
    /// Returns the name of the format.
    pub fn name(self) -> &'static str {
        match self {
            Self::Delta => "Delta Lake",
            Self::Iceberg => "Apache Iceberg",
            Self::Hudi => "Apache Hudi",
            Self::Paimon => "Apache Paimon",
            Self::HiveAcid => "Hive ACID",
            Self::SparkStreaming => "Spark streaming",
            Self::SymlinkManifest => "Hive symlink manifest",
            Self::Lance => "Lance",
            Self::DuckLake => "DuckLake",
        }
    }

    /// Returns the format of this [name](Self::name), or that a user calls so: `hudi`, `ICEBERG`.
    pub fn named(text: &str) -> Option<Self> {
        let names = [
            ("delta", Self::Delta),
            ("iceberg", Self::Iceberg),
            ("hudi", Self::Hudi),
            ("paimon", Self::Paimon),
            ("lance", Self::Lance),
            ("ducklake", Self::DuckLake),
        ];
        let is_named = |name: &str, format: Self| text.eq_ignore_ascii_case(name) || text == format.name();
        names.into_iter().find(|(name, format)| is_named(name, *format)).map(|(_, format)| format)
    }

    /// Returns a table of the format, with its article: "an Apache Iceberg table".
    pub fn table(self) -> &'static str {
        match self {
            Self::Delta => "a Delta Lake table",
            Self::Iceberg => "an Apache Iceberg table",
            Self::Hudi => "an Apache Hudi table",
            Self::Paimon => "an Apache Paimon table",
            Self::HiveAcid => "a transactional (ACID) Hive table",
            Self::SparkStreaming => "the output of a Spark streaming query",
            Self::SymlinkManifest => "a table with Hive symlink manifests",
            Self::Lance => "a Lance dataset",
            Self::DuckLake => "a DuckLake table",
        }
    }

    /// Returns the directories of a table that contain no rows. A location that names one of them requests its
    /// contents.
    pub(crate) fn metadata_directories(self) -> &'static [&'static str] {
        match self {
            Self::Delta => &["_delta_log", "_symlink_format_manifest"],
            Self::Iceberg => &["metadata"],
            Self::Hudi => &[".hoodie"],
            Self::Paimon => &["snapshot", "schema", "manifest", "index", "statistics", "tag", "changelog", "consumer"],
            Self::SparkStreaming => &["_spark_metadata"],
            Self::SymlinkManifest => &["_symlink_format_manifest"],
            Self::Lance => &["_versions", "_transactions", "_indices", "_deletions"],
            Self::HiveAcid | Self::DuckLake => &[],
        }
    }

    /// Whether a file confirms this format, in a directory whose name other tools also use.
    pub(crate) fn confirms(self, file: &str) -> bool {
        match self {
            Self::Iceberg => is_iceberg_metadata(file),
            Self::Paimon => matches!(file, "LATEST" | "EARLIEST") || number(file.strip_prefix("snapshot-")),
            Self::Lance => file.ends_with(".manifest"),
            _ => false,
        }
    }
}

impl fmt::Display for TableFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Evidence of a table in the names of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sign {
    /// The directory is a table, because it contains this name.
    Table(TableFormat, String),
    /// The directory is a part of the table in its parent directory, because of its own name.
    Part(TableFormat, String),
    /// The directory is a table if this subdirectory contains a file that [confirms the
    /// format](TableFormat::confirms).
    Perhaps(TableFormat, &'static str),
}

/// Directories and files whose name alone identifies the table around them. A directory that must not be listed is
/// probed for these.
pub(crate) const MARKER_NAMES: &[&str] = &[
    "_delta_log",
    "metadata",
    ".hoodie",
    ".hoodie_partition_metadata",
    "snapshot",
    "schema",
    "manifest",
    "_spark_metadata",
    "_symlink_format_manifest",
    "_versions",
    "_orc_acid_version",
    "_metadata_acid",
];

/// Returns the signs in the names of a directory: its own, those of its subdirectories and those of its files.
pub(crate) fn signs<'a>(
    own: &str,
    directories: impl Iterator<Item = &'a str>,
    files: impl Iterator<Item = &'a str>,
) -> Vec<Sign> {
    let mut signs = Vec::new();
    let mut paimon = [false; 3];
    for name in directories {
        let format = match name {
            "_delta_log" => TableFormat::Delta,
            ".hoodie" => TableFormat::Hudi,
            "_spark_metadata" => TableFormat::SparkStreaming,
            "_symlink_format_manifest" => TableFormat::SymlinkManifest,
            "metadata" => {
                signs.push(Sign::Perhaps(TableFormat::Iceberg, "metadata"));
                continue;
            }
            "_versions" => {
                signs.push(Sign::Perhaps(TableFormat::Lance, "_versions"));
                continue;
            }
            "snapshot" | "schema" | "manifest" => {
                let position = ["snapshot", "schema", "manifest"].iter().position(|known| *known == name);
                position.into_iter().for_each(|position| paimon[position] = true);
                continue;
            }
            _ if acid_name(name) == Some(Certainty::Certain) => TableFormat::HiveAcid,
            _ => continue,
        };
        // One sign is enough for a table with thousands of delta directories.
        if !signs.iter().any(|sign| matches!(sign, Sign::Table(known, _) if *known == format)) {
            signs.push(Sign::Table(format, format!("{name}/")));
        }
    }
    if paimon == [true; 3] {
        signs.push(Sign::Perhaps(TableFormat::Paimon, "snapshot"));
    }
    let own_name = acid_name(own);
    let mut is_part = own_name == Some(Certainty::Certain);
    for name in files {
        is_part |= own_name.is_some() && is_acid_file(name);
        let format = match name {
            _ if name.starts_with(".hoodie_partition_metadata") => TableFormat::Hudi,
            _ if name.ends_with(".lance") => TableFormat::Lance,
            _ if is_ducklake(name) => TableFormat::DuckLake,
            _ => continue,
        };
        if !signs.iter().any(|sign| matches!(sign, Sign::Table(known, _) if *known == format)) {
            signs.push(Sign::Table(format, name.to_owned()));
        }
    }
    if is_part {
        signs.push(Sign::Part(TableFormat::HiveAcid, format!("{own}/")));
    }
    signs
}

/// How certain it is that a directory with a name such as `base_1` belongs to a transactional Hive table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Certainty {
    /// The numbers have Hive's seven digits, or the name is unique to Hive.
    Certain,
    /// Names such as `base_1` or `delta_20260101_20260131`: the files in it decide.
    Possible,
}

/// Parses `base_N`, `delta_N_M`, `delta_N_M_S` and `delete_delta_N_M`, each with an optional `_vN`.
fn acid_name(name: &str) -> Option<Certainty> {
    let (numbers, count, is_delete) = if let Some(rest) = name.strip_prefix("delete_delta_") {
        (rest, 2..=3, true)
    } else if let Some(rest) = name.strip_prefix("delta_") {
        (rest, 2..=3, false)
    } else {
        (name.strip_prefix("base_")?, 1..=1, false)
    };
    let (numbers, visibility) = numbers.split_once("_v").map_or((numbers, None), |(first, last)| (first, Some(last)));
    let numbers: Vec<_> = numbers.split('_').collect();
    let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !numbers.iter().chain(&visibility).all(is_number) || !count.contains(&numbers.len()) {
        return None;
    }
    let has_width = |width: usize| numbers.iter().take(2).all(|number| number.len() == width);
    match is_delete || visibility.is_some() || has_width(7) {
        true => Some(Certainty::Certain),
        false => Some(Certainty::Possible),
    }
}

/// Whether a file is one that Hive writes only into directories of transactional tables.
fn is_acid_file(name: &str) -> bool {
    let bucket = name.strip_prefix("bucket_").and_then(|rest| rest.get(..5));
    matches!(name, "_orc_acid_version" | "_metadata_acid")
        || bucket.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether a file in a directory `metadata/` belongs to Iceberg: `v3.metadata.json`, `00003-<uuid>.gz.metadata.json`,
/// `version-hint.text`, `snap-<number>-....avro`. Other tools write `x.metadata.json`, too.
fn is_iceberg_metadata(name: &str) -> bool {
    if name == "version-hint.text" {
        return true;
    }
    if let Some(snapshot) = name.strip_prefix("snap-").and_then(|rest| rest.strip_suffix(".avro")) {
        return number(snapshot.split('-').next());
    }
    let name = name.strip_suffix(".gz").unwrap_or(name);
    let Some(stem) = name.strip_suffix(".metadata.json") else { return false };
    let stem = stem.strip_suffix(".gz").unwrap_or(stem);
    let version = stem.strip_prefix('v').unwrap_or(stem);
    has_uuid(stem) || number(version.split('-').next())
}

/// Whether a file belongs to DuckLake: `ducklake-<uuid>.parquet`, `ducklake-<uuid>-delete.parquet`.
fn is_ducklake(name: &str) -> bool {
    name.starts_with("ducklake-") && has_uuid(name) && name.ends_with(".parquet")
}

fn number(text: Option<&str>) -> bool {
    text.is_some_and(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether the text contains a UUID as in RFC 9562: groups of 8, 4, 4, 4 and 12 hexadecimal digits.
fn has_uuid(text: &str) -> bool {
    let groups: Vec<_> = text.split(['-', '.', '_']).collect();
    let is_hex = |group: &str| group.bytes().all(|byte| byte.is_ascii_hexdigit());
    groups
        .windows(5)
        .any(|groups| groups.iter().zip([8, 4, 4, 4, 12]).all(|(group, length)| group.len() == length && is_hex(group)))
}

/// A table that files of a location belong to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The format of the table.
    pub format: TableFormat,
    /// The directory of the table, as messages name it.
    pub directory: String,
    /// The name in the directory that identifies the format. Ends in `/` if it is a directory.
    pub marker: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(own: &str, directories: &[&str], files: &[&str]) -> Vec<Sign> {
        signs(own, directories.iter().copied(), files.iter().copied())
    }

    #[test]
    fn table_format_recognizes_directories_of_hive_acid_tables() {
        for name in [
            "base_0000001",
            "base_0000005_v0000009",
            "base_5_v12",
            "delta_0000001_0000001",
            "delta_0000001_0000001_0000",
            "delta_0000001_0000005_v0000123",
            "delete_delta_0000003_0000003_0000",
            "delete_delta_3_3",
        ] {
            let expected = Sign::Table(TableFormat::HiveAcid, format!("{name}/"));
            assert_eq!(found("t", &[name], &[]), [expected], "{name}");
            let part = Sign::Part(TableFormat::HiveAcid, format!("{name}/"));
            assert_eq!(found(name, &[], &["000000_0"]), [part], "{name}");
        }
        for name in ["base_1", "base_20260101", "delta_1_2", "delta_20260101_20260131"] {
            assert_eq!(found("t", &[name], &[]), [], "{name}");
            assert_eq!(found(name, &[], &["part-0.parquet", "bucket_list.csv"]), [], "{name}");
            let part = Sign::Part(TableFormat::HiveAcid, format!("{name}/"));
            for file in ["bucket_00000", "bucket_00012_0", "_orc_acid_version"] {
                assert_eq!(found(name, &[], &[file]), std::slice::from_ref(&part), "{name}/{file}");
            }
        }
        for name in ["base_", "base_x", "base_0000001_1", "delta_0000001", "delta_a_b", "base", "database_0000001"] {
            assert_eq!(found("t", &[name], &[]), [], "{name}");
            assert_eq!(found(name, &[], &["bucket_00000"]), [], "{name}");
        }
    }

    #[test]
    fn table_format_recognizes_iceberg_metadata() {
        for name in [
            "v1.metadata.json",
            "v12.gz.metadata.json",
            "v1.metadata.json.gz",
            "00000-2d80c8d3-7358-438a-849e-341fedb718a5.metadata.json",
            "00001-eb068871-6f6d-4dfc-a7d8-f7300410f782.gz.metadata.json",
            "eb068871-6f6d-4dfc-a7d8-f7300410f782.metadata.json",
            "version-hint.text",
            "snap-6730418860391088060-0-713cd401-0633-4d35-afad-092f979b0475.avro",
        ] {
            assert!(TableFormat::Iceberg.confirms(name), "{name}");
        }
        for name in
            ["a.json", "x.metadata.json", "video.metadata.json", "snap-x.avro", "features.json", "v.metadata.json"]
        {
            assert!(!TableFormat::Iceberg.confirms(name), "{name}");
        }
    }

    #[test]
    fn table_format_is_not_inferred_from_common_names() {
        assert_eq!(found("t", &["data", "snapshot", "schema", "dt=1", "_temporary"], &["part-0.parquet"]), []);
        let paimon = ["snapshot", "schema", "manifest", "bucket-0"];
        assert_eq!(found("t", &paimon, &[]), [Sign::Perhaps(TableFormat::Paimon, "snapshot")]);
        assert!(TableFormat::Paimon.confirms("snapshot-12") && !TableFormat::Paimon.confirms("snapshot-a.csv"));
        let ducklake = "ducklake-0197f1c5-7b2a-7c33-9d5e-0f1e2d3c4b5a-delete.parquet";
        assert_eq!(found("t", &[], &[ducklake]), [Sign::Table(TableFormat::DuckLake, ducklake.to_owned())]);
        assert_eq!(found("t", &[], &["ducklake-notes.parquet", "freelance"]), []);
    }
}
