//! GROUPING SETS, ROLLUP and CUBE over rows that come in an order.
//!
//! Each row counts in several groups, with NULL in the place of some keys. The engine forgets that this ends the order of its
//! input (apache/datafusion#16965): it ended groups too early, and gave some twice. The keys are hidden from what is known of
//! the input.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, PhysicalGroupBy};
use datafusion_common::tree_node::{Transformed, TreeNode as _};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};

/// Hides the order of the keys from aggregations with several grouping sets.
#[derive(Debug)]
pub struct UnorderedGroupingSets(Arc<ScalarUDF>);

impl Default for UnorderedGroupingSets {
    fn default() -> Self {
        Self(Arc::new(ScalarUDF::new_from_impl(Unordered::default())))
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
        let call = |args| -> Result<Arc<dyn PhysicalExpr>> {
            Ok(Arc::new(ScalarFunctionExpr::try_new(Arc::clone(&self.0), args, &schema, Arc::clone(config))?))
        };
        let not_constant = call(Vec::new())?;
        let keys = group
            .expr()
            .iter()
            .map(|(key, name)| Ok((call(vec![Arc::clone(key), Arc::clone(&not_constant)])?, name.clone())));
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

/// Gives its first argument. It is volatile, so nothing is derived from what is known of that. Without arguments it is NULL: the
/// engine takes any function of constants for a constant, and so the keys have an argument that is none.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Unordered(Signature);

impl Default for Unordered {
    fn default() -> Self {
        Self(Signature::one_of(vec![TypeSignature::Nullary, TypeSignature::VariadicAny], Volatility::Volatile))
    }
}

impl ScalarUDFImpl for Unordered {
    fn name(&self) -> &str {
        "unordered"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let nothing = || Arc::new(Field::new(self.name(), DataType::Null, true));
        Ok(args.arg_fields.first().map_or_else(nothing, Arc::clone))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args.into_iter().next().unwrap_or(ColumnarValue::Scalar(ScalarValue::Null)))
    }
}
