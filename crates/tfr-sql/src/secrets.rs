//! [`Secrets`]: values from the command line and from SQL that no message may show.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use tfr_stores::redacted;

/// Values that no message may show: those of options whose names contain words for keys, passwords and tokens. The
/// secrets in URLs are hidden as well. Clones share the values.
#[derive(Clone, Default)]
pub struct Secrets(Arc<RwLock<Vec<String>>>);

/// What is shown instead of a secret.
pub const HIDDEN: &str = "***";

/// Words in the name of an option whose value is a secret.
const SECRET_WORDS: [&str; 24] = [
    "secret",
    "secrets",
    "secretkey",
    "password",
    "passwd",
    "passphrase",
    "pass",
    "pwd",
    "auth",
    "authorization",
    "bearer",
    "connectionstring",
    "cookie",
    "token",
    "tokens",
    "credential",
    "credentials",
    "key",
    "accesskey",
    "accountkey",
    "apikey",
    "sas",
    "signature",
    "sig",
];

/// Minimum length of a secret. Hiding shorter values would make messages unreadable.
const SHORTEST: usize = 3;

impl Secrets {
    /// Collects the values of options in SQL (`SET name = value`, `OPTIONS (name 'value')`) and in `name=value,...`
    /// among the arguments.
    pub(crate) fn in_arguments(arguments: &[OsString]) -> Self {
        let secrets = Self::default();
        for argument in arguments.iter().filter_map(|argument| argument.to_str()) {
            secrets.add_sql(argument);
            for part in argument.split(',') {
                let mut pieces = part
                    .split('=')
                    .map(|piece| piece.trim_matches(|c: char| c.is_whitespace() || matches!(c, '"' | '\'')));
                // As in --table 'name=path,token=x' and --option=token=x: the last name counts.
                if let (Some(value), Some(name)) = (pieces.next_back(), pieces.next_back()) {
                    secrets.add(name, value);
                }
            }
        }
        secrets
    }

    /// Adds the values of options in SQL.
    pub(crate) fn add_sql(&self, text: &str) {
        let mut tokens = Vec::new();
        // After a syntax error, nothing is known to be a value.
        let _mistake = Tokenizer::new(&GenericDialect {}, text).tokenize_with_location_into_buf(&mut tokens);
        let tokens = tokens.into_iter().map(|token| token.token);
        let tokens: Vec<_> = tokens.filter(|token| !matches!(token, Token::Whitespace(_))).collect();
        for statement in tokens.split(|token| *token == Token::SemiColon) {
            match statement {
                [Token::Word(word), assignments @ ..] if word.keyword == Keyword::SET => self.add_options(assignments),
                _ => {
                    for list in lists(statement) {
                        list.split(|token| *token == Token::Comma).for_each(|option| self.add_options(option));
                    }
                }
            }
        }
    }

    /// Adds the value of `name value`, `name = value` or `name TO value`.
    fn add_options(&self, option: &[Token]) {
        let is_sign = |token: &Token| match token {
            Token::Eq | Token::Assignment => true,
            Token::Word(word) => word.keyword == Keyword::TO && word.quote_style.is_none(),
            _ => false,
        };
        let (name, value) = match option.iter().position(is_sign) {
            Some(sign) => (&option[..sign], &option[sign + 1..]),
            None => {
                let dots = option.iter().skip(1).step_by(2).take_while(|token| **token == Token::Period).count();
                option.split_at((2 * dots + 1).min(option.len()))
            }
        };
        let name: String = name.iter().map(plain).collect();
        let is_text = |token: &Token| matches!(token, Token::SingleQuotedString(_) | Token::DoubleQuotedString(_));
        // Also add the first word: after a syntax error, more than the value follows.
        let texts = value.iter().enumerate().filter(|(at, token)| *at == 0 || is_text(token)).map(|(_, token)| token);
        for text in texts.map(plain) {
            self.add(&name, &text);
            self.add(&name, &text.replace('\'', "''"));
        }
        self.add(&name, &value.iter().map(plain).collect::<String>());
    }

    fn add(&self, name: &str, value: &str) {
        let mut values = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if is_secret(name) && value.len() >= SHORTEST && !values.iter().any(|known| known == value) {
            values.push(value.to_owned());
            // A secret that contains another one is replaced first.
            values.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        }
    }

    /// Returns `text` without these values and without the secrets of URLs.
    pub fn hide<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut shown = redacted(text);
        for secret in self.0.read().unwrap_or_else(PoisonError::into_inner).iter() {
            if shown.contains(secret.as_str()) {
                shown = Cow::Owned(shown.replace(secret.as_str(), HIDDEN));
            }
        }
        shown
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets(..)")
    }
}

/// Whether the value of the option `name` is a secret.
fn is_secret(name: &str) -> bool {
    let words = words(name);
    let name = name.to_lowercase();
    // The delimiter of map keys is not a secret key.
    let is_other = name.contains(char::is_whitespace) || name.contains("delim");
    let joined = words.windows(2).map(|pair| pair.concat());
    !is_other && joined.chain(words.iter().cloned()).any(|word| SECRET_WORDS.contains(&word.as_str()))
}

/// Returns the words of a name, in lower case: `sasToken` and `sas_token` have two.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut last = ' ';
    for c in name.chars() {
        if !c.is_alphanumeric() || c.is_uppercase() && last.is_lowercase() {
            words.push(String::new());
        }
        if let (true, Some(word)) = (c.is_alphanumeric(), words.last_mut()) {
            word.extend(c.to_lowercase());
        }
        last = c;
    }
    words
}

/// Returns the contents of the parentheses of `OPTIONS (...)` and similar clauses.
fn lists(statement: &[Token]) -> impl Iterator<Item = &[Token]> {
    let begins = |pair: &[Token]| match pair {
        [Token::Word(word), Token::LParen] => {
            matches!(word.keyword, Keyword::OPTIONS | Keyword::WITH | Keyword::TBLPROPERTIES | Keyword::SERDEPROPERTIES)
        }
        _ => false,
    };
    let starts = statement.windows(2).enumerate().filter(move |(_, pair)| begins(pair)).map(|(at, _)| at + 2);
    starts.map(|start| {
        let list = &statement[start..];
        // A missing closing parenthesis is a syntax error, whose message will show the text.
        &list[..list.iter().position(|token| *token == Token::RParen).unwrap_or(list.len())]
    })
}

/// Returns the text of a token, without quotes.
fn plain(token: &Token) -> String {
    match token {
        Token::SingleQuotedString(text) | Token::DoubleQuotedString(text) => text.clone(),
        Token::Word(word) => word.value.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::Secrets;

    fn hidden(text: &str) -> String {
        Secrets::in_arguments(&[text.into()]).hide(text).into_owned()
    }

    #[test]
    fn values_of_secret_options_are_hidden() {
        for (text, shown) in [
            ("SET x.secret = 'hush'; SELECT 'hush'", "SET x.secret = '***'; SELECT '***'"),
            ("SET a.api_key TO hu-sh", "SET a.api_key TO ***"),
            ("SET a.api_key TO hush SELECT 1", "SET a.api_key TO *** SELECT 1"),
            (
                "x OPTIONS (aws.secret_access_key 'it''s', format.delimiter ';')",
                "x OPTIONS (aws.secret_access_key '***', format.delimiter ';')",
            ),
            ("x OPTIONS ('token' 'hush', 'sas' = 'hush2'", "x OPTIONS ('token' '***', 'sas' = '***'"),
            ("COPY t TO 's3://b/x' WITH (account_key 'hush')", "COPY t TO 's3://b/x' WITH (account_key '***')"),
            ("t=a.csv,aws_secret=hush,null=NA", "t=a.csv,aws_secret=***,null=NA"),
            ("--option=token=hush", "--option=token=***"),
            (
                "t=a.csv,x.auth=hush,x.sasToken=hus2,x.secretkey=hus3",
                "t=a.csv,x.auth=***,x.sasToken=***,x.secretkey=***",
            ),
            (
                "t=a.csv,connection_string=hush,secretAccessKey=hus2",
                "t=a.csv,connection_string=***,secretAccessKey=***",
            ),
            ("SET x.authorization='hush'; SET x.bearer='hus2'", "SET x.authorization='***'; SET x.bearer='***'"),
            ("SET x.pass = 'hush'; SET x.passphrase TO 'hus2'", "SET x.pass = '***'; SET x.passphrase TO '***'"),
            ("author=a.csv,monkey=b.csv", "author=a.csv,monkey=b.csv"),
            (
                "SELECT * FROM 'https://me:pw@h/x' WHERE token = 'hush'",
                "SELECT * FROM 'https://***@h/x' WHERE token = 'hush'",
            ),
            ("SET datafusion.execution.batch_size = 100", "SET datafusion.execution.batch_size = 100"),
            ("x OPTIONS (map_key_delimiter 'none')", "x OPTIONS (map_key_delimiter 'none')"),
        ] {
            assert_eq!(hidden(text), shown);
        }
    }
}
