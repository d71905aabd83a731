//! Infers the schema of records without a declared one.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Schema};
use arrow_tfrecord::{MappingOptions, RecordType, SchemaInference};
use datafusion_common::Result;
use datafusion_session::Session;
use object_store::{ObjectMeta, ObjectStore};
use tfrecord_framing::{Container, Position};

use super::options::ReadOptions;
use super::probe::{Probed, RecordObserver, probe};
use super::{masks, ragged};
use crate::error::ErrorKind;
use tfr_stores::FileNames;

/// The result of inference.
pub(crate) struct Inferred {
    pub(crate) schema: Schema,
    /// How the columns are stored: from the options, then from the records.
    pub(crate) mapping: MappingOptions,
    /// The compression of each file that was inspected.
    pub(super) containers: Vec<Option<Container>>,
    /// Number of files inspected.
    pub(super) probed_files: usize,
    /// Number of records inspected.
    pub(super) records: u64,
    /// Whether these are all records of all files.
    pub(super) is_all: bool,
}

impl RecordObserver for SchemaInference {
    const LEAVES_DAMAGE: bool = false;

    fn observe(&mut self, record: &[u8], position: Position) -> arrow_tfrecord::Result<()> {
        Self::observe(self, record, position)
    }

    fn has_enough(&mut self) -> bool {
        false
    }
}

/// Infers the columns from all features in the first records of all `files`, or of an evenly spaced sample of them.
/// Without any record there are no columns.
pub(crate) async fn infer(
    session: &dyn Session,
    store: &Arc<dyn ObjectStore>,
    files: &[ObjectMeta],
    names: &FileNames,
    options: &ReadOptions,
) -> Result<Inferred> {
    let given = options.mapping.clone().unwrap_or_default();
    if given.record_type == RecordType::Bytes {
        let (schema, containers) = (raw_records(), vec![None; files.len()]);
        return Ok(Inferred { schema, mapping: given, containers, probed_files: 0, records: 0, is_all: true });
    }
    let typed = options.types.iter().flat_map(|types| types.fields()).map(|field| field.name().clone());
    let inference = SchemaInference::new().with_fixed_size_lists(options.fixed_size_lists).with_typed(typed);
    let mut inference = inference.with_record_type(given.record_type);
    let Probed { containers, probed_files, is_all } =
        probe(session, store, files, names, options, &mut inference).await?;
    let (records, inferred) = (inference.records(), inference.mapping());
    if inference.unnamed() > 0 {
        log::warn!(
            "{} of {records} records that were looked at have a feature without a name, which becomes no column; \
             record_type=bytes keeps the records as they are",
            inference.unnamed()
        );
    }
    let schema = inference.finish();
    let mut mapping = MappingOptions { sequences: inferred.sequences, ..given.clone() };
    if given.record_type == RecordType::default() {
        mapping.record_type = inferred.record_type;
    }
    let file = files.first().map(|file| names.name(&file.location)).unwrap_or_default();
    expect_type(mapping.record_type, inferred.record_type, file)?;
    for column in &given.sequences {
        match schema.field_with_name(column).map(Field::data_type) {
            Ok(DataType::Null) => {}
            // There would be no examples.
            Err(_) if mapping.record_type == RecordType::ExampleListWithContext => {
                let known = schema.fields().iter().map(|field| field.name().clone()).collect();
                return Err(ErrorKind::NoColumn { role: "sequence", column: column.clone(), known }.into());
            }
            Ok(_) if mapping.record_type == RecordType::ExampleListWithContext => {
                mapping.sequences.insert(column.clone());
            }
            Ok(found) if !is_list_of_steps(column, found, &mapping) => {
                return Err(ErrorKind::ElsewhereInRecords {
                    file: files.first().map(|file| names.name(&file.location)).unwrap_or_default(),
                    column: column.clone(),
                    data_type: found.clone(),
                    expected: format!("feature list {column:?}"),
                    found: format!("feature {column:?}"),
                    way_out: format!("leave {column} out of the option sequence"),
                }
                .into());
            }
            _ => drop(mapping.sequences.insert(column.clone())),
        }
    }
    let (schema, transform_ragged) = match mapping.record_type {
        RecordType::Example => ragged::of_transform(&schema),
        _ => (schema, BTreeSet::new()),
    };
    mapping.transform_ragged.extend(transform_ragged);
    let (schema, mapping) = masks::of_inferred(schema, mapping);
    Ok(Inferred { schema, mapping, containers, probed_files, records, is_all })
}

/// Rejects records that contain examples where others are expected: they would be read as others without features.
pub(super) fn expect_type(expected: RecordType, found: RecordType, file: String) -> Result<()> {
    let contains_examples = |record_type| record_type == RecordType::ExampleListWithContext;
    match contains_examples(expected) == contains_examples(found) {
        true => Ok(()),
        false => Err(ErrorKind::OtherRecordType { file, expected, found }.into()),
    }
}

/// Whether an inferred column is a feature list. A feature list of single values is in the mapping's sequences; a
/// list of lists is never a plain feature.
fn is_list_of_steps(column: &str, data_type: &DataType, mapping: &MappingOptions) -> bool {
    let is_nested = |item: &FieldRef| item.data_type().is_nested();
    mapping.sequences.contains(column) || matches!(data_type, DataType::List(item) if is_nested(item))
}

/// Returns the schema of records that are read as raw bytes.
pub(super) fn raw_records() -> Schema {
    Schema::new(vec![Field::new("record", DataType::Binary, false)])
}
