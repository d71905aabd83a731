//! [`TableDescription`]: a table's columns and features, in the words of each reader.

mod ddl;
mod python;

use std::fmt;
use std::str::FromStr;

use arrow_schema::DataType;
use arrow_tfrecord::Mapping;
use serde_json::json;
use tfrecord_framing::Compression;
use tfrecord_shards::SchemaDescription;

use crate::error::Result;
use crate::stats::Statistics;
use crate::{tfds, tfmd};

/// In whose words a table is described.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SchemaForm {
    /// A column a line, with its type as Arrow prints it. What is not said to be `not null` may be null.
    Arrow,
    /// A `CREATE EXTERNAL TABLE` statement that gives the columns the same types, where SQL has names for them; a
    /// comment says where it has not.
    Ddl,
    /// A `schema.pbtxt` of TensorFlow Metadata: see [`tfmd`].
    Pbtxt,
    /// A `features.json` of TensorFlow Datasets, as `tfds.builder_from_directory` loads it beside a
    /// `dataset_info.json`: see [`tfds`].
    FeaturesJson,
    /// A Python module that reads the records with nothing but TensorFlow: `FEATURES` for `tf.io.parse_example`;
    /// `parse`, which also restores the types that TensorFlow has; and `dataset`, which reads files in parallel and gives
    /// batches.
    ///
    /// A nullable single value is a dense tensor, and a table at the top of the module says what null is read as; a
    /// column that is taken out of the table is read as a sparse tensor. Lists are ragged tensors, in which null and
    /// empty are one, and feature lists are too; lists of a fixed length are dense unless they may be null. Times, and
    /// decimals in other forms, are read as they are stored, and comments say in which unit.
    Python,
    /// The schema and the mapping, as a manifest has them.
    Json,
}

/// Names beyond this stand out of their column.
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

/// A word that names no [`SchemaForm`].
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

/// A table to be described.
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
    compression: Option<Compression>,
    statistics: Option<&'a Statistics>,
}

impl<'a> TableDescription<'a> {
    /// The table whose columns became features by `mapping`, at `location`, as its user wrote that: a directory, a
    /// file, a glob. Its name is the last part of it.
    pub fn new(mapping: &'a Mapping, location: impl Into<String>) -> Self {
        let location = location.into();
        Self { mapping, name: name_of(&location), location, note: None, compression: None, statistics: None }
    }

    /// Sets a line for whoever uses the statement or the Python module, which have it as a comment.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// Sets the table's name, for the statement that declares it.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets how the files are compressed. Otherwise the Python module goes by their names.
    #[must_use]
    pub fn with_compression(mut self, compression: Compression) -> Self {
        self.compression = Some(compression);
        self
    }

    /// Sets what is known of all records: a feature that none of them lacks is described so, whatever the schema allows.
    #[must_use]
    pub fn with_statistics(mut self, statistics: &'a Statistics) -> Self {
        self.statistics = Some(statistics);
        self
    }

    /// The description in the words of `form`. It ends with a line feed, and equal tables have equal descriptions.
    ///
    /// # Errors
    /// `pbtxt` and `features.json` for records that are not Examples, `python` for records that are bytes.
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
    // The query of a URL is no part of its path.
    let location = if location.starts_with("http") { location.split('?').next().unwrap_or_default() } else { location };
    let parts = location.split('/').rev().filter(|part| !part.is_empty() && *part != "." && !part.ends_with(':'));
    let part = parts.into_iter().find(|part| !part.contains(['*', '?', '[', '='])).unwrap_or_default();
    let stem = part.split_once('.').map_or(part, |(stem, _)| stem);
    if stem.is_empty() { "records".to_owned() } else { stem.to_owned() }
}

/// A column's name as it is, or quoted where it would break a line.
fn printable(name: &str) -> String {
    let plain = !name.is_empty() && !name.contains(|letter: char| letter.is_control() || letter.is_whitespace());
    if plain { name.to_owned() } else { format!("{name:?}") }
}

/// How a column of this type is declared in DataFusion's SQL, and the type that it then has: one of the same values, but not
/// always the same type. `None` for types that SQL has no name for.
///
/// ```
/// use arrow_schema::DataType;
/// use tfrecord_sidecars::sql_type;
///
/// assert_eq!(sql_type(&DataType::LargeUtf8), Some(("VARCHAR".to_owned(), DataType::Utf8View)));
/// ```
pub fn sql_type(data_type: &DataType) -> Option<(String, DataType)> {
    ddl::named(data_type)
}

#[cfg(test)]
mod tests;
