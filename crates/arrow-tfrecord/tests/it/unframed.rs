//! Records without frames, against those in frames.

use std::sync::Arc;

use arrow_array::*;
use arrow_schema::{DataType, Field};
use arrow_tfrecord::{Encoder, Mapping, MappingOptions, NullPolicy, RecordBuffer, RecordParser};
use proptest::prelude::*;
use tfrecord_framing::RecordReader;

use crate::nested_tables::{self, Nulls};

fn mapping(batch: &RecordBatch) -> Arc<Mapping> {
    let options = MappingOptions::default().with_nulls(NullPolicy::Mask);
    Arc::new(Mapping::try_new(&batch.schema(), &options).unwrap())
}

proptest! {
    #[test]
    fn serialize_equals_the_records_of_a_file(batch in nested_tables::batch(Nulls::Everywhere), skip in 0..4usize) {
        let mapping = mapping(&batch);
        let encoder = Encoder::new(Arc::clone(&mapping));
        let mut framed = RecordBuffer::default();
        encoder.encode(&batch, &mut framed).unwrap();
        let records = encoder.serialize(&StructArray::from(batch.clone())).unwrap();
        let mut reader = RecordReader::new(framed.bytes());
        let mut record = Vec::new();
        for (row, found) in records.iter().enumerate() {
            prop_assert!(reader.read_record(&mut record).unwrap());
            prop_assert_eq!(found, Some(record.as_slice()));
            prop_assert_eq!(framed.payload(row), &record);
        }
        prop_assert!(!reader.read_record(&mut record).unwrap());

        let mut parser = RecordParser::try_new(&mapping).unwrap();
        let skip = skip.min(batch.num_rows());
        let rest = batch.num_rows() - skip;
        let back = parser.parse(&records.slice(skip, rest)).unwrap();
        prop_assert_eq!(back.to_data(), StructArray::from(batch.slice(skip, rest)).to_data());
    }

    /// A null stays null in either direction, whatever values are under it.
    #[test]
    fn serialize_and_parse_keep_null_records(batch in nested_tables::batch(Nulls::Everywhere), valid in proptest::collection::vec(any::<bool>(), 12)) {
        let mapping = mapping(&batch);
        let (fields, columns, _) = StructArray::from(batch.clone()).into_parts();
        let valid = valid[..batch.num_rows()].to_vec();
        let rows = StructArray::try_new_with_length(fields, columns, Some(valid.into()), batch.num_rows()).unwrap();
        let records = Encoder::new(Arc::clone(&mapping)).serialize(&rows).unwrap();
        let views = arrow_cast::cast(&records, &DataType::BinaryView).unwrap();
        let back = RecordParser::try_new(&mapping).unwrap().parse(&views).unwrap();
        prop_assert_eq!(&back, &rows);
    }
}

#[test]
fn serialize_errors_number_rows_of_the_column() {
    let numbers: ArrayRef = Arc::new(UInt64Array::from(vec![u64::MAX, 7, u64::MAX, 7]));
    let field = Field::new("n", DataType::UInt64, false);
    let rows =
        |valid: Vec<bool>| StructArray::new(vec![field.clone()].into(), vec![numbers.clone()], Some(valid.into()));
    let mapping = mapping(&RecordBatch::from(rows(vec![true; 4])));
    let encoder = Encoder::new(Arc::clone(&mapping));
    let refused = encoder.serialize(&rows(vec![false, true, true, true])).unwrap_err().to_string();
    assert_eq!(
        refused,
        r#"column "n", row 2: 18446744073709551615 does not fit an int64 (at most 9223372036854775807)"#
    );
    let mut parser = RecordParser::try_new(&mapping).unwrap();
    let records = encoder.serialize(&rows(vec![false, true, false, true])).unwrap();
    let damaged = BinaryArray::from_opt_vec(vec![None, Some(records.value(1)), Some(b"no record")]);
    let refused = parser.parse(&damaged).unwrap_err().to_string();
    assert_eq!(refused, "record 2 at byte 46: a wire type that protobuf does not have, at byte 0 of its payload");
    assert_eq!(parser.parse(&records).unwrap().null_count(), 2);
}
