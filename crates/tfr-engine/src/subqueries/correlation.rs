//! Converts correlated subqueries to relations that can be joined with the outer rows.

use datafusion::error::Result;
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan, LogicalPlanBuilder};
use datafusion_common::Column;
use datafusion_common::tree_node::{Transformed, TransformedResult as _, TreeNode as _};
use datafusion_expr::utils::{conjunction, split_conjunction_owned};
use datafusion_expr::{Distinct, Filter, Join, Operator, Projection, SubqueryAlias, binary_expr};

use super::FreshNames;
use super::domain::Domain;
use super::outer::{outer_columns, refers_to, uses_any};
use super::plans::with_inputs;

/// Returns the rows of `subquery` for all rows of `base`, and the conditions that relate the two. The relation has the
/// columns of the subquery, and others under unique names. A row may occur more often than in the result of the
/// subquery.
pub fn correlate(
    base: &LogicalPlan,
    subquery: &LogicalPlan,
    names: &mut FreshNames,
) -> Result<(LogicalPlan, Vec<Expr>)> {
    let outer = outer_columns(subquery, base.schema())?;
    let pulled = PullUp { outer: &outer, names, duplicates: false }.pull_up(subquery)?;
    if let Some(pulled) = pulled {
        return Ok((pulled.plan, pulled.conditions));
    }
    evaluate(base, subquery, names)
}

/// Like [`correlate`], but no row occurs more often than in the result of the subquery, and the conditions are
/// equalities.
pub fn evaluate(
    base: &LogicalPlan,
    subquery: &LogicalPlan,
    names: &mut FreshNames,
) -> Result<(LogicalPlan, Vec<Expr>)> {
    let outer = outer_columns(subquery, base.schema())?;
    if outer.is_empty() {
        return Ok((subquery.clone(), Vec::new()));
    }
    let (plan, values) = Domain::new(base, outer.clone(), names)?.evaluate(subquery)?;
    let pairs = outer.into_iter().zip(values);
    let conditions =
        pairs.map(|(outer, value)| binary_expr(Expr::Column(outer), Operator::IsNotDistinctFrom, Expr::Column(value)));
    Ok((plan, conditions.collect()))
}

/// A plan without references to `outer`, and the conditions that were removed from it.
#[derive(Debug)]
pub struct Pulled {
    pub plan: LogicalPlan,
    /// Expressions over the outer columns, and over columns of the plan that have unique names.
    pub conditions: Vec<Expr>,
}

impl Pulled {
    fn unchanged(plan: &LogicalPlan) -> Self {
        Self { plan: plan.clone(), conditions: Vec::new() }
    }
}

/// Removes conditions on outer columns from filters and inner joins, where they can be moved to the join with the
/// outer rows. Other operators would compute something else without them.
#[derive(Debug)]
pub struct PullUp<'a> {
    pub outer: &'a [Column],
    pub names: &'a mut FreshNames,
    /// Whether the number of duplicates of a row matters.
    pub duplicates: bool,
}

impl PullUp<'_> {
    pub fn pull_up(&mut self, plan: &LogicalPlan) -> Result<Option<Pulled>> {
        if !refers_to(plan, self.outer)? {
            return Ok(Some(Pulled::unchanged(plan)));
        }
        match plan {
            LogicalPlan::Filter(Filter { predicate, input, .. }) => {
                let Some(mut pulled) = self.pull_up(input)? else { return Ok(None) };
                let conjuncts = split_conjunction_owned(predicate.clone());
                let (outer, inner): (Vec<_>, Vec<_>) =
                    conjuncts.into_iter().partition(|conjunct| uses_any(conjunct, self.outer));
                if let Some(inner) = conjunction(inner) {
                    pulled.plan = LogicalPlanBuilder::from(pulled.plan).filter(inner)?.build()?;
                }
                self.take(pulled, outer)
            }
            LogicalPlan::Projection(Projection { expr, input, .. }) => {
                if expr.iter().any(|expr| uses_any(expr, self.outer) || expr.is_volatile()) {
                    return Ok(None);
                }
                let Some(mut pulled) = self.pull_up(input)? else { return Ok(None) };
                let added = added_columns(input, &pulled.plan);
                let exprs = expr.iter().cloned().chain(added.into_iter().map(Expr::Column));
                pulled.plan = LogicalPlanBuilder::from(pulled.plan).project(exprs)?.build()?;
                Ok(Some(pulled))
            }
            LogicalPlan::SubqueryAlias(SubqueryAlias { input, alias, .. }) => {
                let Some(pulled) = self.pull_up(input)? else { return Ok(None) };
                let plan = LogicalPlanBuilder::from(pulled.plan).alias(alias.clone())?.build()?;
                Ok(Some(Pulled { plan, ..pulled }))
            }
            // Duplicates do not affect whether there is a row.
            LogicalPlan::Distinct(Distinct::All(input)) if !self.duplicates => self.pull_up(input),
            LogicalPlan::Join(join) if join.join_type == JoinType::Inner => self.pull_up_inner(join),
            LogicalPlan::Join(join)
                if matches!(
                    join.join_type,
                    JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark
                ) =>
            {
                let on = join.on.iter().flat_map(|(left, right)| [left, right]).chain(&join.filter);
                if refers_to(&join.right, self.outer)? || on.into_iter().any(|expr| uses_any(expr, self.outer)) {
                    return Ok(None);
                }
                let Some(mut pulled) = self.pull_up(&join.left)? else { return Ok(None) };
                pulled.plan = LogicalPlan::Join(with_inputs(join, pulled.plan, join.right.as_ref().clone())?);
                Ok(Some(pulled))
            }
            _ => Ok(None),
        }
    }

    fn pull_up_inner(&mut self, join: &Join) -> Result<Option<Pulled>> {
        if join.on.iter().any(|(left, right)| uses_any(left, self.outer) || uses_any(right, self.outer)) {
            return Ok(None);
        }
        let Some(left) = self.pull_up(&join.left)? else { return Ok(None) };
        let Some(right) = self.pull_up(&join.right)? else { return Ok(None) };
        let conjuncts = join.filter.clone().map(split_conjunction_owned).unwrap_or_default();
        let (outer, inner): (Vec<_>, Vec<_>) =
            conjuncts.into_iter().partition(|conjunct| uses_any(conjunct, self.outer));
        let join = Join { filter: conjunction(inner), ..join.clone() };
        let plan = LogicalPlan::Join(with_inputs(&join, left.plan, right.plan)?);
        let conditions = left.conditions.into_iter().chain(right.conditions).collect();
        self.take(Pulled { plan, conditions }, outer)
    }

    /// Adds `conjuncts` to the conditions, and gives the plan's columns in them unique names.
    fn take(&mut self, pulled: Pulled, conjuncts: Vec<Expr>) -> Result<Option<Pulled>> {
        let Pulled { plan, mut conditions } = pulled;
        let mut added: Vec<(Column, String)> = Vec::new();
        for conjunct in conjuncts {
            if conjunct.is_volatile() {
                return Ok(None);
            }
            let condition = conjunct.transform_up(|expr| match expr {
                Expr::Column(column) => {
                    let name = match added.iter().find(|(known, _)| *known == column) {
                        Some((_, name)) => name.clone(),
                        None => {
                            let name = self.names.next("inner");
                            added.push((column, name.clone()));
                            name
                        }
                    };
                    Ok(Transformed::yes(Expr::Column(Column::new_unqualified(name))))
                }
                Expr::OuterReferenceColumn(_, column) if self.outer.contains(&column) => {
                    Ok(Transformed::yes(Expr::Column(column)))
                }
                other => Ok(Transformed::no(other)),
            });
            conditions.push(condition.data()?);
        }
        let columns = plan.schema().columns().into_iter().map(Expr::Column);
        let added = added.into_iter().map(|(column, name)| Expr::Column(column).alias(name));
        let exprs: Vec<_> = columns.chain(added).collect();
        let plan = LogicalPlanBuilder::from(plan).project(exprs)?.build()?;
        Ok(Some(Pulled { plan, conditions }))
    }
}

/// Returns the columns of `after` that `before` lacks.
fn added_columns(before: &LogicalPlan, after: &LogicalPlan) -> Vec<Column> {
    after.schema().columns().into_iter().filter(|column| !before.schema().has_column(column)).collect()
}
