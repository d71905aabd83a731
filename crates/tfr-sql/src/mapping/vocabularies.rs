//! [`Vocabularies`]: collects the values of columns that are written as ranks.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array as _, ListBuilder, RecordBatch, StringBuilder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow_tfrecord::{Choice, MappingOptions, Vocabulary};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};

use super::parts::{has_text, observe};
use crate::error::Result;

/// Maximum number of distinct values of a column written as ranks. A column with more values hardly contains labels.
const MOST_VALUES: usize = 1 << 20;

/// The vocabularies of a query that are still to be collected.
#[derive(Clone, Debug)]
pub struct Vocabularies {
    separator: String,
    ranked: Vec<Ranked>,
}

/// A column, or a part of one, that is written as ranks.
#[derive(Clone, Debug)]
struct Ranked {
    /// Its name in the options.
    name: String,
    /// The index of the column in the schema.
    column: usize,
    /// The name of the part after that of the column.
    rest: String,
    values: Vocabulary,
}

impl Vocabularies {
    /// Finds the ranked columns and parts that have none.
    pub fn of(options: &MappingOptions, schema: &Schema) -> Self {
        let ranked = options.choices.iter().filter(|(_, choice)| **choice == Choice::Index).map(|(name, _)| name);
        let ranked = ranked.filter(|name| !options.vocabularies.contains_key(*name));
        let find = |name: &String| {
            let part = |field: &Arc<Field>| {
                let rest = options.part_of_column(name, field)?;
                has_text(field.data_type()).then_some(rest)
            };
            let (column, rest) =
                schema.fields().iter().enumerate().find_map(|(column, field)| Some((column, part(field)?)))?;
            Some(Ranked { name: name.clone(), column, rest, values: Vocabulary::new(MOST_VALUES) })
        };
        Self { separator: options.separator.clone(), ranked: ranked.filter_map(find).collect() }
    }

    /// Whether there is nothing to collect.
    pub fn is_empty(&self) -> bool {
        self.ranked.is_empty()
    }

    /// Returns the names of the columns and parts.
    pub fn names(&self) -> Vec<&str> {
        self.ranked.iter().map(|ranked| ranked.name.as_str()).collect()
    }

    /// The indexes of the columns that are read, in their order.
    fn read(&self) -> BTreeSet<usize> {
        self.ranked.iter().map(|ranked| ranked.column).collect()
    }

    /// Returns the query for the columns that are read.
    pub fn columns(&self, query: &LogicalPlan) -> Result<LogicalPlan> {
        let known = query.schema().columns();
        let wanted = self.read().into_iter().filter_map(|column| Some(Expr::Column(known.get(column)?.clone())));
        Ok(LogicalPlanBuilder::from(query.clone()).project(wanted)?.build()?)
    }

    /// Adds the values of rows of [`columns`](Self::columns).
    pub fn observe(&mut self, rows: &RecordBatch) -> Result<()> {
        for (column, array) in self.read().into_iter().zip(rows.columns()) {
            for ranked in self.ranked.iter_mut().filter(|ranked| ranked.column == column) {
                observe(&mut ranked.values, array, &ranked.rest, &self.separator)?;
            }
        }
        Ok(())
    }

    /// Adds the values of rows of the query.
    pub fn observe_rows(&mut self, rows: &RecordBatch) -> Result<()> {
        let read: Vec<_> = self.read().into_iter().collect();
        self.observe(&rows.project(&read).map_err(DataFusionError::from)?)
    }

    /// Returns the columns of [`into_batch`](Self::into_batch).
    pub fn schema() -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("values", DataType::new_list(DataType::Utf8, true), false)]))
    }

    /// Returns the values as rows, one for each column or part.
    pub fn into_batch(self) -> Result<RecordBatch> {
        let mut lists = ListBuilder::new(StringBuilder::new());
        for ranked in self.ranked {
            lists.append_value(ranked.values.finish().into_iter().map(Some));
        }
        Ok(RecordBatch::try_new(Self::schema(), vec![Arc::new(lists.finish())]).map_err(DataFusionError::from)?)
    }

    /// Adds the values that others have collected from other rows of the same query.
    pub fn merge(&mut self, batch: &RecordBatch) -> Result<()> {
        let lists = batch.columns().first().filter(|lists| lists.len() == self.ranked.len());
        let Some(lists) = lists else {
            return Err(DataFusionError::Internal("vocabularies of other columns".to_owned()).into());
        };
        for (row, ranked) in self.ranked.iter_mut().enumerate() {
            ranked.values.observe(&lists.slice(row, 1))?;
        }
        Ok(())
    }

    /// Adds the vocabularies to the options.
    pub fn finish(self, options: &mut MappingOptions) {
        options.vocabularies.extend(self.ranked.into_iter().map(|ranked| (ranked.name, ranked.values.finish())));
    }
}
