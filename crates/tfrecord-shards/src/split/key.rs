//! Hashes of keys and records, as specified in the documentation of the parent module.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType, Float16Type,
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType, Time32SecondType,
    Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, TimeUnit};
use tfr_arrow::nested::{Encoded, Lists, children};
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

/// Makes split hashes independent of other hashes of the same bytes, above all those of a shuffle. Otherwise the order
/// and the splits would be correlated.
const SEED: u64 = u64::from_be_bytes(*b"tfrsplit");

/// The longest record that is hashed as one slice; longer ones gain nothing from it.
const SHORT: usize = 1015;

/// Length of a letter and a length field.
const PREFIX: usize = 9;

/// A column whose type cannot be a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{data_type} cannot be the key of a split")]
pub struct KeyTypeError {
    /// The type, possibly of a nested part of the column.
    pub data_type: DataType,
}

/// Hashes a whole record, for [`Splits::of`](crate::Splits::of). Equals the hash of a key with the payload as its only
/// column.
pub fn record_hash(payload: &[u8]) -> u64 {
    let len = (payload.len() as u64).to_le_bytes();
    let mut short = [0; PREFIX + SHORT];
    match short.get_mut(..PREFIX + payload.len()) {
        Some(key) => {
            let (prefix, rest) = key.split_at_mut(PREFIX);
            prefix[..1].copy_from_slice(b"b");
            prefix[1..].copy_from_slice(&len);
            rest.copy_from_slice(payload);
            xxh3_64_with_seed(key, SEED)
        }
        None => {
            let mut hasher = Xxh3::with_seed(SEED);
            hasher.update(b"b");
            hasher.update(&len);
            hasher.update(payload);
            hasher.digest()
        }
    }
}

/// Hashes the key of each row, for [`Splits::of`](crate::Splits::of). The columns must have the same length.
///
/// # Errors
/// If [`check_key_type`] rejects the type of a column.
pub fn key_hashes(columns: &[ArrayRef]) -> Result<Vec<u64>, KeyTypeError> {
    let encoders = columns.iter().map(|column| encoder(column.as_ref())).collect::<Result<Vec<_>, _>>()?;
    let rows = columns.iter().map(|column| column.len()).min().unwrap_or_default();
    let mut key = Vec::new();
    let hash = |row| {
        key.clear();
        for encode in &encoders {
            encode(row, &mut key);
        }
        xxh3_64_with_seed(&key, SEED)
    };
    Ok((0..rows).map(hash).collect())
}

/// Checks whether columns of this type can be keys.
///
/// # Errors
/// For maps, which have no order, and for unions and intervals, whose equality is ambiguous.
pub fn check_key_type(data_type: &DataType) -> Result<(), KeyTypeError> {
    match data_type {
        DataType::Map(..) | DataType::Union(..) | DataType::Interval(_) => {
            Err(KeyTypeError { data_type: data_type.clone() })
        }
        other => children(other).into_iter().try_for_each(check_key_type),
    }
}

/// Appends the encoding of a row of one column.
type Encode<'a> = Box<dyn Fn(usize, &mut Vec<u8>) + 'a>;

fn encoder(array: &dyn Array) -> Result<Encode<'_>, KeyTypeError> {
    let encode = valid_encoder(array)?;
    Ok(match array.nulls().filter(|nulls| nulls.null_count() > 0) {
        Some(nulls) => Box::new(move |row, key| if nulls.is_null(row) { key.push(b'n') } else { encode(row, key) }),
        None => encode,
    })
}

/// Returns the encoder of rows that are not null.
fn valid_encoder(array: &dyn Array) -> Result<Encode<'_>, KeyTypeError> {
    use DataType as D;
    use TimeUnit as U;
    Ok(match array.data_type() {
        D::Null => Box::new(|_, key| key.push(b'n')),
        D::Boolean => {
            let array = array.as_boolean();
            Box::new(|row, key| key.push(if array.value(row) { b't' } else { b'f' }))
        }
        D::Int8 => number::<Int8Type>(b'd', array, 1),
        D::Int16 => number::<Int16Type>(b'd', array, 1),
        D::Int32 => number::<Int32Type>(b'd', array, 1),
        D::Int64 => number::<Int64Type>(b'd', array, 1),
        D::UInt8 => number::<UInt8Type>(b'd', array, 1),
        D::UInt16 => number::<UInt16Type>(b'd', array, 1),
        D::UInt32 => number::<UInt32Type>(b'd', array, 1),
        D::UInt64 => number::<UInt64Type>(b'd', array, 1),
        D::Decimal32(_, scale) => decimal::<Decimal32Type>(array, *scale),
        D::Decimal64(_, scale) => decimal::<Decimal64Type>(array, *scale),
        D::Decimal128(_, scale) => decimal::<Decimal128Type>(array, *scale),
        D::Decimal256(_, scale) => decimal::<Decimal256Type>(array, *scale),
        D::Float16 => float::<Float16Type>(array, |value| value.to_f64()),
        D::Float32 => float::<Float32Type>(array, f64::from),
        D::Float64 => float::<Float64Type>(array, |value| value),
        D::Utf8 => bytes(array.as_string::<i32>(), |array, row| array.value(row).as_bytes()),
        D::LargeUtf8 => bytes(array.as_string::<i64>(), |array, row| array.value(row).as_bytes()),
        D::Utf8View => bytes(array.as_string_view(), |array, row| array.value(row).as_bytes()),
        D::Binary => bytes(array.as_binary::<i32>(), |array, row| array.value(row)),
        D::LargeBinary => bytes(array.as_binary::<i64>(), |array, row| array.value(row)),
        D::BinaryView => bytes(array.as_binary_view(), |array, row| array.value(row)),
        D::FixedSizeBinary(_) => bytes(array.as_fixed_size_binary(), |array, row| array.value(row)),
        D::Date32 => number::<Date32Type>(b'D', array, 1),
        D::Date64 => {
            let array = array.as_primitive::<Date64Type>();
            Box::new(|row, key| digits(b'D', array.value(row).div_euclid(MILLISECONDS_PER_DAY).into(), key))
        }
        D::Time32(U::Second) => number::<Time32SecondType>(b'h', array, SECOND),
        D::Time32(_) => number::<Time32MillisecondType>(b'h', array, MILLISECOND),
        D::Time64(U::Nanosecond) => number::<Time64NanosecondType>(b'h', array, 1),
        D::Time64(_) => number::<Time64MicrosecondType>(b'h', array, MICROSECOND),
        D::Timestamp(U::Second, _) => number::<TimestampSecondType>(b'T', array, SECOND),
        D::Timestamp(U::Millisecond, _) => number::<TimestampMillisecondType>(b'T', array, MILLISECOND),
        D::Timestamp(U::Microsecond, _) => number::<TimestampMicrosecondType>(b'T', array, MICROSECOND),
        D::Timestamp(U::Nanosecond, _) => number::<TimestampNanosecondType>(b'T', array, 1),
        D::Duration(U::Second) => number::<DurationSecondType>(b'u', array, SECOND),
        D::Duration(U::Millisecond) => number::<DurationMillisecondType>(b'u', array, MILLISECOND),
        D::Duration(U::Microsecond) => number::<DurationMicrosecondType>(b'u', array, MICROSECOND),
        D::Duration(U::Nanosecond) => number::<DurationNanosecondType>(b'u', array, 1),
        D::Struct(_) => {
            let fields = array.as_struct().columns().iter().map(|field| encoder(field.as_ref()));
            let fields = fields.collect::<Result<Vec<_>, _>>()?;
            Box::new(move |row, key| {
                prefix(b'r', fields.len(), key);
                for encode in &fields {
                    encode(row, key);
                }
            })
        }
        D::Map(..) | D::Union(..) | D::Interval(_) => {
            return Err(KeyTypeError { data_type: array.data_type().clone() });
        }
        _ => match (Lists::of(array), Encoded::of(array)) {
            (Some(lists), _) => elements(lists)?,
            (_, Some(encoded)) => shared(encoded)?,
            _ => return Err(KeyTypeError { data_type: array.data_type().clone() }),
        },
    })
}

const SECOND: i128 = 1_000_000_000;
const MILLISECOND: i128 = 1_000_000;
const MICROSECOND: i128 = 1_000;
const MILLISECONDS_PER_DAY: i64 = 86_400_000;

/// Encodes integers, multiplied by `unit`.
fn number<T: ArrowPrimitiveType<Native: Into<i128>>>(letter: u8, array: &dyn Array, unit: i128) -> Encode<'_> {
    let array = array.as_primitive::<T>();
    Box::new(move |row, key| digits(letter, array.value(row).into() * unit, key))
}

fn decimal<T: ArrowPrimitiveType<Native: std::fmt::Display>>(array: &dyn Array, scale: i8) -> Encode<'_> {
    let array = array.as_primitive::<T>();
    Box::new(move |row, key| put(b'd', point(&array.value(row).to_string(), scale).as_bytes(), key))
}

/// Writes `digits` with a decimal point before the last `scale` digits, in the shortest form.
fn point(digits: &str, scale: i8) -> String {
    let (sign, digits) = digits.split_at(usize::from(digits.starts_with('-')));
    if digits == "0" {
        return digits.to_owned();
    }
    let Ok(scale) = usize::try_from(scale) else {
        return format!("{sign}{digits}{:0>1$}", "", usize::from(scale.unsigned_abs()));
    };
    let digits = format!("{digits:0>0$}", scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    match fraction.trim_end_matches('0') {
        "" => format!("{sign}{whole}"),
        fraction => format!("{sign}{whole}.{fraction}"),
    }
}

fn float<'a, T: ArrowPrimitiveType>(array: &'a dyn Array, widen: impl Fn(T::Native) -> f64 + 'a) -> Encode<'a> {
    let array = array.as_primitive::<T>();
    Box::new(move |row, key| {
        let value = widen(array.value(row));
        let bits = match value {
            _ if value.is_nan() => 0x7ff8_0000_0000_0000,
            _ if value == 0.0 => 0,
            _ => value.to_bits(),
        };
        key.push(b'e');
        key.extend_from_slice(&bits.to_le_bytes());
    })
}

fn bytes<'a, A>(array: &'a A, value: impl Fn(&'a A, usize) -> &'a [u8] + 'a) -> Encode<'a> {
    Box::new(move |row, key| put(b'b', value(array, row), key))
}

/// Encodes lists: the number of elements, then each of them.
fn elements(lists: Lists<'_>) -> Result<Encode<'_>, KeyTypeError> {
    let encode = encoder(lists.items())?;
    Ok(Box::new(move |row, key| {
        let range = lists.range(row);
        prefix(b'l', range.len(), key);
        range.for_each(|element| encode(element, key));
    }))
}

/// Encodes values of dictionaries and runs.
fn shared(encoded: Encoded<'_>) -> Result<Encode<'_>, KeyTypeError> {
    let encode = encoder(encoded.values())?;
    Ok(Box::new(move |row, key| match encoded.position(row) {
        Some(position) => encode(position, key),
        None => key.push(b'n'),
    }))
}

fn digits(letter: u8, value: i128, key: &mut Vec<u8>) {
    let mut text = [0; 40];
    let mut start = text.len();
    // Most numbers are short, and 64-bit division is many times faster than 128-bit division.
    let mut low = match u64::try_from(value.unsigned_abs()) {
        Ok(low) => low,
        Err(_) => return put(letter, value.to_string().as_bytes(), key),
    };
    loop {
        start -= 1;
        text[start] = b'0' + (low % 10) as u8;
        low /= 10;
        if low == 0 {
            break;
        }
    }
    if value < 0 {
        start -= 1;
        text[start] = b'-';
    }
    put(letter, &text[start..], key);
}

fn put(letter: u8, bytes: &[u8], key: &mut Vec<u8>) {
    prefix(letter, bytes.len(), key);
    key.extend_from_slice(bytes);
}

fn prefix(letter: u8, count: usize, key: &mut Vec<u8>) {
    key.push(letter);
    key.extend_from_slice(&(count as u64).to_le_bytes());
}
