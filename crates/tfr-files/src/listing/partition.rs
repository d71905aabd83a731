//! Columns in the path: `dt=2026-01-01/country=fr%2Fx/part-0.parquet`.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_schema::{DataType, Field, FieldRef, Schema};
use datafusion_common::stats::Precision;
use datafusion_common::{ColumnStatistics, DFSchema, ScalarValue, Statistics};
use datafusion_expr::Expr;
use datafusion_session::Session;
use object_store::path::Path;
use tfr_stores::percent_decode;
use tfrecord_shards::NULL_PARTITION;

use crate::error::{ErrorKind, Result};

/// One `key=value` directory, percent-decoded.
pub(crate) type Key = (String, Option<String>);

/// The columns that `key=value` directories add to every row of a file, and their value for each file.
///
/// A column is `Int64` when every value is an integer in its shortest form, else `Utf8` (`dt=01` stays `01`), unless its
/// type is [declared](crate::Listing::with_partition_types). It is nullable: `__HIVE_DEFAULT_PARTITION__` is null.
#[derive(Debug, Clone, Default)]
pub struct PartitionColumns {
    fields: Vec<FieldRef>,
    values: Vec<Vec<ScalarValue>>,
}

impl PartitionColumns {
    pub(crate) fn infer(keys: &[Vec<Key>], file_name: impl Fn(usize) -> String) -> Result<Self> {
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

    /// Sets the types in which the columns were written, if known. `file_name` returns the name of a file by its
    /// index.
    ///
    /// # Errors
    /// A value does not have its column's type.
    pub fn with_written_types(mut self, columns: &[FieldRef], file_name: impl Fn(usize) -> String) -> Result<Self> {
        for (position, field) in self.fields.iter_mut().enumerate() {
            let Some(known) = columns.iter().find(|known| known.name() == field.name()) else { continue };
            for (index, value) in self.values.iter_mut().filter_map(|values| values.get_mut(position)).enumerate() {
                let text = (!value.is_null()).then(|| value.to_string());
                *value = ScalarValue::Utf8(text.clone()).cast_to(known.data_type()).map_err(|source| {
                    ErrorKind::PartitionNotAsWritten {
                        file: file_name(index),
                        column: known.name().clone(),
                        value: text.unwrap_or_default(),
                        data_type: known.data_type().clone(),
                        source,
                    }
                })?;
            }
            // Values that Hive cannot represent are read back as null.
            *field = Arc::new(known.as_ref().clone().with_nullable(true));
        }
        Ok(self)
    }

    /// Creates columns with the types of `declared` from texts, one for each column in `values`; `None` is null. `name`
    /// returns what has the values at an index.
    ///
    /// # Errors
    /// A value does not have its column's type, or a path cannot represent the type.
    pub fn of_texts(
        declared: &Schema,
        values: Vec<Vec<Option<String>>>,
        name: impl Fn(usize) -> String,
    ) -> Result<Self> {
        let of_texts = Self {
            fields: declared
                .fields()
                .iter()
                .map(|field| Arc::new(Field::new(field.name(), DataType::Utf8, true)))
                .collect(),
            values: values.into_iter().map(|texts| texts.into_iter().map(ScalarValue::Utf8).collect()).collect(),
        };
        of_texts.with_types(declared, name)
    }

    /// Creates the columns of `directories` by the `key=value` directories that lead to them from `root`. They get the names
    /// in `names` from which theirs differ by case, and the types in `declared`. `name` returns what messages call a
    /// directory.
    ///
    /// # Errors
    /// The directories have different keys, or a value does not have its column's type.
    pub fn of_directories<'a>(
        root: &Path,
        directories: &[Path],
        names: impl IntoIterator<Item = &'a str>,
        declared: &[&Schema],
        name: impl Fn(usize) -> String,
    ) -> Result<Self> {
        // The last part is the name of a file.
        let keys: Vec<_> = directories.iter().map(|directory| keys(root, &directory.clone().join("0"))).collect();
        let columns = Self::infer(&keys, &name)?.with_names(names);
        declared.iter().try_fold(columns, |columns, declared| columns.with_types(declared, &name))
    }

    /// Whether these columns alone decide a filter. Constants count, too: the optimizer may reduce such a filter to one.
    pub fn decide(&self, filter: &Expr) -> bool {
        let columns = filter.column_refs();
        !self.fields.is_empty()
            && !filter.is_volatile()
            && columns.iter().all(|column| self.fields.iter().any(|field| field.name() == column.name()))
    }

    /// Returns whether each file may have rows that pass the filters, which these columns [decide](Self::decide).
    ///
    /// # Errors
    /// A filter cannot be evaluated.
    pub fn passing(&self, session: &dyn Session, filters: &[Expr]) -> datafusion_common::Result<Vec<bool>> {
        let mut passing = vec![true; self.values.len()];
        if filters.is_empty() || passing.is_empty() {
            return Ok(passing);
        }
        let schema = Arc::new(Schema::new(self.fields.clone()));
        let column =
            |column: usize| ScalarValue::iter_to_array(self.values.iter().map(|values| values[column].clone()));
        let columns = (0..self.fields.len()).map(column).collect::<datafusion_common::Result<_>>()?;
        let values = RecordBatch::try_new(Arc::clone(&schema), columns)?;
        let schema = DFSchema::try_from(schema)?;
        for filter in filters {
            let passes = session.create_physical_expr(filter.clone(), &schema)?.evaluate(&values)?;
            let passes = passes.into_array(passing.len())?;
            for (passing, passes) in passing.iter_mut().zip(passes.as_boolean()) {
                *passing &= passes.unwrap_or(false);
            }
        }
        Ok(passing)
    }

    /// Creates the columns of a table without files.
    pub(crate) fn of_no_file(columns: &[FieldRef]) -> Self {
        let fields = columns.iter().map(|column| Arc::new(column.as_ref().clone().with_nullable(true)));
        Self { fields: fields.collect(), values: Vec::new() }
    }

    /// Creates columns with these values for each file, one for each column.
    pub(crate) fn of_values(columns: &[FieldRef], values: Vec<Vec<ScalarValue>>) -> Self {
        Self { values, ..Self::of_no_file(columns) }
    }

    /// Creates columns that are null in each of `files` files.
    ///
    /// # Errors
    /// The type of a column does not support nulls.
    pub fn nulls(columns: &[FieldRef], files: usize) -> datafusion_common::Result<Self> {
        let nulls: Vec<_> =
            columns.iter().map(|column| ScalarValue::try_from(column.data_type())).collect::<Result<_, _>>()?;
        let fields = columns.iter().map(|column| Arc::new(column.as_ref().clone().with_nullable(true)));
        Ok(Self { fields: fields.collect(), values: vec![nulls; files] })
    }

    /// Whether a column is null in some file.
    pub fn has_null(&self, column: &str) -> bool {
        let position = self.fields.iter().position(|field| field.name() == column);
        let is_null =
            |position| move |values: &Vec<ScalarValue>| values.get(position).is_some_and(ScalarValue::is_null);
        position.is_some_and(|position| self.values.iter().any(is_null(position)))
    }

    /// Removes a column.
    pub fn without(mut self, column: &str) -> Self {
        if let Some(position) = self.fields.iter().position(|field| field.name() == column) {
            self.fields.remove(position);
            for values in &mut self.values {
                values.remove(position);
            }
        }
        self
    }

    /// Gives the columns the names in `names` from which theirs differ only by case, unless another column has the name.
    pub(crate) fn with_names<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        for name in names {
            let is_same = |field: &FieldRef| field.name().to_lowercase() == name.to_lowercase();
            let mut same = self.fields.iter_mut().filter(|field| is_same(field));
            if let (Some(field), None) = (same.next(), same.next()) {
                *field = Arc::new(field.as_ref().clone().with_name(name));
            }
        }
        self
    }

    /// Sets the types of the columns that `declared` contains. Its other columns are ignored.
    ///
    /// Supported types are text, booleans, integers, decimals, floating point numbers, dates and timestamps. A value
    /// must be exact in its type: digits or a time of day must not be cut off. A text is cut to the length that
    /// [`text_of_length`] declares, with a warning.
    pub(crate) fn with_types(&self, declared: &Schema, file_name: impl Fn(usize) -> String) -> Result<Self> {
        let mut typed = self.clone();
        for (position, field) in self.fields.iter().enumerate() {
            let Ok(declared) = declared.field_with_name(field.name()) else { continue };
            let (declared, length) = (declared.data_type(), Length::of(declared));
            let Some(data_type) = type_in_path(declared) else {
                let (column, declared) = (field.name().clone(), declared.clone());
                return Err(ErrorKind::PartitionType { column, declared }.into());
            };
            if data_type == *field.data_type() && length.is_none() {
                continue;
            }
            let mut cut: Option<(usize, String, usize)> = None;
            for (index, values) in typed.values.iter_mut().enumerate() {
                let value = &mut values[position];
                // A value read as an integer prints as the text in the path.
                let mut text = if value.is_null() { None } else { Some(value.to_string()) };
                if let (Some(text), Some(length)) = (&mut text, length)
                    && length.cut(text)
                {
                    let (_, _, count) = cut.get_or_insert_with(|| (index, text.clone(), 0));
                    *count += 1;
                }
                *value = read(text.as_deref(), &data_type).ok_or_else(|| ErrorKind::PartitionValue {
                    file: file_name(index),
                    column: field.name().clone(),
                    value: text.unwrap_or_default(),
                    declared: data_type.clone(),
                })?;
            }
            if let Some((index, value, count)) = cut {
                let (file, column) = (file_name(index), field.name());
                log::warn!("{file}: column \"{column}\" of the path is cut to its length, {value:?}; files: {count}");
            }
            typed.fields[position] = Arc::new(Field::new(field.name(), data_type, true));
        }
        Ok(typed)
    }

    /// Returns the columns, in the order of the directories.
    pub fn fields(&self) -> &[FieldRef] {
        &self.fields
    }

    /// Returns the values for the file at `index` of the listing, one for each field.
    pub fn values(&self, index: usize) -> &[ScalarValue] {
        self.values.get(index).map_or(&[], Vec::as_slice)
    }
}

/// Extends statistics of a file by those of the columns in its path.
pub(crate) fn over_path_columns(mut statistics: Statistics, values: &[ScalarValue]) -> Statistics {
    let rows = statistics.num_rows;
    statistics.column_statistics.extend(values.iter().map(|value| partition_statistics(value, rows)));
    statistics
}

/// Returns the statistics of a column with the same value throughout a file.
fn partition_statistics(value: &ScalarValue, rows: Precision<usize>) -> ColumnStatistics {
    if rows == Precision::Exact(0) {
        return ColumnStatistics::new_unknown();
    }
    if value.is_null() {
        return ColumnStatistics { null_count: rows, ..ColumnStatistics::new_unknown() };
    }
    ColumnStatistics {
        null_count: Precision::Exact(0),
        min_value: Precision::Exact(value.clone()),
        max_value: Precision::Exact(value.clone()),
        ..ColumnStatistics::new_unknown()
    }
}

/// The keys of a field's metadata for the length of its texts, and whether trailing spaces are removed.
const LENGTH: &str = "tfr.length";
const IS_PADDED: &str = "tfr.is_padded";

/// Declares the maximum length of the texts of a partition column in characters, and whether their trailing spaces are
/// removed: Hive's VARCHAR and CHAR.
pub fn text_of_length(field: Field, length: usize, is_padded: bool) -> Field {
    let declared = [(LENGTH, length.to_string()), (IS_PADDED, is_padded.to_string())];
    field.with_metadata(declared.map(|(key, value)| (key.to_owned(), value)).into())
}

/// The maximum length of texts.
#[derive(Debug, Clone, Copy)]
struct Length {
    chars: usize,
    is_padded: bool,
}

impl Length {
    fn of(field: &Field) -> Option<Self> {
        let metadata = field.metadata();
        let is_padded = metadata.get(IS_PADDED).is_some_and(|is_padded| is_padded == "true");
        Some(Self { chars: metadata.get(LENGTH)?.parse().ok()?, is_padded })
    }

    /// Cuts a text. Returns whether it lost more than trailing spaces.
    fn cut(self, text: &mut String) -> bool {
        let end = text.char_indices().nth(self.chars).map_or(text.len(), |(end, _)| end);
        let rest = text.split_off(end);
        let kept = if self.is_padded { text.trim_end_matches(' ').len() } else { end };
        text.truncate(kept);
        let rest = if self.is_padded { rest.trim_end_matches(' ') } else { &rest };
        !rest.is_empty()
    }
}

fn names(keys: &[Key]) -> Vec<&str> {
    keys.iter().map(|(key, _)| key.as_str()).collect()
}

/// Returns the `key=value` directories between `root` and the file.
pub(crate) fn keys(root: &Path, file: &Path) -> Vec<Key> {
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

/// Returns the type of a partition column with this declared type, or `None` if it is not supported.
fn type_in_path(declared: &DataType) -> Option<DataType> {
    use DataType::{Boolean, Date32, Decimal128, Decimal256, LargeUtf8, Timestamp, Utf8, Utf8View};
    match declared {
        Utf8 | LargeUtf8 | Utf8View => Some(Utf8),
        Boolean | Date32 | Timestamp(..) | Decimal128(..) | Decimal256(..) => Some(declared.clone()),
        number if number.is_integer() || matches!(number, DataType::Float32 | DataType::Float64) => {
            Some(number.clone())
        }
        _ => None,
    }
}

/// Parses a value. `None` if the text does not have this type, or is not exact in it.
fn read(text: Option<&str>, data_type: &DataType) -> Option<ScalarValue> {
    let Some(text) = text else { return ScalarValue::try_from(data_type).ok() };
    // Digits that a cast would cut off.
    let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
    let digits = fraction.find(|c: char| !c.is_ascii_digit()).map_or(fraction, |end| &fraction[..end]);
    let digits = digits.trim_end_matches('0').len();
    let is_whole = match data_type {
        DataType::Date32 => !text.contains(':'),
        DataType::Timestamp(unit, _) => digits <= 3 * *unit as usize,
        DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => {
            !text.contains(['e', 'E']) && usize::try_from(*scale).is_ok_and(|scale| digits <= scale)
        }
        _ => true,
    };
    let value = ScalarValue::from(text).cast_to(data_type).ok()?;
    // A number out of the range of its type.
    let is_beyond = match value {
        ScalarValue::Float32(Some(value)) => value.is_infinite(),
        ScalarValue::Float64(Some(value)) => value.is_infinite(),
        _ => false,
    } && text.contains(|c: char| c.is_ascii_digit());
    (is_whole && !is_beyond && !value.is_null()).then_some(value)
}

/// Whether the text is an `Int64` that prints as the same text.
fn is_integer(text: &str) -> bool {
    text.parse::<i64>().is_ok_and(|value| value.to_string() == text)
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
    fn partition_value_with_leading_zero_is_text() -> Result<()> {
        let columns = columns(&["m=01", "m=12"])?;
        assert_eq!(columns.values(0), [ScalarValue::from("01")]);
        Ok(())
    }

    #[test]
    fn partition_types_of_the_writer_override_inferred_types() -> Result<()> {
        let known = |name, data_type| Arc::new(Field::new(name, data_type, false));
        let types = [known("n", DataType::Int16), known("d", DataType::Date32), known("x", DataType::Utf8View)];
        let directories = ["n=7/d=2026-01-01/x=1", "n=-1/d=__HIVE_DEFAULT_PARTITION__/x=a%2Fb"];
        let columns = columns(&directories)?.with_written_types(&types, |index| format!("file {index}"))?;
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
        let error = columns(&["n=7", "n=70000"])?.with_written_types(&[known], |index| format!("file {index}"));
        let message = error.expect_err("no 16 bits").to_string();
        assert_eq!(message, "file 1: partition n=70000 is not of type Int16, which the manifest records");
        Ok(())
    }

    #[test]
    fn partition_values_are_parsed_as_the_declared_type() -> Result<()> {
        use DataType::{Boolean, Date32, Decimal128, Float64, Int8, Timestamp, UInt16, Utf8, Utf8View};
        use arrow_schema::TimeUnit::{Millisecond, Nanosecond};
        let typed = |value: &str, data_type: &DataType| {
            let inferred = columns(&[&format!("c={value}"), &format!("c={NULL_PARTITION}")])?;
            let typed = inferred.with_types(&Schema::new(vec![Field::new("c", data_type.clone(), true)]), |index| {
                format!("file {index}")
            })?;
            assert!(typed.values(1)[0].is_null());
            assert_eq!(typed.values(1)[0].data_type(), *typed.fields()[0].data_type());
            assert_eq!(typed.values(0)[0].data_type(), *typed.fields()[0].data_type());
            Ok::<_, crate::error::Error>(typed.values(0)[0].to_string())
        };
        for (value, data_type, expected) in [
            ("2026-02-28", Date32, "2026-02-28"),
            ("2026-02-28 12%3A30%3A00", Timestamp(Nanosecond, None), "1772281800000000000"),
            ("2026-02-28 12%3A30%3A00.500", Timestamp(Millisecond, None), "1772281800500"),
            ("007", UInt16, "7"),
            ("7", Utf8View, "7"),
            ("007", Utf8, "007"),
            ("1.50", Decimal128(5, 1), "1.5"),
            ("3", Decimal128(5, 2), "3.00"),
            ("0.1", Float64, "0.1"),
            ("true", Boolean, "true"),
        ] {
            assert_eq!(typed(value, &data_type)?, expected, "{value} as {data_type}");
        }
        for (value, data_type) in [
            ("2026-02-30", Date32),
            ("", Date32),
            ("2026-02-28 12%3A30%3A00", Date32),
            ("2026-02-28 12%3A30%3A00.0005", Timestamp(Millisecond, None)),
            ("200", Int8),
            ("x", Int8),
            ("1.25", Decimal128(5, 1)),
            ("1e-1", Decimal128(5, 1)),
            ("maybe", Boolean),
            ("1e400", Float64),
        ] {
            assert!(typed(value, &data_type).is_err(), "{value} as {data_type}");
        }
        let message = typed("x%3Ay", &Int8).expect_err("no number").to_string();
        assert_eq!(message, "file 0: directory \"c=x:y\": \"x:y\" is not a value of the declared type Int8");
        let message = typed("x", &DataType::new_list(Int8, true)).expect_err("a list").to_string();
        assert_eq!(
            message,
            "column \"c\" of the path: declared as List(Int8), which a directory name cannot represent"
        );
        Ok(())
    }

    #[test]
    fn declared_names_differ_by_case() -> Result<()> {
        let names = |directory: &str, declared: &[&str]| {
            let columns = columns(&[directory])?.with_names(declared.iter().copied());
            Ok::<_, crate::error::Error>(columns.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>())
        };
        assert_eq!(names("P=1/Q=2", &["p", "r"])?, ["p", "Q"]);
        assert_eq!(names("P=1/p=2", &["p"])?, ["P", "p"]);
        Ok(())
    }

    #[test]
    fn texts_are_cut_to_their_length() -> Result<()> {
        for (value, is_padded, expected) in [
            ("abcdef", true, "abc"),
            ("ab  ", true, "ab"),
            ("ab  ", false, "ab "),
            ("äöüß", false, "äöü"),
            ("12345", false, "123"),
        ] {
            let field = text_of_length(Field::new("c", DataType::Utf8, true), 3, is_padded);
            let typed = columns(&[&format!("c={value}")])?.with_types(&Schema::new(vec![field]), |_| String::new())?;
            assert_eq!(typed.values(0), [ScalarValue::from(expected)], "{value:?}");
            assert!(typed.fields()[0].metadata().is_empty());
        }
        Ok(())
    }

    #[test]
    fn partition_directories_with_different_keys_are_rejected() {
        let message = columns(&["a=1", "a=1/b=2"]).expect_err("mismatch").to_string();
        assert_eq!(message, "file 1: partition directories [a, b], but file 0 has [a]");
    }
}
