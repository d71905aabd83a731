//! Compares declared column types with written ones, part by part.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields};
use tfr_arrow::nested::{item, key_and_value, value_type, with_item};

/// Returns the type of a column's values, without their encoding. Nested fixed-size lists become one list.
fn plain(data_type: &DataType) -> &DataType {
    match value_type(data_type) {
        DataType::FixedSizeList(item, _) if matches!(item.data_type(), DataType::FixedSizeList(..)) => {
            plain(item.data_type())
        }
        other => other,
    }
}

/// Returns the item type of a list.
fn item_type(data_type: &DataType) -> Option<&DataType> {
    item(plain(data_type)).map(|item| plain(item.data_type()))
}

/// Whether a column has several features.
pub(super) fn is_nested(data_type: &DataType) -> bool {
    let is_group = |data_type: &DataType| matches!(data_type, DataType::Struct(_) | DataType::Map(..));
    is_group(plain(data_type)) || item_type(data_type).is_some_and(|of| is_group(of) || item_type(of).is_some())
}

/// Whether every declared part was written at the same place and in the same unit.
pub(super) fn fits(declared: &DataType, written: &DataType) -> bool {
    compare(declared, written, &|declared, written| {
        !(declared.is_temporal() && written.is_temporal()) || is_same_form(declared, written)
    })
}

/// Whether every declared part was written at the same place, and the same bytes in a record have the same value in
/// both types.
pub(super) fn is_same_shape(declared: &DataType, written: &DataType) -> bool {
    use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
    compare(declared, written, &|declared, written| {
        is_same_form(declared, written)
            || matches!((declared, written), (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View))
            || matches!((declared, written), (Binary | LargeBinary | BinaryView, Binary | LargeBinary | BinaryView))
    })
}

/// Compares types value by value. Records store a list and a single value alike. A field that was not written belongs
/// to another set.
fn compare(declared: &DataType, written: &DataType, values: &dyn Fn(&DataType, &DataType) -> bool) -> bool {
    let (declared, written) = (plain(declared), plain(written));
    match (declared, written) {
        (DataType::Struct(declared), DataType::Struct(written)) => declared.iter().all(|field| {
            let found = written.find(field.name());
            found.is_none_or(|(_, found)| compare(field.data_type(), found.data_type(), values))
        }),
        (DataType::Map(..), DataType::Map(..)) => match (key_and_value(declared), key_and_value(written)) {
            (Some((key, value)), Some((written_key, written_value))) => {
                compare(key.data_type(), written_key.data_type(), values)
                    && compare(value.data_type(), written_value.data_type(), values)
            }
            _ => false,
        },
        (DataType::Struct(_) | DataType::Map(..), _) | (_, DataType::Struct(_) | DataType::Map(..)) => false,
        _ => match (item_type(declared), item_type(written)) {
            (Some(declared), Some(written)) => {
                item_type(declared).is_some() == item_type(written).is_some() && compare(declared, written, values)
            }
            (Some(of), None) => !is_nested(declared) && values(of, written),
            (None, Some(of)) => !is_nested(written) && values(declared, of),
            (None, None) => values(declared, written),
        },
    }
}

/// Whether the same number in a record has the same value in both types.
fn is_same_form(one: &DataType, other: &DataType) -> bool {
    let scale = |data_type: &DataType| match data_type {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => Some(*scale),
        _ => None,
    };
    match (one, other) {
        // The zone is only for display: numbers are in UTC.
        (DataType::Timestamp(one, _), DataType::Timestamp(other, _)) => one == other,
        (DataType::Time32(one) | DataType::Time64(one), DataType::Time32(other) | DataType::Time64(other)) => {
            one == other
        }
        _ => one == other || scale(one).is_some_and(|one| Some(one) == scale(other)),
    }
}

/// Returns the first declared struct field that was not written, as its path, with the fields that were written.
pub(super) fn unknown_field(declared: &DataType, written: &DataType, path: &str) -> Option<(String, Vec<String>)> {
    let declared_fields = |field: &Field, of: &Field| {
        unknown_field(field.data_type(), of.data_type(), &format!("{path}.{}", field.name()))
    };
    match (plain(declared), plain(written)) {
        (DataType::Struct(declared), DataType::Struct(written)) => {
            declared.iter().find_map(|field| match written.find(field.name()) {
                Some((_, found)) => declared_fields(field, found),
                None => {
                    let known = written.iter().map(|field| format!("{path}.{}", field.name())).collect();
                    Some((format!("{path}.{}", field.name()), known))
                }
            })
        }
        (DataType::Map(declared, _), DataType::Map(written, _)) => match (declared.data_type(), written.data_type()) {
            (DataType::Struct(declared), DataType::Struct(written)) => {
                declared.iter().zip(written).find_map(|(declared, written)| declared_fields(declared, written))
            }
            _ => None,
        },
        (declared, written) => unknown_field(item_type(declared)?, item_type(written)?, path),
    }
}

/// Merges a column of several sets. Structs get the fields of all sets, and parts missing in one set become nullable.
pub(super) fn union(one: &FieldRef, other: &FieldRef) -> FieldRef {
    field_of(one, union_type(one.data_type(), other.data_type()), one.is_nullable() || other.is_nullable())
}

fn union_type(one: &DataType, other: &DataType) -> DataType {
    let nullable = |field: &FieldRef| field_of(field, field.data_type().clone(), true);
    match (one, other) {
        (DataType::Struct(one), DataType::Struct(other)) => {
            let both = one.iter().map(|field| match field_named(other, field.name()) {
                Some(found) => union(field, found),
                None => nullable(field),
            });
            let more = other.iter().filter(|field| one.find(field.name()).is_none()).map(nullable);
            DataType::Struct(both.chain(more).collect())
        }
        (one, other) => match (item(one), item(other)) {
            (Some(item), Some(found)) => with_item(one, union(item, found)),
            _ => one.clone(),
        },
    }
}

/// Returns a declared column as it must be decoded. Structs include the written but undeclared fields, since these
/// determine where the struct is null. Columns are nullable only if they were written as nullable, since that
/// determines their features. With `others`, files without a manifest are included, and columns are always nullable.
pub(super) fn decoded(declared: &FieldRef, written: &FieldRef, others: bool) -> FieldRef {
    let data_type = decoded_type(declared.data_type(), written.data_type(), others);
    let nullable = declared.is_nullable() && (written.is_nullable() || others);
    let field = field_of(declared, data_type, nullable);
    let is_tensor = match (declared.data_type(), written.data_type()) {
        (DataType::Struct(_), DataType::Struct(_)) => true,
        (DataType::FixedSizeList(_, len), DataType::FixedSizeList(_, written)) => len == written,
        _ => false,
    };
    // The extension type also determines the features.
    if !is_tensor || field.metadata() == written.metadata() || !field.metadata().is_empty() {
        return field;
    }
    Arc::new(field.as_ref().clone().with_metadata(written.metadata().clone()))
}

fn decoded_type(declared: &DataType, written: &DataType, others: bool) -> DataType {
    match (declared, written) {
        (DataType::Struct(declared), DataType::Struct(written)) => {
            let wanted = declared.iter().map(|field| match field_named(written, field.name()) {
                Some(found) => decoded(field, found, others),
                None => Arc::clone(field),
            });
            let unwanted = written.iter().filter(|field| declared.find(field.name()).is_none());
            let unwanted =
                unwanted.map(|field| field_of(field, field.data_type().clone(), field.is_nullable() || others));
            DataType::Struct(wanted.chain(unwanted).collect())
        }
        (DataType::Map(entries, is_sorted), DataType::Map(written, _)) => {
            match (entries.data_type(), written.data_type()) {
                (DataType::Struct(fields), DataType::Struct(written)) if fields.len() == written.len() => {
                    let fields = fields.iter().zip(written).map(|(field, found)| decoded(field, found, others));
                    let fields = DataType::Struct(fields.collect());
                    DataType::Map(field_of(entries, fields, entries.is_nullable()), *is_sorted)
                }
                _ => declared.clone(),
            }
        }
        (declared, written) => match (item(declared), item(written)) {
            (Some(item), Some(found)) => with_item(declared, decoded(item, found, others)),
            _ => declared.clone(),
        },
    }
}

fn field_named<'a>(fields: &'a Fields, name: &str) -> Option<&'a FieldRef> {
    fields.iter().find(|field| field.name() == name)
}

fn field_of(field: &FieldRef, data_type: DataType, nullable: bool) -> FieldRef {
    if *field.data_type() == data_type && field.is_nullable() == nullable {
        return Arc::clone(field);
    }
    Arc::new(field.as_ref().clone().with_data_type(data_type).with_nullable(nullable))
}
