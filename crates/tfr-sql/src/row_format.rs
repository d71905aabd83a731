//! Translates Hive clauses of `CREATE EXTERNAL TABLE` that the engine does not support into options.
//!
//! `ROW FORMAT DELIMITED` and `TBLPROPERTIES` are removed from the tokens and added to the `OPTIONS` of the statement.
//! Properties that do not affect how files are read are dropped, and others that tfr-sql does not have are refused. So is
//! `ROW FORMAT SERDE`, except for the classes of formats that tfr-sql has; `STORED AS INPUTFORMAT` becomes their name. Types
//! in `PARTITIONED BY` become an option if a `CHAR` or `VARCHAR` is among them, whose length SQL drops. The columns of a
//! table `STORED AS TEXTFILE` become an option too, if Hive would understand them: `MAP<STRING,INT>`, `BINARY` and the
//! length of a `VARCHAR` have Hive's meaning, and so does `TIMESTAMP`, which reaches to the year 9999.

use std::collections::VecDeque;

use datafusion::error::DataFusionError;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{HiveDelimiter, HiveRowFormat, Value};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};
use tfr_engine::{parse_all, parse_tokens};
use tfr_formats::hive_text::HiveColumns;

use crate::error::{Error, Result};

/// Table properties that specify how files are read.
const PROPERTIES: [&str; 10] = [
    "skip.header.line.count",
    "skip.footer.line.count",
    "serialization.null.format",
    "serialization.encoding",
    "field.delim",
    "collection.delim",
    "colelction.delim",
    "mapkey.delim",
    "escape.delim",
    "line.delim",
];

/// The SerDes of Hive whose tables are read by their format.
const SERDES: [&str; 5] = ["LazySimpleSerDe", "MultiDelimitSerDe", "ParquetHiveSerDe", "OrcSerde", "AvroSerDe"];

/// The input formats of Hive that `SHOW CREATE TABLE` prints, and their names in `STORED AS`.
const INPUT_FORMATS: [(&str, &str); 4] = [
    ("TextInputFormat", "TEXTFILE"),
    ("MapredParquetInputFormat", "PARQUET"),
    ("OrcInputFormat", "ORC"),
    ("AvroContainerInputFormat", "AVRO"),
];

/// Table properties that change the values of text in Hive, and what to do instead.
const REFUSED: [(&str, &str); 2] = [
    ("timestamp.formats", "declare the column as STRING, and parse it in the query: to_timestamp(s, '%Y/%m/%d')"),
    ("serialization.last.column.takes.rest", "declare a column for each cell, and join them: concat_ws(',', a, b)"),
];

/// Parses the statements of `text`.
pub fn parse(text: &str) -> Result<VecDeque<Statement>> {
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

/// A clause, converted to options.
struct Clause {
    /// The index of its statement.
    statement: usize,
    options: Vec<(&'static str, String)>,
}

/// Removes the clauses from the statements that create tables.
fn split(tokens: Vec<TokenWithSpan>) -> Result<(Vec<TokenWithSpan>, Vec<Clause>)> {
    let (mut kept, mut clauses) = (Vec::with_capacity(tokens.len()), Vec::new());
    // The words of the statement so far, the parenthesis depth of the next token, and the index in `kept` where the
    // statement begins.
    let (mut statement, mut words, mut depth, mut start) = (0, Vec::new(), 0_usize, 0);
    let mut index = 0;
    while let Some(token) = tokens.get(index) {
        index += 1;
        match &token.token {
            Token::SemiColon => {
                clauses.extend(take_columns(&mut kept, start).map(|options| Clause { statement, options }));
                statement += usize::from(!words.is_empty());
                words.clear();
                (depth, start) = (0, kept.len() + 1);
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
                if word.keyword == Keyword::TBLPROPERTIES && depth == 0 && creates && is_list(&tokens, index) {
                    let (options, len) = properties(tokens.get(index..).unwrap_or_default())?;
                    clauses.push(Clause { statement, options });
                    index += len;
                    continue;
                }
                if word.keyword == Keyword::INPUTFORMAT
                    && depth == 0
                    && creates
                    && let Some((name, len)) = stored_as(tokens.get(index..).unwrap_or_default())
                {
                    words.push(Keyword::NoKeyword);
                    kept.push(TokenWithSpan::wrap(Token::make_word(name, None)));
                    index += len;
                    continue;
                }
                words.push(word.keyword);
                if depth == 0
                    && creates
                    && words.ends_with(&[Keyword::PARTITIONED, Keyword::BY])
                    && let Some(PathColumns { names, types, len }) = path(tokens.get(index..).unwrap_or_default())
                {
                    clauses.push(Clause { statement, options: vec![("partitions", types)] });
                    kept.push(token.clone());
                    kept.extend(names);
                    index += len;
                    continue;
                }
            }
            Token::Whitespace(_) => {}
            // Any token means that the statement is not empty.
            _ => words.push(Keyword::NoKeyword),
        }
        kept.push(token.clone());
    }
    clauses.extend(take_columns(&mut kept, start).map(|options| Clause { statement, options }));
    Ok((kept, clauses))
}

/// Removes the columns from the statement that begins at `start`, if it creates a Hive text table and Hive would
/// understand them all. SQL has other types, quotes and constraints. If columns from the path are among them, SQL
/// parses them all.
fn take_columns(kept: &mut Vec<TokenWithSpan>, start: usize) -> Option<Vec<(&'static str, String)>> {
    let statement = kept.get(start..)?;
    let open = statement.iter().position(|token| token.token == Token::LParen)?;
    let (before, columns) = statement.split_at_checked(open)?;
    let before: Vec<Keyword> = keywords(before).collect();
    let creates = before.first() == Some(&Keyword::CREATE) && before.contains(&Keyword::EXTERNAL);
    if !creates || [Keyword::STORED, Keyword::PARTITIONED, Keyword::OPTIONS].iter().any(|word| before.contains(word)) {
        return None;
    }
    let after_open = columns;
    let columns = in_parentheses(after_open)?;
    let close = columns.len() + 1;
    let behind = after_open.get(close + 1..)?;
    let is_named = |token: &TokenWithSpan, name: &str| matches!(&token.token, Token::Word(word) if word.value.eq_ignore_ascii_case(name));
    // If the option `schema` is given too, the error reports that the columns are declared twice.
    let is_option = |token: &TokenWithSpan| {
        is_named(token, "schema") || token.token == Token::SingleQuotedString("schema".to_owned())
    };
    if !behind.iter().any(|token| is_named(token, "TEXTFILE")) || behind.iter().any(is_option) {
        return None;
    }
    let text = hive_text(columns);
    let schema = text.parse::<HiveColumns>().ok()?.schema();
    let path = behind
        .iter()
        .skip_while(|token| !is_named(token, "PARTITIONED"))
        .skip_while(|token| token.token != Token::LParen);
    let mut path = path.take_while(|token| token.token != Token::RParen);
    if path.any(|token| schema.fields().iter().any(|field| is_named(token, field.name()))) {
        return None;
    }
    kept.drain(start + open..start + open + close + 1);
    Some(vec![("schema", text)])
}

/// The columns after `PARTITIONED BY`.
struct PathColumns {
    /// Their names in parentheses, without types.
    names: Vec<TokenWithSpan>,
    /// Their names and types, as the option `partitions` has them.
    types: String,
    /// The number of tokens that they were written in.
    len: usize,
}

/// Returns the columns after `PARTITIONED BY`; `None` if all types are types of SQL.
fn path(tokens: &[TokenWithSpan]) -> Option<PathColumns> {
    let open = tokens.iter().position(|token| !matches!(token.token, Token::Whitespace(_)))?;
    let columns = in_parentheses(tokens.get(open..)?)?;
    let text = hive_text(columns);
    let parsed: HiveColumns = text.parse().ok()?;
    if !parsed.has_lengths() {
        return None;
    }
    let schema = parsed.schema();
    let names = schema.fields().iter().enumerate().flat_map(|(index, field)| {
        let comma = (index > 0).then_some(Token::Comma);
        comma.into_iter().chain([Token::make_word(&field.name().replace('"', "\"\""), Some('"'))])
    });
    let names = [Token::LParen].into_iter().chain(names).chain([Token::RParen]).map(TokenWithSpan::wrap);
    Some(PathColumns { names: names.collect(), types: text, len: open + columns.len() + 2 })
}

/// Returns the tokens between the parenthesis at the start and the one that closes it.
fn in_parentheses(tokens: &[TokenWithSpan]) -> Option<&[TokenWithSpan]> {
    let mut depth = 0_usize;
    let close = tokens.iter().position(|token| {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    })?;
    tokens.get(1..close)
}

fn keywords(tokens: &[TokenWithSpan]) -> impl Iterator<Item = Keyword> {
    tokens.iter().filter_map(|token| match &token.token {
        Token::Word(word) => Some(word.keyword),
        _ => None,
    })
}

/// Returns the columns as written, except that unquoted names are lower-cased, as everywhere in SQL.
fn hive_text(columns: &[TokenWithSpan]) -> String {
    let mut text = String::new();
    for token in columns {
        match &token.token {
            Token::Whitespace(_) if text.ends_with(' ') => {}
            Token::Whitespace(_) => text.push(' '),
            Token::Word(word) if word.quote_style.is_none() => text.push_str(&word.value.to_lowercase()),
            token => text.push_str(&token.to_string()),
        }
    }
    text
}

/// Returns the name of the format whose class follows `INPUTFORMAT`, and the number of the tokens up to the class of
/// `OUTPUTFORMAT`; `None` if it is another class.
fn stored_as(tokens: &[TokenWithSpan]) -> Option<(&'static str, usize)> {
    let is_word = |(_, token): &(usize, &TokenWithSpan)| !matches!(token.token, Token::Whitespace(_));
    let mut words = tokens.iter().enumerate().filter(is_word).map(|(index, token)| (index, &token.token));
    let (_, Token::SingleQuotedString(class)) = words.next()? else { return None };
    let (_, name) = INPUT_FORMATS.iter().find(|(known, _)| class.rsplit('.').next() == Some(known))?;
    let (_, Token::Word(word)) = words.next()? else { return None };
    let (end, Token::SingleQuotedString(_)) = words.next()? else { return None };
    (word.keyword == Keyword::OUTPUTFORMAT).then_some((name, end + 1))
}

/// Returns the properties of a SerDe as options, and the number of their tokens. Those of binary formats are dropped.
fn serde(class: String, tokens: &[TokenWithSpan]) -> Result<(Vec<(&'static str, String)>, usize)> {
    let name = class.rsplit('.').next().unwrap_or_default();
    if !SERDES.contains(&name) {
        return Err(refused_serde(&class));
    }
    let is_word = |(_, token): &(usize, &TokenWithSpan)| !matches!(token.token, Token::Whitespace(_));
    let mut words = tokens.iter().enumerate().filter(is_word).map(|(index, token)| (index, &token.token));
    let mut next = |keyword| match words.next() {
        Some((index, Token::Word(word))) if word.keyword == keyword => Some(index),
        _ => None,
    };
    let Some(list) = next(Keyword::WITH).and_then(|_| next(Keyword::SERDEPROPERTIES)) else {
        return Ok((Vec::new(), 0));
    };
    let (mut options, len) = properties(tokens.get(list + 1..).unwrap_or_default())?;
    let delimiter = options.iter().find(|(key, _)| *key == "field.delim").map(|(_, value)| value.clone());
    match (name, delimiter) {
        ("LazySimpleSerDe", Some(delimiter)) if is_several(&delimiter) => {
            return Err(refused_delimiter(&delimiter));
        }
        ("LazySimpleSerDe" | "MultiDelimitSerDe", _) => {}
        _ => options.clear(),
    }
    Ok((options, list + 1 + len))
}

/// Returns the error of a table that is read by a class.
fn refused_serde(class: &str) -> Error {
    let instead = if class.ends_with("OpenCSVSerde") {
        "STORED AS CSV OPTIONS (header 'false') is another format: there an empty cell without quotes is NULL, a quoted \
         cell may have several lines, and a line with more cells than columns is an error"
    } else if class.ends_with("JsonSerDe") {
        "STORED AS JSON OPTIONS (names 'insensitive') is another format: there a value that is not of its column's type, \
         such as \"5\" for INT, is an error, and texts are not cut to the length of a CHAR or VARCHAR"
    } else {
        "leave the clause out and name the format, as in STORED AS TEXTFILE, PARQUET, ORC, AVRO, JSON or CSV; properties \
         of the SerDe stand in OPTIONS ('field.delim' ',')"
    };
    Error::HiveClause {
        clause: format!("ROW FORMAT SERDE '{class}'"),
        problem: "tables are read by their format, not by a class",
        instead: instead.to_owned(),
    }
}

/// Returns the error of a delimiter of several characters, of which Hive itself uses only the first one.
fn refused_delimiter(delimiter: &str) -> Error {
    Error::HiveClause {
        clause: format!("FIELDS TERMINATED BY '{delimiter}'"),
        problem: "Hive takes one character here",
        instead: format!(
            "leave the clause out and put OPTIONS ('field.delim' '{delimiter}') behind the location, as for Hive's \
             MultiDelimitSerDe"
        ),
    }
}

/// Whether a delimiter has several characters.
fn is_several(delimiter: &str) -> bool {
    let is_number = delimiter.starts_with('\\') || delimiter.parse::<i64>().is_ok();
    delimiter.chars().count() > 1 && !is_number
}

/// Returns the properties after `TBLPROPERTIES` that affect how files are read, and the number of their tokens.
///
/// # Errors
/// One changes values in a way that tfr-sql does not have.
fn properties(tokens: &[TokenWithSpan]) -> Result<(Vec<(&'static str, String)>, usize)> {
    let len = tokens.iter().position(|token| token.token == Token::RParen).map_or(0, |close| close + 1);
    let texts = tokens.iter().take(len).filter_map(|token| match &token.token {
        Token::SingleQuotedString(text) | Token::DoubleQuotedString(text) => Some(text),
        Token::Word(word) => Some(&word.value),
        _ => None,
    });
    let texts: Vec<&String> = texts.collect();
    let mut options = Vec::new();
    for pair in texts.chunks_exact(2) {
        let [key, value] = pair else { continue };
        let refused = REFUSED.iter().find(|(refused, _)| refused.eq_ignore_ascii_case(key));
        if let Some((key, instead)) = refused.filter(|_| !value.eq_ignore_ascii_case("false") && !value.is_empty()) {
            let clause = format!("TBLPROPERTIES ('{key}'='{value}')");
            let (problem, instead) = ("this property is not supported", (*instead).to_owned());
            return Err(Error::HiveClause { clause, problem, instead });
        }
        let known = PROPERTIES.iter().find(|known| known.eq_ignore_ascii_case(key));
        options.extend(known.map(|key| (*key, (*value).clone())));
    }
    Ok((options, len))
}

fn is_format(tokens: &[TokenWithSpan], from: usize) -> bool {
    matches!(next(tokens, from), Some(Token::Word(word)) if word.keyword == Keyword::FORMAT)
}

fn is_list(tokens: &[TokenWithSpan], from: usize) -> bool {
    next(tokens, from) == Some(&Token::LParen)
}

/// Returns the next token that is not whitespace.
fn next(tokens: &[TokenWithSpan], from: usize) -> Option<&Token> {
    tokens.iter().skip(from).map(|token| &token.token).find(|token| !matches!(token, Token::Whitespace(_)))
}

/// Returns the options after `ROW`, and the number of their tokens.
fn clause(tokens: &[TokenWithSpan]) -> Result<(Vec<(&'static str, String)>, usize)> {
    let mut parser = Parser::new(&GenericDialect {}).with_tokens_with_locations(tokens.to_vec());
    let format = parser.parse_row_format().map_err(DataFusionError::from)?;
    let delimiters = match format {
        HiveRowFormat::DELIMITED { delimiters } => delimiters,
        HiveRowFormat::SERDE { class } => {
            let (options, len) = serde(class, tokens.get(parser.index()..).unwrap_or_default())?;
            return Ok((options, parser.index() + len));
        }
    };
    let several = delimiters
        .iter()
        .find(|given| matches!(given.delimiter, HiveDelimiter::FieldsTerminatedBy) && is_several(&given.char.value));
    if let Some(given) = several {
        return Err(refused_delimiter(&given.char.value));
    }
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

    #[track_caller]
    fn refused_clause(text: &str) -> String {
        match parse(text) {
            Err(Error::HiveClause { clause, .. }) => clause,
            other => panic!("{other:?}"),
        }
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
            "schema='a int, row int'",
            r"field.delim='\t'",
        ];
        assert_eq!(options(text), expected);
        assert_eq!(parse(text).unwrap().len(), 3);
    }

    #[test]
    fn hive_ddl_columns_become_the_schema_option() {
        let text = r"
            CREATE EXTERNAL TABLE IF NOT EXISTS db.t (Id BIGINT COMMENT 'no ;', `Aß` MAP<STRING,ARRAY<INT>>, b BINARY, -- the last
                c VARCHAR(2))
            COMMENT_IS_NOT_TAKEN";
        assert!(parse(text).is_err());
        let text = text.replace("COMMENT_IS_NOT_TAKEN", "PARTITIONED BY (dt DATE) STORED AS TEXTFILE LOCATION 'x' TBLPROPERTIES (\"skip.header.line.count\"=\"1\", 'transient_lastDdlTime' = '5')");
        let schema = "schema='id bigint comment ''no ;'', `Aß` map<string,array<int>>, b binary, c varchar(2)'";
        assert_eq!(options(&text), ["skip.header.line.count='1'", schema]);
        // What Hive does not understand, or would not find in the file.
        for columns in ["(a INT NOT NULL)", "(\"A\" INT)", "(a INT[])", "(a INT, dt DATE)", ""] {
            let text = format!("CREATE EXTERNAL TABLE t {columns} STORED AS TEXTFILE PARTITIONED BY (dt) LOCATION 'x'");
            assert!(options(&text).is_empty(), "{columns}");
        }
        assert!(options("CREATE EXTERNAL TABLE t (a INT) STORED AS CSV LOCATION 'x'").is_empty());
        let two = "CREATE EXTERNAL TABLE t (a INT) STORED AS CSV LOCATION 'x'; CREATE EXTERNAL TABLE u (a INT) STORED AS TEXTFILE LOCATION 'x'; SELECT (1)";
        assert_eq!(options(two), ["schema='a int'"]);
    }

    #[test]
    fn hive_show_create_table_is_parsed() {
        let text = r"CREATE EXTERNAL TABLE `w`(
              `id` int,
              `st` string)
            ROW FORMAT SERDE
              'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe'
            WITH SERDEPROPERTIES (
              'escape.delim'='\\', 'field.delim'='\u0001', 'serialization.format'='\u0001', 'serialization.null.format'='NULL')
            STORED AS INPUTFORMAT
              'org.apache.hadoop.mapred.TextInputFormat'
            OUTPUTFORMAT
              'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat'
            LOCATION 'data' TBLPROPERTIES ('bucketing_version'='2'); SELECT 1";
        let schema = "schema=' `id` int, `st` string'";
        let expected = [r"escape.delim='\\'", r"field.delim='\u0001'", "serialization.null.format='NULL'", schema];
        assert_eq!(options(text), expected);
        let Some(Statement::CreateExternalTable(table)) = parse(text).unwrap().pop_front() else { panic!("{text}") };
        assert_eq!(table.file_type, "TEXTFILE");
        let orc = "CREATE EXTERNAL TABLE t (a INT) ROW FORMAT SERDE 'org.apache.hadoop.hive.ql.io.orc.OrcSerde' WITH SERDEPROPERTIES \
            ('serialization.format'='1') STORED AS INPUTFORMAT 'org.apache.hadoop.hive.ql.io.orc.OrcInputFormat' OUTPUTFORMAT 'x' \
            LOCATION 'x'";
        assert!(options(orc).is_empty());
        assert!(parse(&orc.replace("orc.OrcInputFormat", "RCFileInputFormat")).is_err());
        let several = text.replace(r"\u0001", "||");
        assert_eq!(refused_clause(&several), "FIELDS TERMINATED BY '||'");
        assert!(parse(&several.replace("lazy.LazySimple", "MultiDelimit")).is_ok());
    }

    #[test]
    fn lengths_of_columns_in_the_path_are_kept() {
        let text = "CREATE EXTERNAL TABLE t (a INT) PARTITIONED BY (P CHAR(3), `q r` DATE COMMENT 'x') STORED AS TEXTFILE LOCATION 'x'";
        let schema = "schema='a int'";
        assert_eq!(options(text), ["partitions='p char(3), `q r` date comment ''x'''", schema]);
        let Some(Statement::CreateExternalTable(table)) = parse(text).unwrap().pop_front() else { panic!("{text}") };
        assert_eq!(table.table_partition_cols, ["\"p\"", "\"q r\""]);
        // SQL has these types.
        let others = "CREATE EXTERNAL TABLE t (a INT) PARTITIONED BY (p INT, q STRING) STORED AS TEXTFILE LOCATION 'x'";
        assert_eq!(options(others), [schema]);
        assert_eq!(options(&others.replace("p INT, q STRING", "p, q")), [schema]);
    }

    #[test]
    fn row_format_leaves_other_statements_unchanged() {
        assert!(options("SELECT 1 AS row").is_empty());
        assert!(parse("SELECT ROW FORMAT DELIMITED").is_err());
        let text = "CREATE EXTERNAL TABLE t STORED AS TEXTFILE LOCATION 'ROW FORMAT DELIMITED'";
        assert!(options(text).is_empty());
    }

    #[test]
    fn row_format_rejects_unsupported_clauses() {
        let serde = "CREATE EXTERNAL TABLE t ROW FORMAT SERDE 'a.B' STORED AS TEXTFILE LOCATION 'x'";
        assert_eq!(refused_clause(serde), "ROW FORMAT SERDE 'a.B'");
        let several =
            "CREATE EXTERNAL TABLE t ROW FORMAT DELIMITED FIELDS TERMINATED BY '||' STORED AS TEXTFILE LOCATION 'x'";
        assert_eq!(refused_clause(several), "FIELDS TERMINATED BY '||'");
        for (key, value) in [("timestamp.formats", "yyyy/MM/dd"), ("serialization.last.column.takes.rest", "true")] {
            let text = format!(
                "CREATE EXTERNAL TABLE t (a INT) STORED AS TEXTFILE LOCATION 'x' TBLPROPERTIES ('a'='b', '{key}'='{value}')"
            );
            assert_eq!(refused_clause(&text), format!("TBLPROPERTIES ('{key}'='{value}')"));
            assert!(parse(&text.replace(value, "false")).is_ok());
        }
        let twice = "CREATE EXTERNAL TABLE t ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' STORED AS TEXTFILE \
            OPTIONS ('field.delim' ';') LOCATION 'x'";
        assert!(matches!(parse(twice), Err(Error::RowFormatTwice { key: "field.delim" })));
    }
}
