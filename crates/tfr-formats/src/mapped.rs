//! [`MappedFactory`]: reads files whose columns have other names than those of the table, at any depth.
//!
//! The columns are located by [`ColumnsInFiles`] in the schema of each file. Whatever is below this adapter knows only
//! the names of the file. At the end the fields of nested values get the names of the table.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use datafusion_common::metadata::FieldMetadata;
use datafusion_common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion_common::{Result, ScalarValue, internal_err};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::expressions::{Column, Literal};
use datafusion_physical_expr_adapter::{PhysicalExprAdapter, PhysicalExprAdapterFactory};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;
use tfr_arrow::nested::{child_arrays, children, map_children, struct_fields, with_children, with_struct_fields};
use tfr_files::{ColumnInFiles, ColumnsInFiles};

/// The bytes of an INT96 timestamp, as the library returns them.
pub(crate) const INT96: DataType = DataType::FixedSizeBinary(12);

/// Where a column of the table is in a file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Located {
    /// The index of the column in the file.
    pub(crate) index: usize,
    /// The table's column with the names of the file.
    pub(crate) field: FieldRef,
}

/// Several columns of a file that a column of the table could be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ambiguous {
    /// The column of the table, or a part of it.
    pub(crate) column: String,
    /// The names in the file.
    pub(crate) found: Vec<String>,
}

/// Locates a column of the table among those of a file. `None` if the file has no such column.
pub(crate) fn locate(columns: &ColumnsInFiles, field: &FieldRef, file: &Fields) -> Result<Option<Located>, Ambiguous> {
    match columns.columns.iter().find(|column| column.name == *field.name()) {
        Some(column) => Locator { by_id: columns.by_id }.field(column, field, file),
        None => Ok(None),
    }
}

/// Returns the id that a file records for a column.
pub(crate) fn field_id(field: &Field) -> Option<i32> {
    field.metadata().get(PARQUET_FIELD_ID_META_KEY)?.parse().ok()
}

/// Finds columns and their parts.
struct Locator {
    by_id: bool,
}

impl Locator {
    fn field(&self, column: &ColumnInFiles, wanted: &FieldRef, file: &Fields) -> Result<Option<Located>, Ambiguous> {
        let Some(index) = self.index(column, file)? else { return Ok(None) };
        let found = &file[index];
        let data_type = self.data_type(&column.parts, wanted.data_type(), found.data_type())?;
        let field = wanted.as_ref().clone().with_name(found.name()).with_data_type(data_type);
        Ok(Some(Located { index, field: Arc::new(field) }))
    }

    fn index(&self, column: &ColumnInFiles, file: &Fields) -> Result<Option<usize>, Ambiguous> {
        let only = |is: &dyn Fn(&Field) -> bool| {
            let mut found = (0..file.len()).filter(|index| is(&file[*index]));
            match (found.next(), found.next()) {
                (first, None) => Ok(first),
                (first, Some(second)) => {
                    let found = first.into_iter().chain([second]).map(|index| file[index].name().clone()).collect();
                    Err(Ambiguous { column: column.name.clone(), found })
                }
            }
        };
        if self.by_id {
            return only(&|field| column.id.is_some() && field_id(field) == column.id);
        }
        if let Some(index) = file.iter().position(|field| *field.name() == column.in_file) {
            return Ok(Some(index));
        }
        // Writers need not keep the case of names.
        let folded = column.in_file.to_lowercase();
        only(&|field| field.name().to_lowercase() == folded)
    }

    /// Returns a type of the table with the names of the file.
    fn data_type(&self, parts: &[ColumnInFiles], wanted: &DataType, found: &DataType) -> Result<DataType, Ambiguous> {
        if let (Some(wanted), Some(file)) = (struct_fields(wanted), struct_fields(found)) {
            let fields = wanted.iter().map(|field| {
                let part = parts.iter().find(|part| part.name == *field.name());
                let located = part.map(|part| self.field(part, field, file)).transpose()?.flatten();
                // Such a name is in no file.
                let absent = || Arc::new(field.as_ref().clone().with_name(format!("\0{}", field.name())));
                Ok(located.map_or_else(absent, |located| located.field))
            });
            return Ok(with_struct_fields(fields.collect::<Result<Fields, _>>()?));
        }
        match (wanted, found) {
            // Instants whose zone the file does not record.
            (DataType::Timestamp(unit, Some(_)), found)
                if *found == INT96 || matches!(found, DataType::Timestamp(_, None)) =>
            {
                Ok(DataType::Timestamp(*unit, None))
            }
            (wanted, found) if is_map(wanted) && is_map(found) => {
                let entries = children(found).first().map_or(&DataType::Null, |entries| entries);
                let mut result = Ok(());
                let data_type = map_children(wanted, |wanted| match self.by_position(parts, wanted, entries) {
                    Ok(data_type) => data_type,
                    Err(error) => {
                        result = Err(error);
                        wanted.clone()
                    }
                });
                result.map(|()| data_type)
            }
            (wanted, found) => self.by_position(parts, wanted, found),
        }
    }

    /// As [`data_type`](Self::data_type), for parts whose names do not matter.
    fn by_position(&self, parts: &[ColumnInFiles], wanted: &DataType, found: &DataType) -> Result<DataType, Ambiguous> {
        let mut pairs = parts.iter().zip(children(found));
        let mut result = Ok(());
        let data_type = map_children(wanted, |wanted| {
            let located = pairs.next().map(|(part, found)| self.data_type(&part.parts, wanted, found));
            match located {
                Some(Ok(data_type)) => data_type,
                Some(Err(error)) => {
                    result = Err(error);
                    wanted.clone()
                }
                None => wanted.clone(),
            }
        });
        result.map(|()| data_type)
    }
}

fn is_map(data_type: &DataType) -> bool {
    tfr_arrow::nested::key_and_value(data_type).is_some()
}

/// Adapts expressions on a table's columns to files that have them under other names.
#[derive(Debug)]
pub(crate) struct MappedFactory {
    pub(crate) columns: Arc<ColumnsInFiles>,
    /// Adapts expressions on columns with the names of the file.
    pub(crate) inner: Arc<dyn PhysicalExprAdapterFactory>,
}

impl PhysicalExprAdapterFactory for MappedFactory {
    fn create(
        &self,
        logical_file_schema: SchemaRef,
        physical_file_schema: SchemaRef,
    ) -> Result<Arc<dyn PhysicalExprAdapter>> {
        let mut columns = HashMap::new();
        let mut in_file = Vec::new();
        for field in logical_file_schema.fields() {
            let located = match locate(&self.columns, field, physical_file_schema.fields()) {
                Ok(located) => located,
                Err(Ambiguous { column, found }) => {
                    return internal_err!("column {column:?} of the table is one of {found:?} in the file");
                }
            };
            in_file.extend(located.as_ref().map(|located| Arc::clone(&located.field)));
            columns.insert(field.name().clone(), (located, Arc::clone(field)));
        }
        let schema = Schema::new_with_metadata(in_file, logical_file_schema.metadata().clone());
        let inner = self.inner.create(Arc::new(schema), physical_file_schema)?;
        Ok(Arc::new(Mapped { columns, inner }))
    }
}

#[derive(Debug)]
struct Mapped {
    /// Where the columns of the table are, with their fields in the table.
    columns: HashMap<String, (Option<Located>, FieldRef)>,
    inner: Arc<dyn PhysicalExprAdapter>,
}

impl PhysicalExprAdapter for Mapped {
    fn rewrite(&self, expr: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let located = expr.transform(|expr| {
            let column = expr.downcast_ref::<Column>();
            let Some((located, wanted)) = column.and_then(|column| self.columns.get(column.name())) else {
                return Ok(Transformed::no(expr));
            };
            let Some(Located { index, field }) = located else {
                let null = ScalarValue::try_from(wanted.data_type())?;
                let null = Literal::new_with_metadata(null, Some(FieldMetadata::from(wanted.as_ref())));
                return Ok(Transformed::yes(Arc::new(null) as Arc<dyn PhysicalExpr>));
            };
            let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), *index));
            Ok(Transformed::yes(match field.data_type() == wanted.data_type() {
                true => column,
                false => Arc::new(Renamed { column, to: Arc::clone(wanted) }),
            }))
        });
        self.inner.rewrite(located.data()?)
    }
}

/// A column whose parts get the names of the table.
#[derive(Debug)]
struct Renamed {
    column: Arc<dyn PhysicalExpr>,
    to: FieldRef,
}

impl PartialEq for Renamed {
    fn eq(&self, other: &Self) -> bool {
        self.column.eq(&other.column) && self.to == other.to
    }
}

impl Eq for Renamed {}

impl Hash for Renamed {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.column.hash(state);
        self.to.hash(state);
    }
}

impl fmt::Display for Renamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "renamed({}, {})", self.column, self.to.data_type())
    }
}

impl PhysicalExpr for Renamed {
    fn return_field(&self, _input_schema: &Schema) -> Result<FieldRef> {
        Ok(Arc::clone(&self.to))
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let array = self.column.evaluate(batch)?.into_array(batch.num_rows())?;
        Ok(ColumnarValue::Array(renamed(&array, self.to.data_type())?))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.column]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let [column] = children.as_slice() else {
            return internal_err!("a renamed column has one child, not {}", children.len());
        };
        Ok(Arc::new(Self { column: Arc::clone(column), to: Arc::clone(&self.to) }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.column.fmt_sql(f)
    }
}

/// Returns an array in a type of the same layout.
fn renamed(array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == wanted {
        return Ok(Arc::clone(array));
    }
    let parts = child_arrays(array);
    let parts = parts.iter().zip(children(wanted)).map(|(part, wanted)| renamed(part, wanted));
    with_children(array, wanted, &parts.collect::<Result<Vec<_>, _>>()?)
}
