use arrow_array::types::Int8Type;
use arrow_array::{
    DictionaryArray, FixedSizeListArray, Int16Array, Int32Array, Int64Array, LargeListArray, LargeListViewArray,
    ListArray, ListViewArray, MapArray, StructArray, UnionArray,
};
use arrow_buffer::OffsetBuffer;
use arrow_cast::cast;
use arrow_schema::Field;

use super::*;

fn numbers() -> ArrayRef {
    Arc::new(Int32Array::from(vec![Some(1), None, Some(3), Some(4)]))
}

fn field() -> FieldRef {
    Arc::new(Field::new_list_field(DataType::Int32, true))
}

fn nulls() -> Option<NullBuffer> {
    Some(NullBuffer::from(vec![true, false, true]))
}

/// An array of each layout, of three rows of which the second is null.
fn arrays() -> Vec<ArrayRef> {
    let offsets = || OffsetBuffer::from_lengths([1, 2, 1]);
    let wide = || OffsetBuffer::<i64>::from_lengths([1, 2, 1]);
    let keys = Arc::new(Int32Array::from(vec![1, 2, 3, 4])) as ArrayRef;
    let entries = StructArray::from(vec![
        (Arc::new(Field::new("key", DataType::Int32, false)), keys),
        (Arc::new(Field::new("value", DataType::Int32, true)), numbers()),
    ]);
    let fields =
        UnionFields::try_new([3, 7], [Field::new("a", DataType::Int32, true), Field::new("b", DataType::Int32, true)]);
    let union = UnionArray::try_new(
        fields.unwrap(),
        vec![3, 7, 7].into(),
        Some(vec![1, 0, 2].into()),
        vec![numbers(), numbers()],
    );
    let columns = vec![numbers().slice(0, 3), numbers().slice(1, 3)];
    let fields = ["a", "b"].map(|name| Field::new(name, DataType::Int32, true));
    vec![
        Arc::new(ListArray::new(field(), offsets(), numbers(), nulls())),
        Arc::new(LargeListArray::new(field(), wide(), numbers(), nulls())),
        Arc::new(ListViewArray::new(field(), vec![3, 0, 0].into(), vec![1, 4, 2].into(), numbers(), nulls())),
        Arc::new(LargeListViewArray::new(field(), vec![3, 0, 0].into(), vec![1, 4, 2].into(), numbers(), nulls())),
        Arc::new(FixedSizeListArray::new(field(), 1, numbers().slice(0, 3), nulls())),
        Arc::new(MapArray::new(
            Arc::new(Field::new("entries", entries.data_type().clone(), false)),
            offsets(),
            entries,
            nulls(),
            false,
        )),
        Arc::new(StructArray::new(Vec::from(fields).into(), columns, nulls())),
        Arc::new(union.unwrap()),
        Arc::new(DictionaryArray::<Int8Type>::new(vec![Some(2), None, Some(0)].into_iter().collect(), numbers())),
        Arc::new(RunArray::<Int16Type>::try_new(&Int16Array::from(vec![1, 2, 3, 5]), &numbers()).unwrap().slice(0, 3)),
    ]
}

fn widened(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match array.data_type() {
        DataType::Int32 => cast(array, &DataType::Int64),
        _ => map_array(array, widened),
    }
}

fn widened_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Int32 => DataType::Int64,
        other => map_children(other, widened_type),
    }
}

#[test]
fn map_array_rebuilds_arrays_of_each_layout() {
    for array in arrays() {
        let data_type = array.data_type();
        assert!(any_type(data_type, |inner| *inner == DataType::Int32), "{data_type}");
        assert!(
            !any_type(data_type, |inner| *inner == DataType::Int16),
            "run ends and keys are no values: {data_type}"
        );
        let types: Vec<_> = child_arrays(&array).iter().map(|child| child.data_type().clone()).collect();
        assert_eq!(types.iter().collect::<Vec<_>>(), children(data_type));

        let same = map_array(&array, |child| Ok::<_, ArrowError>(Arc::clone(child))).unwrap();
        assert!(Arc::ptr_eq(&same, &array), "{data_type}");
        for array in [Arc::clone(&array), array.slice(1, 2)] {
            let wide = widened(&array).unwrap();
            assert_eq!(*wide.data_type(), widened_type(data_type));
            assert_eq!((wide.len(), wide.null_count()), (array.len(), array.null_count()), "{data_type}");
            let narrow = |child: &ArrayRef| cast(child, &DataType::Int32);
            let back = match child_arrays(&wide).iter().all(|child| *child.data_type() == DataType::Int64) {
                true => map_array(&wide, narrow).unwrap(),
                false => map_array(&wide, |entries| map_array(entries, narrow)).unwrap(),
            };
            assert_eq!(back.to_data(), array.to_data(), "{data_type}");
        }
    }
}

#[test]
fn list_ranges_cover_the_items_of_each_row() {
    let found = arrays().into_iter().filter_map(|array| {
        let lists = Lists::of(&array)?;
        let ranges: Vec<_> = (0..3).map(|row| lists.range(row)).collect();
        let elements = elements(&array).unwrap().unwrap();
        let nulls = lists.item_nulls(array.nulls()).map(|nulls| nulls.iter().collect::<Vec<_>>());
        Some((ranges, elements.len(), nulls.unwrap()))
    });
    let lists = (vec![0..1, 1..3, 3..4], 2, vec![true, false, false, true]);
    let views = (vec![3..4, 0..0, 0..2], 3, vec![true, true, false, true]);
    let fixed = (vec![0..1, 1..2, 2..3], 2, vec![true, false, true]);
    let expected = [lists.clone(), lists.clone(), views.clone(), views, fixed, lists];
    assert_eq!(found.collect::<Vec<_>>(), expected);

    let lists = Int64Array::from(vec![1, 2]);
    assert!(Lists::of(&lists).is_none() && elements(&lists).is_none());
}

#[test]
fn positions_of_encoded_values_follow_slices_and_null_keys() {
    let positions = |array: &dyn Array| {
        Encoded::of(array).map(|encoded| (0..array.len()).map(|row| encoded.position(row)).collect::<Vec<_>>())
    };
    let [dictionary, runs] = &arrays()[8..] else { panic!("the last two arrays are encoded") };
    assert_eq!(positions(dictionary), Some(vec![Some(2), None, Some(0)]));
    assert_eq!(positions(runs), Some(vec![Some(0), Some(1), Some(2)]));
    assert_eq!(positions(&runs.slice(1, 2)), Some(vec![Some(1), Some(2)]));
    let empty = DictionaryArray::<Int8Type>::new(vec![None, None].into_iter().collect(), numbers().slice(0, 0));
    assert_eq!(positions(&empty), Some(vec![None, None]));
    assert_eq!(positions(&numbers()), None);
}

#[test]
fn the_type_within_all_layouts_is_found() {
    let runs = DataType::RunEndEncoded(
        Arc::new(Field::new("run_ends", DataType::Int32, false)),
        Arc::new(Field::new("values", DataType::Utf8, true)),
    );
    let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(runs.clone()));
    let lists = DataType::ListView(Arc::new(Field::new_list_field(DataType::new_list(dictionary.clone(), true), true)));
    assert_eq!(value_type(&dictionary), &DataType::Utf8);
    assert_eq!(element_type(&lists), &DataType::Utf8);
    assert_eq!(value_type(&lists), &lists);
}
