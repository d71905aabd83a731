//! Expressions beside `unnest`.
//!
//! The planner computes what is beside `unnest` below it, and finds it above by its name alone. It drops an expression
//! whose name another one has there, which so took its place:
//!
//! * `b + 1 AS b` became `b`. The column `b` is there, too, because an expression refers to it.
//! * `CAST(b AS BIGINT)` became `b`, because the engine names a cast by its operand; so did the key of a `GROUP BY`.
//!
//! Where columns have the names of their tables, such queries failed. A cast is passed to [`function`], and so has
//! another name. An item whose alias is a name in the list is passed to it together with `unnest`, so that the planner
//! computes it above. [`BesideUnnest`](crate::beside_unnest::BesideUnnest) removes the calls.

use std::mem;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, Function, GroupByExpr, Ident, ObjectNamePart, OrderBy, OrderByKind, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, VisitorMut, WildcardAdditionalOptions,
};

use super::parts;
use crate::beside_unnest::NAME;
use crate::syntax::Tree;

/// Corrects the items beside `unnest`, and the clauses whose expressions the planner compares with them.
pub fn correct(select: &mut Select) {
    if !has_unnest(select) {
        return;
    }
    let Select { distinct, projection, group_by, having, qualify, .. } = select;
    let list = List::of(projection);
    for item in &mut *projection {
        separate(item, &list);
    }
    let items = projection.iter_mut().filter(|item| !is_unnamed_unnest(item)).flat_map(exprs);
    items.for_each(|expr| mark_casts(expr));
    if let Some(Distinct::On(keys)) = distinct {
        mark_casts(keys);
    }
    mark_casts(group_by);
    mark_casts(having);
    mark_casts(qualify);
}

/// Corrects the `ORDER BY` of a `SELECT`.
pub fn correct_order(order_by: &mut OrderBy, select: &mut Select) {
    if let OrderByKind::Expressions(keys) = &mut order_by.kind
        && has_unnest(select)
    {
        mark_casts(keys);
    }
}

/// Whether the rows of a `SELECT` are those of `unnest` in its list or its keys.
pub fn has_unnest(select: &mut Select) -> bool {
    let mut list = List::of(&mut select.projection);
    if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
        list.visit(keys);
    }
    if let Some(Distinct::On(keys)) = &mut select.distinct {
        list.visit(keys);
    }
    !list.unnests.is_empty()
}

/// Whether [`correct`] gives the expression of an unnamed item another name.
pub fn is_rewritten(expr: &Expr) -> bool {
    !is_unnest(expr) && expr.has_expr(&mut is_cast)
}

/// Returns the expressions of an item.
fn exprs(item: &mut SelectItem) -> Vec<&mut Expr> {
    match item {
        SelectItem::UnnamedExpr(expr)
        | SelectItem::ExprWithAlias { expr, .. }
        | SelectItem::ExprWithAliases { expr, .. } => vec![expr],
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(_), options)
        | SelectItem::Wildcard(options) => replaced(options).map(|(expr, _)| expr).collect(),
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::Expr(_), _) => Vec::new(),
    }
}

/// Returns the expressions of `* REPLACE`, and the names of their columns.
fn replaced(options: &mut WildcardAdditionalOptions) -> impl Iterator<Item = (&mut Expr, &Ident)> {
    let items = options.opt_replace.iter_mut().flat_map(|replace| &mut replace.items);
    items.map(|item| (&mut item.expr, &item.column_name))
}

/// Computes an item above `unnest` if a column of its name could take its place.
fn separate(item: &mut SelectItem, list: &List) {
    match item {
        SelectItem::ExprWithAlias { expr, alias } => list.separate(expr, alias),
        SelectItem::QualifiedWildcard(_, options) | SelectItem::Wildcard(options) => {
            replaced(options).for_each(|(expr, name)| list.separate(expr, name));
        }
        SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAliases { .. } => {}
    }
}

/// The calls and names in the expressions of a list, without those in subqueries.
#[derive(Default)]
struct List {
    /// The calls of `unnest`, and whether each is an operand.
    unnests: Vec<(Expr, bool)>,
    /// The names outside of them.
    names: Vec<Ident>,
    /// The numbers of subqueries, of calls of `unnest`, and of expressions around the visited one.
    subqueries: usize,
    calls: usize,
    exprs: usize,
}

impl List {
    fn of(items: &mut [SelectItem]) -> Self {
        let mut list = Self::default();
        items.iter_mut().flat_map(exprs).for_each(|expr| list.visit(expr));
        list
    }

    fn visit(&mut self, part: &mut dyn Tree) {
        let _ = part.visit_mut(self);
    }

    fn separate(&self, expr: &mut Expr, name: &Ident) {
        let mut own = Self::default();
        own.visit(expr);
        // A struct can be unnested as a whole item only.
        let unnest = self.unnests.iter().max_by_key(|(_, is_operand)| *is_operand);
        if let Some((unnest, _)) = unnest
            && own.unnests.is_empty()
            && self.names.iter().any(|other| other.value.eq_ignore_ascii_case(&name.value))
        {
            *expr = parts::call(NAME, vec![mem::replace(expr, parts::null()), unnest.clone()]);
        }
    }
}

impl VisitorMut for List {
    type Break = String;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<String> {
        self.subqueries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<String> {
        self.subqueries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<String> {
        if self.subqueries == 0 {
            match expr {
                _ if is_unnest(expr) => {
                    if self.calls == 0 {
                        self.unnests.push((expr.clone(), self.exprs > 0));
                    }
                    self.calls += 1;
                }
                _ if self.calls > 0 => {}
                Expr::Identifier(name) => self.names.push(name.clone()),
                // Any of them may be the column.
                Expr::CompoundIdentifier(parts) => self.names.extend_from_slice(parts),
                _ => {}
            }
        }
        self.exprs += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<String> {
        self.exprs -= 1;
        if self.subqueries == 0 && is_unnest(expr) {
            self.calls -= 1;
        }
        ControlFlow::Continue(())
    }
}

fn mark_casts(part: &mut dyn Tree) {
    let _ = part.visit_mut(&mut CastMarks { subqueries: 0 });
}

/// Passes casts to the function, except in subqueries.
struct CastMarks {
    subqueries: usize,
}

impl VisitorMut for CastMarks {
    type Break = String;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<String> {
        self.subqueries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<String> {
        self.subqueries -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<String> {
        if self.subqueries == 0 && is_cast(expr) {
            *expr = parts::call(NAME, vec![mem::replace(expr, parts::null())]);
        }
        ControlFlow::Continue(())
    }
}

fn is_cast(expr: &Expr) -> bool {
    // The planner needs some literals as they are.
    matches!(expr, Expr::Cast { expr: operand, .. } if !matches!(operand.as_ref(), Expr::Value(_)))
}

fn is_unnest(expr: &Expr) -> bool {
    let Expr::Function(Function { name, .. }) = expr else { return false };
    let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else { return false };
    ["unnest", "unnest_outer"].iter().any(|unnest| name.value.eq_ignore_ascii_case(unnest))
}

/// Whether an item is named by what it unnests, which may be the fields of a struct.
fn is_unnamed_unnest(item: &SelectItem) -> bool {
    matches!(item, SelectItem::UnnamedExpr(expr) if is_unnest(expr))
}
