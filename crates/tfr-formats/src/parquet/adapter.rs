//! Adapts a scan's expressions to files whose values the library decodes as bytes.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Fields, Schema, SchemaRef};
use datafusion_common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion_common::{DataFusionError, Result, ScalarValue, internal_err};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::expressions::Column;
use datafusion_physical_expr_adapter::{PhysicalExprAdapter, PhysicalExprAdapterFactory};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;

use super::rebased::AsStored;
use super::values::{Failure, Mismatch, convert, convert_cut, converted_type};
use crate::mapped::MappedFactory;
use crate::names::ColumnNames;

/// Makes the scan convert columns where needed; `inner` sees them in their converted types.
#[derive(Debug)]
pub(super) struct ConvertingFactory {
    columns: ColumnNames,
    cuts: bool,
    inner: Arc<dyn PhysicalExprAdapterFactory>,
}

impl ConvertingFactory {
    /// Converts columns for `inner`; `columns` maps their names to the table's. With `cuts`, timestamps that are finer
    /// than their type are cut.
    pub(super) fn around(
        columns: &ColumnNames,
        cuts: bool,
        inner: Arc<dyn PhysicalExprAdapterFactory>,
    ) -> Arc<dyn PhysicalExprAdapterFactory> {
        match columns.mapped() {
            // Below it all names are those of the file.
            Some(mapped) => {
                let inner = Arc::new(Self { columns: ColumnNames::default(), cuts, inner });
                Arc::new(MappedFactory { columns: Arc::clone(mapped), inner })
            }
            None => Arc::new(Self { columns: columns.clone(), cuts, inner }),
        }
    }
}

impl PhysicalExprAdapterFactory for ConvertingFactory {
    fn create(
        &self,
        logical_file_schema: SchemaRef,
        physical_file_schema: SchemaRef,
    ) -> Result<Arc<dyn PhysicalExprAdapter>> {
        let mut converted = HashMap::new();
        let fields = physical_file_schema.fields().iter().enumerate().map(|(index, field)| {
            let table = logical_file_schema.field_with_name(&self.columns.in_table(field.name())).ok();
            match table.and_then(|table| converted_type(field.data_type(), table.data_type())) {
                Some(data_type) => {
                    converted.insert(index, data_type.clone());
                    Arc::new(field.as_ref().clone().with_data_type(data_type))
                }
                None => Arc::clone(field),
            }
        });
        let fields: Fields = fields.collect();
        if converted.is_empty() {
            return self.inner.create(logical_file_schema, physical_file_schema);
        }
        let schema = Schema::new_with_metadata(fields, physical_file_schema.metadata().clone());
        let inner = self.inner.create(logical_file_schema, Arc::new(schema))?;
        Ok(Arc::new(Converting { converted, cuts: self.cuts, inner }))
    }
}

/// Wraps columns of one file in conversions.
#[derive(Debug)]
struct Converting {
    /// The types of columns after conversion, by index.
    converted: HashMap<usize, DataType>,
    cuts: bool,
    /// Adapts expressions to a file whose columns have these types.
    inner: Arc<dyn PhysicalExprAdapter>,
}

impl PhysicalExprAdapter for Converting {
    fn rewrite(&self, expr: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let converted = self.inner.rewrite(expr)?.transform_down(|expr| {
            if expr.is::<AsStored>() {
                return Ok(Transformed::new(expr, false, TreeNodeRecursion::Jump));
            }
            let column = expr.downcast_ref::<Column>();
            let found = column.and_then(|column| Some((column.name(), self.converted.get(&column.index())?)));
            Ok(match found {
                Some((name, data_type)) => {
                    let (column, data_type, cuts) = (name.to_owned(), data_type.clone(), self.cuts);
                    let conversion: Arc<dyn PhysicalExpr> =
                        Arc::new(Conversion { input: expr, column, data_type, cuts });
                    Transformed::new(conversion, true, TreeNodeRecursion::Jump)
                }
                None => Transformed::no(expr),
            })
        });
        converted.data()
    }
}

/// A column converted from bytes to its values' type.
#[derive(Debug)]
struct Conversion {
    input: Arc<dyn PhysicalExpr>,
    column: String,
    data_type: DataType,
    /// Whether timestamps that are finer than the type are cut. Others count them.
    cuts: bool,
}

/// A value that is out of range for its column's type.
#[derive(Debug)]
pub(super) struct Unlocated {
    /// The column's name in the file.
    pub(super) column: String,
    /// The target type of the conversion.
    pub(super) data_type: DataType,
    pub(super) mismatch: Mismatch,
}

impl fmt::Display for Unlocated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column \"{}\": {}", self.column, self.mismatch)
    }
}

impl std::error::Error for Unlocated {}

impl PartialEq for Conversion {
    fn eq(&self, other: &Self) -> bool {
        self.input.eq(&other.input) && self.data_type == other.data_type && self.cuts == other.cuts
    }
}

impl Eq for Conversion {}

impl Hash for Conversion {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.input.hash(state);
        self.data_type.hash(state);
    }
}

impl fmt::Display for Conversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "decode({}, {})", self.input, self.data_type)
    }
}

impl PhysicalExpr for Conversion {
    fn data_type(&self, _input_schema: &Schema) -> Result<DataType> {
        Ok(self.data_type.clone())
    }

    fn nullable(&self, input_schema: &Schema) -> Result<bool> {
        self.input.nullable(input_schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let input = self.input.evaluate(batch)?;
        let is_scalar = matches!(input, ColumnarValue::Scalar(_));
        let rows = if is_scalar { 1 } else { batch.num_rows() };
        let array = input.into_array(rows)?;
        let converted = match self.cuts {
            true => convert_cut(&array, &self.data_type).map(|(array, _)| array),
            false => convert(&array, &self.data_type),
        };
        let converted = converted.map_err(|failure| match failure {
            Failure::Arrow(error) => error.into(),
            Failure::Mismatch(mismatch) => {
                let (column, data_type) = (self.column.clone(), self.data_type.clone());
                DataFusionError::External(Box::new(Unlocated { column, data_type, mismatch }))
            }
        })?;
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&converted, 0)?),
            false => ColumnarValue::Array(converted),
        })
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.input]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let [input] = children.as_slice() else { return internal_err!("a conversion has one input") };
        let (column, data_type) = (self.column.clone(), self.data_type.clone());
        Ok(Arc::new(Self { input: Arc::clone(input), column, data_type, cuts: self.cuts }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.input.fmt_sql(f)
    }
}
