//! Names in expressions of `ORDER BY`: `SELECT -v AS v FROM t ORDER BY v + 0`.
//!
//! As the whole expression, a name is that of an output column. Inside an expression it is that of an input column, as
//! in PostgreSQL. The engine's planner took the output column in both cases. Names that may be either are marked in the
//! statement ([`marked`]), and resolved in the plan, where the input columns are known. A name without an input column
//! stays the output column, which PostgreSQL refuses.
//!
//! Upstream: ours (a choice of meaning). Held by `tests/slt/scopes.slt`: ORDER BY: a name is an output column only as the whole expression.

use std::sync::Arc;

use datafusion::config::ConfigOptions;
use datafusion::optimizer::AnalyzerRule;
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, ObjectName,
};
use datafusion_common::tree_node::{Transformed, TransformedResult as _, TreeNode as _};
use datafusion_common::{Column, Result, plan_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{Distinct, Expr, LogicalPlan, LogicalPlanBuilder, Projection, ScalarUDF, Sort};

use crate::expressions::rewrite_expressions;
use crate::opaque;

/// The function that marks a name.
const MARK: &str = "order_by_name";

/// Returns the function that marks a name.
pub fn mark_function() -> Arc<ScalarUDF> {
    opaque::mark_function(MARK)
}

/// Marks a name.
pub fn marked(name: SqlExpr) -> SqlExpr {
    SqlExpr::Function(Function {
        name: ObjectName::from(Ident::new(MARK)),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(name))],
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// Whether a function call marks a name.
pub fn is_mark(function: &Function) -> bool {
    matches!(function.name.0.as_slice(), [part] if part.as_ident().is_some_and(|name| name.value == MARK))
}

/// Resolves the marked names.
#[derive(Debug, Default)]
pub struct OrderNames;

impl AnalyzerRule for OrderNames {
    fn name(&self) -> &str {
        "order_names"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Sort(sort) if has_marks(&sort)? => resolved(sort).map(Transformed::yes),
            // Columns of an input already.
            other => rewrite_expressions(other, |expr| Ok(without_mark(expr))),
        })?;
        Ok(plan.data)
    }
}

fn has_marks(sort: &Sort) -> Result<bool> {
    let is_mark = |expr: &Expr| Ok(marked_name(expr).is_some());
    sort.expr.iter().try_fold(false, |found, key| Ok(found || key.expr.exists(is_mark)?))
}

fn marked_name(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == MARK => args.first(),
        _ => None,
    }
}

fn without_mark(expr: Expr) -> Transformed<Expr> {
    match marked_name(&expr) {
        Some(name) => Transformed::yes(name.clone()),
        None => Transformed::no(expr),
    }
}

/// Replaces marked names by input columns, which the projection below the sort carries in addition.
fn resolved(sort: Sort) -> Result<LogicalPlan> {
    let Some((projection, is_distinct)) = projection_below(&sort.input) else {
        return Ok(LogicalPlan::Sort(without_marks(sort)?));
    };
    let mut carried: Vec<(Column, String)> = Vec::new();
    let first = projection.schema.fields().len();
    let mut replace = |expr: Expr| -> Result<Transformed<Expr>> {
        let Some(Expr::Column(output)) = marked_name(&expr) else { return Ok(without_mark(expr)) };
        let inputs = projection.input.schema().columns_with_unqualified_name(&output.name);
        let input = match inputs.as_slice() {
            _ if output.relation.is_some() => return Ok(without_mark(expr)),
            [] if is_aggregated(&projection.input, &output.name) => {
                return refuse(output, "a column that is aggregated, and of an output column");
            }
            [] => return Ok(without_mark(expr)),
            [_, ..] if is_distinct => {
                return refuse(output, "an input column, which rows of DISTINCT do not have, and of an output column");
            }
            [input] => input.clone(),
            [input, ..] => match projection.input.using_columns()? {
                keys if keys.iter().any(|key| inputs.iter().all(|input| key.contains(input))) => input.clone(),
                _ => return refuse(output, "several input columns"),
            },
        };
        let name = match carried.iter().find(|(column, _)| *column == input) {
            Some((_, name)) => name.clone(),
            None => {
                // No column below has such a name: it would have a lower number.
                let name = format!("__order_{}", first + carried.len());
                carried.push((input, name.clone()));
                name
            }
        };
        Ok(Transformed::yes(Expr::Column(Column::new_unqualified(name))))
    };
    let mut keys = Vec::with_capacity(sort.expr.len());
    for key in sort.expr.clone() {
        let expr = key.expr.clone().transform_up(&mut replace).data()?;
        keys.push(key.with_expr(expr));
    }
    if carried.is_empty() {
        return Ok(LogicalPlan::Sort(Sort { expr: keys, ..sort }));
    }
    let outputs: Vec<_> = projection.schema.columns().into_iter().map(Expr::Column).collect();
    let carried = carried.into_iter().map(|(column, name)| Expr::Column(column).alias(name));
    let exprs: Vec<_> = projection.expr.iter().cloned().chain(carried).collect();
    LogicalPlanBuilder::from(projection.input.as_ref().clone())
        .project(exprs)?
        .sort_with_limit(keys, sort.fetch)?
        .project(outputs)?
        .build()
}

fn projection_below(plan: &LogicalPlan) -> Option<(&Projection, bool)> {
    match plan {
        LogicalPlan::Projection(projection) => Some((projection, false)),
        LogicalPlan::Distinct(Distinct::All(input)) => match input.as_ref() {
            LogicalPlan::Projection(projection) => Some((projection, true)),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a plan aggregates rows that have a column of this name.
fn is_aggregated(plan: &LogicalPlan, name: &str) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => !aggregate.input.schema().columns_with_unqualified_name(name).is_empty(),
        LogicalPlan::Filter(filter) => is_aggregated(&filter.input, name),
        LogicalPlan::Window(window) => is_aggregated(&window.input, name),
        _ => false,
    }
}

fn without_marks(mut sort: Sort) -> Result<Sort> {
    for key in &mut sort.expr {
        key.expr = key.expr.clone().transform_up(|expr| Ok(without_mark(expr))).data()?;
    }
    Ok(sort)
}

fn refuse<T>(name: &Column, what: &str) -> Result<T> {
    plan_err!(
        "the name {} in an expression of ORDER BY is that of {what}; write the table before the name of an input column, or \
         another name after AS",
        name.name
    )
}
