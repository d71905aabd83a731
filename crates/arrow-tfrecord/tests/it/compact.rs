//! Compact records are restored exactly, and invalid compact records are rejected.

use std::sync::Arc;

use arrow_tfrecord::{CompactForm, Encoder, Mapping, MappingOptions, RecordBuffer};
use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message;
use tfr_proto::tensorflow::feature::Kind;
use tfr_proto::tensorflow::{BytesList, Example, Feature, Features, FloatList, Int64List, SequenceExample};

use crate::tables;

fn framed(payloads: impl IntoIterator<Item = Vec<u8>>) -> RecordBuffer {
    let mut records = RecordBuffer::default();
    let mut frame = Vec::new();
    for payload in payloads {
        frame.clear();
        tfrecord_framing::append_record(&mut frame, |out| {
            out.extend_from_slice(&payload);
            Ok::<_, std::convert::Infallible>(())
        })
        .unwrap();
        records.push_frame(&frame);
    }
    records
}

/// A map entry as it stands in an Example. Messages of maps would be sorted, or in any order.
fn entry(name: &str, feature: &Feature) -> Vec<u8> {
    let mut entry = Vec::new();
    prost::encoding::string::encode(1, &name.to_owned(), &mut entry);
    prost::encoding::message::encode(2, feature, &mut entry);
    let mut field = Vec::new();
    prost::encoding::bytes::encode(1, &entry, &mut field);
    field
}

fn example(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut payload = Vec::new();
    prost::encoding::bytes::encode(1, &entries.concat(), &mut payload);
    payload
}

fn feature() -> impl Strategy<Value = Feature> {
    let text =
        prop_oneof![4 => vec(any::<u8>(), 0..40), 1 => vec(any::<u8>(), 100..140), 1 => vec(any::<u8>(), 300..301)];
    let kind = prop_oneof![
        3 => vec(any::<i64>(), 0..3).prop_map(|value| Kind::Int64List(Int64List { value })),
        3 => vec(0..200i64, 0..150).prop_map(|value| Kind::Int64List(Int64List { value })),
        3 => vec(any::<f32>(), 0..40).prop_map(|value| Kind::FloatList(FloatList { value })),
        3 => vec(text, 0..3).prop_map(|value| Kind::BytesList(BytesList { value })),
        1 => vec(vec(any::<u8>(), 0..40), 1).prop_map(|value| Kind::BytesList(BytesList { value })),
    ];
    proptest::option::weighted(0.9, kind).prop_map(|kind| Feature { kind })
}

/// How many records of a buffer are compact by a form. All of those are restored.
fn compact_records(form: &CompactForm, records: &RecordBuffer) -> usize {
    let mut restored = RecordBuffer::default();
    let mut number = 0;
    for record in 0..records.len() {
        let frame = records.slice(record..record + 1);
        let mut out = vec![0xee; frame.len() + 100];
        let Some(len) = form.compact(records, record, &mut out) else { continue };
        // What follows is of no meaning.
        out[len..].fill(0x33);
        assert!(form.restore(&out, len, frame.len(), &mut restored), "record {record}");
        assert_eq!(restored.slice(number..number + 1), frame);
        // Nor need there be anything.
        let mut again = RecordBuffer::default();
        assert!(form.restore(&out[..len], len, frame.len(), &mut again));
        assert_eq!(again.bytes(), frame);
        assert_eq!(form.compact(records, record, &mut out[..len]), Some(len), "there is just enough room");
        for room in 0..len {
            assert_eq!(form.compact(records, record, &mut out[..room]), None);
        }
        number += 1;
    }
    number
}

const NAMES: [&str; 6] = ["a", "label", "price", "user id", "a name that is too long for a template to hold", "\u{e4}"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn compact_form_shortens_encoded_tables(batch in tables::batch()) {
        let mapping = Mapping::try_new(&batch.schema(), &MappingOptions::default()).unwrap();
        let mut records = RecordBuffer::default();
        Encoder::new(Arc::new(mapping)).encode(&batch, &mut records).unwrap();
        let form = CompactForm::of(&records);
        let number = compact_records(&form, &records);
        prop_assert!(form.is_empty() || number > 0);
    }

    #[test]
    fn compact_form_round_trips_any_compacted_record(
        rows in vec(vec((0..NAMES.len(), feature()), 0..6), 1..30),
        shuffled in any::<bool>(),
        damage in vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1..=255u8), 0..3),
    ) {
        let mut payloads: Vec<_> = rows.into_iter().map(|mut features| {
            if !shuffled {
                features.sort_by_key(|(name, _)| *name);
                features.dedup_by_key(|(name, _)| *name);
            }
            let entries: Vec<_> = features.iter().map(|(name, feature)| entry(NAMES[*name], feature)).collect();
            example(&entries)
        }).collect();
        let form = CompactForm::of(&framed(payloads.clone()));
        for (record, byte, change) in damage {
            let payload = record.get(&payloads).clone();
            let at = byte.index(payload.len());
            let record = record.index(payloads.len());
            payloads[record][at] ^= change;
        }
        compact_records(&form, &framed(payloads));
    }

    #[test]
    fn compact_form_rejects_damaged_records(
        features in vec(feature(), NAMES.len()),
        flip in any::<prop::sample::Index>(),
        change in 1..=255u8,
        longer in 0..40usize,
    ) {
        let entries: Vec<_> = NAMES.iter().zip(&features).map(|(name, feature)| entry(name, feature)).collect();
        let records = framed([example(&entries)]);
        let form = CompactForm::of(&records);
        let mut out = vec![0; records.bytes().len()];
        let Some(len) = form.compact(&records, 0, &mut out) else { return Ok(()) };
        out.truncate(len);
        let frame_len = records.bytes().len();
        let mut restored = RecordBuffer::default();
        for short in 0..len {
            prop_assert!(!form.restore(&out[..short], short, frame_len, &mut restored));
            prop_assert!(!form.restore(&out, short, frame_len, &mut restored));
            prop_assert!(!form.restore(&out[..short], len, frame_len, &mut restored));
        }
        for other in [0, 15, 16, 17, frame_len - 1 - longer.min(frame_len - 1), frame_len + 1 + longer] {
            prop_assert!(!form.restore(&out, len, other, &mut restored));
        }
        let at = flip.index(len);
        out[at] ^= change;
        // A value may be another one. Lengths are as they were.
        if form.restore(&out, len, frame_len, &mut restored) {
            prop_assert_eq!(restored.bytes().len(), frame_len);
            prop_assert_eq!(&restored.bytes()[..12], &records.bytes()[..12]);
        } else {
            prop_assert!(restored.is_empty() && restored.bytes().is_empty());
        }
    }
}

fn int(value: i64) -> Feature {
    Feature { kind: Some(Kind::Int64List(Int64List { value: vec![value] })) }
}

#[test]
fn compact_form_allows_features_missing_from_every_record() {
    // No record has all of them; which comes first is told by the third.
    let rows = [vec!["a"], vec!["b"], vec!["a", "b"], vec!["c"], vec!["b", "c"], vec![], vec!["a", "c"]];
    let payloads = rows.iter().map(|names| example(&names.iter().map(|name| entry(name, &int(7))).collect::<Vec<_>>()));
    let records = framed(payloads);
    let form = CompactForm::of(&records);
    assert_eq!(compact_records(&form, &records), rows.len());
}

#[test]
fn compact_form_skips_records_whose_kind_appears_late() {
    let empty = example(&[entry("a_rather_long_name", &Feature { kind: None }), entry("b", &int(3))]);
    let form = CompactForm::of(&framed([empty.clone()]));
    let records = framed([empty, example(&[entry("a_rather_long_name", &int(1)), entry("b", &int(3))])]);
    assert_eq!(compact_records(&form, &records), 1);
}

#[test]
fn compact_form_is_empty_for_other_records() {
    let features = |name: &str| Features { feature: [(name.to_owned(), int(5))].into() };
    let sequence = SequenceExample { context: Some(features("a")), feature_lists: Some(Default::default()) };
    let image = Feature { kind: Some(Kind::BytesList(BytesList { value: vec![vec![1; 1000]] })) };
    for payload in
        [vec![], b"anything".to_vec(), vec![0x0a], sequence.encode_to_vec(), example(&[entry("image", &image)])]
    {
        assert!(CompactForm::of(&framed(vec![payload.clone(); 3])).is_empty(), "{payload:?}");
    }
    assert!(CompactForm::of(&RecordBuffer::default()).is_empty());
    let example = Example { features: Some(features("passengers")) };
    assert!(!CompactForm::of(&framed([example.encode_to_vec()])).is_empty());
}
