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

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion_common::Result;
use datafusion_datasource::file_format::FileFormat;
use futures::StreamExt;
use tfr_files::FileNames;
use tfr_files::Findings;

use self::bytes::Bytes;
use self::container::{Block, Container};
use self::schema::Type;
use self::values::Values;
use crate::calendar::{Calendar, CalendarOption, Calendars, Rule, Watch, leaves, note, rebased};
use crate::error::{Error, ErrorKind};
use crate::forward::{FilePart, ForwardFiles, ForwardReader, Input};
use crate::input_format::InputFormat;
use crate::names::ColumnNames;
use tfr_files::scan::{Batches, ReaderFormat};

pub(crate) use self::promote::promoted;

/// Maximum number of records without bytes in a block.
const MAX_EMPTY_RECORDS: u64 = 1 << 24;

/// Returns the format; `names` determines the files' names in messages.
pub(crate) fn format(
    names: FileNames,
    columns: ColumnNames,
    calendar: CalendarOption,
    findings: Option<Arc<Findings>>,
) -> Arc<dyn FileFormat> {
    Arc::new(ReaderFormat::new(ForwardFiles::new(AvroReader { calendar, findings }, names, columns)))
}

#[derive(Debug)]
struct AvroReader {
    calendar: CalendarOption,
    findings: Option<Arc<Findings>>,
}

impl AvroReader {
    /// Returns the calendars of a file. Without keys of Spark or Hive they are those of the specification, ISO 8601.
    fn calendars(&self, container: &Container) -> Calendars {
        let default = match Calendar::of(&self.calendar) {
            Calendar::Unknown => Calendar::Proleptic,
            given => given,
        };
        Calendars::of_keys(|key| container.metadata.get(key).map(String::as_str), default, &self.calendar)
    }

    /// Adds a note if the file has instants of the hybrid calendar but no time zone.
    fn note_doubts(&self, file: &Input, schema: &Schema, calendars: &Calendars) {
        let Some(findings) = &self.findings else { return };
        let reason = |data_type: &DataType| of_leaf(calendars, data_type).1.reason();
        let doubtful = schema.fields().iter().filter_map(|field| {
            let reason = leaves(field.data_type(), reason).into_iter().flatten().next()?;
            Some((reason, field.name().clone()))
        });
        let (reasons, columns): (Vec<_>, Vec<_>) = doubtful.unzip();
        if let Some(reason) = reasons.first() {
            findings.note(note(reason.describe(), vec![file.name.to_string()], columns));
        }
    }
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

    async fn schema(&self, file: Input) -> Result<SchemaRef> {
        let container = Container::open(&file).await?;
        let fields: Vec<Field> =
            container.schema.columns().into_iter().map(|(name, column)| column.field(name)).collect();
        let schema = Schema::new(fields);
        self.note_doubts(&file, &schema, &self.calendars(&container));
        Ok(Arc::new(schema))
    }

    async fn batches(&self, part: FilePart) -> Result<Batches> {
        let mut container = Container::open(&part.file).await?;
        part.bytes_scanned.add(container.position() as usize);
        container.skip_to(part.range.start).await?;
        let calendars = self.calendars(&container);
        let records = Records::new(container, part, &calendars);
        let batches = futures::stream::try_unfold(records, |mut records| async {
            Ok(records.next().await?.map(|batch| (batch, records)))
        });
        Ok(batches.boxed())
    }
}

/// How a column is processed.
enum Column {
    Wanted(Values),
    Skipped(Type),
}

/// The records of a file.
struct Records {
    container: Container,
    part: FilePart,
    /// All columns in the order of the file.
    columns: Vec<(String, Column)>,
    schema: SchemaRef,
    /// The rule for each leaf of the requested columns, if some need rebasing.
    rules: Option<Vec<Vec<Rule>>>,
    /// Minimum number of bytes of a record.
    min_len: usize,
    /// The current block, the number of its bytes read, and the number of its records left.
    block: Option<(Block, usize, u64)>,
}

impl Records {
    fn new(container: Container, part: FilePart, calendars: &Calendars) -> Self {
        let mut fields = Vec::new();
        let columns = container.schema.columns().into_iter().map(|(name, column)| {
            let found = match part.wants(name) {
                true => {
                    fields.push(column.field(name));
                    Column::Wanted(Values::new(column))
                }
                false => Column::Skipped(column.clone()),
            };
            (name.to_owned(), found)
        });
        let columns = columns.collect();
        let schema = Arc::new(Schema::new(fields));
        let rule = |data_type: &DataType| of_leaf(calendars, data_type).0;
        let rules: Vec<_> = schema.fields().iter().map(|field| leaves(field.data_type(), rule)).collect();
        let rules = Some(rules).filter(|rules| rules.iter().flatten().any(|rule| !rule.is_keep()));
        let min_len = container.schema.min_len();
        Self { container, part, columns, schema, rules, min_len, block: None }
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let (mut rows, mut len) = (0, 0);
        while rows < self.part.batch_size && len < self.part.batch_len {
            let Some((block, position, left)) = &mut self.block else {
                let before = self.container.position();
                if before >= self.part.range.end {
                    break;
                }
                let Some(block) = self.container.block().await? else { break };
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
                    Column::Wanted(values) => values.read(&mut bytes),
                    Column::Skipped(skipped) => bytes.skip(skipped),
                };
                read.map_err(|fault| {
                    Error::from(ErrorKind::AvroRecord {
                        file: self.part.file.name.to_string(),
                        record: block.records - *left,
                        byte: block.byte,
                        reason: fault.within(name).describe(),
                    })
                })?;
            }
            let used = rest.len() - bytes.left();
            *position += used;
            *left -= 1;
            (rows, len) = (rows + 1, len + used);
        }
        if rows == 0 {
            return Ok(None);
        }
        let wanted = self.columns.iter_mut().filter_map(|(_, column)| match column {
            Column::Wanted(values) => Some(values.finish()),
            Column::Skipped(_) => None,
        });
        let mut columns = wanted.collect::<Result<Vec<ArrayRef>, _>>()?;
        for (column, rules) in columns.iter_mut().zip(self.rules.iter().flatten()) {
            *column = rebased(column, rules)?;
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(Some(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?))
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
