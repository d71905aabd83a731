//! Formats the values of partition columns as directory names.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, StringArray};
use arrow_cast::display::FormatOptions;
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::DataType;
use datafusion_common::{Result, internal_datafusion_err};
use tfr_arrow::nested::value_type;
use tfrecord_shards::NULL_PARTITION;

use crate::error::refused;

/// The format of Hive and Spark, whose readers parse it.
const TIMESTAMP: &str = "%Y-%m-%d %H:%M:%S%.f";

/// With the offset. Without it, the hour repeated at the end of daylight saving time would be ambiguous.
const TIMESTAMP_WITH_ZONE: &str = "%Y-%m-%d %H:%M:%S%.f%:z";

/// Whether the values of a column can name directories: scalar values that can be parsed from their text.
pub(super) fn is_partition_type(data_type: &DataType) -> bool {
    match value_type(data_type) {
        _ if is_text(data_type) => true,
        DataType::Boolean | DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => true,
        DataType::Time32(_) | DataType::Time64(_) => true,
        other => other.is_numeric(),
    }
}

/// Whether the values of a column are text.
pub(super) fn is_text(data_type: &DataType) -> bool {
    matches!(value_type(data_type), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Formats every value as text. Null and the empty text, for which Hive has no directory, become null. The name of Hive's
/// directory of nulls is an error, with the row after `rows_before` others.
pub(super) fn partition_text(values: &ArrayRef, column: &str, rows_before: u64) -> Result<StringArray> {
    let format =
        FormatOptions::new().with_timestamp_format(Some(TIMESTAMP)).with_timestamp_tz_format(Some(TIMESTAMP_WITH_ZONE));
    let options = CastOptions { safe: false, format_options: format };
    let values = match values.data_type() {
        // Whole days, by Arrow's definition.
        DataType::Date64 => Arc::new(cast_with_options(values, &DataType::Date32, &options)?),
        _ => Arc::clone(values),
    };
    let text = cast_with_options(&values, &DataType::Utf8, &options)?;
    let text = text.as_string_opt::<i32>().ok_or_else(|| internal_datafusion_err!("a cast to text gave no text"))?;
    if let Some(row) = text.iter().position(|value| value == Some(NULL_PARTITION)) {
        let row = rows_before + row as u64;
        return Err(refused(format!(
            "row {row}, partition column {column:?}: the text {NULL_PARTITION:?} cannot be a partition value: it names the \
             directory of nulls"
        ))
        .into());
    }
    Ok(text.iter().map(|value| value.filter(|value| !value.is_empty())).collect())
}

#[cfg(test)]
mod tests {
    use arrow_array::types::Int8Type;
    use arrow_array::{
        BooleanArray, Date32Array, Date64Array, Decimal128Array, DictionaryArray, Float64Array,
        TimestampMicrosecondArray, TimestampSecondArray,
    };

    use super::*;

    fn texts(values: ArrayRef) -> Vec<Option<String>> {
        assert!(is_partition_type(values.data_type()));
        let text = partition_text(&values, "c", 0).expect("text");
        text.iter().map(|value| value.map(str::to_owned)).collect()
    }

    #[test]
    fn values_are_written_as_hive_and_spark_write_them() -> Result<()> {
        let some = |texts: &[&str]| texts.iter().map(|text| Some((*text).to_owned())).collect::<Vec<_>>();
        assert_eq!(texts(Arc::new(BooleanArray::from(vec![true, false]))), some(&["true", "false"]));
        assert_eq!(texts(Arc::new(Date32Array::from(vec![20454]))), some(&["2026-01-01"]));
        assert_eq!(texts(Arc::new(Date64Array::from(vec![20454 * 86_400_000]))), some(&["2026-01-01"]));
        assert_eq!(texts(Arc::new(Float64Array::from(vec![1.0, 0.1]))), some(&["1.0", "0.1"]));
        let decimals = Decimal128Array::from(vec![1230]).with_precision_and_scale(10, 2)?;
        assert_eq!(texts(Arc::new(decimals)), some(&["12.30"]));
        let micros = TimestampMicrosecondArray::from(vec![1_767_258_000_000_000, 1_767_258_000_500_000]);
        assert_eq!(texts(Arc::new(micros)), some(&["2026-01-01 09:00:00", "2026-01-01 09:00:00.500"]));
        let zoned = TimestampSecondArray::from(vec![1_767_258_000]).with_timezone("+05:30");
        assert_eq!(texts(Arc::new(zoned)), some(&["2026-01-01 14:30:00+05:30"]));
        let words: DictionaryArray<Int8Type> = [Some("b/a"), None, Some("")].into_iter().collect();
        assert_eq!(texts(Arc::new(words)), [Some("b/a".to_owned()), None, None]);
        Ok(())
    }

    #[test]
    fn bytes_lists_spans_and_nulls_name_no_directories() {
        let item = Arc::new(arrow_schema::Field::new("item", DataType::Int64, true));
        let span = DataType::Duration(arrow_schema::TimeUnit::Second);
        // A column of type null has no text values either.
        for data_type in [DataType::Binary, DataType::List(item), span, DataType::Null] {
            assert!(!is_partition_type(&data_type), "{data_type}");
        }
    }
}
