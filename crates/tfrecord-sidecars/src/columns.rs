//! A [`Mapping`] as the renderings look at it: feature by feature.

use arrow_schema::{DataType, Field};
use arrow_tfrecord::{
    ColumnMapping, FeatureKind, FeatureMapping, FeatureShape, Mapping, NullPolicy, NullRule, RecordType,
};

use crate::error::{ErrorKind, Result};

/// One feature of a table, with the column that it belongs to.
#[derive(Debug, Clone)]
pub(crate) struct TableFeature<'a> {
    pub(crate) column: &'a ColumnMapping,
    pub(crate) feature: &'a FeatureMapping,
    /// The tensor that a record's values make; none if their number varies.
    pub(crate) shape: Option<Vec<usize>>,
}

impl<'a> TableFeature<'a> {
    /// Every feature of the table, columns in order.
    pub(crate) fn all(mapping: &'a Mapping) -> Vec<Self> {
        let columns = mapping.schema().fields().iter().zip(mapping.columns());
        let features = columns.flat_map(|(field, column)| {
            column.features.iter().map(move |feature| Self { column, feature, shape: shape(field, feature) })
        });
        features.collect()
    }

    pub(crate) fn name(&self) -> &'a str {
        &self.feature.name
    }

    pub(crate) fn kind(&self) -> FeatureKind {
        self.feature.kind
    }

    /// Whether the feature holds the column's values, not a part of them.
    pub(crate) fn is_whole(&self) -> bool {
        self.feature.name == self.column.column
    }

    /// Whether records may be without the feature. Of a part nobody says that they may not.
    pub(crate) fn may_be_absent(&self) -> bool {
        !self.is_whole() || self.column.nullable && leaves_out(&self.column.nulls)
    }

    /// Whether the feature may stand in a record without the values that its shape has.
    pub(crate) fn may_be_empty(&self) -> bool {
        self.column.nulls_of(self.name()).into_iter().any(|nulls| *nulls == NullPolicy::Empty)
    }

    /// The type of the column's values, if the feature holds these.
    pub(crate) fn value_type(&self) -> Option<&'a DataType> {
        self.is_whole().then(|| value_type(&self.column.data_type))
    }
}

/// Refuses records that a form has no words for.
pub(crate) fn expect_records(mapping: &Mapping, known: &[RecordType]) -> Result<()> {
    let found = mapping.record_type();
    if known.contains(&found) { Ok(()) } else { Err(ErrorKind::RecordType { found }.into()) }
}

/// Whether a null is a feature without values.
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

/// The sizes of lists of fixed size, outermost first.
fn dimensions(mut data_type: &DataType) -> Vec<usize> {
    let mut sizes = Vec::new();
    while let DataType::FixedSizeList(item, size) = data_type {
        sizes.extend(usize::try_from(*size));
        data_type = item.data_type();
    }
    sizes
}

/// The type of a column's values: of a list its items', of a dictionary its words'.
pub(crate) fn value_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => value_type(item.data_type()),
        DataType::Dictionary(_, values) => value_type(values),
        DataType::RunEndEncoded(_, values) => value_type(values.data_type()),
        value => value,
    }
}

/// Whether values of a type are text.
pub(crate) fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// The type of the values in the part of a column whose features have this name, by the names of its fields.
pub(crate) fn part_type<'a>(data_type: &'a DataType, path: &str, name: &str) -> Option<&'a DataType> {
    let part = |field: &'a Field, called: &str| part_type(field.data_type(), &format!("{path}/{called}"), name);
    match value_type(data_type) {
        DataType::Struct(fields) => fields.iter().find_map(|field| part(field, field.name())),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(entry) => {
                entry.iter().zip(["key", "value"]).find_map(|(field, called)| part(field, called))
            }
            _ => None,
        },
        value => (path == name).then_some(value),
    }
}
