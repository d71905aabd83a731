//! Property of inference over any records: all are decoded with the schema inferred from them.

use std::sync::Arc;

use arrow_tfrecord::{FeatureNames, ReaderBuilder, RecordType, SchemaInference, infer_schema};
use tfrecord_framing::Position;

use super::records;

pub fn check(file: &[u8]) {
    let records = records::records(file);
    let framed = records::framed(&records);
    for fixed_size_lists in [false, true] {
        let mut inference = SchemaInference::new().with_fixed_size_lists(fixed_size_lists);
        let observed = records.iter().try_for_each(|record| inference.observe(record, Position::default()));
        let mapping = inference.mapping();
        let again = infer_schema(framed.as_slice(), None);
        assert_eq!(observed.is_ok() && mapping.record_type == RecordType::Example, again.is_ok());
        if observed.is_err() {
            continue;
        }
        let mut names = FeatureNames::default();
        records.iter().try_for_each(|record| names.observe(record, Position::default())).expect("names");
        let schema = inference.finish();
        let is_named = |name: &str| names.features().contains(name) || names.feature_lists().contains(name);
        // The examples of a list are one column.
        let unnamed = schema.fields().iter().filter(|field| !is_named(field.name())).count();
        assert!(unnamed <= usize::from(mapping.record_type == RecordType::ExampleListWithContext));
        let builder = ReaderBuilder::new(Arc::new(schema)).with_mapping(mapping).with_batch_size(3);
        let reader = builder.build(framed.as_slice()).expect("a reader");
        let rows: usize = reader.map(|batch| batch.expect("what was inferred").num_rows()).sum();
        assert_eq!(rows, records.len());
    }
}
