//! Messages of the SQL parser in other words: where it stopped, what it expected, what it found.
//!
//! The texts that are matched here were read from sqlparser 0.62.

/// Returns the parser's message with its place first.
pub(super) fn message(text: &str) -> String {
    let text = text.trim_start_matches("sql parser error: ");
    let (what, place) = match text.rsplit_once(" at Line: ") {
        Some((what, place)) => (what, format!("line {}: ", place.replace(", Column: ", ", column "))),
        None => (text, String::new()),
    };
    format!("SQL: {place}{}", reworded(what))
}

fn reworded(what: &str) -> String {
    if let Some((expected, found)) = what.strip_prefix("Expected: ").and_then(|rest| rest.split_once(", found: ")) {
        let expected = match expected {
            "end of statement" => "the end of the query",
            other => other,
        };
        return match found {
            "EOF" => format!("expected {expected}, but the query ends here"),
            found => format!("expected {expected}, found {found}"),
        };
    }
    if what == "Unterminated string literal" || what.contains("Expected close delimiter") {
        return "this quote is not closed".to_owned();
    }
    let word = what.strip_prefix("No infix parser for token Word(Word { value: \"");
    match word.and_then(|rest| rest.split_once('"')) {
        Some((word, _)) => format!("{word} is not an operator"),
        None => what.lines().map(str::trim).collect::<Vec<_>>().join(" "),
    }
}

/// Returns the way to write what the parser does not know.
pub(super) fn hint(text: &str) -> Option<String> {
    if text.contains("found: /") {
        Some("put a path in single quotes: FROM 'events/*.parquet'".to_owned())
    } else if text.contains("value: \"DIV\"") {
        Some("write n / 2: of two whole numbers the quotient is one, cut towards zero".to_owned())
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use datafusion::error::DataFusionError;

    use super::message;

    #[test]
    fn parser_messages_begin_with_the_place() {
        for (sql, text) in [
            ("SELECT 1 values", "SQL: line 1, column 10: expected the end of the query, found values"),
            ("SELECT 1\nWHERE", "SQL: expected an expression, but the query ends here"),
            ("SELECT 'a", "SQL: line 1, column 8: this quote is not closed"),
            ("SELECT \"a", "SQL: line 1, column 8: this quote is not closed"),
            ("SELECT 7 DIV 2 DIV 1 + 2", "SQL: line 1, column 10: DIV is not an operator"),
        ] {
            assert_eq!(message(&parser_message(sql)), text, "{sql}");
        }
    }

    fn parser_message(sql: &str) -> String {
        match tfr_engine::parse(sql).expect_err(sql).find_root() {
            DataFusionError::SQL(error, _) => error.to_string(),
            other => other.to_string(),
        }
    }
}
