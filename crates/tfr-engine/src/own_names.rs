//! Names of their own for expressions that the planner would confuse, because it finds them by their names: see
//! `clauses/casts.rs` and `clauses/unnest.rs`. They are passed to a function, whose calls are removed from the plan.
//!
//! Upstream: unreported. Held by `tests/slt/answers.slt`: What is beside unnest is not taken for a column of its name.

use std::sync::Arc;

use arrow_schema::{DataType, FieldRef};
use datafusion::config::ConfigOptions;
use datafusion::optimizer::AnalyzerRule;
use datafusion::sql::sqlparser::ast::{Expr as SqlExpr, Function, FunctionArg, FunctionArgExpr, FunctionArguments};
use datafusion_common::datatype::DataTypeExt as _;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::expr::{Cast, ScalarFunction, TryCast};
use datafusion_expr::{
    Aggregate, ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};

use crate::expressions::rewrite_expressions;

/// The name of the function.
pub const NAME: &str = "own_name";

/// Returns the function.
pub fn function() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::new_from_impl(FirstArgument(Signature::variadic_any(Volatility::Immutable))))
}

/// Returns its first argument. Its name contains the type of a cast, which the engine names by its operand.
#[derive(Debug, PartialEq, Eq, Hash)]
struct FirstArgument(Signature);

impl ScalarUDFImpl for FirstArgument {
    fn name(&self) -> &str {
        NAME
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let name = |expr: &Expr| expr.schema_name().to_string();
        let names = |args: &[Expr]| args.iter().map(name).collect::<Vec<_>>().join(",");
        Ok(match args {
            [Expr::Cast(Cast { expr, field })] => format!("CAST({} AS {})", name(expr), field.data_type()),
            [Expr::TryCast(TryCast { expr, field })] => format!("TRY_CAST({} AS {})", name(expr), field.data_type()),
            // A function whose name leaves an argument out.
            [Expr::ScalarFunction(ScalarFunction { func, args })] => format!("{}({})", func.name(), names(args)),
            _ => format!("{NAME}({})", names(args)),
        })
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(args.arg_fields.first().cloned().unwrap_or_else(|| DataType::Null.into_nullable_field_ref()))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args.into_iter().next().unwrap_or(ColumnarValue::Scalar(ScalarValue::Null)))
    }
}

/// Returns what a call of the function in a statement is of, if an expression is one.
pub fn own_name_argument(expr: &SqlExpr) -> Option<&SqlExpr> {
    let SqlExpr::Function(Function { name, args: FunctionArguments::List(list), .. }) = expr else { return None };
    match list.args.first()? {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) if name.to_string() == NAME => Some(expr),
        _ => None,
    }
}

/// Removes the calls of the function.
#[derive(Debug, Default)]
pub struct OwnNames;

impl AnalyzerRule for OwnNames {
    fn name(&self) -> &str {
        NAME
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(|plan| match plan {
            // The columns of grouping sets are named by their expressions.
            LogicalPlan::Aggregate(Aggregate { ref group_expr, .. })
                if group_expr.iter().any(|key| matches!(key, Expr::GroupingSet(_))) =>
            {
                Ok(Transformed::no(plan))
            }
            plan => rewrite_expressions(plan, |expr| Ok(without_call(expr))),
        })?;
        Ok(plan.data)
    }
}

fn without_call(expr: Expr) -> Transformed<Expr> {
    match expr {
        Expr::ScalarFunction(ScalarFunction { func, mut args }) if func.name() == NAME && !args.is_empty() => {
            Transformed::yes(args.swap_remove(0))
        }
        other => Transformed::no(other),
    }
}
