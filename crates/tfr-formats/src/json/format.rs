//! [`JsonFormat`]: JSON as a [`FileReader`].

use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use async_trait::async_trait;
use bytes::Buf;
use datafusion_common::Result;
use datafusion_datasource::file_stream::FileOpener;
use datafusion_session::Session;
use futures::{StreamExt, TryStreamExt};
use object_store::{ObjectMeta, ObjectStore};
use tfr_files::memory::ReadBounds;
use tfr_stores::FileNames;

use super::infer::Members;
use super::options::JsonOptions;
use super::rows::JsonObjects;
use super::source::JsonOpener;
use crate::csv::Types;
use crate::error::Error;
use crate::input_format::InputFormat;
use crate::names::{ColumnNames, MAX_COLUMNS};
use crate::text;
use tfr_files::scan::{FileReader, Scan};

/// Number of objects examined per file if the columns are declared.
const DECLARED_ROWS: usize = 100;

/// JSON files.
#[derive(Debug)]
pub(crate) struct JsonFormat {
    options: Arc<JsonOptions>,
    names: FileNames,
    columns: ColumnNames,
    declared: bool,
}

/// The result of probing the first objects of a file.
#[derive(Debug, Default)]
pub(super) struct Probe {
    /// Their keys.
    pub(super) members: Members,
    /// Whether each object is on a line of its own.
    pub(super) has_row_a_line: bool,
}

impl JsonFormat {
    /// Creates the format for these options; `names` determines the files' names in messages, `columns` the table's
    /// names of keys.
    pub(super) fn new(options: JsonOptions, names: FileNames, columns: ColumnNames) -> Self {
        Self { options: Arc::new(options), names, columns, declared: false }
    }

    /// Sets whether the user declared the columns. If so, values are cast to their types and other keys are ignored. If
    /// not, values must be as the inference accepts them, and a key that it has not seen is an error.
    pub(super) fn with_declared(mut self, declared: bool) -> Self {
        self.declared = declared;
        self
    }

    /// Probes the first objects of every file.
    pub(super) async fn probe(
        &self,
        session: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        files: &[ObjectMeta],
    ) -> Result<Vec<Probe>, Error> {
        // Collected first: a closure over references is not general enough for the compiler inside a stream.
        let bounds = ReadBounds::of(session);
        let probes: Vec<_> = files.iter().map(|file| self.probe_file(store, file, bounds)).collect();
        let concurrency = session.config_options().execution.meta_fetch_concurrency.get();
        futures::stream::iter(probes).buffered(concurrency).try_collect().await
    }

    async fn probe_file(
        &self,
        store: &Arc<dyn ObjectStore>,
        file: &ObjectMeta,
        bounds: ReadBounds,
    ) -> Result<Probe, Error> {
        let name: Arc<str> = self.names.name(&file.location).into();
        let options = &self.options;
        let bytes = text::bytes(store, file, &name, 0..file.size).await?;
        let mut text = text::text(&name, InputFormat::Json, bytes, options.compression, options.encoding).await?;
        let mut rows = JsonObjects::new(name, None, None).within(bounds);
        let mut members = Members::default();
        // If types are declared, a few objects show the spelling of the keys.
        let mut wanted = if self.declared { options.infer_rows.min(DECLARED_ROWS) } else { options.infer_rows };
        let mut columns = 0;
        let mut observe = |rows: &mut JsonObjects, wanted: &mut usize| {
            for object in &rows.tape().rows {
                columns += members.observe(rows.tape(), *object);
                if columns > MAX_COLUMNS {
                    return Err(Error::too_many_columns(&rows.parser.source.file, rows.parser.line_of(*object)));
                }
            }
            *wanted -= rows.tape().rows.len();
            rows.clear();
            Ok(())
        };
        while wanted > 0 {
            let Some(mut piece) = rows.next_piece(&mut text).await? else {
                observe(&mut rows, &mut wanted)?;
                break;
            };
            while wanted > 0 && !piece.is_empty() {
                let most = wanted.min(1024);
                piece.advance(rows.read(&piece, most)?);
                if rows.is_full(most) {
                    observe(&mut rows, &mut wanted)?;
                }
            }
        }
        let members = members.renamed(|name| self.columns.in_table(name));
        Ok(Probe { members, has_row_a_line: rows.has_row_a_line() })
    }

    /// Returns the columns that fit the probes of all files.
    pub(super) fn columns(&self, probes: Vec<Probe>) -> SchemaRef {
        let mut members = Members::default();
        for probe in probes {
            members.merge(probe.members);
        }
        Arc::new(Schema::new(members.fields(self.options.types == Types::String)))
    }

    /// Sets whether objects may span lines.
    pub(super) fn with_newlines_in_values(mut self, newlines_in_values: bool) -> Self {
        let options = JsonOptions { newlines_in_values: Some(newlines_in_values), ..self.options.as_ref().clone() };
        self.options = Arc::new(options);
        self
    }
}

#[async_trait]
impl FileReader for JsonFormat {
    fn name(&self) -> &'static str {
        "json"
    }

    /// Only if a line end always ends an object. The first part of a compressed file reads all of it.
    fn can_split(&self) -> bool {
        self.options.newlines_in_values == Some(false)
    }

    /// Infers types that fit the first objects of all files; a key with only nulls is text.
    async fn schema(
        &self,
        session: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        files: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        Ok(self.columns(self.probe(session, store, files).await?))
    }

    fn opener(self: Arc<Self>, store: Arc<dyn ObjectStore>, scan: &Scan<'_>) -> Result<Arc<dyn FileOpener>> {
        let (options, names) = (Arc::clone(&self.options), self.names.clone());
        Ok(Arc::new(JsonOpener::try_new(store, options, names, &self.columns, self.declared, scan)?))
    }
}
