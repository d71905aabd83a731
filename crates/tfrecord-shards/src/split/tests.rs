use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Int32Type};
use arrow_array::*;
use arrow_cast::cast;
use arrow_schema::{DataType, Field, TimeUnit};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn hashes(column: impl Array + 'static) -> Vec<u64> {
    key_hashes(&[Arc::new(column)]).expect("a key")
}

fn as_type(column: &ArrayRef, data_type: &DataType) -> Vec<u64> {
    let column = cast(column, data_type).unwrap_or_else(|error| panic!("{data_type}: {error}"));
    key_hashes(&[column]).expect("a key")
}

// The hashes below are the output of the Python code in the module's documentation, with xxhash 3.6.

#[test]
fn numbers_hash_as_documented() {
    let integers = [4711, 4712, -7, 0, 150];
    let expected = [0x9cff56eee1b5f5fb, 0x5232d2f6e2fa3f9e, 0x5916a40ab8bd80d7, 0x2a004ec4a0114173, 0x05ea48e2b3aa6b92];
    assert_eq!(hashes(Int64Array::from(integers.to_vec())), expected);
    assert_eq!(hashes(UInt64Array::from(vec![1 << 63, u64::MAX])), [0x8ed9c433e8b40960, 0xa8589e3f99b872b9]);

    let decimals = |values: Vec<i128>, precision, scale| {
        hashes(Decimal128Array::from(values).with_precision_and_scale(precision, scale).expect("a decimal"))
    };
    assert_eq!(
        decimals(vec![150, -25, 471_100, 0], 10, 2),
        [0x105335b18c588ad8, 0xbd56e18f1a7956fa, expected[0], expected[3]]
    );
    assert_eq!(decimals(vec![15, 0], 10, -1), [expected[4], expected[3]]);
    assert_eq!(decimals(vec![10_i128.pow(38) - 1], 38, 0), [0x030965f048b61ea1]);
    assert_eq!(decimals(vec![-1], 38, 7), [0xd3262211483f1491]);

    assert_eq!(
        hashes(Float64Array::from(vec![0.1, 0.0, -0.0, f64::NAN, -f64::NAN, 1.0, f64::NEG_INFINITY])),
        [
            0xe451183924ef5465,
            0x9434006fbf06954c,
            0x9434006fbf06954c,
            0x8bcaaebdf2e33b72,
            0x8bcaaebdf2e33b72,
            0xa97ef1e05bc003fb,
            0x39a7c2b96f6a391b
        ]
    );
    assert_eq!(hashes(BooleanArray::from(vec![true, false])), [0x9cd1f57eb6f87c0e, 0xfcbf056b005213dd]);
    assert_eq!(hashes(NullArray::new(1)), [0x7fd2a00537e62cb2]);
}

#[test]
fn texts_hash_as_documented() {
    let expected = [0xa90f9f2e4fc55ea7, 0xda7c99f0ca560a17, 0x441dff7e9696e408];
    assert_eq!(hashes(StringArray::from(vec!["ada", "", "żółw"])), expected);
    assert_eq!(hashes(BinaryArray::from_vec(vec!["ada".as_bytes(), b"", "żółw".as_bytes()])), expected);
    assert_eq!(
        hashes(FixedSizeBinaryArray::try_from_iter([b"\x00\xff"].into_iter()).expect("two bytes")),
        [0xd1e8c30cdf7c6fff]
    );
}

#[test]
fn times_hash_as_documented() {
    assert_eq!(hashes(Date32Array::from(vec![20_000])), [0x625bfb74b4f894ce]);
    assert_eq!(hashes(Date64Array::from(vec![20_000 * 86_400_000 + 1])), [0x625bfb74b4f894ce]);
    assert_eq!(hashes(Time32SecondArray::from(vec![3600])), [0xf3e547ae49c25843]);
    assert_eq!(hashes(Time64MicrosecondArray::from(vec![3_600_000_000])), [0xf3e547ae49c25843]);
    assert_eq!(hashes(DurationMillisecondArray::from(vec![1500])), [0x1b67ba878f63f8d3]);
    let expected = [0xad7e1e92339d6ef2, 0x10a47d88b28dd79b];
    let millis = TimestampMillisecondArray::from(vec![1_767_225_600_000, -1]);
    assert_eq!(hashes(millis.clone()), expected);
    assert_eq!(hashes(millis.with_timezone("+02:00")), expected);
    // The largest timestamp in seconds, whose nanoseconds exceed 64 bits.
    assert_eq!(hashes(TimestampSecondArray::from(vec![i64::MAX])), hashes(TimestampSecondArray::from(vec![i64::MAX])));
}

#[test]
fn nested_values_hash_by_their_content() {
    let list =
        ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None, Some(3)]), Some(vec![]), None]);
    let expected = [0x5a541e050e0064f5, 0xee4798f8f24b2a0e, 0x7fd2a00537e62cb2];
    assert_eq!(hashes(list.clone()), expected);
    assert_eq!(hashes(list.slice(1, 2)), expected[1..]);
    let list: ArrayRef = Arc::new(list);
    let item = Arc::new(Field::new("item", DataType::Int64, true));
    for data_type in [
        DataType::LargeList(Arc::clone(&item)),
        DataType::ListView(Arc::clone(&item)),
        DataType::LargeListView(Arc::clone(&item)),
    ] {
        assert_eq!(as_type(&list, &data_type), expected, "{data_type}");
    }
    let threes = cast(&list.slice(0, 1), &DataType::FixedSizeList(item, 3)).expect("three elements");
    assert_eq!(key_hashes(&[threes]).expect("a key"), expected[..1]);

    let mut lists = ListBuilder::new(ListBuilder::new(StringBuilder::new()));
    lists.values().append_value([Some("x")]);
    lists.values().append_value([None::<&str>; 0]);
    lists.append(true);
    assert_eq!(hashes(lists.finish()), [0x2cdc66863f5e6956]);

    let fields: Vec<(_, ArrayRef)> = vec![
        (Arc::new(Field::new("a", DataType::Int64, false)), Arc::new(Int64Array::from(vec![1]))),
        (Arc::new(Field::new("b", DataType::Utf8, false)), Arc::new(StringArray::from(vec!["x"]))),
    ];
    assert_eq!(hashes(StructArray::from(fields)), [0x398bbba7e20bf4a1]);
}

#[test]
fn several_columns_are_one_key() {
    let text = |text: &str| -> ArrayRef { Arc::new(StringArray::from(vec![text])) };
    let key = |first, second| key_hashes(&[first, second]).expect("a key");
    assert_eq!(key(Arc::new(UInt16Array::from(vec![4711])), text("ada")), [0x8a4c68e96534be01]);
    assert_eq!(key(text("a"), text("b")), [0x07405b3543a34ba9]);
    assert_eq!(key(text("ab"), text("")), [0xeca27411e6e70325]);
}

#[test]
fn split_hash_of_a_record_is_that_of_its_bytes() {
    for (payload, hash) in [
        (vec![], 0xda7c99f0ca560a17),
        (vec![0x0a, 0x00], 0x9ca4ee84d967880d),
        (vec![b'x'; 1015], 0xe287de529692200f),
        (vec![b'x'; 1016], 0x9a0402837f549f8c),
        ((0..=255).cycle().take(4096).collect(), 0x8087e9f265824641),
    ] {
        assert_eq!(record_hash(&payload), hash, "{} bytes", payload.len());
        assert_eq!(hashes(LargeBinaryArray::from_vec(vec![&payload])), [hash]);
    }
}

proptest! {
    #[test]
    fn split_hash_of_integers_is_independent_of_width(values in vec(any::<Option<i8>>(), 1..50), skip in 0_usize..50) {
        let column: ArrayRef = Arc::new(Int8Array::from(values.clone()));
        let column = column.slice(skip.min(values.len()), values.len().saturating_sub(skip));
        let expected = key_hashes(&[Arc::clone(&column)])?;
        let signed = [DataType::Int16, DataType::Int32, DataType::Int64];
        let decimals = [
            DataType::Decimal32(9, 2),
            DataType::Decimal64(18, 5),
            DataType::Decimal128(38, 0),
            DataType::Decimal128(38, 30),
            DataType::Decimal256(76, 12),
        ];
        let dictionary = DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::Int64));
        for data_type in signed.iter().chain(&decimals).chain([&dictionary]) {
            prop_assert_eq!(&as_type(&column, data_type), &expected, "{}", data_type);
        }
        let magnitudes: ArrayRef = Arc::new(Int16Array::from_iter(
            column.as_primitive::<types::Int8Type>().iter().map(|value| value.map(|value| i16::from(value).abs())),
        ));
        let expected = key_hashes(&[Arc::clone(&magnitudes)])?;
        for data_type in [DataType::UInt8, DataType::UInt16, DataType::UInt32, DataType::UInt64] {
            prop_assert_eq!(&as_type(&magnitudes, &data_type), &expected, "{}", data_type);
        }
    }

    #[test]
    fn split_hash_of_texts_is_independent_of_encoding(values in vec(proptest::option::of(".{0,20}"), 1..30), skip in 0_usize..30) {
        let column: ArrayRef = Arc::new(StringArray::from(values.clone()));
        let column = column.slice(skip.min(values.len()), values.len().saturating_sub(skip));
        let expected = key_hashes(&[Arc::clone(&column)])?;
        for data_type in [
            DataType::LargeUtf8,
            DataType::Utf8View,
            DataType::Binary,
            DataType::LargeBinary,
            DataType::BinaryView,
            DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)),
            DataType::Dictionary(Box::new(DataType::UInt64), Box::new(DataType::Utf8View)),
        ] {
            prop_assert_eq!(&as_type(&column, &data_type), &expected, "{}", data_type);
        }
        let runs: RunArray<Int32Type> = values.iter().map(Option::as_deref).collect();
        let runs = runs.slice(skip.min(values.len()), values.len().saturating_sub(skip));
        prop_assert_eq!(hashes(runs), expected);
    }

    #[test]
    fn split_hash_of_instants_is_independent_of_unit(values in vec(any::<Option<i32>>(), 1..50)) {
        let seconds: ArrayRef = Arc::new(TimestampSecondArray::from_iter(values.iter().map(|value| value.map(i64::from))));
        let expected = key_hashes(&[Arc::clone(&seconds)])?;
        for unit in [TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond] {
            prop_assert_eq!(&as_type(&seconds, &DataType::Timestamp(unit, None)), &expected);
        }
    }

    #[test]
    fn split_hash_of_floats_is_independent_of_width(values in vec(any::<i16>(), 1..50)) {
        // Half of these fit the eleven bits of a half's fraction exactly, and those count.
        let halves: ArrayRef = Arc::new(Float16Array::from_iter_values(
            values.iter().map(|value| <Float16Type as ArrowPrimitiveType>::Native::from_f32(f32::from(*value))),
        ));
        let expected = key_hashes(&[Arc::clone(&halves)])?;
        prop_assert_eq!(&as_type(&halves, &DataType::Float32), &expected);
        prop_assert_eq!(&as_type(&halves, &DataType::Float64), &expected);
    }

    #[test]
    fn split_hash_of_a_row_is_independent_of_other_rows(values in vec(any::<Option<i64>>(), 1..50)) {
        let all = hashes(Int64Array::from(values.clone()));
        for (value, hash) in values.into_iter().zip(all) {
            prop_assert_eq!(hashes(Int64Array::from(vec![value])), [hash]);
        }
    }
}

#[test]
fn split_hash_differs_for_unequal_values() {
    let one: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![1])),
        Arc::new(Float64Array::from(vec![1.0])),
        Arc::new(StringArray::from(vec!["1"])),
        Arc::new(BooleanArray::from(vec![true])),
        Arc::new(Date32Array::from(vec![1])),
        Arc::new(TimestampNanosecondArray::from(vec![1])),
        Arc::new(Time64NanosecondArray::from(vec![1])),
        Arc::new(DurationNanosecondArray::from(vec![1])),
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1)])])),
        Arc::new(NullArray::new(1)),
        Arc::new(StringArray::from(vec![""])),
    ];
    let mut hashes: Vec<_> = one.iter().flat_map(|column| key_hashes(&[Arc::clone(column)]).expect("a key")).collect();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), one.len());
}

#[test]
fn split_key_types_are_checked_before_rows() {
    let entry = vec![Field::new("key", DataType::Utf8, false), Field::new("value", DataType::Utf8, true)];
    let entries = Field::new("entries", DataType::Struct(entry.into()), false);
    let map = DataType::Map(Arc::new(entries), false);
    for data_type in [
        map.clone(),
        DataType::List(Arc::new(Field::new("item", map, true))),
        DataType::Interval(arrow_schema::IntervalUnit::DayTime),
    ] {
        let error = check_key_type(&data_type).expect_err("no key");
        assert!(data_type.to_string().contains(&error.data_type.to_string()));
        assert_eq!(key_hashes(&[new_empty_array(&data_type)]).err(), Some(error), "{data_type}");
    }
    assert_eq!(check_key_type(&DataType::Decimal256(40, 3)), Ok(()));
}

#[test]
fn split_fractions_are_met() {
    let splits: Splits = "train=0.7,val=0.2,test=0.1".parse().expect("splits");
    let sequential = hashes(Int64Array::from_iter_values(0..1_000_000));
    let texts = hashes(StringArray::from_iter_values((0..100_000).map(|key| format!("user-{key}"))));
    let records: Vec<_> = (0..100_000_u64).map(|key| record_hash(&key.to_le_bytes())).collect();
    for hashes in [sequential, texts, records] {
        for (split, (name, fraction)) in splits.iter().enumerate() {
            let keys = hashes.iter().filter(|hash| splits.of(**hash) == split).count() as f64;
            let expected = hashes.len() as f64 * fraction;
            let sigma = (expected * (1.0 - fraction)).sqrt();
            assert!((keys - expected).abs() < 4.0 * sigma, "{name}: {keys} keys");
        }
    }
}

#[test]
fn splits_begin_and_end_where_documented() {
    let splits: Splits = "train=0.9,val=0.1".parse().expect("splits");
    // int(0.9 * 2**64) in Python.
    let end = 16_602_069_666_338_596_864;
    assert_eq!([0, end - 1, end, u64::MAX].map(|hash| splits.of(hash)), [0, 0, 1, 1]);

    let all: Splits = "all=1".parse().expect("one split");
    assert_eq!([0, u64::MAX].map(|hash| all.of(hash)), [0, 0]);
    let thirds: Splits = "a=0.333333333,b=0.333333333,c=0.333333333".parse().expect("thirds");
    assert_eq!(thirds.of(u64::MAX), 2);
}

#[test]
fn a_split_that_is_cut_in_two_moves_no_key_of_another() {
    let two: Splits = "train=0.9,val=0.1".parse().expect("splits");
    let three: Splits = "train=0.9,val=0.05,test=0.05".parse().expect("splits");
    for hash in hashes(Int64Array::from_iter_values(0..1000)) {
        assert_eq!(two.of(hash) == 0, three.of(hash) == 0);
    }
}

#[test]
fn splits_parse_what_they_print() {
    let splits: Splits = " train = 0.9 ,val=1e-1".parse().expect("splits");
    assert_eq!(splits.to_string(), "train=0.9,val=0.1");
    assert_eq!(splits.to_string().parse(), Ok(splits.clone()));
    assert_eq!((splits.len(), splits.name(1), splits.position("val")), (2, Some("val"), Some(1)));
    assert_eq!((splits.name(2), splits.position("test")), (None, None));
}

#[test]
fn splits_reject_invalid_text() {
    let message = |text: &str| text.parse::<Splits>().expect_err(text).to_string();
    insta::assert_snapshot!(message(""), @r#"found "", expected NAME=FRACTION, such as train=0.9"#);
    insta::assert_snapshot!(message("train=1,"), @r#"found "", expected NAME=FRACTION, such as train=0.9"#);
    insta::assert_snapshot!(message("train=0.9;val=0.1"), @r#"split "train": found "0.9;val=0.1", expected a fraction above 0 and up to 1"#);
    insta::assert_snapshot!(message("train=0.9,val=0.2"), @"the fractions of the splits add up to 1.1, expected 1");
    insta::assert_snapshot!(message("train=90,val=10"), @"the fractions of the splits add up to 100, expected 1; numbers of rows are written train=800rows,val=200rows");
    insta::assert_snapshot!(message("train=1,val=0"), @r#"split "val": found "0", expected a fraction above 0 and up to 1"#);
    insta::assert_snapshot!(message("train=2,val=-1"), @r#"split "val": found "-1", expected a fraction above 0 and up to 1"#);
    insta::assert_snapshot!(message("train=nan"), @r#"split "train": found "NaN", expected a fraction above 0 and up to 1"#);
    insta::assert_snapshot!(message("train=0.5,Train=0.5"), @r#"split "Train" is named twice"#);
    // A reader of `train-*` would read these too.
    insta::assert_snapshot!(message("train=0.9,train-small=0.1"), @r#"split "train-small": expected a name of up to 64 bytes: letters, digits and underscores, with a letter or a digit first"#);
    for name in ["", "_train", ".train", "a/b", "..", "a*", "a b", &"a".repeat(65)] {
        assert!(Splits::try_new([(name, 1.0)]).is_err(), "{name}");
    }
}
