//! Numbers of a recursive query, whose columns have the types of its first term.
//!
//! The engine casts the numbers of the recursive term to these types: `SELECT 1.0 AS x UNION ALL SELECT x * 1.5 ...`
//! rounded each `x` to one digit. Here a number that the type cannot represent is an error.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::compute::kernels::cmp::distinct;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, Field, FieldRef};
use datafusion_common::tree_node::Transformed;
use datafusion_common::utils::take_function_args;
use datafusion_common::{Result, ScalarValue, exec_err, internal_err};
use datafusion_expr::expr::{Alias, Cast, ScalarFunction};
use datafusion_expr::{
    ColumnarValue, Expr, ExprSchemable as _, LogicalPlan, Projection, RecursiveQuery, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// Checks the numbers of the recursive term that are cast to the types of the first term.
pub fn with_exact_terms(query: RecursiveQuery) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Projection(Projection { expr: exprs, input, .. }) = query.recursive_term.as_ref() else {
        return Ok(Transformed::no(LogicalPlan::RecursiveQuery(query)));
    };
    let mut changed = false;
    let mut checked = Vec::with_capacity(exprs.len());
    for expr in exprs {
        let (cast, alias) = match expr {
            Expr::Alias(Alias { expr, relation, name, .. }) => (expr.as_ref(), Some((relation.clone(), name.clone()))),
            expr => (expr, None),
        };
        let replaced = match cast {
            Expr::Cast(Cast { expr: value, field })
                if field.data_type().is_numeric()
                    && value.get_type(input.schema())?.is_numeric()
                    && value.get_type(input.schema())? != *field.data_type() =>
            {
                Some(ExactCast::call(value.as_ref().clone(), field.data_type()))
            }
            _ => None,
        };
        changed |= replaced.is_some();
        checked.push(match (replaced, alias) {
            (None, _) => expr.clone(),
            (Some(value), Some((relation, name))) => value.alias_qualified(relation, name),
            (Some(value), None) => value.alias(expr.schema_name().to_string()),
        });
    }
    if !changed {
        return Ok(Transformed::no(LogicalPlan::RecursiveQuery(query)));
    }
    let recursive_term = Arc::new(LogicalPlan::Projection(Projection::try_new(checked, Arc::clone(input))?));
    Ok(Transformed::yes(LogicalPlan::RecursiveQuery(RecursiveQuery { recursive_term, ..query })))
}

/// A cast of numbers to a type that may not represent them, which is then an error.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct ExactCast {
    signature: Signature,
}

impl ExactCast {
    pub fn function() -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::new_from_impl(Self { signature: Signature::any(2, Volatility::Immutable) }))
    }

    /// Calls the function. Its second argument is a NULL of the type.
    fn call(value: Expr, to: &DataType) -> Expr {
        let null = ScalarValue::try_from(to).unwrap_or(ScalarValue::Null);
        let args = vec![value, Expr::Literal(null, None)];
        Expr::ScalarFunction(ScalarFunction { func: Self::function(), args })
    }
}

impl ScalarUDFImpl for ExactCast {
    fn name(&self) -> &str {
        "exact_cast"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("{}: return_field_from_args is called instead", self.name())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let [_, null] = take_function_args(self.name(), args.arg_fields)?;
        Ok(Arc::new(Field::new(self.name(), null.data_type().clone(), true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value, _] = take_function_args(self.name(), args.args)?;
        let to = args.return_field.data_type();
        Ok(match value {
            ColumnarValue::Array(values) => ColumnarValue::Array(cast_exactly(&values, to)?),
            ColumnarValue::Scalar(value) => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&cast_exactly(&value.to_array()?, to)?, 0)?)
            }
        })
    }
}

fn cast_exactly(values: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let options = CastOptions { safe: true, ..Default::default() };
    let converted = cast_with_options(values, to, &options)?;
    let back = cast_with_options(&converted, values.data_type(), &options)?;
    let changed = distinct(&back, values)?;
    match changed.values().set_indices().next() {
        None => Ok(converted),
        Some(row) => {
            let format = FormatOptions::new();
            let value = ArrayFormatter::try_new(values, &format)?.value(row).to_string();
            exec_err!(
                "a recursive query: {value} does not fit {to}, the type of the column in the first term; CAST the \
                 column of the first term AS DOUBLE or to a type that holds all values"
            )
        }
    }
}
