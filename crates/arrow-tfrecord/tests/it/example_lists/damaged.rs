//! Damaged records, as protobuf reads them.

use std::collections::BTreeMap;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_tfrecord::SchemaInference;
use prost::Message;
use tfr_proto::tensorflow::feature::Kind;
use tfr_proto::tensorflow::serving::ExampleListWithContext;
use tfr_proto::tensorflow::{Example, Feature};
use tfrecord_framing::Position;

use super::{of_lists, payloads, queries, read};

/// Values of the columns of [`queries`] in a message: the query, the user, and each document.
type Values = (Option<Vec<u8>>, i64, Vec<(i64, Option<Vec<u8>>, Option<u32>)>);

/// The values as protobuf has them. `None` if the columns cannot have them.
fn values(message: &ExampleListWithContext) -> Option<Values> {
    fn features(example: &Example) -> BTreeMap<String, Feature> {
        example.features.clone().unwrap_or_default().feature
    }
    fn one<T: Clone>(values: &[T]) -> Option<T> {
        if let [value] = values { Some(value.clone()) } else { None }
    }
    let text = |features: &BTreeMap<String, Feature>, name: &str| match features
        .get(name)
        .and_then(|feature| feature.kind.clone())
    {
        None => Some(None),
        Some(Kind::BytesList(list)) => one(&list.value).filter(|text| str::from_utf8(text).is_ok()).map(Some),
        Some(_) => None,
    };
    let int = |features: &BTreeMap<String, Feature>, name: &str| match features.get(name)?.kind.as_ref()? {
        Kind::Int64List(list) => one(&list.value),
        _ => None,
    };
    let float = |features: &BTreeMap<String, Feature>, name: &str| match features
        .get(name)
        .and_then(|feature| feature.kind.clone())
    {
        None => Some(None),
        Some(Kind::FloatList(list)) => one(&list.value).map(|value| Some(value.to_bits())),
        Some(_) => None,
    };
    let context = message.context.as_ref().map(features).unwrap_or_default();
    let documents = message
        .examples
        .iter()
        .map(features)
        .map(|document| Some((int(&document, "id")?, text(&document, "title")?, float(&document, "score")?)));
    Some((text(&context, "query")?, int(&context, "user")?, documents.collect::<Option<_>>()?))
}

fn values_read(batch: &RecordBatch) -> Values {
    let text = |array: &ArrayRef, row: usize| {
        let array = array.as_string::<i32>();
        array.is_valid(row).then(|| array.value(row).as_bytes().to_vec())
    };
    let docs = batch.column(1).as_list::<i32>().value(0);
    let [ids, titles, scores] = docs.as_struct().columns() else { panic!("three fields") };
    let scores = scores.as_primitive::<Float32Type>();
    let documents = (0..docs.len()).map(|row| {
        let score = scores.is_valid(row).then(|| scores.value(row).to_bits());
        (ids.as_primitive::<Int64Type>().value(row), text(titles, row), score)
    });
    (text(batch.column(0), 0), batch.column(2).as_primitive::<Int64Type>().value(0), documents.collect())
}

/// What is read from a damaged record is what protobuf reads from it, or an error.
#[test]
fn elwc_reader_agrees_with_protobuf_on_damaged_records() {
    let rows: Vec<_> = payloads(&queries(), &of_lists()).unwrap();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let (mut equal, mut refused, mut lenient) = (0, 0, 0);
    for mutation in 0..4000 {
        let mut record = rows[mutation % 2].clone();
        for _ in 0..=random(3) {
            if record.is_empty() {
                break;
            }
            let at = random(record.len());
            match random(4) {
                0 => record[at] ^= 1 << random(8),
                1 => drop(record.remove(at)),
                2 => record.insert(at, u8::try_from(random(256)).unwrap()),
                _ => record.truncate(at + 1),
            }
        }
        let _ = SchemaInference::new().observe(&record, Position::default());
        let theirs = ExampleListWithContext::decode(record.as_slice());
        match (read(&queries().schema(), &of_lists(), std::slice::from_ref(&record)), theirs) {
            (Err(_), _) => refused += 1,
            (Ok(batch), Ok(message)) => {
                assert_eq!(Some(values_read(&batch)), values(&message), "mutation {mutation}: {record:02x?}");
                equal += 1;
            }
            // Features that no column reads are not decoded, and so may be anything.
            (Ok(_), Err(_)) => lenient += 1,
        }
    }
    assert_eq!(equal + refused + lenient, 4000);
    assert!(equal > 0 && refused > lenient, "{equal} {refused} {lenient}");
    for len in 0..rows[0].len() {
        let (cut, whole) = (rows[0][..len].to_vec(), rows[0].clone());
        assert!(read(&queries().schema(), &of_lists(), &[whole, cut]).is_err(), "cut to {len} bytes");
    }
}
