//! Computes group keys below their aggregation.
//!
//! An aggregation with GROUPING SETS has its keys in one expression. Rules that rewrite a key add an alias, so that
//! its column keeps its name. For a key in a grouping set, the alias enclosed all the sets, or was lost.
//!
//! Upstream: unreported. Held by `tests/slt/equal_values.slt`: Grouping sets of expressions, which are shown again.

use std::sync::Arc;

use datafusion::config::ConfigOptions;
use datafusion::optimizer::AnalyzerRule;
use datafusion_common::tree_node::{Transformed, TreeNode as _};
use datafusion_common::{Column, Result};
use datafusion_expr::expr::GroupingSet;
use datafusion_expr::utils::grouping_set_to_exprlist;
use datafusion_expr::{Aggregate, Expr, LogicalPlan, LogicalPlanBuilder};

/// Computes the keys of grouping sets that are not columns below the aggregation. Runs before all rules that rewrite
/// keys.
#[derive(Debug, Default)]
pub struct ComputedKeys;

impl AnalyzerRule for ComputedKeys {
    fn name(&self) -> &str {
        "computed_keys"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Aggregate(aggregate) if matches!(aggregate.group_expr.as_slice(), [Expr::GroupingSet(_)]) => {
                let keys = grouping_set_to_exprlist(&aggregate.group_expr)?;
                let computed = |key: &&Expr| !matches!(key, Expr::Column(_));
                let keys: Vec<_> = keys.into_iter().filter(computed).map(ComputedKey::of).collect();
                with_computed_keys(aggregate, keys)
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(plan.data)
    }
}

/// A key of an aggregation.
#[derive(Debug)]
pub struct ComputedKey {
    /// The current key expression.
    pub key: Expr,
    /// The values to group by.
    pub value: Expr,
    /// An aggregate whose value replaces the key in the output.
    pub shown: Option<Expr>,
}

impl ComputedKey {
    fn of(key: &Expr) -> Self {
        Self { key: key.clone(), value: key.clone().unalias(), shown: None }
    }
}

/// Computes some keys of an aggregation below it, and restores the column names above it.
pub fn with_computed_keys(aggregate: Aggregate, keys: Vec<ComputedKey>) -> Result<Transformed<LogicalPlan>> {
    if keys.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let Aggregate { input, group_expr, mut aggr_expr, schema, .. } = aggregate;
    let all_keys: Vec<Expr> = grouping_set_to_exprlist(&group_expr)?.into_iter().cloned().collect();
    let position = |expr: &Expr| keys.iter().position(|key| key.key == *expr);
    // No column below has such a name: it would have a lower number.
    let first = input.schema().fields().len();
    let key_column = |number: usize| Column::from_name(format!("__key_{}", first + number));
    let shown_column = |number: usize| Column::from_name(format!("__shown_{}", first + number));
    let replaced = |expr: Expr| position(&expr).map_or(expr, |number| Expr::Column(key_column(number)));

    let columns = input.schema().columns().into_iter().map(Expr::Column);
    let values = keys.iter().enumerate().map(|(number, key)| key.value.clone().alias(key_column(number).name));
    let projected = LogicalPlanBuilder::from(input).project(columns.chain(values).collect::<Vec<_>>())?.build()?;

    let group_expr = match group_expr.as_slice() {
        [Expr::GroupingSet(set)] => vec![Expr::GroupingSet(map_keys(set, replaced))],
        _ => all_keys.iter().cloned().map(replaced).collect(),
    };
    // GROUPING refers to the keys. The engine replaces it later, and then drops the column with the numbers of the
    // grouping sets.
    let mut has_grouping = false;
    let mut named = |expr: Expr| {
        expr.transform_down(|expr| match expr {
            Expr::AggregateFunction(mut call) if call.func.name() == "grouping" => {
                has_grouping = true;
                call.params.args = call.params.args.into_iter().map(replaced).collect();
                Ok(Transformed::yes(Expr::AggregateFunction(call)))
            }
            other => Ok(Transformed::no(other)),
        })
    };
    let aggregates = aggr_expr.len();
    aggr_expr = aggr_expr.into_iter().map(|expr| Ok(named(expr)?.data)).collect::<Result<_>>()?;
    let shown = keys
        .iter()
        .enumerate()
        .filter_map(|(number, key)| key.shown.as_ref().map(|shown| shown.clone().alias(shown_column(number).name)));
    aggr_expr.extend(shown);
    let grouped = Aggregate::try_new(Arc::new(projected), group_expr, aggr_expr)?;

    let inner = grouped.schema.columns();
    let mut names = Vec::with_capacity(inner.len());
    for (index, ((relation, field), column)) in schema.iter().zip(inner).enumerate() {
        let name = |expr: Expr| expr.alias_qualified(relation.cloned(), field.name());
        if index >= all_keys.len() {
            // The aggregates come last.
            let is_number = index < schema.fields().len() - aggregates;
            match (is_number, column.name == *field.name()) {
                (true, _) if has_grouping => {}
                (_, true) if column.relation.as_ref() == relation => names.push(Expr::Column(column)),
                _ => names.push(name(Expr::Column(column))),
            }
            continue;
        }
        names.push(match all_keys.get(index).and_then(position) {
            None => Expr::Column(column),
            Some(number) if keys.get(number).is_some_and(|key| key.shown.is_some()) => {
                let shown = Expr::Column(shown_column(number));
                name(datafusion_expr::when(Expr::Column(column).is_not_null(), shown).end()?)
            }
            Some(_) => name(Expr::Column(column)),
        });
    }
    let plan = LogicalPlanBuilder::from(LogicalPlan::Aggregate(grouped)).project(names)?.build()?;
    Ok(Transformed::yes(plan))
}

fn map_keys(set: &GroupingSet, replaced: impl Fn(Expr) -> Expr) -> GroupingSet {
    let all = |keys: &Vec<Expr>| keys.iter().cloned().map(&replaced).collect::<Vec<_>>();
    match set {
        GroupingSet::Rollup(keys) => GroupingSet::Rollup(all(keys)),
        GroupingSet::Cube(keys) => GroupingSet::Cube(all(keys)),
        GroupingSet::GroupingSets(sets) => GroupingSet::GroupingSets(sets.iter().map(all).collect()),
    }
}
