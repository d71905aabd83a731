//! The column of items in an ExampleListWithContext: a list of structs, whose fields are the features of each example.

use arrow_schema::{Field, FieldRef, Fields, Schema};
use tfr_arrow::nested::{item, struct_fields, value_type};

use super::records::{is_fixed, no_sequence};
use super::{Inherited, LossClass, Node, NodeKind, Planner, is_variable_shape_tensor};

use crate::error::{ErrorKind, Result};
use crate::feature::{FeatureKind, FeaturePlace, FeatureRole};
use crate::options::{Choice, MappingOptions, NullPolicy, NullRule, RecordType};

/// The list's item, and the fields of its structs, if `field` is a list of structs of any length.
fn structs(field: &Field) -> Option<(&FieldRef, &Fields)> {
    let list = value_type(field.data_type());
    let item = item(list).filter(|item| !is_fixed(list) && !is_variable_shape_tensor(item))?;
    Some((item, struct_fields(value_type(item.data_type()))?))
}

/// The fields of the structs in `field`, if it can be the column of items of an ExampleListWithContext.
fn fields_of<'a>(field: &'a Field, options: &MappingOptions) -> Option<&'a Fields> {
    let is_named = options.sequences.is_empty() || options.sequences.contains(field.name());
    // The whole list is one value.
    let is_whole = options.choices.get(field.name()) == Some(&Choice::Tensor);
    let is_possible = options.record_type == RecordType::ExampleListWithContext && is_named && !is_whole;
    structs(field).filter(|_| is_possible).map(|(_, fields)| fields)
}

/// Returns the position of the column of items, if there is one.
pub(in crate::mapping) fn column(schema: &Schema, options: &MappingOptions) -> Result<Option<usize>> {
    if options.record_type != RecordType::ExampleListWithContext {
        return Ok(None);
    }
    let fields = || schema.fields().iter();
    if let Some(field) =
        fields().find(|field| options.sequences.contains(field.name()) && fields_of(field, options).is_none())
    {
        let reason = match is_fixed(field.data_type()) {
            true => "a list of one length is a value by itself",
            false => "its elements are the examples, and so it has to be a list of structs",
        };
        return Err(no_sequence(field, reason));
    }
    let found: Vec<_> = fields().enumerate().filter(|(_, field)| fields_of(field, options).is_some()).collect();
    match found.as_slice() {
        // A reader may read the context alone.
        [] => Ok(None),
        [(position, _)] => Ok(Some(*position)),
        others => {
            Err(ErrorKind::NotItems { found: others.iter().map(|(_, field)| field.name().clone()).collect() }.into())
        }
    }
}

impl MappingOptions {
    /// Names the column of examples of an [`ExampleListWithContext`](RecordType::ExampleListWithContext) in the
    /// [sequences](Self::sequences), if `schema` has one. So readers that leave the column out take no other one for it.
    #[must_use]
    pub fn with_items_named(mut self, schema: &Schema) -> Self {
        if let Ok(Some(position)) = column(schema, &self) {
            self.sequences.insert(schema.field(position).name().clone());
        }
        self
    }

    /// Returns the part of the column `field` that a setting for `name` is for: its name after that of the column, so
    /// nothing for the column itself. `None` if the setting is for another column. The items of an
    /// [`ExampleListWithContext`](RecordType::ExampleListWithContext) have parts that are named as their fields alone.
    pub fn part_of_column(&self, name: &str, field: &Field) -> Option<String> {
        let rest_of = |part: &str| {
            let rest = name.strip_prefix(part)?;
            (rest.is_empty() || rest.starts_with(&self.separator)).then_some(rest)
        };
        let of_items = || fields_of(field, self)?.iter().find(|item| rest_of(item.name()).is_some());
        match rest_of(field.name()) {
            Some(rest) => Some(rest.to_owned()),
            None => of_items().map(|_| format!("{}{name}", self.separator)),
        }
    }
}

impl Planner<'_> {
    /// Plans the column of items. The features of an example are named as the fields.
    pub(super) fn items(&mut self, field: &Field, inherited: &Inherited) -> Result<Node> {
        let path = field.name();
        let inherited = self.said_of(field, path, inherited);
        let Some((item, fields)) = structs(field) else { return Err(self.unsupported(field.data_type())) };
        self.place = FeaturePlace::Items;
        let children = fields.iter().map(|child| self.part(child, child.name(), child.is_nullable(), &[], &inherited));
        let kind = NodeKind::Struct(children.collect::<Result<_>>()?);
        let item = self.null_items(self.plain(item, path, &inherited, kind), path)?;
        self.place = FeaturePlace::Record;
        if item.first_leaf().is_none() {
            return Err(self.unsupported(&item.data_type));
        }
        self.at_least(LossClass::Encoded, path, "an example for each element");
        let list = self.plain(field, path, &inherited, NodeKind::Items(Box::new(item)));
        let list = self.null_list(list, path)?;
        self.takes_default(list)
    }

    /// A part whose values may be in a dictionary or in runs.
    fn plain(&self, field: &Field, path: &str, inherited: &Inherited, kind: NodeKind) -> Node {
        let values = value_type(field.data_type());
        let packed = (values != field.data_type()).then(|| field.data_type().clone());
        let plain = field.clone().with_data_type(values.clone());
        Node { packed, ..self.bare(&plain, path, field.is_nullable(), inherited, kind) }
    }

    /// Plans null elements. An example exists whether or not it has features, and so it is never null by itself.
    fn null_items(&mut self, mut item: Node, path: &str) -> Result<Node> {
        self.drops(&item, path);
        self.null_part(&mut item, path, "is_null")?;
        Ok(item)
    }

    /// Plans null lists. A record has a list of examples whether or not there are any.
    fn null_list(&mut self, mut list: Node, path: &str) -> Result<Node> {
        self.null_part(&mut list, path, "is_null_0")?;
        if list.nullable && list.nulls.is(NullPolicy::Empty) {
            self.at_least(LossClass::Narrowed, path, "null becomes an empty list");
        }
        Ok(list)
    }

    fn null_part(&mut self, part: &mut Node, path: &str, mask: &str) -> Result<()> {
        match &part.nulls {
            _ if !part.nullable => {}
            NullRule::Policy(NullPolicy::Mask) => {
                let name = self.name(path, mask);
                part.mask = Some(self.feature(name, FeatureKind::Int64, &[], FeatureRole::Mask)?);
            }
            NullRule::Default(value) => {
                part.has_default(value)?;
                self.at_least(LossClass::Narrowed, path, &format!("nulls become {value:?}"));
            }
            NullRule::Policy(_) => {}
        }
        Ok(())
    }
}
