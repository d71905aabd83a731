//! Casts to text that never write an error as a value.
//!
//! The engine casts some values without a text representation to `<invalid>` or `ERROR: ...`, truncates decimals with
//! more digits than their type, and formats some times outside the day as other times. [`CheckTextCasts`] inserts a
//! check below each cast to text. It raises an error for CAST and for functions that return text, and returns null for
//! TRY_CAST.
//!
//! Upstream: unreported. Held by `text_casts/tests.rs`.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::compute::nullif;
use arrow_schema::{DataType, FieldRef};
use datafusion::optimizer::AnalyzerRule;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::Transformed;
use datafusion_common::utils::take_function_args;
use datafusion_common::{DFSchema, DataFusionError, Result, ScalarValue, internal_err};
use datafusion_expr::expr::{Cast, ScalarFunction, TryCast};
use datafusion_expr::interval_arithmetic::Interval;
use datafusion_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use tfr_arrow::nested::{item, value_type};
use tfr_arrow::text::{find_without_text, may_lack_text};

use crate::expressions::{columns_of, rewrite_expressions};
use crate::opaque;

/// Functions that format their first argument, whatever its type.
const TEXT_FUNCTIONS: [&str; 2] = ["to_char", "array_to_string"];

/// Checks the values of casts to text. Runs after type coercion, which adds such casts.
#[derive(Debug)]
pub(crate) struct CheckTextCasts {
    require: Arc<ScalarUDF>,
    null_out: Arc<ScalarUDF>,
}

impl Default for CheckTextCasts {
    fn default() -> Self {
        let function = |without_text| Arc::new(ScalarUDF::from(CheckText::new(without_text)));
        Self { require: function(WithoutText::Refused), null_out: function(WithoutText::Null) }
    }
}

/// Returns the functions that the rule inserts into plans, for sessions that deserialize plans.
pub(crate) fn functions() -> [Arc<ScalarUDF>; 2] {
    let CheckTextCasts { require, null_out } = CheckTextCasts::default();
    [require, null_out]
}

impl CheckTextCasts {
    fn rewrite_plan(&self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let columns = columns_of(&plan)?;
        rewrite_expressions(plan, |expr| self.rewrite_expr(expr, &columns))?.map_data(LogicalPlan::recompute_schema)
    }

    fn rewrite_expr(&self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        Ok(match expr {
            Expr::Cast(Cast { expr, field }) if self.makes_text(&expr, field.data_type(), schema) => {
                Transformed::yes(Expr::Cast(Cast { expr: Box::new(self.checked(&self.require, *expr)), field }))
            }
            Expr::TryCast(TryCast { expr, field }) if self.makes_text(&expr, field.data_type(), schema) => {
                Transformed::yes(Expr::TryCast(TryCast { expr: Box::new(self.checked(&self.null_out, *expr)), field }))
            }
            Expr::ScalarFunction(mut call) => {
                let check = match call.func.name() {
                    name if TEXT_FUNCTIONS.contains(&name) => Some((&self.require, DataType::Utf8)),
                    // The optimizer replaces these by casts later.
                    "arrow_cast" => target(&call, schema).map(|target| (&self.require, target)),
                    "arrow_try_cast" => target(&call, schema).map(|target| (&self.null_out, target)),
                    _ => None,
                };
                match (check, call.args.first_mut()) {
                    (Some((check, target)), Some(argument)) if self.makes_text(argument, &target, schema) => {
                        *argument = self.checked(check, std::mem::take(argument));
                        Transformed::yes(Expr::ScalarFunction(call))
                    }
                    _ => Transformed::no(Expr::ScalarFunction(call)),
                }
            }
            other => Transformed::no(other),
        })
    }

    /// Whether a cast converts values to text that may have no representation and are not checked yet.
    fn makes_text(&self, expr: &Expr, target: &DataType, schema: &DFSchema) -> bool {
        let is_checked = |call: &ScalarFunction| [&self.require, &self.null_out].contains(&&call.func);
        !matches!(expr, Expr::ScalarFunction(call) if is_checked(call))
            && expr.get_type(schema).is_ok_and(|source| makes_text(&source, target))
    }

    fn checked(&self, check: &Arc<ScalarUDF>, expr: Expr) -> Expr {
        Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(check), vec![expr]))
    }
}

impl AnalyzerRule for CheckTextCasts {
    fn name(&self) -> &str {
        "check_text_casts"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|plan| self.rewrite_plan(plan)).map(|plan| plan.data)
    }
}

/// Returns the type of a call of `arrow_cast`.
fn target(call: &ScalarFunction, schema: &DFSchema) -> Option<DataType> {
    Expr::ScalarFunction(call.clone()).get_type(schema).ok()
}

/// Whether a cast between two types converts values to text that may have no representation.
fn makes_text(source: &DataType, target: &DataType) -> bool {
    match (value_type(source), value_type(target)) {
        (source, target) if target.is_string() => may_lack_text(source),
        (DataType::Struct(from), DataType::Struct(to)) => from.iter().zip(to).any(|(by_place, field)| {
            // Fields are matched by name, otherwise by position.
            let source = from.find(field.name()).map_or(by_place, |(_, source)| source);
            makes_text(source.data_type(), field.data_type())
        }),
        (DataType::Map(source, _), DataType::Map(target, _)) => makes_text(source.data_type(), target.data_type()),
        (source, target) => item(target).is_some_and(|target| {
            makes_text(item(source).map_or(source, |source| source.data_type()), target.data_type())
        }),
    }
}

/// What to return for values without a text representation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum WithoutText {
    Refused,
    Null,
}

/// Returns its argument if all values have a text representation.
#[derive(Debug, PartialEq, Eq, Hash)]
struct CheckText {
    without_text: WithoutText,
    signature: Signature,
}

impl CheckText {
    fn new(without_text: WithoutText) -> Self {
        Self { without_text, signature: Signature::any(1, Volatility::Immutable) }
    }

    fn check(&self, array: &ArrayRef, column: &str) -> Result<ArrayRef> {
        let Some(found) = find_without_text(array) else { return Ok(Arc::clone(array)) };
        match self.without_text {
            WithoutText::Refused => Err(DataFusionError::External(Box::new(found.in_column(column, 0)))),
            WithoutText::Null => {
                let lacks_text = |row| Some(find_without_text(&array.slice(row, 1)).is_some());
                let is_null: BooleanArray = (0..array.len()).map(lacks_text).collect();
                Ok(nullif(array, &is_null)?)
            }
        }
    }
}

impl ScalarUDFImpl for CheckText {
    fn name(&self) -> &str {
        match self.without_text {
            WithoutText::Refused => "require_text",
            WithoutText::Null => "null_without_text",
        }
    }

    /// Returns the name of the argument, so that columns keep their names.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let [argument] = take_function_args(self.name(), args)?;
        Ok(argument.schema_name().to_string())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("{}: return_field_from_args is called instead", self.name())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let [field] = take_function_args(self.name(), args.arg_fields)?;
        Ok(match self.without_text {
            WithoutText::Refused => Arc::clone(field),
            WithoutText::Null => Arc::new(field.as_ref().clone().with_nullable(true)),
        })
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        opaque::unbounded(inputs)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let column = args.arg_fields.first().map_or("", |field| field.name());
        let [value] = take_function_args(self.name(), args.args)?;
        Ok(match value {
            ColumnarValue::Array(array) => ColumnarValue::Array(
                self.check(&array, column)
                    .map_err(|error| error.context("a cast to text, which counts the rows of its batch"))?,
            ),
            ColumnarValue::Scalar(scalar) => {
                let array = self.check(&scalar.to_array()?, column)?;
                ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?)
            }
        })
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        // Additional nulls may change the order.
        Ok(match (self.without_text, inputs) {
            (WithoutText::Refused, [input]) => input.sort_properties,
            _ => SortProperties::Unordered,
        })
    }
}

#[cfg(test)]
mod tests;
