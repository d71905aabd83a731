//! Writes a Parquet file, encoding its columns in parallel.

use std::fs::File;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::error::DataFusionError;
use datafusion::parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, ArrowWriterOptions, compute_leaves,
};
use datafusion::parquet::arrow::{ArrowSchemaConverter, ArrowWriter};
use datafusion::parquet::basic::LogicalType;
use datafusion::parquet::errors::ParquetError;
use datafusion::parquet::file::writer::SerializedFileWriter;
use datafusion::parquet::schema::types::{SchemaDescriptor, Type};
use rayon::prelude::*;

use super::Encoder;

/// Returns the schema of a file, with the logical types of extension types. Without them only readers of Arrow's schema
/// in the file recognize these columns.
fn with_logical_types(schema: &Schema) -> Result<SchemaDescriptor, ParquetError> {
    let converted = ArrowSchemaConverter::new().convert(schema)?;
    let root = converted.root_schema();
    let columns = schema.fields().iter().zip(root.get_fields()).map(|(field, column)| {
        let Some(logical_type) = logical_type(field).filter(|_| column.is_primitive()) else {
            return Ok(Arc::clone(column));
        };
        let length = if let Type::PrimitiveType { type_length, .. } = column.as_ref() { *type_length } else { -1 };
        let column = Type::primitive_type_builder(column.name(), column.get_physical_type())
            .with_repetition(column.get_basic_info().repetition())
            .with_length(length)
            .with_logical_type(Some(logical_type))
            .build()?;
        Ok(Arc::new(column))
    });
    let columns = columns.collect::<Result<Vec<_>, ParquetError>>()?;
    let root = Type::group_type_builder(root.name()).with_fields(columns).build()?;
    Ok(SchemaDescriptor::new(Arc::new(root)))
}

fn logical_type(field: &Field) -> Option<LogicalType> {
    match (field.extension_type_name()?, field.data_type()) {
        ("arrow.uuid", DataType::FixedSizeBinary(16)) => Some(LogicalType::Uuid),
        ("arrow.json", DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) => Some(LogicalType::Json),
        _ => None,
    }
}

/// An open Parquet file.
pub struct ParquetFile {
    writer: SerializedFileWriter<File>,
    groups: ArrowRowGroupWriterFactory,
    fields: Vec<FieldRef>,
    /// The current row group.
    open: Option<RowGroup>,
    /// The number of row groups before it.
    closed: usize,
    max_rows: usize,
    max_bytes: usize,
    encoder: Arc<Encoder>,
}

struct RowGroup {
    columns: Vec<ArrowColumnWriter>,
    rows: usize,
}

impl ParquetFile {
    /// Creates an empty file that records the schema. Compression and other properties come from the session.
    pub fn create(file: File, schema: &SchemaRef, encoder: &Arc<Encoder>) -> Result<Self, DataFusionError> {
        let options = encoder.session.default_table_options().parquet.global;
        let properties = options
            .into_writer_properties_builder()?
            .set_created_by(concat!("tfr-sql version ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let (max_rows, max_bytes) = (properties.max_row_group_row_count(), properties.max_row_group_bytes());
        let options =
            ArrowWriterOptions::new().with_properties(properties).with_parquet_schema(with_logical_types(schema)?);
        let (writer, groups) =
            ArrowWriter::try_new_with_options(file, Arc::clone(schema), options)?.into_serialized_writer()?;
        Ok(Self {
            writer,
            groups,
            fields: schema.fields().to_vec(),
            open: None,
            closed: 0,
            max_rows: max_rows.unwrap_or(usize::MAX).max(1),
            max_bytes: max_bytes.unwrap_or(usize::MAX).min(encoder.row_group_bytes),
            encoder: Arc::clone(encoder),
        })
    }

    /// Appends the rows of `batch`.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), ParquetError> {
        let mut start = 0;
        while start < batch.num_rows() {
            let mut group = match self.open.take() {
                Some(group) => group,
                None => RowGroup { columns: self.groups.create_column_writers(self.closed)?, rows: 0 },
            };
            let len = (self.max_rows - group.rows).min(batch.num_rows() - start);
            self.encode(&mut group, &batch.slice(start, len))?;
            start += len;
            let bytes: usize = group.columns.iter().map(ArrowColumnWriter::get_estimated_total_bytes).sum();
            match group.rows >= self.max_rows || bytes >= self.max_bytes {
                true => self.close(group)?,
                false => self.open = Some(group),
            }
        }
        Ok(())
    }

    fn encode(&self, group: &mut RowGroup, rows: &RecordBatch) -> Result<(), ParquetError> {
        group.rows += rows.num_rows();
        let mut leaves = Vec::with_capacity(group.columns.len());
        for (field, column) in self.fields.iter().zip(rows.columns()) {
            leaves.extend(compute_leaves(field, column)?);
        }
        self.encoder
            .pool
            .install(|| group.columns.par_iter_mut().zip(leaves).try_for_each(|(column, leaf)| column.write(&leaf)))
    }

    fn close(&mut self, group: RowGroup) -> Result<(), ParquetError> {
        let columns = group.columns.into_par_iter();
        let chunks: Vec<ArrowColumnChunk> =
            self.encoder.pool.install(|| columns.map(ArrowColumnWriter::close).collect::<Result<_, _>>())?;
        let mut written = self.writer.next_row_group()?;
        for chunk in chunks {
            chunk.append_to_row_group(&mut written)?;
        }
        written.close()?;
        self.closed += 1;
        Ok(())
    }

    /// Writes the remaining rows and the footer.
    pub fn finish(mut self) -> Result<(), ParquetError> {
        if let Some(group) = self.open.take() {
            self.close(group)?;
        }
        self.writer.close().map(drop)
    }
}
