//! Scalar subqueries.

use std::sync::Arc;

use arrow::array::{Array as _, Int64Array};
use arrow_schema::DataType;
use datafusion::error::Result;
use datafusion::functions_aggregate::expr_fn::{count, first_value};
use datafusion::logical_expr::{
    ColumnarValue, Expr, JoinType, LogicalPlan, LogicalPlanBuilder, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, lit,
};
use datafusion_common::tree_node::{Transformed, TransformedResult as _, TreeNode as _};
use datafusion_common::{Column, exec_err};
use datafusion_expr::{Aggregate, BinaryExpr, Projection, SubqueryAlias};

use super::FreshNames;
use super::correlation::{PullUp, evaluate};
use super::domain::or_default;
use super::outer::{outer_columns, uses_any};
use crate::orders::is_ordered;

/// Joins `plan` with the result of the correlated subquery for each of its rows. Returns the join and the value.
///
/// `base` is `plan` without columns of other subqueries.
pub fn scalar(
    base: &LogicalPlan,
    plan: LogicalPlan,
    subquery: &LogicalPlan,
    names: &mut FreshNames,
) -> Result<(LogicalPlan, Expr)> {
    if let Some((right, conditions, value)) = grouped(base, subquery, names)? {
        let joined = LogicalPlanBuilder::from(plan).join_on(right, JoinType::Left, conditions)?.build()?;
        return Ok((joined, value));
    }
    let one_row = subquery.max_rows().is_some_and(|rows| rows <= 1);
    let (value, rows) = (names.next("value"), names.next("rows"));
    let column = subquery.schema().columns().remove(0);
    let subquery = LogicalPlanBuilder::from(subquery.clone()).project([Expr::Column(column).alias(&value)])?.build()?;
    let (mut right, mut conditions) = evaluate(base, &subquery, names)?;
    let value = Column::new_unqualified(value);
    let mut result = Expr::Column(value.clone());
    if !one_row {
        let keys: Vec<_> = right.schema().columns().into_iter().filter(|column| *column != value).collect();
        let first = names.next("value");
        let aggregates = [first_value(Expr::Column(value), Vec::new()).alias(&first), count(lit(1)).alias(&rows)];
        right = LogicalPlanBuilder::from(right)
            .aggregate(keys.into_iter().map(Expr::Column).collect::<Vec<_>>(), aggregates)?
            .build()?;
        let (first, rows) = (Column::new_unqualified(first), Column::new_unqualified(rows));
        result = single_value().call(vec![Expr::Column(first), Expr::Column(rows)]);
    }
    if conditions.is_empty() {
        conditions.push(lit(true));
    }
    let joined = LogicalPlanBuilder::from(plan).join_on(right, JoinType::Left, conditions)?.build()?;
    Ok((joined, result))
}

/// Converts the subquery to groups, if it aggregates rows that are related to the outer ones only by equality. Returns
/// the relation, the conditions, and the value.
fn grouped(
    base: &LogicalPlan,
    subquery: &LogicalPlan,
    names: &mut FreshNames,
) -> Result<Option<(LogicalPlan, Vec<Expr>, Expr)>> {
    let Some((value, aggregate)) = aggregate_below(subquery)? else { return Ok(None) };
    if is_ordered(&aggregate.input) {
        return Ok(None);
    }
    let outer = outer_columns(subquery, base.schema())?;
    let pulled = PullUp { outer: &outer, names, duplicates: true }.pull_up(&aggregate.input)?;
    let Some(pulled) = pulled else { return Ok(None) };
    let used = aggregate.aggr_expr.iter().chain([&value]);
    if pulled.conditions.is_empty() || used.into_iter().any(|expr| uses_any(expr, &outer)) {
        return Ok(None);
    }
    let mut keys = Vec::new();
    for condition in &pulled.conditions {
        match key(condition, base) {
            Some(key) if !keys.contains(key) => keys.push(key.clone()),
            Some(_) => {}
            None => return Ok(None),
        }
    }
    let groups = keys.iter().cloned().map(Expr::Column).collect();
    let plan = Aggregate::try_new(Arc::new(pulled.plan), groups, aggregate.aggr_expr.clone())?;
    let columns = plan.schema.columns();
    let results = columns.split_at(keys.len()).1;
    let found = names.next("found");
    let mut exprs: Vec<_> = keys.into_iter().map(Expr::Column).collect();
    let mut replacements = Vec::new();
    for ((column, expr), original) in results.iter().zip(&aggregate.aggr_expr).zip(aggregate.schema.columns()) {
        let name = names.next("aggregate");
        exprs.push(Expr::Column(column.clone()).alias(&name));
        let value = Expr::Column(Column::new_unqualified(name));
        let found = Expr::Column(Column::new_unqualified(&found));
        replacements.push((original, or_default(value, found, expr, &aggregate.input)?));
    }
    exprs.push(lit(true).alias(&found));
    let plan = LogicalPlanBuilder::from(LogicalPlan::Aggregate(plan)).project(exprs)?.build()?;
    let value = value.transform_up(|expr| match &expr {
        Expr::Column(column) => match replacements.iter().find(|(name, _)| name == column) {
            Some((_, value)) => Ok(Transformed::yes(value.clone())),
            None => Ok(Transformed::no(expr)),
        },
        _ => Ok(Transformed::no(expr)),
    });
    Ok(Some((plan, pulled.conditions, value.data()?)))
}

/// Returns the aggregate without `GROUP BY` below `plan`, and the expression that computes its only column from the
/// result.
fn aggregate_below(plan: &LogicalPlan) -> Result<Option<(Expr, &Aggregate)>> {
    let mut value = Expr::Column(plan.schema().columns().remove(0));
    let mut plan = plan;
    loop {
        match plan {
            LogicalPlan::Projection(Projection { expr, input, schema, .. }) => {
                value = value
                    .transform_up(|part| match &part {
                        Expr::Column(column) => {
                            match schema.maybe_index_of_column(column).and_then(|at| expr.get(at)) {
                                Some(expr) => Ok(Transformed::yes(expr.clone().unalias())),
                                None => Ok(Transformed::no(part)),
                            }
                        }
                        _ => Ok(Transformed::no(part)),
                    })
                    .data()?;
                plan = input;
            }
            LogicalPlan::SubqueryAlias(SubqueryAlias { input, schema, .. }) => {
                let below = input.schema().columns();
                value = value
                    .transform_up(|part| match &part {
                        Expr::Column(column) => {
                            match schema.maybe_index_of_column(column).and_then(|at| below.get(at)) {
                                Some(column) => Ok(Transformed::yes(Expr::Column(column.clone()))),
                                None => Ok(Transformed::no(part)),
                            }
                        }
                        _ => Ok(Transformed::no(part)),
                    })
                    .data()?;
                plan = input;
            }
            LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => {
                return Ok((!value.is_volatile()).then_some((value, aggregate)));
            }
            _ => return Ok(None),
        }
    }
}

/// Returns the column of the subquery that `condition` sets equal to an expression of outer columns only.
pub fn key<'a>(condition: &'a Expr, base: &LogicalPlan) -> Option<&'a Column> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else { return None };
    let inner = |expr: &'a Expr| match expr {
        Expr::Column(column) if !base.schema().has_column(column) => Some(column),
        _ => None,
    };
    let outer = |expr: &Expr| expr.column_refs().iter().all(|column| base.schema().has_column(column));
    inner(left).filter(|_| outer(right)).or_else(|| inner(right).filter(|_| outer(left)))
}

/// Whether the value of an uncorrelated scalar subquery may be NULL though its column is not nullable, because it may
/// have no row. The engine assumes that such a value is never NULL.
pub fn hides_null(plan: &LogicalPlan) -> bool {
    let nullable = plan.schema().fields().iter().any(|field| field.is_nullable());
    !nullable && !has_one_row(plan)
}

/// Whether `plan` has exactly one row, whatever its input.
fn has_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(Projection { input, .. }) => has_one_row(input),
        LogicalPlan::SubqueryAlias(SubqueryAlias { input, .. }) => has_one_row(input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        _ => false,
    }
}

/// Makes the column of `plan` nullable.
pub fn with_null(plan: LogicalPlan) -> Result<LogicalPlan> {
    let column = plan.schema().columns().remove(0);
    let value = single_value().call(vec![Expr::Column(column.clone()), lit(1_i64)]);
    let value = value.alias_qualified(column.relation, column.name);
    LogicalPlanBuilder::from(plan).project([value])?.build()
}

/// Returns its first argument. Fails if the second, the number of rows, is more than one.
fn single_value() -> ScalarUDF {
    ScalarUDF::from(SingleValue { signature: Signature::any(2, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SingleValue {
    signature: Signature,
}

impl ScalarUDFImpl for SingleValue {
    fn name(&self) -> &str {
        "__single_value"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [value, _] => Ok(value.clone()),
            _ => exec_err!("{} takes two arguments", self.name()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value, rows] = args.args.as_slice() else { return exec_err!("{} takes two arguments", self.name()) };
        let rows = rows.to_array(args.number_rows)?;
        let Some(counts) = rows.as_any().downcast_ref::<Int64Array>() else {
            return exec_err!("{} takes a number of rows", self.name());
        };
        if counts.iter().flatten().any(|rows| rows > 1) {
            return exec_err!("Scalar subquery returned more than one row");
        }
        Ok(value.clone())
    }
}
