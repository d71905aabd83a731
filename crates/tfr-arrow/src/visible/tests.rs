use arrow_array::types::Int16Type;
use arrow_array::{Int16Array, Int32Array, ListViewArray, RunArray, StructArray};
use arrow_schema::Field;

use super::*;

/// Two structs, of which the second is null and hides the number 2.
fn hiding() -> ArrayRef {
    let fields = vec![Field::new("x", DataType::Int32, true)].into();
    let numbers = Arc::new(Int32Array::from(vec![1, 2]));
    Arc::new(StructArray::new(fields, vec![numbers], Some(NullBuffer::from(vec![true, false]))))
}

fn numbers(structs: &ArrayRef) -> Vec<Option<i32>> {
    structs.as_struct().column(0).as_primitive::<arrow_array::types::Int32Type>().iter().collect()
}

#[test]
fn values_are_hidden_within_runs_unions_and_list_views() {
    let runs: ArrayRef = Arc::new(RunArray::<Int16Type>::try_new(&Int16Array::from(vec![2, 3]), &hiding()).unwrap());
    let found = visible(&runs).unwrap();
    assert_eq!(numbers(found.as_run::<Int16Type>().values()), [Some(1), None]);

    let fields = UnionFields::try_new([0], [Field::new("s", hiding().data_type().clone(), true)]).unwrap();
    let union: ArrayRef = Arc::new(UnionArray::try_new(fields, vec![0, 0].into(), None, vec![hiding()]).unwrap());
    assert_eq!(numbers(visible(&union).unwrap().as_union().child(0)), [Some(1), None]);

    let item = Arc::new(Field::new_list_field(hiding().data_type().clone(), true));
    let nulls = Some(NullBuffer::from(vec![true, false]));
    let views = ListViewArray::new(item, vec![0, 0].into(), vec![2, 2].into(), hiding(), nulls);
    let found = visible(&(Arc::new(views) as ArrayRef)).unwrap();
    let found = found.as_list_view::<i32>();
    assert_eq!(found.sizes().as_ref(), [2, 0]);
    assert_eq!(numbers(found.values()), [Some(1), None]);
}
