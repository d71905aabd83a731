//! [`DeletedKeys`]: rows that are deleted by the values of some of their columns.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, PrimitiveArray, RecordBatch, StructArray, new_null_array};
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::{DataType, Schema, SchemaRef};
use datafusion_common::Result;
use datafusion_session::Session;
use futures::TryStreamExt;
use tfr_arrow::nested::struct_fields;
use tfr_files::{ColumnInFiles, ColumnsInFiles, FilesWithoutIds, unreadable};

use super::manifest::Entry;
use super::metadata::Metadata;
use super::schema::{NameMapping, column};
use super::{columns_by_id, file_of, values};
use crate::calendar::CalendarOption;
use crate::error::Error;
use crate::table::{self, Place};

/// The columns of keys, each with the parts that lead to a value.
pub(super) struct KeyColumns {
    schema: SchemaRef,
    columns: Arc<ColumnsInFiles>,
    /// The columns in files of deletes, which must have them.
    required: Arc<ColumnsInFiles>,
    /// The ids and the types of the values.
    ids: Vec<i32>,
    types: Vec<DataType>,
}

/// Keys of deleted rows, each with the newest of the deletes. A key that is written again later lives.
pub(super) struct DeletedKeys {
    columns: KeyColumns,
    calendar: CalendarOption,
    converter: RowConverter,
    deleted: HashMap<Box<[u8]>, i64>,
    newest: i64,
}

impl KeyColumns {
    /// Returns the columns with these ids. A column that was dropped is one of an older schema.
    ///
    /// # Errors
    /// No schema has a column, or values of its type cannot be compared.
    pub(super) fn new(
        ids: &[i32],
        metadata: &Metadata,
        mapping: &NameMapping,
        without_ids: FilesWithoutIds,
        place: &Place,
    ) -> Result<Self, Error> {
        let schemas = metadata.schemas();
        let (mut fields, mut columns, mut types) = (Vec::new(), Vec::new(), Vec::new());
        for id in ids {
            let refused = |what: &str| place.unsupported(format!("deletes by the field {id}, {what},"));
            let found = column(&schemas, *id).ok_or_else(|| refused("which no schema has"))?;
            let (field, mut in_files) =
                found.parts(mapping, &place.table()).map_err(|defect| place.refused(&place.table(), defect))?;
            if let Some(reason) = unreadable(&field) {
                return Err(refused(&format!("which has {reason}")));
            }
            let data_type = value_type(field.data_type());
            if data_type.is_nested() {
                return Err(refused("which has parts"));
            }
            types.push(data_type.clone());
            // No two columns have one id.
            let name = format!("{} (field {id})", found.name);
            fields.push(field.as_ref().clone().with_name(&name));
            in_files.name = name;
            columns.push(in_files);
        }
        let required = columns.iter().cloned().map(|column| ColumnInFiles { is_required: true, ..column });
        let required = Arc::new(columns_by_id(without_ids, required.collect()));
        let columns = Arc::new(columns_by_id(without_ids, columns));
        Ok(Self { schema: Arc::new(Schema::new(fields)), columns, required, ids: ids.to_vec(), types })
    }

    /// Returns the values of keys.
    fn values(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let values = self.types.iter().zip(batch.columns()).map(|(_, column)| value_of(column));
        values.map(|column| Ok(with_one_nan(column?))).collect()
    }
}

/// Returns the type of the value that the only fields of structs lead to.
fn value_type(data_type: &DataType) -> &DataType {
    match struct_fields(data_type).and_then(|fields| fields.first()) {
        Some(field) => value_type(field.data_type()),
        None => data_type,
    }
}

/// Returns the values that the only fields of structs lead to, null where a struct is.
fn value_of(column: &ArrayRef) -> Result<ArrayRef> {
    let Some(structs) = column.as_any().downcast_ref::<StructArray>() else { return Ok(Arc::clone(column)) };
    let (_, fields, nulls) = structs.clone().into_parts();
    let Some(field) = fields.first() else { return Ok(new_null_array(&DataType::Null, structs.len())) };
    let nulls = arrow_buffer::NullBuffer::union(nulls.as_ref(), field.nulls());
    let field = field.to_data().into_builder().nulls(nulls).build()?;
    value_of(&arrow_array::make_array(field))
}

/// All NaNs are one value.
fn with_one_nan(column: ArrayRef) -> ArrayRef {
    fn one<T: ArrowPrimitiveType>(column: &ArrayRef, nan: T::Native, is_nan: fn(T::Native) -> bool) -> ArrayRef {
        let found: &PrimitiveArray<T> = column.as_primitive();
        Arc::new(found.unary::<_, T>(|value| if is_nan(value) { nan } else { value }))
    }
    match column.data_type() {
        DataType::Float32 => one::<Float32Type>(&column, f32::NAN, f32::is_nan),
        DataType::Float64 => one::<Float64Type>(&column, f64::NAN, f64::is_nan),
        _ => column,
    }
}

impl DeletedKeys {
    /// Returns no keys of such columns.
    pub(super) fn new(columns: KeyColumns, calendar: CalendarOption) -> Result<Self> {
        let fields = columns.types.iter().map(|data_type| SortField::new(data_type.clone()));
        let converter = RowConverter::new(fields.collect())?;
        Ok(Self { columns, calendar, converter, deleted: HashMap::new(), newest: i64::MIN })
    }

    /// Adds the keys in a file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) async fn add(&mut self, session: &dyn Session, place: &Place, delete: &Entry) -> Result<()> {
        let file = file_of(place, delete).await?;
        let (schema, columns) = (Arc::clone(&self.columns.schema), Arc::clone(&self.columns.required));
        let mut batches = table::read(session, place.location(), file, schema, columns, self.calendar.clone()).await?;
        while let Some(batch) = batches.try_next().await? {
            for key in &self.converter.convert_columns(&self.columns.values(&batch)?)? {
                let newest = self.deleted.entry(key.as_ref().into()).or_insert(delete.sequence);
                *newest = delete.sequence.max(*newest);
            }
        }
        self.newest = self.newest.max(delete.sequence);
        Ok(())
    }

    /// Returns the positions of rows with deleted keys in a data file that is in the partition of the deletes.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) async fn positions(
        &self,
        session: &dyn Session,
        place: &Place,
        data: &Entry,
    ) -> Result<Vec<Range<u64>>> {
        if data.sequence >= self.newest {
            return Ok(Vec::new());
        }
        let constants = self.constants(place, data)?;
        let file = file_of(place, data).await?;
        let (schema, columns) = (Arc::clone(&self.columns.schema), Arc::clone(&self.columns.columns));
        let mut batches = table::read(session, place.location(), file, schema, columns, self.calendar.clone()).await?;
        let (mut ranges, mut position): (Vec<Range<u64>>, u64) = (Vec::new(), 0);
        // One that does not grow what others share.
        let converter = RowConverter::new(self.columns.types.iter().cloned().map(SortField::new).collect())?;
        while let Some(batch) = batches.try_next().await? {
            let mut values = self.columns.values(&batch)?;
            for (value, constant) in values.iter_mut().zip(&constants) {
                if let Some(constant) = constant {
                    *value = with_one_nan(constant.to_array_of_size(batch.num_rows())?);
                }
            }
            let keys: Rows = converter.convert_columns(&values)?;
            for key in &keys {
                if self.deleted.get(key.as_ref()).is_some_and(|deleted| data.sequence < *deleted) {
                    match ranges.last_mut() {
                        Some(last) if last.end == position => last.end += 1,
                        _ => ranges.push(position..position + 1),
                    }
                }
                position += 1;
            }
        }
        Ok(ranges)
    }

    /// Returns the values that the partition of a file has for columns, which the file may lack.
    fn constants(&self, place: &Place, data: &Entry) -> Result<Vec<Option<datafusion_common::ScalarValue>>, Error> {
        let partition = &data.partition;
        let constants = self.columns.ids.iter().zip(&self.columns.types).map(|(id, data_type)| {
            let Some(position) = partition.spec.identity_of(*id) else { return Ok(None) };
            let value = values::widened(&partition.values[position], data_type);
            let lacks =
                || place.damaged(place.name(&data.path), format!("its partition has no value of the field {id}"));
            value.map(Some).ok_or_else(lacks)
        });
        constants.collect()
    }
}
