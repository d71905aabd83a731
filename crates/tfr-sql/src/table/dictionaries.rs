//! Merges dictionaries for an Arrow IPC file, which has one for each column, while every batch brings its own.
//!
//! The order of a batch's dictionary depends on which batches a sort or an exchange happened to hold at the same time.
//! The file's dictionary lists the values in the order of the rows instead, so equal rows give equal files. A
//! dictionary whose order has a meaning keeps its own order.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray as _, UInt64Array, new_empty_array};
use arrow::compute::{cast, concat, take};
use arrow::datatypes::{DataType, SchemaRef, UInt64Type};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use arrow::row::{OwnedRow, RowConverter, SortField};

/// The dictionaries of a file's columns so far.
pub struct Dictionaries {
    columns: Vec<Option<Dictionary>>,
}

impl Dictionaries {
    /// Creates empty dictionaries for columns with `schema`, which has no dictionaries inside lists and structs.
    pub fn new(schema: &SchemaRef) -> Result<Self, ArrowError> {
        let columns = schema.fields().iter().map(|field| match field.data_type() {
            DataType::Dictionary(_, values) => {
                Dictionary::new(values, field.dict_is_ordered().unwrap_or_default()).map(Some)
            }
            _ => Ok(None),
        });
        Ok(Self { columns: columns.collect::<Result<_, _>>()? })
    }

    /// Returns `batch` with dictionaries that extend those of earlier batches.
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

/// The distinct values of one column, in order of first occurrence.
struct Dictionary {
    values: ArrayRef,
    known: HashMap<OwnedRow, u64>,
    converter: RowConverter,
    /// Whether the order of the values has a meaning. They then keep the order of the batches' dictionaries.
    is_ordered: bool,
}

impl Dictionary {
    fn new(values: &DataType, is_ordered: bool) -> Result<Self, ArrowError> {
        let converter = RowConverter::new(vec![SortField::new(values.clone())])?;
        Ok(Self { values: new_empty_array(values), known: HashMap::new(), converter, is_ordered })
    }

    fn merge(&mut self, column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        let DataType::Dictionary(key_type, _) = column.data_type() else { return Ok(Arc::clone(column)) };
        let dictionary = column.as_any_dictionary();
        let keys = cast(dictionary.keys(), &DataType::UInt64)?;
        let keys = keys.as_primitive::<UInt64Type>();
        let used = match self.is_ordered {
            true => (0..dictionary.values().len() as u64).collect(),
            false => used_keys(keys, dictionary.values()),
        };
        let places = self.places(&used, dictionary.values())?;
        if self.known.len() as u64 > largest_key(key_type) {
            return Err(ArrowError::DictionaryKeyOverflowError);
        }
        let keys: UInt64Array =
            keys.iter().map(|key| places.get(usize::try_from(key?).ok()?).copied().flatten()).collect();
        let keys = cast(&keys, key_type)?;
        with_values(&keys, Arc::clone(&self.values), key_type)
    }

    /// Returns the index in the file's dictionary of each used value of a batch's dictionary, after adding the new
    /// values. `None` for values that are unused or null.
    fn places(&mut self, used: &[u64], values: &ArrayRef) -> Result<Vec<Option<u64>>, ArrowError> {
        let mut places = vec![None; values.len()];
        let taken = take(values, &UInt64Array::from(used.to_vec()), None)?;
        let nulls = taken.logical_nulls();
        let mut new = Vec::new();
        for ((at, row), key) in self.converter.convert_columns(&[Arc::clone(&taken)])?.iter().enumerate().zip(used) {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(at)) {
                continue;
            }
            let next = self.known.len() as u64;
            let place = *self.known.entry(row.owned()).or_insert_with(|| {
                new.push(at as u64);
                next
            });
            if let Some(slot) = usize::try_from(*key).ok().and_then(|key| places.get_mut(key)) {
                *slot = Some(place);
            }
        }
        if !new.is_empty() {
            let added = take(&taken, &UInt64Array::from(new), None)?;
            self.values = concat(&[&self.values, &added])?;
        }
        Ok(places)
    }
}

/// Returns the distinct keys of the rows, in order of first occurrence.
fn used_keys(keys: &UInt64Array, values: &ArrayRef) -> Vec<u64> {
    let mut seen = vec![false; values.len()];
    let is_first = |key: &u64| {
        let seen = usize::try_from(*key).ok().and_then(|key| seen.get_mut(key));
        seen.is_some_and(|seen| !std::mem::replace(seen, true))
    };
    keys.iter().flatten().filter(is_first).collect()
}

/// Returns the number of values that the key type can distinguish.
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
    use arrow::datatypes::{Field, Int8Type, Schema};

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

    /// A sort concatenates the dictionaries of the batches that it holds, in the order in which they arrived.
    #[test]
    fn the_order_of_a_batches_dictionary_does_not_matter() {
        let rows = [Some(0), Some(2), None, Some(1), Some(0)];
        let merged = |values: Vec<&str>, places: [i8; 3]| {
            let keys = rows.iter().map(|row| row.map(|row: usize| places[row])).collect();
            let column = DictionaryArray::<Int8Type>::new(keys, Arc::new(StringArray::from(values)));
            let batch = RecordBatch::try_from_iter_with_nullable([("x", Arc::new(column) as ArrayRef, true)]).unwrap();
            let mut dictionaries = Dictionaries::new(&batch.schema()).unwrap();
            dictionaries.merge(batch).unwrap().column(0).to_data()
        };
        let one = merged(vec!["a", "b", "c"], [0, 1, 2]);
        assert_eq!(merged(vec!["unused", "c", "b", "c", "a"], [4, 2, 3]), one);
        assert_eq!(one.child_data()[0], StringArray::from(vec!["a", "c", "b"]).to_data());
    }

    #[test]
    fn ordered_dictionaries_keep_their_order() {
        let column = DictionaryArray::<Int8Type>::new(
            vec![Some(2), Some(0)].into(),
            Arc::new(StringArray::from(vec!["low", "medium", "high"])),
        );
        let field = Field::new("x", column.data_type().clone(), true).with_dict_is_ordered(true);
        let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![Arc::new(column.clone())]).unwrap();
        let mut dictionaries = Dictionaries::new(&batch.schema()).unwrap();
        assert_eq!(dictionaries.merge(batch).unwrap().column(0).to_data(), column.to_data());
    }

    /// A key of a null is a null.
    #[test]
    fn nulls_among_the_values_are_null_keys() {
        let values = StringArray::from(vec![None, Some("a")]);
        let column = DictionaryArray::<Int8Type>::new(vec![Some(0), Some(1), None].into(), Arc::new(values));
        let batch = RecordBatch::try_from_iter_with_nullable([("x", Arc::new(column) as ArrayRef, true)]).unwrap();
        let merged = Dictionaries::new(&batch.schema()).unwrap().merge(batch).unwrap();
        let expected: DictionaryArray<Int8Type> = [None, Some("a"), None].into_iter().collect();
        assert_eq!(merged.column(0).to_data(), expected.to_data());
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
