use arrow::array::{
    Float64Array, Int32Array, Int64Array, ListViewArray, RunArray, StringArray, UnionArray, new_empty_array,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{Field, Int32Type, UnionFields};

use super::*;

fn sizes(array: &dyn Array) -> Vec<u64> {
    let sizes = RowSizes::of(array);
    (0..array.len()).map(|row| sizes.row(row)).collect()
}

fn views(ranges: &[(i32, i32)], items: ArrayRef, nulls: Option<NullBuffer>) -> ListViewArray {
    let (starts, lengths): (Vec<_>, Vec<_>) = ranges.iter().copied().unzip();
    let item = Arc::new(Field::new_list_field(items.data_type().clone(), true));
    ListViewArray::new(item, starts.into(), lengths.into(), items, nulls)
}

#[test]
fn rows_of_list_views_runs_and_unions_have_the_size_of_their_values() {
    let doubles: ArrayRef = Arc::new(Float64Array::from(vec![1.0; 100]));
    let shared = views(&[(0, 100), (0, 100), (0, 100)], doubles, Some(NullBuffer::from(vec![true, false, true])));
    assert_eq!(sizes(&shared), [800, 0, 800]);

    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "bcd"]));
    assert_eq!(sizes(&views(&[(0, 2), (1, 1)], Arc::clone(&texts), None)), [4, 3]);
    let runs = RunArray::<Int32Type>::try_new(&Int32Array::from(vec![2, 3]), &texts).unwrap();
    assert_eq!((sizes(&runs), sizes(&runs.slice(1, 2))), (vec![1, 1, 3], vec![1, 3]));

    let fields = [Field::new("n", DataType::Int64, true), Field::new("t", DataType::Utf8, true)];
    let fields = UnionFields::try_new([0, 1], fields).unwrap();
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let dense = |ids: Vec<i8>, offsets: Vec<i32>| {
        let children = vec![Arc::clone(&numbers), Arc::clone(&texts)];
        UnionArray::try_new(fields.clone(), ids.into(), Some(offsets.into()), children).unwrap()
    };
    assert_eq!(sizes(&dense(vec![1, 0, 1], vec![1, 1, 0])), [3, 8, 1]);
    let sparse = vec![Arc::clone(&numbers), Arc::clone(&texts)];
    let sparse = UnionArray::try_new(fields.clone(), vec![0, 1].into(), None, sparse).unwrap();
    assert_eq!(sizes(&sparse), [9, 11]);
    assert!(sizes(&new_empty_array(&DataType::Null)).is_empty());
}

#[test]
fn batches_of_long_list_views_are_cut_and_short_ones_copied() {
    let doubles: ArrayRef = Arc::new(Float64Array::from(vec![1.0; 100_000]));
    let batch = |views: ListViewArray| RecordBatch::try_from_iter([("x", Arc::new(views) as ArrayRef)]).unwrap();
    let most = Most { bytes: 2_000_000, rows: usize::MAX, row_bytes: 10_000_000 };
    let pieces = cut(batch(views(&[(0, 100_000); 5], Arc::clone(&doubles), None)), most).unwrap();
    assert_eq!(pieces.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [2, 2, 1]);

    let short = batch(views(&[(50_000, 2), (10, 1)], doubles, None));
    let compact = compacted(short.clone()).unwrap();
    assert_eq!(compact.column(0).as_list_view::<i32>().values().len(), 3);
    assert_eq!(compact.schema(), short.schema());
}
