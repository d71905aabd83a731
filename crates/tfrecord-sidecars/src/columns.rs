//! The features of a [`Mapping`], as the renderings need them.

use std::borrow::Cow;

use arrow_schema::{DataType, Field};
use arrow_tfrecord::{
    Choice, ColumnMapping, FeatureKind, FeatureMapping, FeatureRole, FeatureShape, Mapping, MappingOptions, NullPolicy,
    NullRule, RecordType,
};
use tfr_arrow::labels::labels;
use tfr_arrow::nested::{element_type, key_and_value, struct_fields};

use crate::error::{ErrorKind, Result};
use crate::images::{ImageHeader, Images};

/// One feature of a table, with the column that it belongs to.
#[derive(Debug, Clone)]
pub(crate) struct TableFeature<'a> {
    pub(crate) column: &'a ColumnMapping,
    pub(crate) feature: &'a FeatureMapping,
    /// The shape of the tensor of a record's values. `None` if their number varies.
    pub(crate) shape: Option<Vec<usize>>,
    /// The choice for the feature's part of the column.
    pub(crate) choice: Option<Choice>,
    value_type: Option<&'a DataType>,
    /// The vocabulary, if the values are ranks or numbers of labels.
    vocabulary: Option<Cow<'a, [String]>>,
    /// The observed presence, if known.
    observed: Option<Presence>,
}

/// The observed presence of a feature in the records of a set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Presence {
    /// Records without the feature.
    pub(crate) missing: u64,
    /// The minimum number of values in the others.
    pub(crate) least: u64,
    /// Whether the values are images.
    pub(crate) images: Images,
    /// Whether a value is the number of no label.
    pub(crate) has_other_labels: bool,
}

impl<'a> TableFeature<'a> {
    /// Every feature of the table, in the order of columns.
    pub(crate) fn all(mapping: &'a Mapping) -> Vec<Self> {
        let columns = mapping.schema().fields().iter().zip(mapping.columns());
        let features = columns.flat_map(|(field, column)| {
            let options = mapping.options();
            column.features.iter().map(move |feature| {
                let is_whole = feature.name == column.column;
                let path = if is_whole { &feature.name } else { path(&feature.name, &options.separator) };
                let value_type = match feature.role {
                    FeatureRole::Values => column_part_type(column, path, &options.separator),
                    _ => None,
                };
                let choice = choice(options, path).or(column.choice);
                let vocabulary = vocabulary(options, column, path)
                    .filter(|_| feature.kind == FeatureKind::Int64 && value_type.is_some_and(is_text))
                    .map(Cow::Borrowed);
                let is_integer = value_type.is_some_and(|values| element_type(values).is_integer());
                let labels = labels(field).filter(|_| is_whole && is_integer && feature.kind == FeatureKind::Int64);
                let vocabulary = vocabulary.or_else(|| labels.map(Cow::Owned));
                Self { column, feature, shape: shape(field, feature), choice, value_type, vocabulary, observed: None }
            })
        });
        features.collect()
    }

    /// Adds the observed presence, which takes precedence over the schema.
    #[must_use]
    pub(crate) fn with_observed(self, observed: Option<Presence>) -> Self {
        Self { observed, ..self }
    }

    pub(crate) fn name(&self) -> &'a str {
        &self.feature.name
    }

    pub(crate) fn kind(&self) -> FeatureKind {
        self.feature.kind
    }

    /// Whether the feature is the whole column, not a part of it.
    pub(crate) fn is_whole(&self) -> bool {
        self.feature.name == self.column.column
    }

    /// Whether records may lack the feature. Assumed for parts of columns, unless the records were observed.
    pub(crate) fn may_be_absent(&self) -> bool {
        match self.observed {
            Some(observed) => observed.missing > 0,
            None => !self.is_whole() || self.column.nullable && leaves_out(&self.column.nulls),
        }
    }

    /// Whether the feature may be in a record without the values of its shape.
    pub(crate) fn may_be_empty(&self) -> bool {
        match (self.observed, self.feature.shape) {
            (Some(observed), FeatureShape::Scalar) => observed.least == 0,
            _ => self.column.nulls_of(self.name()).into_iter().any(|nulls| *nulls == NullPolicy::Empty),
        }
    }

    /// The common header of the values, if all of them were observed to be images.
    pub(crate) fn image(&self) -> Option<ImageHeader> {
        match self.observed?.images {
            Images::All(header) => Some(header),
            Images::Unseen | Images::Other => None,
        }
    }

    /// The type of the values of the column or part, if the feature contains these.
    pub(crate) fn value_type(&self) -> Option<&'a DataType> {
        self.value_type.map(element_type)
    }

    /// The vocabulary, if the values are ranks or numbers of labels.
    pub(crate) fn vocabulary(&self) -> Option<&[String]> {
        let has_others = self.observed.is_some_and(|observed| observed.has_other_labels);
        self.vocabulary.as_deref().filter(|_| !has_others)
    }

    /// Returns the vocabulary, if the values are ranks or numbers of labels.
    pub(crate) fn into_vocabulary(self) -> Option<Cow<'a, [String]>> {
        self.vocabulary
    }

    /// Whether the chosen encoding stores the values as text in bytes.
    pub(crate) fn is_text_form(&self) -> bool {
        self.choice == Some(Choice::String)
    }
}

/// The path of the part in a feature's name, without the suffix for values of nested lists.
fn path<'a>(name: &'a str, separator: &str) -> &'a str {
    let flat = name.strip_suffix("ragged_flat_values").and_then(|path| path.strip_suffix(separator));
    flat.unwrap_or(name)
}

/// The choice for a part, or else for its closest ancestor.
fn choice(options: &MappingOptions, path: &str) -> Option<Choice> {
    let is_around = |name: &str| {
        let inner = path.strip_prefix(name);
        inner.is_some_and(|inner| inner.is_empty() || inner.starts_with(&options.separator))
    };
    let around = options.choices.iter().filter(|(name, _)| is_around(name));
    around.max_by_key(|(name, _)| name.len()).map(|(_, choice)| *choice)
}

/// The vocabulary of a part of a column, or of the whole column.
fn vocabulary<'a>(options: &'a MappingOptions, column: &ColumnMapping, path: &str) -> Option<&'a [String]> {
    let vocabularies = &options.vocabularies;
    vocabularies.get(path).or_else(|| vocabularies.get(&column.column)).map(Vec::as_slice)
}

/// Rejects record types that a format cannot describe.
pub(crate) fn expect_records(mapping: &Mapping, known: &[RecordType]) -> Result<()> {
    let found = mapping.record_type();
    if known.contains(&found) { Ok(()) } else { Err(ErrorKind::RecordType { found }.into()) }
}

/// Whether a null is written as a feature without values.
fn leaves_out(nulls: &NullRule) -> bool {
    !matches!(nulls, NullRule::Default(_) | NullRule::Policy(NullPolicy::Error))
}

fn shape(field: &Field, feature: &FeatureMapping) -> Option<Vec<usize>> {
    match feature.shape {
        FeatureShape::Scalar => Some(Vec::new()),
        FeatureShape::Fixed(len) => {
            let dimensions = dimensions(field.data_type());
            let whole = dimensions.iter().try_fold(1_usize, |values, size| values.checked_mul(*size)) == Some(len);
            Some(if whole { dimensions } else { vec![len] })
        }
        FeatureShape::List => None,
    }
}

/// The sizes of fixed-size lists, outermost first.
fn dimensions(mut data_type: &DataType) -> Vec<usize> {
    let mut sizes = Vec::new();
    while let DataType::FixedSizeList(item, size) = data_type {
        sizes.extend(usize::try_from(*size));
        data_type = item.data_type();
    }
    sizes
}

/// Whether values of a type are text.
pub(crate) fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// The type of the values in the part of a column whose feature has this name. The fields of examples name features.
pub(crate) fn column_part_type<'a>(column: &'a ColumnMapping, name: &str, separator: &str) -> Option<&'a DataType> {
    if !column.features.iter().any(|feature| feature.in_examples) {
        return part_type(&column.data_type, &column.column, name, separator);
    }
    let fields = struct_fields(element_type(&column.data_type))?;
    fields.iter().find_map(|field| part_type(field.data_type(), field.name(), name, separator))
}

/// The type of the values in a part, found by field names.
fn part_type<'a>(data_type: &'a DataType, path: &str, name: &str, separator: &str) -> Option<&'a DataType> {
    let part = |field: &'a Field, called: &str| {
        part_type(field.data_type(), &format!("{path}{separator}{called}"), name, separator)
    };
    match element_type(data_type) {
        DataType::Struct(fields) => fields.iter().find_map(|field| part(field, field.name())),
        map if let Some((key, value)) = key_and_value(map) => part(key, "key").or_else(|| part(value, "value")),
        value => (path == name).then_some(value),
    }
}
