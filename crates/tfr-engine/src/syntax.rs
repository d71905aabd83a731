//! Parts of syntax trees, and traversals of them.
//!
//! Upstream: ours (shared by other modules).

use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, GroupByExpr,
    Ident, ObjectName, OrderByExpr, PipeOperator, Query, Select, Statement as SqlStatement, TableFactor,
    TableWithJoins, ValueWithSpan, Values, Visit, VisitMut, Visitor, VisitorMut,
};

/// Returns a function call.
pub fn call(name: &str, args: impl IntoIterator<Item = Expr>) -> Expr {
    let argument = |expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr));
    Expr::Function(Function {
        name: ObjectName::from(Ident::new(name)),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: args.into_iter().map(argument).collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// A part of a syntax tree that can be visited.
///
/// The parser's own `visit` is generic, and a copy of it for one more type of visitor has a third of a megabyte of code. These methods
/// exist once: they take any visitor.
pub trait Tree {
    /// Visits the part and all nodes in it, which the visitor may change. Returns why the visitor stopped.
    fn visit_mut(&mut self, visitor: &mut dyn VisitorMut<Break = String>) -> ControlFlow<String>;

    /// Whether `is_wanted` is true of an expression in the part.
    fn has_expr(&self, is_wanted: &mut dyn FnMut(&Expr) -> bool) -> bool;

    /// Whether `is_wanted` is true of the name of a table in the part.
    fn has_relation(&self, is_wanted: &mut dyn FnMut(&ObjectName) -> bool) -> bool;

    /// Calls `change` for each expression in the part, the operands before the whole.
    fn each_expr(&mut self, change: &mut dyn FnMut(&mut Expr)) {
        let _ = self.visit_mut(&mut EachExpr(change));
    }

    /// Calls `change` for the name of each table in the part.
    fn each_relation(&mut self, change: &mut dyn FnMut(&mut ObjectName)) {
        let _ = self.visit_mut(&mut EachRelation(change));
    }
}

macro_rules! trees {
    ($($node:ty),* $(,)?) => {$(
        impl Tree for $node {
            fn visit_mut(&mut self, visitor: &mut dyn VisitorMut<Break = String>) -> ControlFlow<String> {
                VisitMut::visit(self, &mut AnyVisitor(visitor))
            }

            fn has_expr(&self, is_wanted: &mut dyn FnMut(&Expr) -> bool) -> bool {
                self.visit(&mut Search { is_expr: is_wanted, is_relation: &mut |_| false }).is_break()
            }

            fn has_relation(&self, is_wanted: &mut dyn FnMut(&ObjectName) -> bool) -> bool {
                self.visit(&mut Search { is_expr: &mut |_| false, is_relation: is_wanted }).is_break()
            }
        }
    )*};
}

trees!(
    SqlStatement,
    Query,
    Expr,
    Vec<Expr>,
    Option<Expr>,
    Option<Distinct>,
    Vec<TableWithJoins>,
    GroupByExpr,
    Vec<OrderByExpr>,
    Values,
    PipeOperator,
);

/// Visits a statement, including those in `COPY` and `EXPLAIN`.
pub fn visit(statement: &mut Statement, visitor: &mut dyn VisitorMut<Break = String>) -> ControlFlow<String> {
    match statement {
        Statement::Statement(statement) => statement.visit_mut(visitor),
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => query.visit_mut(visitor),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        Statement::Explain(explain) => visit(&mut explain.statement, visitor),
        _ => ControlFlow::Continue(()),
    }
}

/// A visitor of the expressions of a part that are not in its subqueries, which have windows and names of their own.
pub trait OwnExprs {
    /// Called before the operands of an expression are visited.
    fn enter(&mut self, _: &mut Expr) -> ControlFlow<String> {
        ControlFlow::Continue(())
    }

    /// Called after the operands of an expression have been visited.
    fn leave(&mut self, _: &mut Expr) -> ControlFlow<String> {
        ControlFlow::Continue(())
    }
}

/// Visits the expressions of a part, except in subqueries.
pub fn visit_own_exprs(part: &mut dyn Tree, visitor: &mut dyn OwnExprs) -> ControlFlow<String> {
    part.visit_mut(&mut OutsideOfSubqueries { visitor, subqueries: 0 })
}

struct OutsideOfSubqueries<'a> {
    visitor: &'a mut dyn OwnExprs,
    /// The number of subqueries around the visited node.
    subqueries: usize,
}

impl VisitorMut for OutsideOfSubqueries<'_> {
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
        if self.subqueries == 0 { self.visitor.enter(expr) } else { ControlFlow::Continue(()) }
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<String> {
        if self.subqueries == 0 { self.visitor.leave(expr) } else { ControlFlow::Continue(()) }
    }
}

/// The one visitor for which the parser's traversal is compiled.
struct AnyVisitor<'a>(&'a mut dyn VisitorMut<Break = String>);

macro_rules! forwarded {
    ($($method:ident: $node:ty),* $(,)?) => {$(
        fn $method(&mut self, node: &mut $node) -> ControlFlow<String> {
            self.0.$method(node)
        }
    )*};
}

impl VisitorMut for AnyVisitor<'_> {
    type Break = String;

    forwarded!(
        pre_visit_query: Query,
        post_visit_query: Query,
        pre_visit_select: Select,
        post_visit_select: Select,
        pre_visit_relation: ObjectName,
        post_visit_relation: ObjectName,
        pre_visit_table_factor: TableFactor,
        post_visit_table_factor: TableFactor,
        pre_visit_expr: Expr,
        post_visit_expr: Expr,
        pre_visit_statement: SqlStatement,
        post_visit_statement: SqlStatement,
        pre_visit_value: ValueWithSpan,
        post_visit_value: ValueWithSpan,
    );
}

struct EachExpr<'a>(&'a mut dyn FnMut(&mut Expr));

impl VisitorMut for EachExpr<'_> {
    type Break = String;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<String> {
        (self.0)(expr);
        ControlFlow::Continue(())
    }
}

struct EachRelation<'a>(&'a mut dyn FnMut(&mut ObjectName));

impl VisitorMut for EachRelation<'_> {
    type Break = String;

    fn post_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<String> {
        (self.0)(relation);
        ControlFlow::Continue(())
    }
}

/// Stops at the first node that is wanted.
struct Search<'a> {
    is_expr: &'a mut dyn FnMut(&Expr) -> bool,
    is_relation: &'a mut dyn FnMut(&ObjectName) -> bool,
}

impl Visitor for Search<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        stop_if((self.is_expr)(expr))
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        stop_if((self.is_relation)(relation))
    }
}

fn stop_if(is_wanted: bool) -> ControlFlow<()> {
    if is_wanted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}
