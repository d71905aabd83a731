//! `regexp_match` with a place for each group. The engine leaves out groups that match nothing:
//! `regexp_match('a', '(x)?(a)')[1]` was `a`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListBuilder, StringBuilder};
use arrow::compute::cast;
use arrow_schema::DataType;
use datafusion::functions::regex::regexp_match;
use datafusion_common::{DataFusionError, Result, exec_err};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF};
use regex::Regex;

use crate::corrected::{Corrected, Correction, on_arrays};

/// Returns the function to register in place of the engine's.
pub(crate) fn match_function() -> Arc<ScalarUDF> {
    Corrected::function(regexp_match(), &CaptureGroups)
}

#[derive(Debug)]
struct CaptureGroups;

impl Correction for CaptureGroups {
    fn invoke(&self, engine: &ScalarUDF, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if args.args.iter().any(|arg| arg.data_type().is_null()) {
            return engine.invoke_with_args(args);
        }
        let found = on_arrays(&args.args, groups)?;
        found.cast_to(args.return_field.data_type(), None)
    }
}

/// Returns the texts of the groups of each first match, or its whole text if there are no groups.
fn groups(args: &[ArrayRef]) -> Result<ArrayRef> {
    let texts = args.iter().map(|array| cast(array, &DataType::Utf8)).collect::<Result<Vec<_>, _>>()?;
    let texts: Vec<_> = texts.iter().map(|array| array.as_string::<i32>()).collect();
    let [text, pattern, flags @ ..] = texts.as_slice() else {
        return exec_err!("regexp_match was called with {} arguments", texts.len());
    };
    let flags = flags.first();
    let mut found = ListBuilder::new(StringBuilder::new());
    let mut compiled: Option<(&str, Option<&str>, Regex)> = None;
    for row in 0..text.len() {
        if texts.iter().any(|array| array.is_null(row)) {
            found.append_null();
            continue;
        }
        let (pattern, flags) = (pattern.value(row), flags.map(|flags| flags.value(row)));
        if compiled.as_ref().is_none_or(|(of, with, _)| (*of, *with) != (pattern, flags)) {
            compiled = Some((pattern, flags, compile(pattern, flags)?));
        }
        let captures = compiled.as_ref().and_then(|(_, _, regex)| regex.captures(text.value(row)));
        match captures {
            Some(captures) => {
                let skipped = usize::from(captures.len() > 1);
                captures
                    .iter()
                    .skip(skipped)
                    .for_each(|group| found.values().append_option(group.map(|group| group.as_str())));
                found.append(true);
            }
            None => found.append_null(),
        }
    }
    Ok(Arc::new(found.finish()))
}

fn compile(pattern: &str, flags: Option<&str>) -> Result<Regex> {
    let with_flags = match flags {
        Some(flags) if flags.contains('g') => {
            return exec_err!(
                "the flag g of regexp_match is not supported, because it returns the first match; write regexp_count for \
                 the number of matches"
            );
        }
        Some(flags) if !flags.is_empty() => format!("(?{flags}){pattern}"),
        _ => pattern.to_owned(),
    };
    Regex::new(&with_flags).map_err(|error| {
        DataFusionError::External(Box::new(error)).context(format!("regexp_match with {with_flags:?}"))
    })
}
