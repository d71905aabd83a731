//! Nested columns of records that do not fit together, or are no records at all.

use std::io::BufReader;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray as _;
use arrow_array::types::Int64Type;
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

#[test]
fn damaged_skip_returns_the_same_rows_for_any_batch_and_piece() {
    let schema = Arc::new(Schema::new(vec![Field::new("c", DataType::Int64, true)]));
    let mut writer = RecordWriter::new(Vec::new());
    (0..200).for_each(|id| writer.write_record(&record(&[("c", &[id])])).unwrap());
    let mut file = writer.finish().unwrap();
    let sound = file.clone();
    // The first damaged length claims everything up to the end of the file.
    let mut starts = Vec::new();
    let mut at = 0;
    while at < sound.len() {
        starts.push(at);
        at += 16 + u64::from_le_bytes(sound[at..at + 8].try_into().unwrap()) as usize;
    }
    for (damaged, byte) in [(0, 3), (50, 13), (51, 0), (199, 8)] {
        file[starts[damaged] + byte] ^= 0x40;
    }
    let header = tfrecord_framing::frame_header(1 << 20);
    file[starts[120]..starts[120] + header.len()].copy_from_slice(&header);
    let lost = [0, 50, 51, 120, 199];
    let expected: Vec<i64> = (0..200).filter(|id| !lost.contains(id)).collect();

    for (rows, piece) in [(8192, file.len()), (1, 7), (7, 100), (64, 1)] {
        let builder = ReaderBuilder::new(Arc::clone(&schema)).with_damaged_skipped(true).with_batch_size(rows);
        let mut reader = builder.build(BufReader::with_capacity(piece, file.as_slice())).unwrap();
        let mut found = Vec::new();
        for batch in reader.by_ref() {
            let batch = batch.unwrap();
            assert!(batch.num_rows() <= rows);
            found.extend_from_slice(batch.column(0).as_primitive::<Int64Type>().values());
        }
        assert_eq!(found, expected, "batches of {rows} rows, pieces of {piece} bytes");
        // No intact header separates record 50 from 51.
        let damage: Vec<u64> = reader.take_damage().iter().map(|damage| damage.range.start).collect();
        assert_eq!(damage, [0, 50, 120, 199].map(|record: usize| starts[record] as u64));
        assert!(reader.take_damage().is_empty());
    }
}
