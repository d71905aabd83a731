//! Joins by `IS NOT DISTINCT FROM` next to joins by `=`.
//!
//! A join of the engine has one setting for all its keys: whether NULL equals NULL. Two of its rules overlook that.
//! One adds `=` keys to a join in which NULLs are equal, the other merges the keys of several joins under the setting
//! of one. Rows with NULL passed an `=`, or were missing. The rules run here without such joins.
//!
//! Upstream: unreported. Held by `tests/slt/answers.slt`: NULL is not distinct from NULL, but it is not equal to it, in one query.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use datafusion::optimizer::eliminate_cross_join::EliminateCrossJoin;
use datafusion::optimizer::extract_equijoin_predicate::ExtractEquijoinPredicate;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion_common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion_common::{DFSchemaRef, JoinType, NullEquality, Result};
use datafusion_expr::{Expr, Extension, Join, LogicalPlan, UserDefinedLogicalNodeCore};

/// Extracts join keys from join conditions, except for joins in which NULLs are equal.
#[derive(Debug, Default)]
pub struct KeysOfOneKind(ExtractEquijoinPredicate);

impl OptimizerRule for KeysOfOneKind {
    fn name(&self) -> &str {
        "keys_of_one_kind"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Join(join) if has_equal_nulls(&join) => Ok(Transformed::no(LogicalPlan::Join(join))),
            plan => self.0.rewrite(plan, config),
        }
    }
}

fn has_equal_nulls(join: &Join) -> bool {
    join.null_equality == NullEquality::NullEqualsNull && !join.on.is_empty()
}

/// Orders inner joins by their keys, except for those in which NULLs are equal.
#[derive(Debug, Default)]
pub struct CrossJoinsOfOneKind(EliminateCrossJoin);

impl OptimizerRule for CrossJoinsOfOneKind {
    fn name(&self) -> &str {
        "cross_joins_of_one_kind"
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let mut changed = false;
        let cut = plan.transform_down(|plan| match plan {
            LogicalPlan::Join(join) if join.join_type == JoinType::Inner && has_equal_nulls(&join) => {
                let join = LogicalPlan::Join(join).map_children(|child| self.rewrite(child, config))?;
                changed |= join.transformed;
                let node = Arc::new(CutPlan(join.data));
                let cut = LogicalPlan::Extension(Extension { node });
                Ok(Transformed::new(cut, true, TreeNodeRecursion::Jump))
            }
            other => Ok(Transformed::no(other)),
        })?;
        let rewritten = self.0.rewrite(cut.data, config)?;
        changed |= rewritten.transformed;
        if !cut.transformed {
            return Ok(Transformed::new_transformed(rewritten.data, changed));
        }
        let whole = rewritten.data.transform_up(|plan| match &plan {
            LogicalPlan::Extension(extension) => match extension.node.as_any().downcast_ref::<CutPlan>() {
                Some(CutPlan(inner)) => Ok(Transformed::yes(inner.clone())),
                None => Ok(Transformed::no(plan)),
            },
            _ => Ok(Transformed::no(plan)),
        })?;
        Ok(Transformed::new_transformed(whole.data, changed))
    }
}

/// Replaces a subplan while the rest is rewritten.
#[derive(Debug, PartialEq, Eq, Hash)]
struct CutPlan(LogicalPlan);

impl PartialOrd for CutPlan {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.0.partial_cmp(&other.0)
    }
}

impl UserDefinedLogicalNodeCore for CutPlan {
    fn name(&self) -> &str {
        "Cut"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        Vec::new()
    }

    fn schema(&self) -> &DFSchemaRef {
        self.0.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cut")
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, _: Vec<LogicalPlan>) -> Result<Self> {
        Ok(Self(self.0.clone()))
    }
}
