//! Columns that stand in the path: `dt=2026-01-01/country=fr%2Fx/part-0.parquet`.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef};
use datafusion_common::ScalarValue;
use object_store::path::Path;
use tfrecord_shards::NULL_PARTITION;

use super::error::{ErrorKind, Result};

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

    /// The same columns with these types, where they are known; `file_name` names the file of an index.
    ///
    /// # Errors
    /// A value is none of its type.
    pub(crate) fn with_types(mut self, columns: &[FieldRef], file_name: impl Fn(usize) -> String) -> Result<Self> {
        for (position, field) in self.fields.iter_mut().enumerate() {
            let Some(known) = columns.iter().find(|known| known.name() == field.name()) else { continue };
            for (index, value) in self.values.iter_mut().filter_map(|values| values.get_mut(position)).enumerate() {
                let text = (!value.is_null()).then(|| value.to_string());
                *value = ScalarValue::Utf8(text.clone()).cast_to(known.data_type()).map_err(|source| {
                    ErrorKind::PartitionValue {
                        file: file_name(index),
                        column: known.name().clone(),
                        value: text.unwrap_or_default(),
                        data_type: known.data_type().clone(),
                        source,
                    }
                })?;
            }
            // What Hive cannot name comes back as null.
            *field = Arc::new(known.as_ref().clone().with_nullable(true));
        }
        Ok(self)
    }

    /// These columns, null in each of so many files.
    pub(crate) fn nulls(columns: &[FieldRef], files: usize) -> datafusion_common::Result<Self> {
        let nulls: Vec<_> =
            columns.iter().map(|column| ScalarValue::try_from(column.data_type())).collect::<Result<_, _>>()?;
        let fields = columns.iter().map(|column| Arc::new(column.as_ref().clone().with_nullable(true)));
        Ok(Self { fields: fields.collect(), values: vec![nulls; files] })
    }

    /// Whether a column is null in some file.
    pub(crate) fn has_null(&self, column: &str) -> bool {
        let position = self.fields.iter().position(|field| field.name() == column);
        position.is_some_and(|position| self.values.iter().any(|values| values.get(position).is_some_and(ScalarValue::is_null)))
    }

    /// The columns but one.
    pub(crate) fn without(mut self, column: &str) -> Self {
        if let Some(position) = self.fields.iter().position(|field| field.name() == column) {
            self.fields.remove(position);
            for values in &mut self.values {
                values.remove(position);
            }
        }
        self
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
        let value = (value != NULL_PARTITION).then(|| percent_decode(value));
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
    fn known_types_take_the_place_of_those_that_were_guessed() -> Result<()> {
        let known = |name, data_type| Arc::new(Field::new(name, data_type, false));
        let types = [known("n", DataType::Int16), known("d", DataType::Date32), known("x", DataType::Utf8View)];
        let directories = ["n=7/d=2026-01-01/x=1", "n=-1/d=__HIVE_DEFAULT_PARTITION__/x=a%2Fb"];
        let columns = columns(&directories)?.with_types(&types, |index| format!("file {index}"))?;
        assert!(columns.fields().iter().all(|field| field.is_nullable()));
        let text = |text: &str| ScalarValue::Utf8View(Some(text.to_owned()));
        assert_eq!(columns.values(0), [ScalarValue::Int16(Some(7)), ScalarValue::Date32(Some(20454)), text("1")]);
        assert_eq!(columns.values(1), [ScalarValue::Int16(Some(-1)), ScalarValue::Date32(None), text("a/b")]);
        assert!(columns.has_null("d") && !columns.has_null("n"));
        assert_eq!(columns.without("d").values(0), [ScalarValue::Int16(Some(7)), text("1")]);
        Ok(())
    }

    #[test]
    fn a_value_of_another_type_is_refused_with_its_file() -> Result<()> {
        let known = Arc::new(Field::new("n", DataType::Int16, false));
        let error = columns(&["n=7", "n=70000"])?.with_types(&[known], |index| format!("file {index}"));
        let message = error.expect_err("no 16 bits").to_string();
        assert_eq!(message, "file 1: partition n=70000 is not of type Int16, as the manifest has it");
        Ok(())
    }

    #[test]
    fn unlike_directories_are_refused_with_both_files() {
        let message = columns(&["a=1", "a=1/b=2"]).expect_err("mismatch").to_string();
        assert_eq!(message, "file 1: partition directories [a, b], but file 0 has [a]");
    }
}
