//! Dictionaries and runs of nested values: they become what their values do.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int16Type, Int32Type};
use arrow_array::*;
use arrow_buffer::OffsetBuffer;
use arrow_schema::{Field, Schema};
use arrow_tfrecord::{Encoder, Mapping, MappingOptions, NullPolicy, ReaderBuilder, RecordBuffer};
use proptest::prelude::*;

use crate::nested_tables::{self, Nulls};

fn encoded(batch: &RecordBatch, options: &MappingOptions) -> RecordBuffer {
    let mapping = Mapping::try_new(&batch.schema(), options).unwrap();
    let mut records = RecordBuffer::default();
    Encoder::new(Arc::new(mapping)).encode(batch, &mut records).unwrap();
    records
}

/// The batch with every element of a nested column in a dictionary or in a run, in which some stand twice.
fn packed(batch: &RecordBatch, in_runs: bool) -> RecordBatch {
    let pack = |array: &ArrayRef| -> ArrayRef {
        if !array.data_type().is_nested() {
            return ArrayRef::clone(array);
        }
        if in_runs {
            let ends = Int32Array::from_iter_values(1..=array.len() as i32);
            return Arc::new(RunArray::<Int32Type>::try_new(&ends, array).unwrap());
        }
        let twice = arrow_select::concat::concat(&[array.as_ref(), array.as_ref()]).unwrap();
        let key = |row: usize| array.is_valid(row).then_some((row + row % 2 * array.len()) as i16);
        let keys: Int16Array = (0..array.len()).map(key).collect();
        Arc::new(DictionaryArray::<Int16Type>::new(keys, twice))
    };
    let arrays: Vec<_> = batch.columns().iter().map(pack).collect();
    let schema = batch.schema();
    let fields = schema.fields().iter().zip(&arrays);
    let fields = fields.map(|(field, array)| Field::new(field.name(), array.data_type().clone(), field.is_nullable()));
    RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<_>>())), arrays).unwrap()
}

proptest! {
    #[test]
    fn packed_columns_encode_like_plain_ones_and_round_trip(batch in nested_tables::batch(Nulls::Everywhere), in_runs in any::<bool>()) {
        prop_assume!(batch.num_rows() > 0 || !in_runs);
        let options = MappingOptions::default().with_nulls(NullPolicy::Mask);
        let packed = packed(&batch, in_runs);
        let records = encoded(&packed, &options);
        let plain = encoded(&batch, &options);
        prop_assert_eq!(records.bytes(), plain.bytes());
        let reader = ReaderBuilder::new(packed.schema()).with_mapping(options.clone()).build(records.bytes()).unwrap();
        for back in reader.map(Result::unwrap) {
            for (column, expected) in back.columns().iter().zip(packed.columns()) {
                prop_assert_eq!(column.data_type(), expected.data_type());
            }
            let again = encoded(&back, &options);
            prop_assert_eq!(again.bytes(), plain.bytes());
        }
    }
}

#[test]
fn reader_gives_equal_dictionary_values_one_key() {
    let words = StringArray::from_iter_values((0..300).map(|row| if row % 3 == 0 { "a, b" } else { "c" }));
    let structs = StructArray::try_from(vec![("word", Arc::new(words) as ArrayRef)]).unwrap();
    let keys = Int16Array::from_iter_values(0..300);
    let dictionary = DictionaryArray::<Int16Type>::new(keys, Arc::new(structs));
    // Within a list, too.
    let item = Arc::new(Field::new_list_field(dictionary.data_type().clone(), false));
    let offsets = OffsetBuffer::from_lengths((0..300).map(|_| 1));
    let lists = ListArray::new(item, offsets, Arc::new(dictionary.clone()), None);
    let columns = [("c", Arc::new(dictionary) as ArrayRef), ("l", Arc::new(lists))];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let records = encoded(&batch, &MappingOptions::default());
    let back = ReaderBuilder::new(batch.schema()).build(records.bytes()).unwrap().next().unwrap().unwrap();
    for dictionary in [back.column(0), back.column(1).as_list::<i32>().values()] {
        assert_eq!(dictionary.as_dictionary::<Int16Type>().values().len(), 2);
    }
    let plain = |batch: &RecordBatch| {
        arrow_cast::cast(&batch.column(0), batch.column(0).as_any_dictionary().values().data_type())
    };
    assert_eq!(plain(&back).unwrap().to_data(), plain(&batch).unwrap().to_data());
}
