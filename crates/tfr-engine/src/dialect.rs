//! Parses SQL text, with PostgreSQL's precedence where the engine's parser differs.
//!
//! Upstream: ours (a choice of meaning). Held by `tests/slt/answers.slt`: IS DISTINCT FROM binds tighter than AND, OR and NOT.

use std::any::{Any, TypeId};
use std::collections::VecDeque;

use datafusion::error::{DataFusionError, Result};
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::{Expr, UnaryOperator};
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use crate::lists::{AnyItem, Comparison};
use crate::numbers::literals::DoubleLiteral;
use crate::syntax::call;
use crate::text_lengths::cut_texts;
use crate::time_zones::AtTimeZone;
use crate::{clauses, depth, number_tokens, scopes};

/// The engine's default dialect, with these corrections:
///
/// * `IS [NOT] DISTINCT FROM` binds tighter than `NOT`, `AND` and `OR`. The engine's parser takes everything after it
///   as its right operand.
/// * `AT TIME ZONE` is a function call with PostgreSQL's result: for a timestamp with time zone, the local time in that
///   zone, without a zone. The engine uses a cast, which loses the distinction between the two kinds of timestamps.
/// * `- INTERVAL '1 month 1 day'` negates all parts. The engine puts the sign before the text, and so only before the
///   first part.
/// * Numbers with an exponent are doubles, and other numbers are not: see [`DoubleLiteral`].
/// * Casts to `VARCHAR(n)` cut texts at `n` characters, as in PostgreSQL.
/// * `^` is refused. It is a power in PostgreSQL and DuckDB, and an exclusive OR in Spark, MySQL and the engine.
/// * Numbers that run into a name are refused, such as `1_000` and `0x1F`.
/// * `x < ANY(list)` and `x < ALL(list)` are function calls. The engine's plans ignore NULL items.
/// * `->` and `->>` are function calls, and bind tighter than comparisons. The engine does not support them.
#[derive(Debug, Default, Clone, Copy)]
pub struct SqlDialect;

/// Parses statements in [`SqlDialect`].
///
/// # Errors
/// If the text is not SQL.
pub fn parse_all(sql: &str) -> Result<VecDeque<Statement>> {
    let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location();
    match tokens {
        Ok(tokens) => parse_tokens(tokens),
        // The parser reports the error.
        Err(_) => DFParserBuilder::new(sql).with_dialect(&SqlDialect).build()?.parse_statements(),
    }
}

/// Parses statements in [`SqlDialect`].
///
/// # Errors
/// If the tokens are not SQL, are nested too deep, or have a clause that is not supported.
pub fn parse_tokens(tokens: Vec<TokenWithSpan>) -> Result<VecDeque<Statement>> {
    depth::check_brackets(&tokens)?;
    number_tokens::check(&tokens)?;
    let mut statements = DFParserBuilder::new(tokens).with_dialect(&SqlDialect).build()?.parse_statements()?;
    if let Err(error) = depth::flatten(&mut statements) {
        // Dropping them would recurse as deep as they are nested.
        std::mem::forget(statements);
        return Err(error);
    }
    cut_texts(&mut statements)?;
    clauses::check(&mut statements)?;
    statements.iter_mut().try_for_each(scopes::correct)?;
    Ok(statements)
}

/// Parses one statement in [`SqlDialect`]. `SessionContext::sql` parses in the dialect of the session, without its
/// corrections.
///
/// # Errors
/// If the text is not one SQL statement.
pub fn parse(sql: &str) -> Result<Statement> {
    let mut statements = parse_all(sql)?;
    match (statements.pop_front(), statements.is_empty()) {
        (Some(statement), true) => Ok(statement),
        (first, _) => Err(DataFusionError::Plan(format!(
            "expected one SQL statement, found {}",
            usize::from(first.is_some()) + statements.len()
        ))),
    }
}

/// Implements methods by those of [`GenericDialect`].
macro_rules! as_generic {
    ($($name:ident,)*) => {
        $(fn $name(&self) -> bool {
            GenericDialect.$name()
        })*
    };
}

impl Dialect for SqlDialect {
    fn dialect(&self) -> TypeId {
        GenericDialect.type_id()
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        GenericDialect.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        GenericDialect.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        GenericDialect.is_identifier_part(ch)
    }

    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        if let Token::Number(digits, _) = &parser.peek_nth_token_ref(0).token
            && DoubleLiteral::is_double(digits)
        {
            let number = DoubleLiteral::expression(digits);
            parser.advance_token();
            return Some(Ok(number));
        }
        let is_interval = |token: &Token| matches!(token, Token::Word(word) if word.keyword == Keyword::INTERVAL);
        if parser.peek_nth_token_ref(0).token != Token::Minus || !is_interval(&parser.peek_nth_token_ref(1).token) {
            return None;
        }
        parser.advance_token();
        let operand = parser.parse_subexpr(self.prec_value(Precedence::MulDivModOp));
        Some(
            operand.map(|operand| Expr::UnaryOp {
                op: UnaryOperator::Minus,
                expr: Box::new(Expr::Nested(Box::new(operand))),
            }),
        )
    }

    fn parse_infix(&self, parser: &mut Parser, left: &Expr, precedence: u8) -> Option<Result<Expr, ParserError>> {
        if parser.peek_nth_token_ref(0).token == Token::Caret {
            return Some(Err(ParserError::ParserError(
                "the operator ^ is a power in some dialects and an exclusive OR in others; write power(a, b), or \
                 (a | b) - (a & b) for an exclusive OR"
                    .to_owned(),
            )));
        }
        let keyword = |parser: &Parser, number| match &parser.peek_nth_token_ref(number).token {
            Token::Word(word) => word.keyword,
            _ => Keyword::NoKeyword,
        };
        if let Some(comparison) = comparison(&parser.peek_nth_token_ref(0).token) {
            let quantifier = keyword(parser, 1);
            let is_list = matches!(quantifier, Keyword::ANY | Keyword::SOME | Keyword::ALL)
                && parser.peek_nth_token_ref(2).token == Token::LParen
                && parser.peek_nth_token_ref(3).token != Token::LParen
                && !matches!(keyword(parser, 3), Keyword::SELECT | Keyword::WITH | Keyword::VALUES | Keyword::FROM);
            return is_list.then(|| {
                (0..3).for_each(|_| parser.advance_token());
                let list = parser.parse_expr()?;
                parser.expect_token(&Token::RParen)?;
                Ok(compared_with_items(left.clone(), comparison, quantifier == Keyword::ALL, list))
            });
        }
        if let Some(function) = json_function(&parser.peek_nth_token_ref(0).token) {
            parser.advance_token();
            return Some(parser.parse_subexpr(precedence).map(|path| call(function, [left.clone(), path])));
        }
        match keyword(parser, 0) {
            Keyword::IS => {
                let negated = keyword(parser, 1) == Keyword::NOT;
                let next = 1 + usize::from(negated);
                let is_distinct =
                    keyword(parser, next) == Keyword::DISTINCT && keyword(parser, next + 1) == Keyword::FROM;
                is_distinct.then(|| {
                    (0..next + 2).for_each(|_| parser.advance_token());
                    let (left, right) = (Box::new(left.clone()), Box::new(parser.parse_subexpr(precedence)?));
                    Ok(if negated { Expr::IsNotDistinctFrom(left, right) } else { Expr::IsDistinctFrom(left, right) })
                })
            }
            Keyword::AT => {
                let is_zone = keyword(parser, 1) == Keyword::TIME && keyword(parser, 2) == Keyword::ZONE;
                is_zone.then(|| {
                    (0..3).for_each(|_| parser.advance_token());
                    Ok(call(AtTimeZone::NAME, [left.clone(), parser.parse_subexpr(precedence)?]))
                })
            }
            _ => None,
        }
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        // As in PostgreSQL, between comparisons and `+`.
        json_function(&parser.peek_nth_token_ref(0).token).map(|_| Ok(self.prec_value(Precedence::PlusMinus) - 1))
    }

    as_generic! {
        supports_unicode_string_literal,
        supports_partition_by_after_order_by,
        supports_array_join_syntax,
        supports_group_by_expr,
        supports_group_by_with_modifier,
        supports_left_associative_joins_without_parens,
        supports_connect_by,
        supports_match_recognize,
        supports_pipe_operator,
        supports_start_transaction_modifier,
        supports_window_function_null_treatment_arg,
        supports_dictionary_syntax,
        supports_window_clause_named_window_reference,
        supports_parenthesized_set_variables,
        supports_select_wildcard_except,
        support_map_literal_syntax,
        allow_extract_custom,
        allow_extract_single_quotes,
        supports_extract_comma_syntax,
        supports_create_view_comment_syntax,
        supports_parens_around_table_factor,
        supports_values_as_table_factor,
        supports_create_index_with_clause,
        supports_explain_with_utility_options,
        supports_limit_comma,
        supports_update_order_by,
        supports_from_first_select,
        supports_projection_trailing_commas,
        supports_asc_desc_in_column_definition,
        supports_try_convert,
        supports_bitwise_shift_operators,
        supports_comment_on,
        supports_load_extension,
        supports_named_fn_args_with_assignment_operator,
        supports_struct_literal,
        supports_empty_projections,
        supports_nested_comments,
        supports_multiline_comment_hints,
        supports_user_host_grantee,
        supports_string_escape_constant,
        supports_array_typedef_with_brackets,
        supports_match_against,
        supports_set_names,
        supports_comma_separated_set_assignments,
        supports_filter_during_aggregation,
        supports_select_wildcard_exclude,
        supports_data_type_signed_suffix,
        supports_interval_options,
        supports_quote_delimited_string,
        supports_select_wildcard_replace,
        supports_select_wildcard_ilike,
        supports_select_wildcard_rename,
        supports_optimize_table,
        supports_install,
        supports_detach,
        supports_prewhere,
        supports_with_fill,
        supports_limit_by,
        supports_interpolate,
        supports_settings,
        supports_select_format,
        supports_comment_optimizer_hint,
        supports_constraint_keyword_without_name,
        supports_key_column_option,
        supports_comma_separated_trim,
        supports_cte_without_as,
        supports_select_item_multi_column_alias,
        supports_xml_expressions,
    }
}

/// Returns the function of an operator of JSON.
fn json_function(token: &Token) -> Option<&'static str> {
    match token {
        Token::Arrow => Some("json_extract"),
        Token::LongArrow => Some("json_extract_string"),
        _ => None,
    }
}

/// Returns the comparison of a token.
fn comparison(token: &Token) -> Option<Comparison> {
    Some(match token {
        Token::Eq | Token::DoubleEq => Comparison::Eq,
        Token::Neq => Comparison::NotEq,
        Token::Lt => Comparison::Lt,
        Token::LtEq => Comparison::LtEq,
        Token::Gt => Comparison::Gt,
        Token::GtEq => Comparison::GtEq,
        _ => return None,
    })
}

/// A value compares with all items if it does not compare the other way with any.
fn compared_with_items(value: Expr, comparison: Comparison, with_all: bool, list: Expr) -> Expr {
    if with_all {
        let differs = call(AnyItem::name_of(comparison.negated()), [value, list]);
        Expr::Nested(Box::new(Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(differs) }))
    } else {
        call(AnyItem::name_of(comparison), [value, list])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(sql: &str) -> String {
        parse(sql).unwrap().to_string()
    }

    #[test]
    fn distinct_from_binds_tighter_than_and() {
        for (sql, same) in [
            ("SELECT a IS DISTINCT FROM b AND c", "SELECT (a IS DISTINCT FROM b) AND c"),
            ("SELECT x OR a IS NOT DISTINCT FROM b + 1 AND c", "SELECT x OR ((a IS NOT DISTINCT FROM b + 1) AND c)"),
            ("SELECT NOT a IS DISTINCT FROM b OR c", "SELECT (NOT (a IS DISTINCT FROM b)) OR c"),
            ("SELECT a IS DISTINCT FROM b < c", "SELECT a IS DISTINCT FROM (b < c)"),
        ] {
            let without = |sql: &str| parsed(sql).replace(['(', ')'], "");
            assert_eq!(without(sql), without(same));
            assert_eq!(shape(sql), shape(same), "{sql}");
        }
    }

    /// The expression with every operator in parentheses.
    fn shape(sql: &str) -> String {
        fn of(expr: &Expr) -> String {
            match expr {
                Expr::Nested(expr) => of(expr),
                Expr::UnaryOp { op, expr } => format!("({op} {})", of(expr)),
                Expr::BinaryOp { left, op, right } => format!("({} {op} {})", of(left), of(right)),
                Expr::IsDistinctFrom(left, right) => format!("({} distinct {})", of(left), of(right)),
                Expr::IsNotDistinctFrom(left, right) => format!("({} same {})", of(left), of(right)),
                other => other.to_string(),
            }
        }
        let sql = format!("{sql} FROM t");
        let mut parser = Parser::new(&SqlDialect).try_with_sql(sql.strip_prefix("SELECT ").unwrap()).unwrap();
        of(&parser.parse_expr().unwrap())
    }

    /// What the default dialect takes and this one does not would be a method that is not passed on.
    #[test]
    fn dialect_otherwise_equals_the_default() {
        for sql in [
            "SELECT {a: 1}, MAP {'x': 1}, [1, 2][1], a::INT, b ILIKE 'x', extract(hour, c), `d`",
            "SELECT * EXCLUDE (a) FROM t",
            "SELECT * EXCEPT (a), * REPLACE (a AS b) FROM t",
            "FROM t SELECT a",
            "SELECT sum(a) FILTER (WHERE b) OVER w FROM t WINDOW w AS (PARTITION BY c), v AS w",
            "SELECT a, FROM t",
            "SELECT 1 << 2, E'\\n', U&'\\0061', trim(a, b)",
            "SELECT a FROM t GROUP BY ROLLUP (a) LIMIT 1, 2",
        ] {
            // Before the clauses are checked.
            let ours = DFParserBuilder::new(sql).with_dialect(&SqlDialect).build().unwrap().parse_statement().unwrap();
            let theirs = DFParserBuilder::new(sql).build().unwrap().parse_statement().unwrap();
            assert_eq!(ours.to_string(), theirs.to_string());
        }
    }
}
