//! Joins whose condition is false.
//!
//! The engine pushes such a condition into one side of an outer join, and there below an aggregation without GROUP BY, which
//! gives a row of no rows: `(SELECT 1, count(*) FROM t) RIGHT JOIN u ON false` had a 1 instead of a NULL. This rule leaves it an
//! empty side instead.

use std::sync::Arc;

use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion_common::tree_node::Transformed;
use datafusion_common::{JoinType, Result, ScalarValue};
use datafusion_expr::{EmptyRelation, Expr, Join, LogicalPlan};

/// Empties the sides of outer joins that have no match.
#[derive(Debug, Default)]
pub struct JoinsWithoutMatch;

impl OptimizerRule for JoinsWithoutMatch {
    fn name(&self) -> &str {
        "joins_without_match"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(join) = plan else { return Ok(Transformed::no(plan)) };
        let is_false =
            matches!(join.filter, Some(Expr::Literal(ScalarValue::Boolean(Some(false) | None) | ScalarValue::Null, _)));
        let emptied = match join.join_type {
            _ if !is_false => None,
            JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti => {
                Some(Join { right: empty(&join.right), filter: None, ..join.clone() })
            }
            JoinType::Right | JoinType::RightSemi | JoinType::RightAnti => {
                Some(Join { left: empty(&join.left), filter: None, ..join.clone() })
            }
            JoinType::Inner | JoinType::Full | JoinType::LeftMark | JoinType::RightMark => None,
        };
        Ok(match emptied {
            Some(join) => Transformed::yes(LogicalPlan::Join(join)),
            None => Transformed::no(LogicalPlan::Join(join)),
        })
    }
}

fn empty(plan: &LogicalPlan) -> Arc<LogicalPlan> {
    Arc::new(LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: false, schema: Arc::clone(plan.schema()) }))
}
