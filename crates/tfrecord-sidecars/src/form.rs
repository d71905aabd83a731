//! [`TableDescription`]: a table's columns and features, in the format of each reader.

mod ddl;
mod python;

use std::fmt;
use std::str::FromStr;

use arrow_tfrecord::Mapping;
use serde_json::json;
use tfrecord_framing::Container;
use tfrecord_shards::SchemaDescription;

use crate::error::Result;
use crate::stats::Statistics;
use crate::{tfds, tfmd};

/// The format of a table's description.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SchemaForm {
    /// One column per line, with its type as Arrow prints it. Columns without `not null` are nullable.
    Arrow,
    /// A `CREATE EXTERNAL TABLE` statement that declares the columns with the same types. Comments mark columns whose
    /// types have no SQL name.
    Ddl,
    /// A `schema.pbtxt` of TensorFlow Metadata: see [`tfmd`].
    Pbtxt,
    /// A `features.json` of TensorFlow Datasets, which `tfds.builder_from_directory` loads together with a
    /// `dataset_info.json`: see [`tfds`].
    FeaturesJson,
    /// A Python module that reads the records with TensorFlow, and ArrayRecord with the package array_record. It contains `FEATURES` for `tf.io.parse_example`;
    /// `parse`, which also restores the types that TensorFlow supports; and `dataset`, which reads files in parallel
    /// and returns batches.
    ///
    /// A nullable single value is a dense tensor. A table at the top of the module defines the value that nulls are
    /// read as; a column removed from the table is read as a sparse tensor. Lists and feature lists are ragged tensors,
    /// in which null and empty are the same. Fixed-length lists are dense unless they are nullable. Times, and decimals
    /// in other encodings, are read as stored; comments specify the unit.
    Python,
    /// The schema and the mapping, as in a manifest.
    Json,
}

/// Longer names overflow their column.
const WIDEST: usize = 255;

impl SchemaForm {
    /// Every form, in the order of the documentation.
    pub const ALL: &'static [Self] =
        &[Self::Arrow, Self::Ddl, Self::Pbtxt, Self::FeaturesJson, Self::Python, Self::Json];

    fn word(self) -> &'static str {
        match self {
            Self::Arrow => "arrow",
            Self::Ddl => "ddl",
            Self::Pbtxt => "pbtxt",
            Self::FeaturesJson => "features.json",
            Self::Python => "python",
            Self::Json => "json",
        }
    }
}

impl fmt::Display for SchemaForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// The error for a string that is not a valid [`SchemaForm`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown form {found:?}: expected {}", SchemaForm::ALL.iter().map(|form| form.word()).collect::<Vec<_>>().join(", "))]
pub struct ParseSchemaFormError {
    found: String,
}

impl FromStr for SchemaForm {
    type Err = ParseSchemaFormError;

    fn from_str(word: &str) -> Result<Self, ParseSchemaFormError> {
        let form = Self::ALL.iter().copied().find(|form| form.word() == word);
        form.ok_or_else(|| ParseSchemaFormError { found: word.to_owned() })
    }
}

/// A table to describe.
///
/// ```
/// use std::sync::Arc;
/// use arrow_schema::{DataType, Field, Schema};
/// use arrow_tfrecord::Mapping;
/// use tfrecord_sidecars::{SchemaForm, TableDescription};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let schema = Arc::new(Schema::new(vec![
///     Field::new("id", DataType::Int64, false),
///     Field::new("price", DataType::Float32, true),
/// ]));
/// let mapping = Mapping::try_new(&schema, &Default::default())?;
/// let table = TableDescription::new(&mapping, "shards/");
///
/// assert_eq!(table.render(SchemaForm::Arrow)?, "id     Int64 not null\nprice  Float32\n");
/// assert_eq!(table.render(SchemaForm::Ddl)?, r#"CREATE EXTERNAL TABLE "shards" (
///   "id" BIGINT NOT NULL,
///   "price" REAL
/// )
/// STORED AS TFRECORD
/// LOCATION 'shards/';
/// "#);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct TableDescription<'a> {
    mapping: &'a Mapping,
    name: String,
    location: String,
    note: Option<String>,
    container: Option<Container>,
    statistics: Option<&'a Statistics>,
}

impl<'a> TableDescription<'a> {
    /// Creates a description of the table at `location`, whose columns are features by `mapping`. The location is a
    /// directory, a file or a glob, as the user wrote it. The table's name is its last component.
    pub fn new(mapping: &'a Mapping, location: impl Into<String>) -> Self {
        let location = location.into();
        Self { mapping, name: name_of(&location), location, note: None, container: None, statistics: None }
    }

    /// Sets a line for users of the SQL statement or the Python module, which contain it as a comment.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// Sets the table's name in the SQL statement.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets how the files contain their records. By default they are TFRecord, and the Python module detects the
    /// compression from their names.
    #[must_use]
    pub fn with_container(mut self, container: Container) -> Self {
        self.container = Some(container);
        self
    }

    /// Sets the statistics of all records. A feature that no record lacks is described as required, even if the schema
    /// allows nulls.
    #[must_use]
    pub fn with_statistics(mut self, statistics: &'a Statistics) -> Self {
        self.statistics = Some(statistics);
        self
    }

    /// Returns the description in the format `form`, ending with a line feed. Equal tables have equal descriptions.
    ///
    /// # Errors
    /// `pbtxt` and `features.json` require Examples; `python` does not support records of type bytes.
    pub fn render(&self, form: SchemaForm) -> Result<String> {
        match form {
            SchemaForm::Arrow => Ok(self.arrow()),
            SchemaForm::Ddl => Ok(ddl::statement(self)),
            SchemaForm::Pbtxt => tfmd::schema_to_pbtxt_of(self.mapping, self.statistics),
            SchemaForm::FeaturesJson => tfds::features_json(self.mapping, self.statistics),
            SchemaForm::Python => python::module(self),
            SchemaForm::Json => self.json(),
        }
    }

    fn arrow(&self) -> String {
        let fields = self.mapping.schema().fields();
        let names: Vec<String> = fields.iter().map(|field| printable(field.name())).collect();
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or_default().min(WIDEST);
        let line = |(name, field): (&String, &arrow_schema::FieldRef)| {
            let not_null = if field.is_nullable() { "" } else { " not null" };
            format!("{name:width$}  {}{not_null}\n", field.data_type())
        };
        names.iter().zip(fields).map(line).collect()
    }

    fn json(&self) -> Result<String> {
        let schema = SchemaDescription::try_new(self.mapping.schema())?;
        let mut text = serde_json::to_string_pretty(&json!({ "schema": schema, "mapping": self.mapping }))?;
        text.push('\n');
        Ok(text)
    }
}

/// `events` of `s3://bucket/events/part-*.tfrecord` and of `data/events.tfrecord.gz`.
pub(crate) fn name_of(location: &str) -> String {
    // The query of a URL is not part of its path.
    let location = if location.starts_with("http") { location.split('?').next().unwrap_or_default() } else { location };
    let parts = location.split('/').rev().filter(|part| !part.is_empty() && *part != "." && !part.ends_with(':'));
    let part = parts.into_iter().find(|part| !part.contains(['*', '?', '[', '='])).unwrap_or_default();
    let stem = part.split_once('.').map_or(part, |(stem, _)| stem);
    if stem.is_empty() { "records".to_owned() } else { stem.to_owned() }
}

/// A column's name, quoted if it would break a line.
fn printable(name: &str) -> String {
    let plain = !name.is_empty() && !name.contains(|letter: char| letter.is_control() || letter.is_whitespace());
    if plain { name.to_owned() } else { format!("{name:?}") }
}

#[cfg(test)]
mod tests;
