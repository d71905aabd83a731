//! `ROW FORMAT DELIMITED`, as Hive's `CREATE EXTERNAL TABLE` has it and the engine's parser has not: options by other words.
//!
//! The clause is taken out of the tokens, read by the parser of the SQL library, and put among the options of the statement.

use std::collections::VecDeque;

use datafusion::error::DataFusionError;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::{HiveDelimiter, HiveRowFormat, Value};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use crate::error::{Error, Result};

/// The statements of `text`.
pub fn parse(text: &str) -> Result<VecDeque<Statement>> {
    let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize_with_location();
    let (tokens, clauses) = match tokens.map(split) {
        Ok(split) => split?,
        // The engine says so.
        Err(_) => (Vec::new(), Vec::new()),
    };
    let mut statements = match clauses.is_empty() {
        true => DFParserBuilder::new(text).build()?.parse_statements()?,
        false => DFParserBuilder::new(tokens).build()?.parse_statements()?,
    };
    for Clause { statement, options } in clauses {
        let Some(Statement::CreateExternalTable(table)) = statements.get_mut(statement) else { continue };
        for (key, value) in options {
            if table.options.iter().any(|(given, _)| given.eq_ignore_ascii_case(key)) {
                return Err(Error::RowFormatTwice { key });
            }
            table.options.push((key.to_owned(), Value::SingleQuotedString(value)));
        }
    }
    Ok(statements)
}

/// A clause, as options.
struct Clause {
    /// Of which statement.
    statement: usize,
    options: Vec<(&'static str, String)>,
}

/// Takes the clauses out of the statements that create tables.
fn split(tokens: Vec<TokenWithSpan>) -> Result<(Vec<TokenWithSpan>, Vec<Clause>)> {
    let (mut kept, mut clauses) = (Vec::with_capacity(tokens.len()), Vec::new());
    // The words of the statement so far, and how deep in parentheses the next token is.
    let (mut statement, mut words, mut depth) = (0, Vec::new(), 0_usize);
    let mut index = 0;
    while let Some(token) = tokens.get(index) {
        index += 1;
        match &token.token {
            Token::SemiColon => {
                statement += usize::from(!words.is_empty());
                words.clear();
                depth = 0;
            }
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::Word(word) => {
                let creates = words.first() == Some(&Keyword::CREATE) && words.contains(&Keyword::EXTERNAL);
                if word.keyword == Keyword::ROW && depth == 0 && creates && is_format(&tokens, index) {
                    let (options, len) = clause(tokens.get(index..).unwrap_or_default())?;
                    clauses.push(Clause { statement, options });
                    index += len;
                    continue;
                }
                words.push(word.keyword);
            }
            Token::Whitespace(_) => {}
            // Whatever it is, the statement is not empty.
            _ => words.push(Keyword::NoKeyword),
        }
        kept.push(token.clone());
    }
    Ok((kept, clauses))
}

fn is_format(tokens: &[TokenWithSpan], from: usize) -> bool {
    let next = tokens.iter().skip(from).find(|token| !matches!(token.token, Token::Whitespace(_)));
    matches!(next.map(|token| &token.token), Some(Token::Word(word)) if word.keyword == Keyword::FORMAT)
}

/// What stands behind `ROW`, and how many tokens it has.
fn clause(tokens: &[TokenWithSpan]) -> Result<(Vec<(&'static str, String)>, usize)> {
    let mut parser = Parser::new(&GenericDialect {}).with_tokens_with_locations(tokens.to_vec());
    let format = parser.parse_row_format().map_err(DataFusionError::from)?;
    let delimiters = match format {
        HiveRowFormat::DELIMITED { delimiters } => delimiters,
        HiveRowFormat::SERDE { class } => return Err(Error::RowFormatSerde { class }),
    };
    let option = |delimiter: &HiveDelimiter| match delimiter {
        HiveDelimiter::FieldsTerminatedBy => "field.delim",
        HiveDelimiter::FieldsEscapedBy => "escape.delim",
        HiveDelimiter::CollectionItemsTerminatedBy => "collection.delim",
        HiveDelimiter::MapKeysTerminatedBy => "mapkey.delim",
        HiveDelimiter::LinesTerminatedBy => "line.delim",
        HiveDelimiter::NullDefinedAs => "serialization.null.format",
    };
    let options = delimiters.into_iter().map(|given| (option(&given.delimiter), given.char.value)).collect();
    Ok((options, parser.index()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn options(text: &str) -> Vec<String> {
        let statements = parse(text).unwrap();
        let tables = statements.iter().filter_map(|statement| match statement {
            Statement::CreateExternalTable(table) => Some(&table.options),
            _ => None,
        });
        tables.flatten().map(|(key, value)| format!("{key}={value}")).collect()
    }

    #[test]
    fn clauses_become_options() {
        let text = r"
            CREATE EXTERNAL TABLE t (a INT, row INT) PARTITIONED BY (dt DATE)
            ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' ESCAPED BY '\\'
                COLLECTION ITEMS TERMINATED BY ';' MAP KEYS TERMINATED BY ':' LINES TERMINATED BY '\n' NULL DEFINED AS ''
            STORED AS TEXTFILE OPTIONS (on_error 'null') LOCATION 'x';;
            create external table u row format delimited fields terminated by '\t' stored as textfile location 'y';
            SELECT row FROM t";
        let expected = [
            "on_error='null'",
            "field.delim=','",
            r"escape.delim='\\'",
            "collection.delim=';'",
            "mapkey.delim=':'",
            r"line.delim='\n'",
            "serialization.null.format=''",
            r"field.delim='\t'",
        ];
        assert_eq!(options(text), expected);
        assert_eq!(parse(text).unwrap().len(), 3);
    }

    #[test]
    fn other_statements_are_left_alone() {
        assert!(options("SELECT 1 AS row").is_empty());
        assert!(parse("SELECT ROW FORMAT DELIMITED").is_err());
        let text = "CREATE EXTERNAL TABLE t STORED AS TEXTFILE LOCATION 'ROW FORMAT DELIMITED'";
        assert!(options(text).is_empty());
    }

    #[test]
    fn what_cannot_be_is_said() {
        let serde = "CREATE EXTERNAL TABLE t ROW FORMAT SERDE 'a.B' STORED AS TEXTFILE LOCATION 'x'";
        assert!(matches!(parse(serde), Err(Error::RowFormatSerde { class }) if class == "a.B"));
        let twice = "CREATE EXTERNAL TABLE t ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' STORED AS TEXTFILE \
            OPTIONS ('field.delim' ';') LOCATION 'x'";
        assert!(matches!(parse(twice), Err(Error::RowFormatTwice { key: "field.delim" })));
    }
}
