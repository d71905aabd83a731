//! LATERAL subqueries that unnest lists of the row before them, evaluated in that row: `FROM t, UNNEST(t.l) AS u(x)`.
//!
//! [`Domain`](super::domain::Domain) would evaluate them for the distinct lists, and join by the lists.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion_common::tree_node::{Transformed, TransformedResult as _, TreeNode as _, TreeNodeRecursion};
use datafusion_common::{Column, NullHandling, RecursionUnnestOption, UnnestOptions};
use datafusion_expr::{EmptyRelation, Join, Projection, SubqueryAlias, Unnest};

use super::FreshNames;
use super::plans::with_names_of;
use crate::no_keys;

/// Evaluates the LATERAL subquery of `join` in the rows of the left side. Returns `None` if it does not unnest them, or
/// does more than that.
pub fn rewrite(join: &Join, subquery: &LogicalPlan, names: &mut FreshNames) -> Result<Option<LogicalPlan>> {
    let mut unnests = 0;
    subquery.apply(|plan| {
        unnests += usize::from(matches!(plan, LogicalPlan::Unnest(_)));
        Ok(TreeNodeRecursion::Continue)
    })?;
    let keeps_rows = match join.join_type {
        JoinType::Inner => false,
        JoinType::Left if join.filter.as_ref().is_none_or(|filter| *filter == lit(true)) => true,
        _ => return Ok(None),
    };
    // Several unnests below each other would keep items without items.
    if unnests == 0 || !join.on.is_empty() || (keeps_rows && unnests > 1) {
        return Ok(None);
    }
    let rows = Rows { left: &join.left, keeps_rows, names };
    let Some((plan, values)) = rows.evaluate(subquery)? else { return Ok(None) };
    // A row that is kept has NULL in all columns.
    if keeps_rows && !values.iter().all(|value| value.is_item) {
        return Ok(None);
    }
    let left = join.left.schema().columns();
    let columns = left.into_iter().chain(values.into_iter().map(|value| value.column));
    let positions = columns.map(|column| plan.schema().index_of_column(&column)).collect::<Result<Vec<_>>>()?;
    let plan = with_names_of(plan, &join.schema, &positions)?;
    match &join.filter {
        Some(filter) if !keeps_rows => Ok(Some(LogicalPlanBuilder::from(plan).filter(filter.clone())?.build()?)),
        _ => Ok(Some(plan)),
    }
}

/// The rows of the left side, which gain the columns of the subquery.
struct Rows<'a> {
    left: &'a Arc<LogicalPlan>,
    keeps_rows: bool,
    names: &'a mut FreshNames,
}

/// A column of the subquery, under a unique name.
struct ValueColumn {
    column: Column,
    /// Whether it is an item of a list, so that it is NULL in rows without items.
    is_item: bool,
}

impl Rows<'_> {
    fn evaluate(mut self, plan: &LogicalPlan) -> Result<Option<(LogicalPlan, Vec<ValueColumn>)>> {
        self.plan(plan)
    }

    /// Returns the rows with the columns of `plan`, in its order.
    fn plan(&mut self, plan: &LogicalPlan) -> Result<Option<(LogicalPlan, Vec<ValueColumn>)>> {
        match plan {
            LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: true, .. }) => {
                Ok(Some((self.left.as_ref().clone(), Vec::new())))
            }
            LogicalPlan::SubqueryAlias(SubqueryAlias { input, .. }) => self.plan(input),
            LogicalPlan::Projection(projection) => self.projection(projection),
            LogicalPlan::Unnest(unnest) => self.unnest(unnest),
            _ => Ok(None),
        }
    }

    fn projection(&mut self, projection: &Projection) -> Result<Option<(LogicalPlan, Vec<ValueColumn>)>> {
        let Some((input, values)) = self.plan(&projection.input)? else { return Ok(None) };
        let below = projection.input.schema();
        let mut exprs: Vec<_> = self.left.schema().columns().into_iter().map(Expr::Column).collect();
        let mut columns = Vec::with_capacity(projection.expr.len());
        for expr in &projection.expr {
            let expr = expr.clone().unalias();
            let is_item = match &expr {
                Expr::Column(column) => values.get(below.index_of_column(column)?).is_some_and(|value| value.is_item),
                _ => false,
            };
            let mut resolved = true;
            let replaced = expr.transform(|expr| match &expr {
                Expr::Column(column) => match values.get(below.index_of_column(column)?) {
                    Some(value) => Ok(Transformed::yes(Expr::Column(value.column.clone()))),
                    None => Ok(Transformed::no(expr)),
                },
                Expr::OuterReferenceColumn(_, column) => {
                    resolved &= self.left.schema().has_column(column);
                    Ok(Transformed::yes(Expr::Column(column.clone())))
                }
                _ => Ok(Transformed::no(expr)),
            });
            let replaced = replaced.data()?;
            if !resolved {
                return Ok(None);
            }
            let name = self.names.next("value");
            exprs.push(replaced.alias(&name));
            columns.push(ValueColumn { column: Column::new_unqualified(name), is_item });
        }
        Ok(Some((LogicalPlanBuilder::from(input).project(exprs)?.build()?, columns)))
    }

    fn unnest(&mut self, unnest: &Unnest) -> Result<Option<(LogicalPlan, Vec<ValueColumn>)>> {
        let Some((input, values)) = self.plan(&unnest.input)? else { return Ok(None) };
        let below = unnest.input.schema();
        let mut recursions = Vec::with_capacity(unnest.options.recursions.len());
        for RecursionUnnestOption { input_column, output_column, depth } in &unnest.options.recursions {
            let Some(list) = values.get(below.index_of_column(input_column)?) else { return Ok(None) };
            let item = Column::new_unqualified(self.names.next("item"));
            recursions.push((
                output_column,
                RecursionUnnestOption { input_column: list.column.clone(), output_column: item, depth: *depth },
            ));
        }
        let mut lists = Vec::with_capacity(unnest.exec_columns.len());
        for column in &unnest.exec_columns {
            let Some(list) = values.get(below.index_of_column(column)?) else { return Ok(None) };
            // A struct has no items, but fields.
            if !recursions.iter().any(|(_, recursion)| recursion.input_column == list.column) {
                return Ok(None);
            }
            lists.push(list.column.clone());
        }
        let mut columns = Vec::with_capacity(unnest.dependency_indices.len());
        for (column, input) in unnest.schema.columns().iter().zip(&unnest.dependency_indices) {
            let Some(value) = values.get(*input) else { return Ok(None) };
            let item = recursions
                .iter()
                .find(|(output, recursion)| output.name == column.name && recursion.input_column == value.column);
            columns.push(match item {
                Some((_, recursion)) => ValueColumn { column: recursion.output_column.clone(), is_item: true },
                None => ValueColumn { column: value.column.clone(), is_item: false },
            });
        }
        let null_handling = match self.keeps_rows {
            true => NullHandling::PreserveAndExpandEmpty,
            false => unnest.options.null_handling,
        };
        let recursions = recursions.into_iter().map(|(_, recursion)| recursion).collect();
        let options = UnnestOptions { null_handling, recursions };
        let plan = LogicalPlan::Unnest(Unnest::try_new(Arc::new(input), lists, options)?);
        // The keys of the left side are no keys of the items.
        Ok(Some((no_keys::hide_keys(plan)?, columns)))
    }
}
