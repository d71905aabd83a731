//! Rewrites the plan nodes whose expressions contain subqueries.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan, LogicalPlanBuilder};
use datafusion_common::Column;
use datafusion_common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion_expr::utils::{conjunction, split_conjunction_owned};
use datafusion_expr::{Aggregate, Filter, Join, Projection, SortExpr, Window};

use super::marks::Marks;
use super::outer::{for_each_outer, is_correlated};
use super::plans::with_names_of;
use super::{FreshNames, aggregates, lateral, refuse};

/// Whether an expression of this node has a subquery that must be rewritten.
pub fn has_subquery(plan: &LogicalPlan) -> Result<bool> {
    let mut found = matches!(plan, LogicalPlan::Join(join) if lateral::is_misread(join)?);
    plan.apply_expressions(|expr| {
        found |= contains_subquery(expr)?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

fn contains_subquery(expr: &Expr) -> Result<bool> {
    expr.exists(|expr| match expr {
        Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) => Ok(true),
        Expr::ScalarSubquery(subquery) => {
            Ok(is_correlated(&subquery.subquery)? || aggregates::hides_null(&subquery.subquery))
        }
        _ => Ok(false),
    })
}

/// Removes the subqueries from the expressions of `plan`, which keeps its columns.
pub fn rewrite(plan: LogicalPlan, names: &mut FreshNames) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Filter(node) => filter(node, names),
        LogicalPlan::Join(join) if lateral::is_misread(&join)? => {
            if join.filter.as_ref().map_or(Ok(false), contains_subquery)? {
                return refuse("the ON of this LATERAL join cannot have a subquery");
            }
            lateral::rewrite(&join, names)
        }
        LogicalPlan::Join(join) => rewrite_join(join, names),
        LogicalPlan::Projection(Projection { ref expr, ref input, .. }) => {
            let mut marks = Marks::new(input.as_ref().clone(), names);
            let exprs = marks.replace_all(expr.clone())?;
            let projected = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(marks.into_plan()))?);
            let columns: Vec<_> = (0..plan.schema().fields().len()).collect();
            with_names_of(projected, plan.schema(), &columns)
        }
        LogicalPlan::Aggregate(Aggregate { ref input, ref group_expr, ref aggr_expr, .. }) => {
            let mut marks = Marks::new(input.as_ref().clone(), names);
            let groups = marks.replace_all(group_expr.clone())?;
            let aggregates = marks.replace_all(aggr_expr.clone())?;
            let aggregated = Aggregate::try_new(Arc::new(marks.into_plan()), groups, aggregates)?;
            let columns: Vec<_> = (0..plan.schema().fields().len()).collect();
            with_names_of(LogicalPlan::Aggregate(aggregated), plan.schema(), &columns)
        }
        LogicalPlan::Window(Window { ref input, ref window_expr, .. }) => {
            let mut marks = Marks::new(input.as_ref().clone(), names);
            let exprs = marks.replace_all(window_expr.clone())?;
            let marked = marks.into_plan();
            let (before, after) = (input.schema().fields().len(), marked.schema().fields().len());
            let window = LogicalPlan::Window(Window::try_new(exprs, Arc::new(marked))?);
            let columns: Vec<_> = (0..before).chain(after..window.schema().fields().len()).collect();
            with_names_of(window, plan.schema(), &columns)
        }
        LogicalPlan::Sort(ref sort) => {
            let mut marks = Marks::new(with_columns_below(&sort.input, &sort.expr)?, names);
            // Keys become columns, computed below: the engine does not merge sorted rows by a key that contains a
            // scalar subquery.
            let mut keys = sort.expr.clone();
            let mut added = Vec::new();
            for key in &mut keys {
                if contains_subquery(&key.expr)? {
                    let name = marks.name("key");
                    added.push(marks.replace(key.expr.clone())?.alias(&name));
                    key.expr = Expr::Column(Column::new_unqualified(name));
                }
            }
            let marked = marks.into_plan();
            let exprs: Vec<_> = marked.schema().columns().into_iter().map(Expr::Column).chain(added).collect();
            let sorted = LogicalPlanBuilder::from(marked).project(exprs)?.sort_with_limit(keys, sort.fetch)?.build()?;
            let columns: Vec<_> = (0..plan.schema().fields().len()).collect();
            with_names_of(sorted, plan.schema(), &columns)
        }
        other => refuse(&format!("a subquery cannot be used in this place: {}", other.display())),
    }
}

/// Adds the columns of the relation below that only the subqueries of sort keys use. The engine does not detect them.
fn with_columns_below(plan: &LogicalPlan, keys: &[SortExpr]) -> Result<LogicalPlan> {
    let LogicalPlan::Projection(Projection { expr, input, .. }) = plan else { return Ok(plan.clone()) };
    let mut exprs = expr.clone();
    for key in keys {
        for column in columns_used(&key.expr)? {
            let column_expr = Expr::Column(column);
            if let Expr::Column(column) = &column_expr
                && !plan.schema().has_column(column)
                && input.schema().has_column(column)
                && !exprs.contains(&column_expr)
            {
                exprs.push(column_expr);
            }
        }
    }
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::clone(input))?))
}

fn filter(Filter { predicate, input, .. }: Filter, names: &mut FreshNames) -> Result<LogicalPlan> {
    let schema = Arc::clone(input.schema());
    let mut plain = Vec::new();
    let mut subqueries = Vec::new();
    for conjunct in split_conjunction_owned(predicate) {
        if contains_subquery(&conjunct)? { subqueries.push(conjunct) } else { plain.push(conjunct) }
    }
    let mut builder = LogicalPlanBuilder::from(input);
    if let Some(plain) = conjunction(plain) {
        builder = builder.filter(plain)?;
    }
    let mut marks = Marks::new(builder.build()?, names);
    let mut values = Vec::new();
    for conjunct in subqueries {
        values.extend(marks.select(conjunct)?);
    }
    let mut builder = LogicalPlanBuilder::from(marks.into_plan());
    if let Some(values) = conjunction(values) {
        builder = builder.filter(values)?;
    }
    let columns: Vec<_> = (0..schema.fields().len()).collect();
    with_names_of(builder.build()?, &schema, &columns)
}

fn rewrite_join(join: Join, names: &mut FreshNames) -> Result<LogicalPlan> {
    let schema = Arc::clone(&join.schema);
    let mut plain = Vec::new();
    let mut subqueries = Vec::new();
    for conjunct in join.filter.map(split_conjunction_owned).unwrap_or_default() {
        if contains_subquery(&conjunct)? { subqueries.push(conjunct) } else { plain.push(conjunct) }
    }
    if join.join_type == JoinType::Inner {
        let joined = Join { filter: conjunction(plain), ..join };
        let Some(predicate) = conjunction(subqueries) else { return Ok(LogicalPlan::Join(joined)) };
        return filter(Filter::try_new(predicate, Arc::new(LogicalPlan::Join(joined)))?, names);
    }
    // Unmatched rows stay in the result, so each condition becomes a column of the side whose columns it uses.
    let (mut left, mut right) = (join.left.as_ref().clone(), join.right.as_ref().clone());
    for conjunct in subqueries {
        let mut used = columns_used(&conjunct)?;
        used.retain(|column| schema.has_column(column));
        let side = if used.iter().all(|column| left.schema().has_column(column)) {
            &mut left
        } else if used.iter().all(|column| right.schema().has_column(column)) {
            &mut right
        } else {
            return refuse("a subquery in the ON of an outer join cannot use columns of both sides");
        };
        let mut marks = Marks::new(side.clone(), names);
        plain.push(marks.replace(conjunct)?);
        *side = marks.into_plan();
    }
    let joined = Join::try_new(
        Arc::new(left),
        Arc::new(right),
        join.on,
        conjunction(plain),
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    let joined = LogicalPlan::Join(joined);
    let mut positions = Vec::new();
    for column in schema.columns() {
        positions.push(joined.schema().index_of_column(&column)?);
    }
    with_names_of(joined, &schema, &positions)
}

/// Returns the columns that `expr` uses, including those that its subqueries refer to.
fn columns_used(expr: &Expr) -> Result<Vec<Column>> {
    let mut columns: Vec<_> = expr.column_refs().into_iter().cloned().collect();
    expr.apply(|expr| {
        if let Expr::Exists(datafusion_expr::expr::Exists { subquery, .. })
        | Expr::InSubquery(datafusion_expr::expr::InSubquery { subquery, .. })
        | Expr::SetComparison(datafusion_expr::expr::SetComparison { subquery, .. })
        | Expr::ScalarSubquery(subquery) = expr
        {
            for_each_outer(&subquery.subquery, |column| columns.push(column.clone()))?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(columns)
}
