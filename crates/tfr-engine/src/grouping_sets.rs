//! GROUPING SETS, ROLLUP and CUBE over sorted rows.
//!
//! Each row counts in several groups, with NULL in place of some keys. The engine overlooks that this invalidates the
//! order of its input (apache/datafusion#16965): it ended groups too early, and returned some twice. This rule hides
//! the order of the keys.
//!
//! Upstream: apache/datafusion#16965, #24422. Held by `tests/slt/answers.slt`: Grouping sets over rows in an order

use std::sync::Arc;

use datafusion::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, PhysicalGroupBy};
use datafusion_common::Result;
use datafusion_common::tree_node::{Transformed, TreeNode as _};
use datafusion_expr::ScalarUDF;

use crate::opaque::{unordered, unordered_function};

/// Hides the order of the keys from aggregations with several grouping sets.
#[derive(Debug)]
pub struct UnorderedGroupingSets(Arc<ScalarUDF>);

impl Default for UnorderedGroupingSets {
    fn default() -> Self {
        Self(unordered_function())
    }
}

impl PhysicalOptimizerRule for UnorderedGroupingSets {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let config = Arc::new(config.clone());
        let plan = plan.transform_up(|plan| match plan.downcast_ref::<AggregateExec>() {
            Some(aggregate) if aggregate.group_expr().has_grouping_set() => {
                Ok(Transformed::yes(Arc::new(self.hide(aggregate, &config)?) as Arc<dyn ExecutionPlan>))
            }
            _ => Ok(Transformed::no(plan)),
        })?;
        Ok(plan.data)
    }

    fn name(&self) -> &str {
        "unordered_grouping_sets"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

impl UnorderedGroupingSets {
    fn hide(&self, aggregate: &AggregateExec, config: &Arc<ConfigOptions>) -> Result<AggregateExec> {
        let group = aggregate.group_expr();
        let schema = aggregate.input().schema();
        let keys = group
            .expr()
            .iter()
            .map(|(key, name)| Ok((unordered(&self.0, Arc::clone(key), &schema, config)?, name.clone())));
        let group = PhysicalGroupBy::new(
            keys.collect::<Result<_>>()?,
            group.null_expr().to_vec(),
            group.groups().to_vec(),
            group.has_grouping_set(),
        );
        AggregateExec::try_new(
            *aggregate.mode(),
            group,
            aggregate.aggr_expr().to_vec(),
            aggregate.filter_expr().to_vec(),
            Arc::clone(aggregate.input()),
            aggregate.input_schema(),
        )
    }
}
