//! Builds the mapping options of a query from the command line and `--map-file`.

mod parts;
mod vocabularies;

use std::collections::BTreeSet;

use arrow::datatypes::{Field, Schema};
use arrow_tfrecord::{Choice, Mapping, MappingOptions};
use datafusion::dataframe::DataFrame;
use datafusion::prelude::SessionContext;
use futures::StreamExt as _;
use tfr_arrow::labels::labels;
use tfr_arrow::nested::element_type;

use crate::cli::MappingArgs;
use crate::error::Result;
use crate::map_file::MapFile;
use crate::printer::Printer;
use crate::query::Query;

pub use vocabularies::Vocabularies;

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
    let given = file.columns.iter().map(|(column, entry)| (column, &entry.rule, entry.vocabulary.as_ref()));
    let rules: Vec<_> = given
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
    // The integers of labels are their ranks already.
    let has_ranks = |field: &Field| labels(field).is_some() && element_type(field.data_type()).is_integer();
    options
        .choices
        .retain(|column, choice| *choice != Choice::Index || !schema.field_with_name(column).is_ok_and(has_ranks));
    // The command line may have replaced the file's rule.
    options.vocabularies.retain(|column, _| options.choices.get(column) == Some(&Choice::Index));
    Ok(options)
}

/// Returns the columns of a query whose names of labels are not those of all values. The physical plan keeps the names of
/// one input of a union or a CASE; the logical plan has those that all inputs have.
pub fn unlabelled(query: &Query) -> BTreeSet<String> {
    let (logical, physical) = (query.logical.schema(), query.physical.schema());
    let both = physical.fields().iter().zip(logical.fields());
    let differing = both.filter(|(physical, logical)| labels(physical) != labels(logical));
    differing.map(|(physical, _)| physical.name().clone()).collect()
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

/// Adds an empty vocabulary where one is still to be collected, which is enough for planning.
pub fn planned(mut options: MappingOptions, schema: &Schema) -> MappingOptions {
    Vocabularies::of(&options, schema).finish(&mut options);
    options
}

/// Adds the sorted distinct values of each ranked column. `collect` runs the query once more, for these columns.
pub async fn with_vocabularies(
    mut options: MappingOptions,
    query: &Query,
    printer: &Printer,
    collect: impl AsyncFnOnce(&mut Vocabularies) -> Result<()>,
) -> Result<MappingOptions> {
    let schema = query.physical.schema();
    let mut vocabularies = Vocabularies::of(&options, &schema);
    if vocabularies.is_empty() {
        return Ok(options);
    }
    // Reject invalid mappings before running the query.
    Mapping::of_writer(&schema, &planned(options.clone(), &schema))?;
    printer.note(format!("gathering the vocabulary of {}", vocabularies.names().join(", ")));
    query.keep_pipes().await?;
    collect(&mut vocabularies).await?;
    vocabularies.finish(&mut options);
    Ok(options)
}

/// Collects vocabularies in this process.
pub async fn collect(context: &SessionContext, query: &Query, vocabularies: &mut Vocabularies) -> Result<()> {
    let logical = vocabularies.columns(&query.logical)?;
    let mut batches = DataFrame::new(context.state(), logical).execute_stream().await?;
    while let Some(batch) = batches.next().await {
        vocabularies.observe(&batch?)?;
    }
    Ok(())
}
