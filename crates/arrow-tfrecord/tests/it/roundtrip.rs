//! The reader restores what the writer wrote.

use std::sync::Arc;

use arrow_array::builder::{FixedSizeListBuilder, Float64Builder, ListBuilder};
use arrow_array::types::{Date32Type, Float64Type, Int8Type, Int16Type};
use arrow_array::*;
use arrow_schema::{DataType, Field, Schema};
use arrow_tfrecord::{
    Choice, Encoder, LossClass, Mapping, MappingOptions, ReaderBuilder, RecordBuffer, RowFilter, WriterBuilder,
};
use proptest::prelude::*;
use tfrecord_framing::{Compression, Level};

use crate::tables;

pub fn encoded(batch: &RecordBatch, options: &MappingOptions) -> Vec<u8> {
    let mapping = Mapping::try_new(&batch.schema(), options).unwrap();
    let mut records = RecordBuffer::default();
    Encoder::new(Arc::new(mapping)).encode(batch, &mut records).unwrap();
    records.bytes().to_vec()
}

fn decoded(builder: ReaderBuilder, file: &[u8]) -> Vec<RecordBatch> {
    builder.build(file).unwrap().collect::<Result<_, _>>().unwrap()
}

/// The batches as one, of the schema of `like` if there are none.
fn joined(batches: &[RecordBatch], like: &RecordBatch) -> RecordBatch {
    match batches {
        [] => RecordBatch::new_empty(like.schema()),
        [batch] => batch.clone(),
        _ => panic!("{} batches", batches.len()),
    }
}

/// Values instead of keys or runs.
fn plain(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Dictionary(_, values) => arrow_cast::cast(array, values).unwrap(),
        DataType::RunEndEncoded(_, values) => arrow_cast::cast(array, values.data_type()).unwrap(),
        _ => ArrayRef::clone(array),
    }
}

/// Whether the schemas are equal and the values too, NaNs by their bits.
pub fn same(a: &RecordBatch, b: &RecordBatch) -> bool {
    let equal = |(a, b): (&ArrayRef, &ArrayRef)| plain(a).to_data() == plain(b).to_data();
    a.schema() == b.schema() && a.num_rows() == b.num_rows() && a.columns().iter().zip(b.columns()).all(equal)
}

/// A NaN may come back as another.
fn has_other_nans(data_type: &DataType) -> bool {
    match data_type {
        DataType::Float16 => true,
        DataType::Dictionary(_, item) => has_other_nans(item),
        DataType::RunEndEncoded(_, item)
        | DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => has_other_nans(item.data_type()),
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn default_mapping_round_trips_any_batch(batch in tables::batch()) {
        let options = MappingOptions::default();
        let file = encoded(&batch, &options);
        let back = joined(&decoded(ReaderBuilder::new(batch.schema()), &file), &batch);
        prop_assert_eq!(back.schema(), batch.schema());
        prop_assert_eq!(back.num_rows(), batch.num_rows());
        // Whatever was narrowed narrows to the same.
        prop_assert!(encoded(&back, &options) == file);
        let mapping = Mapping::try_new(&batch.schema(), &options).unwrap();
        for (column, mapped) in mapping.columns().iter().enumerate() {
            if mapped.class != LossClass::Narrowed && !has_other_nans(&mapped.data_type) {
                let (back, array) = (plain(back.column(column)), plain(batch.column(column)));
                prop_assert_eq!(back.to_data(), array.to_data());
            }
        }
    }

    #[test]
    fn projection_equals_selecting_columns(
        batch in tables::batch(),
        picks in proptest::collection::vec(any::<proptest::sample::Index>(), 0..4),
        batch_size in 1..50usize,
    ) {
        let file = encoded(&batch, &MappingOptions::default());
        let columns = batch.num_columns();
        let projection: Vec<_> = picks.iter().filter(|_| columns > 0).map(|pick| pick.index(columns)).collect();
        let builder = ReaderBuilder::new(batch.schema()).with_batch_size(batch_size);
        let whole = decoded(builder.clone(), &file);
        let projected = decoded(builder.with_projection(projection.clone()), &file);
        prop_assert_eq!(whole.len(), batch.num_rows().div_ceil(batch_size));
        prop_assert_eq!(whole.len(), projected.len());
        for (whole, projected) in whole.iter().zip(&projected) {
            prop_assert!(same(&whole.project(&projection).unwrap(), projected));
        }
    }

    #[test]
    fn decoder_output_is_independent_of_input_pieces(batch in tables::batch(), pieces in proptest::collection::vec(1..200usize, 1..8)) {
        let file = encoded(&batch, &MappingOptions::default());
        let whole = joined(&decoded(ReaderBuilder::new(batch.schema()), &file), &batch);
        let mut decoder = ReaderBuilder::new(batch.schema()).build_decoder().unwrap();
        let mut rest = file.as_slice();
        for piece in pieces.iter().cycle() {
            let (head, _) = rest.split_at((*piece).min(rest.len()));
            prop_assert_eq!(decoder.decode(head).unwrap(), head.len());
            rest = &rest[head.len()..];
            if head.is_empty() {
                break;
            }
        }
        let back = joined(&decoder.flush().unwrap().into_iter().collect::<Vec<_>>(), &batch);
        prop_assert!(same(&back, &whole));
        prop_assert!(decoder.flush().unwrap().is_none());
    }
}

/// Writes the column by `choice` and reads it back.
fn through(array: ArrayRef, choice: Choice) -> ArrayRef {
    let batch = RecordBatch::try_from_iter_with_nullable([("c", array, true)]).unwrap();
    let options = MappingOptions::default().with_choice("c", choice);
    let file = encoded(&batch, &options);
    let back = decoded(ReaderBuilder::new(batch.schema()).with_mapping(options), &file);
    assert_eq!(back[0].schema(), batch.schema());
    ArrayRef::clone(back[0].column(0))
}

#[test]
fn exact_choices_round_trip() {
    let doubles = vec![Some(0.1), None, Some(-1e300), Some(f64::MIN_POSITIVE / 2.0), Some(f64::INFINITY), Some(-0.0)];
    let double = || Arc::new(Float64Array::from(doubles.clone())) as ArrayRef;
    let lists = || {
        let mut lists = ListBuilder::new(Float64Builder::new());
        lists.append_value([Some(0.1), Some(-1e300)]);
        lists.append(false);
        lists.append_value([]);
        Arc::new(lists.finish()) as ArrayRef
    };
    let pairs = || {
        let mut pairs = FixedSizeListBuilder::new(Float64Builder::new(), 2);
        pairs.values().append_slice(&[0.1, -1e300]);
        pairs.append(true);
        pairs.values().append_nulls(2);
        pairs.append(false);
        Arc::new(pairs.finish()) as ArrayRef
    };
    let decimal = || {
        let values = Decimal128Array::from(vec![Some(12_345), None, Some(-5), Some(10i128.pow(18))]);
        Arc::new(values.with_precision_and_scale(38, 3).unwrap()) as ArrayRef
    };
    let wide = Decimal256Array::from(vec![Some(arrow_buffer::i256::from_i128(i128::MAX)), None]);
    let small = Decimal32Array::from(vec![Some(-999), None]).with_precision_and_scale(3, 3).unwrap();
    let nanos = || Arc::new(TimestampNanosecondArray::from(vec![Some(1_999_999_999), None, Some(-1)])) as ArrayRef;
    let zoned = || {
        let values = TimestampMicrosecondArray::from(vec![Some(1_700_000_000_000_001), None, Some(-1)]);
        Arc::new(values.with_timezone("+02:00")) as ArrayRef
    };
    let days = || Arc::new(Date32Array::from(vec![Some(20_000), None, Some(-1)])) as ArrayRef;
    let keys = Int8Array::from(vec![Some(1), None, Some(0), Some(1)]);
    let dictionary: ArrayRef =
        Arc::new(DictionaryArray::<Int8Type>::new(keys, Arc::new(Float64Array::from(vec![0.1, 0.2]))));
    let day_lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Date32Type, _, _>([
        Some(vec![Some(1), Some(2)]),
        None,
        Some(vec![]),
    ]));
    let cases: Vec<(ArrayRef, Choice)> = vec![
        (Arc::new(UInt64Array::from(vec![Some(1), None, Some(u64::MAX)])), Choice::Wrap),
        (double(), Choice::Bits),
        (double(), Choice::String),
        (double(), Choice::Tensor),
        (lists(), Choice::Bits),
        (lists(), Choice::String),
        (lists(), Choice::Tensor),
        (pairs(), Choice::Bits),
        (pairs(), Choice::String),
        (pairs(), Choice::Tensor),
        (dictionary, Choice::String),
        (decimal(), Choice::String),
        (decimal(), Choice::Unscaled),
        (Arc::new(wide), Choice::String),
        (Arc::new(small), Choice::Unscaled),
        (nanos(), Choice::String),
        (zoned(), Choice::String),
        (zoned(), Choice::Micros),
        (days(), Choice::String),
        (days(), Choice::Seconds),
        (days(), Choice::Micros),
        (day_lists, Choice::Millis),
        (Arc::new(Date64Array::from(vec![Some(86_400_000), None])), Choice::String),
        (Arc::new(Time32SecondArray::from(vec![Some(3), None])), Choice::String),
        (Arc::new(Time32SecondArray::from(vec![Some(3), None])), Choice::Micros),
        (Arc::new(Time64NanosecondArray::from(vec![Some(3_000_000_001), None])), Choice::String),
        (Arc::new(DurationSecondArray::from(vec![Some(-3), None])), Choice::Millis),
        (
            Arc::new(IntervalMonthDayNanoArray::from(vec![
                Some(arrow_buffer::IntervalMonthDayNano::new(14, -3, 1_500_000_000)),
                None,
            ])),
            Choice::String,
        ),
    ];
    for (array, choice) in cases {
        let back = through(ArrayRef::clone(&array), choice);
        let nulls_masked = plain(&back);
        assert_eq!(&nulls_masked, &plain(&array), "{} by {choice}", array.data_type());
    }
}

/// Rounded down on the way out, and in the unit of the type again.
#[test]
fn coarse_time_choices_round_down() {
    let nanos = Arc::new(TimestampNanosecondArray::from(vec![Some(1_999_999_999), None, Some(-1)]));
    let seconds = TimestampNanosecondArray::from(vec![Some(1_000_000_000), None, Some(-1_000_000_000)]);
    assert_eq!(through(nanos, Choice::Seconds).as_ref(), &seconds as &dyn Array);
}

#[test]
fn short_decimals_survive_being_floats() {
    let prices = Decimal64Array::from(vec![Some(999), Some(-10), None, Some(999_999), Some(0)]);
    let prices = Arc::new(prices.with_precision_and_scale(18, 2).unwrap());
    let batch = RecordBatch::try_from_iter_with_nullable([("c", prices as ArrayRef, true)]).unwrap();
    let file = encoded(&batch, &MappingOptions::default());
    assert_eq!(decoded(ReaderBuilder::new(batch.schema()), &file), [batch]);
}

#[test]
fn type_round_trip_keeps_names_of_nested_fields() {
    let runs = DataType::RunEndEncoded(
        Arc::new(Field::new("ends", DataType::Int16, false)),
        Arc::new(Field::new("value", DataType::Float64, true)),
    );
    let value = Float64Array::from(vec![1.0, 2.0]);
    let array = RunArray::<Int16Type>::try_new(&PrimitiveArray::from(vec![2, 3]), &value).unwrap();
    let array = make_array(array.to_data().into_builder().data_type(runs.clone()).build().unwrap());
    let item = Field::new("element", DataType::Float64, false).with_metadata([("a".to_owned(), "b".to_owned())].into());
    let lists = ListArray::from_iter_primitive::<Float64Type, _, _>([Some(vec![Some(1.0)]), None, Some(vec![])]);
    let (_, offsets, values, nulls) = lists.into_parts();
    let lists = ListArray::new(Arc::new(item), offsets, values, nulls);
    let schema = Schema::new_with_metadata(
        vec![Field::new("r", runs, true), Field::new("l", lists.data_type().clone(), true)],
        [("made by".to_owned(), "a test".to_owned())].into(),
    );
    let batch = RecordBatch::try_new(Arc::new(schema), vec![array, Arc::new(lists)]).unwrap();
    let file = encoded(&batch, &MappingOptions::default());
    let back = decoded(ReaderBuilder::new(batch.schema()), &file);
    assert_eq!(back[0].schema(), batch.schema());
    assert_eq!(back[0].column(1), batch.column(1));

    let but_the_second = |batch: RecordBatch| Ok((0..batch.num_rows()).map(|row| Some(row != 1)).collect());
    let filter = RowFilter::new(vec![0, 1], but_the_second);
    let back = decoded(ReaderBuilder::new(batch.schema()).with_row_filter(filter), &file);
    assert_eq!(back[0].schema(), batch.schema());
    assert_eq!(
        back[0].column(1).as_ref(),
        &arrow_select::take::take(batch.column(1), &UInt32Array::from(vec![0, 2]), None).unwrap()
    );
}

#[test]
fn reader_detects_compression_by_content() {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..20_000));
    let batch = RecordBatch::try_from_iter([("id", ids)]).unwrap();
    for compression in [Compression::None, Compression::Gzip, Compression::Zlib] {
        let builder = WriterBuilder::new(batch.schema()).with_compression(compression, Level::default());
        let mut writer = builder.build(Vec::new()).unwrap();
        writer.write(&batch).unwrap();
        let file = writer.finish().unwrap();
        let batches = decoded(ReaderBuilder::new(batch.schema()), &file);
        assert_eq!(batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [8192, 8192, 3616]);
        assert_eq!(batches[2], batch.slice(16_384, 3616));
        let named = decoded(ReaderBuilder::new(batch.schema()).with_compression(compression), &file);
        assert_eq!(batches, named);
    }
}

/// Arrow does not parse the text that it gives durations.
#[test]
fn duration_text_round_trips() {
    let seconds = DurationSecondArray::from(vec![Some(0), None, Some(-5400), Some(i64::MAX / 1000)]);
    let nanos = DurationNanosecondArray::from(vec![Some(i64::MAX), Some(-1), None, Some(1_500_000_000)]);
    let columns = [("s", Arc::new(seconds) as ArrayRef, true), ("n", Arc::new(nanos) as ArrayRef, true)];
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let options = MappingOptions::default().with_choice("s", Choice::String).with_choice("n", Choice::String);
    let mut writer = WriterBuilder::new(batch.schema()).with_mapping(options.clone()).build(Vec::new()).unwrap();
    writer.write(&batch).unwrap();
    let file = writer.finish().unwrap();
    assert_eq!(decoded(ReaderBuilder::new(batch.schema()).with_mapping(options), &file), [batch]);
}
