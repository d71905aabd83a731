//! Record batches of every type that has a place in a record, made by proptest.

use std::sync::Arc;

use arrow_array::types::{Int16Type, Int32Type, Int64Type, RunEndIndexType, UInt8Type};
use arrow_array::*;
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer, i256};
use arrow_schema::{DataType, Field, IntervalUnit, Schema, TimeUnit, UnionFields, UnionMode};
use half::f16;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// A batch of up to 6 columns and 40 rows, cut out of a longer one so that arrays have offsets.
pub fn batch() -> impl Strategy<Value = RecordBatch> {
    (0..40usize, 0..3usize, 0..3usize).prop_flat_map(|(rows, before, after)| {
        vec((column(before + rows + after), "[a-z]{0,20}"), 0..6).prop_map(move |columns| {
            let (fields, arrays): (Vec<_>, Vec<_>) = columns
                .into_iter()
                .enumerate()
                // The number makes names distinct, and comes last so that sorting by name is no no-op.
                .map(|(position, (array, name))| {
                    (Field::new(format!("{name}{position}"), array.data_type().clone(), true), array)
                })
                .unzip();
            let schema = Arc::new(Schema::new(fields));
            let options = RecordBatchOptions::new().with_row_count(Some(before + rows + after));
            let whole = RecordBatch::try_new_with_options(schema, arrays, &options).unwrap();
            whole.slice(before, rows)
        })
    })
}

/// A column that the default mapping takes.
fn column(rows: usize) -> BoxedStrategy<ArrayRef> {
    prop_oneof![
        3 => scalar(rows),
        1 => Just(Arc::new(NullArray::new(rows)) as ArrayRef),
        1 => dictionary(rows),
        1 => run_end_encoded(rows),
        3 => list(rows),
    ]
    .boxed()
}

fn primitive<T: ArrowPrimitiveType>(
    rows: usize,
    value: impl Strategy<Value = T::Native> + 'static,
) -> BoxedStrategy<ArrayRef>
where
    PrimitiveArray<T>: From<Vec<Option<T::Native>>>,
{
    nullable(rows, value).prop_map(|values| Arc::new(PrimitiveArray::<T>::from(values)) as ArrayRef).boxed()
}

fn nullable<V: std::fmt::Debug + Clone>(
    rows: usize,
    value: impl Strategy<Value = V> + 'static,
) -> impl Strategy<Value = Vec<Option<V>>> {
    let share = select(vec![0.0, 0.5, 1.0]);
    // proptest takes no probability of exactly 0 or 1.
    let value = value.boxed();
    share.prop_flat_map(move |share| {
        vec(proptest::option::weighted((1.0f64 - share).clamp(1e-9, 1.0 - 1e-9), value.clone()), rows)
    })
}

fn int64() -> impl Strategy<Value = i64> {
    // Every length of a varint.
    (any::<i64>(), 0..64u32).prop_map(|(value, shift)| value >> shift)
}

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![4 => "\\PC{0,12}", 2 => "[a-z]{0,80}", 1 => "[a-z]{120,140}", 1 => Just("x".repeat(17_000))]
}

fn blobs() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..40)
}

fn within_float(value: f64) -> bool {
    !value.is_finite() || (value as f32).is_finite()
}

fn scalar(rows: usize) -> BoxedStrategy<ArrayRef> {
    let typed = move |data_type: DataType, array: ArrayRef| arrow_cast::cast(&array, &data_type).unwrap();
    let times = select(vec![
        DataType::Date64,
        DataType::Time64(TimeUnit::Microsecond),
        DataType::Time64(TimeUnit::Nanosecond),
        DataType::Timestamp(TimeUnit::Second, None),
        DataType::Timestamp(TimeUnit::Millisecond, Some("+02:00".into())),
        DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        DataType::Timestamp(TimeUnit::Nanosecond, None),
        DataType::Duration(TimeUnit::Millisecond),
    ]);
    let times32 =
        select(vec![DataType::Date32, DataType::Time32(TimeUnit::Second), DataType::Time32(TimeUnit::Millisecond)]);
    let decimals = prop_oneof![
        primitive::<types::Decimal32Type>(rows, -999_999_999..1_000_000_000i32),
        primitive::<types::Decimal64Type>(rows, -(10i64.pow(18)) + 1..10i64.pow(18)),
        primitive::<types::Decimal128Type>(rows, decimal128()),
        primitive::<types::Decimal256Type>(rows, decimal128().prop_map(i256::from_i128)),
    ];
    let scaled = (decimals, -5i8..30).prop_map(|(array, scale)| with_scale(&array, scale));
    prop_oneof![
        nullable(rows, any::<bool>()).prop_map(|values| Arc::new(BooleanArray::from(values)) as ArrayRef),
        primitive::<types::Int8Type>(rows, any::<i8>()),
        primitive::<Int16Type>(rows, any::<i16>()),
        primitive::<Int32Type>(rows, any::<i32>()),
        primitive::<Int64Type>(rows, int64()),
        primitive::<UInt8Type>(rows, any::<u8>()),
        primitive::<types::UInt16Type>(rows, any::<u16>()),
        primitive::<types::UInt32Type>(rows, any::<u32>()),
        primitive::<types::UInt64Type>(rows, 0..=i64::MAX as u64),
        primitive::<types::Float16Type>(rows, any::<u16>().prop_map(f16::from_bits)),
        primitive::<types::Float32Type>(rows, any::<u32>().prop_map(f32::from_bits)),
        primitive::<types::Float64Type>(
            rows,
            any::<u64>().prop_map(f64::from_bits).prop_filter("fits", |v| within_float(*v))
        ),
        scaled,
        (primitive::<Int64Type>(rows, int64()), times).prop_map(move |(array, to)| typed(to, array)),
        (primitive::<Int32Type>(rows, any::<i32>()), times32).prop_map(move |(array, to)| typed(to, array)),
        (nullable(rows, texts()), select(vec![DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View]))
            .prop_map(move |(values, to)| typed(to, Arc::new(StringArray::from(values)))),
        (nullable(rows, blobs()), select(vec![DataType::Binary, DataType::LargeBinary, DataType::BinaryView]))
            .prop_map(move |(values, to)| typed(to, Arc::new(BinaryArray::from_iter(values)))),
        nullable(rows, any::<[u8; 5]>()).prop_map(|values| {
            let array = FixedSizeBinaryArray::try_from_sparse_iter_with_size(values.into_iter(), 5).unwrap();
            Arc::new(array) as ArrayRef
        }),
    ]
    .boxed()
}

fn decimal128() -> impl Strategy<Value = i128> {
    // With any scale above the values are within a float's range.
    let most = 10i128.pow(33) - 1;
    (any::<i128>(), 0..128u32).prop_map(move |(value, shift)| (value >> shift).clamp(-most, most))
}

fn with_scale(array: &ArrayRef, scale: i8) -> ArrayRef {
    let data_type = match array.data_type() {
        DataType::Decimal32(..) => DataType::Decimal32(9, scale.min(9)),
        DataType::Decimal64(..) => DataType::Decimal64(18, scale.min(18)),
        DataType::Decimal128(..) => DataType::Decimal128(38, scale),
        _ => DataType::Decimal256(76, scale),
    };
    make_array(array.to_data().into_builder().data_type(data_type).build().unwrap())
}

fn dictionary(rows: usize) -> BoxedStrategy<ArrayRef> {
    // Distinct values may be null too, and there may be none, or more than keys.
    (0..100usize)
        .prop_flat_map(move |values| {
            let keys =
                if values == 0 { Just(vec![None; rows]).boxed() } else { nullable(rows, 0..values as u8).boxed() };
            (keys, scalar(values))
        })
        .prop_map(|(keys, values)| {
            Arc::new(DictionaryArray::<UInt8Type>::new(PrimitiveArray::from(keys), values)) as ArrayRef
        })
        .boxed()
}

fn run_end_encoded(rows: usize) -> BoxedStrategy<ArrayRef> {
    fn array<R: RunEndIndexType>(lengths: &[usize], rows: usize, values: &ArrayRef) -> ArrayRef
    where
        PrimitiveArray<R>: FromIterator<R::Native>,
        R::Native: TryFrom<usize, Error: std::fmt::Debug>,
    {
        let mut end = 0;
        let ends: PrimitiveArray<R> = lengths
            .iter()
            .map(|length| {
                end += length;
                R::Native::try_from(end).unwrap()
            })
            .collect();
        assert_eq!(end, rows);
        Arc::new(RunArray::try_new(&ends, values.as_ref()).unwrap())
    }

    if rows == 0 {
        return scalar(0);
    }
    vec(1..5usize, 1..=rows)
        .prop_flat_map(move |mut lengths| {
            let mut left = rows;
            lengths.retain_mut(|length| {
                *length = left.min(*length);
                left -= *length;
                *length > 0
            });
            *lengths.last_mut().unwrap() += left;
            let values = scalar(lengths.len());
            (Just(lengths), values, 0..3)
        })
        .prop_map(move |(lengths, values, width)| match width {
            0 => array::<Int16Type>(&lengths, rows, &values),
            1 => array::<Int32Type>(&lengths, rows, &values),
            _ => array::<Int64Type>(&lengths, rows, &values),
        })
        .boxed()
}

/// Lists of scalars in each of Arrow's five layouts, without nulls in them.
fn list(rows: usize) -> BoxedStrategy<ArrayRef> {
    let lengths = vec(prop_oneof![Just(0usize), 1..4usize, 100..130usize], rows);
    let nulls = vec(any::<bool>(), rows);
    (lengths, nulls, 0..5, 0..4usize, any::<bool>())
        .prop_flat_map(move |(lengths, nulls, layout, width, encoded)| {
            let elements = if layout == 2 { rows * width } else { lengths.iter().sum() };
            let items = if encoded { dictionary(elements) } else { scalar(elements) };
            (Just(lengths), Just(nulls), Just(layout), Just(width), items.prop_map(|items| without_nulls(&items)))
        })
        .prop_map(|(lengths, nulls, layout, width, items)| {
            let item = Arc::new(Field::new("item", items.data_type().clone(), true));
            let nulls = nulls.iter().any(|valid| !valid).then(|| NullBuffer::from(nulls));
            match layout {
                0 => Arc::new(ListArray::new(item, OffsetBuffer::from_lengths(lengths), items, nulls)) as ArrayRef,
                1 => Arc::new(LargeListArray::new(item, OffsetBuffer::from_lengths(lengths), items, nulls)),
                2 => {
                    let rows = lengths.len();
                    Arc::new(FixedSizeListArray::try_new_with_length(item, width as i32, items, nulls, rows).unwrap())
                }
                _ => {
                    // Rows stand in reverse.
                    let total: usize = lengths.iter().sum();
                    let mut end = total;
                    let offsets = lengths.iter().map(|length| {
                        end -= length;
                        end
                    });
                    let offsets: Vec<usize> = offsets.collect();
                    if layout == 3 {
                        let narrow = |values: &[usize]| ScalarBuffer::from_iter(values.iter().map(|v| *v as i32));
                        Arc::new(ListViewArray::new(item, narrow(&offsets), narrow(&lengths), items, nulls)) as ArrayRef
                    } else {
                        let wide = |values: &[usize]| ScalarBuffer::from_iter(values.iter().map(|v| *v as i64));
                        Arc::new(LargeListViewArray::new(item, wide(&offsets), wide(&lengths), items, nulls))
                    }
                }
            }
        })
        .boxed()
}

/// The same values, and where there was a null whatever stands below it.
fn without_nulls(array: &ArrayRef) -> ArrayRef {
    let plain = match array.data_type() {
        DataType::Dictionary(_, values) => arrow_cast::cast(array, values).unwrap(),
        _ => ArrayRef::clone(array),
    };
    let plain = make_array(plain.to_data().into_builder().nulls(None).build().unwrap());
    match array.data_type() {
        DataType::Dictionary(..) => arrow_cast::cast(
            &plain,
            &DataType::Dictionary(Box::new(DataType::Int32), Box::new(plain.data_type().clone())),
        )
        .unwrap_or(plain),
        _ => plain,
    }
}

/// One column of each kind that is refused today.
pub fn refused() -> Vec<Field> {
    let item = |data_type| Arc::new(Field::new("item", data_type, true));
    let union = UnionFields::try_new([0], [Field::new("n", DataType::Int64, true)]).unwrap();
    let nothings = Field::new("nothing", DataType::Null, true);
    vec![
        Field::new("either", DataType::Union(union, UnionMode::Dense), true),
        Field::new("points", DataType::List(item(DataType::Struct(vec![nothings].into()))), true),
        Field::new("grid", DataType::List(item(DataType::FixedSizeList(item(DataType::Int64), 0))), true),
        Field::new(
            "grids",
            DataType::List(item(DataType::new_list(DataType::new_fixed_size_list(DataType::Int64, 0, true), true))),
            true,
        ),
        Field::new("wait", DataType::Interval(IntervalUnit::MonthDayNano), true),
        Field::new("nothings", DataType::List(item(DataType::Null)), true),
    ]
}
