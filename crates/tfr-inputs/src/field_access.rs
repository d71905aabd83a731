//! [`by_leaves`]: access to fields of structs that reads their leaves of a Parquet file alone.

use std::sync::Arc;

use arrow_schema::{DataType, Schema, SchemaRef};
use datafusion_common::Result;
use datafusion_common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion_expr::{ScalarUDF, ScalarUDFImpl};
use datafusion_functions::core::get_field;
use datafusion_functions::core::getfield::GetFieldFunc;
use datafusion_physical_expr::ScalarFunctionExpr;
use datafusion_physical_expr::expressions::{Column, Literal};
use datafusion_physical_expr_adapter::{
    DefaultPhysicalExprAdapterFactory, PhysicalExprAdapter, PhysicalExprAdapterFactory,
};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;

/// Adapts expressions to a file as `inner` does, or the engine's default. Calls of a `get_field` other than the engine's become the
/// engine's where both are the same in that file. The scan knows that one, and reads the leaf alone instead of the whole struct.
///
/// The engine's gives what is stored in a field, without a look at the nulls of the structs above. That is right where the field may
/// be null in the file: then Parquet's levels make it null where a struct above is.
pub(crate) fn by_leaves(inner: Option<Arc<dyn PhysicalExprAdapterFactory>>) -> Arc<dyn PhysicalExprAdapterFactory> {
    Arc::new(LeavesFactory(inner.unwrap_or_else(|| Arc::new(DefaultPhysicalExprAdapterFactory))))
}

#[derive(Debug)]
struct LeavesFactory(Arc<dyn PhysicalExprAdapterFactory>);

impl PhysicalExprAdapterFactory for LeavesFactory {
    fn create(
        &self,
        logical_file_schema: SchemaRef,
        physical_file_schema: SchemaRef,
    ) -> Result<Arc<dyn PhysicalExprAdapter>> {
        let inner = self.0.create(logical_file_schema, Arc::clone(&physical_file_schema))?;
        Ok(Arc::new(Leaves { file_schema: physical_file_schema, inner }))
    }
}

#[derive(Debug)]
struct Leaves {
    file_schema: SchemaRef,
    inner: Arc<dyn PhysicalExprAdapter>,
}

impl PhysicalExprAdapter for Leaves {
    fn rewrite(&self, expr: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let adapted = self.inner.rewrite(expr)?;
        let by_engine = adapted.transform(|expr| {
            Ok(match of_engine(expr.as_ref(), &self.file_schema) {
                Some(access) => Transformed::yes(Arc::new(access) as Arc<dyn PhysicalExpr>),
                None => Transformed::no(expr),
            })
        });
        by_engine.data()
    }
}

/// The call of the engine's `get_field` that does the same as `expr` in a file of this schema.
fn of_engine(expr: &dyn PhysicalExpr, schema: &Schema) -> Option<ScalarFunctionExpr> {
    let access = expr.downcast_ref::<ScalarFunctionExpr>()?;
    let function: &ScalarUDF = access.fun();
    if function.name() != GetFieldFunc::new().name() || function.inner().is::<GetFieldFunc>() {
        return None;
    }
    let (base, path) = access.args().split_first()?;
    let mut field = schema.field_with_name(base.downcast_ref::<Column>()?.name()).ok()?;
    for name in path {
        let name = name.downcast_ref::<Literal>()?.value().try_as_str().flatten()?;
        let DataType::Struct(fields) = field.data_type() else { return None };
        let is_nullable = field.is_nullable();
        field = fields.iter().find(|field| field.name() == name)?;
        if is_nullable && !field.is_nullable() {
            return None;
        }
    }
    let (args, config) = (access.args().to_vec(), Arc::new(access.config_options().clone()));
    let returned = access.return_field(schema).ok()?;
    Some(ScalarFunctionExpr::new(access.name(), get_field(), args, returned, config))
}
