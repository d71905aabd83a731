//! Finds null masks, features that mark the nulls of other features, in records without a manifest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Schema};
use arrow_tfrecord::{FeatureRole, Mapping, MappingOptions, NullPolicy, RecordType};
use tfr_arrow::nested::{item, struct_fields};

/// Returns the column, or part of one, that a mask belongs to, by the mask's name.
pub(super) fn masked<'a>(feature: &'a str, separator: &str) -> Option<&'a str> {
    let (part, last) = feature.rsplit_once(separator)?;
    let level = last.strip_prefix("is_null")?;
    let is_level = |level: &str| level.bytes().all(|digit| digit.is_ascii_digit());
    (level.is_empty() || level.strip_prefix('_').is_some_and(|level| !level.is_empty() && is_level(level)))
        .then_some(part)
}

/// Returns inferred columns with their masks.
///
/// If the options specify masked nulls, masks are not columns, and every column gets the masks that exist. Otherwise
/// masks are ordinary columns, with a warning for lists that contain nulls.
pub(super) fn of_inferred(schema: Schema, mut mapping: MappingOptions) -> (Schema, MappingOptions) {
    let separator = mapping.separator.clone();
    let is_mask = |field: &Field| field.data_type() == &DataType::Int64 || holds_int64s(field.data_type());
    let masks: Vec<(String, FieldRef)> = schema
        .fields()
        .iter()
        .filter(|field| is_mask(field))
        .filter_map(|mask| Some((masked(mask.name(), &separator)?.to_owned(), Arc::clone(mask))))
        .collect();
    let everywhere = mapping.nulls == NullPolicy::Mask;
    if everywhere {
        mapping.nulls = NullPolicy::Absent;
    }
    let mut taken = BTreeSet::new();
    for column in masks.iter().map(|(column, _)| column).collect::<BTreeSet<_>>() {
        let of_column: BTreeSet<_> =
            masks.iter().filter(|(of, _)| of == column).map(|(_, mask)| mask.name().clone()).collect();
        let is_said = match mapping.column_nulls.get(column) {
            Some(rule) => *rule == NullPolicy::Mask,
            None => everywhere,
        };
        let with_mask = mapping.clone().with_column_nulls(column.as_str(), NullPolicy::Mask);
        match schema.field_with_name(column) {
            Ok(field) if is_said && expected(field, &with_mask).is_some_and(|masks| masks == of_column) => {
                mapping = with_mask;
                taken.extend(of_column);
            }
            Ok(field) if field.data_type().is_nested() => warn(column, &of_column, true),
            Ok(_) => {}
            // The values of a column that is not inferred as such, such as a list of lists.
            Err(_) if schema.field_with_name(&format!("{column}{separator}ragged_flat_values")).is_ok() => {
                warn(column, &of_column, false);
            }
            Err(_) => {}
        }
    }
    warn_of_examples(&schema, &mapping, &masks);
    mapping.sequences.retain(|column| !taken.contains(column));
    let fields: Vec<_> = schema.fields().iter().filter(|field| !taken.contains(field.name())).cloned().collect();
    (Schema::new_with_metadata(fields, schema.metadata().clone()), mapping)
}

/// Warns of the masks of examples, of which none is applied: the column of examples has another name than the one that was
/// written, and their fields are not columns.
fn warn_of_examples(schema: &Schema, mapping: &MappingOptions, of_context: &[(String, FieldRef)]) {
    if mapping.record_type != RecordType::ExampleListWithContext {
        return;
    }
    let named = mapping.clone().with_items_named(schema).sequences;
    let columns = named.iter().filter_map(|column| schema.field_with_name(column).ok());
    let fields = columns.filter_map(|column| struct_fields(item(column.data_type())?.data_type())).flatten();
    let fields: Vec<_> = fields.collect();
    let of_examples = fields.iter().filter_map(|mask| Some((masked(mask.name(), &mapping.separator)?, mask.name())));
    let of_context = of_context.iter().map(|(part, mask)| (part.as_str(), mask.name()));
    let is_lost = |part: &str| {
        let field = fields.iter().find(|field| field.name() == part);
        // A null field of an example is absent, with or without a mask.
        field.map_or(schema.field_with_name(part).is_err(), |field| field.data_type().is_nested())
    };
    let mut masks = BTreeMap::<&str, BTreeSet<String>>::new();
    for (part, mask) in of_examples.chain(of_context).filter(|(part, _)| is_lost(part)) {
        masks.entry(part).or_default().insert(mask.clone());
    }
    masks.iter().for_each(|(part, masks)| warn(part, masks, false));
}

/// Warns that the nulls of a part are read as values, and how to avoid that.
pub(super) fn warn(part: &str, masks: &BTreeSet<String>, is_column: bool) {
    let names: Vec<_> = masks.iter().map(|mask| format!("{mask:?}")).collect();
    log::warn!(
        "column {part:?}: nulls in it are read as values; {} where they are, and the option map='{part}: null=mask' reads \
         them as nulls{}",
        match names.as_slice() {
            [name] => format!("feature {name} says"),
            names => format!("features {} say", names.join(", ")),
        },
        if is_column { "" } else { ", of a column that is declared" },
    );
}

fn holds_int64s(data_type: &DataType) -> bool {
    item(data_type).is_some_and(|item| item.data_type() == &DataType::Int64 || holds_int64s(item.data_type()))
}

/// Returns the masks of a column in a mapping; `None` if the mapping cannot read the column.
fn expected(field: &Field, mapping: &MappingOptions) -> Option<BTreeSet<String>> {
    let mut options = mapping.clone();
    let name = field.name();
    // The features of a context are as in an Example.
    if options.record_type == RecordType::ExampleListWithContext {
        options.record_type = RecordType::Example;
    }
    options.choices.retain(|column, _| column == name);
    options.column_nulls.retain(|column, _| column == name);
    options.sequences.retain(|column| column == name);
    let mapping = Mapping::try_new(&Arc::new(Schema::new(vec![field.clone()])), &options).ok()?;
    let features = mapping.columns().iter().flat_map(|column| &column.features);
    Some(features.filter(|feature| feature.role == FeatureRole::Mask).map(|feature| feature.name.clone()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_masks_are_detected_by_feature_name() {
        for (feature, part) in [
            ("c/is_null", Some("c")),
            ("c/is_null_0", Some("c")),
            ("s/x/is_null_12", Some("s/x")),
            ("is_null", None),
            ("c/is_null_", None),
            ("c/is_null_x", None),
            ("c/is_nullable", None),
            ("c.is_null", None),
        ] {
            assert_eq!(masked(feature, "/"), part, "{feature}");
        }
        assert_eq!(masked("c.is_null", "."), Some("c"));
    }
}
