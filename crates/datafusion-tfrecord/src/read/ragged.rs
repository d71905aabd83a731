//! Finds lists of lists in records of TensorFlow Transform, whose features are columns of their own otherwise.

use std::collections::BTreeSet;

use arrow_schema::{DataType, Field, FieldRef, Schema};
use tfr_arrow::nested::item;

/// The end of the name of the feature with the values.
const VALUES: &str = "$ragged_values";

/// Returns the columns with lists of lists in place of their features `c$ragged_values`, `c$row_lengths_1`, `_2` and so
/// on. Also returns the names of these columns.
pub(super) fn of_transform(schema: &Schema) -> (Schema, BTreeSet<String>) {
    let (mut columns, mut taken) = (Vec::new(), BTreeSet::new());
    for values in schema.fields() {
        let Some(name) = values.name().strip_suffix(VALUES).filter(|name| !name.is_empty()) else { continue };
        let lengths = (1..).map(|level| format!("{name}$row_lengths_{level}"));
        let lengths: Vec<_> = lengths.take_while(|name| schema.field_with_name(name).is_ok_and(is_lengths)).collect();
        let item = item_type(values.data_type());
        if lengths.is_empty() || *item == DataType::Null || schema.field_with_name(name).is_ok() {
            continue;
        }
        let data_type = (0..=lengths.len()).fold(item.clone(), |item, _| DataType::new_list(item, true));
        columns.push(Field::new(name, data_type, true));
        taken.extend(lengths);
        taken.insert(values.name().clone());
    }
    let names = columns.iter().map(|column| column.name().clone()).collect();
    let others = schema.fields().iter().filter(|field| !taken.contains(field.name())).cloned();
    let mut fields: Vec<FieldRef> = others.chain(columns.into_iter().map(FieldRef::new)).collect();
    if !taken.is_empty() {
        fields.sort_by(|left, right| left.name().cmp(right.name()));
    }
    (Schema::new_with_metadata(fields, schema.metadata().clone()), names)
}

/// Whether a feature can have the lengths of rows. It has no type if all lists are empty.
fn is_lengths(field: &Field) -> bool {
    matches!(item_type(field.data_type()), DataType::Int64 | DataType::Null)
}

fn item_type(data_type: &DataType) -> &DataType {
    item(data_type).map_or(data_type, |item| item.data_type())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_features_that_belong_together_are_one_column() {
        let list = |item: DataType| DataType::new_list(item, true);
        let of = |fields: &[(&str, DataType)]| {
            let fields: Vec<_> =
                fields.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), true)).collect();
            let (schema, names) = of_transform(&Schema::new(fields));
            let found = schema.fields().iter().map(|field| format!("{}: {}", field.name(), field.data_type()));
            (found.collect::<Vec<_>>(), names.into_iter().collect::<Vec<_>>())
        };
        let (found, names) = of(&[
            ("id", DataType::Int64),
            ("x$ragged_values", list(DataType::Float32)),
            ("x$row_lengths_1", DataType::Int64),
            ("x$row_lengths_2", list(DataType::Int64)),
        ]);
        let nested = list(list(list(DataType::Float32)));
        assert_eq!(found, ["id: Int64".to_owned(), format!("x: {nested}")]);
        assert_eq!(names, ["x"]);
        for alone in [
            &[("x$ragged_values", DataType::Float32), ("x$row_lengths_2", DataType::Int64)][..],
            &[("x$ragged_values", DataType::Float32), ("x$row_lengths_1", DataType::Utf8)],
            &[("x", DataType::Utf8), ("x$ragged_values", DataType::Float32), ("x$row_lengths_1", DataType::Int64)],
        ] {
            let (found, names) = of(alone);
            assert_eq!((found.len(), names.len()), (alone.len(), 0), "{alone:?}");
        }
    }
}
