//! Limits the nesting depth of statements.
//!
//! The parser reads a chain of operators in a loop, into a tree as deep as the chain is long. All later steps traverse
//! the tree recursively, and compute operand types again at every level. Programs write chains of AND and OR with
//! thousands of terms, so these become balanced trees. Everything else has a limit.
//!
//! A common table expression is planned wherever its name is. So a few that name the one before twice make a plan of millions
//! of tables.
//!
//! Upstream: unreported. Held by `tests/slt/other_suites.slt`: Statements of other engines

use std::collections::VecDeque;
use std::ops::ControlFlow;

use datafusion::error::{DataFusionError, Result};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, ObjectNamePart, Query, SetExpr, TableFactor, Value, VisitorMut,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::syntax::visit;

/// Maximum levels of expressions, terms of a set operation, and joins of a query.
const MAX_DEPTH: usize = 1_000;

/// Maximum levels of parentheses, brackets and types. The parser has its own, lower limit for expressions.
const MAX_BRACKETS: usize = 250;

/// Maximum number of tables of a statement, where each common table expression stands for its tables wherever it is named.
const MAX_TABLES: u64 = 5_000;

/// The minimum length of an AND or OR chain that is balanced.
const LONG_CHAIN: usize = 16;

/// Rejects tokens that the parser would process recursively without a limit: those of nested types.
pub fn check_brackets(tokens: &[TokenWithSpan]) -> Result<()> {
    let (mut depth, mut types) = (0_usize, 0_usize);
    let mut before = Keyword::NoKeyword;
    for TokenWithSpan { token, .. } in tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))) {
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => depth += 1,
            Token::RParen | Token::RBracket | Token::RBrace => depth = depth.saturating_sub(1),
            Token::Lt if matches!(before, Keyword::ARRAY | Keyword::STRUCT | Keyword::MAP) => types += 1,
            Token::Gt => types = types.saturating_sub(1),
            Token::ShiftRight => types = types.saturating_sub(2),
            Token::SemiColon => (depth, types) = (0, 0),
            _ => {}
        }
        before = if let Token::Word(word) = token { word.keyword } else { Keyword::NoKeyword };
        if depth + types > MAX_BRACKETS {
            let what = if types > depth { "types" } else { "parentheses" };
            return Err(too_deep(&format!("{what} are nested"), MAX_BRACKETS));
        }
    }
    Ok(())
}

/// Balances long chains of AND and OR, and rejects other statements that are nested too deeply.
pub fn flatten(statements: &mut VecDeque<Statement>) -> Result<()> {
    let mut flattening = Flattening::default();
    for statement in statements {
        if let ControlFlow::Break(what) = visit(statement, &mut flattening) {
            return Err(too_deep(&what, MAX_DEPTH));
        }
        let mut tables = Tables::default();
        let _ = visit(statement, &mut tables);
        if tables.all > MAX_TABLES {
            return Err(DataFusionError::Plan(format!(
                "the query is too long: it has more than {MAX_TABLES} tables where each common table expression (WITH) is \
                 named; write the rows of one that is named often to a table first"
            )));
        }
    }
    Ok(())
}

fn too_deep(what: &str, limit: usize) -> DataFusionError {
    DataFusionError::Plan(format!("the query is too long: {what} more than {limit} levels deep"))
}

#[derive(Default)]
struct Flattening {
    depth: usize,
}

impl VisitorMut for Flattening {
    type Break = String;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        let mut body = query.body.as_ref();
        let mut terms = 0;
        while let SetExpr::SetOperation { left, .. } = body {
            body = left.as_ref();
            terms += 1;
        }
        if terms > MAX_DEPTH {
            return ControlFlow::Break("set operations such as UNION ALL are nested".to_owned());
        }
        let joins = |select: &SetExpr| match select {
            SetExpr::Select(select) => select.from.iter().map(|from| from.joins.len() + 1).sum(),
            _ => 0,
        };
        match joins(body) > MAX_DEPTH {
            true => ControlFlow::Break("joins are nested".to_owned()),
            false => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<Self::Break> {
        match table {
            TableFactor::NestedJoin { table_with_joins, .. } if table_with_joins.joins.len() > MAX_DEPTH => {
                ControlFlow::Break("joins are nested".to_owned())
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        balance(expr);
        self.depth += 1;
        match self.depth > MAX_DEPTH {
            true => ControlFlow::Break("expressions are nested".to_owned()),
            false => ControlFlow::Continue(()),
        }
    }

    fn post_visit_expr(&mut self, _: &mut Expr) -> ControlFlow<Self::Break> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}

/// Counts the tables of a statement.
#[derive(Default)]
struct Tables {
    /// The queries around the visited part, from the outermost to the innermost.
    queries: Vec<Counted>,
    /// The tables of all complete queries that are in no other.
    all: u64,
}

/// A query that is being visited. Its common table expressions come first.
#[derive(Default)]
struct Counted {
    /// The names of the common table expressions that are not visited yet, from the last to the first.
    names: Vec<Ident>,
    /// The tables of those that are.
    tables_of: Vec<(Ident, u64)>,
    /// The tables of the rest.
    tables: u64,
}

impl VisitorMut for Tables {
    type Break = String;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        let expressions = query.with.iter().flat_map(|with| &with.cte_tables);
        let names = expressions.rev().map(|expression| expression.alias.name.clone()).collect();
        self.queries.push(Counted { names, ..Counted::default() });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        let tables = self.queries.pop().map_or(0, |query| query.tables);
        match self.queries.last_mut() {
            Some(around) => match around.names.pop() {
                Some(name) => around.tables_of.push((name, tables)),
                None => around.tables = around.tables.saturating_add(tables),
            },
            None => self.all = self.all.saturating_add(tables),
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<Self::Break> {
        let TableFactor::Table { name, .. } = table else { return ControlFlow::Continue(()) };
        let named = match name.0.as_slice() {
            [ObjectNamePart::Identifier(name)] => Some(name),
            _ => None,
        };
        let expressions = self.queries.iter().rev().flat_map(|query| query.tables_of.iter().rev());
        let found = named.and_then(|named| expressions.clone().find(|(name, _)| is_same(name, named)));
        let tables = found.map_or(1, |(_, tables)| *tables);
        if let Some(query) = self.queries.last_mut() {
            query.tables = query.tables.saturating_add(tables);
        }
        ControlFlow::Continue(())
    }
}

/// Whether two identifiers may be the same name.
fn is_same(a: &Ident, b: &Ident) -> bool {
    a.value.eq_ignore_ascii_case(&b.value)
}

/// Balances a long chain of AND or OR. The terms keep their order.
fn balance(expr: &mut Expr) {
    let Expr::BinaryOp { op, .. } = expr else { return };
    let chain = op.clone();
    if !matches!(chain, BinaryOperator::And | BinaryOperator::Or) || length(expr, &chain) < LONG_CHAIN {
        return;
    }
    // From the last term to the first.
    let mut terms = Vec::new();
    let mut rest = std::mem::replace(expr, Expr::value(Value::Null));
    loop {
        match rest {
            Expr::BinaryOp { left, op, right } if op == chain => {
                terms.push(*right);
                rest = *left;
            }
            first => {
                terms.push(first);
                break;
            }
        }
    }
    while terms.len() > 1 {
        let mut pairs = Vec::with_capacity(terms.len().div_ceil(2));
        while let Some(left) = terms.pop() {
            pairs.push(match terms.pop() {
                Some(right) => Expr::BinaryOp { left: Box::new(left), op: chain.clone(), right: Box::new(right) },
                None => left,
            });
        }
        pairs.reverse();
        terms = pairs;
    }
    if let Some(tree) = terms.pop() {
        *expr = tree;
    }
}

/// Counts the operators of a chain that are not in a balanced tree yet.
fn length(expr: &Expr, chain: &BinaryOperator) -> usize {
    let (mut length, mut rest) = (0, expr);
    while let Expr::BinaryOp { left, op, .. } = rest
        && op == chain
    {
        length += 1;
        rest = left.as_ref();
    }
    length
}

#[cfg(test)]
mod tests {
    use crate::parse;

    fn outcome(sql: &str) -> String {
        match parse(sql) {
            Ok(statement) => statement.to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn chains_of_and_and_or_may_be_long_and_keep_their_text() {
        for op in ["OR", "AND"] {
            for terms in [2, 17, 18, 31, 100, 20_000] {
                let chain: Vec<_> = (0..terms).map(|term| format!("a = {term}")).collect();
                let sql = format!("SELECT * FROM t WHERE {}", chain.join(&format!(" {op} ")));
                assert_eq!(outcome(&sql), sql);
            }
        }
        let sql = "SELECT a AND b OR c AND NOT d OR (e OR f) AND g FROM t";
        assert_eq!(outcome(sql), sql);
    }

    #[test]
    fn depth_counts_tables_through_common_table_expressions() {
        let doubled = |levels: usize| {
            let more: Vec<_> =
                (1..=levels).map(|n| format!("c{n} AS (SELECT * FROM c{0}, C{0} AS b)", n - 1)).collect();
            format!("WITH c0 AS (SELECT * FROM t), {} SELECT * FROM c{levels}", more.join(", "))
        };
        let refused = |sql: &str| outcome(sql).contains("more than 5000 tables");
        assert!(!refused(&doubled(12)));
        assert!(refused(&doubled(13)));
        assert!(refused(&doubled(300)));
        assert!(refused(&format!("SELECT * FROM ({}) AS q", doubled(300))));
        assert!(refused(&format!("EXPLAIN {}", doubled(300))));
        // Another table of the name, in another scope.
        assert!(!refused(&format!("SELECT * FROM (WITH c AS ({}) SELECT 1 FROM c) AS q, c, c AS d", doubled(12))));
        let chain: Vec<_> = (1..3000).map(|n| format!("c{n} AS (SELECT * FROM c{})", n - 1)).collect();
        assert!(!refused(&format!("WITH c0 AS (SELECT * FROM t), {} SELECT * FROM c2999", chain.join(", "))));
    }

    #[test]
    fn depth_limit_rejects_deeply_nested_queries() {
        let chain = |term: &str, op: &str, terms| vec![term; terms].join(op);
        for (sql, what) in [
            (format!("SELECT {}", chain("a", " || ", 100_000)), "expressions are nested more than 1000"),
            (format!("SELECT {}", chain("1", " + ", 100_000)), "expressions are nested more than 1000"),
            (chain("SELECT 1", " UNION ALL ", 20_000), "set operations such as UNION ALL are nested more than 1000"),
            (format!("SELECT * FROM {}", chain("t", " JOIN ", 20_000)), "joins are nested more than 1000"),
            (
                format!(
                    "CREATE EXTERNAL TABLE t (a {}INT{}) STORED AS PARQUET LOCATION 'x'",
                    "ARRAY<".repeat(20_000),
                    ">".repeat(20_000)
                ),
                "types are nested more than 250",
            ),
            (
                format!(
                    "CREATE EXTERNAL TABLE t (a {}INT{}) STORED AS PARQUET LOCATION 'x'",
                    "STRUCT<a ".repeat(20_000),
                    ">".repeat(20_000)
                ),
                "types are nested more than 250",
            ),
            (format!("SELECT {}1{}", "(".repeat(20_000), ")".repeat(20_000)), "parentheses are nested more than 250"),
        ] {
            let message = outcome(&sql);
            assert_eq!(message, format!("Error during planning: the query is too long: {what} levels deep"));
        }
        let sql = format!("SELECT {}", chain("a", " || ", 900));
        assert_eq!(outcome(&sql), sql);
    }
}
