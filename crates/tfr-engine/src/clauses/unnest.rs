//! Expressions beside `unnest`.
//!
//! The planner computes what is beside `unnest` below it, and finds it above by its name alone. It drops an expression
//! whose name another one has there, which so took its place: `b + 1 AS b` became `b`. The column `b` is there, too,
//! because an expression refers to it. Where columns have the names of their tables, such queries failed.
//!
//! An item whose alias is a name in the list is passed to a function together with `unnest`, so that the planner
//! computes it above. [`own_names`](crate::own_names) has the function, and removes its calls from plans.

use std::mem;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, GroupByExpr, Ident, ObjectNamePart, Select, SelectItem, SelectItemQualifiedWildcardKind,
    TableWithJoins, WildcardAdditionalOptions,
};

use super::{parts, tables};
use crate::own_names::NAME;
use crate::syntax::{OwnExprs, Tree, visit_own_exprs};

/// Corrects the items beside `unnest`.
pub fn correct(projection: &mut [SelectItem], from: &[TableWithJoins]) {
    let tables = tables::names(from);
    let list = List::of(projection, &tables);
    projection.iter_mut().for_each(|item| list.separate(item));
}

/// Returns the calls of `unnest` in the list of a `SELECT` and in its keys.
pub fn calls(select: &mut Select) -> Vec<Expr> {
    let mut list = List::of(&mut select.projection, &[]);
    if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
        list.visit(keys);
    }
    list.unnests.into_iter().map(|unnest| unnest.call).collect()
}

/// Returns the expressions of an item.
pub fn exprs(item: &mut SelectItem) -> Vec<&mut Expr> {
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
    /// Whether each expression around the visited one is a call of `unnest`.
    around: Vec<bool>,
}

struct Unnest {
    call: Expr,
    /// The number of steps that the planner takes for it: `unnest(unnest(l))` of a list of lists is one.
    steps: usize,
    /// The number of calls of `unnest` in it, with itself.
    calls: usize,
    /// The number of expressions around it.
    exprs: usize,
}

impl<'a> List<'a> {
    fn of(items: &mut [SelectItem], tables: &'a [String]) -> Self {
        let mut list = Self { tables, ..Self::default() };
        items.iter_mut().flat_map(exprs).for_each(|expr| list.visit(expr));
        list
    }

    fn visit(&mut self, part: &mut dyn Tree) {
        let _ = visit_own_exprs(part, self);
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

impl OwnExprs for List<'_> {
    fn enter(&mut self, expr: &mut Expr) -> ControlFlow<String> {
        let is_call = is_unnest(expr);
        let is_inside = self.around.contains(&true);
        if is_call && !is_inside {
            self.unnests.push(Unnest { call: expr.clone(), steps: 0, calls: 0, exprs: self.around.len() });
        }
        if is_call && let Some(unnest) = self.unnests.last_mut() {
            unnest.calls += 1;
            unnest.steps += usize::from(self.around.last() != Some(&true));
        }
        if !is_call && !is_inside {
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

    fn leave(&mut self, _: &mut Expr) -> ControlFlow<String> {
        self.around.pop();
        ControlFlow::Continue(())
    }
}

/// Whether an expression is a call of `unnest`.
pub fn is_unnest(expr: &Expr) -> bool {
    let Expr::Function(Function { name, .. }) = expr else { return false };
    let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else { return false };
    ["unnest", "unnest_outer"].iter().any(|unnest| name.value.eq_ignore_ascii_case(unnest))
}
