//! [`RecordFiles`]: TFRecord as a file format.

use std::fmt;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use arrow_tfrecord::{MappingOptions, ReaderBuilder};
use async_trait::async_trait;
use datafusion_common::Result;
use datafusion_datasource::file_groups::FileGroup;
use datafusion_datasource::file_stream::FileOpener;
use datafusion_datasource::{PartitionedFile, TableSchema};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_session::Session;
use object_store::{ObjectMeta, ObjectStore};
use tfr_files::Findings;
use tfr_files::scan::{Division, FileReader, FilterUse, Scan};
use tfr_stores::FileNames;
use tfrecord_framing::{Container, CrcPolicy};

use super::filter::{file_columns, row_filter};
use super::infer::{Inferred, infer};
use super::opener::RecordOpener;
use super::options::ReadOptions;
use super::planned_files;
use super::split::{Cutting, divide};
use super::types::ColumnOrigin;
use crate::error::ErrorKind;

/// How rows are stored in files.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct RecordForm {
    /// How columns are stored in the records.
    pub mapping: MappingOptions,
    /// The columns as decoded from the files, if they differ from the table's. Structs may have more fields, which
    /// determine where they are null, and columns are nullable only if they were written so.
    pub decoded: Option<SchemaRef>,
    /// How files contain their records; `None` detects it from the content of each file.
    pub container: Option<Container>,
    /// How the first file of those that were inspected contains them.
    pub found: Option<Container>,
    /// Whether to verify checksums.
    pub crc: CrcPolicy,
    /// Whether to pass over damaged records.
    pub skips_damaged: bool,
    /// Whether the column types were inferred from a sample of the records. Errors about mismatched records mention
    /// it.
    pub inferred: bool,
    /// The source of the columns.
    pub origin: ColumnOrigin,
}

impl RecordForm {
    /// Returns the record format given by the options. Columns are inferred unless they are declared.
    pub(crate) fn of(options: &ReadOptions) -> Self {
        Self {
            mapping: options.mapping.clone().unwrap_or_default(),
            decoded: None,
            container: options.container,
            found: options.container,
            crc: options.crc,
            skips_damaged: options.skips_damaged,
            inferred: options.schema.is_none(),
            origin: ColumnOrigin::default(),
        }
    }
}

/// TFRecord and ArrayRecord files. A scan decodes only the wanted features of a record and skips the others by their length. A filter
/// over few features is evaluated first, and the other features are decoded only for records that pass.
#[derive(Debug, Clone, Default)]
pub(crate) struct RecordFiles {
    /// How rows are stored in the files.
    pub(crate) form: RecordForm,
    /// How files are named in messages.
    pub(crate) names: FileNames,
    /// How columns are inferred.
    pub(crate) options: ReadOptions,
    /// Collects the features that are no columns. `None` if none can be lost unnoticed.
    pub(crate) unknown_features: Option<Arc<Findings>>,
    /// Collects the damage that is passed over. `None` logs it.
    pub(crate) damage: Option<Arc<Findings>>,
}

#[async_trait]
impl FileReader for RecordFiles {
    fn name(&self) -> &'static str {
        "tfrecord"
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.form.crc == CrcPolicy::Skip {
            f.write_str(", crc=skip")?;
        }
        if self.form.skips_damaged {
            f.write_str(", damaged=skip")?;
        }
        Ok(())
    }

    fn can_split(&self) -> bool {
        true
    }

    /// Accepts filters that read fewer columns of the files than the scan decodes. They are evaluated first, so that
    /// the other columns are decoded for passing rows only. Other filters would gain nothing here.
    fn filter_use(&self, filter: &Arc<dyn PhysicalExpr>, table: &TableSchema, wanted: &[usize]) -> FilterUse {
        match file_columns(filter, table.file_schema()) {
            Some(read) if wanted.iter().any(|column| !read.contains(column)) => FilterUse::Rows,
            _ => FilterUse::None,
        }
    }

    fn divide(&self, files: &[FileGroup], division: &Division) -> Option<Vec<FileGroup>> {
        if division.is_ordered {
            return None;
        }
        // Headers are reliable only if their checksums are verified.
        let can_scan = !division.is_remote
            && self.form.crc == CrcPolicy::Verify
            && self.form.container.unwrap_or_default().is_plain()
            && division.limit.is_none();
        let cutting = match (self.form.skips_damaged, can_scan) {
            // Damage moves records, and one reader counts the damage of a file.
            (true, _) => Cutting::Nowhere,
            (false, true) => Cutting::Anywhere,
            (false, false) => Cutting::Listed,
        };
        divide(files, division.partitions, division.min_size, cutting)
    }

    fn known_text(&self, file: &PartitionedFile) -> Option<String> {
        planned_files::known_text(file)
    }

    fn with_known(&self, groups: Vec<FileGroup>) -> Result<Vec<FileGroup>> {
        planned_files::with_known(groups)
    }

    async fn schema(
        &self,
        session: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        files: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        let Inferred { schema, mapping, .. } = infer(session, store, files, &self.names, &self.options).await?;
        let given = &self.form.mapping;
        if mapping.record_type != given.record_type || mapping.sequences != given.sequences {
            let sequences = mapping.sequences.into_iter().collect();
            return Err(ErrorKind::UndeclaredRecordType { record_type: mapping.record_type, sequences }.into());
        }
        Ok(Arc::new(schema))
    }

    fn opener(self: Arc<Self>, store: Arc<dyn ObjectStore>, scan: &Scan<'_>) -> Result<Arc<dyn FileOpener>> {
        let RecordForm { mapping, container, crc, skips_damaged, inferred, decoded, .. } = &self.form;
        let file_schema = scan.table.file_schema();
        // Do not decode rows past the limit.
        let batch_size = scan.limit.map_or(scan.batch_size, |rows| scan.batch_size.min(rows));
        let mut reader = ReaderBuilder::new(Arc::clone(decoded.as_ref().unwrap_or(file_schema)))
            .with_mapping(mapping.clone())
            .with_projection(scan.wanted.to_vec())
            .with_batch_size(batch_size)
            .with_batch_bytes(scan.bounds.batch)
            .with_unknown_features(self.unknown_features.is_some())
            .with_damaged_skipped(*skips_damaged);
        if let Some(filter) = scan.filter.map(|filter| row_filter(filter, file_schema)).transpose()?.flatten() {
            reader = reader.with_row_filter(filter);
        }
        Ok(Arc::new(RecordOpener {
            store,
            names: self.names.clone(),
            reader,
            schema: scan.schema()?,
            container: *container,
            crc: *crc,
            skips_damaged: *skips_damaged,
            inferred: *inferred,
            unknown_features: self.unknown_features.clone(),
            damage: self.damage.clone(),
            limited: scan.limit.is_some(),
            bytes_scanned: scan.bytes_scanned(),
        }))
    }
}
