use std::sync::Arc;

use arrow_array::{Date32Array, Int32Array, ListViewArray, StructArray, UnionArray};
use arrow_schema::{Field, UnionFields};

use super::*;

const OLD: i32 = -200_000;

fn found(array: &ArrayRef, leaves: &[Watch]) -> Vec<(u64, u64)> {
    assert_eq!(has_doubts(array, leaves), !doubts(array, leaves, |row| row as u64).is_empty());
    doubts(array, leaves, |row| row as u64).into_iter().map(|doubt| (doubt.row, doubt.count)).collect()
}

#[test]
fn old_dates_are_found_in_unions_and_in_the_columns_after_them() {
    let watched = Watch::Julian(Reason::NoCalendar);
    let dates: ArrayRef = Arc::new(Date32Array::from(vec![0, OLD, OLD]));
    let numbers: ArrayRef = Arc::new(Int32Array::from(vec![OLD]));
    let fields = [Field::new("number", DataType::Int32, true), Field::new("date", DataType::Date32, true)];
    let fields = UnionFields::try_new([0, 1], fields).unwrap();
    let union = |offsets: Vec<i32>| -> ArrayRef {
        let children = vec![Arc::clone(&numbers), Arc::clone(&dates)];
        Arc::new(UnionArray::try_new(fields.clone(), vec![0, 1, 1].into(), Some(offsets.into()), children).unwrap())
    };
    let leaves = [Watch::Nothing, watched];
    assert_eq!(found(&union(vec![0, 0, 2]), &leaves), [(2, 1)]);
    assert_eq!(found(&union(vec![0, 1, 2]), &leaves), [(1, 2)]);

    let columns = [("u", union(vec![0, 0, 0])), ("date", Arc::clone(&dates))];
    let columns = columns.map(|(name, column)| (Arc::new(Field::new(name, column.data_type().clone(), true)), column));
    let structs: ArrayRef = Arc::new(StructArray::from(columns.to_vec()));
    assert_eq!(found(&structs, &[Watch::Nothing, Watch::Nothing, watched]), [(1, 2)]);
}

#[test]
fn old_dates_in_list_views_report_the_row_of_the_list() {
    let dates: ArrayRef = Arc::new(Date32Array::from(vec![0, OLD]));
    let item = Arc::new(Field::new_list_field(DataType::Date32, true));
    let views = ListViewArray::new(item, vec![0, 1, 0].into(), vec![1, 1, 2].into(), dates, None);
    assert_eq!(found(&(Arc::new(views) as ArrayRef), &[Watch::Julian(Reason::NoCalendar)]), [(1, 2)]);
}
