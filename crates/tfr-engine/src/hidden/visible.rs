//! [`Visible`]: the function that hides values under nulls.

use std::sync::{Arc, LazyLock};

use arrow_schema::{DataType, FieldRef};
use datafusion_common::{Result, ScalarValue, internal_err};
use datafusion_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use tfr_arrow::nested::value_type;
use tfr_arrow::visible::visible;

static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(Visible { signature }))
});

static DOCUMENTATION: LazyLock<Documentation> = LazyLock::new(|| {
    let description = "The same value. What a null struct, list or map stores underneath is made null, or removed. Calls of it \
                       are inserted by the planner.";
    Documentation::builder(Default::default(), description, "visible(expression)")
        .with_argument("expression", "Any value.")
        .build()
});

/// `visible(x)` returns `x`, stored without values under nulls.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Visible {
    signature: Signature,
}

impl Visible {
    pub(crate) fn function() -> Arc<ScalarUDF> {
        Arc::clone(&FUNCTION)
    }

    pub(crate) fn call(expr: Expr) -> Expr {
        FUNCTION.call(vec![expr])
    }
}

impl ScalarUDFImpl for Visible {
    fn name(&self) -> &str {
        "visible"
    }

    /// Returns the name of the argument, so that columns keep the names that the query gives them.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [expr] => Ok(expr.schema_name().to_string()),
            _ => internal_err!("visible takes one argument"),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("visible returns the field of its argument")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        match args.arg_fields {
            [field] => Ok(Arc::clone(field)),
            _ => internal_err!("visible takes one argument"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [ColumnarValue::Array(array)] => Ok(ColumnarValue::Array(visible(array)?)),
            [ColumnarValue::Scalar(value)] if value_type(&value.data_type()).is_nested() => {
                let array = visible(&value.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?))
            }
            [ColumnarValue::Scalar(value)] => Ok(ColumnarValue::Scalar(value.clone())),
            _ => internal_err!("visible takes one argument"),
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&DOCUMENTATION)
    }
}
