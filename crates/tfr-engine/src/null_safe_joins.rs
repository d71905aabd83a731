//! Joins on `IS NOT DISTINCT FROM`, whose keys match NULL with NULL.
//!
//! The engine keeps one setting for all keys of a join: NULL matches NULL, or it does not. Two of its rules add keys that come
//! from `=` to a join whose keys come from `IS NOT DISTINCT FROM`, so `a.x IS NOT DISTINCT FROM b.x` in the `ON` and
//! `a.y = b.y` in the `WHERE` returned rows whose `y` is NULL. [`NullSafe`] keeps these rules from such joins: the equality
//! stays a condition beside the keys.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion_common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion_common::{JoinType, NullEquality};

/// The rules that add keys to joins.
const ADD_KEYS: [&str; 2] = ["eliminate_cross_join", "extract_equijoin_predicate"];

/// A rule that adds keys to joins, kept from those whose keys match NULL with NULL.
#[derive(Debug)]
struct NullSafe(Arc<dyn OptimizerRule + Send + Sync>);

/// Puts the corrected rules in the place of the engine's.
pub(crate) fn correct(rules: &mut [Arc<dyn OptimizerRule + Send + Sync>]) {
    for rule in rules.iter_mut().filter(|rule| ADD_KEYS.contains(&rule.name())) {
        *rule = Arc::new(NullSafe(Arc::clone(rule)));
    }
}

impl OptimizerRule for NullSafe {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let skip = match self.0.apply_order() {
            Some(_) => has_null_safe_keys(&plan),
            // The rule walks the plan itself, and merges inner joins.
            None => has_null_safe_inner_join(&plan)?,
        };
        if skip { Ok(Transformed::no(plan)) } else { self.0.rewrite(plan, config) }
    }
}

/// Whether `plan` is a join whose keys match NULL with NULL.
fn has_null_safe_keys(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Join(join) => join.null_equality == NullEquality::NullEqualsNull && !join.on.is_empty(),
        _ => false,
    }
}

/// Whether such a join is an inner one, anywhere in `plan`.
fn has_null_safe_inner_join(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|plan| {
        let inner = matches!(plan, LogicalPlan::Join(join) if join.join_type == JoinType::Inner);
        found |= inner && has_null_safe_keys(plan);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}
