//! Translates Hive's clauses of `CREATE TABLE` into the engine's.
//!
//! What `SHOW CREATE TABLE` of Hive prints is accepted: `ROW FORMAT`, `STORED AS INPUTFORMAT`, `TBLPROPERTIES` and so on.
//! They become a [`HiveTable`], which decides on the format and its options, and are removed from the tokens. The options
//! are added to those of the statement. Clauses that do not concern readers are dropped: comments, buckets, skewed values.
//!
//! Types in `PARTITIONED BY` become an option if a `CHAR` or `VARCHAR` is among them, whose length SQL drops. So do the
//! columns of a table that is declared in Hive's words, if Hive would understand them all: `MAP<STRING,INT>`, `BINARY` and
//! the length of a `VARCHAR` have Hive's meaning, and so does `TIMESTAMP`, which reaches to the year 9999.

mod strings;

use std::collections::VecDeque;

use datafusion::error::DataFusionError;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{HiveDelimiter, HiveRowFormat, Value};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};
use tfr_engine::{parse_all, parse_tokens};
use tfr_formats::hive_text::HiveColumns;
use tfr_formats::{HiveReader, HiveTable, InputFormat, input_format_of};

use crate::error::{Error, Result};

/// The SerDe of tables `STORED AS JSONFILE`.
const JSON_SERDE: &str = "org.apache.hadoop.hive.serde2.JsonSerDe";

/// Parses the statements of `text`.
pub fn parse(text: &str) -> Result<VecDeque<Statement>> {
    match parse_as_written(text) {
        // Quotes in texts of Hive are behind a backslash.
        Err(error @ Error::Engine(_)) => match strings::requoted(text) {
            Some(requoted) => parse_as_written(&requoted).map_err(|_| error),
            None => Err(error),
        },
        parsed => parsed,
    }
}

fn parse_as_written(text: &str) -> Result<VecDeque<Statement>> {
    let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize_with_location();
    let (tokens, clauses) = match tokens.map(split) {
        Ok(split) => split?,
        // The engine reports the error.
        Err(_) => (Vec::new(), Vec::new()),
    };
    let mut statements = match clauses.is_empty() {
        true => parse_all(text)?,
        false => parse_tokens(tokens)?,
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

/// Options by their keys.
type Options = Vec<(&'static str, String)>;

/// The options that replace the clauses of a statement.
struct Clause {
    /// The index of the statement.
    statement: usize,
    options: Options,
}

/// Removes the clauses from the statements that create tables.
fn split(tokens: Vec<TokenWithSpan>) -> Result<(Vec<TokenWithSpan>, Vec<Clause>)> {
    let (mut kept, mut clauses) = (Vec::with_capacity(tokens.len()), Vec::new());
    let mut index = 0;
    for statement in tokens.split_inclusive(|token| token.token == Token::SemiColon) {
        let (end, body) = match statement.split_last() {
            Some((end, body)) if end.token == Token::SemiColon => (Some(end.clone()), body),
            _ => (None, statement),
        };
        match Declaration::of(body)?.map(|declaration| declaration.translated(body)).transpose()? {
            Some((tokens, options)) => {
                kept.extend(tokens);
                clauses.push(Clause { statement: index, options });
            }
            None => kept.extend_from_slice(body),
        }
        kept.extend(end);
        index += usize::from(body.iter().any(|token| !matches!(token.token, Token::Whitespace(_))));
    }
    Ok((kept, clauses))
}

/// A statement that creates a table from files: the places of its clauses, and what those of Hive declare.
#[derive(Default)]
struct Declaration {
    table: HiveTable,
    name: String,
    /// The place where `EXTERNAL` is missing.
    external_at: Option<usize>,
    /// The columns of the files, with their parentheses.
    columns: Option<std::ops::Range<usize>>,
    /// The columns of the path, without the parentheses.
    path: Option<std::ops::Range<usize>>,
    /// The clause `STORED AS`, and its name.
    stored_as: Option<(std::ops::Range<usize>, String)>,
    /// Ranges of tokens that the engine does not see.
    dropped: Vec<std::ops::Range<usize>>,
    /// Whether properties of Hive are among the clauses.
    has_properties: bool,
    /// Whether a class of Hive is among them. Then the types are Hive's.
    has_class: bool,
    /// Whether the option `schema` is given. Then the error reports that the columns are declared twice.
    has_schema: bool,
}

/// The tokens of a statement, of which blanks are skipped.
struct Walk<'a> {
    tokens: &'a [TokenWithSpan],
    at: usize,
}

impl<'a> Walk<'a> {
    /// Returns the next token that is not blank, and its index.
    fn next(&mut self) -> Option<(usize, &'a Token)> {
        loop {
            let (at, token) = (self.at, &self.tokens.get(self.at)?.token);
            self.at += 1;
            if !matches!(token, Token::Whitespace(_)) {
                return Some((at, token));
            }
        }
    }

    /// Skips these words, if they are next.
    fn takes(&mut self, words: &[&str]) -> bool {
        let start = self.at;
        let takes = words.iter().all(|word| self.next().is_some_and(|(_, token)| is_named(token, word)));
        if !takes {
            self.at = start;
        }
        takes
    }

    /// Skips a text in quotes, if it is next.
    fn text(&mut self) -> Option<&'a str> {
        let start = self.at;
        match self.next() {
            Some((_, Token::SingleQuotedString(text))) => Some(text),
            Some((_, Token::Word(word))) if word.quote_style == Some('"') => Some(&word.value),
            _ => {
                self.at = start;
                None
            }
        }
    }

    /// Skips a name and its qualifiers, and returns it as written.
    fn name(&mut self) -> String {
        let ends = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_) | Token::LParen);
        self.at +=
            self.tokens[self.at..].iter().take_while(|token| matches!(token.token, Token::Whitespace(_))).count();
        let name: Vec<_> = self.tokens[self.at..].iter().take_while(|token| !ends(token)).collect();
        self.at += name.len();
        name.into_iter().map(|token| token.token.to_string()).collect()
    }

    /// Skips what is in parentheses, and these, if they are next; returns the range of both.
    fn parentheses(&mut self) -> Option<std::ops::Range<usize>> {
        let start = self.at;
        let open = self.next().filter(|(_, token)| **token == Token::LParen).map(|(at, _)| at);
        let mut depth = usize::from(open.is_some());
        while depth > 0 {
            match self.next() {
                Some((_, Token::LParen)) => depth += 1,
                Some((_, Token::RParen)) => depth -= 1,
                Some(_) => {}
                None => break,
            }
        }
        match open {
            Some(open) if depth == 0 => Some(open..self.at),
            _ => {
                self.at = start;
                None
            }
        }
    }

    /// Skips a list of properties.
    fn properties(&mut self) -> Vec<(String, String)> {
        let list = self.parentheses().unwrap_or_default();
        let texts = self.tokens[list].iter().filter_map(|token| match &token.token {
            Token::SingleQuotedString(text) => Some(strings::unescaped(text)),
            Token::Word(word) if word.quote_style.is_some() => Some(strings::unescaped(&word.value)),
            Token::Word(word) => Some(word.value.clone()),
            Token::Number(number, _) => Some(number.clone()),
            _ => None,
        });
        let texts: Vec<String> = texts.collect();
        texts.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
    }
}

impl Declaration {
    /// Finds the clauses of a statement; `None` if it does not create a table from files.
    fn of(tokens: &[TokenWithSpan]) -> Result<Option<Self>> {
        let mut walk = Walk { tokens, at: 0 };
        if !walk.takes(&["CREATE"]) {
            return Ok(None);
        }
        let mut declaration = Self::default();
        let mut is_external = false;
        loop {
            match walk.next() {
                Some((at, token)) if is_named(token, "TABLE") => {
                    declaration.external_at = (!is_external).then_some(at);
                    break;
                }
                Some((_, token)) if is_named(token, "EXTERNAL") => is_external = true,
                Some((_, Token::Word(word))) if word.quote_style.is_none() => {}
                _ => return Ok(None),
            }
        }
        walk.takes(&["IF", "NOT", "EXISTS"]);
        declaration.name = walk.name();
        declaration.columns = walk.parentheses();
        declaration.clauses(&mut walk)?;
        // A managed table, as Hive prints it.
        let is_of_hive = declaration.has_class && declaration.external_at.is_some();
        Ok((is_external || is_of_hive).then_some(declaration))
    }

    fn clauses(&mut self, walk: &mut Walk<'_>) -> Result<()> {
        loop {
            let start = walk.at;
            if walk.takes(&["ROW", "FORMAT", "SERDE"]) {
                self.table.serde = walk.text().map(str::to_owned);
                self.has_class = true;
            } else if walk.takes(&["ROW", "FORMAT"]) {
                walk.at = start;
                self.delimiters(walk)?;
            } else if walk.takes(&["WITH", "SERDEPROPERTIES"]) {
                self.table.serde_parameters.extend(walk.properties());
                self.has_properties = true;
            } else if walk.takes(&["TBLPROPERTIES"]) {
                self.table.parameters.extend(walk.properties());
                self.has_properties = true;
            } else if walk.takes(&["STORED", "AS", "INPUTFORMAT"]) {
                self.table.input_format = walk.text().map(str::to_owned);
                self.has_class = true;
                if walk.takes(&["OUTPUTFORMAT"]) {
                    walk.text();
                }
            } else if walk.takes(&["STORED", "BY"]) {
                let class = walk.text().unwrap_or_default().to_owned();
                self.table.parameters.insert("storage_handler".to_owned(), class);
                self.has_class = true;
            } else if walk.takes(&["STORED", "AS", "DIRECTORIES"]) || walk.takes(&["COMMENT"]) && walk.text().is_some()
            {
                // Neither concerns a reader.
            } else if walk.takes(&["CLUSTERED", "BY"]) || walk.takes(&["SORTED", "BY"]) || walk.takes(&["SKEWED", "BY"])
            {
                walk.parentheses();
                if walk.takes(&["ON"]) {
                    walk.parentheses();
                }
            } else if walk.takes(&["INTO"]) {
                walk.next();
                walk.takes(&["BUCKETS"]);
            } else {
                if walk.takes(&["STORED", "AS"]) {
                    if let Some((_, Token::Word(word))) = walk.next() {
                        self.stored_as = Some((start..walk.at, word.value.clone()));
                    }
                } else if walk.takes(&["PARTITIONED", "BY"]) {
                    self.path = walk.parentheses().map(|path| path.start + 1..path.end - 1);
                } else if walk.takes(&["OPTIONS"]) {
                    let given = walk.parentheses().unwrap_or_default();
                    self.has_schema |= walk.tokens[given].iter().any(|token| match &token.token {
                        Token::SingleQuotedString(text) => text.eq_ignore_ascii_case("schema"),
                        token => is_named(token, "schema"),
                    });
                } else if walk.parentheses().is_none() && walk.next().is_none() {
                    return Ok(());
                }
                continue;
            }
            self.dropped.push(start..walk.at);
        }
    }

    /// Parses `ROW FORMAT DELIMITED`.
    fn delimiters(&mut self, walk: &mut Walk<'_>) -> Result<()> {
        walk.takes(&["ROW"]);
        let rest = walk.tokens[walk.at..].to_vec();
        let mut parser = Parser::new(&GenericDialect {}).with_tokens_with_locations(rest);
        let format = parser.parse_row_format().map_err(DataFusionError::from)?;
        walk.at += parser.index();
        let HiveRowFormat::DELIMITED { delimiters } = format else { return Ok(()) };
        let key = |delimiter: &HiveDelimiter| match delimiter {
            HiveDelimiter::FieldsTerminatedBy => "field.delim",
            HiveDelimiter::FieldsEscapedBy => "escape.delim",
            HiveDelimiter::CollectionItemsTerminatedBy => "collection.delim",
            HiveDelimiter::MapKeysTerminatedBy => "mapkey.delim",
            HiveDelimiter::LinesTerminatedBy => "line.delim",
            HiveDelimiter::NullDefinedAs => "serialization.null.format",
        };
        let given = delimiters.into_iter();
        let given = given.map(|given| (key(&given.delimiter).to_owned(), strings::unescaped(&given.char.value)));
        self.table.serde_parameters.extend(given);
        self.has_properties = true;
        Ok(())
    }

    /// Returns the statement without the clauses of Hive, and the options that they become.
    fn translated(mut self, tokens: &[TokenWithSpan]) -> Result<(Vec<TokenWithSpan>, Options)> {
        let name = self.stored_as.as_ref().map(|(_, name)| name.to_uppercase());
        let input_format = name.as_deref().and_then(input_format_of);
        // Names of Hive alone.
        let is_class = self.has_class || matches!(name.as_deref(), Some("JSONFILE" | "SEQUENCEFILE" | "RCFILE"));
        let refused = |table: &str, error| Error::HiveTable { table: table.to_owned(), error };
        let columns = self.hive_columns(tokens, name.as_deref()).map_err(|error| refused(&self.name, error))?;
        let mut options = Vec::new();
        let mut stored_as = None;
        if is_class || self.has_properties {
            if let Some(class) = input_format {
                self.table.input_format.get_or_insert_with(|| class.to_owned());
            }
            if name.as_deref() == Some("JSONFILE") {
                self.table.serde.get_or_insert_with(|| JSON_SERDE.to_owned());
            }
            let declared = columns.iter().flat_map(HiveColumns::texts);
            self.table.columns = declared.map(|(name, found)| (name.to_owned(), found.to_owned())).collect();
            let named = name.as_deref().filter(|_| !is_class && input_format.is_none()).and_then(InputFormat::parse);
            let reader = match named {
                Some(format) => self.table.reader_as(format),
                None => self.table.reader(),
            };
            let reader = reader.map_err(|error| refused(&self.name, error))?;
            for warning in &reader.warnings {
                log::warn!("{}: {warning}", self.name);
            }
            stored_as = named.is_none().then(|| stored_as_of(&reader));
            options.extend(reader.options);
        } else if let Some(columns) = &columns {
            let texts = columns.texts().map(|(name, found)| format!("`{}` {found}", name.replace('`', "``")));
            options.push(("schema", texts.collect::<Vec<_>>().join(", ")));
        }
        if columns.is_some() {
            self.dropped.extend(self.columns.clone());
        }
        let path = self.path.clone().and_then(|path| Some((path.clone(), path_names(&tokens[path], self.has_class)?)));
        let word = |text: &str| TokenWithSpan::wrap(Token::make_word(text, None));
        let mut kept = Vec::with_capacity(tokens.len());
        for (at, token) in tokens.iter().enumerate() {
            if Some(at) == self.external_at {
                kept.push(word("EXTERNAL"));
            }
            match (&path, &self.stored_as) {
                (Some((path, (names, _))), _) if path.contains(&at) => {
                    if at == path.start {
                        kept.extend(names.iter().cloned());
                    }
                }
                (_, Some((clause, _))) if stored_as.is_some() && clause.contains(&at) => {}
                _ if self.dropped.iter().any(|dropped| dropped.contains(&at)) => {}
                _ => kept.push(token.clone()),
            }
        }
        kept.extend(stored_as.into_iter().flat_map(|name| ["STORED", "AS", name]).map(word));
        options.extend(path.map(|(_, (_, types))| ("partitions", types)));
        Ok((kept, options))
    }

    /// Returns the columns, if they have Hive's types. SQL has other types, quotes and constraints. If columns from the path
    /// are among them, SQL parses them all.
    fn hive_columns(
        &self,
        tokens: &[TokenWithSpan],
        name: Option<&str>,
    ) -> Result<Option<HiveColumns>, tfr_formats::Error> {
        let Some(columns) = self.columns.clone().filter(|_| !self.has_schema) else { return Ok(None) };
        let text = hive_text(&tokens[columns.start + 1..columns.end - 1]);
        let parsed: HiveColumns = match text.parse() {
            Ok(parsed) => parsed,
            Err(error) if self.has_class => return Err(error),
            Err(_) => return Ok(None),
        };
        let takes = match name {
            _ if self.has_class => true,
            None | Some("TEXTFILE" | "JSONFILE") => true,
            Some("PARQUET" | "ORC" | "AVRO" | "ARROW") => parsed.needs_hive(),
            Some(_) => false,
        };
        let path = self.path.clone().map(|path| &tokens[path]).unwrap_or_default();
        let in_path = parsed.texts().any(|(name, _)| path.iter().any(|token| is_column(&token.token, name)));
        Ok(Some(parsed).filter(|_| takes && !in_path))
    }
}

/// Returns the name of a reader's format in `STORED AS`.
fn stored_as_of(reader: &HiveReader) -> &'static str {
    match reader.format {
        InputFormat::Parquet => "PARQUET",
        InputFormat::Orc => "ORC",
        InputFormat::Avro => "AVRO",
        InputFormat::Delta => "DELTA",
        InputFormat::Iceberg => "ICEBERG",
        _ => "TEXTFILE",
    }
}

/// Returns the names of the columns after `PARTITIONED BY`, without types, and both as the option `partitions` has them.
/// `None` if all types are types of SQL, unless `always`.
fn path_names(columns: &[TokenWithSpan], always: bool) -> Option<(Vec<TokenWithSpan>, String)> {
    let text = hive_text(columns);
    let parsed: HiveColumns = text.parse().ok()?;
    if !parsed.has_lengths() && !always {
        return None;
    }
    let schema = parsed.schema();
    let names = schema.fields().iter().enumerate().flat_map(|(index, field)| {
        let comma = (index > 0).then_some(Token::Comma);
        comma.into_iter().chain([Token::make_word(&field.name().replace('"', "\"\""), Some('"'))])
    });
    Some((names.map(TokenWithSpan::wrap).collect(), text))
}

/// Whether a token is this word, without quotes.
fn is_named(token: &Token, name: &str) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(name))
}

/// Whether a token is the name of a column.
fn is_column(token: &Token, name: &str) -> bool {
    matches!(token, Token::Word(word) if word.value.eq_ignore_ascii_case(name))
}

/// Returns the columns as written, except that unquoted names are lower-cased, as everywhere in SQL.
fn hive_text(columns: &[TokenWithSpan]) -> String {
    let mut text = String::new();
    for token in columns {
        match &token.token {
            Token::Whitespace(_) if text.ends_with(' ') => {}
            Token::Whitespace(_) => text.push(' '),
            Token::Word(word) if word.quote_style.is_none() => text.push_str(&word.value.to_lowercase()),
            Token::SingleQuotedString(comment) => text.push_str(&format!("'{}'", comment.replace('\'', "''"))),
            token => text.push_str(&token.to_string()),
        }
    }
    text
}

#[cfg(test)]
mod tests;
