//! Clauses: nothing that the parser reads is dropped.
//!
//! The parser reads the syntax of many engines, and the engine's planner ignores much of it: `GROUP BY a WITH ROLLUP`
//! groups by `a` alone, `t PARTITION (p)` is all of `t`, and `OVER (w ORDER BY b)` forgets the window `w`. [`check`]
//! visits every node of a statement before it is planned, and decides about every field:
//!
//! * The planner reads it, or rejects it with a message of its own: it passes.
//! * It changes no value, such as `AS MATERIALIZED` and comments with hints: it passes.
//! * It means the same as other syntax: it becomes that syntax. `MINUS` becomes `EXCEPT`.
//! * Everything else is rejected by name, with another way to write it.
//!
//! The nodes are destructured without `..`, and enumerations are matched without `_`. So a field or variant that a new
//! version of the parser adds does not compile until it is decided here.
//!
//! Upstream: ours (a choice of meaning). Held by `tests/slt/clauses.slt`: Clauses that the engine ignores or rejects, and that have an equivalent.

mod casts;
mod expressions;
mod functions;
mod group_by;
mod order_by;
mod parts;
mod query;
mod rows;
mod select;
mod statement;
mod subscripts;
mod tables;
mod unnest;
mod windows;

use std::collections::VecDeque;
use std::ops::ControlFlow;

use datafusion::error::{DataFusionError, Result};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, Query, Select, TableFactor, VisitorMut};

use crate::syntax::Tree;

/// The outcome for a node. The error is the message.
type Checked<T = ()> = Result<T, String>;

/// Rejects clauses that the planner would drop, and rewrites those that have an equivalent.
pub(crate) fn check(statements: &mut VecDeque<Statement>) -> Result<()> {
    for statement in statements {
        statement::check(statement, &mut Clauses::default()).map_err(DataFusionError::Plan)?;
    }
    Ok(())
}

/// Returns the message for syntax that is not supported. `instead` is an imperative sentence.
fn refused<T>(what: impl AsRef<str>, instead: impl AsRef<str>) -> Checked<T> {
    let (what, instead) = (what.as_ref(), instead.as_ref());
    Err(match instead.is_empty() {
        true => format!("{what} is not supported"),
        false => format!("{what} is not supported; {instead}"),
    })
}

/// Visits the nodes of a statement from the outside in. Parts of a node that are no query, `SELECT`, table or
/// expression themselves are checked with the node.
#[derive(Default)]
struct Clauses {
    /// The number of expressions around the current node.
    expressions: usize,
    names: rows::Names,
    /// For each query around the current node, the calls of aggregates and window functions that order its rows.
    ordered_by: Vec<Vec<Expr>>,
}

impl Clauses {
    fn visit(&mut self, node: &mut dyn Tree) -> Checked {
        match node.visit_mut(self) {
            ControlFlow::Break(message) => Err(message),
            ControlFlow::Continue(()) => Ok(()),
        }
    }
}

fn flow(checked: Checked) -> ControlFlow<String> {
    match checked {
        Ok(()) => ControlFlow::Continue(()),
        Err(message) => ControlFlow::Break(message),
    }
}

impl VisitorMut for Clauses {
    type Break = String;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<String> {
        flow(query::check(query).map(|calls| self.ordered_by.push(calls)))
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<String> {
        self.ordered_by.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<String> {
        let ordered_by = self.ordered_by.last().map_or(&[][..], Vec::as_slice);
        flow(select::check(select, self.expressions > 0, ordered_by, &mut self.names))
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<String> {
        flow(tables::factor(table))
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<String> {
        self.expressions += 1;
        flow(expressions::check(expr, &mut self.names))
    }

    fn post_visit_expr(&mut self, _: &mut Expr) -> ControlFlow<String> {
        self.expressions -= 1;
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests;
