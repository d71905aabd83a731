//! `input_file_name()` outside of a projection of a table. The engine replaces the function only where a scan computes
//! it, and fails in `WHERE`, `GROUP BY`, `ORDER BY` and windows.
//!
//! The rule adds the name as a column to the projection of the table, and refers to it above.
//!
//! Upstream: unreported. Held by `tests/slt/file_values.slt`: The name of the file of a row.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::optimizer::AnalyzerRule;
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::logical_plan::{Projection, SubqueryAlias};
use datafusion_expr::{Expr, LogicalPlan, LogicalPlanBuilder};

/// The added column.
const NAME: &str = "__input_file_name";

/// Computes the names of files in the projections of tables.
#[derive(Debug)]
pub(crate) struct FileNamesAtScans;

impl AnalyzerRule for FileNamesAtScans {
    fn name(&self) -> &str {
        "file_names_at_scans"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(at_scan).data()
    }
}

fn at_scan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let computes_only = matches!(plan, LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_));
    let passes_on = matches!(plan, LogicalPlan::Filter(_) | LogicalPlan::Sort(_) | LogicalPlan::Window(_));
    let is_done = matches!(&plan, LogicalPlan::Projection(projection) if is_scan(&projection.input));
    if !computes_only && !passes_on || is_done {
        return Ok(Transformed::no(plan));
    }
    let Some(call) = plan.expressions().iter().find_map(find_call) else { return Ok(Transformed::no(plan)) };
    let [input] = plan.inputs()[..] else { return Ok(Transformed::no(plan)) };
    let Some(input) = with_name(input, &call)? else { return Ok(Transformed::no(plan)) };
    let Some(name) = column(&input) else { return Ok(Transformed::no(plan)) };
    let names = NamePreserver::new(&plan);
    let expressions = plan.expressions().into_iter().map(|expr| {
        let saved = names.save(&expr);
        let replaced = expr.transform(|expr| {
            Ok(if is_call(&expr) { Transformed::yes(Expr::Column(name.clone())) } else { Transformed::no(expr) })
        });
        Ok(saved.restore(replaced?.data))
    });
    let expressions = expressions.collect::<Result<Vec<_>>>()?;
    let columns = plan.schema().columns();
    let named = plan.with_new_exprs(expressions, vec![input])?;
    if computes_only {
        return Ok(Transformed::yes(named));
    }
    let columns = columns.into_iter().map(Expr::Column);
    Ok(Transformed::yes(LogicalPlanBuilder::from(named).project(columns)?.build()?))
}

/// Returns the plan with the name of the file of each row as a column; `None` if rows are not those of one table.
fn with_name(plan: &LogicalPlan, call: &Expr) -> Result<Option<LogicalPlan>> {
    let below = |input: &LogicalPlan| with_name(input, call);
    Ok(match plan {
        LogicalPlan::TableScan(_) => {
            let columns = plan.schema().columns().into_iter().map(Expr::Column);
            let columns = columns.chain([call.clone().alias(NAME)]);
            Some(LogicalPlanBuilder::from(plan.clone()).project(columns)?.build()?)
        }
        LogicalPlan::Projection(projection) if column(plan).is_some() && is_scan(&projection.input) => {
            Some(plan.clone())
        }
        LogicalPlan::Projection(projection) => match below(&projection.input)? {
            Some(input) => {
                let name = column(&input).map(Expr::Column);
                let columns = projection.expr.iter().cloned().chain(name);
                Some(LogicalPlan::Projection(Projection::try_new(columns.collect(), Arc::new(input))?))
            }
            None => None,
        },
        LogicalPlan::SubqueryAlias(alias) => match below(&alias.input)? {
            Some(input) => {
                Some(LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(Arc::new(input), alias.alias.clone())?))
            }
            None => None,
        },
        LogicalPlan::Filter(_) | LogicalPlan::Limit(_) | LogicalPlan::Sort(_) => match plan.inputs()[..] {
            [input] => match below(input)? {
                Some(input) => Some(plan.with_new_exprs(plan.expressions(), vec![input])?),
                None => None,
            },
            _ => None,
        },
        _ => None,
    })
}

/// Returns the column with the names.
fn column(plan: &LogicalPlan) -> Option<Column> {
    plan.schema().columns().into_iter().find(|column| column.name == NAME)
}

fn is_scan(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::TableScan(_))
}

fn is_call(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(function) if function.name() == "input_file_name")
}

fn find_call(expr: &Expr) -> Option<Expr> {
    let mut found = None;
    // The traversal itself does not fail.
    let _ = expr.exists(|expr| {
        if is_call(expr) {
            found = Some(expr.clone());
        }
        Ok(found.is_some())
    });
    found
}
