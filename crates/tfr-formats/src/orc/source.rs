//! [`OrcOpener`]: reads one ORC file of a scan, or a part of one.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{ArrowError, SchemaRef};
use datafusion_common::{DataFusionError, Result};
use datafusion_common_runtime::SpawnedTask;
use datafusion_datasource::PartitionedFile;
use datafusion_datasource::file_stream::{FileOpenFuture, FileOpener};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::metrics::Count;
use futures::{FutureExt, StreamExt};
use object_store::{ObjectMeta, ObjectStore};
use tfr_arrow::convert::convert;

use super::bounds::StripeBounds;
use super::clock::Clock;
use super::stripe::{Stripe, StripePosition};
use super::tail::Tail;
use super::tails::Tails;
use super::types::{CUT_TIMESTAMPS, FinishFailure, OrcColumn, OutOfRange, finished, finished_cut};
use crate::calendar::{count, rebased};
use crate::error::{Error, ErrorKind, FilePlace, Within};
use crate::mapped::MappedBatches;
use tfr_files::scan::Scan;
use tfr_files::{DeletedRows, Finding};

/// Opens one file or a part of one: the stripes that begin in it.
#[derive(Clone)]
pub(super) struct OrcOpener {
    store: Arc<dyn ObjectStore>,
    tails: Arc<Tails>,
    /// The columns of the batches.
    wanted: SchemaRef,
    batch_size: usize,
    /// The table's columns, and a filter on them.
    table: SchemaRef,
    filter: Option<Arc<dyn PhysicalExpr>>,
    is_remote: bool,
    bytes_scanned: Count,
    stripes_skipped: Count,
}

impl OrcOpener {
    /// Creates an opener for files with these tails.
    pub(super) fn try_new(store: Arc<dyn ObjectStore>, tails: Arc<Tails>, scan: &Scan<'_>) -> Result<Self> {
        Ok(Self {
            store,
            tails,
            wanted: scan.schema()?,
            batch_size: scan.batch_size,
            table: Arc::clone(scan.table.table_schema()),
            filter: scan.filter.cloned(),
            is_remote: scan.is_remote,
            bytes_scanned: scan.bytes_scanned(),
            stripes_skipped: scan.counter("stripes_skipped"),
        })
    }
}

impl FileOpener for OrcOpener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let opener = self.clone();
        Ok(async move {
            let tail = opener.tails.get(&opener.store, &file.object_meta).await?;
            let range =
                file.range.as_ref().map_or(0..file.object_meta.size, |range| range.start as u64..range.end as u64);
            let names = opener.tails.column_names(&tail);
            let may_pass = opener
                .filter
                .as_ref()
                .and_then(|filter| Some(StripeBounds::of(&tail, &names, &opener.table)?.may_pass(filter)));
            let mut stripes = VecDeque::new();
            let mut row = 0_u64;
            for (index, stripe) in tail.stripes.iter().enumerate() {
                if range.contains(&stripe.offset) {
                    match may_pass.as_ref().is_none_or(|may_pass| may_pass[index]) {
                        true => stripes.push_back((index, row)),
                        false => opener.stripes_skipped.add(1),
                    }
                }
                row += stripe.number_of_rows;
            }
            let (read, columns) = match opener.tails.mapped() {
                Some(columns) => {
                    let deleted = file.extensions.get_arc::<DeletedRows>();
                    let mapped = MappedBatches::new(columns, &opener.wanted, &tail.schema(), deleted)?;
                    (mapped.read().to_vec(), ColumnSource::Mapped(mapped))
                }
                None => columns_by_name(&names, &opener.wanted),
            };
            let file_name = opener.tails.name(&file.object_meta).into();
            let part = OrcPart { file: file_name, meta: file.object_meta, columns, read, opener, tail };
            let batches = OrcBatches { part: Arc::new(part), stripes, ahead: None, current: None };
            let batches = futures::stream::try_unfold(batches, |mut batches| async {
                Ok(batches.next().await?.map(|batch| (batch, batches)))
            });
            Ok(batches.boxed())
        }
        .boxed())
    }
}

/// How the columns of the batches are made from those that are read.
enum ColumnSource {
    /// For each of them its index among those that are read, if the file has it.
    Named(Vec<Option<usize>>),
    /// As the metadata of a table determines.
    Mapped(MappedBatches),
}

/// Returns the columns `wanted` that a file has, by its names in the table.
fn columns_by_name(names: &[String], wanted: &SchemaRef) -> (Vec<usize>, ColumnSource) {
    let known: HashMap<_, _> = names.iter().enumerate().map(|(index, name)| (name, index)).collect();
    let found: Vec<_> = wanted.fields().iter().map(|field| known.get(field.name()).copied()).collect();
    let read: BTreeSet<_> = found.iter().copied().flatten().collect();
    let read: Vec<_> = read.into_iter().collect();
    let columns = found.into_iter().map(|index| index.and_then(|index| read.binary_search(&index).ok())).collect();
    (read, ColumnSource::Named(columns))
}

/// The batches of one file or part.
struct OrcBatches {
    part: Arc<OrcPart>,
    /// The remaining stripes, each with the number of rows of the file before it.
    stripes: VecDeque<(usize, u64)>,
    /// The next stripe of a remote file, which is fetched while the previous one is decoded.
    ahead: Option<SpawnedTask<Result<StripeRows>>>,
    current: Option<StripeRows>,
}

/// The part of a file to read.
struct OrcPart {
    opener: OrcOpener,
    file: Arc<str>,
    meta: ObjectMeta,
    tail: Arc<Tail>,
    /// The requested columns of the file, in file order.
    read: Vec<usize>,
    columns: ColumnSource,
}

/// The remaining rows of a stripe.
struct StripeRows {
    /// Batches of the columns that the file has; `None` if it has none of them.
    batches: Option<Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>>,
    position: StripePosition,
    clock: Option<Clock>,
    /// The number of the next row in the file, and the number of rows.
    row: u64,
    left: u64,
}

impl OrcBatches {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let Self { part, current, .. } = self;
            if let Some(rows) = current.as_mut().filter(|rows| rows.left > 0) {
                let (batch, len) = match &mut rows.batches {
                    Some(batches) => {
                        let batch = batches.next().transpose().map_err(|error| undecoded(&rows.position, error))?;
                        let len = batch.as_ref().map_or(0, RecordBatch::num_rows);
                        (batch, len as u64)
                    }
                    None => (None, rows.left.min(part.opener.batch_size as u64)),
                };
                if len == 0 || len > rows.left {
                    let reason = format!("it ends before the last {} of its rows", rows.left);
                    return Err(rows.position.damaged(reason).into());
                }
                let batch = part.adapt(batch.as_ref(), len as usize, rows)?;
                rows.row += len;
                rows.left -= len;
                // All of its rows may be deleted.
                if batch.num_rows() > 0 {
                    return Ok(Some(batch));
                }
                continue;
            }
            self.current = match self.ahead.take() {
                Some(ahead) => {
                    let rows = ahead.join().await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?;
                    Some(rows?)
                }
                None => {
                    let Some((stripe, row)) = self.stripes.pop_front() else { return Ok(None) };
                    Some(self.part.rows(stripe, row).await?)
                }
            };
            if self.part.opener.is_remote
                && let Some((stripe, row)) = self.stripes.pop_front()
            {
                let part = Arc::clone(&self.part);
                self.ahead = Some(SpawnedTask::spawn(async move { part.rows(stripe, row).await }));
            }
        }
    }
}

impl OrcPart {
    async fn rows(&self, stripe: usize, row: u64) -> Result<StripeRows> {
        let columns: Vec<&OrcColumn> = self.read.iter().map(|index| &self.tail.columns[*index]).collect();
        let found = self.tail.stripes[stripe];
        let position = StripePosition { file: Arc::clone(&self.file), stripe, offset: found.offset };
        let mut rows = StripeRows { batches: None, position, clock: None, row, left: found.number_of_rows };
        if !columns.is_empty() && rows.left > 0 {
            let opener = &self.opener;
            let fetched =
                Stripe::fetch(&opener.store, &self.meta, &self.tail, &columns, &rows.position, opener.batch_size)
                    .await?;
            opener.bytes_scanned.add(fetched.bytes);
            rows.clock = fetched.clock.clone();
            let batches = fetched.batches();
            let batches =
                batches.map_err(|error| undecoded(&rows.position, ArrowError::ExternalError(error.into())))?;
            rows.batches = Some(Box::new(batches));
        }
        Ok(rows)
    }

    /// Builds a batch of the requested columns from a batch of those that were read.
    fn adapt(&self, batch: Option<&RecordBatch>, len: usize, rows: &StripeRows) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(len));
        let columns = match &self.columns {
            ColumnSource::Mapped(mapped) => {
                let read = batch.into_iter().flat_map(RecordBatch::columns).enumerate();
                let read = read.map(|(at, column)| self.finished(at, column, rows)).collect::<Result<Vec<_>>>()?;
                let schema = Arc::new(self.tail.schema().project(&self.read)?);
                let batch = RecordBatch::try_new_with_options(schema, read, &options)?;
                return mapped.adapt(&batch, rows.row);
            }
            ColumnSource::Named(columns) => columns,
        };
        let adapted = columns.iter().zip(self.opener.wanted.fields()).map(|(at, field)| {
            let (Some(at), Some(batch)) = (*at, batch) else {
                return Ok(new_null_array(field.data_type(), len));
            };
            let array = self.finished(at, batch.column(at), rows)?;
            // The table's type: a wider one from another file, or the declared one.
            let converted = convert(&array, field.data_type()).map_err(|unfit| ErrorKind::Unfit {
                place: FilePlace::row(&self.file, rows.row + unfit.row as u64).column(field.name()),
                reason: unfit.to_string(),
            });
            Ok(converted.map_err(Error::from)?)
        });
        let adapted = adapted.collect::<Result<Vec<ArrayRef>>>()?;
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.opener.wanted), adapted, &options)?)
    }

    /// Converts a column that was read, the one at `at`, to its type.
    fn finished(&self, at: usize, decoded: &ArrayRef, rows: &StripeRows) -> Result<ArrayRef> {
        let column = &self.tail.columns[self.read[at]];
        let finish = |array: &ArrayRef| finished(array, &column.data_type, rows.clock.as_ref());
        let located = |OutOfRange { value, expected }: OutOfRange| {
            let row = first_row(decoded, |row| finish(row).is_err()).map(|at| rows.row + at);
            let within = row.map_or(Within::File, |row| Within::Row { row, after_byte: None });
            ErrorKind::Timestamp { place: FilePlace::new(&self.file, within).column(&column.name), value, expected }
        };
        let array = match finish(decoded) {
            Ok(array) => array,
            Err(FinishFailure::Arrow(error)) => return Err(undecoded(&rows.position, error).into()),
            Err(FinishFailure::Mismatch(mismatch)) if !self.cuts_timestamps() => {
                return Err(Error::from(located(mismatch)).into());
            }
            Err(FinishFailure::Mismatch(mismatch)) => {
                let (array, count) = match finished_cut(decoded, &column.data_type, rows.clock.as_ref()) {
                    Ok(cut) => cut,
                    Err(FinishFailure::Arrow(error)) => return Err(undecoded(&rows.position, error).into()),
                    Err(FinishFailure::Mismatch(beyond)) => return Err(Error::from(located(beyond)).into()),
                };
                self.report_cut(&column.name, rows.row, decoded, |row| finish(row).is_err(), mismatch.value, count);
                array
            }
        };
        let array = rebased(&array, &column.rules).map_err(|error| undecoded(&rows.position, error))?;
        if let Some(findings) = self.opener.tails.findings() {
            count(findings, &self.file, &column.watched, &array, |row| rows.row + row as u64)?;
        }
        Ok(array)
    }
}

impl OrcPart {
    /// Whether digits of timestamps beyond a microsecond are cut off. With `--strict` they are an error.
    fn cuts_timestamps(&self) -> bool {
        let tails = &self.opener.tails;
        tails.cuts_timestamps() && !tails.findings().is_some_and(|findings| findings.is_strict())
    }

    /// Reports the timestamps of a batch that were cut.
    fn report_cut(
        &self,
        column: &str,
        first: u64,
        decoded: &ArrayRef,
        is_cut: impl Fn(&ArrayRef) -> bool,
        value: String,
        count: u64,
    ) {
        let row = first + first_row(decoded, is_cut).unwrap_or_default();
        let (file, column) = (self.file.to_string(), column.to_owned());
        let what = CUT_TIMESTAMPS.to_owned();
        let finding = Finding { file, column: Some(column), what, row, value, count };
        match self.opener.tails.findings() {
            Some(findings) => findings.add(finding),
            None => log::warn!("{finding}"),
        }
    }
}

/// Returns the first row of a batch that fails on its own.
fn first_row(array: &ArrayRef, fails: impl Fn(&ArrayRef) -> bool) -> Option<u64> {
    (0..array.len()).find(|row| fails(&array.slice(*row, 1))).map(|row| row as u64)
}

fn undecoded(position: &StripePosition, source: ArrowError) -> Error {
    let place = FilePlace::new(&position.file, position.within());
    ErrorKind::Undecoded { place, problem: "cannot be decoded", source }.into()
}
