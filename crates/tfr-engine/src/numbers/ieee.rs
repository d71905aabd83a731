//! `sqrt` and `power`, which return what IEEE 754 says, as all other functions of doubles do. The engine's raise errors:
//! its `sqrt(-1)` and `power(0, -1)` failed, while its `ln(-1)` is NaN and its `ln(0)` an infinity.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::kernels::arity::binary;
use arrow::datatypes::{Float32Type, Float64Type};
use arrow_schema::DataType;
use datafusion::functions::math::{power, sqrt};
use datafusion_common::utils::take_function_args;
use datafusion_common::{Result, ScalarValue, exec_err};
use datafusion_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};

/// Returns the functions to register in place of the engine's.
pub fn functions() -> [Arc<ScalarUDF>; 2] {
    [(sqrt(), Operation::Root), (power(), Operation::Power)]
        .map(|(inner, operation)| Arc::new(ScalarUDF::new_from_impl(IeeeFunction { inner, operation })))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Operation {
    Root,
    Power,
}

/// A function of the engine, without errors.
#[derive(Debug, PartialEq, Eq, Hash)]
struct IeeeFunction {
    inner: Arc<ScalarUDF>,
    operation: Operation,
}

impl ScalarUDFImpl for IeeeFunction {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let arrays = args.args.into_iter().map(|argument| argument.into_array(rows)).collect::<Result<Vec<_>>>()?;
        let result: ArrayRef = match self.operation {
            Operation::Root => {
                let [values] = take_function_args(self.name(), arrays)?;
                roots(&values)?
            }
            Operation::Power => {
                let [base, exponent] = take_function_args(self.name(), arrays)?;
                let (base, exponent) = (base.as_primitive::<Float64Type>(), exponent.as_primitive::<Float64Type>());
                Arc::new(binary::<_, _, _, Float64Type>(base, exponent, f64::powf)?)
            }
        };
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
            false => ColumnarValue::Array(result),
        })
    }
}

fn roots(values: &ArrayRef) -> Result<ArrayRef> {
    Ok(match values.data_type() {
        DataType::Float64 => Arc::new(values.as_primitive::<Float64Type>().unary::<_, Float64Type>(f64::sqrt)),
        DataType::Float32 => Arc::new(values.as_primitive::<Float32Type>().unary::<_, Float32Type>(f32::sqrt)),
        other => return exec_err!("sqrt of {other}"),
    })
}
