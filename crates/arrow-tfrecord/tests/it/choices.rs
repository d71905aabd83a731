//! Every choice, by the values in the record.

use std::sync::Arc;

use arrow_array::builder::{Float64Builder, ListBuilder};
use arrow_array::*;
use arrow_schema::{DataType, TimeUnit};
use arrow_tfrecord::{Choice, Encoder, LossClass, Mapping, MappingOptions, ReaderBuilder, RecordBuffer};
use proptest::prelude::*;
use prost::Message;
use tfr_proto::tensorflow::feature::Kind;
use tfr_proto::tensorflow::{DataType as Dtype, Example, TensorProto};
use tfrecord_framing::RecordReader;

/// The values of each record, one column being written by `choice`, and what it loses.
fn written(array: impl Array + 'static, choice: Choice) -> (Vec<Option<Kind>>, LossClass) {
    let batch = RecordBatch::try_from_iter_with_nullable([("c", Arc::new(array) as ArrayRef, true)]).unwrap();
    let mapping = Mapping::try_new(&batch.schema(), &MappingOptions::default().with_choice("c", choice)).unwrap();
    let class = mapping.columns()[0].class;
    let mut records = RecordBuffer::default();
    Encoder::new(Arc::new(mapping)).encode(&batch, &mut records).unwrap();
    let mut reader = RecordReader::new(records.bytes());
    let (mut record, mut kinds) = (Vec::new(), Vec::new());
    while reader.read_record(&mut record).unwrap() {
        let mut example = Example::decode(record.as_slice()).unwrap();
        kinds.push(example.features.as_mut().unwrap().feature.remove("c").and_then(|feature| feature.kind));
    }
    (kinds, class)
}

fn int64s(array: impl Array + 'static, choice: Choice) -> (Vec<Option<Vec<i64>>>, LossClass) {
    let (kinds, class) = written(array, choice);
    let values = kinds.into_iter().map(|kind| match kind {
        Some(Kind::Int64List(list)) => Some(list.value),
        None => None,
        other => panic!("{other:?}"),
    });
    (values.collect(), class)
}

fn texts(array: impl Array + 'static) -> Vec<Option<String>> {
    let (kinds, class) = written(array, Choice::String);
    assert_eq!(class, LossClass::Encoded);
    let text = |kind| match kind {
        Some(Kind::BytesList(list)) => Some(String::from_utf8(list.value.concat()).unwrap()),
        None => None,
        other => panic!("{other:?}"),
    };
    kinds.into_iter().map(text).collect()
}

#[test]
fn unsigned_integers_wrap() {
    let (values, class) = int64s(UInt64Array::from(vec![Some(1), None, Some(u64::MAX)]), Choice::Wrap);
    assert_eq!(values, [Some(vec![1]), None, Some(vec![-1])]);
    assert_eq!(class, LossClass::Encoded);
}

#[test]
fn doubles_keep_their_bits() {
    let values = [1e300, -0.0, f64::MIN_POSITIVE / 2.0, f64::NAN];
    let (written, class) = int64s(Float64Array::from(values.to_vec()), Choice::Bits);
    let read: Vec<_> = written.into_iter().map(|bits| bits.unwrap()[0] as u64).collect();
    assert_eq!(read, values.map(f64::to_bits));
    assert_eq!(class, LossClass::Encoded);
}

#[test]
fn doubles_are_tensors() {
    let scalars = written(Float64Array::from(vec![Some(1e300), None]), Choice::Tensor);
    let mut lists = ListBuilder::new(Float64Builder::new());
    lists.append_value([Some(0.1), Some(-2.5)]);
    lists.append_value([]);
    let lists = written(lists.finish(), Choice::Tensor);
    let tensor = |kind: &Option<Kind>| {
        let Some(Kind::BytesList(list)) = kind else { panic!("{kind:?}") };
        let [tensor] = list.value.as_slice() else { panic!("one tensor") };
        let tensor = TensorProto::decode(tensor.as_slice()).unwrap();
        assert_eq!(tensor.dtype(), Dtype::DtDouble);
        let shape: Vec<_> = tensor.tensor_shape.unwrap().dim.iter().map(|dim| dim.size).collect();
        let (values, _) = tensor.tensor_content.as_chunks();
        (shape, values.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect::<Vec<_>>())
    };
    assert_eq!(tensor(&scalars.0[0]), (vec![], vec![1e300]));
    assert_eq!(scalars.0[1], None);
    assert_eq!(tensor(&lists.0[0]), (vec![2], vec![0.1, -2.5]));
    assert_eq!(tensor(&lists.0[1]), (vec![0], vec![]));
}

#[test]
fn decimals_are_exact_as_text_and_unscaled() {
    let decimals =
        || Decimal128Array::from(vec![Some(12_345), None, Some(-5)]).with_precision_and_scale(38, 3).unwrap();
    assert_eq!(texts(decimals()), [Some("12.345".to_owned()), None, Some("-0.005".to_owned())]);
    let (values, class) = int64s(decimals(), Choice::Unscaled);
    assert_eq!(values, [Some(vec![12_345]), None, Some(vec![-5])]);
    assert_eq!(class, LossClass::Encoded);
}

/// Where rounding twice, to float64 and then to float32, would give another float than rounding once.
#[test]
fn decimals_round_once() {
    // 2^24 + 1 lies between two floats; what is beyond the 17th digit decides.
    let just_above = 16_777_217_000_000_000_000_000_000_001i128;
    let decimals =
        Decimal128Array::from(vec![just_above, just_above - 2, just_above - 1]).with_precision_and_scale(38, 21);
    let batch = RecordBatch::try_from_iter([("c", Arc::new(decimals.unwrap()) as ArrayRef)]).unwrap();
    let mapping = Mapping::try_new(&batch.schema(), &MappingOptions::default()).unwrap();
    let mut records = RecordBuffer::default();
    Encoder::new(Arc::new(mapping)).encode(&batch, &mut records).unwrap();
    let float = |record| {
        let framed = records.slice(record..record + 1);
        f32::from_le_bytes(*framed[..framed.len() - 4].last_chunk().unwrap())
    };
    assert_eq!([float(0), float(1), float(2)], [16_777_218.0, 16_777_216.0, 16_777_216.0]);
}

#[test]
fn times_change_unit() {
    let nanos = || TimestampNanosecondArray::from(vec![Some(1_999_999_999), None, Some(-1)]);
    assert_eq!(int64s(nanos(), Choice::Seconds), (vec![Some(vec![1]), None, Some(vec![-1])], LossClass::Narrowed));
    assert_eq!(int64s(nanos(), Choice::Micros).0, [Some(vec![1_999_999]), None, Some(vec![-1])]);
    let days = || Date32Array::from(vec![Some(2), None]);
    assert_eq!(int64s(days(), Choice::Seconds), (vec![Some(vec![172_800]), None], LossClass::Encoded));
    assert_eq!(int64s(days(), Choice::Millis).0, [Some(vec![172_800_000]), None]);
    let seconds = Time32SecondArray::from(vec![Some(3)]);
    assert_eq!(int64s(seconds, Choice::Micros), (vec![Some(vec![3_000_000])], LossClass::Encoded));
}

#[test]
fn text_choice_formats_dates_times_and_doubles() {
    assert_eq!(texts(Date32Array::from(vec![Some(0), None])), [Some("1970-01-01".to_owned()), None]);
    let at = TimestampMicrosecondArray::from(vec![1_700_000_000_000_001]).with_timezone("UTC");
    assert_eq!(texts(at), [Some("2023-11-14T22:13:20.000001Z".to_owned())]);
    assert_eq!(texts(Time64MicrosecondArray::from(vec![1_000_001])), [Some("00:00:01.000001".to_owned())]);
    let doubles = vec![0.1, 1e300, f64::MIN_POSITIVE];
    let read: Vec<f64> =
        texts(Float64Array::from(doubles.clone())).into_iter().map(|text| text.unwrap().parse().unwrap()).collect();
    assert_eq!(read, doubles);
}

/// A choice applies to the values, whatever contains them.
#[test]
fn dictionaries_and_lists_take_the_choices_of_their_values() {
    let values = TimestampSecondArray::from(vec![5, 6]);
    let keys = Int8Array::from(vec![Some(1), None, Some(0)]);
    let dictionary = DictionaryArray::new(keys, Arc::new(values));
    assert_eq!(int64s(dictionary, Choice::Millis).0, [Some(vec![6_000]), None, Some(vec![5_000])]);

    let doubles =
        DictionaryArray::new(Int8Array::from(vec![Some(1), None]), Arc::new(Float64Array::from(vec![0.5, 2.5])));
    let plain = Float64Array::from(vec![Some(2.5), None]);
    assert_eq!(written(doubles, Choice::Tensor), written(plain, Choice::Tensor));

    let list = ListArray::from_iter_primitive::<types::Date32Type, _, _>([Some(vec![Some(1), Some(2)])]);
    assert_eq!(int64s(list, Choice::Seconds).0, [Some(vec![86_400, 172_800])]);
}

proptest! {
    /// Whatever has a text comes back from it: years before 0 and after 9999 too.
    #[test]
    fn text_choice_round_trips_dates_and_times(
        seconds in proptest::collection::vec(-8_334_000_000_000i64..8_210_000_000_000, 1..20),
        ticks in 0..1_000_000_000i64,
        near in any::<bool>(),
    ) {
        let zones = [None, Some("UTC"), Some("+05:30"), Some("Europe/Berlin"), Some("America/New_York")];
        let units = [
            (TimeUnit::Second, 1),
            (TimeUnit::Millisecond, 1_000),
            (TimeUnit::Microsecond, 1_000_000),
            (TimeUnit::Nanosecond, 1_000_000_000),
        ];
        let types = zones.iter().flat_map(|zone| {
            units.map(|(unit, scale)| (DataType::Timestamp(unit, zone.map(Into::into)), scale))
        });
        for (data_type, scale) in types.chain([(DataType::Date64, 1_000), (DataType::Date32, 0)]) {
            let value = |seconds: &i64| match scale {
                0 => Some(seconds.div_euclid(86_400)),
                // Around the years where the sign begins.
                _ if near => Some((if *seconds < 0 { -62_167_219_200 } else { 253_402_300_800 }) + seconds % 86_400)
                    .and_then(|near: i64| near.checked_mul(scale)),
                _ => seconds.checked_mul(scale).and_then(|value| value.checked_add(ticks % scale)),
            };
            let values: Int64Array = seconds.iter().map(value).collect();
            let layout = if scale == 0 { DataType::Int32 } else { DataType::Int64 };
            let array = arrow_cast::cast(&arrow_cast::cast(&values, &layout).unwrap(), &data_type).unwrap();
            let batch = RecordBatch::try_from_iter_with_nullable([("c", array, true)]).unwrap();
            let options = MappingOptions::default().with_choice("c", Choice::String);
            let mapping = Mapping::try_new(&batch.schema(), &options).unwrap();
            let mut records = RecordBuffer::default();
            Encoder::new(Arc::new(mapping)).encode(&batch, &mut records).unwrap();
            let mut reader = ReaderBuilder::new(batch.schema()).with_mapping(options).build(records.bytes()).unwrap();
            prop_assert_eq!(reader.next().transpose().unwrap(), Some(batch));
        }
    }
}
