//! [`Marks`]: joins the input of an expression with the results of its subqueries.

use datafusion::error::Result;
use datafusion::functions_aggregate::expr_fn::{array_agg, count};
use datafusion::functions_nested::expr_fn::array_has;
use datafusion::logical_expr::{
    Expr, ExprFunctionExt as _, ExprSchemable as _, JoinType, LogicalPlan, LogicalPlanBuilder, Operator, lit, when,
};
use datafusion_common::tree_node::{Transformed, TransformedResult as _, TreeNode as _};
use datafusion_common::{Column, NullEquality, ScalarValue, Spans};
use datafusion_expr::utils::conjunction;
use datafusion_expr::{BinaryExpr, Subquery};

use super::correlation::{correlate, evaluate};
use super::outer::is_correlated;
use super::{FreshNames, Predicate, aggregates, is_volatile, refuse};

/// A plan that gains a column for each subquery.
#[derive(Debug)]
pub struct Marks<'a> {
    /// The plan without the added columns.
    base: LogicalPlan,
    plan: LogicalPlan,
    names: &'a mut FreshNames,
}

impl<'a> Marks<'a> {
    pub fn new(plan: LogicalPlan, names: &'a mut FreshNames) -> Self {
        Self { base: plan.clone(), plan, names }
    }

    /// Returns a unique name.
    pub fn name(&mut self, kind: &str) -> String {
        self.names.next(kind)
    }

    pub fn into_plan(self) -> LogicalPlan {
        self.plan
    }

    /// Replaces the subqueries of `exprs` by columns of the plan.
    pub fn replace_all(&mut self, exprs: Vec<Expr>) -> Result<Vec<Expr>> {
        exprs.into_iter().map(|expr| self.replace(expr)).collect()
    }

    /// Replaces the subqueries of `expr` by columns of the plan.
    pub fn replace(&mut self, expr: Expr) -> Result<Expr> {
        expr.transform_up(|expr| match expr {
            Expr::ScalarSubquery(subquery) if is_correlated(&subquery.subquery)? => {
                let plan = subquery.subquery.as_ref();
                let (plan, value) = aggregates::scalar(&self.base, self.plan.clone(), plan, self.names)?;
                self.plan = plan;
                Ok(Transformed::yes(value))
            }
            Expr::ScalarSubquery(subquery) if aggregates::hides_null(&subquery.subquery) => {
                let plan = aggregates::with_null(subquery.subquery.as_ref().clone())?;
                Ok(Transformed::yes(scalar_subquery(plan)))
            }
            // `NOT` is kept: it negates the value.
            Expr::Not(_) => Ok(Transformed::no(expr)),
            expr => match Predicate::new(expr, self.names)? {
                Ok(predicate) => self.value(predicate).map(Transformed::yes),
                Err(expr) => Ok(Transformed::no(expr)),
            },
        })
        .data()
    }

    /// Keeps the rows for which `conjunct` is true, or returns the expression that a filter must test.
    pub fn select(&mut self, conjunct: Expr) -> Result<Option<Expr>> {
        let mut predicate = match Predicate::new(conjunct, self.names)? {
            Ok(predicate) => predicate,
            Err(conjunct) => return self.replace(conjunct).map(Some),
        };
        if let Some(comparison) = predicate.comparison.take() {
            let comparison = self.replace(comparison)?;
            predicate.comparison = Some(self.with_column(comparison)?);
        }
        let Predicate { subquery, comparison, negated } = predicate;
        let correlated = is_correlated(&subquery)?;
        if comparison.is_none() && !correlated {
            return exists(subquery, negated).map(Some);
        }
        let (right, mut conditions) = correlate(&self.base, &subquery, self.names)?;
        let right = LogicalPlanBuilder::from(right).alias(self.names.next("subquery"))?.build()?;
        let mut null_aware = false;
        if let Some(comparison) = comparison {
            let nullable = self.is_nullable(&comparison, &right)?;
            null_aware = negated && nullable && !correlated && self.is_equality_of_columns(&comparison, &right);
            conditions.push(if negated && nullable && !null_aware {
                Expr::IsNotFalse(Box::new(comparison))
            } else {
                comparison
            });
        }
        let join_type = if negated { JoinType::LeftAnti } else { JoinType::LeftSemi };
        self.plan = LogicalPlanBuilder::from(self.plan.clone())
            .join_detailed_with_options(
                right,
                join_type,
                (Vec::<Column>::new(), Vec::<Column>::new()),
                Some(conjunction(conditions).unwrap_or_else(|| lit(true))),
                NullEquality::NullEqualsNothing,
                null_aware,
            )?
            .build()?;
        Ok(None)
    }

    /// Returns the value of `predicate` for each row: true, false or NULL.
    fn value(&mut self, Predicate { subquery, comparison, negated }: Predicate) -> Result<Expr> {
        let correlated = is_correlated(&subquery)?;
        let Some(comparison) = comparison else {
            if !correlated {
                return exists(subquery, negated);
            }
            let (right, conditions) = correlate(&self.base, &subquery, self.names)?;
            let mark = self.mark(right, conditions)?;
            return Ok(if negated { Expr::Not(Box::new(mark)) } else { mark });
        };
        let comparison = self.with_column(comparison)?;
        let (right, conditions) = correlate(&self.base, &subquery, self.names)?;
        let nullable = self.is_nullable(&comparison, &right)?;
        if nullable && is_volatile(&subquery)? {
            return self.value_of_list(&subquery, &comparison, negated);
        }
        let mut with = conditions.clone();
        with.push(comparison.clone());
        let found = self.mark(right.clone(), with)?;
        if !nullable {
            return Ok(if negated { Expr::Not(Box::new(found)) } else { found });
        }
        let unknown = if correlated {
            let mut with = conditions;
            with.push(Expr::IsNull(Box::new(comparison)));
            self.mark(right, with)?
        } else {
            unknown(subquery, &comparison)?
        };
        let (yes, no) = (lit(!negated), lit(negated));
        when(found, yes).when(unknown, lit(ScalarValue::Boolean(None))).otherwise(no)
    }

    /// Returns the value of `IN` over a subquery that must run only once, because its rows may differ. Its values are
    /// collected in a list.
    fn value_of_list(&mut self, subquery: &LogicalPlan, comparison: &Expr, negated: bool) -> Result<Expr> {
        let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right: value }) = comparison else {
            return refuse(
                "ANY or ALL as a value cannot be computed over a subquery that has a LIMIT, a window function or a function \
                 such as random()",
            );
        };
        let (right, conditions) = evaluate(&self.base, subquery, self.names)?;
        let columns = right.schema().columns().into_iter();
        let keys: Vec<_> = columns.map(Expr::Column).filter(|column| *column != **value).collect();
        let [rows, values, list] = ["rows", "values", "list"].map(|kind| self.names.next(kind));
        let collected = array_agg(value.as_ref().clone()).filter(Expr::IsNotNull(value.clone())).build()?;
        let aggregates =
            [count(lit(1)).alias(&rows), count(value.as_ref().clone()).alias(&values), collected.alias(&list)];
        let right = LogicalPlanBuilder::from(right).aggregate(keys, aggregates)?.build()?;
        let condition = conjunction(conditions).unwrap_or_else(|| lit(true));
        self.plan = LogicalPlanBuilder::from(self.plan.clone()).join_on(right, JoinType::Left, [condition])?.build()?;
        let [rows, values, list] = [rows, values, list].map(|name| Expr::Column(Column::new_unqualified(name)));
        let unknown = lit(ScalarValue::Boolean(None));
        when(rows.clone().is_null().or(rows.clone().eq(lit(0_i64))), lit(negated))
            .when(Expr::IsNull(left.clone()), unknown.clone())
            .when(array_has(list, left.as_ref().clone()), lit(!negated))
            .when(values.lt(rows), unknown)
            .otherwise(lit(negated))
    }

    /// Adds a column that records whether a row of `right` satisfies `conditions`.
    fn mark(&mut self, right: LogicalPlan, conditions: Vec<Expr>) -> Result<Expr> {
        let alias = self.names.next("subquery");
        let condition = conjunction(conditions).unwrap_or_else(|| lit(true));
        let mut needed: Vec<Expr> = condition
            .column_refs()
            .into_iter()
            .filter(|column| right.schema().has_column(column))
            .map(|column| Expr::Column(column.clone()))
            .collect();
        needed.sort_by_key(ToString::to_string);
        if needed.is_empty() {
            needed.push(lit(true).alias(self.names.next("row")));
        }
        let right = LogicalPlanBuilder::from(right).project(needed)?.alias(alias.as_str())?.build()?;
        self.plan =
            LogicalPlanBuilder::from(self.plan.clone()).join_on(right, JoinType::LeftMark, [condition])?.build()?;
        Ok(Expr::Column(Column::new(Some(alias), "mark")))
    }

    /// Replaces a compared value without columns by a column, unless it is a literal. The engine would move a
    /// condition that turns out to be constant below an aggregate without groups, where it no longer selects rows.
    fn with_column(&mut self, comparison: Expr) -> Result<Expr> {
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = comparison else { return Ok(comparison) };
        if matches!(left.as_ref(), Expr::Literal(value, _) if !value.is_null()) || !left.column_refs().is_empty() {
            return Ok(super::compare(*left, op, *right));
        }
        let name = self.names.next("compared");
        let columns = self.plan.schema().columns().into_iter().map(Expr::Column);
        let exprs: Vec<_> = columns.chain([left.alias(&name)]).collect();
        self.plan = LogicalPlanBuilder::from(self.plan.clone()).project(exprs)?.build()?;
        Ok(super::compare(Expr::Column(Column::new_unqualified(name)), op, *right))
    }

    /// Whether `comparison`, over columns of the plan and of `right`, may be NULL.
    fn is_nullable(&self, comparison: &Expr, right: &LogicalPlan) -> Result<bool> {
        let schema = self.plan.schema().join(right.schema())?;
        comparison.nullable(&schema)
    }

    /// Whether `comparison` is an equality of columns of the plan with columns of `right`. The engine's join for `NOT
    /// IN` computes only such comparisons correctly.
    fn is_equality_of_columns(&self, comparison: &Expr, right: &LogicalPlan) -> bool {
        let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right: value }) = comparison else { return false };
        let all = |expr: &Expr, plan: &LogicalPlan| {
            let columns = expr.column_refs();
            !columns.is_empty() && columns.iter().all(|column| plan.schema().has_column(column))
        };
        all(left, &self.plan) && all(value, right) && !left.is_volatile()
    }
}

/// Whether an uncorrelated subquery has rows.
fn exists(subquery: LogicalPlan, negated: bool) -> Result<Expr> {
    let rows = LogicalPlanBuilder::from(subquery).limit(0, Some(1))?.aggregate(Vec::<Expr>::new(), [count(lit(1))])?;
    let rows = scalar_subquery(rows.build()?);
    Ok(if negated { rows.eq(lit(0_i64)) } else { rows.gt(lit(0_i64)) })
}

/// Whether a value that is not found in an uncorrelated subquery compares as NULL: never if the subquery is empty,
/// always if it contains a NULL, otherwise if the value itself is NULL.
fn unknown(subquery: LogicalPlan, comparison: &Expr) -> Result<Expr> {
    let Expr::BinaryExpr(BinaryExpr { left, .. }) = comparison else {
        return datafusion_common::internal_err!("not a comparison: {comparison}");
    };
    let value = Expr::Column(subquery.schema().columns().remove(0));
    let (rows, values) = (count(lit(1)), count(value));
    let aggregated = LogicalPlanBuilder::from(subquery)
        .aggregate(Vec::<Expr>::new(), [rows.clone().alias("__rows"), values.clone().alias("__values")])?;
    let (rows, values) = (datafusion::logical_expr::col("__rows"), datafusion::logical_expr::col("__values"));
    let state = when(rows.clone().eq(lit(0_i64)), lit(0_i64))
        .when(values.lt(rows), lit(1_i64))
        .otherwise(lit(2_i64))?
        .alias("__state");
    let state = scalar_subquery(aggregated.project([state])?.build()?);
    datafusion::logical_expr::case(state)
        .when(lit(0_i64), lit(false))
        .when(lit(1_i64), lit(true))
        .otherwise(Expr::IsNull(left.clone()))
}

fn scalar_subquery(plan: LogicalPlan) -> Expr {
    Expr::ScalarSubquery(Subquery {
        subquery: std::sync::Arc::new(plan),
        outer_ref_columns: Vec::new(),
        spans: Spans::new(),
    })
}
