//! [`joined`]: the type of a column that files write in different types.
//!
//! The promotions of Avro's schema resolution, so that a table of files from before and after a schema changed is one
//! table: int to long, whole numbers to float and double, string and bytes; fields of records by name, null where a file
//! lacks one. A whole number beside a float is a double, which holds more of them.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields};

/// The type that values of both can be read as, if there is one.
pub(crate) fn joined(left: &DataType, right: &DataType) -> Option<DataType> {
    use DataType::{Binary, Dictionary, Float32, Float64, Int32, Int64, List, Map, Null, Struct, Utf8};
    match (left, right) {
        _ if left == right => Some(left.clone()),
        (Null, other) | (other, Null) => Some(other.clone()),
        (Int32, Int64) | (Int64, Int32) => Some(Int64),
        (Int32 | Int64 | Float32 | Float64, Int32 | Int64 | Float32 | Float64) => Some(Float64),
        (Utf8, Binary) | (Binary, Utf8) => Some(Binary),
        // A name of an enumeration that became a text.
        (Dictionary(_, values), Utf8) | (Utf8, Dictionary(_, values)) if **values == Utf8 => Some(Utf8),
        (List(left), List(right)) => Some(List(joined_field(left, right)?)),
        (Map(left, sorted), Map(right, _)) => Some(Map(joined_field(left, right)?, *sorted)),
        (Struct(left), Struct(right)) => joined_fields(left, right).map(Struct),
        _ => None,
    }
}

fn joined_field(left: &FieldRef, right: &FieldRef) -> Option<FieldRef> {
    let data_type = joined(left.data_type(), right.data_type())?;
    let nullable = left.is_nullable() || right.is_nullable();
    Some(Arc::new(left.as_ref().clone().with_data_type(data_type).with_nullable(nullable)))
}

/// The fields of both, in the order in which they first occur.
fn joined_fields(left: &Fields, right: &Fields) -> Option<Fields> {
    let nullable = |field: &Field| Arc::new(field.clone().with_nullable(true));
    let in_left = left.iter().map(|field| match right.find(field.name()) {
        Some((_, other)) => joined_field(field, other),
        None => Some(nullable(field)),
    });
    let in_right = right.iter().filter(|field| left.find(field.name()).is_none());
    in_left.chain(in_right.map(|field| Some(nullable(field)))).collect::<Option<Vec<_>>>().map(Fields::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_that_join_do_so_either_way() {
        use DataType::{Binary, Boolean, Date32, Float32, Float64, Int32, Int64, Null, Utf8};
        for (left, right, expected) in [
            (Int32, Int64, Some(Int64)),
            (Int32, Float32, Some(Float64)),
            (Int64, Float64, Some(Float64)),
            (Float32, Float64, Some(Float64)),
            (Utf8, Binary, Some(Binary)),
            (Null, Boolean, Some(Boolean)),
            (Int32, Utf8, None),
            (Int32, Date32, None),
            (Boolean, Int32, None),
        ] {
            assert_eq!(joined(&left, &right), expected, "{left} {right}");
            assert_eq!(joined(&right, &left), expected, "{right} {left}");
        }
    }

    #[test]
    fn fields_join_by_name() {
        let record = |fields: &[(&str, DataType, bool)]| {
            let fields =
                fields.iter().map(|(name, data_type, nullable)| Field::new(*name, data_type.clone(), *nullable));
            DataType::Struct(fields.collect())
        };
        let list = |item: DataType| DataType::new_list(item, false);
        let old = record(&[("a", DataType::Int32, false), ("b", DataType::Utf8, false)]);
        let new = record(&[("c", DataType::Null, true), ("a", DataType::Int64, false)]);
        let both = record(&[("a", DataType::Int64, false), ("b", DataType::Utf8, true), ("c", DataType::Null, true)]);
        assert_eq!(joined(&list(old.clone()), &list(new)), Some(list(both)));
        assert_eq!(joined(&old, &record(&[("a", DataType::Boolean, false)])), None);
    }
}
