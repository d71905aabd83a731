//! [`ExactAdapterFactory`]: converts the columns of a file to those of the table without loss.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, FieldRef, Fields, Schema, SchemaRef};
use datafusion_common::metadata::FieldMetadata;
use datafusion_common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion_common::{DataFusionError, Result, ScalarValue, internal_err};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::ScalarFunctionExpr;
use datafusion_physical_expr::expressions::{CastExpr, Column, Literal};
use datafusion_physical_expr_adapter::{PhysicalExprAdapter, PhysicalExprAdapterFactory};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use tfr_arrow::convert::{UnfitValue, can_convert, convert, is_widening};

/// Converts columns by [`convert`](tfr_arrow::convert::convert()). The engine's own adapter casts, and may round.
///
/// A column that the file lacks is null. A field of a struct is read without the other fields.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExactAdapterFactory;

impl PhysicalExprAdapterFactory for ExactAdapterFactory {
    fn create(
        &self,
        logical_file_schema: SchemaRef,
        physical_file_schema: SchemaRef,
    ) -> Result<Arc<dyn PhysicalExprAdapter>> {
        Ok(Arc::new(ExactAdapter { table: logical_file_schema, file: physical_file_schema }))
    }
}

#[derive(Debug)]
struct ExactAdapter {
    table: SchemaRef,
    file: SchemaRef,
}

impl PhysicalExprAdapter for ExactAdapter {
    fn rewrite(&self, expr: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let rewritten = expr.transform(|expr| {
            if let Some(column) = expr.downcast_ref::<Column>() {
                return self.column(&expr, column);
            }
            match self.part_of_struct(&expr)? {
                Some(part) => Ok(Transformed::yes(part)),
                None => Ok(Transformed::no(expr)),
            }
        });
        rewritten.data()
    }
}

impl ExactAdapter {
    fn column(&self, expr: &Arc<dyn PhysicalExpr>, column: &Column) -> Result<Transformed<Arc<dyn PhysicalExpr>>> {
        let name = column.name();
        let Some((index, found)) = self.file.column_with_name(name) else {
            let wanted = self.table.field_with_name(name)?;
            if !wanted.is_nullable() {
                return internal_err!("column {name:?} may not be null, but is not in the file");
            }
            return Ok(Transformed::yes(null_of(&Arc::new(wanted.clone()))?));
        };
        let read = || Arc::new(Column::new(name, index)) as Arc<dyn PhysicalExpr>;
        match self.table.field_with_name(name) {
            Ok(wanted) if wanted != found => {
                Ok(Transformed::yes(conversion(read(), found.data_type(), &Arc::new(wanted.clone()), name)?))
            }
            _ if index == column.index() => Ok(Transformed::no(Arc::clone(expr))),
            _ => Ok(Transformed::yes(read())),
        }
    }

    /// Rewrites `get_field(convert(s), 'a')` to `convert(get_field(s, 'a'))`, so that the other fields need not be
    /// read.
    fn part_of_struct(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        let Some(access) = expr.downcast_ref::<ScalarFunctionExpr>().filter(|access| access.name() == "get_field")
        else {
            return Ok(None);
        };
        let Some((source, keys)) = access.args().split_first() else { return Ok(None) };
        let Some(converted) = source.downcast_ref::<ConvertExpr>() else { return Ok(None) };
        let path: Option<Vec<&str>> = keys.iter().map(literal_text).collect();
        let Some(path) = path.filter(|path| !path.is_empty()) else { return Ok(None) };
        let found = converted.from.clone();
        let (DataType::Struct(found), DataType::Struct(wanted)) = (&found, converted.to.data_type()) else {
            return Ok(None);
        };
        let Some(wanted) = field_at(wanted, &path) else { return Ok(None) };
        let mut fields = found;
        for (depth, name) in path.iter().enumerate() {
            let Some((_, field)) = fields.find(name) else { return Ok(Some(null_of(wanted)?)) };
            if depth + 1 == path.len() {
                let mut args = vec![Arc::clone(&converted.source)];
                args.extend(keys.iter().map(Arc::clone));
                let part: Arc<dyn PhysicalExpr> = Arc::new(ScalarFunctionExpr::try_new(
                    Arc::new(access.fun().clone()),
                    args,
                    &self.file,
                    Arc::new(access.config_options().clone()),
                )?);
                let column = format!("{}.{}", converted.column, path.join("."));
                return match part.return_field(&self.file)?.as_ref() == wanted.as_ref() {
                    true => Ok(Some(part)),
                    false => conversion(part, field.data_type(), wanted, &column).map(Some),
                };
            }
            match field.data_type() {
                DataType::Struct(parts) => fields = parts,
                _ => return Ok(None),
            }
        }
        Ok(None)
    }
}

fn literal_text(expr: &Arc<dyn PhysicalExpr>) -> Option<&str> {
    expr.downcast_ref::<Literal>().and_then(|literal| literal.value().try_as_str().flatten())
}

fn field_at<'a>(fields: &'a Fields, path: &[&str]) -> Option<&'a FieldRef> {
    let (first, rest) = path.split_first()?;
    let (_, field) = fields.find(first)?;
    match (rest, field.data_type()) {
        ([], _) => Some(field),
        (_, DataType::Struct(parts)) => field_at(parts, rest),
        _ => None,
    }
}

fn null_of(field: &FieldRef) -> Result<Arc<dyn PhysicalExpr>> {
    let null = ScalarValue::try_from(field.data_type())?;
    Ok(Arc::new(Literal::new_with_metadata(null, Some(FieldMetadata::from(field.as_ref())))))
}

/// Converts the values of `expr` to `wanted`.
fn conversion(
    expr: Arc<dyn PhysicalExpr>,
    found: &DataType,
    wanted: &FieldRef,
    column: &str,
) -> Result<Arc<dyn PhysicalExpr>> {
    // The engine understands its own casts: it can use the statistics of integers and text through them.
    if found == wanted.data_type() || is_widening(found, wanted.data_type()) {
        return Ok(Arc::new(CastExpr::new_with_target_field(expr, Arc::clone(wanted), None)));
    }
    if !can_convert(found, wanted.data_type()) {
        return internal_err!("column {column:?}: no conversion from {found} to {}", wanted.data_type());
    }
    Ok(Arc::new(ConvertExpr { source: expr, from: found.clone(), to: Arc::clone(wanted), column: column.into() }))
}

/// Converts the values of a file's column to the type of the table.
#[derive(Debug, Clone)]
struct ConvertExpr {
    source: Arc<dyn PhysicalExpr>,
    from: DataType,
    to: FieldRef,
    column: Arc<str>,
}

impl PartialEq for ConvertExpr {
    fn eq(&self, other: &Self) -> bool {
        self.source.eq(&other.source) && self.to == other.to
    }
}

impl Eq for ConvertExpr {}

impl Hash for ConvertExpr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.source.hash(state);
        self.to.hash(state);
    }
}

impl fmt::Display for ConvertExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "convert({}, {})", self.source, self.to.data_type())
    }
}

impl PhysicalExpr for ConvertExpr {
    fn return_field(&self, _input_schema: &Schema) -> Result<FieldRef> {
        Ok(Arc::clone(&self.to))
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let values = self.source.evaluate(batch)?.into_array(batch.num_rows())?;
        let converted = convert(&values, self.to.data_type());
        let converted = converted.map_err(|unfit| UnfitInColumn { column: self.column.to_string(), unfit });
        Ok(ColumnarValue::Array(converted.map_err(|error| DataFusionError::External(Box::new(error)))?))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.source]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let [source] = children.as_slice() else {
            return internal_err!("a conversion has one argument, not {}", children.len());
        };
        Ok(Arc::new(Self { source: Arc::clone(source), ..self.as_ref().clone() }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CONVERT(")?;
        self.source.fmt_sql(f)?;
        write!(f, ", {})", self.to.data_type())
    }
}

/// An [`UnfitValue`] whose file is not known yet.
#[derive(Debug, thiserror::Error)]
#[error("column \"{column}\": {unfit}")]
pub(crate) struct UnfitInColumn {
    pub(crate) column: String,
    /// The value. It is part of the text, so not a source.
    pub(crate) unfit: UnfitValue,
}
