//! [`BoundedFunction`]: limits the size of function results that may be far longer than their arguments.
//!
//! `repeat('x', 2100000000)` took 8 GB, even as a constant that planning computes.

use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use ::regex::Regex;
use arrow::array::{Array as _, ArrayRef, AsArray as _, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Date32Type, Int64Type, IntervalMonthDayNanoType, TimeUnit, TimestampNanosecondType};
use arrow_schema::FieldRef;
use datafusion::functions::{regex, string, unicode};
use datafusion::functions_nested::{range, resize};
use datafusion_common::{DataFusionError, Result};
use datafusion_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use tfr_arrow::nested::{Lists, value_type};

use super::size::RowSizes;
use crate::lists::{range_function, repeat_function};

const NANOS_OF_DAY: i64 = 86_400_000_000_000;

/// Bytes up to which a result is only estimated: counting the matches costs about as much as replacing them.
const NOT_COUNTED: u64 = 1 << 20;

/// The bytes of a view of a text.
const VIEW_BYTES: u64 = 16;

/// The minimum number of days in a month.
const DAYS_OF_MONTH: i64 = 28;

/// Returns the functions, with results of at most a quarter of `limit` bytes in a row and in a batch, and an eighth as
/// constants.
pub(super) fn bounded(limit: u64) -> Vec<Arc<ScalarUDF>> {
    [
        (string::repeat(), Growth::Repeat),
        (string::replace(), Growth::Replace),
        (regex::regexp_replace(), Growth::ReplaceMatches),
        (unicode::lpad(), Growth::Pad),
        (unicode::rpad(), Growth::Pad),
        (repeat_function(), Growth::RepeatItem),
        (resize::array_resize_udf(), Growth::Resize),
        (range_function(), Growth::Series),
        (range::gen_series_udf(), Growth::Series),
    ]
    .into_iter()
    .map(|(function, growth)| Arc::new(ScalarUDF::new_from_impl(BoundedFunction { function, growth, limit })))
    .collect()
}

/// Functions whose results are about as long as their arguments together, and how many times as long at most. A batch of
/// arguments may share one long text.
const JOINING: [(&str, Growth); 9] = [
    ("array_concat", Growth::Join { times: 1 }),
    ("array_to_string", Growth::JoinItems),
    ("concat", Growth::Join { times: 1 }),
    ("concat_ws", Growth::JoinWith),
    // As hexadecimal digits.
    ("encode", Growth::Join { times: 2 }),
    ("overlay", Growth::Join { times: 1 }),
    ("reverse", Growth::Join { times: 1 }),
    ("string_to_array", Growth::Split),
    // From a character of one byte to one of four.
    ("translate", Growth::Join { times: 4 }),
];

/// Returns those functions, as they are registered, with the same bounds.
pub(super) fn bounded_joining(limit: u64, registered: &[Arc<ScalarUDF>]) -> Vec<Arc<ScalarUDF>> {
    let bounded = |(name, growth): (&str, Growth)| {
        let function = Arc::clone(registered.iter().rfind(|function| function.name() == name)?);
        Some(Arc::new(ScalarUDF::new_from_impl(BoundedFunction { function, growth, limit })))
    };
    JOINING.into_iter().filter_map(bounded).collect()
}

/// Returns the functions that accept negative lengths, without a bound.
pub fn padding() -> [Arc<ScalarUDF>; 2] {
    [unicode::lpad(), unicode::rpad()].map(|function| {
        Arc::new(ScalarUDF::new_from_impl(BoundedFunction { function, growth: Growth::Pad, limit: u64::MAX }))
    })
}

/// A result that was rejected before it was allocated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultTooLarge {
    function: String,
    found: Found,
    bytes: u64,
    /// The memory limit.
    limit: u64,
}

/// Where a result was too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// In a row of the batch.
    Row(usize),
    /// In so many rows together.
    Rows(usize),
    /// In a call whose arguments are constants. Planning copies its result several times.
    Constant,
    /// In all constants of a query together.
    Constants,
    /// In a value of an aggregate.
    Value,
    /// In values that rows of a sort share.
    Sorted,
}

impl ResultTooLarge {
    pub(super) fn new(function: &str, found: Found, bytes: u64, limit: u64) -> Self {
        Self { function: function.to_owned(), found, bytes, limit }
    }
}

impl std::fmt::Display for ResultTooLarge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { function, found, bytes, limit } = self;
        match found {
            Found::Row(row) => write!(f, "the result of {function} in row {row} takes")?,
            Found::Rows(rows) => write!(f, "the results of {function} in {rows} rows take")?,
            Found::Constant => write!(f, "the constant result of {function} takes")?,
            Found::Constants => f.write_str("the constants of the query take")?,
            Found::Value => write!(f, "the result of {function} takes")?,
            Found::Sorted => f.write_str("the values that rows of a sort share take")?,
        }
        let share = match found {
            Found::Row(_) | Found::Rows(_) | Found::Value => "a quarter of ",
            Found::Constant | Found::Constants => "an eighth of ",
            Found::Sorted => "",
        };
        write!(f, " {bytes} bytes, more than {share}the memory limit of {limit} bytes")
    }
}

impl std::error::Error for ResultTooLarge {}

impl From<ResultTooLarge> for DataFusionError {
    fn from(error: ResultTooLarge) -> Self {
        Self::External(Box::new(error))
    }
}

/// How the length of a result depends on the arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Growth {
    /// Repeats the first argument; the second is the count.
    Repeat,
    /// A list that repeats the first argument; the second is the count.
    RepeatItem,
    /// Replaces the second argument by the third in the first.
    Replace,
    /// Replaces matches of the second argument by the third in the first.
    ReplaceMatches,
    /// Pads to the number of characters in the second argument.
    Pad,
    /// Resizes to the number of items in the second argument.
    Resize,
    /// Numbers or times from the first argument to the second, with the third as step.
    Series,
    /// Joins all arguments, and writes each byte as at most so many.
    Join {
        /// The number of bytes.
        times: u64,
    },
    /// Joins all arguments but the first, with the first between them.
    JoinWith,
    /// Joins the items of the first argument as text, with the second between them.
    JoinItems,
    /// Splits the first argument at the second into a list.
    Split,
}

impl Growth {
    /// Whether the result in a row is null.
    fn is_null(self, args: &[Column], row: usize) -> bool {
        match self {
            Self::RepeatItem | Self::Resize => args.get(1).is_some_and(|count| count.is_null(row)),
            Self::Join { .. } | Self::JoinWith => false,
            Self::JoinItems | Self::Split => args.first().is_none_or(|arg| arg.is_null(row)),
            Self::Repeat | Self::Replace | Self::ReplaceMatches | Self::Pad | Self::Series => {
                args.iter().any(|arg| arg.is_null(row))
            }
        }
    }
}

/// A function of the engine that rejects results beyond a bound.
#[derive(Debug)]
pub struct BoundedFunction {
    function: Arc<ScalarUDF>,
    growth: Growth,
    limit: u64,
}

impl PartialEq for BoundedFunction {
    fn eq(&self, other: &Self) -> bool {
        self.function == other.function && self.limit == other.limit
    }
}

impl Eq for BoundedFunction {}

impl Hash for BoundedFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.function.hash(state);
    }
}

impl ScalarUDFImpl for BoundedFunction {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
    }

    fn signature(&self) -> &Signature {
        self.function.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.function.return_type(arg_types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.function.return_field_from_args(args)
    }

    fn is_strict(&self) -> bool {
        self.function.is_strict()
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.function.coerce_types(arg_types)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.function.documentation()
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.check(&args)?;
        // The engine treats a negative length as an enormous one.
        if self.growth == Growth::Pad
            && let Some(ColumnarValue::Array(lengths)) = args.args.get_mut(1)
        {
            let numbers = cast(lengths, &DataType::Int64)?;
            let numbers = numbers.as_primitive::<Int64Type>().unary::<_, Int64Type>(|length| length.max(0));
            *lengths = cast(&numbers, lengths.data_type())?;
        }
        self.function.invoke_with_args(args)
    }
}

impl BoundedFunction {
    fn check(&self, args: &ScalarFunctionArgs) -> Result<()> {
        let columns = args.args.iter().map(Column::of).collect::<Result<Vec<_>>>()?;
        // For constant arguments, the result is computed once.
        let is_constant = columns.iter().all(|column| column.is_constant);
        let rows = if is_constant { 1 } else { args.number_rows };
        let lengths = Lengths::try_new(self.growth, &columns)?;
        let share = self.limit / if is_constant { 8 } else { 4 };
        let refuse = |found, bytes| Err(ResultTooLarge::new(self.name(), found, bytes, self.limit).into());
        let mut total = 0_u64;
        for row in 0..rows {
            if self.growth.is_null(&columns, row) {
                continue;
            }
            let bytes = lengths.row(row);
            if bytes > share {
                return refuse(if is_constant { Found::Constant } else { Found::Row(row) }, bytes);
            }
            total = total.saturating_add(bytes);
        }
        if total > share { refuse(Found::Rows(rows), total) } else { Ok(()) }
    }
}

/// An argument.
struct Column {
    array: ArrayRef,
    is_constant: bool,
}

impl Column {
    fn of(value: &ColumnarValue) -> Result<Self> {
        Ok(match value {
            ColumnarValue::Array(array) => Self { array: Arc::clone(array), is_constant: false },
            ColumnarValue::Scalar(scalar) => Self { array: scalar.to_array()?, is_constant: true },
        })
    }

    fn at(&self, row: usize) -> usize {
        if self.is_constant { 0 } else { row }
    }

    fn is_null(&self, row: usize) -> bool {
        self.array.is_null(self.at(row))
    }

    fn as_type(&self, data_type: &DataType) -> Result<Self> {
        Ok(Self { array: cast(&self.array, data_type)?, is_constant: self.is_constant })
    }

    fn numbers(&self) -> Result<(Int64Array, bool)> {
        let cast = self.as_type(&DataType::Int64)?;
        Ok((cast.array.as_primitive::<Int64Type>().clone(), self.is_constant))
    }
}

/// The lengths of results.
struct Lengths<'a>(Box<dyn Fn(usize) -> u64 + 'a>);

impl<'a> Lengths<'a> {
    fn try_new(growth: Growth, args: &'a [Column]) -> Result<Self> {
        let sizes = |index: usize| {
            let column: &'a Column = &args[index];
            let sizes = RowSizes::of(column.array.as_ref());
            move |row: usize| sizes.row(column.at(row))
        };
        let count = |index: usize| -> Result<_> {
            let (numbers, is_constant) = args[index].numbers()?;
            Ok(move |row: usize| u64::try_from(numbers.value(if is_constant { 0 } else { row })).unwrap_or_default())
        };
        Ok(Self(match (growth, args.len()) {
            (Growth::Repeat, 2..) => {
                let (size, count) = (sizes(0), count(1)?);
                Box::new(move |row| size(row).saturating_mul(count(row)))
            }
            (Growth::RepeatItem, 2..) => {
                let (size, count) = (sizes(0), count(1)?);
                Box::new(move |row| size(row).max(1).saturating_mul(count(row)))
            }
            (Growth::Pad, 2..) => {
                let count = count(1)?;
                // A character has at most as many bytes as the whole padding text.
                let width = args.get(2).map(|_| sizes(2));
                Box::new(move |row| {
                    let width = width.as_ref().map_or(1, |width| width(row).clamp(1, 4));
                    count(row).saturating_mul(width)
                })
            }
            (Growth::Resize, 2..) => {
                let count = count(1)?;
                let item = args.get(2).map(|_| sizes(2));
                Box::new(move |row| count(row).saturating_mul(item.as_ref().map_or(1, |item| item(row).max(1))))
            }
            (Growth::Replace, 3..) => {
                let texts = args.iter().map(|arg| arg.as_type(&DataType::LargeUtf8)).collect::<Result<Vec<_>>>()?;
                Box::new(move |row| replaced(&texts, row))
            }
            (Growth::ReplaceMatches, 3..) => {
                let texts = args.iter().map(|arg| arg.as_type(&DataType::LargeUtf8)).collect::<Result<Vec<_>>>()?;
                let patterns = Patterns::default();
                Box::new(move |row| patterns.replaced(&texts, row))
            }
            (Growth::Series, 2..) => series(args)?,
            (Growth::Series, 1) => {
                let count = count(0)?;
                Box::new(move |row| count(row).saturating_mul(8))
            }
            (Growth::Join { times }, 1..) => {
                let sizes: Vec<_> = (0..args.len()).map(sizes).collect();
                Box::new(move |row| sum(sizes.iter().map(|size| size(row))).saturating_mul(times))
            }
            (Growth::JoinWith, 2..) => {
                let (between, joined) = (sizes(0), (1..args.len()).map(sizes).collect::<Vec<_>>());
                let times = joined.len() as u64;
                Box::new(move |row| {
                    let all = sum(joined.iter().map(|size| size(row)));
                    all.saturating_add(between(row).saturating_mul(times))
                })
            }
            (Growth::JoinItems, 2..) => joined_items(args)?,
            (Growth::Split, 2..) => {
                let texts =
                    args.iter().take(2).map(|arg| arg.as_type(&DataType::LargeUtf8)).collect::<Result<Vec<_>>>()?;
                Box::new(move |row| split(&texts, row))
            }
            // The engine reports the error in the call.
            _ => Box::new(|_| 0),
        }))
    }

    fn row(&self, row: usize) -> u64 {
        (self.0)(row)
    }
}

/// Returns the bytes of lists as texts. The items themselves have at most five times their bytes, as `false` has.
fn joined_items(args: &[Column]) -> Result<Box<dyn Fn(usize) -> u64 + '_>> {
    let Some(lists) = Lists::of(args[0].array.as_ref()) else { return Ok(Box::new(|_| 0)) };
    let is_text =
        matches!(value_type(lists.items().data_type()), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let times = if is_text { 1 } else { 5 };
    let sizes = RowSizes::of(args[0].array.as_ref());
    let added = args[1..].iter().map(|arg| arg.as_type(&DataType::LargeUtf8)).collect::<Result<Vec<_>>>()?;
    Ok(Box::new(move |row| {
        // The separator, and the text in place of nulls.
        let added = sum((0..added.len()).map(|index| match added[index].is_null(row) {
            true => 0,
            false => text_at(&added, index, row).len() as u64,
        }));
        let row = args[0].at(row);
        let items = sizes.row(row).saturating_mul(times);
        items.saturating_add((lists.range(row).len() as u64).saturating_mul(added))
    }))
}

/// Returns the bytes of a text that is split, where each item is a view. Without a separator, it is split into characters.
fn split(texts: &[Column], row: usize) -> u64 {
    let text = text_at(texts, 0, row);
    let separator = if texts[1].is_null(row) { "" } else { text_at(texts, 1, row) };
    let len = text.len() as u64;
    let most = if separator.is_empty() { len } else { len / separator.len() as u64 };
    let counts = separator.is_empty() || most.saturating_mul(VIEW_BYTES) < NOT_COUNTED;
    let items = if counts { most } else { text.matches(separator).count() as u64 };
    len.saturating_add(items.saturating_add(1).saturating_mul(VIEW_BYTES))
}

fn sum(sizes: impl Iterator<Item = u64>) -> u64 {
    sizes.fold(0, u64::saturating_add)
}

/// Returns the text of an argument in a row.
fn text_at(texts: &[Column], index: usize, row: usize) -> &str {
    texts[index].array.as_string::<i64>().value(texts[index].at(row))
}

fn replaced(texts: &[Column], row: usize) -> u64 {
    let [text, from, to] = [0, 1, 2].map(|index| text_at(texts, index, row));
    let most = (text.len() / from.len().max(1) + 1) as u64;
    let added = (to.len() as u64).saturating_sub(from.len() as u64);
    let times = if most.saturating_mul(added) < NOT_COUNTED { most } else { text.matches(from).count() as u64 };
    (text.len() as u64).saturating_add(times.saturating_mul(added))
}

/// Caches the compiled pattern of the last row: usually all rows have the same.
#[derive(Default)]
struct Patterns(RefCell<Option<(String, Option<Regex>)>>);

impl Patterns {
    /// Returns the maximum bytes of the text with its matches replaced.
    fn replaced(&self, texts: &[Column], row: usize) -> u64 {
        let [text, pattern, to] = [0, 1, 2].map(|index| text_at(texts, index, row));
        let flags = if texts.len() > 3 { text_at(texts, 3, row) } else { "" };
        let (text_len, to_len) = (text.len() as u64, to.len() as u64);
        let most = if flags.contains('g') { text_len + 1 } else { 1 };
        let times =
            if most.saturating_mul(to_len) < NOT_COUNTED { most } else { self.matches(text, pattern, flags).min(most) };
        // A reference to a group inserts a part of the match, and matches do not overlap.
        let groups = to.bytes().filter(|byte| matches!(byte, b'\\' | b'$')).count() as u64;
        text_len.saturating_mul(groups + 1).saturating_add(times.saturating_mul(to_len))
    }

    fn matches(&self, text: &str, pattern: &str, flags: &str) -> u64 {
        let flags: String = flags.chars().filter(|flag| *flag != 'g').collect();
        let pattern = if flags.is_empty() { pattern.to_owned() } else { format!("(?{flags}){pattern}") };
        let mut last = self.0.borrow_mut();
        let (_, regex) = match last.take() {
            Some(cached) if cached.0 == pattern => last.insert(cached),
            _ => {
                let regex = Regex::new(&pattern).ok();
                last.insert((pattern, regex))
            }
        };
        // The engine reports the error in the pattern.
        regex.as_ref().map_or(0, |regex| regex.find_iter(text).count() as u64)
    }
}

fn series<'a>(args: &'a [Column]) -> Result<Box<dyn Fn(usize) -> u64 + 'a>> {
    let at = |values: Int64Array, is_constant: bool| move |row: usize| values.value(if is_constant { 0 } else { row });
    // Dates are counted in days: in nanoseconds most of them do not fit.
    let is_date = matches!(args[0].array.data_type(), DataType::Date32 | DataType::Date64);
    let unit: u128 = if is_date { NANOS_OF_DAY.unsigned_abs().into() } else { 1 };
    let bound = |index: usize| -> Result<_> {
        let numbers = match args[index].array.data_type() {
            DataType::Date32 | DataType::Date64 => {
                args[index].as_type(&DataType::Date32)?.array.as_primitive::<Date32Type>().unary(i64::from)
            }
            DataType::Timestamp(..) => args[index]
                .as_type(&DataType::Timestamp(TimeUnit::Nanosecond, None))?
                .array
                .as_primitive::<TimestampNanosecondType>()
                .unary(|nanos| nanos),
            _ => args[index].numbers()?.0,
        };
        Ok(at(numbers, args[index].is_constant))
    };
    let (start, stop) = (bound(0)?, bound(1)?);
    let step: Box<dyn Fn(usize) -> i64 + 'a> = match args.get(2) {
        None => Box::new(|_| 1),
        Some(step) => match step.array.data_type() {
            DataType::Interval(_) => {
                let intervals = step.array.as_primitive::<IntervalMonthDayNanoType>().clone();
                let step = intervals.unary::<_, Int64Type>(|step| {
                    let days = i64::from(step.months) * DAYS_OF_MONTH + i64::from(step.days);
                    days.saturating_mul(NANOS_OF_DAY).saturating_add(step.nanoseconds)
                });
                Box::new(at(step, args[2].is_constant))
            }
            _ => {
                let (step, is_constant) = step.numbers()?;
                Box::new(at(step, is_constant))
            }
        },
    };
    Ok(Box::new(move |row| {
        let (start, stop, step) = (start(row), stop(row), step(row));
        let goes_there = if step < 0 { start >= stop } else { start <= stop };
        // The engine rejects steps of 0.
        match goes_there && step != 0 {
            true => {
                let steps = u128::from(start.abs_diff(stop)) * unit / u128::from(step.unsigned_abs());
                u64::try_from(steps).unwrap_or(u64::MAX).saturating_add(1).saturating_mul(8)
            }
            false => 0,
        }
    }))
}

#[cfg(test)]
mod tests;
