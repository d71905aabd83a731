//! Builds the mapping options of a query from the command line and `--map-file`.

mod parts;

use std::collections::BTreeSet;

use arrow::datatypes::{Field, Schema};
use arrow_tfrecord::{Choice, Mapping, MappingOptions, Vocabulary};
use datafusion::dataframe::DataFrame;
use datafusion::prelude::{Expr, SessionContext};
use futures::StreamExt as _;

use self::parts::{has_text, observe, rest_of};
use crate::cli::MappingArgs;
use crate::error::Result;
use crate::map_file::MapFile;
use crate::printer::Printer;
use crate::query::Query;

/// Maximum number of distinct values of a column written as ranks. A column with more values hardly contains labels.
const MOST_VALUES: usize = 1 << 20;

/// Returns the options of the mapping. The command line takes precedence over the file. A column name matches
/// regardless of case if only one column fits, as in SQL.
pub fn options(args: &MappingArgs, schema: &Schema) -> Result<MappingOptions> {
    let file = args.map_file.as_deref().map(MapFile::read).transpose()?.unwrap_or_default();
    let mut options = MappingOptions::default();
    options.record_type = file.record_type.unwrap_or_default();
    options.nulls = file.null.unwrap_or_default();
    options.separator = file.separator.unwrap_or(options.separator);
    options.sequences = file.sequence;
    options.strict = file.strict;
    args.declared.apply(&mut options);
    let typed =
        args.maps.iter().map(|(column, _)| column).chain(&options.sequences).chain(file.columns.keys()).collect();
    let names = Names { typed, schema, separator: &options.separator };
    let said = file.columns.iter().map(|(column, entry)| (column, &entry.rule, entry.vocabulary.as_ref()));
    let rules: Vec<_> = said
        .chain(args.maps.iter().map(|(column, rule)| (column, rule, None)))
        .map(|(column, rule, vocabulary)| (names.find(column), rule.clone(), vocabulary.cloned()))
        .collect();
    options.sequences = options.sequences.iter().map(|column| names.find(column)).collect();
    for (column, rule, vocabulary) in rules {
        if let Some(values) = vocabulary {
            options.vocabularies.insert(column.clone(), values);
        }
        options = options.with_rule(column, rule);
    }
    // The command line may have replaced the file's rule.
    options.vocabularies.retain(|column, _| options.choices.get(column) == Some(&Choice::Index));
    Ok(options)
}

/// Column names as typed.
struct Names<'a> {
    typed: Vec<&'a String>,
    schema: &'a Schema,
    separator: &'a str,
}

impl Names<'_> {
    /// Returns the name in the schema of a column, or of a part of one.
    fn find(&self, typed: &str) -> String {
        let names = || self.schema.fields().iter().map(|field| field.name());
        let part = |name: &str| {
            let part = typed.get(name.len()..)?;
            (part.is_empty() || part.starts_with(self.separator)).then_some(part)
        };
        if names().any(|name| typed.starts_with(name.as_str()) && part(name).is_some()) {
            return typed.to_owned();
        }
        let fits = |name: &&String| {
            let is_typed = self.typed.iter().any(|typed| typed == name);
            !is_typed
                && part(name).is_some()
                && typed.get(..name.len()).is_some_and(|head| head.to_lowercase() == name.to_lowercase())
        };
        let mut fitting = names().filter(fits);
        match (fitting.next(), fitting.next()) {
            (Some(name), None) => format!("{name}{}", part(name).unwrap_or_default()),
            _ => typed.to_owned(),
        }
    }
}

/// A column, or a part of one, that is written as ranks.
struct Ranked {
    /// Its name in the options.
    name: String,
    /// The index of the column in the schema.
    column: usize,
}

/// Returns the ranked columns and parts without a vocabulary.
fn without_vocabulary(options: &MappingOptions, schema: &Schema) -> Vec<Ranked> {
    let ranked = options.choices.iter().filter(|(_, choice)| **choice == Choice::Index).map(|(name, _)| name);
    let ranked = ranked.filter(|name| !options.vocabularies.contains_key(*name));
    let is_of = |field: &Field, name: &str| {
        has_text(field.data_type()) && rest_of(name, field.name(), &options.separator).is_some()
    };
    let column = |name: &str| schema.fields().iter().position(|field| is_of(field, name));
    ranked.filter_map(|name| Some(Ranked { name: name.clone(), column: column(name)? })).collect()
}

/// Adds an empty vocabulary where one is still to be collected, which is enough for planning.
pub fn planned(mut options: MappingOptions, schema: &Schema) -> MappingOptions {
    for ranked in without_vocabulary(&options, schema) {
        options.vocabularies.insert(ranked.name, Vec::new());
    }
    options
}

/// Adds the sorted distinct values of each ranked column, collected by running the query once more.
pub async fn with_vocabularies(
    mut options: MappingOptions,
    context: &SessionContext,
    query: &Query,
    printer: &Printer,
) -> Result<MappingOptions> {
    let schema = query.physical.schema();
    let columns = without_vocabulary(&options, &schema);
    if columns.is_empty() {
        return Ok(options);
    }
    // Reject invalid mappings before running the query.
    Mapping::try_new(&schema, &planned(options.clone(), &schema))?;
    let names: Vec<_> = columns.iter().map(|ranked| ranked.name.as_str()).collect();
    printer.note(format!("gathering the vocabulary of {}", names.join(", ")));
    query.keep_pipes().await?;
    let known = query.logical.schema().columns();
    let read: BTreeSet<usize> = columns.iter().map(|ranked| ranked.column).collect();
    let wanted: Vec<_> = read.iter().map(|column| Expr::Column(known[*column].clone())).collect();
    let frame = DataFrame::new(context.state(), query.logical.clone()).select(wanted)?;
    let mut vocabularies = vec![Vocabulary::new(MOST_VALUES); columns.len()];
    let mut batches = frame.execute_stream().await?;
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        for (column, array) in read.iter().zip(batch.columns()) {
            let ranked = columns.iter().zip(&mut vocabularies).filter(|(ranked, _)| ranked.column == *column);
            for (ranked, vocabulary) in ranked {
                let rest = rest_of(&ranked.name, schema.field(*column).name(), &options.separator);
                observe(vocabulary, array, rest.unwrap_or_default(), &options.separator)?;
            }
        }
    }
    for (ranked, vocabulary) in columns.into_iter().zip(vocabularies) {
        options.vocabularies.insert(ranked.name, vocabulary.finish());
    }
    Ok(options)
}
