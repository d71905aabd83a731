//! [`PatternFunction`]: translates patterns and replacements of PostgreSQL to those of the engine.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, StringBuilder};
use arrow_schema::DataType;
use datafusion_common::{Result, exec_err, plan_err};
use datafusion_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use tfr_arrow::nested::value_type;

use super::similar::similar_to_regex;
use crate::corrected::on_arrays;

/// A reference to a group that no pattern has. The engine replaces it by an empty text.
const NOTHING: &str = "${4294967295}";

static FUNCTIONS: LazyLock<[Arc<ScalarUDF>; 5]> = LazyLock::new(|| {
    PatternFunction::ALL.map(|function| {
        let signature = Signature::user_defined(Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(Translation { function, signature }))
    })
});

/// Returns the functions that the rule calls.
pub(crate) fn functions() -> [Arc<ScalarUDF>; 5] {
    FUNCTIONS.clone()
}

/// What is translated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum PatternFunction {
    /// The pattern of `SIMILAR TO`, with its escape character.
    Similar,
    /// A regular expression that is only tested, with its flags.
    Match,
    /// A regular expression whose matches or groups are returned, counted or replaced, with its flags.
    Search,
    /// The replacement of `regexp_replace`.
    Replacement,
    /// The flags of a regular expression.
    Flags,
}

impl PatternFunction {
    const ALL: [Self; 5] = [Self::Similar, Self::Match, Self::Search, Self::Replacement, Self::Flags];

    fn name(self) -> &'static str {
        match self {
            Self::Similar => "regex_of_similar_to",
            Self::Match => "regex_to_match",
            Self::Search => "regex_to_search",
            Self::Replacement => "regex_replacement",
            Self::Flags => "regex_flags",
        }
    }

    pub(super) fn function(self) -> Arc<ScalarUDF> {
        let [similar, matched, searched, replacement, flags] = functions();
        match self {
            Self::Similar => similar,
            Self::Match => matched,
            Self::Search => searched,
            Self::Replacement => replacement,
            Self::Flags => flags,
        }
    }

    /// Whether an expression is a pattern that has been translated.
    pub(super) fn is_call(expr: &Expr) -> bool {
        matches!(expr, Expr::ScalarFunction(call) if call.func.inner().is::<Translation>())
    }

    /// Translates a text, with the further arguments.
    pub(super) fn translated<'a>(self, texts: &[&'a str]) -> Result<Cow<'a, str>> {
        match (self, texts) {
            (Self::Similar, [pattern, escape]) => similar_to_regex(pattern, escape).map(Cow::Owned),
            (Self::Match, [pattern, flags @ ..]) => Ok(unsimplified(with_newlines(pattern, flags))),
            (Self::Search, [pattern, flags @ ..]) => Ok(with_newlines(pattern, flags)),
            // The engine fails with no flags. This one is set anyway.
            (Self::Flags, [flags]) => Ok(Cow::Borrowed(if flags.is_empty() { "u" } else { flags })),
            (Self::Replacement, [replacement]) => Ok(replacement_of_engine(replacement)),
            _ => exec_err!("{} was called with {} arguments", self.name(), texts.len()),
        }
    }
}

/// Makes `.` match a newline, unless a flag makes the pattern sensitive to newlines.
fn with_newlines<'a>(pattern: &'a str, flags: &[&str]) -> Cow<'a, str> {
    let is_sensitive = flags.iter().any(|flags| flags.contains('m'));
    match pattern.contains('.') && !is_sensitive {
        true => Cow::Owned(format!("(?s){pattern}")),
        false => Cow::Borrowed(pattern),
    }
}

/// Keeps the engine from a wrong simplification: it takes `a\\b` for `LIKE '%a\b%'`, where the backslash escapes.
fn unsimplified(pattern: Cow<'_, str>) -> Cow<'_, str> {
    match [r"\\", r"\x", r"\u", r"\U"].iter().any(|backslash| pattern.contains(backslash)) {
        true => Cow::Owned(format!("{pattern}()")),
        false => pattern,
    }
}

/// Translates a replacement: `\1` to `\9` are groups, `\&` is the match, `\\` is a backslash, and `$` is itself.
fn replacement_of_engine(replacement: &str) -> Cow<'_, str> {
    if !replacement.contains(['\\', '$']) {
        return Cow::Borrowed(replacement);
    }
    let mut result = String::with_capacity(replacement.len());
    let mut chars = replacement.chars().peekable();
    while let Some(next) = chars.next() {
        match (next, chars.peek()) {
            ('$', _) => result.push_str("$$"),
            ('\\', Some(&group @ '1'..='9')) => {
                chars.next();
                result.extend(["${", group.encode_utf8(&mut [0; 4]), "}"]);
            }
            ('\\', Some('&')) => {
                chars.next();
                result.push_str("${0}");
            }
            ('\\', following) => {
                if following == Some(&'\\') {
                    chars.next();
                }
                // The engine takes a backslash before a digit for a group.
                result.push('\\');
                result.push_str(NOTHING);
            }
            (other, _) => result.push(other),
        }
    }
    Cow::Owned(result)
}

/// Translates texts. NULL where one of them is.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Translation {
    function: PatternFunction,
    signature: Signature,
}

impl ScalarUDFImpl for Translation {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args.first() {
            Some(text) => Ok(text.schema_name().to_string()),
            None => plan_err!("{} takes a text", self.name()),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        // The engine would replace an error by its own. `return_type` reports it.
        Ok(if types.iter().all(is_text) { vec![DataType::Utf8; types.len()] } else { types.to_vec() })
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types.iter().find(|data_type| !is_text(data_type)) {
            Some(other) => plan_err!("a pattern, its flags and a replacement must be texts, found {other}"),
            None => Ok(DataType::Utf8),
        }
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        on_arrays(&args.args, |arrays| self.translate(arrays))
    }
}

fn is_text(data_type: &DataType) -> bool {
    value_type(data_type).is_string() || data_type.is_null()
}

impl Translation {
    fn translate(&self, arrays: &[ArrayRef]) -> Result<ArrayRef> {
        let arrays: Vec<_> = arrays.iter().map(|array| array.as_string::<i32>()).collect();
        let rows = arrays.first().map_or(0, |array| array.len());
        let mut result = StringBuilder::new();
        for row in 0..rows {
            if arrays.iter().any(|array| array.is_null(row)) {
                result.append_null();
                continue;
            }
            let texts: Vec<_> = arrays.iter().map(|array| array.value(row)).collect();
            result.append_value(self.function.translated(&texts)?);
        }
        Ok(Arc::new(result.finish()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacements_insert_groups_of_one_digit() {
        for (replacement, engine) in [
            ("x", "x"),
            (r"[\1\12]", "[${1}${1}2]"),
            (r"\&", "${0}"),
            ("$1", "$$1"),
            (r"\\1", r"\${4294967295}1"),
            (r"\0", r"\${4294967295}0"),
            (r"\", r"\${4294967295}"),
        ] {
            assert_eq!(replacement_of_engine(replacement), engine, "{replacement}");
        }
    }
}
