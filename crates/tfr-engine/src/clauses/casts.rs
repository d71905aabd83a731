//! Casts, which the engine names by their operands.
//!
//! The planner finds expressions by their names. So it took `CAST(b AS BIGINT)` for `b` beside `unnest`, also as a key of
//! `GROUP BY`, and refused aggregates, windows and keys that differ by a cast alone: `sum(v), sum(v::INT)`. Where that
//! could happen, casts are passed to a function, and so have names of their own. The same is done for an unnamed cast next to
//! its column, whose name it would have: `SELECT v, v::INT`. [`own_names`](crate::own_names) has the function, and removes its
//! calls from plans.

use std::collections::BTreeSet;
use std::mem;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, NamedWindowDefinition,
    NamedWindowExpr, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr, Value, ValueWithSpan,
};

use super::{functions, parts, unnest};
use crate::own_names::NAME;
use crate::syntax::{OwnExprs, Tree, visit_own_exprs};
use crate::time_zones::AtTimeZone;

/// Passes casts to the function, except in subqueries.
#[derive(Clone)]
pub struct CastMarks {
    /// Whether those in calls of `unnest` are, too. It is not always so, because an unnamed column has the name of the
    /// call.
    in_unnest: bool,
    /// The number of calls of `unnest` around the visited expression.
    unnests: usize,
}

impl CastMarks {
    /// Returns `None` if the planner confuses no casts in the `SELECT`. `ordered_by` are the calls of aggregates and window
    /// functions in the `ORDER BY` of its rows.
    pub fn of(select: &mut Select, ordered_by: &[Expr]) -> Option<Self> {
        let unnests = unnest::calls(select);
        let has_unnest = !unnests.is_empty();
        let in_unnest = differ_by_casts_alone(unnests);
        let calls = calls(select).into_iter().chain(ordered_by.iter().cloned()).collect();
        let are_marked = has_unnest
            || differ_by_casts_alone(keys(select))
            || differ_by_casts_alone(calls)
            || have_names_of_columns(&select.projection);
        are_marked.then_some(Self { in_unnest, unnests: 0 })
    }

    /// Marks the casts of a `SELECT` in all clauses whose expressions the planner compares.
    pub fn mark(&self, select: &mut Select) {
        let Select { distinct, projection, group_by, having, named_window, qualify, .. } = select;
        self.mark_part(distinct);
        projection.iter_mut().flat_map(unnest::exprs).for_each(|expr| self.mark_part(expr));
        for NamedWindowDefinition(_, window) in named_window {
            if let NamedWindowExpr::WindowSpec(window) = window {
                self.mark_part(&mut window.partition_by);
                self.mark_part(&mut window.order_by);
            }
        }
        self.mark_part(group_by);
        self.mark_part(having);
        self.mark_part(qualify);
    }

    /// Marks the casts of the `ORDER BY` of the `SELECT`.
    pub fn mark_order(&self, order_by: &mut OrderBy) {
        if let OrderByKind::Expressions(keys) = &mut order_by.kind {
            self.mark_part(keys);
        }
    }

    fn mark_part(&self, part: &mut dyn Tree) {
        let _ = visit_own_exprs(part, &mut self.clone());
    }
}

impl OwnExprs for CastMarks {
    fn enter(&mut self, expr: &mut Expr) -> ControlFlow<String> {
        self.unnests += usize::from(unnest::is_unnest(expr));
        ControlFlow::Continue(())
    }

    fn leave(&mut self, expr: &mut Expr) -> ControlFlow<String> {
        self.unnests -= usize::from(unnest::is_unnest(expr));
        if (self.unnests == 0 || self.in_unnest) && is_cast(expr) {
            *expr = parts::call(NAME, vec![mem::replace(expr, parts::null())]);
        }
        ControlFlow::Continue(())
    }
}

/// Returns the keys of a `GROUP BY`. A number or an alias is the item of the list.
fn keys(select: &Select) -> Vec<Expr> {
    let keys = match &select.group_by {
        GroupByExpr::Expressions(keys, _) => keys.iter().flat_map(|key| match key {
            Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets) => sets.iter().flatten().collect(),
            key => vec![key],
        }),
        // The items that are no aggregates.
        GroupByExpr::All(_) => return select.projection.iter().filter_map(expr_of).cloned().collect(),
    };
    let item = |key: &Expr| match key {
        Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => {
            let place = digits.parse::<usize>().ok()?.checked_sub(1)?;
            expr_of(select.projection.get(place)?)
        }
        Expr::Identifier(name) => select.projection.iter().find_map(|item| match item {
            SelectItem::ExprWithAlias { expr, alias } if alias.value.eq_ignore_ascii_case(&name.value) => Some(expr),
            _ => None,
        }),
        _ => None,
    };
    keys.map(|key| item(key).unwrap_or(key).clone()).collect()
}

/// Whether unnamed casts of columns would have the names of the columns, and other items have these.
fn have_names_of_columns(items: &[SelectItem]) -> bool {
    let (mut names, mut texts) = (BTreeSet::new(), BTreeSet::new());
    let (mut has_cast, mut is_repeated, mut has_wildcard) = (false, false, false);
    for item in items {
        let SelectItem::UnnamedExpr(expr) = item else {
            has_wildcard |= matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
            continue;
        };
        let column = std::iter::successors(Some(expr), |expr| operand(expr)).last();
        let name = match column {
            Some(Expr::Identifier(name)) => name,
            Some(Expr::CompoundIdentifier(names)) if let Some(name) = names.last() => name,
            _ => continue,
        };
        has_cast |= operand(expr).is_some();
        is_repeated |= !names.insert(name.value.to_lowercase());
        if !texts.insert(expr.to_string()) {
            // Two equal items stay an error.
            return false;
        }
    }
    has_cast && (is_repeated || has_wildcard)
}

fn expr_of(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

/// Returns the calls of aggregates and window functions in the list of a `SELECT`, `HAVING` and `QUALIFY`.
fn calls(select: &mut Select) -> Vec<Expr> {
    let Select { projection, having, qualify, .. } = select;
    let mut calls = Calls::default();
    for expr in projection.iter_mut().flat_map(unnest::exprs).chain(having).chain(qualify) {
        let _ = visit_own_exprs(expr, &mut calls);
    }
    calls.0
}

/// Returns the calls of aggregates and window functions in the `ORDER BY` of a query, if that is of the rows of one
/// `SELECT`.
pub fn calls_in_order(query: &mut Query) -> Vec<Expr> {
    let mut calls = Calls::default();
    if matches!(*query.body, SetExpr::Select(_))
        && let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = &mut query.order_by
    {
        let _ = visit_own_exprs(keys, &mut calls);
    }
    calls.0
}

/// Collects calls of aggregates and window functions.
#[derive(Default)]
struct Calls(Vec<Expr>);

impl OwnExprs for Calls {
    fn enter(&mut self, expr: &mut Expr) -> ControlFlow<String> {
        if matches!(expr, Expr::Function(call) if functions::is_aggregate_or_window(call)) {
            self.0.push(expr.clone());
        }
        ControlFlow::Continue(())
    }
}

/// Whether expressions that differ are equal without their casts.
fn differ_by_casts_alone(exprs: Vec<Expr>) -> bool {
    // Names are the same in capital letters, and in quotes.
    let name = |text: String| text.to_lowercase().replace('"', "");
    let exprs: Vec<_> = exprs.into_iter().map(without_tables).collect();
    let texts: BTreeSet<_> = exprs.iter().map(|expr| name(expr.to_string())).collect();
    let names: BTreeSet<_> = exprs.into_iter().map(|expr| name(without_casts(expr))).collect();
    names.len() < texts.len()
}

/// Returns an expression without the tables of its columns, which may be named or not.
fn without_tables(mut expr: Expr) -> Expr {
    expr.each_expr(&mut |expr| {
        if let Expr::CompoundIdentifier(names) = expr
            && let Some(column) = names.pop()
        {
            *expr = Expr::Identifier(column);
        }
    });
    expr
}

/// Returns the text of an expression without its casts.
fn without_casts(mut expr: Expr) -> String {
    expr.each_expr(&mut |expr| {
        while let Some(operand) = operand(expr) {
            *expr = operand.clone();
        }
    });
    expr.to_string()
}

fn is_cast(expr: &Expr) -> bool {
    operand(expr).is_some() && !matches!(expr, Expr::Nested(_))
}

/// Returns the operand of a cast, or what is in parentheses: the engine gives both the same name.
fn operand(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::Nested(expr) | Expr::Cast { expr, .. } | Expr::Convert { expr, .. } => Some(expr),
        Expr::AtTimeZone { timestamp, .. } => Some(timestamp),
        Expr::Function(Function { name, args: FunctionArguments::List(list), .. })
            if name.to_string() == AtTimeZone::NAME =>
        {
            match list.args.first()? {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(timestamp)) => Some(timestamp),
                _ => None,
            }
        }
        _ => None,
    }
}
