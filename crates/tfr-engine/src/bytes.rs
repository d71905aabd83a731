//! Text functions that count and return bytes of BINARY values.
//!
//! The engine converts bytes to text first: the `length` of the two letters `éé` was 2, and that of a JPEG image
//! an error. `octet_length` and `bit_length` rejected bytes.
//!
//! Upstream: ours (a choice of meaning). Held by `tests/slt/bytes.slt`: BINARY is bytes, not text.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, GenericBinaryArray, GenericBinaryBuilder, Int64Array, OffsetSizeTrait};
use arrow::datatypes::Int64Type;
use arrow_schema::DataType;
use datafusion::functions::{string, unicode};
use datafusion_common::{Result, exec_err, plan_err};
use datafusion_expr::planner::{ExprPlanner, PlannerResult};
use datafusion_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF};
use tfr_arrow::nested::value_type;

use crate::corrected::{Corrected, Correction, on_arrays};

/// Returns the functions to register in place of the engine's.
pub(crate) fn functions() -> [Arc<ScalarUDF>; 9] {
    [
        Corrected::function(unicode::character_length(), &OnBytes::Length),
        Corrected::function(string::octet_length(), &OnBytes::Length),
        Corrected::function(string::bit_length(), &OnBytes::Bits),
        Corrected::function(unicode::substr(), &OnBytes::Substring),
        Corrected::function(unicode::left(), &OnBytes::Left),
        Corrected::function(unicode::right(), &OnBytes::Right),
        Corrected::function(unicode::strpos(), &OnBytes::Position),
        Corrected::function(unicode::reverse(), &OnBytes::Reverse),
        Corrected::function(string::concat(), &OnBytes::Concat),
    ]
}

/// Plans `SUBSTRING(x FROM 1)` and `POSITION(y IN x)` as calls of these functions.
#[derive(Debug)]
pub(crate) struct BytesPlanner;

impl ExprPlanner for BytesPlanner {
    fn plan_substring(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(PlannerResult::Planned(Corrected::function(unicode::substr(), &OnBytes::Substring).call(args)))
    }

    fn plan_position(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(PlannerResult::Planned(Corrected::function(unicode::strpos(), &OnBytes::Position).call(args)))
    }
}

/// Whether values of a type are bytes, whatever their encoding.
pub(crate) fn is_bytes(data_type: &DataType) -> bool {
    let values = value_type(data_type);
    values.is_binary() || matches!(values, DataType::FixedSizeBinary(_))
}

/// The result for bytes. For other types it is the engine's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnBytes {
    Length,
    Bits,
    Substring,
    Left,
    Right,
    Position,
    Reverse,
    Concat,
}

impl Correction for OnBytes {
    fn coerce(&self, _: &ScalarUDF, types: &[DataType]) -> Result<Option<Vec<DataType>>> {
        if !types.iter().any(is_bytes) {
            return Ok(None);
        }
        // The engine would replace an error by its own. `return_type` reports it.
        Ok(Some(self.coerced(types).unwrap_or_else(|| types.to_vec())))
    }

    fn return_type(&self, engine: &ScalarUDF, types: &[DataType]) -> Result<Option<DataType>> {
        if !types.iter().any(is_bytes) {
            return Ok(None);
        }
        match (self, self.coerced(types).and_then(|coerced| coerced.into_iter().find(is_bytes))) {
            (Self::Length | Self::Bits | Self::Position, Some(_)) => Ok(Some(DataType::Int64)),
            (_, Some(bytes)) => Ok(Some(bytes)),
            (_, None) => plan_err!(
                "{} of BINARY takes {}, found {}; write CAST(x AS VARCHAR) for the text of bytes, and CAST(x AS BYTEA) \
                 for the bytes of a text",
                engine.name(),
                self.arguments(),
                types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
            ),
        }
    }

    fn simplifies_as_engine(&self) -> bool {
        // That of `concat` creates a call of the engine's function, for text.
        *self != Self::Concat
    }

    fn invoke(&self, engine: &ScalarUDF, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.iter().map(ColumnarValue::data_type).find(is_bytes) {
            Some(DataType::Binary) => on_arrays(&args.args, |arrays| self.compute::<i32>(arrays)),
            Some(DataType::LargeBinary) => on_arrays(&args.args, |arrays| self.compute::<i64>(arrays)),
            Some(other) => exec_err!("{}: {other} was not coerced", engine.name()),
            None => engine.invoke_with_args(args),
        }
    }
}

impl OnBytes {
    fn arguments(self) -> &'static str {
        match self {
            Self::Length | Self::Bits | Self::Reverse => "one argument",
            Self::Substring => "bytes, a position and a number of bytes",
            Self::Left | Self::Right => "bytes and their number",
            Self::Position | Self::Concat => "bytes only",
        }
    }

    /// Returns the types to compute in, or `None` if the function does not take arguments of these types.
    fn coerced(self, types: &[DataType]) -> Option<Vec<DataType>> {
        let bytes = if types.contains(&DataType::LargeBinary) { DataType::LargeBinary } else { DataType::Binary };
        let is_number = |data_type: &DataType| data_type.is_integer() || data_type.is_null();
        let is_bytes_or_null = |data_type: &DataType| is_bytes(data_type) || data_type.is_null();
        match (self, types) {
            (Self::Length | Self::Bits | Self::Reverse, [_]) => Some(vec![bytes]),
            (Self::Left | Self::Right | Self::Substring, [first, numbers @ ..])
                if is_bytes(first)
                    && numbers.iter().all(is_number)
                    && (numbers.len() == 1 || (numbers.len() == 2 && self == Self::Substring)) =>
            {
                Some(std::iter::once(bytes).chain(numbers.iter().map(|_| DataType::Int64)).collect())
            }
            (Self::Position, [first, second]) if is_bytes_or_null(first) && is_bytes_or_null(second) => {
                Some(vec![bytes; 2])
            }
            (Self::Concat, types) if types.iter().all(is_bytes_or_null) => Some(vec![bytes; types.len()]),
            _ => None,
        }
    }

    fn compute<O: OffsetSizeTrait>(self, arrays: &[ArrayRef]) -> Result<ArrayRef> {
        let Some(first) = arrays.first() else { return exec_err!("a function of bytes without arguments") };
        let bytes = first.as_binary::<O>();
        let number = |index: usize| arrays.get(index).and_then(|numbers| numbers.as_primitive_opt::<Int64Type>());
        match (self, number(1)) {
            (Self::Length, _) => Ok(lengths(bytes, 1)),
            (Self::Bits, _) => Ok(lengths(bytes, 8)),
            (Self::Reverse, _) => mapped(bytes, |_, bytes| Ok(Some(Cow::Owned(bytes.iter().rev().copied().collect())))),
            (Self::Position, _) => match arrays.get(1) {
                Some(needles) => Ok(positions(bytes, needles.as_binary::<O>())),
                None => exec_err!("a position takes two arguments"),
            },
            (Self::Concat, _) => Ok(concatenated::<O>(arrays)),
            (Self::Substring, Some(from)) => {
                let counts = number(2);
                mapped(bytes, |row, bytes| {
                    let count = match counts {
                        Some(counts) if counts.is_null(row) => return Ok(None),
                        Some(counts) => Some(counts.value(row)),
                        None => None,
                    };
                    match from.is_null(row) {
                        true => Ok(None),
                        false => Ok(part(bytes, substring(bytes.len(), from.value(row), count)?)),
                    }
                })
            }
            (Self::Left | Self::Right, Some(counts)) => mapped(bytes, |row, bytes| {
                if counts.is_null(row) {
                    return Ok(None);
                }
                let length = retained(bytes.len(), counts.value(row));
                let start = if self == Self::Left { 0 } else { bytes.len() - length };
                Ok(part(bytes, start..start + length))
            }),
            (Self::Substring | Self::Left | Self::Right, None) => exec_err!("a part of bytes without its length"),
        }
    }
}

fn part(bytes: &[u8], range: Range<usize>) -> Option<Cow<'_, [u8]>> {
    bytes.get(range).map(Cow::Borrowed)
}

/// Returns the range of `substr(x, from, count)` in a value of a length.
fn substring(length: usize, from: i64, count: Option<i64>) -> Result<Range<usize>> {
    if count.is_some_and(|count| count < 0) {
        return exec_err!("negative substring length not allowed: {}", count.unwrap_or_default());
    }
    let clamped = |position: i64| usize::try_from(position.max(0)).unwrap_or(usize::MAX).min(length);
    let first = from.saturating_sub(1);
    let start = clamped(first);
    let end = count.map_or(length, |count| clamped(first.saturating_add(count)));
    Ok(start..end.max(start))
}

/// Returns the number of bytes that `left` and `right` return. A negative count is the number of bytes to drop.
fn retained(length: usize, count: i64) -> usize {
    let bytes = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if count < 0 { length.saturating_sub(bytes) } else { length.min(bytes) }
}

fn lengths<O: OffsetSizeTrait>(bytes: &GenericBinaryArray<O>, unit: i64) -> ArrayRef {
    let length = |value: &[u8]| i64::try_from(value.len()).unwrap_or(i64::MAX).saturating_mul(unit);
    Arc::new(bytes.iter().map(|value| value.map(length)).collect::<Int64Array>())
}

fn positions<O: OffsetSizeTrait>(bytes: &GenericBinaryArray<O>, needles: &GenericBinaryArray<O>) -> ArrayRef {
    let position = |(bytes, needle): (Option<&[u8]>, Option<&[u8]>)| {
        let (bytes, needle) = (bytes?, needle?);
        let found = match needle.is_empty() {
            true => Some(0),
            false => bytes.windows(needle.len()).position(|part| part == needle),
        };
        Some(found.map_or(0, |index| i64::try_from(index).map_or(i64::MAX, |index| index + 1)))
    };
    Arc::new(bytes.iter().zip(needles.iter()).map(position).collect::<Int64Array>())
}

/// Concatenates the bytes of each row. A NULL adds nothing.
fn concatenated<O: OffsetSizeTrait>(arrays: &[ArrayRef]) -> ArrayRef {
    let arrays: Vec<_> = arrays.iter().map(|array| array.as_binary::<O>()).collect();
    let rows = arrays.first().map_or(0, |array| array.len());
    let mut result = GenericBinaryBuilder::<O>::new();
    let mut value = Vec::new();
    for row in 0..rows {
        value.clear();
        for array in arrays.iter().filter(|array| array.is_valid(row)) {
            value.extend_from_slice(array.value(row));
        }
        result.append_value(&value);
    }
    Arc::new(result.finish())
}

fn mapped<'a, O: OffsetSizeTrait>(
    bytes: &'a GenericBinaryArray<O>,
    map: impl Fn(usize, &'a [u8]) -> Result<Option<Cow<'a, [u8]>>>,
) -> Result<ArrayRef> {
    let mut result = GenericBinaryBuilder::<O>::new();
    for (row, value) in bytes.iter().enumerate() {
        match value {
            Some(value) => result.append_option(map(row, value)?),
            None => result.append_null(),
        }
    }
    Ok(Arc::new(result.finish()))
}
