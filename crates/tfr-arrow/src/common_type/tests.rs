use arrow_schema::Field;

use super::*;

fn fields(fields: &[(&str, DataType, bool)]) -> DataType {
    let fields = fields.iter().map(|(name, data_type, nullable)| Field::new(*name, data_type.clone(), *nullable));
    DataType::Struct(fields.collect())
}

fn map(key: DataType, value: DataType, names: [&str; 2]) -> DataType {
    let entries = fields(&[(names[0], key, false), (names[1], value, true)]);
    DataType::Map(Arc::new(Field::new("entries", entries, false)), false)
}

fn dictionary(values: DataType) -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(values))
}

/// The rules of the guide. `pyarrow.unify_schemas(..., promote_options="permissive")` has the same ones for numbers,
/// lists, text and units of time, where no value is lost.
#[test]
fn types_that_have_a_common_type() {
    use DataType::{
        Binary, BinaryView, Date32, Date64, Decimal32, Decimal64, Decimal128, Decimal256, FixedSizeBinary, Float16,
        Float32, Float64, Int8, Int16, Int32, Int64, LargeBinary, LargeUtf8, Null, Time32, Time64, UInt8, UInt16,
        UInt32, UInt64, Utf8, Utf8View,
    };
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    let time = |unit| DataType::Timestamp(unit, None);
    let zoned = |unit, zone: &str| DataType::Timestamp(unit, Some(zone.into()));
    let list = |item| DataType::new_list(item, true);
    let cases = [
        (Null, Date32, Date32),
        (Int8, Int64, Int64),
        (UInt8, Int8, Int16),
        (UInt16, Int8, Int32),
        (UInt32, Int32, Int64),
        (UInt8, UInt64, UInt64),
        (Float16, Float32, Float32),
        (Float32, Float64, Float64),
        (Int16, Float32, Float32),
        (Int32, Float32, Float64),
        (UInt32, Float64, Float64),
        (Decimal128(10, 2), Decimal128(12, 4), Decimal128(12, 4)),
        (Decimal128(10, 2), Decimal128(10, 4), Decimal128(12, 4)),
        (Decimal32(9, 0), Decimal32(9, 9), Decimal64(18, 9)),
        (Decimal64(18, 0), Decimal32(9, 9), Decimal128(27, 9)),
        (Decimal128(38, 0), Decimal128(38, 10), Decimal256(48, 10)),
        (Decimal128(5, -2), Decimal128(5, 2), Decimal128(9, 2)),
        (Int32, Decimal128(10, 2), Decimal128(12, 2)),
        (UInt64, Decimal128(5, 5), Decimal128(25, 5)),
        (Utf8, Utf8View, Utf8View),
        (LargeUtf8, Utf8, LargeUtf8),
        (dictionary(Utf8), Utf8, Utf8),
        (dictionary(Utf8), DataType::Dictionary(Box::new(Int8), Box::new(Utf8)), Utf8),
        (Binary, FixedSizeBinary(3), Binary),
        (FixedSizeBinary(2), FixedSizeBinary(3), Binary),
        (BinaryView, LargeBinary, LargeBinary),
        (Date32, Date64, Date64),
        (Time32(Second), Time64(Nanosecond), Time64(Nanosecond)),
        (Time32(Second), Time32(Millisecond), Time32(Millisecond)),
        (time(Second), time(Microsecond), time(Microsecond)),
        (time(Nanosecond), time(Microsecond), time(Nanosecond)),
        (zoned(Millisecond, "UTC"), zoned(Microsecond, "+00:00"), zoned(Microsecond, "UTC")),
        (zoned(Millisecond, "Europe/Oslo"), zoned(Second, "Europe/Oslo"), zoned(Millisecond, "Europe/Oslo")),
        (DataType::Duration(Second), DataType::Duration(Microsecond), DataType::Duration(Microsecond)),
        (list(Int32), list(Int64), list(Int64)),
        (list(Int32), DataType::new_large_list(Int32, true), DataType::new_large_list(Int32, true)),
        (DataType::new_fixed_size_list(Int32, 2, true), list(Int32), list(Int32)),
        (DataType::new_fixed_size_list(Int32, 2, true), DataType::new_fixed_size_list(Int32, 3, true), list(Int32)),
        (list(Null), list(Utf8), list(Utf8)),
        (map(Utf8, Int32, ["key", "value"]), map(Utf8, Int64, ["keys", "values"]), map(Utf8, Int64, ["key", "value"])),
    ];
    for (left, right, expected) in cases {
        assert_eq!(common_type(&left, &right).as_ref(), Ok(&expected), "{left} {right}");
        let turned = common_type(&right, &left).expect("a common type");
        assert!(turned.equals_datatype(&expected), "{right} {left}: {turned}");
    }
}

#[test]
fn common_type_rejects_types_that_would_lose_values() {
    use DataType::{Boolean, Date32, Decimal128, Decimal256, Float32, Float64, Int32, Int64, UInt64, Utf8};
    let zoned = |zone: &str| DataType::Timestamp(TimeUnit::Microsecond, Some(zone.into()));
    let local = DataType::Timestamp(TimeUnit::Microsecond, None);
    for (left, right) in [
        (Int64, Float64),
        (Int64, UInt64),
        (UInt64, Float32),
        (Utf8, Int32),
        (Boolean, Int32),
        (Decimal128(10, 2), Float64),
        (Decimal256(76, 0), Decimal256(76, 10)),
        (zoned("UTC"), zoned("Europe/Oslo")),
        (zoned("UTC"), local.clone()),
        (Date32, local),
        (Utf8, DataType::Binary),
        (DataType::new_list(Int64, true), Int64),
        (DataType::new_list(Int64, true), DataType::new_list(Float64, true)),
        (map(Utf8, Int64, ["key", "value"]), map(Int64, Int64, ["key", "value"])),
    ] {
        assert!(common_type(&left, &right).is_err(), "{left} {right}");
        assert!(common_type(&right, &left).is_err(), "{right} {left}");
    }
}

#[test]
fn structs_gain_fields_by_name() {
    use DataType::{Int32, Int64, Utf8};
    let list = |item: DataType| DataType::new_list(item, false);
    let old = fields(&[("a", Int32, false), ("b", Utf8, false)]);
    let new = fields(&[("c", Utf8, false), ("a", Int64, false)]);
    let both = fields(&[("a", Int64, false), ("b", Utf8, true), ("c", Utf8, true)]);
    assert_eq!(common_type(&old, &new), Ok(both.clone()));
    assert_eq!(common_type(&list(old.clone()), &list(new)), Ok(list(both)));
    // A field that is nullable in one file is nullable in the table.
    let nullable = fields(&[("a", Int32, true), ("b", Utf8, false)]);
    assert_eq!(common_type(&old, &nullable), Ok(nullable));
    let twice = fields(&[("a", Int32, true), ("a", Int32, true)]);
    assert!(common_type(&twice, &old).is_err());
}

#[test]
fn common_type_conflict_names_the_nested_field() {
    use DataType::{Int64, Utf8};
    let of = |x: DataType| DataType::new_list(fields(&[("id", Int64, true), ("x", x, true)]), true);
    let conflict = common_type(&of(Int64), &of(Utf8)).expect_err("a conflict");
    assert_eq!(conflict.to_string(), "[].x: no type can represent every value of both Int64 and Utf8");
}
