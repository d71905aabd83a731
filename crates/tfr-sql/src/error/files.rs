//! Hints for files that do not form a table.

use std::fs;
use std::path::{Path, PathBuf};

use datafusion::common::utils::datafusion_strsim::levenshtein;
use datafusion_tfrecord::similar;
use tfr_files::{Error, ErrorKind};

use super::stores;
use super::table_formats::way_out;

/// Returns a hint, if there is one.
pub fn hint(error: &Error) -> Option<String> {
    match error.kind() {
        ErrorKind::NotFound { location } => {
            similar_path(Path::new(location)).map(|similar| format!("did you mean {}?", similar.display()))
        }
        ErrorKind::Place(error) => stores::hint(error),
        ErrorKind::OwnedByTable { owner, .. } => Some(way_out(owner)),
        ErrorKind::Changed { .. } => Some("run it again when nothing writes to the file".to_owned()),
        ErrorKind::DanglingLink { .. } => {
            Some("fetch its target (git annex get, dvc pull), remove the link, or name the files to read".to_owned())
        }
        ErrorKind::FileTooLong { most, .. } if *most < i32::MAX as u64 => Some(format!(
            "raise --memory-limit, of which a file may take a quarter; or leave it out: WHERE size <= {most}"
        )),
        ErrorKind::FileTooLong { most, .. } => Some(format!("leave it out: WHERE size <= {most}")),
        ErrorKind::Empty { skipped, .. } if skipped.is_without_rows() => Some(
            "a job without rows leaves such files: declare the columns to read a table without rows, with CREATE EXTERNAL \
             TABLE t (...) STORED AS ... LOCATION '...'"
                .to_owned(),
        ),
        ErrorKind::Unfinished { directory } => Some(format!(
            "wait for the job to end, or write the files again; a pattern reads what is there: '{}/**/part-*'",
            directory.trim_end_matches('/')
        )),
        ErrorKind::Empty { skipped, .. } if !skipped.is_empty() => {
            Some("name a file itself to read it although it is hidden".to_owned())
        }
        ErrorKind::FileTwice { .. } => Some("name each file once; UNION ALL of two tables reads rows twice".to_owned()),
        ErrorKind::SchemaConflict { column, declarable: Some(sql), .. } => Some(declare(column, sql)),
        ErrorKind::SchemaConflict { column, declarable: None, .. } => Some(two_tables(column)),
        ErrorKind::UnfitValue { column, .. } => Some(format!(
            "give \"{column}\" a type that holds all values of the files, in the columns of CREATE EXTERNAL TABLE or \
             with the option types"
        )),
        ErrorKind::PartitionMismatch { .. } => {
            Some("name one level of the directory, or a pattern such as 'dir/key=*/*'".to_owned())
        }
        ErrorKind::PartitionValue { column, .. } => {
            Some(format!("rename the directory, or declare \"{column}\" as text and CAST it in the query"))
        }
        ErrorKind::PartitionType { column, .. } => {
            Some(format!("declare \"{column}\" as text, a number, a truth value, a date or a timestamp"))
        }
        ErrorKind::ColumnInPath { .. } => Some(
            "name each key=value directory as a location of its own to read the column of the file, or rename it in \
             one of the two"
                .to_owned(),
        ),
        ErrorKind::MissingColumn { column, found, .. }
            if found.iter().any(|found| found.to_lowercase() == column.to_lowercase()) =>
        {
            Some("a name is matched as it is spelled: the option names=insensitive ignores the case".to_owned())
        }
        ErrorKind::MissingColumn { .. } => Some(
            "declare only columns that some file has, or none at all: a name is matched as it is spelled".to_owned(),
        ),
        ErrorKind::DeclaredType { column, declarable, files_differ, .. } => Some(match (declarable, files_differ) {
            (Some(sql), true) => {
                format!("declare \"{column}\" as {sql}, to which every file can be converted, and CAST it in the query")
            }
            (Some(sql), false) => {
                format!("leave the columns undeclared, or declare \"{column}\" as {sql}, and CAST it in the query")
            }
            (None, true) => two_tables(column),
            (None, false) => format!("leave the columns undeclared, and CAST \"{column}\" in the query"),
        }),
        ErrorKind::UnreadableColumn { unreadable, .. } => {
            let names: Vec<_> = unreadable.iter().map(|name| quoted(name)).collect();
            Some(format!("leave it out: SELECT * EXCLUDE ({}), or select the columns by name", names.join(", ")))
        }
        ErrorKind::FileName { .. } => {
            Some("rename it, or read it from standard input: tfr-sql \"SELECT * FROM '-'\" <FILE".to_owned())
        }
        _ => None,
    }
}

/// Returns the path of the most similar name in the same local directory, if one is similar enough.
fn similar_path(path: &Path) -> Option<PathBuf> {
    /// Names that are compared. A directory can have millions.
    const MOST: usize = 10_000;
    let name = path.file_name()?.to_str()?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let entries = fs::read_dir(directory.unwrap_or(Path::new("."))).ok()?;
    let names: Vec<_> = entries.take(MOST).filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    // A name with control characters would act on the terminal.
    let is_shown = |name: &&str| !name.starts_with(['.', '_']) && !name.contains(char::is_control);
    let shown = names.iter().map(String::as_str).filter(is_shown);
    // Of several that are as similar, the same one each time.
    let mut shown: Vec<_> = shown.filter(|known| levenshtein(name, known) * 4 <= name.chars().count()).collect();
    shown.sort_unstable();
    similar(name, shown).map(|name| path.with_file_name(name))
}

/// Returns a hint for files whose values can all be converted to one declared type.
fn declare(column: &str, sql: &str) -> String {
    let then = match sql {
        "VARCHAR" => format!(", and CAST(\"{column}\" AS ...) in the query"),
        _ => "; a value that is not exact in it is an error".to_owned(),
    };
    // The option expects Hive type names.
    let in_hive = match sql {
        "VARCHAR" => Some("STRING"),
        "BYTEA" => Some("BINARY"),
        _ if matches!(sql, "DOUBLE" | "BIGINT" | "DATE") || sql.starts_with("DECIMAL(") => Some(sql),
        _ => None,
    };
    match in_hive {
        Some(in_hive) => {
            let is_word = column.chars().all(|c| c.is_alphanumeric() || c == '_');
            let name = if is_word { column.to_owned() } else { format!("`{}`", column.replace('`', "``")) };
            let part = format!("types={name} {in_hive}");
            let part = if part.contains(',') { format!("\"{part}\"") } else { part };
            format!("give the column one type: --table 't=...,{part}'{then}")
        }
        None => format!(
            "declare the columns, this one with a type for all files: CREATE EXTERNAL TABLE t (\"{column}\" {sql}, ...) \
             STORED AS ... LOCATION '...'{then}"
        ),
    }
}

/// Returns a name as SQL reads it: quoted unless it is lower case without special characters.
fn quoted(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit();
    let starts = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    match starts && name.chars().all(is_plain) {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// Returns a hint for files whose types of a column have no common type.
fn two_tables(column: &str) -> String {
    format!(
        "register the files of each type as a table of their own, by a pattern, and join them with UNION ALL: SELECT \
         CAST(\"{column}\" AS ...) ..."
    )
}

#[cfg(test)]
mod tests;
