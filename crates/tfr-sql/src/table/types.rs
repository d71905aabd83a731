//! The types that columns have in a file.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray as _, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;

use crate::cli::TableFormat;

/// Bytes of values that a string array with 32-bit offsets takes in any case; longer batches are cut.
const PIECE: usize = 1 << 30;

/// What the columns of a query become in a file: views, which are how the engine holds strings, become strings.
#[derive(Clone, Debug)]
pub struct FileTypes {
    schema: SchemaRef,
    has_views: bool,
}

impl FileTypes {
    /// The types of columns with `schema`.
    pub fn new(schema: &SchemaRef, format: TableFormat) -> Self {
        // In text there are no types.
        let keeps_types = matches!(format, TableFormat::Parquet | TableFormat::Arrow);
        if !keeps_types || !schema.fields().iter().any(|field| has_view(field.data_type())) {
            return Self { schema: Arc::clone(schema), has_views: false };
        }
        let fields: Fields = schema.fields().iter().map(without_views).collect();
        Self { schema: Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())), has_views: true }
    }

    /// The schema of the file.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// `batch` with these types, in pieces if it is very large.
    pub fn apply(&self, batch: &RecordBatch) -> Result<Vec<RecordBatch>, ArrowError> {
        if !self.has_views {
            return Ok(vec![batch.clone()]);
        }
        let mut pieces = Vec::new();
        cut(batch, PIECE, &mut pieces);
        pieces.iter().map(|piece| self.cast(piece)).collect()
    }

    fn cast(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let columns = batch.columns().iter().zip(self.schema.fields());
        let columns: Vec<ArrayRef> =
            columns.map(|(column, field)| cast(column, field.data_type())).collect::<Result<_, _>>()?;
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

fn has_view(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8View | DataType::BinaryView => true,
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => has_view(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_view(field.data_type())),
        DataType::Dictionary(_, values) => has_view(values),
        _ => false,
    }
}

fn without_views(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::List(item) => DataType::List(without_views(item)),
        DataType::LargeList(item) => DataType::LargeList(without_views(item)),
        DataType::ListView(item) => DataType::ListView(without_views(item)),
        DataType::LargeListView(item) => DataType::LargeListView(without_views(item)),
        DataType::FixedSizeList(item, len) => DataType::FixedSizeList(without_views(item), *len),
        DataType::Map(entries, sorted) => DataType::Map(without_views(entries), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(without_views).collect()),
        DataType::Dictionary(keys, values) => {
            let values = without_views(&Arc::new(Field::new("", values.as_ref().clone(), true)));
            DataType::Dictionary(keys.clone(), Box::new(values.data_type().clone()))
        }
        _ => return Arc::clone(field),
    };
    Arc::new(field.as_ref().clone().with_data_type(data_type))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, ListArray, StringViewArray};
    use arrow::buffer::OffsetBuffer;

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
