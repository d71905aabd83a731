//! [`common_type`]: the type that holds every value of two types.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use arrow_schema::{
    DECIMAL32_MAX_PRECISION, DECIMAL64_MAX_PRECISION, DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType,
    FieldRef, Fields, TimeUnit,
};

use crate::kinds::{is_binary, is_number, is_scalar_with_text, is_text};
use crate::nested::{item, with_item};

/// Determines the type of two types for which [`common_type`] has no result.
pub type LeafRule = fn(&DataType, &DataType) -> Option<DataType>;

/// Two types that have no common type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeConflict {
    /// The position of the two types in the column: `[]` for list items, `.name` for struct fields; empty for the
    /// column itself.
    pub path: String,
    /// One type.
    pub left: DataType,
    /// The other type.
    pub right: DataType,
}

impl TypeConflict {
    fn new(left: &DataType, right: &DataType) -> Self {
        Self { path: String::new(), left: left.clone(), right: right.clone() }
    }

    fn within(mut self, part: &str) -> Self {
        self.path.insert_str(0, part);
        self
    }
}

impl fmt::Display for TypeConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        write!(f, "no type can represent every value of both {} and {}", self.left, self.right)
    }
}

/// Returns the type that holds every value of both types without loss.
///
/// | types | common type |
/// |---|---|
/// | Null and any other | the other |
/// | integers | the smallest integer type that holds both ranges |
/// | integers of up to 16 bits with Float32, of up to 32 bits with Float64 | that float |
/// | floats | the wider one |
/// | decimals, and integers with decimals | a decimal with the digits of both, up to 76 |
/// | text; binary | large if one is large, else a view if one is |
/// | dictionaries and run-end encoded columns | the common type of their values |
/// | dates; times, timestamps of one zone and durations of other units | Date64; the finer unit |
/// | lists of any kind, maps | the same of the common type of the items, keys and values |
/// | structs | the fields of both by name, in the order in which they first occur; nullable if one side lacks them |
///
/// Timestamps of a coarse unit may be out of range in a finer one. [`convert`](crate::convert::convert) reports such values.
///
/// # Errors
/// No type holds every value of both.
pub fn common_type(left: &DataType, right: &DataType) -> Result<DataType, TypeConflict> {
    common_type_or(left, right, |_, _| None)
}

/// Same as [`common_type`], but calls `rule` for types without a common type, at every level of nesting.
///
/// # Errors
/// Same as [`common_type`], if `rule` returns `None`.
pub fn common_type_or(left: &DataType, right: &DataType, rule: LeafRule) -> Result<DataType, TypeConflict> {
    use DataType::{Dictionary, Map, Null, RunEndEncoded, Struct};
    if left == right {
        return Ok(left.clone());
    }
    match (left, right) {
        (Null, other) | (other, Null) => return Ok(other.clone()),
        (RunEndEncoded(_, values), other) => return common_type_or(values.data_type(), other, rule),
        (other, RunEndEncoded(_, values)) => return common_type_or(other, values.data_type(), rule),
        (Dictionary(_, values), other) => return common_type_or(values, other, rule),
        (other, Dictionary(_, values)) => return common_type_or(other, values, rule),
        (Struct(left), Struct(right)) if names_are_unique(left) && names_are_unique(right) => {
            return common_fields(left, right, rule).map(Struct);
        }
        (Map(left_entries, sorted), Map(right_entries, also_sorted)) => {
            return common_entries(left_entries, right_entries, rule)
                .map(|entries| Map(entries, *sorted && *also_sorted));
        }
        _ => {}
    }
    if let (Some(left_item), Some(right_item)) = (item(left), item(right)) {
        let item = common_field(left_item, right_item, rule).map_err(|conflict| conflict.within("[]"))?;
        let is_large = |list: &DataType| matches!(list, DataType::LargeList(_) | DataType::LargeListView(_));
        return Ok(match with_item(left, Arc::clone(&item)) {
            same if same == with_item(right, Arc::clone(&item)) => same,
            _ if is_large(left) || is_large(right) => DataType::LargeList(item),
            _ => DataType::List(item),
        });
    }
    common_scalar(left, right)
        .or_else(|| rule(left, right).or_else(|| rule(right, left)))
        .ok_or_else(|| TypeConflict::new(left, right))
}

fn names_are_unique(fields: &Fields) -> bool {
    let mut names = HashSet::new();
    fields.iter().all(|field| names.insert(field.name()))
}

fn common_field(left: &FieldRef, right: &FieldRef, rule: LeafRule) -> Result<FieldRef, TypeConflict> {
    let data_type = common_type_or(left.data_type(), right.data_type(), rule)?;
    let nullable = left.is_nullable() || right.is_nullable();
    Ok(Arc::new(left.as_ref().clone().with_data_type(data_type).with_nullable(nullable)))
}

fn common_fields(left: &Fields, right: &Fields, rule: LeafRule) -> Result<Fields, TypeConflict> {
    let nullable = |field: &FieldRef| Arc::new(field.as_ref().clone().with_nullable(true));
    let mut fields: Vec<FieldRef> = Vec::with_capacity(left.len());
    for field in left {
        fields.push(match right.find(field.name()) {
            Some((_, other)) => {
                common_field(field, other, rule).map_err(|conflict| conflict.within(&format!(".{}", field.name())))?
            }
            None => nullable(field),
        });
    }
    fields.extend(right.iter().filter(|field| left.find(field.name()).is_none()).map(nullable));
    Ok(fields.into())
}

/// Keys and values are matched by position: writers use several names for them.
fn common_entries(left: &FieldRef, right: &FieldRef, rule: LeafRule) -> Result<FieldRef, TypeConflict> {
    let (DataType::Struct(left_parts), DataType::Struct(right_parts)) = (left.data_type(), right.data_type()) else {
        return Err(TypeConflict::new(left.data_type(), right.data_type()));
    };
    let ([left_key, left_value], [right_key, right_value]) = (left_parts.as_ref(), right_parts.as_ref()) else {
        return Err(TypeConflict::new(left.data_type(), right.data_type()));
    };
    let parts = [
        common_field(left_key, right_key, rule).map_err(|conflict| conflict.within(".key"))?,
        common_field(left_value, right_value, rule).map_err(|conflict| conflict.within(".value"))?,
    ];
    Ok(Arc::new(left.as_ref().clone().with_data_type(DataType::Struct(parts.into_iter().collect()))))
}

fn common_scalar(left: &DataType, right: &DataType) -> Option<DataType> {
    use DataType::{
        Binary, BinaryView, Date32, Date64, Duration, FixedSizeBinary, LargeBinary, LargeUtf8, Time32, Time64,
        Timestamp, Utf8, Utf8View,
    };
    match (left, right) {
        (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View) => Some(match (left, right) {
            (LargeUtf8, _) | (_, LargeUtf8) => LargeUtf8,
            _ => Utf8View,
        }),
        (
            Binary | LargeBinary | BinaryView | FixedSizeBinary(_),
            Binary | LargeBinary | BinaryView | FixedSizeBinary(_),
        ) => Some(match (left, right) {
            (LargeBinary, _) | (_, LargeBinary) => LargeBinary,
            (BinaryView, _) | (_, BinaryView) => BinaryView,
            _ => Binary,
        }),
        (Date32 | Date64, Date32 | Date64) => Some(Date64),
        (Time32(left) | Time64(left), Time32(right) | Time64(right)) => Some(time_of_day(*left.max(right))),
        (Timestamp(left, left_zone), Timestamp(right, right_zone)) => {
            let zone = match (left_zone, right_zone) {
                _ if left_zone == right_zone => left_zone.clone(),
                (Some(left), Some(right)) if is_utc(left) && is_utc(right) => Some("UTC".into()),
                _ => return None,
            };
            Some(Timestamp(*left.max(right), zone))
        }
        (Duration(left), Duration(right)) => Some(Duration(*left.max(right))),
        _ => common_number(left, right),
    }
}

fn time_of_day(unit: TimeUnit) -> DataType {
    match unit {
        TimeUnit::Second | TimeUnit::Millisecond => DataType::Time32(unit),
        TimeUnit::Microsecond | TimeUnit::Nanosecond => DataType::Time64(unit),
    }
}

/// Whether a time zone is a name of UTC.
fn is_utc(zone: &str) -> bool {
    matches!(zone, "UTC" | "Etc/UTC" | "Z" | "+00:00" | "+00" | "-00:00")
}

fn common_number(left: &DataType, right: &DataType) -> Option<DataType> {
    use DataType::{Float16, Float32, Float64};
    if let (Some((left_bits, left_signed)), Some((right_bits, right_signed))) = (integer(left), integer(right)) {
        if left_signed == right_signed {
            return signed_or_not(left_bits.max(right_bits), left_signed);
        }
        let unsigned_bits = if left_signed { right_bits } else { left_bits };
        let signed_bits = if left_signed { left_bits } else { right_bits };
        return signed_or_not(signed_bits.max(unsigned_bits * 2), true);
    }
    match (left, right) {
        (Float16 | Float32 | Float64, Float16 | Float32 | Float64) => {
            return Some(if [left, right].contains(&&Float64) { Float64 } else { Float32 });
        }
        (float @ (Float16 | Float32 | Float64), other) | (other, float @ (Float16 | Float32 | Float64)) => {
            let (bits, _) = integer(other)?;
            return match bits {
                8 | 16 if *float != Float64 => Some(Float32),
                8 | 16 | 32 => Some(Float64),
                _ => None,
            };
        }
        _ => {}
    }
    common_decimal(left, right)
}

/// Returns the number of bits, and whether the type is signed.
fn integer(data_type: &DataType) -> Option<(u16, bool)> {
    match data_type {
        DataType::Int8 => Some((8, true)),
        DataType::Int16 => Some((16, true)),
        DataType::Int32 => Some((32, true)),
        DataType::Int64 => Some((64, true)),
        DataType::UInt8 => Some((8, false)),
        DataType::UInt16 => Some((16, false)),
        DataType::UInt32 => Some((32, false)),
        DataType::UInt64 => Some((64, false)),
        _ => None,
    }
}

fn signed_or_not(bits: u16, signed: bool) -> Option<DataType> {
    match (bits, signed) {
        (8, true) => Some(DataType::Int8),
        (16, true) => Some(DataType::Int16),
        (32, true) => Some(DataType::Int32),
        (64, true) => Some(DataType::Int64),
        (8, false) => Some(DataType::UInt8),
        (16, false) => Some(DataType::UInt16),
        (32, false) => Some(DataType::UInt32),
        (64, false) => Some(DataType::UInt64),
        _ => None,
    }
}

/// A decimal type, or an integer type as a decimal.
struct Digits {
    precision: i16,
    scale: i16,
    /// Maximum number of digits in the type's storage.
    storage: u8,
}

impl Digits {
    fn of(data_type: &DataType) -> Option<Self> {
        let (precision, scale, storage) = match data_type {
            DataType::Decimal32(precision, scale) => (*precision, *scale, DECIMAL32_MAX_PRECISION),
            DataType::Decimal64(precision, scale) => (*precision, *scale, DECIMAL64_MAX_PRECISION),
            DataType::Decimal128(precision, scale) => (*precision, *scale, DECIMAL128_MAX_PRECISION),
            DataType::Decimal256(precision, scale) => (*precision, *scale, DECIMAL256_MAX_PRECISION),
            _ => match integer(data_type)? {
                (8, _) => (3, 0, 0),
                (16, _) => (5, 0, 0),
                (32, _) => (10, 0, 0),
                (_, true) => (19, 0, 0),
                (_, false) => (20, 0, 0),
            },
        };
        Some(Self { precision: i16::from(precision), scale: i16::from(scale), storage })
    }
}

fn common_decimal(left: &DataType, right: &DataType) -> Option<DataType> {
    let (left, right) = (Digits::of(left)?, Digits::of(right)?);
    let scale = left.scale.max(right.scale);
    let whole = (left.precision - left.scale).max(right.precision - right.scale);
    let precision = u8::try_from(whole + scale).ok().filter(|precision| *precision > 0)?;
    let scale = i8::try_from(scale).ok()?;
    Some(match precision.max(left.storage).max(right.storage) {
        digits if digits <= DECIMAL32_MAX_PRECISION => DataType::Decimal32(precision, scale),
        digits if digits <= DECIMAL64_MAX_PRECISION => DataType::Decimal64(precision, scale),
        digits if digits <= DECIMAL128_MAX_PRECISION => DataType::Decimal128(precision, scale),
        digits if digits <= DECIMAL256_MAX_PRECISION => DataType::Decimal256(precision, scale),
        _ => return None,
    })
}

/// Returns a type for two that have no common type, if a conversion of most values is exact: [`convert`](crate::convert::convert)
/// reports the others. Numbers of different kinds become Float64 or a decimal, text and other scalars become text.
pub fn checked_rule(left: &DataType, right: &DataType) -> Option<DataType> {
    match (left, right) {
        _ if integer(left).is_some() && integer(right).is_some() => Some(DataType::Decimal128(20, 0)),
        _ if is_number(left) && is_number(right) => Some(DataType::Float64),
        _ if is_binary(left) && is_text(right) => Some(DataType::Binary),
        _ if is_scalar_with_text(left) && is_scalar_with_text(right) => Some(DataType::Utf8),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
