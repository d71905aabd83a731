//! Columns that stand in the path: `dt=2026-01-01/country=fr%2Fx/part-0.parquet`.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef};
use datafusion_common::ScalarValue;
use object_store::path::Path;

use super::error::{ErrorKind, Result};

/// What Hive writes for null (`hive.exec.default.partition.name`).
const NULL_VALUE: &str = "__HIVE_DEFAULT_PARTITION__";

/// One `key=value` directory, percent-decoded.
pub(super) type Key = (String, Option<String>);

/// The columns that `key=value` directories add to every row of a file, and their value for each file.
///
/// A column is `Int64` when every value is an integer in its shortest form, else `Utf8` (`dt=01` stays `01`). It is
/// nullable: `__HIVE_DEFAULT_PARTITION__` is null.
#[derive(Debug, Clone, Default)]
pub struct PartitionColumns {
    fields: Vec<FieldRef>,
    values: Vec<Vec<ScalarValue>>,
}

impl PartitionColumns {
    pub(super) fn infer(keys: &[Vec<Key>], file_name: impl Fn(usize) -> String) -> Result<Self> {
        let Some(first) = keys.first().map(|keys| names(keys)) else { return Ok(Self::default()) };
        if let Some(index) = keys.iter().position(|other| names(other) != first) {
            return Err(ErrorKind::PartitionMismatch {
                first_file: file_name(0),
                expected: first.join(", "),
                file: file_name(index),
                found: names(&keys[index]).join(", "),
            }
            .into());
        }
        let mut columns = Self { fields: Vec::new(), values: vec![Vec::new(); keys.len()] };
        for (position, name) in first.iter().enumerate() {
            let texts = || keys.iter().map(|keys| keys[position].1.as_deref());
            let data_type = if texts().flatten().all(is_integer) { DataType::Int64 } else { DataType::Utf8 };
            for (values, text) in columns.values.iter_mut().zip(texts()) {
                values.push(match data_type {
                    DataType::Int64 => ScalarValue::Int64(text.and_then(|text| text.parse().ok())),
                    _ => ScalarValue::Utf8(text.map(str::to_owned)),
                });
            }
            columns.fields.push(Arc::new(Field::new(*name, data_type, true)));
        }
        Ok(columns)
    }

    /// The columns, in the order of the directories.
    pub fn fields(&self) -> &[FieldRef] {
        &self.fields
    }

    /// The values for the file at `index` of the listing, one for each field.
    pub fn values(&self, index: usize) -> &[ScalarValue] {
        self.values.get(index).map_or(&[], Vec::as_slice)
    }
}

fn names(keys: &[Key]) -> Vec<&str> {
    keys.iter().map(|(key, _)| key.as_str()).collect()
}

/// The `key=value` directories between `root` and the file.
pub(super) fn keys(root: &Path, file: &Path) -> Vec<Key> {
    let Some(below) = file.prefix_match(root) else { return Vec::new() };
    let mut names: Vec<_> = below.map(|part| part.as_ref().to_owned()).collect();
    names.pop();
    let key = |name: &String| {
        let (key, value) = name.split_once('=')?;
        let value = (value != NULL_VALUE).then(|| percent_decode(value));
        Some((percent_decode(key), value))
    };
    names.iter().filter_map(key).collect()
}

/// Whether an `Int64` prints back to the same text.
fn is_integer(text: &str) -> bool {
    text.parse::<i64>().is_ok_and(|value| value.to_string() == text)
}

/// Decodes `%2F` and the like, as Hive and Spark write them; what is no escape stays.
pub(super) fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let escaped = (first == b'%')
            .then(|| tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok()))
            .flatten()
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(escaped.unwrap_or(first));
        rest = if escaped.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(directories: &[&str]) -> Result<PartitionColumns> {
        let root = Path::from("t");
        let keys: Vec<_> = directories
            .iter()
            .map(|directory| keys(&root, &Path::parse(format!("t/{directory}/f")).expect("path")))
            .collect();
        PartitionColumns::infer(&keys, |index| format!("file {index}"))
    }

    #[test]
    fn values_are_decoded_typed_and_nullable() -> Result<()> {
        let columns =
            columns(&["n=7/s=a%2Fb", "n=-1/s=100%", "n=__HIVE_DEFAULT_PARTITION__/s=__HIVE_DEFAULT_PARTITION__"])?;
        assert_eq!(columns.fields()[0].data_type(), &DataType::Int64);
        assert_eq!(columns.values(0), [ScalarValue::Int64(Some(7)), ScalarValue::from("a/b")]);
        assert_eq!(columns.values(1), [ScalarValue::Int64(Some(-1)), ScalarValue::from("100%")]);
        assert_eq!(columns.values(2), [ScalarValue::Int64(None), ScalarValue::Utf8(None)]);
        Ok(())
    }

    #[test]
    fn a_leading_zero_makes_it_text() -> Result<()> {
        let columns = columns(&["m=01", "m=12"])?;
        assert_eq!(columns.values(0), [ScalarValue::from("01")]);
        Ok(())
    }

    #[test]
    fn unlike_directories_are_refused_with_both_files() {
        let message = columns(&["a=1", "a=1/b=2"]).expect_err("mismatch").to_string();
        assert_eq!(message, "file 1: partition directories [a, b], but file 0 has [a]");
    }
}
