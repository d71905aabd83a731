//! Finds the possible column names in the text of a query.

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use tfr_files::UsedColumns;

/// Returns the columns that the statements in `text` may refer to, or `None` if they may use all columns of a table:
/// there is a `*`, a NATURAL join, or a query without SELECT, such as `FROM t`.
pub fn columns(text: &str) -> Option<UsedColumns> {
    let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize().ok()?;
    let tokens: Vec<_> = tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))).collect();
    let keywords =
        || tokens.iter().filter_map(|token| if let Token::Word(word) = token { Some(word.keyword) } else { None });
    let stars = (0..tokens.len()).filter(|at| *tokens[*at] == Token::Mul);
    let mut wildcards = stars.filter(|at| !is_count(&tokens, *at) && !is_product(&tokens, *at));
    if wildcards.next().is_some()
        || keywords().any(|keyword| keyword == Keyword::NATURAL)
        || !keywords().any(|keyword| keyword == Keyword::SELECT)
        || has_query_without_select(&tokens)
    {
        return None;
    }
    let names = tokens.iter().filter_map(|token| if let Token::Word(word) = token { Some(&word.value) } else { None });
    Some(UsedColumns::new(names))
}

/// Whether a query begins with FROM, perhaps after WITH.
fn has_query_without_select(tokens: &[&Token]) -> bool {
    // For each open parenthesis: whether WITH begins the text in it, and no SELECT follows yet.
    let mut with = vec![false];
    let mut before: Option<&Token> = None;
    for token in tokens {
        let begins = matches!(before, None | Some(Token::LParen | Token::SemiColon));
        match token {
            Token::LParen => with.push(false),
            Token::RParen => drop(with.pop()),
            Token::Word(word) => {
                let after_set_operation = matches!(before, Some(Token::Word(word))
                    if matches!(word.keyword, Keyword::UNION | Keyword::ALL | Keyword::EXCEPT | Keyword::INTERSECT | Keyword::MINUS));
                match (word.keyword, with.last_mut()) {
                    (Keyword::WITH, Some(with)) if begins => *with = true,
                    (Keyword::SELECT, Some(with)) => *with = false,
                    (Keyword::FROM, Some(true)) => return true,
                    (Keyword::FROM, _) if begins || after_set_operation => return true,
                    _ => {}
                }
            }
            _ => {}
        }
        before = Some(*token);
    }
    false
}

/// `(*)`
fn is_count(tokens: &[&Token], star: usize) -> bool {
    let before = star.checked_sub(1).and_then(|at| tokens.get(at));
    matches!((before, tokens.get(star + 1)), (Some(Token::LParen), Some(Token::RParen)))
}

/// `a * b`
fn is_product(tokens: &[&Token], star: usize) -> bool {
    match star.checked_sub(1).and_then(|at| tokens.get(at)) {
        Some(Token::Word(word)) => word.keyword == Keyword::NoKeyword || word.quote_style.is_some(),
        Some(token) => matches!(token, Token::Number(..) | Token::RParen | Token::RBracket),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_wildcards() {
        for (text, expected) in [
            ("SELECT id, \"Created At\" FROM t WHERE x > 1", Some(vec!["ID", "created at", "x"])),
            ("SELECT count(*), a * 2 * (b) FROM t", Some(vec!["a", "b"])),
            ("SELECT * FROM t", None),
            ("SELECT t.* FROM t", None),
            ("SELECT a, * EXCLUDE (b) FROM t", None),
            ("SELECT DISTINCT * FROM t", None),
            ("SELECT a FROM t NATURAL JOIN u", None),
            ("FROM t", None),
            ("SELECT a FROM (FROM t)", None),
            ("SELECT a FROM t UNION ALL FROM u", None),
            ("WITH u AS (SELECT a FROM t) FROM u", None),
            ("WITH u AS (SELECT a FROM t) SELECT extract(year FROM a) FROM u", Some(vec!["a", "t", "u"])),
        ] {
            let found = columns(text);
            assert_eq!(found.is_some(), expected.is_some(), "{text}");
            let (found, expected) = (found.as_ref(), expected.unwrap_or_default());
            assert!(expected.iter().all(|name| found.is_some_and(|found| found.contains(name))), "{text}");
            assert!(!found.is_some_and(|found| found.contains("y")), "{text}");
        }
    }
}
