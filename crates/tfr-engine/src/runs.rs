//! Runs and list views in expressions.
//!
//! The engine ignores the nulls that `CASE` adds to runs (run-end encoded columns), and lacks comparisons and windows
//! of list views. Expressions over such columns get their plain values. Columns that a query only passes on keep their
//! layout.
//!
//! Upstream: unreported. Held by `tests/tests/it/array_forms.rs`.

use arrow_schema::DataType;
use datafusion::optimizer::AnalyzerRule;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode as _};
use datafusion_common::{DFSchema, Result};
use datafusion_expr::{Expr, ExprSchemable as _, LogicalPlan, cast};

use crate::expressions::rewrite_types;

/// Converts operands to plain values. Runs before type coercion.
#[derive(Debug)]
pub(crate) struct PlainOperands;

impl AnalyzerRule for PlainOperands {
    fn name(&self) -> &str {
        "plain_operands"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        rewrite_types(plan, plain_operands)
    }
}

fn plain_operands(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match &expr {
        Expr::Alias(_) | Expr::Cast(_) | Expr::GroupingSet(_) | Expr::TryCast(_) | Expr::Unnest(_) => {
            return Ok(Transformed::no(expr));
        }
        Expr::ScalarFunction(call) if call.func.name().starts_with("arrow_") => return Ok(Transformed::no(expr)),
        _ => {}
    }
    expr.map_children(|operand| {
        let plain = match operand.get_type(schema) {
            Ok(DataType::RunEndEncoded(_, values)) => values.data_type().clone(),
            Ok(DataType::ListView(item)) => DataType::List(item),
            Ok(DataType::LargeListView(item)) => DataType::LargeList(item),
            _ => return Ok(Transformed::no(operand)),
        };
        Ok(Transformed::yes(cast(operand, plain)))
    })
}
