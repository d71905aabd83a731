use arrow_array::builder::{Int32Builder, ListBuilder};
use arrow_array::types::{Float16Type, Int32Type};
use arrow_array::{
    BinaryArray, BooleanArray, Date32Array, Date64Array, Decimal128Array, DictionaryArray, DurationSecondArray,
    FixedSizeBinaryArray, FixedSizeListArray, Float16Array, Float32Array, Float64Array, Int8Array, Int16Array,
    Int32Array, Int64Array, LargeStringArray, ListArray, StringArray, StringViewArray, Time32SecondArray,
    Time64MicrosecondArray, TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray,
    TimestampSecondArray, UInt8Array, UInt64Array,
};
use arrow_buffer::NullBuffer;
use arrow_schema::Field;

use super::*;
use crate::common_type::common_type;

fn array(array: impl Array + 'static) -> ArrayRef {
    Arc::new(array)
}

/// An array of each type, with a null and values that every other type of the kind can represent.
fn samples() -> Vec<ArrayRef> {
    let halves = [1.0, 2.0].map(|value| Some(half(value))).into_iter().chain([None]);
    vec![
        array(Int8Array::from(vec![Some(1), Some(2), None])),
        array(Int16Array::from(vec![Some(1), Some(2), None])),
        array(Int32Array::from(vec![Some(1), Some(2), None])),
        array(Int64Array::from(vec![Some(1), Some(2), None])),
        array(UInt8Array::from(vec![Some(1), Some(2), None])),
        array(UInt64Array::from(vec![Some(1), Some(2), None])),
        array(Float16Array::from_iter(halves)),
        array(Float32Array::from(vec![Some(1.0), Some(2.0), None])),
        array(Float64Array::from(vec![Some(1.0), Some(2.0), None])),
        array(decimals(vec![Some(100), Some(200), None], 9, 2)),
        array(decimals(vec![Some(1), Some(2), None], 38, 0)),
        array(StringArray::from(vec![Some("a"), Some("bc"), None])),
        array(LargeStringArray::from(vec![Some("a"), Some("bc"), None])),
        array(StringViewArray::from(vec![Some("a"), Some("bc"), None])),
        array(DictionaryArray::<Int32Type>::from_iter([Some("a"), Some("bc"), None])),
        array(BinaryArray::from(vec![Some(b"ab".as_ref()), Some(b"bc"), None])),
        array(fixed(&[Some(b"ab"), Some(b"bc"), None])),
        array(BooleanArray::from(vec![Some(true), Some(false), None])),
        array(Date32Array::from(vec![Some(0), Some(-1), None])),
        array(Date64Array::from(vec![Some(0), Some(-86_400_000), None])),
        array(Time32SecondArray::from(vec![Some(0), Some(86_399), None])),
        array(Time64MicrosecondArray::from(vec![Some(0), Some(86_399_000_000), None])),
        array(TimestampSecondArray::from(vec![Some(0), Some(-86_400), None])),
        array(TimestampMillisecondArray::from(vec![Some(0), Some(-86_400_000), None])),
        array(TimestampNanosecondArray::from(vec![Some(0), Some(-86_400_000_000_000), None])),
        array(TimestampMicrosecondArray::from(vec![Some(0), Some(-86_400_000_000), None]).with_timezone("UTC")),
        array(DurationSecondArray::from(vec![Some(0), Some(-1), None])),
    ]
}

fn half(value: f32) -> <Float16Type as ArrowPrimitiveType>::Native {
    <Float16Type as ArrowPrimitiveType>::Native::from_f32(value)
}

fn decimals(values: Vec<Option<i128>>, precision: u8, scale: i8) -> Decimal128Array {
    Decimal128Array::from(values).with_precision_and_scale(precision, scale).expect("a decimal type")
}

fn fixed(values: &[Option<&[u8; 2]>]) -> FixedSizeBinaryArray {
    FixedSizeBinaryArray::try_from_sparse_iter_with_size(values.iter().map(|value| value.map(|value| &value[..])), 2)
        .expect("values of 2 bytes")
}

#[test]
fn convert_succeeds_for_every_convertible_pair() {
    let samples = samples();
    for from in &samples {
        for to in &samples {
            let wanted = to.data_type();
            // The text of a number or time is not a valid text of the other types.
            if !can_convert(from.data_type(), wanted) || matches!(wanted, DataType::FixedSizeBinary(_)) {
                continue;
            }
            let converted = convert(from, wanted);
            let converted = converted.unwrap_or_else(|error| panic!("{} to {wanted}: {error}", from.data_type()));
            assert_eq!(converted.data_type(), wanted);
            assert_eq!(converted.logical_null_count(), 1, "{} to {wanted}", from.data_type());
            if can_convert(wanted, from.data_type()) {
                let back = convert(&converted, from.data_type()).expect("the way back");
                assert_eq!(&back, from, "{} over {wanted}", from.data_type());
            }
        }
    }
}

#[test]
fn common_type_represents_all_samples() {
    let samples = samples();
    for left in &samples {
        for right in &samples {
            let Ok(common) = common_type(left.data_type(), right.data_type()) else { continue };
            for side in [left, right] {
                assert!(convert(side, &common).is_ok(), "{} to {common}", side.data_type());
            }
        }
    }
}

#[test]
fn convert_names_the_value_that_is_not_exact() {
    use DataType::{Date32, Decimal128, Float32, Float64, Int32, Int64, Timestamp, UInt64, Utf8};
    use TimeUnit::{Microsecond, Nanosecond, Second};
    let cases: Vec<(ArrayRef, DataType, &str)> = vec![
        (array(Int64Array::from(vec![1, 1 << 53, (1 << 53) + 1])), Float64, "9007199254740993"),
        (array(Int64Array::from(vec![1, 2, i64::MAX])), Float64, "9223372036854775807"),
        (array(Int64Array::from(vec![1, 2, i64::MAX])), Int32, "9223372036854775807"),
        (array(Int64Array::from(vec![1, 2, -1])), UInt64, "-1"),
        (array(Float64Array::from(vec![1.0, 2.0, 1.5])), Int64, "1.5"),
        (array(Float64Array::from(vec![1.0, 2.0, f64::NAN])), Int64, "NaN"),
        (array(Float64Array::from(vec![1.0, 2.0, -0.0])), Int64, "-0.0"),
        (array(Float64Array::from(vec![f64::NAN, f64::INFINITY, 0.1])), Float32, "0.1"),
        (array(decimals(vec![Some(100), None, Some(101)], 9, 2)), Decimal128(9, 1), "1.01"),
        (array(decimals(vec![Some(100), None, Some(99_999)], 9, 2)), Decimal128(4, 2), "999.99"),
        (
            array(TimestampMicrosecondArray::from(vec![0, 1_000_000, 1])),
            Timestamp(Second, None),
            "1970-01-01T00:00:00.000001",
        ),
        (
            array(TimestampMicrosecondArray::from(vec![0, 1, 253_402_214_400_000_000])),
            Timestamp(Nanosecond, None),
            "9999-12-31T00:00:00",
        ),
        (array(TimestampMicrosecondArray::from(vec![0, 86_400_000_000, 1])), Date32, "1970-01-01T00:00:00.000001"),
        (array(Date32Array::from(vec![0, 1, 2_932_896])), Timestamp(Nanosecond, None), "9999-12-31T00:00:00"),
        (array(TimestampMicrosecondArray::from(vec![0, 1, i64::MAX])), Utf8, "ERROR"),
        (array(BinaryArray::from(vec![b"a".as_ref(), b"b", b"\xff"])), Utf8, "ff"),
    ];
    let _ = Microsecond;
    for (values, wanted, expected) in cases {
        assert!(can_convert(values.data_type(), &wanted), "{} {wanted}", values.data_type());
        let unfit = convert(&values, &wanted).expect_err("a value that is not exact");
        assert_eq!(unfit.row, 2, "{} {wanted}", values.data_type());
        assert!(unfit.value.starts_with(expected), "{} {wanted}: {}", values.data_type(), unfit.value);
        assert!(convert(&values.slice(0, 2), &wanted).is_ok(), "{} {wanted}", values.data_type());
    }
}

#[test]
fn convert_rejects_unsupported_pairs() {
    use DataType::{Boolean, Float64, Int64, Utf8};
    let local = DataType::Timestamp(TimeUnit::Microsecond, None);
    let zoned = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    for (found, wanted) in [
        (Utf8, Int64),
        (Boolean, Int64),
        (local.clone(), zoned.clone()),
        (zoned, local.clone()),
        (Int64, local),
        (DataType::new_list(Int64, true), Utf8),
        (DataType::new_list(Utf8, true), DataType::new_list(Float64, true)),
    ] {
        assert!(!can_convert(&found, &wanted), "{found} {wanted}");
    }
}

fn structs(fields: Vec<(Field, ArrayRef)>, nulls: Option<NullBuffer>) -> ArrayRef {
    let (fields, columns): (Vec<_>, Vec<_>) = fields.into_iter().unzip();
    array(StructArray::try_new(fields.into(), columns, nulls).expect("a struct"))
}

#[test]
fn convert_matches_struct_fields_by_name_and_ignores_hidden_values() {
    let required = |name: &str, data_type| Field::new(name, data_type, false);
    let nullable = |name: &str, data_type| Field::new(name, data_type, true);
    // Under the null is a value that an Int32 cannot represent.
    let values = array(Int64Array::from(vec![1, i64::MAX]));
    let nulls = Some(NullBuffer::from(vec![true, false]));
    let found = structs(vec![(required("b", DataType::Int64), values)], nulls.clone());
    let wanted = DataType::Struct(vec![nullable("a", DataType::Utf8), nullable("b", DataType::Int32)].into());
    assert!(can_convert(found.data_type(), &wanted));
    let expected = structs(
        vec![
            (nullable("a", DataType::Utf8), new_null_array(&DataType::Utf8, 2)),
            (nullable("b", DataType::Int32), array(Int32Array::from(vec![Some(1), None]))),
        ],
        nulls,
    );
    assert_eq!(&convert(&found, &wanted).expect("converted"), &expected);
}

#[test]
fn convert_keeps_the_nulls_of_structs_without_common_fields() {
    let field = |name: &str, data_type| Field::new(name, data_type, true);
    let nulls = Some(NullBuffer::from(vec![true, false]));
    let values = array(Int64Array::from(vec![1, 2]));
    let found = structs(vec![(field("a", DataType::Int64), values)], nulls.clone());
    let wanted = DataType::Struct(vec![field("x", DataType::Utf8)].into());
    assert!(can_convert(found.data_type(), &wanted));
    let expected = structs(vec![(field("x", DataType::Utf8), new_null_array(&DataType::Utf8, 2))], nulls);
    assert_eq!(&convert(&found, &wanted).expect("converted"), &expected);
    assert!(!can_convert(found.data_type(), &DataType::Struct(vec![Field::new("x", DataType::Utf8, false)].into())));
    // Whoever declares it has another struct in mind.
    let list = |data_type: &DataType| DataType::new_list(data_type.clone(), true);
    for (found, wanted) in [(found.data_type(), &wanted), (&list(found.data_type()), &list(&wanted))] {
        assert!(!shares_fields(found, wanted) && shares_fields(found, found), "{found}");
    }
}

#[test]
fn convert_changes_any_list_layout_to_any_other() {
    let mut builder = ListBuilder::new(Int32Builder::new());
    builder.append_value([Some(1), None]);
    builder.append_null();
    builder.append_value([Some(3), Some(4)]);
    let list = array(builder.finish());
    let item = |data_type| Arc::new(Field::new("item", data_type, true));
    let kinds = |data_type: DataType| {
        [
            DataType::List(item(data_type.clone())),
            DataType::LargeList(item(data_type.clone())),
            DataType::ListView(item(data_type.clone())),
            DataType::LargeListView(item(data_type.clone())),
            DataType::FixedSizeList(item(data_type), 2),
        ]
    };
    for from in kinds(DataType::Int32) {
        let found = convert(&list, &from).expect("a list of this kind");
        for to in kinds(DataType::Int64) {
            let converted = convert(&found, &to).unwrap_or_else(|error| panic!("{from} to {to}: {error}"));
            assert_eq!(&convert(&converted, list.data_type()).expect("back"), &list, "{from} to {to}");
            // A slice that begins within the items.
            let part = convert(&found.slice(1, 2), &to).expect("a part");
            assert_eq!(&convert(&part, list.data_type()).expect("back"), &list.slice(1, 2), "{from} to {to}");
        }
    }
    let other_size = DataType::FixedSizeList(item(DataType::Int32), 3);
    assert_eq!(convert(&list, &other_size).expect_err("2 items").row, 0);
}

#[test]
fn convert_ignores_items_under_null_lists() {
    let items = array(Int64Array::from(vec![1, i64::MAX, 3]));
    let item = Arc::new(Field::new("item", DataType::Int64, false));
    let nulls = Some(NullBuffer::from(vec![true, false, true]));
    let offsets = OffsetBuffer::new(vec![0, 1, 2, 3].into());
    let list = array(ListArray::new(Arc::clone(&item), offsets, Arc::clone(&items), nulls.clone()));
    let wanted = DataType::new_list(DataType::Int32, false);
    let converted = convert(&list, &wanted).expect("converted");
    assert_eq!(converted.as_list::<i32>().values().as_primitive::<Int32Type>().values(), &[1, 3]);
    let fixed = array(FixedSizeListArray::new(item, 1, items, nulls));
    assert_eq!(&convert(&fixed, &wanted).expect("converted"), &converted);
}
