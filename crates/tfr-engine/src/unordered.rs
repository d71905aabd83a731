//! The function that hides what the engine knows of the values of an expression.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Schema};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};

/// The values of an expression, without their order and without being constant.
pub fn unordered(
    function: &Arc<ScalarUDF>,
    expr: Arc<dyn PhysicalExpr>,
    schema: &Schema,
    config: &Arc<ConfigOptions>,
) -> Result<Arc<dyn PhysicalExpr>> {
    let call = |args| -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(ScalarFunctionExpr::try_new(Arc::clone(function), args, schema, Arc::clone(config))?))
    };
    call(vec![expr, call(Vec::new())?])
}

/// Gives its first argument. It is volatile, so nothing is derived from what is known of that. Without arguments it is NULL: the
/// engine takes any function of constants for a constant, and so the keys have an argument that is none.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Unordered(Signature);

impl Unordered {
    /// The function.
    pub fn function() -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::new_from_impl(Self::default()))
    }
}

impl Default for Unordered {
    fn default() -> Self {
        Self(Signature::one_of(vec![TypeSignature::Nullary, TypeSignature::VariadicAny], Volatility::Volatile))
    }
}

impl ScalarUDFImpl for Unordered {
    fn name(&self) -> &str {
        "unordered"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let nothing = || Arc::new(Field::new(self.name(), DataType::Null, true));
        Ok(args.arg_fields.first().map_or_else(nothing, Arc::clone))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args.into_iter().next().unwrap_or(ColumnarValue::Scalar(ScalarValue::Null)))
    }
}
