//! Compares the columns of shard sets, as their manifests and the given options specify them, with the first records.
//!
//! A feature missing from a record is a null, so a column that is looked up in the wrong place is null in every row.
//! Options that contradict a manifest, or a manifest that was changed, must not turn values into nulls.

use std::collections::BTreeSet;

use arrow_schema::SchemaRef;
use arrow_tfrecord::{Mapping, MappingOptions, RecordType};
use datafusion_common::Result;
use datafusion_session::Session;
use futures::{StreamExt, TryStreamExt};
use object_store::ObjectMeta;

use super::declared::Wanted;
use super::options::ReadOptions;
use super::probe::{Probed, probe};
use super::sets::{Set, TableFiles};
use crate::error::shards_error;

/// Maximum number of records inspected per file.
const MOST_RECORDS: usize = 1000;

/// Maximum number of sets inspected, evenly spaced if there are more.
const MOST_SETS: usize = 256;

/// Rejects columns that the records of sets contain in another place than `form` specifies. Warns of columns that
/// they do not seem to contain.
///
/// If `form` is the manifest's, one file of each set is inspected; if options differ from it, as many as for files
/// without a manifest.
pub(super) async fn check(
    session: &dyn Session,
    files: &TableFiles,
    columns: &SchemaRef,
    form: &MappingOptions,
    options: &ReadOptions,
) -> Result<()> {
    // A column that cannot be read at all is reported elsewhere.
    let Ok(mapping) = Mapping::try_new(columns, &form.clone().with_strict(false)) else { return Ok(()) };
    let step = files.sets.len().div_ceil(MOST_SETS).max(1);
    let mut checks = Vec::new();
    for (index, set) in files.sets.iter().enumerate().step_by(step) {
        let Some(written) = written_mapping(set)? else { continue };
        let is_as_written = is_same_place(&mapping, &written);
        let listed = files.listing.files().iter().zip(&files.listed);
        let with_records = listed.filter(|(file, listed)| **listed == Some(index) && file.size > 0);
        let most = if is_as_written { 1 } else { options.infer_files.unwrap_or(usize::MAX) };
        let sampled: Vec<_> = with_records.map(|(file, _)| file.clone()).collect();
        let sampled = spread(sampled, most);
        if !sampled.is_empty() {
            let wanted = Wanted::exactly(columns, form, written, is_as_written);
            checks.push(check_set(session, files, sampled, wanted, &mapping, form, options));
        }
    }
    let concurrency = session.config_options().execution.meta_fetch_concurrency.get();
    futures::stream::iter(checks).buffered(concurrency).try_collect().await
}

async fn check_set(
    session: &dyn Session,
    files: &TableFiles,
    sampled: Vec<ObjectMeta>,
    mut wanted: Wanted<'_>,
    mapping: &Mapping,
    form: &MappingOptions,
    options: &ReadOptions,
) -> Result<()> {
    let most = options.infer_records.map_or(MOST_RECORDS, |most| most.min(MOST_RECORDS));
    let options = ReadOptions { infer_records: Some(most), infer_files: None, ..options.clone() };
    let names = files.listing.names();
    let probed = probe(session, files.listing.store(), &sampled, names, &options, &mut wanted).await;
    // Unreadable files are reported by the scan: not every query reads them.
    let (Ok(Probed { probed_files, .. }), Some(file)) = (probed, sampled.first()) else { return Ok(()) };
    wanted.check(mapping, form, &names.name(&file.location), probed_files)
}

/// Returns how the columns of a set are stored in its records, if its manifest specifies it.
fn written_mapping(set: &Set) -> Result<Option<Mapping>> {
    let Some(schema) = set.manifest.arrow_schema().map_err(shards_error)? else { return Ok(None) };
    let options = set.manifest.mapping_options().map_err(shards_error)?;
    if options.record_type == RecordType::Bytes {
        return Ok(None);
    }
    Ok(Mapping::try_new(&schema, &options.with_strict(false)).ok())
}

/// Whether the features of each column of `mapping` are among those that were written for it.
fn is_same_place(mapping: &Mapping, written: &Mapping) -> bool {
    let features = |mapping: &Mapping| {
        let features = mapping.columns().iter().flat_map(|column| column.features.clone());
        features.map(|feature| (feature.name, feature.in_steps, feature.in_examples)).collect::<BTreeSet<_>>()
    };
    features(mapping).is_subset(&features(written))
}

/// Returns at most `most` files, evenly spaced.
fn spread(mut files: Vec<ObjectMeta>, most: usize) -> Vec<ObjectMeta> {
    let step = files.len().div_ceil(most.max(1)).max(1);
    let mut index = 0;
    files.retain(|_| {
        index += 1;
        (index - 1) % step == 0
    });
    files
}
