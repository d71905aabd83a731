//! [`Explanation`]: the text of an error chain, without repetition.
//!
//! The library crates keep the source of every error. The engine wraps errors in variants that add nothing useful
//! (`External error:`) or that print their source again. [`Explanation::of`] traverses the chain, takes from each
//! error only its own message, and leaves out repetitions.
//!
//! The texts of the engine that are matched here were read from DataFusion 55.2.

use std::collections::BTreeSet;
use std::error::Error as StdError;
use std::io;
use std::sync::Arc;

use arrow::error::ArrowError;
use datafusion::common::utils::datafusion_strsim::levenshtein;
use datafusion::common::{Column, SchemaError};
use datafusion::error::DataFusionError;
use datafusion::object_store;
use datafusion::parquet::errors::ParquetError;
use datafusion_tfrecord::{ErrorKind as TableKind, functions};
use tfr_arrow::text::NoTextError;
use tfr_engine::{ResultTooLarge, RowTooLong};
use tfr_formats::PageTooLong;

use super::{
    ClusterError, Error, ErrorDetails, RebuildProblem, RemoteError, TaskError, columns, files, foreign, formats,
    framing, listed, planner, quoted, shards, sidecars, stores, syntax, tables,
};

/// An error as text: its causes from the outermost in, and a hint.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    /// The error and its causes. At least one.
    pub causes: Vec<String>,
    /// How to fix it.
    pub hint: Option<String>,
    /// Its class and location.
    pub details: ErrorDetails,
}

impl Explanation {
    /// Explains `error` and all of its sources.
    pub fn of(error: &(dyn StdError + 'static)) -> Self {
        let mut explanation = Self::default();
        let (mut partial_rows, mut rejects) = (false, false);
        let mut way_out = None;
        let mut next = Some(error);
        while let Some(error) = next {
            explanation.details.add(error);
            if let Some(worker) = error.downcast_ref::<RemoteError>() {
                worker.causes.iter().for_each(|cause| explanation.add(cause));
                explanation.hint = worker.hint.clone().or(explanation.hint);
                break;
            }
            let table_error = error.downcast_ref::<datafusion_tfrecord::Error>();
            partial_rows |= table_error.is_some_and(|error| matches!(error.kind(), TableKind::PartitionRows { .. }));
            rejects |= table_error.is_some_and(|error| matches!(error.kind(), TableKind::TooManyRejects { .. }));
            let link = Link::of(error);
            if let Some(text) = link.text {
                explanation.add(&text);
            }
            // The innermost hint is the most precise one, but not for the run of a plan, which is continued, and for a rebuild.
            if error.downcast_ref::<Error>().is_some_and(Error::has_the_way_out) {
                way_out = link.hint.clone();
            }
            explanation.hint = link.hint.or(explanation.hint);
            next = link.source;
        }
        explanation.hint = way_out.or(explanation.hint);
        if explanation.causes.is_empty() {
            explanation.causes.push(error.to_string());
        }
        if rejects {
            // The hint of a row is about that row alone.
            let hint = explanation.hint.map(|hint| format!("{hint}; or ")).unwrap_or_default();
            explanation.hint = Some(format!("{hint}raise --max-rejects; nothing was published"));
        }
        if partial_rows {
            let hint = explanation.hint.map(|hint| format!("{hint}; ")).unwrap_or_default();
            explanation.hint = Some(format!("{hint}run with --threads 1 to count rows, from 0, over the whole query"));
        }
        explanation
    }

    fn add(&mut self, text: &str) {
        let text = without_prefixes(text.trim());
        if !text.is_empty() && !self.causes.iter().any(|cause| cause.contains(text)) {
            self.causes.push(text.to_owned());
        }
    }
}

/// The own message of one error of a chain.
struct Link<'a> {
    text: Option<String>,
    hint: Option<String>,
    source: Option<&'a (dyn StdError + 'static)>,
}

impl<'a> Link<'a> {
    fn of(error: &'a (dyn StdError + 'static)) -> Self {
        if let Some(boxed) = error.downcast_ref::<Box<Error>>() {
            return Self::of(boxed.as_ref());
        }
        if let Some(shared) = error.downcast_ref::<Arc<DataFusionError>>() {
            return Self::engine(shared);
        }
        if let Some(engine) = error.downcast_ref::<DataFusionError>() {
            return Self::engine(engine);
        }
        if let Some(arrow) = error.downcast_ref::<ArrowError>() {
            return Self::arrow(arrow);
        }
        if let Some(parquet) = error.downcast_ref::<ParquetError>() {
            return Self::parquet(parquet);
        }
        if let Some(inner) = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            return Self { text: None, hint: None, source: Some(inner) };
        }
        if let Some(store) = error.downcast_ref::<object_store::Error>()
            && let Some(source) = store.source()
            && (matches!(store, object_store::Error::Generic { .. })
                || source.is::<tfr_stores::Error>()
                || source.is::<tfr_files::Error>())
        {
            return Self { text: None, hint: None, source: Some(source) };
        }
        if let Some(SchemaError::FieldNotFound { field, valid_fields }) = error.downcast_ref::<SchemaError>() {
            return Self::unknown_column(&error.to_string(), field, valid_fields);
        }
        if let Some(planner::Reworded { text, hint }) = error.downcast_ref().and_then(planner::schema) {
            return Self { text: Some(text), hint: Some(hint), source: None };
        }
        let hint = if let Some(own) = error.downcast_ref::<Error>() {
            if let Some(source) = own.transparent() {
                return Self { text: None, hint: own.hint(), source: Some(source) };
            }
            if let Error::Records { error: records, .. } = own {
                return Self {
                    text: Some(error.to_string()),
                    hint: framing::hint(records).map(str::to_owned),
                    source: records.source(),
                };
            }
            own.hint()
        } else {
            library_hint(error)
        };
        Self { text: Some(error.to_string()), hint, source: error.source() }
    }

    fn engine(error: &'a DataFusionError) -> Self {
        let source = error.source();
        match error {
            DataFusionError::Context(context, _) => {
                // The engine goes on to suggest its settings, where we have options: see `memory_hint`.
                let context = context
                    .split_once(" Consider increasing the memory limit")
                    .map_or(&**context, |(message, _)| message.trim_end_matches('.'));
                let text = (!names_a_rule(context)).then(|| context.to_owned());
                Self { text, hint: None, source }
            }
            DataFusionError::Plan(text) | DataFusionError::Execution(text) | DataFusionError::Configuration(text) => {
                if let Some(planner::Reworded { text, hint }) = planner::message(text) {
                    return Self { text: Some(text), hint: Some(hint), source };
                }
                let (text, hint) = split_suggestion(text);
                let hint = hint.or_else(|| foreign::message_hint(&text));
                Self { text: Some(text), hint, source }
            }
            DataFusionError::NotImplemented(text) if text.starts_with(UNKNOWN_TYPE) => Self {
                text: Some(format!("there is no type {}", text.trim_start_matches(UNKNOWN_TYPE))),
                hint: Some(foreign::TYPES.to_owned()),
                source,
            },
            DataFusionError::NotImplemented(text) => match foreign::syntax_hint(text) {
                Some((text, hint)) => Self { text: Some(text), hint: Some(hint), source },
                None => Self { text: Some(format!("not supported: {text}")), hint: None, source },
            },
            DataFusionError::ResourcesExhausted(text) => {
                Self { text: Some(memory_text(text)), hint: Some(memory_hint(text)), source }
            }
            DataFusionError::Internal(text) => {
                let planner::Reworded { text, hint } = planner::message(text).unwrap_or_else(|| planner::Reworded {
                    text: format!(
                        "the query engine cannot run this query, by a fault of its own: {}",
                        first_line(text)
                    ),
                    hint: "write the query in another way, such as with a subquery for a part of it".to_owned(),
                });
                Self { text: Some(text), hint: Some(hint), source }
            }
            DataFusionError::Substrait(text) | DataFusionError::Ffi(text) => {
                Self { text: Some(text.clone()), hint: None, source }
            }
            DataFusionError::ExecutionJoin(_) => {
                Self { text: Some("a task of the query was stopped".to_owned()), hint: None, source }
            }
            DataFusionError::SQL(error, _) => {
                let text = error.to_string();
                Self { text: Some(syntax::message(&text)), hint: syntax::hint(&text), source: None }
            }
            // Wrappers that only add a prefix.
            _ => Self { text: None, hint: None, source },
        }
    }

    fn arrow(error: &'a ArrowError) -> Self {
        let text = match error {
            ArrowError::ExternalError(_) | ArrowError::IoError(..) => None,
            ArrowError::DivideByZero => Some("division by zero".to_owned()),
            ArrowError::NotYetImplemented(text) => Some(format!("not supported: {text}")),
            ArrowError::CastError(text)
            | ArrowError::ParseError(text)
            | ArrowError::SchemaError(text)
            | ArrowError::ComputeError(text)
            | ArrowError::CsvError(text)
            | ArrowError::JsonError(text)
            | ArrowError::AvroError(text)
            | ArrowError::IpcError(text)
            | ArrowError::InvalidArgumentError(text)
            | ArrowError::MemoryError(text)
            | ArrowError::ParquetError(text) => Some(one_line(text)),
            other => Some(other.to_string()),
        };
        let has_lost = text.as_ref().is_some_and(|text| text.contains("is declared as non-nullable but contains null"));
        let hint = has_lost.then(|| {
            "a CAST of a union makes null of the values that have another type in it: take those of one type with \
             union_extract(column, 'type')"
                .to_owned()
        });
        let hint = hint.or_else(|| text.as_deref().and_then(foreign::message_hint));
        Self { text, hint, source: error.source() }
    }

    fn parquet(error: &'a ParquetError) -> Self {
        let text = match error {
            ParquetError::External(_) => None,
            ParquetError::General(text) | ParquetError::ArrowError(text) => Some(one_line(text)),
            ParquetError::EOF(text) => Some(format!("the file ends too early: {}", one_line(text))),
            ParquetError::NYI(text) => Some(format!("not supported: {}", one_line(text))),
            other => Some(other.to_string()),
        };
        Self { text, hint: None, source: error.source() }
    }

    /// `engine_text` is the engine's own message. Its suggestion is used.
    fn unknown_column(engine_text: &str, field: &Column, valid_fields: &[Column]) -> Self {
        // Beside the columns of tables, the names of a SELECT list are in scope. Those without AS are expressions.
        let tables: BTreeSet<_> = valid_fields.iter().filter_map(|column| column.relation.as_ref()).collect();
        let name = |column: &Column| column_name(column, tables.len() > 1);
        let is_expression = |column: &Column| column.relation.is_none() && column.name.contains('(');
        let mut names: Vec<_> = valid_fields.iter().filter(|column| !is_expression(column)).map(name).collect();
        let mut seen = BTreeSet::new();
        names.retain(|name| seen.insert(name.clone()));
        let guess = engine_text
            .split_once("Did you mean '")
            .and_then(|(_, rest)| rest.split_once("'?"))
            .and_then(|(guess, _)| valid_fields.iter().find(|column| column.quoted_flat_name() == guess))
            .map(|guess| format!("did you mean {}? ", name(guess)));
        // MySQL and Hive take double quotes for those of a text.
        let text = match guess {
            Some(_) => String::new(),
            None => format!("; a text has single quotes: '{}'", field.name),
        };
        let guess = guess.unwrap_or_default();
        let hint = match names.as_slice() {
            [] => None,
            [column] if let Some(delimiter) = column.chars().find(|c| matches!(c, ';' | '|')) => Some(format!(
                "the only column is {column}: if {delimiter} separates the columns, read the file as a table with \
                 --table 't=FILE,delimiter={delimiter}'"
            )),
            columns => Some(format!("{guess}the columns are {}{text}", listed(columns.iter().cloned()))),
        };
        Self { text: Some(format!("no column named {}", column_name(field, true))), hint, source: None }
    }
}

impl Error {
    fn has_the_way_out(&self) -> bool {
        match self {
            Self::Task(TaskError::Unpublished { .. }) | Self::Rebuild(RebuildProblem::Query { .. }) => true,
            Self::TryAgain(error) => error.has_the_way_out(),
            _ => false,
        }
    }

    fn transparent(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Engine(error) | Self::ReservedWords { source: error, .. } | Self::Keyword { source: error, .. } => {
                Some(error)
            }
            Self::Mapping(error) => Some(error),
            Self::Shards(error) => Some(error),
            Self::Files(error) => Some(error),
            Self::Sidecar(error) => Some(error),
            Self::Cluster(ClusterError::Worker(error)) => Some(error),
            Self::Rebuild(RebuildProblem::Query { source, .. }) => Some(source.as_ref()),
            _ => None,
        }
    }
}

/// Returns a hint for an error of one of our libraries.
fn library_hint(error: &(dyn StdError + 'static)) -> Option<String> {
    error
        .downcast_ref::<arrow_tfrecord::Error>()
        .map(columns::hint)
        .or_else(|| error.downcast_ref::<NoTextError>().map(|error| Some(columns::no_text_hint(error))))
        .or_else(|| error.downcast_ref::<tfrecord_shards::Error>().map(shards::hint))
        .or_else(|| error.downcast_ref::<datafusion_tfrecord::Error>().map(tables::hint))
        .or_else(|| error.downcast_ref::<tfr_files::Error>().map(files::hint))
        .or_else(|| error.downcast_ref::<functions::FunctionError>().map(tables::function_hint))
        .or_else(|| error.downcast_ref::<tfr_formats::Error>().map(formats::hint))
        .or_else(|| {
            (error.is::<ResultTooLarge>() || error.is::<RowTooLong>())
                .then(|| Some("raise --memory-limit, or make shorter values".to_owned()))
        })
        .or_else(|| error.is::<PageTooLong>().then(|| Some("raise --memory-limit if you trust the file".to_owned())))
        .or_else(|| error.downcast_ref::<tfr_stores::Error>().map(stores::hint))
        .or_else(|| error.downcast_ref::<tfrecord_sidecars::Error>().map(sidecars::hint))
        .flatten()
}

const UNKNOWN_TYPE: &str = "Unsupported SQL type ";

fn memory_hint(text: &str) -> String {
    if text.contains("NestedLoopJoin") {
        "a join without an equality does not spill: raise --memory-limit".to_owned()
    } else if text.contains("HashJoin") {
        "a hash join does not spill: raise --memory-limit, or put \
         SET datafusion.optimizer.prefer_hash_join = false; before the query"
            .to_owned()
    } else if text.contains("disk") {
        "free space in --temp-dir, or raise datafusion.runtime.max_temp_directory_size with SET".to_owned()
    } else {
        "raise --memory-limit, or lower --threads so that each has a larger share".to_owned()
    }
}

/// The engine writes `Additional allocation failed for ... consumers ... as:`, a line for each consumer, and then the
/// requested size. Returns the last sentence, which names the operator.
fn memory_text(text: &str) -> String {
    let asked = text.lines().find_map(|line| line.trim().strip_prefix("Error: "));
    asked.map(str::to_owned).unwrap_or_else(|| first_line(text))
}

/// Whether `context` only names the analyzer or optimizer rule that met the error, which does not help users.
fn names_a_rule(context: &str) -> bool {
    context.contains("ptimizer rule '") || context.chars().all(|c| c.is_ascii_lowercase() || c == '_')
}

/// Splits the engine's suggestion from its message. Returns the message, and the suggestion as a hint.
fn split_suggestion(text: &str) -> (String, Option<String>) {
    // The engine lists every signature that did not match before the sentence that counts.
    if let Some((_, call)) = text.split_once("No function matches the given name and argument types ") {
        let (call, candidates) = call.split_once(". You might need to add explicit type casts.").unwrap_or((call, ""));
        if let Some(hint) = foreign::call_hint(call) {
            return (format!("no function matches {}", one_line(call)), Some(hint));
        }
        // Of a text, the engine does not read a number by itself.
        let hint = match call.contains("Utf8") && candidates.contains("Float64") && !candidates.contains("Utf8") {
            true => "it takes numbers: CAST(s AS DOUBLE) reads one from a text".to_owned(),
            false => {
                let candidates = one_line(candidates).replace("Candidate functions:", "the candidates are");
                format!("cast the arguments: {candidates}")
            }
        };
        return (format!("no function matches {}", one_line(call)), Some(hint));
    }
    match text.split_once("Did you mean ") {
        Some((text, guess)) => {
            let name = text.split_once("Invalid function '").and_then(|(_, rest)| rest.split_once('\''));
            if let Some(hint) = name.and_then(|(name, _)| foreign::function_hint(name)) {
                return (one_line(text).trim_end_matches('.').to_owned(), Some(hint));
            }
            // The engine guesses however little the names have in common.
            let is_far = name.is_some_and(|(name, _)| {
                let guess = guess.trim_matches(['\'', '?']);
                levenshtein(name, guess) * 2 > name.chars().count().min(guess.chars().count())
            });
            let hint = (!is_far).then(|| format!("did you mean {}", one_line(guess)));
            (one_line(text).trim_end_matches('.').to_owned(), hint)
        }
        None => (one_line(text), None),
    }
}

/// Returns a column as it can be typed: quoted where the parser requires it.
fn column_name(column: &Column, qualified: bool) -> String {
    match &column.relation {
        Some(relation) if qualified => format!("{}.{}", quoted(relation.table()), quoted(&column.name)),
        _ => quoted(&column.name),
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim().to_owned()
}

fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Removes the error-type prefixes of texts that were made from another error's text.
fn without_prefixes(mut text: &str) -> &str {
    const PREFIXES: [&str; 9] = [
        "Arrow error: ",
        "Arrow: ",
        "EOF: ",
        "Error during planning: ",
        "Execution error: ",
        "External error: ",
        "External: ",
        "Parquet argument error: ",
        "Parquet error: ",
    ];
    while let Some(rest) = PREFIXES.iter().find_map(|prefix| text.strip_prefix(prefix)) {
        text = rest;
    }
    text
}
