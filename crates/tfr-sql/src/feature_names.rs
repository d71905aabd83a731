//! Names for columns that the query computes without naming them: the text of the expression.
//!
//! The engine's names contain table names, which are paths here, and the types of literals: `l.parquet.k + Int64(1)`.
//! They would become feature names, and change with the location of the input. [`rename`] calls the column `k + 1`
//! instead.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::common::Column;
use datafusion::logical_expr::{Expr as PlanExpr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, Ident, ObjectNamePart, Query, Select, SelectItem, SetExpr, Statement, Value, VisitorMut,
};
use tfr_engine::{DoubleLiteral, Tree, VarcharCast, own_name_argument};

use crate::error::{Error, Result};

/// Renames the columns of `plan` that `statement` leaves unnamed, to the text of their expressions. Names of
/// `relations` are left out.
pub fn rename(plan: LogicalPlan, statement: &Statement, relations: &BTreeSet<String>) -> Result<LogicalPlan> {
    let Statement::Query(query) = statement else { return Ok(plan) };
    let Some(select) = first_select(&query.body) else { return Ok(plan) };
    let columns = plan.schema().columns();
    let mut names: Vec<Option<String>> = vec![None; columns.len()];
    // Items that expand to several columns may precede and follow items that are one column.
    let single = |item: &&SelectItem| is_single(item);
    let items = &select.projection;
    let before = items.iter().take_while(single).count();
    let after = if before == items.len() { 0 } else { items.iter().rev().take_while(single).count() };
    if before + after > columns.len() || (before == items.len() && before != columns.len()) {
        return Ok(plan);
    }
    for (name, item) in names.iter_mut().zip(items.iter().take(before)) {
        *name = unnamed(item, relations);
    }
    for (name, item) in names.iter_mut().rev().zip(items.iter().rev().take(after)) {
        *name = unnamed(item, relations);
    }
    if items.iter().any(is_unnest) {
        // Of the columns between, those of `*` have the names of the table's columns.
        let between = before..columns.len() - after;
        for (name, column) in names[between.clone()].iter_mut().zip(&columns[between]) {
            *name = without_relations(column, relations);
        }
    }
    if names.iter().zip(&columns).all(|(name, column)| name.as_ref().is_none_or(|name| *name == column.name)) {
        return Ok(plan);
    }
    let mut used = BTreeSet::new();
    for (name, column) in names.iter().zip(&columns) {
        if !used.insert(name.as_ref().unwrap_or(&column.name))
            && names.iter().flatten().any(|made| made == name.as_ref().unwrap_or(&column.name))
        {
            return Err(Error::AmbiguousName(name.as_ref().unwrap_or(&column.name).clone()));
        }
    }
    let exprs: Vec<_> = names
        .into_iter()
        .zip(columns)
        .map(|(name, column)| match name {
            Some(name) => PlanExpr::Column(column).alias(name),
            None => PlanExpr::Column(column),
        })
        .collect();
    Ok(LogicalPlanBuilder::from(plan).project(exprs).and_then(LogicalPlanBuilder::build)?)
}

/// Names the unnamed expressions of the queries inside `statement`, whose names `SELECT *` passes on. Also names those
/// with a subquery, to which the engine would all give the same name. Returns whether it named any.
pub fn name_inner(statement: &mut Statement, relations: &BTreeSet<String>) -> bool {
    let mut naming = InnerNames { relations, depth: 0, named: false };
    let _ = statement.visit_mut(&mut naming);
    naming.named
}

struct InnerNames<'a> {
    relations: &'a BTreeSet<String>,
    /// The number of queries around the current one.
    depth: usize,
    named: bool,
}

impl VisitorMut for InnerNames<'_> {
    type Break = String;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<String> {
        self.depth += 1;
        let inner = self.depth > 1;
        if let Some(select) = first_select_mut(&mut query.body) {
            for item in &mut select.projection {
                let SelectItem::UnnamedExpr(expr) = &*item else { continue };
                if !(inner || has_query(expr)) || !is_single(item) {
                    continue;
                }
                if let Some(name) = unnamed(item, self.relations) {
                    let SelectItem::UnnamedExpr(expr) = &*item else { continue };
                    *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::with_quote('"', name) };
                    self.named = true;
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<String> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}

/// Returns the query whose column names the result has.
fn first_select(body: &SetExpr) -> Option<&Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::Query(query) => first_select(&query.body),
        SetExpr::SetOperation { left, .. } => first_select(left),
        _ => None,
    }
}

fn first_select_mut(body: &mut SetExpr) -> Option<&mut Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        // It is visited on its own.
        SetExpr::Query(_) => None,
        SetExpr::SetOperation { left, .. } => first_select_mut(left),
        _ => None,
    }
}

/// Whether an item is one column: neither `*` nor the expanded fields of a struct.
fn is_single(item: &SelectItem) -> bool {
    matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. }) && !is_unnest(item)
}

/// Whether an item expands a list to rows, or a struct to columns.
fn is_unnest(item: &SelectItem) -> bool {
    match item {
        SelectItem::UnnamedExpr(Expr::Function(function)) => function.name.to_string().eq_ignore_ascii_case("unnest"),
        _ => false,
    }
}

/// Returns the name of a column of an `unnest` without tables in it: `s.a` for `l.parquet.s.a`, `unnest(l)` for
/// `UNNEST(l.parquet.l)`. `None` for other columns.
fn without_relations(column: &Column, relations: &BTreeSet<String>) -> Option<String> {
    if column.relation.is_some() {
        return None;
    }
    let mut name = match column.name.strip_prefix("UNNEST(") {
        Some(list) => format!("unnest({list}"),
        None => column.name.clone(),
    };
    // A name may be the end of a longer one.
    let mut relations: Vec<_> = relations.iter().map(|relation| format!("{relation}.")).collect();
    relations.sort_by_key(|relation| std::cmp::Reverse(relation.len()));
    for relation in relations {
        loop {
            let mut places = name.match_indices(&relation).map(|(at, _)| at);
            let Some(at) = places.find(|at| begins_name(&name[..*at])) else { break };
            name.replace_range(at..at + relation.len(), "");
        }
    }
    Some(name)
}

/// Whether a name can begin after this text.
fn begins_name(before: &str) -> bool {
    before.is_empty() || before.ends_with(['(', ',', ' ', '[', '"'])
}

fn has_query(expr: &Expr) -> bool {
    expr.has_expr(&mut |expr| {
        matches!(
            expr,
            Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } | Expr::AnyOp { .. } | Expr::AllOp { .. }
        )
    })
}

/// Returns a name for an item that has none and is not a column.
fn unnamed(item: &SelectItem, relations: &BTreeSet<String>) -> Option<String> {
    let SelectItem::UnnamedExpr(expr) = item else { return None };
    let mut expr = expr.clone();
    while let Expr::Nested(inner) = expr {
        expr = *inner;
    }
    expr.each_expr(&mut |expr| {
        if let Some(digits) = DoubleLiteral::digits(expr) {
            *expr = Expr::value(Value::Number(digits.to_owned(), false));
        }
        if let Some(written) = own_name_argument(expr) {
            *expr = written.clone();
        }
        if let Some(written) = VarcharCast::written(expr) {
            *expr = written;
        }
        match expr {
            Expr::Identifier(name) => plain(name),
            Expr::CompoundIdentifier(parts) => {
                // A struct field is written like the column of a table.
                if parts.len() > 1 && parts.first().is_some_and(|first| relations.contains(&first.value)) {
                    parts.remove(0);
                }
                parts.iter_mut().for_each(plain);
            }
            Expr::Function(Function { name, .. }) => {
                for part in &mut name.0 {
                    if let ObjectNamePart::Identifier(name) = part
                        && name.quote_style.is_none()
                    {
                        name.value = name.value.to_lowercase();
                    }
                }
            }
            _ => {}
        }
    });
    // The table of a subquery may be a path: only the name of the file stays, so that the column keeps its name elsewhere.
    expr.each_relation(&mut |relation| {
        if let [ObjectNamePart::Identifier(path)] = relation.0.as_mut_slice()
            && path.quote_style.is_some()
            && let Some((_, name)) = path.value.trim_end_matches('/').rsplit_once('/')
        {
            path.value = name.to_owned();
        }
    });
    match &expr {
        Expr::Identifier(_) => None,
        Expr::CompoundIdentifier(parts) if parts.len() == 1 => None,
        expr => Some(expr.to_string()),
    }
}

/// Removes unnecessary quotes.
fn plain(name: &mut Ident) {
    let word = |character: char| character.is_alphanumeric() || character == '_';
    if name.value.chars().all(word) && !name.value.starts_with(|first: char| first.is_numeric()) {
        name.quote_style = None;
    }
}
