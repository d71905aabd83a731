//! Apache Avro object container files.
//!
//! Uses a decoder of its own: arrow-avro rejects files whose values are not records and reports recursive names where
//! there are none. It also trusts the counts in a file.
//!
//! | Avro | Arrow |
//! |---|---|
//! | null, boolean, int, long, float, double, bytes, string | Null, Boolean, Int32, Int64, Float32, Float64, Binary, Utf8 |
//! | fixed, enum | FixedSizeBinary (Binary if its size is 0), Dictionary of Utf8 |
//! | array, map, record | List, Map, Struct |
//! | union of null and one other type | that type, nullable |
//! | union of int and long; of int, float and double; maybe null | Int64; Float64 |
//! | other unions | Union, a field for each branch |
//! | date, time-millis, time-micros | Date32, Time32, Time64 |
//! | timestamp-millis, -micros, -nanos; local-timestamp-... | Timestamp with zone UTC; without zone |
//! | decimal | Decimal128 or Decimal256, with at most 76 digits |
//! | duration | Interval of months, days and nanoseconds |
//! | other logical types (uuid) | the type below |
//!
//! A file whose values are not records has one column, `value`. Files of one table may differ as Avro's schema
//! resolution allows: see `promote`. A field that a file lacks is null there, whatever default other files declare for
//! it.

mod bytes;
mod container;
mod promote;
mod schema;
mod values;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion_common::Result;
use datafusion_datasource::file_format::FileFormat;
use datafusion_physical_plan::metrics::Count;
use datafusion_session::Session;
use futures::StreamExt;
use tfr_files::memory::ReadBounds;
use tfr_files::{Findings, FoundBy, UsedColumns};
use tfr_stores::FileNames;

use self::bytes::Bytes;
use self::container::{Block, Container};
use self::schema::{AvroType, RecordField, SchemaDialect};
use self::values::AvroColumn;
use crate::calendar::{CalendarOption, Calendars, Rule, Watch, Watched, count, has_doubts, leaves, note, rebased};
use crate::error::{Error, FilePlace, Within};
use crate::forward::{FilePart, ForwardFiles, ForwardReader, InputFile};
use crate::input_format::InputFormat;
use crate::mapped::{MappedBatches, check_rows};
use crate::names::ColumnNames;
use tfr_files::scan::{Batches, ReaderFormat};

pub(crate) use self::promote::promoted;

/// Maximum number of records without bytes in a block.
const MAX_EMPTY_RECORDS: u64 = 1 << 24;

/// Number of records that are read when a table is opened to find old dates of an unknown calendar, about their bytes,
/// and the memory limit for that.
const PROBED_RECORDS: usize = 1000;
const PROBED_LEN: usize = 1 << 20;
const PROBED_VALUE: u64 = 64 << 20;

/// Records of a batch of a file that is read as a whole.
const WHOLE_BATCH: usize = 8192;

/// Returns the format; `names` determines the files' names in messages.
pub(crate) fn format(
    session: &dyn Session,
    names: FileNames,
    columns: ColumnNames,
    calendar: CalendarOption,
) -> Arc<dyn FileFormat> {
    let (findings, used) = (Findings::of(session.config()), session.config().get_extension::<UsedColumns>());
    let reader = AvroReader { calendar, findings, columns: columns.clone(), used };
    Arc::new(ReaderFormat::new(ForwardFiles::new(reader, names, columns)))
}

#[derive(Debug)]
struct AvroReader {
    calendar: CalendarOption,
    findings: Option<Arc<Findings>>,
    columns: ColumnNames,
    /// The columns that queries use, if known.
    used: Option<Arc<UsedColumns>>,
}

impl AvroReader {
    /// Returns whose attributes of schemas count.
    fn dialect(&self) -> SchemaDialect {
        match self.columns.mapped().is_some_and(|columns| columns.by == FoundBy::Id) {
            true => SchemaDialect::Iceberg,
            false => SchemaDialect::Avro,
        }
    }

    fn calendars(&self, container: &Container) -> Calendars {
        Calendars::of_avro(|key| container.metadata.get(key).map(String::as_str), &self.calendar)
    }

    /// Adds a note if the first records of the file have ambiguous values. A file has no bounds that would rule them
    /// out in all records.
    async fn note_doubts(&self, file: &InputFile, container: Container, schema: &Schema) -> Result<()> {
        let Some(findings) = &self.findings else { return Ok(()) };
        let is_used = |name: &str| self.used.as_ref().is_none_or(|used| used.contains(&self.columns.in_table(name)));
        let calendars = self.calendars(&container);
        let doubtful =
            schema.fields().iter().filter(|field| is_used(field.name()) && watched(&calendars, field).is_some());
        let doubtful: Vec<_> = doubtful.cloned().collect();
        if doubtful.is_empty() {
            return Ok(());
        }
        let part = FilePart {
            range: 0..file.meta.size,
            file: file.clone(),
            wanted: Arc::new(Schema::new(doubtful)),
            columns: ColumnNames::default(),
            batch_size: PROBED_RECORDS,
            bounds: ReadBounds { batch: PROBED_LEN, value: PROBED_VALUE },
            bytes_scanned: Count::new(),
            deleted: None,
            recorded: None,
        };
        let mut records = AvroRecords::new(container, part, &calendars, None)?;
        let Some(batch) = records.next().await? else { return Ok(()) };
        let mut columns: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
            let Some(watched) = watched(&calendars, field).filter(|watched| has_doubts(array, &watched.leaves)) else {
                continue;
            };
            if let Some(reason) = watched.leaves.iter().find_map(|watch| watch.reason()) {
                columns.entry(reason.describe()).or_default().push(watched.column);
            }
        }
        for (reason, columns) in columns {
            findings.note(note(reason, vec![file.name.to_string()], columns));
        }
        Ok(())
    }
}

/// Returns which values of a column are ambiguous, if any can be.
fn watched(calendars: &Calendars, field: &Field) -> Option<Watched> {
    let leaves = leaves(field.data_type(), |data_type| of_leaf(calendars, data_type).1);
    let is_any = leaves.iter().any(|watch| *watch != Watch::Nothing);
    is_any.then(|| Watched { column: field.name().clone(), leaves })
}

/// Returns how values of a type are read, and which of them are ambiguous.
fn of_leaf(calendars: &Calendars, data_type: &DataType) -> (Rule, Watch) {
    match data_type {
        DataType::Date32 => calendars.dates.of_local(),
        DataType::Timestamp(_, None) => calendars.locals.of_local(),
        DataType::Timestamp(_, Some(_)) => calendars.instants.of_instants(),
        _ => (Rule::Keep, Watch::Nothing),
    }
}

#[async_trait]
impl ForwardReader for AvroReader {
    fn name(&self) -> &'static str {
        "avro"
    }

    fn format(&self) -> InputFormat {
        InputFormat::Avro
    }

    /// At sync markers: a part reads the blocks that begin in it.
    fn can_split(&self) -> bool {
        true
    }

    async fn schema(&self, file: InputFile) -> Result<SchemaRef> {
        let container = Container::open(&file, self.dialect()).await?;
        let schema = Schema::new(container.schema.columns().iter().map(RecordField::field).collect::<Vec<_>>());
        // The scan reports records that cannot be read.
        let _ = self.note_doubts(&file, container, &schema).await;
        Ok(Arc::new(schema))
    }

    async fn batches(&self, part: FilePart) -> Result<Batches> {
        let mut container = Container::open(&part.file, self.dialect()).await?;
        part.bytes_scanned.add(container.position() as usize);
        container.skip_to(part.range.start).await?;
        let calendars = self.calendars(&container);
        let records = AvroRecords::new(container, part, &calendars, self.findings.clone())?;
        let batches = futures::stream::try_unfold(records, |mut records| async {
            Ok(records.next().await?.map(|batch| (batch, records)))
        });
        Ok(batches.boxed())
    }
}

/// A file that was read as a whole: the texts of its header, and its records.
pub(crate) struct Whole {
    pub(crate) header: HashMap<String, String>,
    pub(crate) batches: Vec<RecordBatch>,
}

/// Reads all records of a small file, such as the metadata of a table, as they are.
pub(crate) async fn read_whole(file: InputFile, bounds: ReadBounds) -> Result<Whole> {
    let container = Container::open(&file, SchemaDialect::Iceberg).await?;
    let header = container.metadata.clone();
    let fields = container.schema.columns().into_iter().map(|column| column.field());
    let part = FilePart {
        range: 0..file.meta.size,
        wanted: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
        file,
        columns: ColumnNames::default(),
        batch_size: WHOLE_BATCH,
        bounds,
        bytes_scanned: Count::new(),
        deleted: None,
        recorded: None,
    };
    let calendars = Calendars::of_avro(|_| None, &CalendarOption::Proleptic);
    let mut records = AvroRecords::new(container, part, &calendars, None)?;
    let mut batches = Vec::new();
    while let Some(batch) = records.next().await? {
        batches.push(batch);
    }
    Ok(Whole { header, batches })
}

/// How a column is processed.
enum RecordColumn {
    Wanted(AvroColumn),
    Skipped(AvroType),
}

/// The records of a file.
struct AvroRecords {
    container: Container,
    part: FilePart,
    /// All columns in the order of the file.
    columns: Vec<(String, RecordColumn)>,
    schema: SchemaRef,
    /// Makes the columns of the table, where its metadata determines them.
    mapped: Option<MappedBatches>,
    /// The rule for each leaf of the requested columns, if some need rebasing.
    rules: Option<Vec<Vec<Rule>>>,
    /// Counts the ambiguous values of these columns, by index.
    findings: Option<Arc<Findings>>,
    watched: Vec<(usize, Watched)>,
    /// The offset of the first block, and the number of the next row from there.
    start: u64,
    row: u64,
    /// The number of rows before the first block, if it was determined.
    rows_before: Option<u64>,
    /// Minimum number of bytes of a record.
    min_len: usize,
    /// The current block, the number of its bytes read, and the number of its records left.
    block: Option<(Block, usize, u64)>,
}

impl AvroRecords {
    fn new(
        container: Container,
        part: FilePart,
        calendars: &Calendars,
        findings: Option<Arc<Findings>>,
    ) -> Result<Self> {
        let columns = container.schema.columns();
        let mapped = match part.columns.mapped() {
            Some(mapped) => {
                let file = Arc::new(Schema::new(columns.iter().map(RecordField::field).collect::<Vec<_>>()));
                Some(MappedBatches::new(mapped, &part.wanted, &file, part.deleted.clone())?)
            }
            None => None,
        };
        let is_read = |index: usize, name: &str| match &mapped {
            Some(mapped) => mapped.read().binary_search(&index).is_ok(),
            None => part.wants(name),
        };
        let mut fields = Vec::new();
        let columns = columns.into_iter().enumerate().map(|(index, column)| {
            let found = match is_read(index, &column.name) {
                true => {
                    fields.push(column.field());
                    RecordColumn::Wanted(AvroColumn::new(&column.data_type))
                }
                false => RecordColumn::Skipped(column.data_type),
            };
            (column.name, found)
        });
        let columns = columns.collect();
        let schema = Arc::new(Schema::new(fields));
        let rule = |data_type: &DataType| of_leaf(calendars, data_type).0;
        let rules: Vec<_> = schema.fields().iter().map(|field| leaves(field.data_type(), rule)).collect();
        let rules = Some(rules).filter(|rules| rules.iter().flatten().any(|rule| !rule.is_keep()));
        let of_fields = schema.fields().iter().enumerate();
        let watched = of_fields.filter_map(|(index, field)| Some((index, watched(calendars, field)?))).collect();
        let (min_len, start) = (container.schema.min_len(), container.position());
        let rows_before = (part.range.start == 0).then_some(0);
        Ok(Self {
            container,
            part,
            columns,
            schema,
            mapped,
            rules,
            findings,
            watched,
            start,
            row: 0,
            rows_before,
            min_len,
            block: None,
        })
    }

    /// Returns the number of rows before the first block.
    async fn rows_before(&mut self) -> Result<u64> {
        let before = match self.rows_before {
            Some(before) => before,
            None => Container::records_before(&self.part.file, self.start).await?,
        };
        self.rows_before = Some(before);
        Ok(before)
    }

    /// Counts the ambiguous values of a batch.
    async fn count_doubts(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let Some(findings) = self.findings.clone() else { return Ok(()) };
        if !self.watched.iter().any(|(index, watched)| has_doubts(&columns[*index], &watched.leaves)) {
            return Ok(());
        }
        let first = self.rows_before().await? + self.row;
        for (index, watched) in &self.watched {
            count(&findings, &self.part.file.name, watched, &columns[*index], |row| first + row as u64)?;
        }
        Ok(())
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let (mut rows, mut len) = (0, 0);
        while rows < self.part.batch_size && len < self.part.bounds.batch {
            let Some((block, position, left)) = &mut self.block else {
                let before = self.container.position();
                if before >= self.part.range.end {
                    break;
                }
                let Some(block) = self.container.block(self.part.bounds.record()).await? else { break };
                self.part.bytes_scanned.add((self.container.position() - before) as usize);
                self.check(&block)?;
                let left = block.records;
                self.block = Some((block, 0, left));
                continue;
            };
            if *left == 0 {
                if *position < block.data.len() {
                    let reason = format!("{} bytes behind the records of a block", block.data.len() - *position);
                    let byte = block.byte;
                    return Err(self.container.damaged(byte, reason).into());
                }
                self.block = None;
                continue;
            }
            let rest = &block.data[*position..];
            let mut bytes = Bytes::new(rest);
            for (name, column) in &mut self.columns {
                let read = match column {
                    RecordColumn::Wanted(values) => values.read(&mut bytes),
                    RecordColumn::Skipped(skipped) => bytes.skip(skipped),
                };
                read.map_err(|fault| {
                    let within = Within::Record { record: block.records - *left, block: block.byte };
                    Error::content(FilePlace::new(&self.part.file.name, within), fault.within(name).describe())
                })?;
            }
            let used = rest.len() - bytes.left();
            *position += used;
            *left -= 1;
            (rows, len) = (rows + 1, len + used);
        }
        if rows == 0 {
            self.check_rows()?;
            return Ok(None);
        }
        let wanted = self.columns.iter_mut().filter_map(|(_, column)| match column {
            RecordColumn::Wanted(values) => Some(values.finish()),
            RecordColumn::Skipped(_) => None,
        });
        let mut columns = wanted.collect::<Result<Vec<ArrayRef>, _>>()?;
        for (column, rules) in columns.iter_mut().zip(self.rules.iter().flatten()) {
            *column = rebased(column, rules)?;
        }
        self.count_doubts(&columns).await?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        let has_deleted = self.mapped.as_ref().is_some_and(|mapped| mapped.deleted().is_some());
        let first = if has_deleted { self.rows_before().await? + self.row } else { self.row };
        self.row += rows as u64;
        Ok(Some(match &self.mapped {
            Some(mapped) => mapped.adapt(&batch, first)?,
            None => batch,
        }))
    }

    /// Compares the number of rows with what the metadata of the table records, if this is the end of the file and the
    /// number is known.
    fn check_rows(&self) -> Result<(), Error> {
        match self.rows_before {
            Some(before) if self.container.position() == self.part.file.meta.size => {
                let deleted = self.part.deleted.as_ref().map_or(0, |deleted| deleted.end());
                check_rows(&self.part.file.name, before.saturating_add(self.row), self.part.recorded, deleted)
            }
            _ => Ok(()),
        }
    }

    /// Rejects a block with more records than its bytes can contain.
    fn check(&self, block: &Block) -> Result<(), Error> {
        let most = match self.min_len {
            0 => MAX_EMPTY_RECORDS,
            min_len => (block.data.len() / min_len) as u64,
        };
        match block.records <= most {
            true => Ok(()),
            false => {
                let reason = format!("a block of {} records in {} bytes", block.records, block.data.len());
                Err(self.container.damaged(block.byte, reason))
            }
        }
    }
}
