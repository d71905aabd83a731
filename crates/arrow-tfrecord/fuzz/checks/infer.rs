//! What holds of inference over any records: with the schema inferred from all of them, all are decoded.

use std::sync::Arc;

use arrow_tfrecord::{ReaderBuilder, SchemaInference, infer_schema};
use tfrecord_framing::Position;

use super::records;

pub fn check(file: &[u8]) {
    let records = records::records(file);
    let framed = records::framed(&records);
    for fixed_size_lists in [false, true] {
        let mut inference = SchemaInference::new().with_fixed_size_lists(fixed_size_lists);
        let observed = records.iter().try_for_each(|record| inference.observe(record, Position::default()));
        let again = infer_schema(framed.as_slice(), None);
        assert_eq!(observed.is_ok(), again.is_ok());
        if observed.is_err() {
            continue;
        }
        let schema = Arc::new(inference.finish());
        let reader = ReaderBuilder::new(schema).with_batch_size(3).build(framed.as_slice()).expect("a reader");
        let rows: usize = reader.map(|batch| batch.expect("what was inferred").num_rows()).sum();
        assert_eq!(rows, records.len());
    }
}
