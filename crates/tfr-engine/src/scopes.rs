//! Names of columns whose scope the engine's planner gets wrong, or takes for something else:
//!
//! * the key of `USING (k)` in a subquery. The planner sees two columns `k`, and so looked for `k` in the outer query
//!   first: `WHERE k IN (SELECT k FROM t b JOIN t c USING (k))` compared the outer `k` with itself. The key becomes the
//!   column of the joined table that has it. Names beside a `NATURAL JOIN` in a subquery are refused, because the keys
//!   are not known before planning.
//! * a name in an expression of `ORDER BY`. The planner took it for the alias of an output column, although there is an
//!   input column of that name. Such names are marked here, and [`OrderNames`](crate::order_names::OrderNames) resolves
//!   them.
//! * `count(t.*)`, which counted all rows.
//!
//! Upstream: unreported. Held by `tests/slt/scopes.slt`: The key of USING in a subquery is that of the join.

use std::ops::ControlFlow;

use datafusion::error::DataFusionError;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, JoinConstraint, JoinOperator, ObjectName,
    OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor, TableWithJoins, VisitorMut,
};

use crate::order_names;
use crate::syntax::{OwnExprs, Tree, visit, visit_own_exprs};

/// Corrects the names in a statement, or rejects them.
pub fn correct(statement: &mut Statement) -> Result<(), DataFusionError> {
    match visit(statement, &mut Scopes::default()) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(message) => Err(DataFusionError::Plan(message)),
    }
}

/// The scopes around the visited expression, from the outermost to the innermost.
#[derive(Default)]
struct Scopes {
    scopes: Vec<Scope>,
    /// The number of expressions around the visited one in its query.
    expressions: usize,
    /// Whether the next query is `LATERAL`.
    is_lateral: bool,
    /// Whether the visited name is marked, and resolved later.
    is_marked: bool,
}

/// The names of a query, of one of its terms, or of a lambda function.
#[derive(Default)]
struct Scope {
    kind: Kind,
    keys: Vec<Key>,
    /// Whether a `NATURAL JOIN` adds unknown keys.
    is_natural: bool,
    /// The parameters of a lambda function.
    parameters: Vec<Ident>,
    /// The names of the output columns.
    aliases: Vec<Ident>,
    order_by: Option<OrderBy>,
    /// The number of expressions around the query in the query around it.
    expressions: usize,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A subquery that may refer to columns around it.
    Correlated,
    /// A query that may not: the statement, a derived table or a common table expression.
    #[default]
    Separate,
    /// A part of a query.
    Part,
}

/// The key of a join with `USING`.
struct Key {
    name: Ident,
    /// The name of the table whose column it is, if that is known.
    table: Option<Vec<Ident>>,
}

impl Scope {
    fn of(select: &Select, kind: Kind) -> Self {
        let mut scope = Self { kind, ..Self::default() };
        for from in &select.from {
            scope.add_keys(from);
        }
        scope.aliases = select.projection.iter().filter_map(alias).cloned().collect();
        scope
    }

    fn add_keys(&mut self, from: &TableWithJoins) {
        if let TableFactor::NestedJoin { table_with_joins, .. } = &from.relation {
            self.add_keys(table_with_joins);
        }
        for (index, join) in from.joins.iter().enumerate() {
            if let TableFactor::NestedJoin { table_with_joins, .. } = &join.relation {
                self.add_keys(table_with_joins);
            }
            match constraint(&join.join_operator) {
                Some((JoinConstraint::Using(names), keeps_right)) => {
                    for name in names.iter().filter_map(column) {
                        // The key of an earlier join is its first table's.
                        if self.keys.iter().any(|key| key.name.value == name.value) {
                            continue;
                        }
                        let table = if keeps_right {
                            table_name(&join.relation)
                        } else if index == 0 {
                            table_name(&from.relation)
                        } else {
                            None
                        };
                        self.keys.push(Key { name: name.clone(), table });
                    }
                }
                Some((JoinConstraint::Natural, _)) => self.is_natural = true,
                _ => {}
            }
        }
    }
}

/// Returns the constraint of a join, and whether only columns of the right side are in the result.
pub fn constraint(join: &JoinOperator) -> Option<(&JoinConstraint, bool)> {
    match join {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint)
        | JoinOperator::CrossJoin(constraint)
        | JoinOperator::Semi(constraint)
        | JoinOperator::LeftSemi(constraint)
        | JoinOperator::Anti(constraint)
        | JoinOperator::LeftAnti(constraint)
        | JoinOperator::StraightJoin(constraint)
        | JoinOperator::AsOf { constraint, .. } => Some((constraint, false)),
        JoinOperator::RightSemi(constraint) | JoinOperator::RightAnti(constraint) => Some((constraint, true)),
        _ => None,
    }
}

fn column(name: &ObjectName) -> Option<&Ident> {
    match name.0.as_slice() {
        [part] => part.as_ident(),
        _ => None,
    }
}

/// Returns the name by which expressions refer to a table.
fn table_name(table: &TableFactor) -> Option<Vec<Ident>> {
    match table {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. }
        | TableFactor::UNNEST { alias: Some(alias), .. }
        | TableFactor::NestedJoin { alias: Some(alias), .. } => Some(vec![alias.name.clone()]),
        TableFactor::Table { alias: None, args: None, name, .. } => {
            name.0.iter().map(|part| part.as_ident().cloned()).collect()
        }
        _ => None,
    }
}

fn alias(item: &SelectItem) -> Option<&Ident> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias),
        _ => None,
    }
}

/// Whether two names are the same. A name without quotes is found regardless of case, if no other fits.
fn is_same(name: &Ident, other: &Ident) -> bool {
    match name.quote_style {
        Some(_) => name.value == other.value,
        None => name.value.eq_ignore_ascii_case(&other.value),
    }
}

impl Scopes {
    /// Whether names are searched in outer queries.
    fn has_outer(&self) -> bool {
        self.scopes.iter().any(|scope| scope.kind == Kind::Correlated)
    }

    /// Replaces a name by the key of `USING` that it means.
    fn resolve(&self, expr: &mut Expr) -> ControlFlow<String> {
        let Expr::Identifier(name) = expr else { return ControlFlow::Continue(()) };
        if self.is_marked || !self.has_outer() {
            return ControlFlow::Continue(());
        }
        let mut is_inner = false;
        for (depth, scope) in self.scopes.iter().enumerate().rev() {
            if scope.parameters.iter().any(|parameter| parameter.value == name.value) {
                return ControlFlow::Continue(());
            }
            // Further out, the planner finds nothing, and says so.
            let is_subquery = self.scopes.iter().take(depth + 1).any(|scope| scope.kind == Kind::Correlated);
            if let Some(key) = scope.keys.iter().find(|key| is_subquery && is_same(name, &key.name)) {
                let Some(table) = key.table.as_ref().filter(|_| !is_inner) else {
                    return ControlFlow::Break(format!(
                        "the name {name} without a table, in or below a subquery with USING ({}); write the table, as in \
                         b.{name}",
                        key.name
                    ));
                };
                *expr = Expr::CompoundIdentifier(table.iter().chain([&key.name]).cloned().collect());
                return ControlFlow::Continue(());
            }
            if scope.is_natural && is_subquery {
                return ControlFlow::Break(format!(
                    "the name {name} without a table, in or below a subquery with NATURAL JOIN; write the table, as in \
                     b.{name}, or USING in place of NATURAL"
                ));
            }
            match scope.kind {
                Kind::Separate => break,
                Kind::Correlated => is_inner = true,
                Kind::Part => {}
            }
        }
        ControlFlow::Continue(())
    }

    /// Visits the expressions of an `ORDER BY`.
    fn order(&mut self, order_by: &mut OrderBy) -> ControlFlow<String> {
        let OrderByKind::Expressions(items) = &mut order_by.kind else { return ControlFlow::Continue(()) };
        let aliases = self.scopes.last().map(|scope| scope.aliases.clone()).unwrap_or_default();
        for item in items {
            // A name as the whole expression is the alias.
            if matches!(&item.expr, Expr::Identifier(name) if aliases.iter().any(|alias| is_same(name, alias))) {
                continue;
            }
            let _ = visit_own_exprs(&mut item.expr, &mut AliasMarks(&aliases));
            item.expr.visit_mut(self)?;
        }
        ControlFlow::Continue(())
    }
}

impl VisitorMut for Scopes {
    type Break = String;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<String> {
        let is_lateral = std::mem::take(&mut self.is_lateral);
        let expressions = std::mem::take(&mut self.expressions);
        let kind = if is_lateral || expressions > 0 { Kind::Correlated } else { Kind::Separate };
        let mut scope = match query.body.as_ref() {
            SetExpr::Select(select) => Scope::of(select, kind),
            _ => Scope { kind, ..Scope::default() },
        };
        // Visited after the rest, because the engine reads some of its names differently.
        scope.order_by = query.order_by.take();
        scope.expressions = expressions;
        self.scopes.push(scope);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<String> {
        let order_by = self.scopes.last_mut().and_then(|scope| scope.order_by.take());
        let outcome = match order_by {
            Some(mut order_by) => {
                let outcome = self.order(&mut order_by);
                query.order_by = Some(order_by);
                outcome
            }
            None => ControlFlow::Continue(()),
        };
        self.expressions = self.scopes.pop().map_or(0, |scope| scope.expressions);
        outcome
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<String> {
        self.scopes.push(Scope::of(select, Kind::Part));
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<String> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<String> {
        self.is_lateral = matches!(table, TableFactor::Derived { lateral: true, .. });
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<String> {
        self.expressions += 1;
        match expr {
            Expr::Function(function) => {
                self.is_marked = order_names::is_mark(function);
                check_arguments(function)?;
            }
            Expr::Lambda(lambda) => {
                let parameters = lambda.params.iter().map(|parameter| parameter.name.clone()).collect();
                self.scopes.push(Scope { kind: Kind::Part, parameters, ..Scope::default() });
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<String> {
        self.expressions -= 1;
        if matches!(expr, Expr::Function(_)) {
            self.is_marked = false;
        }
        if matches!(expr, Expr::Lambda(_)) {
            self.scopes.pop();
        }
        self.resolve(expr)
    }
}

/// Rejects `count(t.*)`.
fn check_arguments(function: &Function) -> ControlFlow<String> {
    let FunctionArguments::List(list) = &function.args else { return ControlFlow::Continue(()) };
    for argument in &list.args {
        let (FunctionArg::Unnamed(argument)
        | FunctionArg::Named { arg: argument, .. }
        | FunctionArg::ExprNamed { arg: argument, .. }) = argument;
        if let FunctionArgExpr::QualifiedWildcard(table) = argument {
            return ControlFlow::Break(format!(
                "{name}({table}.*), whose argument is a row; write {name}(*) for all rows, or {name}({table}.k) with a column k \
                 that is NULL only where {table} has no row",
                name = function.name
            ));
        }
    }
    ControlFlow::Continue(())
}

/// Marks the names in an expression of `ORDER BY` that are aliases.
struct AliasMarks<'a>(&'a [Ident]);

impl OwnExprs for AliasMarks<'_> {
    fn leave(&mut self, expr: &mut Expr) -> ControlFlow<String> {
        if let Expr::Identifier(name) = &*expr
            && self.0.iter().any(|alias| is_same(name, alias))
        {
            *expr = order_names::marked(expr.clone());
        }
        ControlFlow::Continue(())
    }
}
