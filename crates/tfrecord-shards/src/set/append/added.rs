//! Columns of appended rows that the set does not have yet.

use std::path::Path;
use std::sync::Arc;

use arrow_schema::{FieldRef, Schema};
use arrow_tfrecord::{ColumnMapping, FeatureRole, Mapping, MappingOptions, NullPolicy, NullRule};
use serde::Deserialize;
use serde_json::Value;

use crate::error::{ErrorKind, Result};
use crate::set::manifest::{MAPPING_OPTION, Manifest, SetDescription};
use crate::set::schema::SchemaDescription;

impl SetDescription {
    /// Returns the description without these columns.
    pub(super) fn without_columns(&self, columns: &[String]) -> Result<Self> {
        let mut rest = self.clone();
        if let Some(schema) = &self.schema {
            let schema = schema.to_schema()?;
            let fields: Vec<FieldRef> =
                schema.fields().iter().filter(|field| !columns.contains(field.name())).cloned().collect();
            rest.schema =
                Some(SchemaDescription::try_new(&Schema::new_with_metadata(fields, schema.metadata().clone()))?);
        }
        if let Some(mapped) = rest.mapping.as_mut().and_then(mapped_columns) {
            mapped.retain(|column| !is_one_of(column, columns));
        }
        if let Some(options) = rest.options.get_mut(MAPPING_OPTION) {
            for rules in ["choices", "vocabularies"] {
                if let Some(rules) = options.get_mut(rules).and_then(Value::as_object_mut) {
                    rules.retain(|column, _| !columns.contains(column));
                }
            }
        }
        Ok(rest)
    }
}

impl Manifest {
    /// Returns the columns of the rows that the set does not have, if both are known.
    pub(super) fn new_columns(&self, rows: &SetDescription) -> Vec<String> {
        let (Some(set), Some(rows)) = (&self.schema, &rows.schema) else { return Vec::new() };
        let new = rows.fields.iter().filter(|field| set.fields.iter().all(|known| known.name != field.name));
        new.map(|field| field.name.clone()).collect()
    }

    /// Returns this manifest with further columns, as `rows` describes them. They are null in the existing records,
    /// which lack their features.
    ///
    /// # Errors
    /// [`ErrorKind::NotAppendable`] for a column that would not be read as null from a record without its feature.
    pub(super) fn with_columns(&self, rows: &SetDescription, columns: &[String], out: &Path) -> Result<Self> {
        let refused = |why: String| -> crate::Error { ErrorKind::NotAppendable { path: out.to_owned(), why }.into() };
        let (Some(set), Some(added)) = (self.arrow_schema()?, &rows.schema) else { return Ok(self.clone()) };
        let added = added.to_schema()?;
        let added = added.fields().iter().filter(|field| columns.contains(field.name()));
        let added = added.map(|field| Arc::new(field.as_ref().clone().with_nullable(true)));
        let fields: Vec<FieldRef> = set.fields().iter().cloned().chain(added).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, set.metadata().clone()));
        let options = with_rules(self.mapping_options()?, &rows_options(rows)?, columns);
        let mapping = Mapping::try_new(&schema, &options.clone().with_strict(false))
            .map_err(|error| refused(format!("the columns of the rows and of the set do not fit together: {error}")))?;
        let is_added = |column: &&ColumnMapping| columns.contains(&column.column);
        if let Some(column) = mapping.columns().iter().filter(is_added).find(|column| !reads_as_null(column)) {
            return Err(refused(format!(
                "column {:?} cannot be added: only a column of one feature can, with absent nulls",
                column.column
            )));
        }
        let mut grown = self.clone();
        grown.schema = Some(SchemaDescription::try_new(&schema)?);
        let mut described = serde_json::to_value(&mapping)?;
        if let (Some(known), Some(all)) =
            (grown.mapping.as_mut().and_then(mapped_columns), mapped_columns(&mut described))
        {
            known.extend(all.drain(..).filter(|column| is_one_of(column, columns)));
        }
        grown.options.insert(MAPPING_OPTION.to_owned(), serde_json::to_value(&options)?);
        Ok(grown)
    }
}

/// Whether a record without features of the column has a null there.
fn reads_as_null(column: &ColumnMapping) -> bool {
    let is_whole = match column.features.as_slice() {
        [feature] => feature.role == FeatureRole::Values && feature.name == column.column,
        _ => false,
    };
    is_whole && matches!(column.nulls, NullRule::Policy(NullPolicy::Absent | NullPolicy::Unset | NullPolicy::Drop))
}

fn rows_options(rows: &SetDescription) -> Result<MappingOptions> {
    match rows.options.get(MAPPING_OPTION) {
        Some(options) => Ok(MappingOptions::deserialize(options).map_err(ErrorKind::MappingOptions)?),
        None => Ok(MappingOptions::default()),
    }
}

/// Adds the rules of `columns` among those of `rows` to the options of a set.
fn with_rules(mut set: MappingOptions, rows: &MappingOptions, columns: &[String]) -> MappingOptions {
    for column in columns {
        // The set's policy for columns without a rule may be another one.
        let nulls = rows.column_nulls.get(column).cloned();
        let nulls = nulls.or_else(|| (rows.nulls != set.nulls).then(|| rows.nulls.into()));
        set.column_nulls.extend(nulls.map(|nulls| (column.clone(), nulls)));
        set.choices.extend(rows.choices.get(column).map(|choice| (column.clone(), *choice)));
        set.vocabularies.extend(rows.vocabularies.get(column).map(|words| (column.clone(), words.clone())));
        set.sequences.extend(rows.sequences.get(column).cloned());
    }
    set
}

/// The columns in the JSON of a mapping.
fn mapped_columns(mapping: &mut Value) -> Option<&mut Vec<Value>> {
    mapping.get_mut("columns").and_then(Value::as_array_mut)
}

/// Whether the JSON of a mapped column is of one of `columns`.
fn is_one_of(mapped: &Value, columns: &[String]) -> bool {
    mapped.get("column").and_then(Value::as_str).is_some_and(|name| columns.iter().any(|column| column == name))
}
