//! Column types in a file or a stream.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray as _, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, FieldRef, Fields, IntervalUnit, Schema, SchemaRef,
    TimeUnit,
};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use tfr_arrow::labels::without_labels;
use tfr_arrow::nested::{any_type, children, map_children};

use crate::cli::TableFormat;

/// Bytes of values that always fit into a string array with 32-bit offsets. Longer batches are split.
const PIECE: usize = 1 << 30;

/// The types of a query's columns in a file.
///
/// Views, the engine's representation of strings, become strings. In Arrow files, dictionaries inside other types
/// become their values, because a file has one dictionary for all batches. Parquet supports neither seconds nor dates
/// in milliseconds, so times become milliseconds and dates days. Otherwise its writer would store bare integers, which
/// only Arrow's own readers interpret as times. Nor does it support decimals of negative scale, which get their zeros,
/// and dictionaries of nulls.
#[derive(Clone, Debug)]
pub struct FileTypes {
    schema: SchemaRef,
    differs: bool,
}

impl FileTypes {
    /// Determines the types of columns with `schema`.
    pub fn new(schema: &SchemaRef, format: TableFormat) -> Self {
        // Text formats have no types.
        Self::with(
            schema,
            match format {
                TableFormat::Csv | TableFormat::Json | TableFormat::JsonLines => Replaced::Nothing,
                TableFormat::Parquet => Replaced::ViewsAndSeconds,
                TableFormat::Arrow => Replaced::ViewsAndInnerDictionaries,
            },
        )
    }

    /// Determines the types of columns with `schema` in an Arrow stream, which can replace dictionaries.
    pub fn of_stream(schema: &SchemaRef) -> Self {
        Self::with(schema, Replaced::Views)
    }

    fn with(schema: &SchemaRef, replaced: Replaced) -> Self {
        // Names of labels are those of one table, and a query may put values of another into the column.
        let fields: Fields = schema.fields().iter().map(|field| without_labels(&replaced.field(field))).collect();
        if fields == *schema.fields() {
            return Self { schema: Arc::clone(schema), differs: false };
        }
        Self { schema: Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())), differs: true }
    }

    /// Returns the schema of the file.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns `batch` with these types, in several pieces if it is very large.
    pub fn apply(&self, batch: &RecordBatch) -> Result<Vec<RecordBatch>, ArrowError> {
        if !self.differs {
            return Ok(vec![batch.clone()]);
        }
        let mut pieces = Vec::new();
        cut(batch, PIECE, &mut pieces);
        pieces.iter().map(|piece| self.cast(piece)).collect()
    }

    fn cast(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let columns = batch.columns().iter().zip(self.schema.fields());
        let columns: Vec<ArrayRef> = columns
            .map(|(column, field)| {
                exact_cast(column, field.data_type())
                    .map_err(|error| ArrowError::CastError(format!("column {:?}: {error}", field.name())))
            })
            .collect::<Result<_, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
    }
}

/// Whether the Parquet writer supports the type. It panics on some of the others.
pub fn is_in_parquet(data_type: &DataType) -> bool {
    match data_type {
        DataType::Union(..) | DataType::Interval(IntervalUnit::MonthDayNano) | DataType::FixedSizeBinary(0) => false,
        DataType::Struct(fields) if fields.is_empty() => false,
        other => children(other).into_iter().all(is_in_parquet),
    }
}

/// Returns a decimal without fraction that holds the values of one of negative scale.
fn whole_decimal(precision: u8, scale: i8) -> DataType {
    let digits = precision.saturating_add(scale.unsigned_abs()).min(DECIMAL256_MAX_PRECISION);
    match digits <= DECIMAL128_MAX_PRECISION {
        true => DataType::Decimal128(digits, 0),
        false => DataType::Decimal256(digits, 0),
    }
}

/// Casts `array` to another type if no value is lost.
fn exact_cast(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == data_type {
        return Ok(Arc::clone(array));
    }
    // A value that does not fit would become null.
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let cast = cast_with_options(array, data_type, &options)?;
    if any_type(array.data_type(), |data_type| *data_type == DataType::Date64)
        && *cast_with_options(&cast, array.data_type(), &options)? != **array
    {
        return Err(ArrowError::CastError(
            "a date with a time of day, which a Parquet file has no type for: cast it to TIMESTAMP or DATE".to_owned(),
        ));
    }
    Ok(cast)
}

/// Splits a batch in halves until the values of each piece take at most `most` bytes, or it is one row.
fn cut(batch: &RecordBatch, most: usize, pieces: &mut Vec<RecordBatch>) {
    let rows = batch.num_rows();
    if rows > 1 && view_bytes(batch) > most {
        cut(&batch.slice(0, rows / 2), most, pieces);
        cut(&batch.slice(rows / 2, rows - rows / 2), most, pieces);
    } else {
        pieces.push(batch.clone());
    }
}

/// Bytes of the values of views when stored contiguously. Views may share bytes, or use a part of their buffers.
fn view_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|column| array_bytes(column.as_ref())).sum()
}

fn array_bytes(array: &dyn Array) -> usize {
    match array.data_type() {
        DataType::Utf8View => array.as_string_view().lengths().map(|len| len as usize).sum(),
        DataType::BinaryView => array.as_binary_view().lengths().map(|len| len as usize).sum(),
        // Slices of lists share all their items, so splitting would not help.
        _ => 0,
    }
}

/// The types to replace. Views and dictionaries become the plain type of their values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Replaced {
    Nothing,
    Views,
    ViewsAndSeconds,
    ViewsAndInnerDictionaries,
}

impl Replaced {
    /// Returns a column as it is in the file.
    fn field(self, field: &FieldRef) -> FieldRef {
        Arc::new(field.as_ref().clone().with_data_type(self.data_type(field.data_type(), false)))
    }

    /// Returns a type as it is in the file. `inside`: whether it is within another one.
    fn data_type(self, data_type: &DataType, inside: bool) -> DataType {
        let inner = |child: &DataType| self.data_type(child, true);
        match data_type {
            DataType::Utf8View if self != Self::Nothing => DataType::Utf8,
            DataType::BinaryView if self != Self::Nothing => DataType::Binary,
            DataType::Timestamp(TimeUnit::Second, zone) if self == Self::ViewsAndSeconds => {
                DataType::Timestamp(TimeUnit::Millisecond, zone.clone())
            }
            DataType::Time32(TimeUnit::Second) if self == Self::ViewsAndSeconds => {
                DataType::Time32(TimeUnit::Millisecond)
            }
            DataType::Date64 if self == Self::ViewsAndSeconds => DataType::Date32,
            DataType::Decimal32(precision, scale @ ..0)
            | DataType::Decimal64(precision, scale @ ..0)
            | DataType::Decimal128(precision, scale @ ..0)
            | DataType::Decimal256(precision, scale @ ..0)
                if self == Self::ViewsAndSeconds =>
            {
                whole_decimal(*precision, *scale)
            }
            DataType::Dictionary(_, values) if self == Self::ViewsAndSeconds && **values == DataType::Null => {
                DataType::Null
            }
            // If the values change, the runs would have to be computed again.
            DataType::RunEndEncoded(_, values) if inner(values.data_type()) != *values.data_type() => {
                inner(values.data_type())
            }
            DataType::Dictionary(_, values) if inside && self == Self::ViewsAndInnerDictionaries => inner(values),
            // Arrow cannot cast unions.
            DataType::Union(..) => data_type.clone(),
            other => map_children(other, inner),
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        Date64Array, DictionaryArray, Int64Array, ListArray, StringArray, StringViewArray, StructArray,
        Time32SecondArray, TimestampSecondArray,
    };
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::{Date32Type, Field, Int8Type, Time32MillisecondType, TimestampMillisecondType};

    use super::*;

    fn one_column(column: ArrayRef) -> RecordBatch {
        RecordBatch::try_from_iter([("x", column)]).unwrap()
    }

    #[test]
    fn views_become_strings_at_any_depth() {
        let texts = StringViewArray::from(vec!["a", "a text that is longer than a view", "c"]);
        let item = Arc::new(Field::new("item", DataType::Utf8View, true));
        let list = ListArray::new(item, OffsetBuffer::from_lengths([2, 1]), Arc::new(texts), None);
        let batch = one_column(Arc::new(list));
        let types = FileTypes::new(&batch.schema(), TableFormat::Parquet);
        let found = types.apply(&batch).unwrap().remove(0);
        assert_eq!(found.schema().field(0).data_type(), &DataType::new_list(DataType::Utf8, true));
        assert_eq!(found.num_rows(), 2);
        // Text has no types, and other columns stay as they are.
        assert_eq!(FileTypes::new(&batch.schema(), TableFormat::Csv).schema(), &batch.schema());
        let numbers = one_column(Arc::new(Int64Array::from(vec![1])));
        assert_eq!(FileTypes::new(&numbers.schema(), TableFormat::Arrow).apply(&numbers).unwrap(), [numbers]);
    }

    #[test]
    fn times_are_of_units_that_parquet_has() {
        let seconds = TimestampSecondArray::from(vec![Some(1_600_000_000), None]).with_timezone("UTC");
        let item = Arc::new(Field::new("item", DataType::Time32(TimeUnit::Second), true));
        let times = Arc::new(Time32SecondArray::from(vec![1, 86_399]));
        let times = ListArray::new(item, OffsetBuffer::from_lengths([2, 0]), times, None);
        let days = Date64Array::from(vec![-86_400_000, 0]);
        let columns = [("time", Arc::new(seconds) as ArrayRef), ("times", Arc::new(times)), ("day", Arc::new(days))];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let found = FileTypes::new(&batch.schema(), TableFormat::Parquet).apply(&batch).unwrap().remove(0);
        assert_eq!(found["time"].as_primitive::<TimestampMillisecondType>().value(0), 1_600_000_000_000);
        assert_eq!(found["time"].data_type(), &DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())));
        let times = found["times"].as_list::<i32>().values().as_primitive::<Time32MillisecondType>().clone();
        assert_eq!(times.values(), &[1000, 86_399_000]);
        assert_eq!(found["day"].as_primitive::<Date32Type>().values(), &[-1, 0]);
        assert_eq!(FileTypes::new(&batch.schema(), TableFormat::Arrow).schema(), &batch.schema());
    }

    #[test]
    fn parquet_times_outside_the_unit_are_rejected() {
        let long = Arc::new(TimestampSecondArray::from(vec![i64::MAX])) as ArrayRef;
        let noon = Arc::new(Date64Array::from(vec![-43_200_000])) as ArrayRef;
        for (column, expected) in
            [(long, "column \"x\": Arithmetic overflow"), (noon, "column \"x\": Cast error: a date with")]
        {
            let batch = one_column(column);
            let error = FileTypes::new(&batch.schema(), TableFormat::Parquet).apply(&batch).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn inner_dictionaries_become_their_values_in_arrow_files() {
        let words: DictionaryArray<Int8Type> = [Some("a"), None, Some("a")].into_iter().collect();
        let of_words = |name: &str| Arc::new(Field::new(name, words.data_type().clone(), true));
        let list =
            ListArray::new(of_words("item"), OffsetBuffer::from_lengths([2, 0, 1]), Arc::new(words.clone()), None);
        let structs = StructArray::from(vec![(of_words("x"), Arc::new(words.clone()) as ArrayRef)]);
        let columns =
            [("word", Arc::new(words.clone()) as ArrayRef), ("list", Arc::new(list)), ("struct", Arc::new(structs))];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let types = FileTypes::new(&batch.schema(), TableFormat::Arrow);
        let found = types.apply(&batch).unwrap().remove(0);
        let unpacked = Field::new("x", DataType::Utf8, true);
        let expected = [
            words.data_type().clone(),
            DataType::new_list(DataType::Utf8, true),
            DataType::Struct(vec![unpacked].into()),
        ];
        assert!(found.schema().fields().iter().map(|field| field.data_type()).eq(&expected));
        assert_eq!(found["list"].as_list::<i32>().value(0).as_ref(), &StringArray::from(vec![Some("a"), None]));
        assert_eq!(FileTypes::new(&batch.schema(), TableFormat::Parquet).schema(), &batch.schema());
    }

    #[test]
    fn large_batches_are_cut_by_bytes() {
        let lengths = [3, 0, 9, 4, 1, 20, 2];
        let batch = one_column(Arc::new(StringViewArray::from_iter_values(lengths.map(|len| "x".repeat(len)))));
        let mut pieces = Vec::new();
        cut(&batch, 10, &mut pieces);
        assert!(pieces.iter().all(|piece| piece.num_rows() == 1 || view_bytes(piece) <= 10));
        assert!(pieces.len() > 3 && pieces.len() < lengths.len());
        assert_eq!(arrow::compute::concat_batches(&batch.schema(), &pieces).unwrap(), batch);
    }
}
