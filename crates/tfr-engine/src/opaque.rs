//! Functions that return their argument, and hide properties of its values from the engine.
//!
//! Upstream: ours (shared by other modules). Held by `tests/slt/answers.slt`: A constant of one side of an outer join is NULL where there is no match.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Schema};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::interval_arithmetic::Interval;
use datafusion_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};

/// Returns the values of an expression, hiding their order and that they are constant.
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

/// Returns the function of [`unordered`]. It is volatile, so the engine derives nothing from the properties of its
/// first argument. The engine treats any function of constants as a constant. So the function has a second argument
/// that is not constant, a call without arguments, which returns NULL.
pub fn unordered_function() -> Arc<ScalarUDF> {
    let signature = Signature::one_of(vec![TypeSignature::Nullary, TypeSignature::VariadicAny], Volatility::Volatile);
    Arc::new(ScalarUDF::new_from_impl(Opaque { name: "unordered", signature }))
}

/// Returns a function whose result is not a key of its rows, even if its argument is.
pub fn no_key_function() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::new_from_impl(Opaque { name: "no_key", signature: Signature::any(1, Volatility::Immutable) }))
}

/// The name of the function that hides a cast.
pub const CAST: &str = "opaque_cast";

/// Returns a function that hides that its argument is a cast.
pub fn cast_function() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::new_from_impl(Opaque { name: CAST, signature: Signature::any(1, Volatility::Immutable) }))
}

/// Returns a function that marks its argument, a name of a column, and does nothing else.
pub fn mark_function(name: &'static str) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::new_from_impl(Opaque { name, signature: Signature::any(1, Volatility::Immutable) }))
}

/// Returns the bounds of a function whose results have the type of its first argument: that there are none. The engine's
/// default has no type, so that it finds no order for a comparison with a result.
pub fn unbounded(inputs: &[&Interval]) -> Result<Interval> {
    Interval::make_unbounded(&inputs.first().map_or(DataType::Null, |first| first.data_type()))
}

/// Returns its first argument, or NULL if there is none.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Opaque {
    name: &'static str,
    signature: Signature,
}

impl ScalarUDFImpl for Opaque {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let nothing = || Arc::new(Field::new(self.name, DataType::Null, true));
        Ok(args.arg_fields.first().map_or_else(nothing, Arc::clone))
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        unbounded(inputs)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args.into_iter().next().unwrap_or(ColumnarValue::Scalar(ScalarValue::Null)))
    }
}
