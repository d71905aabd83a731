//! Accesses fields of structs by reading only their leaves of a Parquet file.
//!
//! The scan recognizes the engine's `get_field` and reads only the leaf for it. That function returns the stored value
//! of the field and ignores nulls of the enclosing structs. This is correct if the field is nullable in the file:
//! Parquet's levels then make it null wherever an enclosing struct is. So calls of a corrected `get_field` become calls
//! of the engine's where the table's schema allows it ([`by_leaves`]). They are changed back for a file whose schema
//! does not ([`adapter`]).

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion_common::Result;
use datafusion_common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion_expr::{ScalarUDF, ScalarUDFImpl};
use datafusion_functions::core::get_field;
use datafusion_functions::core::getfield::GetFieldFunc;
use datafusion_physical_expr::ScalarFunctionExpr;
use datafusion_physical_expr::expressions::{Column, Literal};
use datafusion_physical_expr::projection::ProjectionExprs;
use datafusion_physical_expr_adapter::{PhysicalExprAdapter, PhysicalExprAdapterFactory};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;

/// Returns the session's `get_field` if it is not the engine's.
pub(crate) fn corrected(functions: &HashMap<String, Arc<ScalarUDF>>) -> Option<&Arc<ScalarUDF>> {
    functions.get(GetFieldFunc::new().name()).filter(|function| !function.inner().is::<GetFieldFunc>())
}

/// Rewrites an expression over a scan's output to the engine's `get_field` where the table's schema allows it.
pub(crate) fn by_leaves(
    expr: Arc<dyn PhysicalExpr>,
    projected: &ProjectionExprs,
    schema: &Schema,
) -> Result<Transformed<Arc<dyn PhysicalExpr>>> {
    // A column of the scan's output, if it is a column of the table.
    let column = |column: &Column| {
        let projected = projected.iter().nth(column.index())?;
        schema.fields().get(projected.expr.downcast_ref::<Column>()?.index()).map(AsRef::as_ref)
    };
    expr.transform(|expr| {
        Ok(match access(&expr) {
            Some(call) if !call.fun().inner().is::<GetFieldFunc>() && reads_nulls(call, column) => {
                Transformed::yes(with_function(call, get_field())?)
            }
            _ => Transformed::no(expr),
        })
    })
}

/// Adapts expressions to a file as `inner` does. Calls of the engine's `get_field` become calls of `corrected` where a
/// nullable struct contains a required field.
pub(crate) fn adapter(
    inner: Arc<dyn PhysicalExprAdapterFactory>,
    corrected: Arc<ScalarUDF>,
) -> Arc<dyn PhysicalExprAdapterFactory> {
    Arc::new(AdapterFactory { inner, corrected })
}

#[derive(Debug)]
struct AdapterFactory {
    inner: Arc<dyn PhysicalExprAdapterFactory>,
    corrected: Arc<ScalarUDF>,
}

impl PhysicalExprAdapterFactory for AdapterFactory {
    fn create(
        &self,
        logical_file_schema: SchemaRef,
        physical_file_schema: SchemaRef,
    ) -> Result<Arc<dyn PhysicalExprAdapter>> {
        let inner = self.inner.create(logical_file_schema, Arc::clone(&physical_file_schema))?;
        Ok(Arc::new(Adapter { file_schema: physical_file_schema, inner, corrected: Arc::clone(&self.corrected) }))
    }
}

#[derive(Debug)]
struct Adapter {
    file_schema: SchemaRef,
    inner: Arc<dyn PhysicalExprAdapter>,
    corrected: Arc<ScalarUDF>,
}

impl PhysicalExprAdapter for Adapter {
    fn rewrite(&self, expr: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let column = |column: &Column| self.file_schema.field_with_name(column.name()).ok();
        let adapted = self.inner.rewrite(expr)?.transform(|expr| {
            Ok(match access(&expr) {
                Some(call) if call.fun().inner().is::<GetFieldFunc>() && !reads_nulls(call, column) => {
                    Transformed::yes(with_function(call, Arc::clone(&self.corrected))?)
                }
                _ => Transformed::no(expr),
            })
        });
        adapted.data()
    }
}

/// Returns the expression as a call of some `get_field`.
fn access(expr: &Arc<dyn PhysicalExpr>) -> Option<&ScalarFunctionExpr> {
    let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
    (call.fun().name() == GetFieldFunc::new().name()).then_some(call)
}

/// Whether the call reads a column of a file through fields that are nullable wherever the enclosing struct is.
fn reads_nulls<'a>(call: &ScalarFunctionExpr, column: impl Fn(&Column) -> Option<&'a Field>) -> bool {
    let reads_nulls = || {
        let (base, path) = call.args().split_first()?;
        let mut field = column(base.downcast_ref::<Column>()?)?;
        for name in path {
            let name = name.downcast_ref::<Literal>()?.value().try_as_str().flatten()?;
            let DataType::Struct(fields) = field.data_type() else { return None };
            let is_nullable = field.is_nullable();
            field = fields.iter().find(|field| field.name() == name)?;
            if is_nullable && !field.is_nullable() {
                return None;
            }
        }
        Some(())
    };
    reads_nulls().is_some()
}

/// Returns the same call with another `get_field`.
fn with_function(call: &ScalarFunctionExpr, function: Arc<ScalarUDF>) -> Result<Arc<dyn PhysicalExpr>> {
    let returned = call.return_field(&Schema::empty())?;
    let config = Arc::new(call.config_options().clone());
    Ok(Arc::new(ScalarFunctionExpr::new(call.name(), function, call.args().to_vec(), returned, config)))
}
