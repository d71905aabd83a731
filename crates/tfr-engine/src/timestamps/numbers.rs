//! Conversions between numbers and timestamps, and of texts to coarse timestamps.
//!
//! To the engine, a number that is cast to a timestamp counts seconds or nanoseconds, depending on its width, and a
//! timestamp that is cast to a number counts the unit in which it happens to be stored. Functions took NaN for 1970 and
//! great numbers for the year 2262, and rounded times before 1970 up.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::compute::{CastOptions, cast};
use arrow::datatypes::Float64Type;
use arrow_schema::{DataType, FieldRef, TimeUnit};
use datafusion::functions::core::{arrow_cast, arrow_try_cast};
use datafusion::functions::datetime;
use datafusion::functions::math::floor;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::Transformed;
use datafusion_common::utils::take_function_args;
use datafusion_common::{DFSchema, Result, exec_err, internal_err, plan_err};
use datafusion_expr::expr::{Cast, ScalarFunction, TryCast};
use datafusion_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion_expr::{
    ColumnarValue, Documentation, Expr, ExprSchemable as _, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, lit,
};
use tfr_arrow::nested::{item, value_type};

use super::date_trunc;
use crate::expressions::shown;

/// Returns the functions that sessions must register.
pub(super) fn functions() -> [Arc<ScalarUDF>; 3] {
    [
        Arc::new(ScalarUDF::from(InNanoseconds::default())),
        Arc::new(ScalarUDF::from(ArrowCast { engines: arrow_cast(), is_safe: false })),
        Arc::new(ScalarUDF::from(ArrowCast { engines: arrow_try_cast(), is_safe: true })),
    ]
}

/// Which kind of cast an operand is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CastKind {
    Cast,
    TryCast,
}

/// Returns the operand for a cast, as written in the query, to `target`. Integers that are cast to timestamps count
/// seconds. Other casts between numbers and times are refused.
pub(super) fn operand_of_cast(
    expr: Expr,
    target: &DataType,
    kind: CastKind,
    schema: &DFSchema,
) -> Result<Transformed<Expr>> {
    let Ok(source) = expr.get_type(schema) else { return Ok(Transformed::no(expr)) };
    if !is_number_and_time(&source, target) {
        return Ok(Transformed::no(expr));
    }
    let shown = shown(&expr);
    match (value_type(&source), target) {
        (number, DataType::Timestamp(TimeUnit::Second, _)) if number.is_integer() => Ok(Transformed::no(expr)),
        (number, DataType::Timestamp(TimeUnit::Nanosecond, zone)) if number.is_integer() => {
            let seconds = DataType::Timestamp(TimeUnit::Second, zone.clone());
            let expr = Box::new(expr);
            Ok(Transformed::yes(match kind {
                CastKind::Cast => Expr::Cast(Cast::new(expr, seconds)),
                CastKind::TryCast => Expr::TryCast(TryCast::new(expr, seconds)),
            }))
        }
        (number, DataType::Timestamp(unit, _)) if number.is_integer() => {
            let function = if *unit == TimeUnit::Millisecond { "to_timestamp_millis" } else { "to_timestamp_micros" };
            plan_err!("a CAST of the number {shown} to {target} has no unit: write {function}({shown})")
        }
        (number, DataType::Timestamp(..)) if number.is_numeric() => {
            plan_err!("a CAST of {shown}, a {number}, to a timestamp is not supported: write to_timestamp({shown})")
        }
        (nested, _) if nested.is_nested() => plan_err!(
            "a CAST of {shown}, a {source}, to {target} has no unit: write arrow_cast({shown}, '{target}') for the \
             stored numbers"
        ),
        (number, _) if number.is_numeric() => plan_err!(
            "a CAST of the number {shown} to {target} has no unit: write make_time or a literal, or \
             arrow_cast({shown}, '{target}') for the stored number"
        ),
        (DataType::Date64, _) => {
            plan_err!("a CAST of {shown}, a {source}, to a number is not supported: write CAST({shown} AS DATE) first")
        }
        _ => plan_err!(
            "a CAST of {shown}, a {source}, to a number depends on the unit in which it is stored: write \
             extract(epoch FROM {shown}) for its seconds, or arrow_cast({shown}, 'Int64') for the stored number"
        ),
    }
}

/// Whether a cast converts numbers to times or times to numbers, at any depth.
fn is_number_and_time(source: &DataType, target: &DataType) -> bool {
    let is_time = |data_type: &DataType| {
        use DataType::{Date64, Duration, Time32, Time64, Timestamp};
        matches!(data_type, Timestamp(..) | Time32(_) | Time64(_) | Duration(_) | Date64)
    };
    let (source, target) = (value_type(source), value_type(target));
    match (source, target) {
        (DataType::Struct(from), DataType::Struct(to)) => from.iter().zip(to).any(|(by_place, field)| {
            // Fields are matched by name, otherwise by position.
            let source = from.find(field.name()).map_or(by_place, |(_, source)| source);
            is_number_and_time(source.data_type(), field.data_type())
        }),
        (DataType::Map(source, _), DataType::Map(target, _)) => {
            is_number_and_time(source.data_type(), target.data_type())
        }
        _ => match (item(source), item(target)) {
            (Some(source), Some(target)) => is_number_and_time(source.data_type(), target.data_type()),
            (None, Some(target)) => is_number_and_time(source, target.data_type()),
            _ => source.is_numeric() && is_time(target) || is_time(source) && target.is_numeric(),
        },
    }
}

/// Rewrites a call of a function that converts values to timestamps or to seconds, so that it rounds down, and
/// represents each number or causes an error.
pub(super) fn exact_conversion(
    call: ScalarFunction,
    schema: &DFSchema,
    config: &ConfigOptions,
) -> Result<Transformed<Expr>> {
    if let ("to_date" | "to_time", [value, _, ..]) = (call.func.name(), call.args.as_slice()) {
        check_formatted(call.func.name(), &value.get_type(schema)?)?;
    }
    let period = match call.func.name() {
        "to_timestamp" => None,
        "to_unixtime" | "to_timestamp_seconds" => Some("second"),
        "to_timestamp_millis" => Some("millisecond"),
        "to_timestamp_micros" => Some("microsecond"),
        "to_timestamp_nanos" => Some("nanosecond"),
        _ => return Ok(Transformed::no(Expr::ScalarFunction(call))),
    };
    let ScalarFunction { func, mut args } = call;
    let Some(Ok(source)) = args.first().map(|value| value.get_type(schema)) else {
        return Ok(Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args })));
    };
    if args.len() > 1 {
        check_formatted(func.name(), &source)?;
    }
    let is_unixtime = func.name() == "to_unixtime";
    let exact = match (&source, period) {
        (DataType::Float16 | DataType::Float32 | DataType::Float64, None) => {
            Some(vec![ScalarUDF::from(InNanoseconds::default()).call(vec![std::mem::take(&mut args[0])])])
        }
        (number, Some(_)) if number.is_floating() || number.is_decimal() => {
            Some(vec![floor().call(vec![std::mem::take(&mut args[0])])])
        }
        // The engine's function parses texts in nanoseconds, and rounds these toward 1970.
        (text, Some(period)) if text.is_string() && period != "nanosecond" => {
            let time = datetime::to_timestamp_nanos(config).call(std::mem::take(&mut args));
            Some(vec![date_trunc().call(vec![lit(period), time])])
        }
        (DataType::Timestamp(unit, _), Some(period)) if is_unixtime && *unit > TimeUnit::Second => {
            Some(vec![date_trunc().call(vec![lit(period), std::mem::take(&mut args[0])])])
        }
        _ => None,
    };
    Ok(match exact {
        Some(args) => Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args })),
        None => Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args })),
    })
}

/// Rejects a format for values that are no texts: the engine ignores it, and `to_date(20240131, '%Y%m%d')` was a day in the
/// year 57387.
fn check_formatted(name: &str, source: &DataType) -> Result<()> {
    let source = value_type(source);
    match source.is_string() || source.is_null() {
        true => Ok(()),
        false => plan_err!("{name} with a format takes a text, not {source}; write {name}(CAST(x AS VARCHAR), '...')"),
    }
}

/// Returns a number of seconds unchanged, if nanoseconds can represent it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct InNanoseconds(Signature);

impl Default for InNanoseconds {
    fn default() -> Self {
        Self(Signature::any(1, Volatility::Immutable))
    }
}

impl ScalarUDFImpl for InNanoseconds {
    fn name(&self) -> &str {
        "in_nanoseconds"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [seconds] = take_function_args(self.name(), types)?;
        Ok(seconds.clone())
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [seconds] = take_function_args(self.name(), args.args)?;
        let array: ArrayRef = match &seconds {
            ColumnarValue::Array(array) => Arc::clone(array),
            ColumnarValue::Scalar(scalar) => scalar.to_array()?,
        };
        let numbers = cast(&array, &DataType::Float64)?;
        // The least and the greatest 64-bit integer, as nanoseconds.
        let range = -9_223_372_036.854_775..=9_223_372_036.854_775;
        match numbers.as_primitive::<Float64Type>().iter().flatten().find(|seconds| !range.contains(seconds)) {
            Some(seconds) => exec_err!(
                "to_timestamp: {seconds} seconds are out of the range of nanoseconds, 1677-09-21 to 2262-04-11: \
                 write to_timestamp_seconds or to_timestamp_micros"
            ),
            None => Ok(seconds),
        }
    }
}

/// `arrow_cast` and `arrow_try_cast`. The engine replaces them by casts, which mean something else between numbers and
/// times: these functions convert the stored number.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ArrowCast {
    engines: Arc<ScalarUDF>,
    /// Whether a value that cannot be converted becomes NULL.
    is_safe: bool,
}

impl ScalarUDFImpl for ArrowCast {
    fn name(&self) -> &str {
        self.engines.name()
    }

    fn signature(&self) -> &Signature {
        self.engines.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.engines.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.engines.return_field_from_args(args)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let [value, target] = args.as_slice() else { return internal_err!("{} takes two arguments", self.name()) };
        let target = match target {
            Expr::Literal(target, _) => target.try_as_str().flatten().and_then(|target| target.parse().ok()),
            _ => None,
        };
        match target {
            Some(target) if is_number_and_time(&info.get_data_type(value)?, &target) => {
                Ok(ExprSimplifyResult::Original(args))
            }
            _ => self.engines.simplify(args, info),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let target = args.return_type().clone();
        let [value, _] = take_function_args(self.name(), args.args)?;
        let options = CastOptions { safe: self.is_safe, ..CastOptions::default() };
        value.cast_to(&target, Some(&options))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.engines.documentation()
    }
}
