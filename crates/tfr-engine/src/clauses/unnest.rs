//! Expressions beside `unnest`.
//!
//! The planner computes what is beside `unnest` below it, and finds it above by its name alone. It drops an expression
//! whose name another one has there, which so took its place:
//!
//! * `b + 1 AS b` became `b`. The column `b` is there, too, because an expression refers to it.
//! * `CAST(b AS BIGINT)` became `b`, because the engine names a cast by its operand; so did the key of a `GROUP BY`.
//!
//! Where columns have the names of their tables, such queries failed. A cast is passed to a function, and so has
//! another name. An item whose alias is a name in the list is passed to it together with `unnest`, so that the planner
//! computes it above. [`beside_unnest`](crate::beside_unnest) has the function, and removes its calls from plans.

use std::collections::BTreeSet;
use std::mem;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident, ObjectNamePart, OrderBy,
    OrderByKind, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, VisitorMut, WildcardAdditionalOptions,
};

use super::{parts, tables};
use crate::beside_unnest::NAME;
use crate::syntax::Tree;
use crate::time_zones::AtTimeZone;

/// Corrects the items beside `unnest`, and the clauses whose expressions the planner compares with them.
pub fn correct(select: &mut Select) {
    let Some(casts) = CastMarks::of(select) else { return };
    let Select { projection, from, group_by, having, qualify, .. } = select;
    let tables = tables::names(from);
    let list = List::of(projection, &tables);
    projection.iter_mut().for_each(|item| list.separate(item));
    projection.iter_mut().flat_map(exprs).for_each(|expr| casts.mark(expr));
    casts.mark(group_by);
    casts.mark(having);
    casts.mark(qualify);
}

/// Corrects the `ORDER BY` of a `SELECT`.
pub fn correct_order(order_by: &mut OrderBy, select: &mut Select) {
    if let OrderByKind::Expressions(keys) = &mut order_by.kind
        && let Some(casts) = CastMarks::of(select)
    {
        casts.mark(keys);
    }
}

/// Whether the rows of a `SELECT` are those of `unnest` in its list or its keys.
pub fn has_unnest(select: &mut Select) -> bool {
    CastMarks::of(select).is_some()
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

/// The calls and names in the expressions of a list, without those in subqueries.
#[derive(Default)]
struct List<'a> {
    /// The names of the tables.
    tables: &'a [String],
    /// The calls of `unnest`.
    unnests: Vec<Unnest>,
    /// The names of columns outside of them.
    columns: Vec<Ident>,
    /// The number of subqueries around the visited expression.
    subqueries: usize,
    /// Whether each expression around the visited one is a call of `unnest`.
    around: Vec<bool>,
}

struct Unnest {
    call: Expr,
    /// The number of calls of `unnest` in it that are not the whole list of another one, of all calls, and of
    /// expressions around it.
    steps: usize,
    calls: usize,
    exprs: usize,
}

impl<'a> List<'a> {
    fn of(items: &mut [SelectItem], tables: &'a [String]) -> Self {
        let mut list = Self { tables, ..Self::default() };
        items.iter_mut().flat_map(exprs).for_each(|expr| list.visit(expr));
        list
    }

    fn visit(&mut self, part: &mut dyn Tree) {
        let _ = part.visit_mut(self);
    }

    /// Computes the expressions of an item above `unnest` if a column of their name could take their place.
    fn separate(&self, item: &mut SelectItem) {
        match item {
            SelectItem::ExprWithAlias { expr, alias } => self.separate_expr(expr, alias),
            SelectItem::QualifiedWildcard(_, options) | SelectItem::Wildcard(options) => {
                replaced(options).for_each(|(expr, name)| self.separate_expr(expr, name));
            }
            SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAliases { .. } => {}
        }
    }

    fn separate_expr(&self, expr: &mut Expr, name: &Ident) {
        let is_name = |other: &Ident| other.value.eq_ignore_ascii_case(&name.value);
        let is_column = match &*expr {
            Expr::Identifier(column) => is_name(column),
            Expr::CompoundIdentifier(parts) => parts.last().is_some_and(is_name),
            _ => false,
        };
        let mut own = Self { tables: self.tables, ..Self::default() };
        own.visit(expr);
        // The planner unnests in steps, and computes the item after the last one of this call. A struct can be unnested
        // as a whole item only.
        let unnest = self.unnests.iter().max_by_key(|unnest| (unnest.steps, unnest.calls, unnest.exprs > 0));
        if let Some(Unnest { call, .. }) = unnest
            && !is_column
            && own.unnests.is_empty()
            && self.columns.iter().any(is_name)
        {
            *expr = parts::call(NAME, vec![mem::replace(expr, parts::null()), call.clone()]);
        }
    }
}

impl VisitorMut for List<'_> {
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
        let is_call = self.subqueries == 0 && is_unnest(expr);
        let is_inside = self.around.contains(&true);
        if is_call && !is_inside {
            self.unnests.push(Unnest { call: expr.clone(), steps: 0, calls: 0, exprs: self.around.len() });
        }
        if is_call && let Some(unnest) = self.unnests.last_mut() {
            unnest.calls += 1;
            unnest.steps += usize::from(self.around.last() != Some(&true));
        }
        if self.subqueries == 0 && !is_call && !is_inside {
            match expr {
                Expr::Identifier(name) => self.columns.push(name.clone()),
                Expr::CompoundIdentifier(parts) => {
                    let is_table = |part: &&Ident| {
                        parts.len() > 1 && self.tables.iter().any(|table| table.eq_ignore_ascii_case(&part.value))
                    };
                    // A column, or one and its fields.
                    self.columns.extend(parts.iter().skip_while(is_table).cloned());
                }
                _ => {}
            }
        }
        self.around.push(is_call);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, _: &mut Expr) -> ControlFlow<String> {
        self.around.pop();
        ControlFlow::Continue(())
    }
}

/// Passes casts to the function, except in subqueries.
#[derive(Clone)]
struct CastMarks {
    /// Whether those in calls of `unnest` are, too. It is not always so, because an unnamed column has the name of the
    /// call.
    in_calls: bool,
    /// The numbers of subqueries and of calls of `unnest` around the visited expression.
    subqueries: usize,
    calls: usize,
}

impl CastMarks {
    /// Returns `None` if there is no `unnest`.
    fn of(select: &mut Select) -> Option<Self> {
        let mut list = List::of(&mut select.projection, &[]);
        if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
            list.visit(keys);
        }
        let calls: BTreeSet<_> = list.unnests.iter().map(|unnest| unnest.call.to_string()).collect();
        let names: BTreeSet<_> = list.unnests.into_iter().map(|unnest| without_casts(unnest.call)).collect();
        // Two calls differ by a cast alone.
        let in_calls = names.len() < calls.len();
        (!calls.is_empty()).then_some(Self { in_calls, subqueries: 0, calls: 0 })
    }

    fn mark(&self, part: &mut dyn Tree) {
        let _ = part.visit_mut(&mut self.clone());
    }
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

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<String> {
        self.calls += usize::from(is_unnest(expr));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<String> {
        self.calls -= usize::from(is_unnest(expr));
        let is_marked = self.subqueries == 0 && (self.calls == 0 || self.in_calls);
        if is_marked && is_cast(expr) {
            *expr = parts::call(NAME, vec![mem::replace(expr, parts::null())]);
        }
        ControlFlow::Continue(())
    }
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

fn is_unnest(expr: &Expr) -> bool {
    let Expr::Function(Function { name, .. }) = expr else { return false };
    let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else { return false };
    ["unnest", "unnest_outer"].iter().any(|unnest| name.value.eq_ignore_ascii_case(unnest))
}
