//! The types that columns have in a file.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray as _, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;

use crate::cli::TableFormat;

/// Bytes of values that a string array with 32-bit offsets takes in any case; longer batches are cut.
const PIECE: usize = 1 << 30;

/// What the columns of a query become in a file: views, which are how the engine holds strings, become strings, and in
/// Arrow files dictionaries inside of other types become their values, since a file has one dictionary for all batches.
/// Parquet has no times in seconds and no dates in milliseconds; written as they are, others would read bare numbers.
#[derive(Clone, Debug)]
pub struct FileTypes {
    schema: SchemaRef,
    differs: bool,
}

impl FileTypes {
    /// The types of columns with `schema`.
    pub fn new(schema: &SchemaRef, format: TableFormat) -> Self {
        // In text there are no types.
        let unpacked = match format {
            TableFormat::Csv | TableFormat::Json | TableFormat::JsonLines => Unpacked::Nothing,
            TableFormat::Parquet => Unpacked::ViewsAndSeconds,
            TableFormat::Arrow => Unpacked::ViewsAndInnerDictionaries,
        };
        let fields: Fields = schema.fields().iter().map(|field| unpacked.field(field, false)).collect();
        if fields == *schema.fields() {
            return Self { schema: Arc::clone(schema), differs: false };
        }
        Self { schema: Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())), differs: true }
    }

    /// The schema of the file.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// `batch` with these types, in pieces if it is very large.
    pub fn apply(&self, batch: &RecordBatch) -> Result<Vec<RecordBatch>, ArrowError> {
        if !self.differs {
            return Ok(vec![batch.clone()]);
        }
        let mut pieces = Vec::new();
        cut(batch, PIECE, &mut pieces);
        pieces.iter().map(|piece| self.cast(piece)).collect()
    }

    fn cast(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        // Milliseconds may not reach as far as seconds did.
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let columns = batch.columns().iter().zip(self.schema.fields());
        let columns: Vec<ArrayRef> = columns
            .map(|(column, field)| cast_with_options(column, field.data_type(), &options))
            .collect::<Result<_, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
    }
}

/// Cuts a batch in halves until the values of a piece take at most so many bytes, or it is one row.
fn cut(batch: &RecordBatch, most: usize, pieces: &mut Vec<RecordBatch>) {
    let rows = batch.num_rows();
    if rows > 1 && view_bytes(batch) > most {
        cut(&batch.slice(0, rows / 2), most, pieces);
        cut(&batch.slice(rows / 2, rows - rows / 2), most, pieces);
    } else {
        pieces.push(batch.clone());
    }
}

/// Bytes that the values of views take when they lie one after the other: views may share them, or use a part.
fn view_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|column| array_bytes(column.as_ref())).sum()
}

fn array_bytes(array: &dyn Array) -> usize {
    match array.data_type() {
        DataType::Utf8View => array.as_string_view().lengths().map(|len| len as usize).sum(),
        DataType::BinaryView => array.as_binary_view().lengths().map(|len| len as usize).sum(),
        // Slices of lists share all their items, so cutting would not help them.
        _ => 0,
    }
}

/// What is replaced by the plain type of its values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unpacked {
    Nothing,
    ViewsAndSeconds,
    ViewsAndInnerDictionaries,
}

impl Unpacked {
    /// `field` as it is in the file; whether it is `inside` of another.
    fn field(self, field: &FieldRef, inside: bool) -> FieldRef {
        let data_type = self.data_type(field.data_type(), inside);
        match data_type == *field.data_type() {
            true => Arc::clone(field),
            false => Arc::new(field.as_ref().clone().with_data_type(data_type)),
        }
    }

    fn data_type(self, data_type: &DataType, inside: bool) -> DataType {
        let inner = |field: &FieldRef| self.field(field, true);
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
            DataType::List(item) => DataType::List(inner(item)),
            DataType::LargeList(item) => DataType::LargeList(inner(item)),
            DataType::ListView(item) => DataType::ListView(inner(item)),
            DataType::LargeListView(item) => DataType::LargeListView(inner(item)),
            DataType::FixedSizeList(item, len) => DataType::FixedSizeList(inner(item), *len),
            DataType::Map(entries, sorted) => DataType::Map(inner(entries), *sorted),
            DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect()),
            // Runs of other values would have to be found again.
            DataType::RunEndEncoded(_, values) if inner(values) != *values => inner(values).data_type().clone(),
            DataType::Dictionary(_, values) if inside && self == Self::ViewsAndInnerDictionaries => {
                self.data_type(values, true)
            }
            DataType::Dictionary(keys, values) => {
                DataType::Dictionary(keys.clone(), Box::new(self.data_type(values, true)))
            }
            other => other.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        Date32Array, Date64Array, DictionaryArray, Int64Array, ListArray, StringArray, StringViewArray, StructArray,
        Time32MillisecondArray, Time32SecondArray, TimestampMillisecondArray, TimestampSecondArray,
    };
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::{Field, Int8Type};

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
    fn times_in_seconds_are_milliseconds_in_parquet() {
        let seconds = TimestampSecondArray::from(vec![Some(1_600_000_000), None]).with_timezone("+02:00");
        let item = Arc::new(Field::new("item", seconds.data_type().clone(), true));
        let list = ListArray::new(item, OffsetBuffer::from_lengths([2, 0]), Arc::new(seconds.clone()), None);
        let columns: [(&str, ArrayRef); 4] = [
            ("t", Arc::new(seconds)),
            ("l", Arc::new(list)),
            ("d", Arc::new(Date64Array::from(vec![Some(-86_400_000), None]))),
            ("u", Arc::new(Time32SecondArray::from(vec![Some(5), None]))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let found = FileTypes::new(&batch.schema(), TableFormat::Parquet).apply(&batch).unwrap().remove(0);
        let millis = TimestampMillisecondArray::from(vec![Some(1_600_000_000_000), None]).with_timezone("+02:00");
        assert_eq!(found["t"].as_primitive(), &millis);
        assert_eq!(found["l"].as_list::<i32>().values().as_primitive(), &millis);
        assert_eq!(found["d"].as_primitive(), &Date32Array::from(vec![Some(-1), None]));
        assert_eq!(found["u"].as_primitive(), &Time32MillisecondArray::from(vec![Some(5000), None]));
        assert_eq!(FileTypes::new(&batch.schema(), TableFormat::Arrow).schema(), &batch.schema());

        let far = one_column(Arc::new(TimestampSecondArray::from(vec![i64::MAX / 2])));
        assert!(FileTypes::new(&far.schema(), TableFormat::Parquet).apply(&far).is_err());
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
    fn what_is_too_large_is_cut() {
        let lengths = [3, 0, 9, 4, 1, 20, 2];
        let batch = one_column(Arc::new(StringViewArray::from_iter_values(lengths.map(|len| "x".repeat(len)))));
        let mut pieces = Vec::new();
        cut(&batch, 10, &mut pieces);
        assert!(pieces.iter().all(|piece| piece.num_rows() == 1 || view_bytes(piece) <= 10));
        assert!(pieces.len() > 3 && pieces.len() < lengths.len());
        assert_eq!(arrow::compute::concat_batches(&batch.schema(), &pieces).unwrap(), batch);
    }
}
