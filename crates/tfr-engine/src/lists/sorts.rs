//! [`WholeSorts`]: the first rows by a list or a struct, found by a sort of all rows.
//!
//! The engine keeps the first rows in a heap, and skips the rows that are not less than the last of them. It compares lists
//! differently for that: `ORDER BY list LIMIT 1` of `[NULL]` and `[1]` was `[NULL]`.

use std::sync::Arc;

use datafusion::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion_common::Result;
use datafusion_common::tree_node::{Transformed, TreeNode as _};

/// Sorts all rows where a key is a list or a struct, and limits them afterwards.
#[derive(Debug)]
pub(crate) struct WholeSorts;

impl PhysicalOptimizerRule for WholeSorts {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = plan.transform_up(|plan| {
            let Some((sort, fetch)) = plan.downcast_ref::<SortExec>().and_then(|sort| Some((sort, sort.fetch()?)))
            else {
                return Ok(Transformed::no(plan));
            };
            let schema = sort.input().schema();
            let is_nested = sort.expr().iter().any(|key| key.expr.data_type(&schema).is_ok_and(|key| key.is_nested()));
            if !is_nested {
                return Ok(Transformed::no(plan));
            }
            let whole: Arc<dyn ExecutionPlan> = Arc::new(sort.with_fetch(None));
            Ok(Transformed::yes(Arc::new(LocalLimitExec::new(whole, fetch)) as Arc<dyn ExecutionPlan>))
        })?;
        Ok(plan.data)
    }

    fn name(&self) -> &str {
        "whole_sorts"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
