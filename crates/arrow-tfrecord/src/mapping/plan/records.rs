//! Columns of records other than `tf.train.Example`: feature lists, and the single column of bytes.

use arrow_schema::{DataType, Field, Schema};
use tfr_arrow::nested::item;

use super::{Inherited, LossClass, Node, NodeKind, Planner};

use crate::dtype::value_type;
use crate::error::{ErrorKind, Result};
use crate::feature::{FeaturePlace, FeatureRole};
use crate::options::{Choice, MappingOptions, NullPolicy, NullRule};

/// Whether a column becomes feature lists in a SequenceExample.
pub(super) fn is_sequence(field: &Field, options: &MappingOptions) -> bool {
    if options.sequences.contains(field.name()) {
        return true;
    }
    match field.data_type() {
        // The whole list is one value.
        _ if options.choices.get(field.name()) == Some(&Choice::Tensor) => false,
        list if is_fixed(list) => false,
        list => item(list).is_some_and(|item| item.data_type().is_nested()),
    }
}

/// Whether a type is a list of one length.
pub(super) fn is_fixed(data_type: &DataType) -> bool {
    matches!(data_type, DataType::FixedSizeList(..))
}

pub(super) fn no_sequence(field: &Field, reason: &str) -> crate::Error {
    let problem = format!("column {:?}: type {} is not a sequence: {reason}", field.name(), field.data_type());
    ErrorKind::Refused { problem }.into()
}

/// Checks that the schema is a single column of strings or binaries.
pub(in crate::mapping) fn only_bytes(schema: &Schema) -> Result<()> {
    match schema.fields().as_ref() {
        [field] if value_type(field.data_type()).is_string() || value_type(field.data_type()).is_binary() => Ok(()),
        fields => {
            let columns = fields.iter().map(|field| format!("{} {}", field.name(), field.data_type())).collect();
            Err(ErrorKind::NotBytes { columns }.into())
        }
    }
}

impl Planner<'_> {
    /// Plans a column of feature lists.
    pub(super) fn sequence(&mut self, field: &Field, inherited: &Inherited) -> Result<Node> {
        let path = field.name();
        let inherited = self.said_of(field, path, inherited);
        self.place = FeaturePlace::Steps;
        let item = match field.data_type() {
            DataType::Map(entries, _) => self.entries(entries, path, &[], &inherited)?,
            list if is_fixed(list) => {
                return Err(no_sequence(field, "a list of one length is a value by itself"));
            }
            list => match item(list) {
                Some(item) => self.node(item, path, item.is_nullable(), &[], &inherited)?,
                None => return Err(no_sequence(field, "its elements are the steps, and so it has to be a list")),
            },
        };
        self.drops(&item, path);
        if item.first_leaf().is_none() {
            return Err(self.unsupported(&item.data_type));
        }
        self.at_least(LossClass::Encoded, path, "a feature for each step");
        let kind = NodeKind::Steps(Box::new(item));
        let mut node = self.bare(field, path, field.is_nullable(), &inherited, kind);
        self.place = FeaturePlace::Record;
        if field.is_nullable() {
            self.nulls(&mut node, path, &[])?;
        }
        self.takes_default(node)
    }

    /// Plans the single column of records of type bytes.
    pub(super) fn record(&mut self, field: &Field, inherited: &Inherited) -> Result<Node> {
        let inherited = self.said_of(field, field.name(), inherited);
        let has_place = matches!(inherited.nulls, NullRule::Default(_)) || inherited.nulls.is(NullPolicy::Empty);
        let nulls = if has_place { inherited.nulls } else { NullPolicy::Error.into() };
        let inherited = Inherited { nulls, ..inherited };
        let node = self.node(field, field.name(), field.is_nullable(), &[], &inherited)?;
        self.features.iter_mut().for_each(|feature| feature.role = FeatureRole::Record);
        if field.is_nullable() && inherited.nulls.is(NullPolicy::Empty) {
            self.at_least(LossClass::Narrowed, field.name(), "null becomes an empty record");
        }
        self.takes_default(node)
    }
}
