//! [`Mapping`]: the mapping of every column of a schema to features.
//!
//! No other module decides how columns are encoded. Anything that would fail for every row is rejected here before the
//! first byte is written, with an error that names the column.

mod bounds;
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

pub use bounds::ByteBounds;
pub(crate) use decide::{Conversion, Rescale};
pub(crate) use layout::{Leaf, Node, NodeKind};
pub use spec::{ParseSpec, ReadAs};

/// The information that a column loses when it is written. Ordered from lossless to lossy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LossClass {
    /// Nothing: given the schema, reading returns the same value.
    Exact,
    /// Nothing, but the value has another representation, which the mapping records.
    Encoded,
    /// Some values lose information.
    Narrowed,
}

/// The mapping of one column.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ColumnMapping {
    /// The column's name.
    pub column: String,
    /// Its Arrow type. Serialised as text, since the schema itself goes with the manifest.
    #[serde(rename = "type", serialize_with = "as_text")]
    pub data_type: DataType,
    /// Whether it may contain nulls.
    pub nullable: bool,
    /// The features it becomes: none for a column of type Null, several for a nested one or one with masks.
    pub features: Vec<FeatureMapping>,
    /// What it loses.
    pub class: LossClass,
    /// The representation of the value, if it is not the value itself: for example `float32 of float64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub form: Option<String>,
    /// The encoding chosen instead of the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choice: Option<Choice>,
    /// How its nulls are written.
    pub nulls: NullRule,
    /// The separator between its name and the names of its parts.
    #[serde(skip)]
    pub(crate) separator: String,
    /// The shape of a tensor that is stored as a list.
    #[serde(skip)]
    pub(crate) tensor_shape: Option<Vec<usize>>,
    /// Descriptions of what is lost, worded as in `form`.
    #[serde(skip)]
    pub(crate) losses: Vec<String>,
    #[serde(skip)]
    pub(crate) conversion: Conversion,
    /// The layout of its parts. `None` if the column is a single feature.
    #[serde(skip)]
    pub(crate) layout: Option<Arc<Node>>,
}

fn as_text<S: Serializer>(data_type: &DataType, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(data_type)
}

/// The mapping of every column of a schema, which an [`Encoder`](crate::Encoder) executes.
///
/// Its `Display` form is the table shown to users before anything is written. It is serialised into the manifest.
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
    /// Computes the mapping of every column of `schema`.
    ///
    /// # Errors
    /// Fails on an unsupported type; a choice, null rule or sequence that does not fit the column's type or names no
    /// column; duplicate names of features or parts; a column without a name; columns that do not fit the record type;
    /// and, with [`strict`](MappingOptions::strict), columns that would lose information.
    pub fn try_new(schema: &SchemaRef, options: &MappingOptions) -> Result<Self> {
        if options.record_type == RecordType::Bytes {
            plan::only_bytes(schema)?;
        }
        let mut parts = Parts::default();
        known_columns(schema, options)?;
        let items = plan::items_column(schema, options)?;
        let columns = schema
            .fields()
            .iter()
            .enumerate()
            .map(|(position, field)| plan::column(field, items == Some(position), options, parts.of_column(position)))
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

    /// Computes the mapping of a writer. A reader does not need every column, a writer does.
    ///
    /// # Errors
    /// As [`try_new`](Self::try_new). Also fails if records of type [`RecordType::ExampleListWithContext`] would have no
    /// examples.
    pub fn of_writer(schema: &SchemaRef, options: &MappingOptions) -> Result<Self> {
        let is_unknown = |column: &&String| schema.field_with_name(column).is_err();
        if options.record_type == RecordType::ExampleListWithContext
            && let Some(column) = options.sequences.iter().find(is_unknown)
        {
            return Err(unknown(column, schema.fields().iter().map(|field| field.name())));
        }
        let mapping = Self::try_new(schema, options)?;
        let has_examples =
            mapping.columns.iter().flat_map(|column| &column.features).any(|feature| feature.in_examples);
        match mapping.record_type {
            RecordType::ExampleListWithContext if !has_examples => {
                Err(ErrorKind::NotItems { found: Vec::new() }.into())
            }
            _ => Ok(mapping),
        }
    }

    /// The message type of a record.
    pub fn record_type(&self) -> RecordType {
        self.record_type
    }

    /// The schema that the mapping was made for.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The options that the mapping was made with.
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

/// The names of column parts that options can refer to, each with the position of its column.
#[derive(Debug, Default)]
struct Parts {
    columns: BTreeMap<String, usize>,
    /// The current column.
    column: usize,
    /// The first duplicate name, and the columns of both parts.
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

    /// Fails if two parts have the same name.
    fn distinct(self) -> Result<()> {
        match self.again {
            Some((part, first, second)) => Err(ErrorKind::DuplicatePart { part, first, second }.into()),
            None => Ok(()),
        }
    }
}

/// Fails if an option names a column that is not in the schema. Accepts any name that starts with a column's name and
/// the separator; [`known_parts`] then checks the rest.
fn known_columns(schema: &Schema, options: &MappingOptions) -> Result<()> {
    let is_known = |name: &str| schema.fields().iter().any(|field| options.part_of_column(name, field).is_some());
    match options
        .choices
        .keys()
        .chain(options.column_nulls.keys())
        .chain(needed_sequences(options))
        .find(|name| !is_known(name))
    {
        Some(column) => Err(unknown(column, schema.fields().iter().map(|field| field.name()))),
        None => Ok(()),
    }
}

/// The sequences that must be columns. A reader may leave out the column of examples, and its name then keeps another
/// list of structs from being read as the examples.
fn needed_sequences(options: &MappingOptions) -> impl Iterator<Item = &String> {
    let can_be_left_out = options.record_type == RecordType::ExampleListWithContext;
    options.sequences.iter().filter(move |_| !can_be_left_out)
}

/// Fails if an option names a part that does not exist.
fn known_parts(parts: &Parts, options: &MappingOptions) -> Result<()> {
    match options
        .choices
        .keys()
        .chain(options.column_nulls.keys())
        .chain(needed_sequences(options))
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
