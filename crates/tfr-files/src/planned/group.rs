//! Encodes the files of a file group as an Arrow IPC stream.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray, UInt64Array};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{DataType, Field, Schema};
use datafusion_common::stats::Precision;
use datafusion_common::{DataFusionError, Result, ScalarValue, Statistics, exec_err};
use datafusion_datasource::file::FileSource;
use datafusion_datasource::file_groups::FileGroup;
use datafusion_datasource::{FileRange, PartitionedFile, TableSchema};
use object_store::ObjectMeta;
use object_store::path::Path;

use super::KnownText;
use crate::listing::partition::over_path_columns;
use crate::scan::known_text;

/// The columns of a file, before those of its path.
static COLUMNS: [(&str, DataType, bool); 11] = [
    ("location", DataType::Utf8, false),
    ("size", DataType::UInt64, false),
    ("modified_ns", DataType::Int64, false),
    ("e_tag", DataType::Utf8, true),
    ("version", DataType::Utf8, true),
    ("start", DataType::Int64, true),
    ("end", DataType::Int64, true),
    ("rows", DataType::UInt64, true),
    ("about_rows", DataType::UInt64, true),
    ("bytes", DataType::UInt64, true),
    ("known", DataType::Utf8, true),
];

pub(super) fn encode_schema(schema: &Schema) -> Result<Vec<u8>> {
    let mut writer = StreamWriter::try_new(Vec::new(), schema)?;
    writer.finish()?;
    Ok(writer.into_inner()?)
}

pub(super) fn decode_schema(bytes: &[u8]) -> Result<Schema> {
    Ok(StreamReader::try_new(bytes, None)?.schema().as_ref().clone())
}

/// Encodes one batch.
pub(super) fn encode_batch(batch: &RecordBatch) -> Result<Vec<u8>> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema())?;
    writer.write(batch)?;
    writer.finish()?;
    Ok(writer.into_inner()?)
}

/// Decodes a stream of one batch.
pub(super) fn decode_batch(bytes: &[u8]) -> Result<RecordBatch> {
    match StreamReader::try_new(bytes, None)?.next() {
        Some(batch) => Ok(batch?),
        None => exec_err!("an Arrow stream without a batch"),
    }
}

/// Encodes the files of a group that `source` reads; `None` if they have properties that would be lost.
pub(super) fn encode_group(group: &FileGroup, source: &Arc<dyn FileSource>) -> Result<Option<Vec<u8>>> {
    let (files, table) = (group.files(), source.table_schema());
    let mut modified = Vec::with_capacity(files.len());
    let mut texts = Vec::with_capacity(files.len());
    for file in files {
        let text = known_text(source, file);
        let is_kept = is_plain(file)
            && file.extensions.is_empty() == text.is_none()
            && statistics(file, table) == file.statistics.as_deref().cloned();
        match file.object_meta.last_modified.timestamp_nanos_opt() {
            Some(time) if is_kept => modified.push(time),
            _ => return Ok(None),
        }
        texts.push(text);
    }
    let metas = || files.iter().map(|file| &file.object_meta);
    let ranges = || files.iter().map(|file| file.range.as_ref());
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(metas().map(|meta| meta.location.as_ref()))),
        Arc::new(UInt64Array::from_iter_values(metas().map(|meta| meta.size))),
        Arc::new(Int64Array::from(modified)),
        Arc::new(metas().map(|meta| meta.e_tag.as_deref()).collect::<StringArray>()),
        Arc::new(metas().map(|meta| meta.version.as_deref()).collect::<StringArray>()),
        Arc::new(ranges().map(|range| range.map(|range| range.start)).collect::<Int64Array>()),
        Arc::new(ranges().map(|range| range.map(|range| range.end)).collect::<Int64Array>()),
        Arc::new(files.iter().map(|file| counts(file)?.rows).collect::<UInt64Array>()),
        Arc::new(files.iter().map(|file| counts(file)?.about_rows).collect::<UInt64Array>()),
        Arc::new(files.iter().map(|file| Some(counts(file)?.bytes)).collect::<UInt64Array>()),
        Arc::new(texts.into_iter().collect::<StringArray>()),
    ];
    let mut fields: Vec<_> =
        COLUMNS.iter().map(|(name, data_type, nullable)| Field::new(*name, data_type.clone(), *nullable)).collect();
    for (column, field) in table.table_partition_cols().iter().enumerate() {
        let values = files.iter().map(|file| file.partition_values.get(column).cloned().unwrap_or(ScalarValue::Null));
        let values = match files.is_empty() {
            true => arrow_array::new_empty_array(field.data_type()),
            false => match ScalarValue::iter_to_array(values) {
                Ok(values) if values.data_type() == field.data_type() => values,
                _ => return Ok(None),
            },
        };
        fields.push(Field::new(format!("={}", field.name()), values.data_type().clone(), true));
        columns.push(values);
    }
    Ok(Some(encode_batch(&RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)?))
}

/// Whether a file has only the properties that are encoded.
fn is_plain(file: &PartitionedFile) -> bool {
    file.ordering.is_none()
        && file.metadata_size_hint.is_none()
        && file.table_reference.is_none()
        && file.arrow_schema.is_none()
        && Path::parse(&file.object_meta.location).is_ok_and(|path| path == file.object_meta.location)
}

/// What planning has counted of a file.
struct Counts {
    rows: Option<u64>,
    /// An estimate of the number of rows.
    about_rows: Option<u64>,
    /// An estimate of the number of bytes.
    bytes: u64,
}

fn counts(file: &PartitionedFile) -> Option<Counts> {
    let statistics = file.statistics.as_ref()?;
    let (rows, about_rows) = match statistics.num_rows {
        Precision::Exact(rows) => (Some(rows as u64), None),
        Precision::Inexact(rows) => (None, Some(rows as u64)),
        Precision::Absent => (None, None),
    };
    Some(Counts { rows, about_rows, bytes: *statistics.total_byte_size.get_value()? as u64 })
}

/// Returns the statistics that follow from the encoded properties of a file.
fn statistics(file: &PartitionedFile, table: &TableSchema) -> Option<Statistics> {
    Some(of_counts(&counts(file)?, table, &file.partition_values))
}

fn of_counts(counts: &Counts, table: &TableSchema, in_path: &[ScalarValue]) -> Statistics {
    let count = |count| usize::try_from(count).unwrap_or(usize::MAX);
    let statistics = Statistics {
        num_rows: match (counts.rows, counts.about_rows) {
            (Some(rows), _) => Precision::Exact(count(rows)),
            (None, Some(rows)) => Precision::Inexact(count(rows)),
            (None, None) => Precision::Absent,
        },
        total_byte_size: Precision::Inexact(count(counts.bytes)),
        column_statistics: Statistics::unknown_column(table.file_schema()),
    };
    over_path_columns(statistics, in_path)
}

/// Decodes the files of a group of a scan of the table `table`. What the table has attached to them is a [`KnownText`].
///
/// # Errors
/// The bytes are not an encoded group.
pub fn decode_group(bytes: &[u8], table: &TableSchema) -> Result<FileGroup> {
    let batch = decode_batch(bytes)?;
    let expected = COLUMNS.iter().map(|(_, data_type, _)| data_type);
    let schema = batch.schema();
    let found = schema.fields().iter().map(|field| field.data_type());
    let path = table.table_partition_cols().iter().map(|field| field.data_type());
    if !expected.chain(path).eq(found) {
        return exec_err!("a file group of a plan has other columns than its table");
    }
    let text = |column: usize| batch.column(column).as_string::<i32>();
    let unsigned = |column: usize| batch.column(column).as_primitive::<UInt64Type>();
    let signed = |column: usize| batch.column(column).as_primitive::<Int64Type>();
    let optional = |column: usize, row: usize| text(column).is_valid(row).then(|| text(column).value(row).to_owned());
    let mut files = Vec::with_capacity(batch.num_rows());
    for row in 0..batch.num_rows() {
        let meta = ObjectMeta {
            location: Path::parse(text(0).value(row)).map_err(|error| DataFusionError::External(error.into()))?,
            size: unsigned(1).value(row),
            last_modified: time(signed(2).value(row)).into(),
            e_tag: optional(3, row),
            version: optional(4, row),
        };
        let mut file = PartitionedFile::new_from_meta(meta);
        if signed(5).is_valid(row) {
            file.range = Some(FileRange { start: signed(5).value(row), end: signed(6).value(row) });
        }
        for column in COLUMNS.len()..batch.num_columns() {
            file.partition_values.push(ScalarValue::try_from_array(batch.column(column), row)?);
        }
        let number = |column: usize| unsigned(column).is_valid(row).then(|| unsigned(column).value(row));
        if let Some(bytes) = number(9) {
            // As the planning process has checked, everything else follows.
            let counts = Counts { rows: number(7), about_rows: number(8), bytes };
            file.statistics = Some(Arc::new(of_counts(&counts, table, &file.partition_values)));
        }
        if let Some(text) = optional(10, row) {
            file.extensions.insert(KnownText(text));
        }
        files.push(file);
    }
    Ok(FileGroup::new(files))
}

fn time(nanoseconds: i64) -> SystemTime {
    let duration = Duration::from_nanos(nanoseconds.unsigned_abs());
    if nanoseconds < 0 { UNIX_EPOCH - duration } else { UNIX_EPOCH + duration }
}
