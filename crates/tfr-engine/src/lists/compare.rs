//! [`OrderedLists`]: comparisons of lists and structs, where a NULL inside is greater than all others and equal to
//! NULL.
//!
//! The engine takes NULL for the least: `[1, NULL] > [1, 2]` was false.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, Int8Array};
use arrow_schema::DataType;
use datafusion::optimizer::AnalyzerRule;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{DFSchema, Result, exec_err, plan_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{
    Between, BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, lit,
};

use super::rows::comparator;
use crate::comparable::values::leaves_may_be_misread;
use crate::corrected::on_arrays;
use crate::expressions::{columns_of, rewrite_expressions};

static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::any(2, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(OrderOfLists { signature }))
});

pub(super) fn order_function() -> Arc<ScalarUDF> {
    Arc::clone(&FUNCTION)
}

/// Compares the order of lists by [`OrderOfLists`]. Requires coerced types.
#[derive(Debug, Default)]
pub(crate) struct OrderedLists;

impl AnalyzerRule for OrderedLists {
    fn name(&self) -> &str {
        "ordered_lists"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(|plan| {
            let columns = columns_of(&plan)?;
            rewrite_expressions(plan, |expr| rewrite(expr, &columns))
        })?;
        Ok(plan.data)
    }
}

fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::ScalarFunction(call)
            if matches!(call.func.name(), "greatest" | "least")
                && call.args.iter().any(|arg| is_compared(arg, Operator::Lt, schema)) =>
        {
            return plan_err!(
                "{} of lists and structs is not supported: write CASE WHEN a > b THEN a ELSE b END",
                call.func.name()
            );
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if is_compared(&left, op, schema) && is_compared(&right, op, schema) =>
        {
            Transformed::yes(compared(*left, op, *right))
        }
        Expr::Between(Between { expr, negated, low, high }) if is_compared(&expr, Operator::Lt, schema) => {
            let is_between =
                compared((*expr).clone(), Operator::GtEq, *low).and(compared(*expr, Operator::LtEq, *high));
            Transformed::yes(if negated { Expr::Not(Box::new(is_between)) } else { is_between })
        }
        other => Transformed::no(other),
    })
}

fn compared(left: Expr, op: Operator, right: Expr) -> Expr {
    let order = Expr::ScalarFunction(ScalarFunction { func: order_function(), args: vec![left, right] });
    Expr::BinaryExpr(BinaryExpr { left: Box::new(order), op, right: Box::new(lit(0_i8)) })
}

/// Whether the engine compares lists or structs differently. For equality, only those of floating-point
/// numbers and intervals.
fn is_compared(expr: &Expr, op: Operator, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|data_type| match op {
        Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => {
            data_type.is_list() || matches!(data_type, DataType::Struct(_))
        }
        Operator::Eq | Operator::NotEq => data_type.is_list() && leaves_may_be_misread(&data_type),
        _ => false,
    })
}

/// -1, 0 or 1 for a list that is less than, equal to or greater than another. NULL if one of them is.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OrderOfLists {
    signature: Signature,
}

impl ScalarUDFImpl for OrderOfLists {
    fn name(&self) -> &str {
        "order_of_lists"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int8)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        on_arrays(&args.args, |arrays| {
            let [left, right] = arrays else { return exec_err!("{} takes two lists", self.name()) };
            let compare = comparator(left, right)?;
            let order = |row| (left.is_valid(row) && right.is_valid(row)).then(|| compare(row, row) as i8);
            Ok(Arc::new((0..left.len()).map(order).collect::<Int8Array>()))
        })
    }
}
