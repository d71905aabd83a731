//! Number literals that dialects read differently.
//!
//! The engine's tokenizer takes `1_000` for the number 1 and a name, so that `SELECT 1_000` was a column `_000` of ones.
//! So did `0b101`, `0o17` and `1x`. `0x1F` is bytes to it, and a number in PostgreSQL.
//!
//! Upstream: ours (a choice of meaning). Held by `tests/slt/other_suites.slt`: Numbers that run into a name, and numbers in other bases.

use datafusion::error::{DataFusionError, Result};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Rejects numbers that run into a name, and numbers in base 16.
///
/// # Errors
/// If there is such a number.
pub(crate) fn check(tokens: &[TokenWithSpan]) -> Result<()> {
    let following = tokens.iter().skip(1).map(Some).chain([None]);
    for (TokenWithSpan { token, span }, next) in tokens.iter().zip(following) {
        let adjacent = next.filter(|next| next.span.start == span.end).map(|next| &next.token);
        match (token, adjacent) {
            (Token::Number(digits, _), Some(Token::Word(word))) if word.quote_style.is_none() => {
                return refused(&format!("{digits}{}", word.value), "write the number in base 10, without _");
            }
            // x'1F' has two quotes more.
            (Token::HexStringLiteral(digits), _)
                if span.end.column.saturating_sub(span.start.column) == digits.chars().count() as u64 + 2 =>
            {
                return refused(
                    &format!("0x{digits}"),
                    &format!("write X'{digits}' for bytes, or the number in base 10"),
                );
            }
            _ => {}
        }
    }
    Ok(())
}

fn refused(number: &str, instead: &str) -> Result<()> {
    Err(DataFusionError::Plan(format!("the number {number} is not supported; {instead}")))
}

#[cfg(test)]
mod tests {
    use crate::parse;

    #[test]
    fn numbers_that_run_into_a_name_are_refused() {
        for number in ["1_000", "0b101", "0o17", "1x", ".000_005", "1_2_3", "0x42F", "0x42F_FF", "1e5x"] {
            let message = parse(&format!("SELECT {number} FROM t")).unwrap_err().to_string();
            assert!(message.contains("the number "), "{number}: {message}");
        }
        for number in
            ["1", "1 x", "1\"x\"", "X'42F0'", "x'42F0'", "1e5", "1.5", ".5", "1::INT", "a[1:2]", "1-x", "'1'x"]
        {
            assert!(parse(&format!("SELECT {number} FROM t")).is_ok(), "{number}");
        }
    }
}
