//! [`OrcFormat`]: ORC as a [`FileReader`].

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion_common::Result;
use datafusion_datasource::TableSchema;
use datafusion_datasource::file_stream::FileOpener;
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_session::Session;
use object_store::{ObjectMeta, ObjectStore};
use tfr_files::unreadable_field;

use super::source::OrcOpener;
use super::tails::Tails;
use crate::mapped::with_field_id;
use tfr_files::scan::{FileReader, FilterUse, Scan};

/// The ORC format, for files whose tails are fetched once.
#[derive(Debug)]
pub(super) struct OrcFormat {
    tails: Arc<Tails>,
}

impl OrcFormat {
    pub(super) fn new(tails: Tails) -> Self {
        Self { tails: Arc::new(tails) }
    }
}

#[async_trait]
impl FileReader for OrcFormat {
    fn name(&self) -> &'static str {
        "orc"
    }

    fn filter_use(&self, _: &Arc<dyn PhysicalExpr>, _: &TableSchema, _: &[usize]) -> FilterUse {
        FilterUse::Parts
    }

    /// A part reads the stripes that begin in it.
    fn can_split(&self) -> bool {
        true
    }

    /// Returns the columns of all files, each as in the first file that has it. They have the names and ids of the file
    /// where the metadata of a table determines its columns.
    async fn schema(
        &self,
        _session: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        files: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        let (mut fields, mut later) = (Vec::<Field>::new(), Vec::new());
        for file in files {
            let tail = self.tails.get(store, file).await?;
            let names = match self.tails.mapped() {
                Some(_) => tail.columns.iter().map(|column| column.name.clone()).collect(),
                None => self.tails.column_names(&tail),
            };
            later.extend_from_slice(self.tails.later_columns(&tail));
            for (name, column) in names.into_iter().zip(&tail.columns) {
                if !fields.iter().any(|field| *field.name() == name) {
                    fields.push(match &column.unreadable {
                        Some(reason) => {
                            with_field_id(unreadable_field(name, &self.tails.name(file), reason), column.id)
                        }
                        None => column.field().with_name(name),
                    });
                }
            }
        }
        for name in later {
            if !fields.iter().any(|field| *field.name() == name) {
                fields.push(Field::new(name, DataType::Null, true));
            }
        }
        Ok(Arc::new(Schema::new(fields)))
    }

    async fn rows(&self, store: &Arc<dyn ObjectStore>, file: &ObjectMeta) -> Result<Option<u64>> {
        Ok(Some(self.tails.get(store, file).await?.rows))
    }

    fn planned(&self, files: &[&ObjectMeta], columns: &Schema) {
        self.tails.note_doubts(files, |column| columns.column_with_name(column).is_some());
    }

    fn opener(self: Arc<Self>, store: Arc<dyn ObjectStore>, scan: &Scan<'_>) -> Result<Arc<dyn FileOpener>> {
        Ok(Arc::new(OrcOpener::try_new(store, Arc::clone(&self.tails), scan)?))
    }
}
