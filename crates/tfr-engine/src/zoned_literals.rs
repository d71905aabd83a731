//! Timestamp literals with and without a time zone.
//!
//! To the engine, a literal with a time zone equals one for the same instant without a zone or in another zone.
//! Expressions that differ only in that were computed once, and one of them had the type of the other. Such a literal
//! is replaced by a function call, which equals nothing.
//!
//! Upstream: unreported. Held by `tests/slt/local_times.slt`: The same moment with and without a zone is two values, of two types.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion_common::Result;
use datafusion_common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::{Expr, LogicalPlan, ScalarUDF};

use crate::opaque::unordered_function;

/// Distinguishes expressions that differ only in the time zone of a literal.
#[derive(Debug)]
pub struct ZonedLiterals(Arc<ScalarUDF>);

impl Default for ZonedLiterals {
    fn default() -> Self {
        Self(unordered_function())
    }
}

impl OptimizerRule for ZonedLiterals {
    fn name(&self) -> &str {
        "zoned_literals"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        // The debug text of each expression, with its zones.
        let mut seen: HashMap<Expr, String> = HashMap::new();
        let mut ambiguous = false;
        plan.apply_expressions(|expr| {
            expr.apply(|expr| {
                if !matches!(expr, Expr::Literal(..) | Expr::Alias(_)) && expr.exists(|part| Ok(is_timestamp(part)))? {
                    let text = format!("{expr:?}");
                    ambiguous |= seen.insert(expr.clone(), text.clone()).is_some_and(|other| other != text);
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        if !ambiguous {
            return Ok(Transformed::no(plan));
        }
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let expr = expr.transform_down(|expr| match expr {
                Expr::ScalarFunction(call) if call.func == self.0 => {
                    Ok(Transformed::new(Expr::ScalarFunction(call), false, TreeNodeRecursion::Jump))
                }
                literal if is_zoned(&literal) => {
                    Ok(Transformed::new(self.0.call(vec![literal]), true, TreeNodeRecursion::Jump))
                }
                other => Ok(Transformed::no(other)),
            })?;
            Ok(expr.update_data(|expr| name.restore(expr)))
        })
    }
}

fn is_timestamp(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(value, _) if matches!(value.data_type(), DataType::Timestamp(..)))
}

fn is_zoned(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(value, _) if matches!(value.data_type(), DataType::Timestamp(_, Some(_))))
}
