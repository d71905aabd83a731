//! Dictionaries for an Arrow IPC file, which has one for each column: every batch brings its own, so they are merged.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray as _, UInt64Array, new_empty_array};
use arrow::compute::{cast, concat, take};
use arrow::datatypes::{DataType, SchemaRef, UInt64Type};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use arrow::row::{OwnedRow, RowConverter, SortField};

/// The dictionaries of a file's columns, as far as they are known.
pub struct Dictionaries {
    columns: Vec<Option<Dictionary>>,
}

impl Dictionaries {
    /// Empty dictionaries for columns with `schema`, which has none inside of lists and structs.
    pub fn new(schema: &SchemaRef) -> Result<Self, ArrowError> {
        let columns = schema.fields().iter().map(|field| match field.data_type() {
            DataType::Dictionary(_, values) => Dictionary::new(values).map(Some),
            _ => Ok(None),
        });
        Ok(Self { columns: columns.collect::<Result<_, _>>()? })
    }

    /// `batch` with dictionaries that begin with what was in those before.
    pub fn merge(&mut self, batch: RecordBatch) -> Result<RecordBatch, ArrowError> {
        if self.columns.iter().all(Option::is_none) {
            return Ok(batch);
        }
        let schema = batch.schema();
        let mut columns = Vec::with_capacity(batch.num_columns());
        for (column, dictionary) in batch.columns().iter().zip(&mut self.columns) {
            columns.push(match dictionary {
                Some(dictionary) => dictionary.merge(column)?,
                None => Arc::clone(column),
            });
        }
        RecordBatch::try_new(schema, columns)
    }
}

/// The distinct values of one column, in the order they were met.
struct Dictionary {
    values: ArrayRef,
    known: HashMap<OwnedRow, u64>,
    converter: RowConverter,
}

impl Dictionary {
    fn new(values: &DataType) -> Result<Self, ArrowError> {
        let converter = RowConverter::new(vec![SortField::new(values.clone())])?;
        Ok(Self { values: new_empty_array(values), known: HashMap::new(), converter })
    }

    fn merge(&mut self, column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        let dictionary = column.as_any_dictionary();
        // Their place among all values; of those that are new, their place in the batch's dictionary too.
        let mut places = Vec::with_capacity(dictionary.values().len());
        let mut new = Vec::new();
        for row in self.converter.convert_columns(&[Arc::clone(dictionary.values())])?.iter() {
            let next = self.known.len() as u64;
            let place = *self.known.entry(row.owned()).or_insert_with(|| {
                new.push(places.len() as u64);
                next
            });
            places.push(place);
        }
        if !new.is_empty() {
            let added = take(dictionary.values(), &UInt64Array::from(new), None)?;
            self.values = concat(&[&self.values, &added])?;
        }
        let keys = cast(dictionary.keys(), &DataType::UInt64)?;
        let keys = take(&UInt64Array::from(places), keys.as_primitive::<UInt64Type>(), None)?;
        let DataType::Dictionary(key_type, _) = column.data_type() else { return Ok(Arc::clone(column)) };
        if self.known.len() as u64 > largest_key(key_type) {
            return Err(ArrowError::DictionaryKeyOverflowError);
        }
        let keys = cast(&keys, key_type)?;
        with_values(&keys, Arc::clone(&self.values), key_type)
    }
}

/// How many values the keys tell apart.
fn largest_key(key_type: &DataType) -> u64 {
    match key_type {
        DataType::Int8 => 1 << 7,
        DataType::UInt8 => 1 << 8,
        DataType::Int16 => 1 << 15,
        DataType::UInt16 => 1 << 16,
        DataType::Int32 => 1 << 31,
        DataType::UInt32 => 1 << 32,
        _ => u64::MAX,
    }
}

fn with_values(keys: &ArrayRef, values: ArrayRef, key_type: &DataType) -> Result<ArrayRef, ArrowError> {
    use arrow::array::DictionaryArray;
    use arrow::datatypes::{Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type};
    macro_rules! dictionary {
        ($key:ty) => {
            Arc::new(DictionaryArray::<$key>::try_new(keys.as_primitive::<$key>().clone(), values)?)
        };
    }
    Ok(match key_type {
        DataType::Int8 => dictionary!(Int8Type),
        DataType::Int16 => dictionary!(Int16Type),
        DataType::Int32 => dictionary!(Int32Type),
        DataType::Int64 => dictionary!(Int64Type),
        DataType::UInt8 => dictionary!(UInt8Type),
        DataType::UInt16 => dictionary!(UInt16Type),
        DataType::UInt32 => dictionary!(UInt32Type),
        _ => dictionary!(UInt64Type),
    })
}

#[cfg(test)]
mod tests {
    use arrow::array::{DictionaryArray, StringArray};
    use arrow::datatypes::Int8Type;

    use super::*;

    fn batch(values: &[Option<&str>]) -> RecordBatch {
        let column: DictionaryArray<Int8Type> = values.iter().copied().collect();
        RecordBatch::try_from_iter_with_nullable([("x", Arc::new(column) as ArrayRef, true)]).unwrap()
    }

    fn texts(batch: &RecordBatch) -> ArrayRef {
        cast(batch.column(0), &DataType::Utf8).unwrap()
    }

    #[test]
    fn each_begins_with_the_one_before() {
        let batches = [batch(&[Some("b"), None, Some("a")]), batch(&[Some("c"), Some("a")]), batch(&[None])];
        let mut dictionaries = Dictionaries::new(&batches[0].schema()).unwrap();
        let mut before = StringArray::from(Vec::<&str>::new());
        for batch in batches {
            let merged = dictionaries.merge(batch.clone()).unwrap();
            assert_eq!(&texts(&merged), &texts(&batch));
            let values = merged.column(0).as_any_dictionary().values().as_string::<i32>().clone();
            assert_eq!(values.slice(0, before.len()), before);
            before = values;
        }
        assert_eq!(before, StringArray::from(vec!["b", "a", "c"]));
    }

    #[test]
    fn more_values_than_keys_are_an_error() {
        let names: Vec<_> = (0..130).map(|i| i.to_string()).collect();
        let [first, second] = [&names[..100], &names[100..]]
            .map(|names| batch(&names.iter().map(|name| Some(name.as_str())).collect::<Vec<_>>()));
        let mut dictionaries = Dictionaries::new(&first.schema()).unwrap();
        dictionaries.merge(first).unwrap();
        assert!(matches!(dictionaries.merge(second), Err(ArrowError::DictionaryKeyOverflowError)));
    }
}
