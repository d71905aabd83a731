//! The output target of a query: the name given to `--out` determines the format.

use std::fmt;
use std::path::{MAIN_SEPARATOR, Path, PathBuf};

use datafusion_tfrecord::write::WriteTarget;
use tfr_stores::Location;
use tfrecord_shards::TableFiles;

use super::Misuse;

/// The output target of a query.
#[derive(Clone, Debug)]
pub enum Target {
    /// A directory of TFRecord shards, local or in an object store.
    Shards(WriteTarget),
    /// A table in another format.
    Table(TableTarget),
}

/// A table to write.
#[derive(Clone, Debug)]
pub struct TableTarget {
    /// The file or directory, or its URL in an object store.
    pub path: PathBuf,
    /// Its location, if it is in an object store.
    pub store: Option<Location>,
    /// The file format.
    pub format: TableFormat,
    /// Whether whole files are compressed with gzip.
    pub gzip: bool,
    /// Whether the target is a directory of such files.
    pub is_directory: bool,
}

/// Formats that tables are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFormat {
    /// Parquet, with the Arrow schema in it.
    Parquet,
    /// Comma-separated values with a header line.
    Csv,
    /// One array of objects.
    Json,
    /// One object a line.
    JsonLines,
    /// An Arrow IPC file.
    Arrow,
}

impl TableFormat {
    fn of_extension(extension: &str) -> Option<Self> {
        match extension {
            "parquet" => Some(Self::Parquet),
            "csv" => Some(Self::Csv),
            "json" => Some(Self::Json),
            "jsonl" | "ndjson" => Some(Self::JsonLines),
            "arrow" => Some(Self::Arrow),
            _ => None,
        }
    }

    /// Returns the file extension of this format.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Csv => "csv",
            Self::Json => "json",
            Self::JsonLines => "jsonl",
            Self::Arrow => "arrow",
        }
    }

    fn is_text(self) -> bool {
        matches!(self, Self::Csv | Self::Json | Self::JsonLines)
    }
}

impl fmt::Display for TableFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Parquet => "Parquet",
            Self::Csv => "CSV",
            Self::Json => "JSON",
            Self::JsonLines => "JSON lines",
            Self::Arrow => "Arrow IPC",
        })
    }
}

/// A single file of records: the output is a directory of them.
const RECORD_FILE: &str = "a single TFRecord file";

/// Extensions of files, as opposed to shard directories, whose formats cannot be written.
const UNSUPPORTED: [(&str, &str); 13] = [
    ("tsv", "TSV"),
    ("avro", "Avro"),
    ("orc", "ORC"),
    ("feather", "Feather"),
    ("ipc", "a file named .ipc"),
    ("xls", "Excel"),
    ("xlsx", "Excel"),
    ("tfrecord", RECORD_FILE),
    ("tfrecords", RECORD_FILE),
    ("tfrec", RECORD_FILE),
    ("tfr", RECORD_FILE),
    ("record", RECORD_FILE),
    ("records", RECORD_FILE),
];

/// Suffixes of compressed files: gzip, zlib, and those that no output is written in.
const GZIP: [&str; 2] = ["gz", "gzip"];
const ZLIB: [&str; 2] = ["zlib", "deflate"];
const OTHER_COMPRESSIONS: [&str; 7] = ["bz2", "xz", "zst", "zip", "lz4", "snappy", "br"];

impl Target {
    /// Returns the target that `--out` names. It is a directory if the name ends in a separator or is an existing
    /// directory.
    pub(super) fn of(out: &WriteTarget) -> Result<Self, Misuse> {
        let named = PathBuf::from(out.to_string());
        match (out, Self::of_path(out.local().unwrap_or(&named))?) {
            (WriteTarget::Store(_), Self::Table(table)) if table.is_directory => Err(Misuse::value(format!(
                "--out {out}: writing {table} to an object store is not supported\n\nhint: name one file, without a slash \
                 behind it, or give a directory without an extension for shards"
            ))),
            (WriteTarget::Store(location), Self::Table(table)) => {
                Ok(Self::Table(TableTarget { store: Some(location.clone()), ..table }))
            }
            (_, Self::Table(table)) => Ok(Self::Table(table)),
            (out, Self::Shards(_)) => Ok(Self::Shards(out.clone())),
        }
    }

    fn of_path(out: &Path) -> Result<Self, Misuse> {
        let ends_in_separator = out.as_os_str().as_encoded_bytes().ends_with(&[MAIN_SEPARATOR as u8]);
        let is_directory = ends_in_separator || out.is_dir();
        let name = out.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_ascii_lowercase();
        let (stem, suffix) = split_extension(&name).unwrap_or_default();
        let inner = split_extension(stem).and_then(|(_, inner)| TableFormat::of_extension(inner));
        let refuse = |what: &str, hint: String| {
            Err(Misuse::value(format!("--out {}: writing {what} is not supported\n\nhint: {hint}", out.display())))
        };
        let (format, gzip) = match (suffix, inner) {
            ("gz", Some(inner)) if inner.is_text() => (inner, true),
            ("gz", Some(inner)) => {
                let hint = format!("its columns are compressed one by one: name it .{}", inner.extension());
                return refuse(&format!("{inner} with gzip around it"), hint);
            }
            (suffix, Some(inner)) if OTHER_COMPRESSIONS.contains(&suffix) => {
                let extension = inner.extension();
                let gzip = if inner.is_text() { format!(", or .{extension}.gz for gzip") } else { String::new() };
                return refuse(&format!("{inner} compressed as .{suffix}"), format!("name it .{extension}{gzip}"));
            }
            _ => match TableFormat::of_extension(suffix) {
                Some(format) => (format, false),
                None => {
                    if let Some((what, hint)) = unsupported(out, stem, suffix).filter(|_| !is_directory) {
                        return refuse(what, hint);
                    }
                    return Ok(Self::Shards(out.into()));
                }
            },
        };
        Ok(Self::Table(TableTarget { path: out.to_owned(), store: None, format, gzip, is_directory }))
    }
}

/// Splits a file name before its extension. A name whose only dot is its first character is a hidden file without one.
fn split_extension(name: &str) -> Option<(&str, &str)> {
    name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty())
}

/// Returns the format of a file that cannot be written, compressed or not, and a hint. `stem` and `suffix` are the parts
/// of its name in lower case.
fn unsupported(out: &Path, stem: &str, suffix: &str) -> Option<(&'static str, String)> {
    let is_compressed = [GZIP.as_slice(), &ZLIB, &OTHER_COMPRESSIONS].concat().contains(&suffix);
    let extension = if is_compressed { split_extension(stem)?.1 } else { suffix };
    let (_, what) = UNSUPPORTED.into_iter().find(|(unsupported, _)| *unsupported == extension)?;
    let dir = out.with_extension("");
    let dir = if is_compressed { dir.with_extension("") } else { dir };
    let compression = match suffix {
        suffix if GZIP.contains(&suffix) => " --compression gzip",
        suffix if ZLIB.contains(&suffix) => " --compression zlib",
        _ => "",
    };
    let shards = format!("for shards give a directory: --out {}/{compression}", dir.display());
    Some((what, format!("{shards}; tables are .parquet, .csv, .json, .jsonl and .arrow")))
}

impl TableTarget {
    /// Returns its files in the local file system.
    pub fn files(&self) -> TableFiles {
        let path = self.path.clone();
        if self.is_directory { TableFiles::Directory { path, suffix: self.suffix() } } else { TableFiles::File(path) }
    }

    /// Returns the table that `path` names, judged by its extension.
    pub fn of(path: &Path) -> Option<Self> {
        match Target::of_path(path) {
            Ok(Target::Table(table)) => Some(table),
            _ => None,
        }
    }

    /// Returns the suffix of file names: `csv.gz`.
    pub fn suffix(&self) -> String {
        format!("{}{}", self.format.extension(), if self.gzip { ".gz" } else { "" })
    }
}

impl fmt::Display for TableTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_directory {
            true => write!(f, "a directory of {} files", self.format),
            false => write!(f, "a {} file", self.format),
        }
    }
}
