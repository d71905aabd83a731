//! Infers the type of a column from text.

use arrow_array::timezone::Tz;
use arrow_array::types::{Date32Type, Float64Type};
use arrow_cast::parse::{Parser, string_to_datetime};
use arrow_schema::{DataType, TimeUnit};

const NANOS_IN_MICRO: i64 = 1000;

/// The type of one cell, or of all cells of a column seen so far.
///
/// A cell has a type other than `Text` only if the conversion loses nothing. So `007` is text, not seven. A number
/// beyond 64 bits is text, a time with a zone is not a time without, and a leap second is not the next second. The one
/// exception: a decimal fraction (`0.1`) is rounded to the nearest float64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum CellType {
    /// No cell seen, or only nulls.
    #[default]
    Unknown,
    /// `true` or `false`, in any case.
    Boolean,
    /// A 64-bit integer; `wide` if no float64 equals it.
    Int64 { wide: bool },
    /// A number with a fraction or an exponent within the range of a float64; `NaN`, `inf`.
    Float64,
    /// `YYYY-MM-DD`.
    Date,
    /// `YYYY-MM-DD hh:mm:ss[.ffffff]`. `zoned`: with `Z` or an offset. `nanos`: with more than six digits. `far`:
    /// beyond the range of nanoseconds.
    Timestamp { zoned: bool, nanos: bool, far: bool },
    /// Anything else.
    Text,
}

impl CellType {
    /// Infers the type of a cell that is not null.
    pub(crate) fn of(cell: &str) -> Self {
        let shape = Self::shape(cell);
        let is_value = match shape {
            Self::Float64 => parse_float(cell).is_some(),
            Self::Date => parse_date(cell).is_some(),
            Self::Timestamp { nanos: true, .. } => parse_nanos(cell).is_some(),
            Self::Timestamp { zoned, .. } => {
                return parse_micros(cell).map_or(Self::Text, |micros| {
                    let far = micros.checked_mul(NANOS_IN_MICRO).is_none();
                    Self::Timestamp { zoned, nanos: false, far }
                });
            }
            _ => true,
        };
        if is_value { shape } else { Self::Text }
    }

    /// Returns the type that a cell looks like. The number, date or time may be invalid, and `far` is never set.
    pub(super) fn shape(cell: &str) -> Self {
        let bytes = cell.as_bytes();
        match bytes {
            [] => Self::Text,
            _ if cell.eq_ignore_ascii_case("true") || cell.eq_ignore_ascii_case("false") => Self::Boolean,
            b"NaN" | b"nan" | b"inf" | b"-inf" | b"Infinity" | b"-Infinity" => Self::Float64,
            [b'0'..=b'9' | b'-' | b'.', ..] => Self::number(cell).or_else(|| Self::time(bytes)).unwrap_or(Self::Text),
            _ => Self::Text,
        }
    }

    fn number(cell: &str) -> Option<Self> {
        let digits = cell.strip_prefix('-').unwrap_or(cell).as_bytes();
        let whole = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
        // An identifier such as 007 or a postcode would lose its zeros.
        if whole > 1 && digits[0] == b'0' {
            return None;
        }
        if whole == digits.len() {
            // `-0` would lose its sign.
            let value: i64 = cell.parse().ok().filter(|_| cell != "-0")?;
            return Some(Self::Int64 { wide: value as f64 as i128 != i128::from(value) });
        }
        let rest = &digits[whole..];
        let (fraction, rest) = match rest.strip_prefix(b".") {
            Some(rest) => rest.split_at(rest.iter().take_while(|byte| byte.is_ascii_digit()).count()),
            None => (&rest[..0], rest),
        };
        let exponent = match rest {
            [] => true,
            [b'e' | b'E', b'+' | b'-', digits @ ..] | [b'e' | b'E', digits @ ..] => {
                !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
            }
            _ => false,
        };
        (exponent && whole + fraction.len() > 0).then_some(Self::Float64)
    }

    fn time(bytes: &[u8]) -> Option<Self> {
        // In a pattern, `0` matches a digit and `T` matches `T` or a space.
        let matches = |pattern: &[u8], bytes: &[u8]| {
            pattern.len() == bytes.len()
                && pattern.iter().zip(bytes).all(|(pattern, byte)| match pattern {
                    b'0' => byte.is_ascii_digit(),
                    b'T' => matches!(byte, b'T' | b' '),
                    other => byte == other,
                })
        };
        let date = bytes.get(..10).filter(|date| matches(b"0000-00-00", date))?;
        let Some(rest) = bytes.get(date.len()..).filter(|rest| !rest.is_empty()) else { return Some(Self::Date) };
        let time = rest.get(..9).filter(|time| matches(b"T00:00:00", time))?;
        // A leap second would become the first second of the next minute.
        if time[7] == b'6' {
            return None;
        }
        let rest = &rest[time.len()..];
        let (digits, zone) = match rest.strip_prefix(b".") {
            Some(rest) => {
                let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
                ((1..=9).contains(&digits).then_some(digits)?, &rest[digits..])
            }
            None => (0, rest),
        };
        let zoned = match zone {
            [] => false,
            b"Z" | b"z" => true,
            [b'+' | b'-', offset @ ..] if [&b"00:00"[..], b"0000", b"00"].iter().any(|p| matches(p, offset)) => true,
            _ => return None,
        };
        Some(Self::Timestamp { zoned, nanos: digits > 6, far: false })
    }

    /// Returns the type that fits the cells of both.
    pub(crate) fn join(self, other: Self) -> Self {
        match (self, other) {
            (left, right) if left == right => left,
            (Self::Unknown, known) | (known, Self::Unknown) => known,
            (Self::Int64 { wide: left }, Self::Int64 { wide: right }) => Self::Int64 { wide: left | right },
            (Self::Int64 { wide: false }, Self::Float64) | (Self::Float64, Self::Int64 { wide: false }) => {
                Self::Float64
            }
            (Self::Timestamp { zoned, nanos, far }, Self::Timestamp { zoned: same, nanos: other, far: too })
                if zoned == same =>
            {
                match (nanos | other, far | too) {
                    // Neither unit fits both.
                    (true, true) => Self::Text,
                    (nanos, far) => Self::Timestamp { zoned, nanos, far },
                }
            }
            _ => Self::Text,
        }
    }

    /// Returns the Arrow type of a column. A column of only nulls is text, which fits all later values.
    pub(crate) fn data_type(self) -> DataType {
        match self {
            Self::Boolean => DataType::Boolean,
            Self::Int64 { .. } => DataType::Int64,
            Self::Float64 => DataType::Float64,
            Self::Date => DataType::Date32,
            Self::Timestamp { zoned, nanos, .. } => {
                let unit = if nanos { TimeUnit::Nanosecond } else { TimeUnit::Microsecond };
                DataType::Timestamp(unit, zoned.then(|| "UTC".into()))
            }
            Self::Unknown | Self::Text => DataType::Utf8,
        }
    }

    /// Whether a column of `data_type`, a result of [`Self::data_type`], can represent a cell of this type exactly.
    pub(crate) fn fits(self, data_type: &DataType) -> bool {
        match (self, data_type) {
            (_, DataType::Utf8)
            | (Self::Boolean, DataType::Boolean)
            | (Self::Int64 { .. }, DataType::Int64)
            | (Self::Int64 { wide: false }, DataType::Float64)
            | (Self::Float64, DataType::Float64)
            | (Self::Date, DataType::Date32) => true,
            (Self::Timestamp { zoned, nanos, far }, DataType::Timestamp(unit, zone)) => {
                let is_nanos = *unit == TimeUnit::Nanosecond;
                zoned == zone.is_some() && (!nanos || is_nanos) && !(far && is_nanos)
            }
            _ => false,
        }
    }
}

/// Returns the nearest float64; `None` if that is infinite, or zero for a number other than zero.
pub(crate) fn parse_float(cell: &str) -> Option<f64> {
    Float64Type::parse(cell).filter(|value| is_in_float_range(cell, *value))
}

/// Whether `value`, parsed from `cell`, is not an infinity or zero that resulted from overflow or underflow.
pub(crate) fn is_in_float_range(cell: &str, value: f64) -> bool {
    let mantissa = || cell.bytes().take_while(|byte| !matches!(byte, b'e' | b'E'));
    if value.is_infinite() {
        return !mantissa().any(|byte| byte.is_ascii_digit());
    }
    value != 0.0 || !mantissa().any(|byte| matches!(byte, b'1'..=b'9'))
}

/// Days since the epoch.
pub(super) fn parse_date(cell: &str) -> Option<i32> {
    Date32Type::parse(cell)
}

/// Microseconds since the epoch; a time without a zone is read as UTC.
pub(super) fn parse_micros(cell: &str) -> Option<i64> {
    // Arrow's parser for microseconds goes through nanoseconds, which end in the year 2262.
    let utc: Tz = "+00:00".parse().ok()?;
    string_to_datetime(&utc, cell).ok().map(|time| time.timestamp_micros())
}

/// Nanoseconds since the epoch; a time without a zone is read as UTC.
pub(super) fn parse_nanos(cell: &str) -> Option<i64> {
    let utc: Tz = "+00:00".parse().ok()?;
    string_to_datetime(&utc, cell).ok()?.timestamp_nanos_opt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_cell_types_are_inferred() {
        use CellType::{Boolean, Date, Float64, Text};
        let int = |wide| CellType::Int64 { wide };
        let timestamp = |zoned, nanos| CellType::Timestamp { zoned, nanos, far: false };
        for (cell, expected) in [
            ("true", Boolean),
            ("FALSE", Boolean),
            ("yes", Text),
            ("0", int(false)),
            ("-17", int(false)),
            ("9007199254740992", int(false)),
            ("9007199254740993", int(true)),
            ("9007199254740994", int(false)),
            ("9223372036854775807", int(true)),
            ("-9223372036854775808", int(false)),
            ("9223372036854775808", Text),
            ("007", Text),
            ("-0", Text),
            ("+1", Text),
            ("1 ", Text),
            ("-", Text),
            ("1.", Float64),
            (".5", Float64),
            ("-0.0", Float64),
            ("1e-3", Float64),
            ("1.5E+10", Float64),
            ("1.7976931348623157e308", Float64),
            ("1e400", Text),
            ("-1e400", Text),
            ("1e-400", Text),
            ("0e-400", Float64),
            ("-inf", Float64),
            ("1e", Text),
            (".", Text),
            ("1.2.3", Text),
            ("00.5", Text),
            ("nan", Float64),
            ("2024-02-29", Date),
            ("2024-2-29", Text),
            ("2023-02-29", Text),
            ("2024-02-29 25:00:00", Text),
            ("9999-12-31 23:59:59", CellType::Timestamp { zoned: false, nanos: false, far: true }),
            ("1677-09-21T00:12:43.145225Z", timestamp(true, false)),
            ("1677-09-21T00:12:43.145224Z", CellType::Timestamp { zoned: true, nanos: false, far: true }),
            ("9999-12-31 23:59:59.123456789", Text),
            ("2024-02-29 01:02:03", timestamp(false, false)),
            ("2024-02-29T01:02:03.123456", timestamp(false, false)),
            ("2024-02-29T01:02:03.1234567", timestamp(false, true)),
            ("2024-02-29T01:02:03Z", timestamp(true, false)),
            ("2024-02-29T01:02:03.5+05:30", timestamp(true, false)),
            ("2024-02-29T01:02:03 UTC", Text),
            ("2024-02-29T01:02", Text),
            ("2016-12-31 23:59:60", Text),
            ("2016-12-31T23:59:60.5Z", Text),
            ("1é", Text),
            ("2024-02-2é", Text),
        ] {
            assert_eq!(CellType::of(cell), expected, "{cell:?}");
        }
    }

    #[test]
    fn a_joined_type_holds_both() {
        let all = [
            CellType::Boolean,
            CellType::Int64 { wide: false },
            CellType::Int64 { wide: true },
            CellType::Float64,
            CellType::Date,
            CellType::Timestamp { zoned: false, nanos: false, far: false },
            CellType::Timestamp { zoned: false, nanos: false, far: true },
            CellType::Timestamp { zoned: false, nanos: true, far: false },
            CellType::Timestamp { zoned: true, nanos: false, far: false },
            CellType::Timestamp { zoned: true, nanos: false, far: true },
            CellType::Text,
        ];
        for left in all {
            for right in all {
                let joined = left.join(right);
                assert_eq!(joined, right.join(left));
                assert!(left.fits(&joined.data_type()) && right.fits(&joined.data_type()), "{left:?} {right:?}");
            }
        }
    }
}
