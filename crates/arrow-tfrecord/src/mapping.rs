//! [`Mapping`]: what every column of a schema becomes.
//!
//! This is the only place that decides it. Everything that would go wrong for every row is refused here, by the
//! column's name and with the way out, before the first byte is written.

mod decide;
mod extension;
mod layout;
mod plan;
mod spec;
mod table;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_schema::{DataType, Schema, SchemaRef};
use serde::{Serialize, Serializer};

use crate::error::{ErrorKind, Result};
use crate::feature::FeatureMapping;
use crate::options::{Choice, MappingOptions, NullRule, RecordType};

pub(crate) use decide::{Conversion, Rescale};
pub(crate) use layout::{Leaf, Node, NodeKind};

/// What a column loses on its way into a record. The worse of two is the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LossClass {
    /// Nothing: reading back gives the same value, given the schema.
    Exact,
    /// Nothing, but the value stands in another form, which the mapping names.
    Encoded,
    /// Some values lose information.
    Narrowed,
}

/// What one column becomes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ColumnMapping {
    /// The column's name.
    pub column: String,
    /// Its Arrow type. Serialised as text, since the schema itself goes with the manifest.
    #[serde(rename = "type", serialize_with = "as_text")]
    pub data_type: DataType,
    /// Whether it may hold nulls.
    pub nullable: bool,
    /// The features it becomes: none for a column of type Null, several for a nested one or one with masks.
    pub features: Vec<FeatureMapping>,
    /// What it loses.
    pub class: LossClass,
    /// What of the value is in the features where it is not the value itself: `float32 of float64`, say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub form: Option<String>,
    /// The form chosen over the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choice: Option<Choice>,
    /// What its nulls become.
    pub nulls: NullRule,
    /// What stands between its name and the names of its parts.
    #[serde(skip)]
    pub(crate) separator: String,
    /// The shape of a tensor whose values are those of a list.
    #[serde(skip)]
    pub(crate) tensor_shape: Option<Vec<usize>>,
    /// What is lost, in the words of `form`.
    #[serde(skip)]
    pub(crate) losses: Vec<String>,
    #[serde(skip)]
    pub(crate) conversion: Conversion,
    /// How it is taken apart, unless all of it is the one feature.
    #[serde(skip)]
    pub(crate) layout: Option<Arc<Node>>,
}

fn as_text<S: Serializer>(data_type: &DataType, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(data_type)
}

/// What every column of a schema becomes: the plan that an [`Encoder`](crate::Encoder) follows.
///
/// It prints itself as the table that a user sees before anything is written, and serialises into the manifest.
///
/// ```
/// use std::sync::Arc;
/// use arrow_schema::{DataType, Field, Schema};
/// use arrow_tfrecord::{Choice, LossClass, Mapping, MappingOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let schema = Arc::new(Schema::new(vec![Field::new("price", DataType::Float64, true)]));
/// let mapping = Mapping::try_new(&schema, &MappingOptions::default())?;
/// assert_eq!(mapping.columns()[0].class, LossClass::Narrowed);
///
/// let exact = MappingOptions::default().with_choice("price", Choice::Bits);
/// assert_eq!(Mapping::try_new(&schema, &exact)?.columns()[0].class, LossClass::Encoded);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Mapping {
    record_type: RecordType,
    #[serde(skip)]
    schema: SchemaRef,
    #[serde(skip)]
    options: MappingOptions,
    columns: Vec<ColumnMapping>,
}

impl Mapping {
    /// Decides what every column of `schema` becomes.
    ///
    /// # Errors
    /// A type without a place in a record; a choice, a rule for nulls or a sequence that a column's type does not have or
    /// that names no column; two features, or two parts, of one name; a column without a name; columns that the record type does not
    /// take; and with [`strict`](MappingOptions::strict) every column that would lose information.
    pub fn try_new(schema: &SchemaRef, options: &MappingOptions) -> Result<Self> {
        if options.record_type == RecordType::Bytes {
            plan::only_bytes(schema)?;
        }
        let mut parts = Parts::default();
        known_columns(schema, options)?;
        let columns = schema
            .fields()
            .iter()
            .enumerate()
            .map(|(position, field)| plan::column(field, options, parts.of_column(position)))
            .collect::<Result<Vec<ColumnMapping>>>()?;
        known_parts(&parts, options)?;
        distinct_features(&columns)?;
        parts.distinct()?;
        let (schema, options) = (SchemaRef::clone(schema), options.clone());
        let mapping = Self { record_type: options.record_type, schema, options, columns };
        if mapping.options.strict {
            mapping.refuse_loss()?;
        }
        Ok(mapping)
    }

    /// What one record is.
    pub fn record_type(&self) -> RecordType {
        self.record_type
    }

    /// The schema that the mapping was made for.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// What was said of the columns.
    pub fn options(&self) -> &MappingOptions {
        &self.options
    }

    /// The columns, in the schema's order.
    pub fn columns(&self) -> &[ColumnMapping] {
        &self.columns
    }

    /// One line for each column that loses information, to be shown before the work starts.
    pub fn warnings(&self) -> Vec<String> {
        self.lossy().map(|(column, reason)| format!("column {column:?} loses information: {reason}")).collect()
    }

    fn lossy(&self) -> impl Iterator<Item = (String, String)> {
        self.columns
            .iter()
            .filter(|column| column.class == LossClass::Narrowed)
            .map(|column| (column.column.clone(), column.losses.join("; ")))
    }

    fn refuse_loss(&self) -> Result<()> {
        let lossy: Vec<_> = self.lossy().collect();
        if lossy.is_empty() { Ok(()) } else { Err(ErrorKind::Narrowed { lossy }.into()) }
    }
}

/// The names by which the options can speak of the parts of columns, each with the position of its column.
#[derive(Debug, Default)]
struct Parts {
    columns: BTreeMap<String, usize>,
    /// The column at hand.
    column: usize,
    /// The first name that came again, and the columns of both.
    again: Option<(String, usize, usize)>,
}

impl Parts {
    fn of_column(&mut self, position: usize) -> &mut Self {
        self.column = position;
        self
    }

    fn insert(&mut self, name: &str) {
        if let Some(first) = self.columns.insert(name.to_owned(), self.column) {
            self.again.get_or_insert((name.to_owned(), first, self.column));
        }
    }

    /// What is said of a name must be said of one part.
    fn distinct(self) -> Result<()> {
        match self.again {
            Some((part, first, second)) => Err(ErrorKind::DuplicatePart { part, first, second }.into()),
            None => Ok(()),
        }
    }
}

/// Whatever is said must be said of a column of the schema.
fn known_columns(schema: &Schema, options: &MappingOptions) -> Result<()> {
    let is_known = |name: &str| {
        schema.fields().iter().any(|field| {
            let part = name.strip_prefix(field.name().as_str());
            part.is_some_and(|part| part.is_empty() || part.starts_with(&options.separator))
        })
    };
    match options
        .choices
        .keys()
        .chain(options.column_nulls.keys())
        .chain(&options.sequences)
        .find(|name| !is_known(name))
    {
        Some(column) => Err(unknown(column, schema.fields().iter().map(|field| field.name()))),
        None => Ok(()),
    }
}

/// And if of a part, of one that there is.
fn known_parts(parts: &Parts, options: &MappingOptions) -> Result<()> {
    match options
        .choices
        .keys()
        .chain(options.column_nulls.keys())
        .chain(&options.sequences)
        .find(|name| !parts.columns.contains_key(*name))
    {
        Some(column) => Err(unknown(column, parts.columns.keys())),
        None => Ok(()),
    }
}

fn unknown<'a>(column: &str, known: impl IntoIterator<Item = &'a String>) -> crate::Error {
    ErrorKind::UnknownColumn { column: column.to_owned(), known: known.into_iter().cloned().collect() }.into()
}

fn distinct_features(columns: &[ColumnMapping]) -> Result<()> {
    let mut seen = HashMap::new();
    for (position, column) in columns.iter().enumerate() {
        if column.column.is_empty() {
            return Err(ErrorKind::EmptyFeatureName { column: position }.into());
        }
        for feature in &column.features {
            if let Some(first) = seen.insert(feature.name.as_str(), position) {
                let feature = feature.name.clone();
                return Err(ErrorKind::DuplicateFeature { feature, first, second: position }.into());
            }
        }
    }
    Ok(())
}
