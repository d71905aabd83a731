//! Columns that are both in files and in their paths.
//!
//! Some writers, such as Polars, keep partition columns in the files. Every row must then have the same value as the
//! path: otherwise one of two different values would be silently dropped.

use std::sync::Arc;

use arrow_array::Array;
use arrow_schema::{Schema, SchemaRef};
use datafusion_common::{Result, ScalarValue};
use datafusion_datasource::file_format::FileFormat;
use datafusion_datasource::file_groups::FileGroup;
use datafusion_datasource::file_scan_config::FileScanConfigBuilder;
use datafusion_datasource::{PartitionedFile, TableSchema};
use datafusion_session::Session;
use futures::TryStreamExt;

use crate::error::{Error, ErrorKind};
use crate::listing::listed::Listing;
use crate::scan::guard::guarded;
use crate::schema::unreadable::check_projection;

/// Returns the schema of the file at `index` without the columns of its path.
///
/// # Errors
/// The value of such a column differs in the file; the file cannot be read.
pub(crate) async fn without_path_columns(
    session: &dyn Session,
    listing: &Listing,
    format: &Arc<dyn FileFormat>,
    index: usize,
    schema: &SchemaRef,
) -> Result<SchemaRef> {
    let path = listing.partitions().fields();
    let in_path = |name: &str| path.iter().position(|field| field.name() == name);
    let (both, rest): (Vec<_>, Vec<_>) =
        schema.fields().iter().cloned().partition(|field| in_path(field.name()).is_some());
    if both.is_empty() {
        return Ok(Arc::clone(schema));
    }
    let values = listing.partitions().values(index);
    let expected = both.iter().filter_map(|field| {
        let value = in_path(field.name()).and_then(|index| values.get(index))?;
        Some((field.name().clone(), value.clone()))
    });
    let expected: Vec<(String, ScalarValue)> = expected.collect();
    let file = PartitionedFile::new_from_meta(listing.files()[index].clone());
    let both = Arc::new(Schema::new(both));
    check_projection(&both, None)?;
    let source = format.file_source(TableSchema::builder(both).build());
    let config = FileScanConfigBuilder::new(listing.store_url().clone(), source)
        .with_file_groups(vec![FileGroup::new(vec![file])])
        .build();
    let plan = guarded(format.create_physical_plan(session, config).await?, listing, None);
    let mut batches = plan.execute(0, session.task_ctx())?;
    while let Some(batch) = batches.try_next().await? {
        for ((name, value), column) in expected.iter().zip(batch.columns()) {
            let same = value.cast_to(column.data_type()).and_then(|value| value.to_array_of_size(column.len()));
            if !same.is_ok_and(|same| same.as_ref() == column.as_ref()) {
                let file = listing.names().name(&listing.files()[index].location);
                return Err(Error::from(ErrorKind::ColumnInPath { file, column: name.clone() }).into());
            }
        }
    }
    Ok(Arc::new(Schema::new_with_metadata(rest, schema.metadata().clone())))
}
