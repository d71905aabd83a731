use std::sync::Arc;

use arrow_array::builder::{FixedSizeListBuilder, ListBuilder, Time32SecondBuilder};
use arrow_array::types::{Int16Type, Int32Type};
use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, Date64Array, Decimal128Array, Decimal256Array, DictionaryArray,
    DurationMicrosecondArray, DurationMillisecondArray, DurationSecondArray, Int8Array, Int16Array, ListArray,
    RunArray, StructArray, Time32MillisecondArray, Time32SecondArray, Time64MicrosecondArray, Time64NanosecondArray,
    TimestampMicrosecondArray, TimestampNanosecondArray, TimestampSecondArray, UnionArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer, i256};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{Field, UnionFields};

use super::*;

fn found(array: &dyn Array) -> Option<(usize, String)> {
    find_without_text(array).map(|found| (found.row, found.value))
}

fn first(row: usize, value: &str) -> Option<(usize, String)> {
    Some((row, value.to_owned()))
}

/// The ends of each type, and the values behind them.
#[test]
fn values_without_text_are_found_at_the_range_limits() {
    assert_eq!(found(&Time32SecondArray::from(vec![0, 86_399])), None);
    assert_eq!(found(&Time32SecondArray::from(vec![0, 86_400])), first(1, "86400"));
    assert_eq!(found(&Time32MillisecondArray::from(vec![86_399_999, -1])), first(1, "-1"));
    // Arrow shows this as midnight.
    assert_eq!(found(&Time64MicrosecondArray::from(vec![4_294_967_296_000_000])), first(0, "4294967296000000"));
    assert_eq!(found(&Time64NanosecondArray::from(vec![86_399_999_999_999])), None);
    assert_eq!(found(&Time64NanosecondArray::from(vec![86_400_000_000_000])), first(0, "86400000000000"));
    assert_eq!(found(&Date32Array::from(vec![-719_528, 2_932_896, i32::MAX])), first(2, "2147483647"));
    assert_eq!(found(&Date64Array::from(vec![0, i64::MIN])), first(1, "-9223372036854775808"));
    assert_eq!(found(&DurationSecondArray::from(vec![i64::MAX / 1000, i64::MAX])), first(1, "9223372036854775807"));
    assert_eq!(found(&DurationMillisecondArray::from(vec![i64::MAX, i64::MIN])), first(1, "-9223372036854775808"));
    assert_eq!(found(&DurationMicrosecondArray::from(vec![i64::MIN, i64::MAX])), None);
    assert_eq!(found(&TimestampNanosecondArray::from(vec![i64::MIN, i64::MAX]).with_timezone("+14:00")), None);
    assert_eq!(found(&TimestampMicrosecondArray::from(vec![0, i64::MAX])), first(1, "9223372036854775807"));
    assert_eq!(found(&TimestampSecondArray::from(vec![253_402_300_800])), None);
    let decimals = Decimal128Array::from(vec![99_999, -100_000]).with_precision_and_scale(5, 2).unwrap();
    assert_eq!(found(&decimals), first(1, "-100000"));
    let decimals = Decimal256Array::from(vec![i256::MAX]).with_precision_and_scale(40, 0).unwrap();
    assert_eq!(found(&decimals).unwrap().0, 0);
    assert_eq!(find_beyond_precision(&decimals).unwrap().row, 0);
    assert_eq!(find_beyond_precision(&Time32SecondArray::from(vec![-1])), None);
}

/// Whatever is not found, Arrow shows without an error.
#[test]
fn values_not_reported_as_textless_have_text() {
    let edges: Vec<i64> = (0..63).flat_map(|bit| [1 << bit, (1 << bit) - 1, -(1 << bit)]).chain([i64::MIN]).collect();
    let small = || edges.iter().map(|edge| *edge as i32).collect::<Vec<_>>();
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(Date32Array::from(small())),
        Arc::new(Date64Array::from(edges.clone())),
        Arc::new(Time32SecondArray::from(small())),
        Arc::new(Time32MillisecondArray::from(small())),
        Arc::new(Time64MicrosecondArray::from(edges.clone())),
        Arc::new(Time64NanosecondArray::from(edges.clone())),
        Arc::new(TimestampSecondArray::from(edges.clone()).with_timezone("-12:00")),
        Arc::new(TimestampMicrosecondArray::from(edges.clone())),
        Arc::new(TimestampMicrosecondArray::from(edges.clone()).with_timezone("Pacific/Kiritimati")),
        Arc::new(TimestampNanosecondArray::from(edges.clone()).with_timezone("+14:00")),
        Arc::new(DurationSecondArray::from(edges.clone())),
        Arc::new(DurationMillisecondArray::from(edges.clone())),
        Arc::new(DurationMicrosecondArray::from(edges.clone())),
    ];
    let options = FormatOptions::default();
    for array in arrays {
        let without: Vec<usize> = positions_without_text(&array);
        let formatter = ArrayFormatter::try_new(&array, &options).unwrap();
        for row in (0..array.len()).filter(|row| !without.contains(row)) {
            let text = formatter.value(row).try_to_string().unwrap_or_else(|error| panic!("{array:?} {row}: {error}"));
            assert!(!text.contains("invalid"), "{text}");
        }
    }
}

/// A list of times for each row.
fn lists(rows: &[&[i32]]) -> ListArray {
    let mut lists = ListBuilder::new(Time32SecondBuilder::new());
    rows.iter().for_each(|row| lists.append_value(row.iter().copied().map(Some)));
    lists.finish()
}

#[test]
fn values_without_text_are_found_in_nested_arrays() {
    let nested = lists(&[&[1], &[], &[], &[2, -1], &[-2]]);
    assert_eq!(found(&nested), first(3, "-1"));
    assert_eq!(found(&nested.slice(4, 1)), first(0, "-2"));
    assert_eq!(found(&nested.slice(0, 3)), None);
    let structs = StructArray::from(vec![
        (Arc::new(Field::new("a", nested.data_type().clone(), true)), Arc::new(nested.clone()) as ArrayRef),
        (
            Arc::new(Field::new("b", DataType::Date32, true)),
            Arc::new(Date32Array::from(vec![Some(0), None, Some(i32::MIN), Some(0), Some(0)])),
        ),
    ]);
    assert_eq!(found(&structs), first(2, "-2147483648"));
    let mut fixed = FixedSizeListBuilder::new(Time32SecondBuilder::new(), 2);
    for time in [1, 2, 3, 86_400] {
        fixed.values().append_value(time);
        if time % 2 == 0 {
            fixed.append(true);
        }
    }
    assert_eq!(found(&fixed.finish()), first(1, "86400"));
    let times = Arc::new(Time32SecondArray::from(vec![7, -1, -2])) as ArrayRef;
    let dictionary = DictionaryArray::new(Int8Array::from(vec![Some(0), None, Some(2), Some(1)]), Arc::clone(&times));
    assert_eq!(found(&dictionary), first(2, "-2"));
    let runs = RunArray::<Int16Type>::try_new(&Int16Array::from(vec![2, 3, 5]), &times).unwrap();
    assert_eq!(found(&runs), first(2, "-1"));
    assert_eq!(found(&runs.slice(0, 2)), None);
    let fields = UnionFields::try_new(
        [0, 1],
        [Field::new("time", times.data_type().clone(), true), Field::new("is", DataType::Boolean, true)],
    )
    .unwrap();
    let is = Arc::new(BooleanArray::from(vec![true])) as ArrayRef;
    let union =
        UnionArray::try_new(fields, vec![1, 0, 0].into(), Some(vec![0, 0, 2].into()), vec![Arc::clone(&times), is]);
    assert_eq!(found(&union.unwrap()), first(2, "-2"));
}

/// What no row shows does not matter.
#[test]
fn values_without_text_are_ignored_if_hidden() {
    let nulls = || Some(NullBuffer::from(vec![true, false]));
    let times = Time32SecondArray::new(vec![1, -1].into(), nulls());
    assert_eq!(found(&times), None);
    let bare = Arc::new(Time32SecondArray::from(vec![1, -1])) as ArrayRef;
    let field = Arc::new(Field::new("x", bare.data_type().clone(), true));
    assert_eq!(found(&StructArray::new(vec![field.clone()].into(), vec![Arc::clone(&bare)], nulls())), None);
    let list = ListArray::new(field, OffsetBuffer::from_lengths([1, 1]), Arc::clone(&bare), nulls());
    assert_eq!(found(&list), None);
    let dictionary = DictionaryArray::<Int32Type>::new(vec![0, 0].into(), bare);
    assert_eq!(found(&dictionary), None);
    assert_eq!(positions_without_text(&times), [1]);
}
