//! Nested columns of records that do not fit together, or are no records at all.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use arrow_tfrecord::{Encoder, Error, Mapping, MappingOptions, NullPolicy, ReaderBuilder, RecordBuffer, RecordType};
use insta::assert_snapshot;
use proptest::prelude::*;
use prost::Message;
use tfr_proto::tensorflow::feature::Kind;
use tfr_proto::tensorflow::{Example, Feature, Features, Int64List};
use tfrecord_framing::{RecordReader, RecordWriter};

use crate::nested_tables::{self, Nulls};

fn record(features: &[(&str, &[i64])]) -> Vec<u8> {
    let feature = |values: &[i64]| Feature { kind: Some(Kind::Int64List(Int64List { value: values.to_vec() })) };
    let feature = features.iter().map(|(name, values)| ((*name).to_owned(), feature(values))).collect();
    Example { features: Some(Features { feature }) }.encode_to_vec()
}

fn read(schema: &SchemaRef, options: &MappingOptions, records: &[Vec<u8>]) -> Result<Option<RecordBatch>, Error> {
    let mut writer = RecordWriter::new(Vec::new());
    records.iter().for_each(|record| writer.write_record(record).unwrap());
    let file = writer.finish().unwrap();
    let mut decoder = ReaderBuilder::new(Arc::clone(schema)).with_mapping(options.clone()).build_decoder()?;
    decoder.decode(&file)?;
    decoder.flush()
}

/// The error of a file whose second record is the bad one.
fn refusal(data_type: &DataType, options: &MappingOptions, good: &[(&str, &[i64])], bad: &[(&str, &[i64])]) -> String {
    let schema = Arc::new(Schema::new(vec![Field::new("c", data_type.clone(), true)]));
    assert_eq!(read(&schema, options, &[record(good)]).unwrap().unwrap().num_rows(), 1);
    let error = read(&schema, options, &[record(good), record(bad)]).unwrap_err();
    error.to_string()
}

#[test]
fn reader_rejects_inconsistent_features() {
    let int = |name: &str, nullable| Field::new(name, DataType::Int64, nullable);
    let list = |item: DataType| DataType::new_list(item, true);
    let fields: Fields = vec![int("x", true), int("y", false)].into();
    let point = DataType::Struct(fields.clone());
    let ragged = list(list(DataType::Int64));
    let deep = list(list(DataType::Struct(fields)));
    let pairs = list(DataType::new_fixed_size_list(DataType::Int64, 2, true));
    let vast = list(list(DataType::new_fixed_size_list(DataType::Int64, 2, true)));
    let plain = MappingOptions::default();
    let masks = MappingOptions::default().with_nulls(NullPolicy::Mask);
    let (values, lengths) = ("c/ragged_flat_values", "c/ragged_row_lengths_0");
    let (x, y) = ("c/x/ragged_flat_values", "c/y/ragged_flat_values");
    let (x_lengths, y_lengths) = ("c/x/ragged_row_lengths_0", "c/y/ragged_row_lengths_0");
    let refusals = [
        refusal(&point, &plain, &[("c/y", &[1])], &[("c/x", &[1])]),
        refusal(&list(point.clone()), &plain, &[("c/x", &[1]), ("c/y", &[1])], &[("c/x", &[1]), ("c/y", &[1, 2])]),
        refusal(&list(point.clone()), &plain, &[("c/x", &[1]), ("c/y", &[1])], &[("c/x", &[1])]),
        refusal(&ragged, &plain, &[(values, &[1, 2]), (lengths, &[0, 2])], &[(values, &[1]), (lengths, &[2])]),
        refusal(&ragged, &plain, &[], &[(values, &[1]), (lengths, &[-1])]),
        refusal(&ragged, &plain, &[], &[(values, &[1]), (lengths, &[i64::MAX, i64::MAX])]),
        refusal(&ragged, &plain, &[], &[(values, &[1])]),
        refusal(
            &deep,
            &plain,
            &[(x, &[1]), (y, &[1]), (x_lengths, &[0, 1]), (y_lengths, &[0, 1])],
            &[(x, &[1]), (y, &[1]), (x_lengths, &[0, 1]), (y_lengths, &[1, 0])],
        ),
        refusal(&vast, &plain, &[], &[(values, &[]), (lengths, &[i64::MAX, i64::MAX, 3])]),
        refusal(&pairs, &plain, &[("c", &[1, 2])], &[("c", &[1, 2, 3])]),
        refusal(
            &list(DataType::Int64),
            &masks,
            &[("c", &[1]), ("c/is_null", &[1])],
            &[("c", &[1]), ("c/is_null", &[2])],
        ),
        refusal(&list(DataType::Int64), &masks, &[], &[("c", &[1]), ("c/is_null", &[])]),
        refusal(&list(DataType::Int64), &masks, &[], &[("c", &[1])]),
    ];
    assert_snapshot!(refusals.join("\n\n"));
}

fn records(file: &[u8]) -> Vec<Vec<u8>> {
    let (mut records, mut record, mut reader) = (Vec::new(), Vec::new(), RecordReader::new(file));
    while reader.read_record(&mut record).unwrap() {
        records.push(record.clone());
    }
    records
}

proptest! {
    /// Whatever is done to a record, reading it ends in rows or in an error.
    #[test]
    fn damaged_records_never_panic(
        batch in nested_tables::batch(Nulls::Everywhere),
        sequences in any::<bool>(),
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>(), 0..3u8), 1..4),
    ) {
        let record_type = if sequences { RecordType::SequenceExample } else { RecordType::Example };
        let options = MappingOptions::default().with_nulls(NullPolicy::Mask).with_record_type(record_type);
        let mapping = Mapping::try_new(&batch.schema(), &options).unwrap();
        let mut buffer = RecordBuffer::default();
        Encoder::new(Arc::new(mapping)).encode(&batch, &mut buffer).unwrap();
        let mut records = records(buffer.bytes());
        for record in &mut records {
            for (at, byte, what) in &damage {
                if !record.is_empty() {
                    let at = at.index(record.len());
                    match what {
                        0 => record[at] = *byte,
                        1 => drop(record.remove(at)),
                        _ => record.insert(at, *byte),
                    }
                }
            }
        }
        let _ = read(&batch.schema(), &options, &records);
    }
}
