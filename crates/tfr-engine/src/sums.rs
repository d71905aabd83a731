//! `sum` and `avg` of integers and decimals, in 128 bits.
//!
//! The engine's sums wrap around at the width of the value type: 64 bits for integers, 32 for the smallest decimals.
//! Its averages of integers are sums of doubles, whose last digits depend on the order of the rows. Here a sum that
//! exceeds its type is an error, and an average is the exact sum divided and rounded: to the nearest double for
//! integers, and to four digits more for decimals, as in Spark. The engine cuts after these.
//!
//! Sums and averages of doubles over moving frames are in [`moving`].
//!
//! Upstream: ours (a choice of meaning). Held by `tests/slt/answers.slt`: An average of integers is that of their exact sum, in whatever order they come.

mod accumulators;
mod moving;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, Float64Array, PrimitiveArray};
use arrow_schema::{DataType, Field, FieldRef};
use datafusion::arrow::datatypes::{Decimal32Type, Decimal64Type, Decimal128Type, DecimalType, Int64Type, UInt64Type};
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion_common::{DataFusionError, Result, exec_err, plan_err};
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, ReversedUDAF, SetMonotonicity,
    Signature, Volatility,
};

use crate::moving::Moving;
use crate::numbers::decimals::rounded_quotient;
use accumulators::{DistinctSum, GroupSums, Sum};
use moving::FloatSum;

/// Returns the aggregates to register in place of the engine's.
pub fn exact_sums() -> [Arc<AggregateUDF>; 2] {
    let sum = ExactSum { signature: sum_udaf().signature().clone(), inner: sum_udaf(), result: ResultKind::Sum };
    let average = Signature::user_defined(Volatility::Immutable);
    let average = ExactSum { signature: average, inner: avg_udaf(), result: ResultKind::Average };
    [sum, average].map(|aggregate| Arc::new(AggregateUDF::new_from_impl(aggregate)))
}

/// The type of sums in accumulator states.
const STATE: DataType = DataType::Decimal128(38, 0);

/// How an aggregate converts its sum to a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ResultKind {
    Sum,
    Average,
}

/// The engine's `sum` or `avg`, except for integers, decimals and moving frames.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ExactSum {
    inner: Arc<AggregateUDF>,
    signature: Signature,
    result: ResultKind,
}

impl ExactSum {
    /// Whether values of a type are summed here.
    fn sums(&self, data_type: &DataType) -> bool {
        matches!(
            data_type,
            DataType::Int64
                | DataType::UInt64
                | DataType::Decimal32(..)
                | DataType::Decimal64(..)
                | DataType::Decimal128(..)
        )
    }

    fn sums_arguments(&self, args: &AccumulatorArgs<'_>) -> bool {
        args.expr_fields.first().is_some_and(|field| self.sums(field.data_type()))
    }

    fn sum_type(&self, args: &AccumulatorArgs<'_>) -> SumType {
        let data_type = args.return_type().clone();
        let scale = |data_type: &DataType| match *data_type {
            DataType::Decimal128(_, scale) => scale,
            _ => 0,
        };
        let summed = args.expr_fields.first().map_or(0, |field| scale(field.data_type()));
        let more_digits = u32::try_from(scale(&data_type) - summed).unwrap_or(0);
        SumType { result: self.result, data_type, more_digits }
    }
}

impl AggregateUDFImpl for ExactSum {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The types of `avg`.
    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        fn summed(data_type: &DataType) -> Option<DataType> {
            Some(match data_type {
                DataType::Dictionary(_, values) => return summed(values),
                data_type if data_type.is_unsigned_integer() => DataType::UInt64,
                data_type if data_type.is_signed_integer() => DataType::Int64,
                data_type if data_type.is_floating() || data_type.is_null() => DataType::Float64,
                // The averages of shorter ones have no room for more digits.
                DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
                    DataType::Decimal128(*precision, *scale)
                }
                DataType::Decimal128(..) | DataType::Duration(_) => data_type.clone(),
                _ => return None,
            })
        }
        match arg_types {
            [DataType::Decimal256(..)] => plan_err!(
                "{} of decimals with more than 38 digits; CAST the argument AS DOUBLE or to DECIMAL(38, s)",
                self.name()
            ),
            [data_type] => match summed(data_type) {
                Some(summed) => Ok(vec![summed]),
                None => plan_err!("{} is for numbers and durations, not {data_type}", self.name()),
            },
            _ => plan_err!("{} takes one argument, not {}", self.name(), arg_types.len()),
        }
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        if !args.input_fields.first().is_some_and(|field| self.sums(field.data_type())) {
            return self.inner.state_fields(args);
        }
        let field = |name, data_type| Arc::new(Field::new(format_state_name(args.name, name), data_type, true));
        if args.is_distinct {
            return Ok(vec![field("values", DataType::new_list(STATE, true))]);
        }
        Ok(vec![field("sum", STATE), field("count", DataType::UInt64)])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if !self.sums_arguments(&args) {
            return self.inner.accumulator(args);
        }
        let result = self.sum_type(&args);
        Ok(if args.is_distinct { Box::new(DistinctSum::new(result)) } else { Box::new(Sum::new(result)) })
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match args.expr_fields {
            _ if self.sums_arguments(&args) => self.accumulator(args),
            [field] if *field.data_type() == DataType::Float64 && !args.is_distinct => {
                Ok(Box::new(Moving::<FloatSum>::new(self.result)))
            }
            _ => self.inner.create_sliding_accumulator(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        if self.sums_arguments(&args) { !args.is_distinct } else { self.inner.groups_accumulator_supported(args) }
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        if !self.sums_arguments(&args) {
            return self.inner.create_groups_accumulator(args);
        }
        Ok(Box::new(GroupSums::new(self.sum_type(&args))))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(data_type)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

/// The result of a sum.
#[derive(Debug, Clone)]
struct SumType {
    result: ResultKind,
    data_type: DataType,
    /// Digits after the point that an average of decimals has and its arguments do not have.
    more_digits: u32,
}

impl SumType {
    /// Returns the results for sums and the numbers of their values. The sum of no values is NULL.
    fn results(&self, sums: Vec<i128>, counts: &[u64]) -> Result<ArrayRef> {
        let present = sums.into_iter().zip(counts).map(|(sum, &count)| (count > 0).then_some((sum, count)));
        if self.result == ResultKind::Average {
            let DataType::Decimal128(precision, _) = self.data_type else {
                return Ok(Arc::new(
                    present.map(|sum| sum.map(|(sum, count)| average(sum, count))).collect::<Float64Array>(),
                ));
            };
            let averages = present.map(|sum| match sum {
                Some((sum, count)) => rounded_quotient(sum, count.into(), self.more_digits)
                    .map(Some)
                    .ok_or_else(|| average_out_of_range(&self.data_type)),
                None => Ok(None),
            });
            let averages = averages.collect::<Result<Vec<_>>>()?;
            return of_decimals::<Decimal128Type>(averages.into_iter(), &self.data_type, precision);
        }
        let sums = present.map(|sum| sum.map(|(sum, _)| sum));
        match self.data_type {
            DataType::Int64 => of_sums::<Int64Type>(sums, &self.data_type),
            DataType::UInt64 => of_sums::<UInt64Type>(sums, &self.data_type),
            DataType::Decimal32(precision, _) => of_decimals::<Decimal32Type>(sums, &self.data_type, precision),
            DataType::Decimal64(precision, _) => of_decimals::<Decimal64Type>(sums, &self.data_type, precision),
            DataType::Decimal128(precision, _) => of_decimals::<Decimal128Type>(sums, &self.data_type, precision),
            ref other => exec_err!("a sum of {other}"),
        }
    }
}

/// Returns the double nearest to a quotient.
#[expect(
    clippy::cast_precision_loss,
    reason = "the last bit of the quotient stands for all below it, so it is rounded once"
)]
pub(crate) fn average(sum: i128, count: u64) -> f64 {
    let magnitude = sum.unsigned_abs();
    if magnitude == 0 {
        return 0.0;
    }
    // With the dividend shifted to use all bits, the quotient has 64 or more.
    let shift = magnitude.leading_zeros();
    let (dividend, divisor) = (magnitude << shift, u128::from(count));
    let quotient = (dividend / divisor) | u128::from(dividend % divisor != 0);
    let average = quotient as f64 / 2.0_f64.powi(shift.cast_signed());
    if sum < 0 { -average } else { average }
}

fn of_sums<T: ArrowPrimitiveType<Native: TryFrom<i128>>>(
    sums: impl Iterator<Item = Option<i128>>,
    data_type: &DataType,
) -> Result<ArrayRef> {
    let sums = sums.map(|sum| sum.map(|sum| sum.try_into().map_err(|_| out_of_range(sum, data_type))).transpose());
    let sums = sums.collect::<Result<PrimitiveArray<T>>>()?;
    Ok(Arc::new(sums.with_data_type(data_type.clone())))
}

fn of_decimals<T: DecimalType<Native: TryFrom<i128>>>(
    sums: impl Iterator<Item = Option<i128>>,
    data_type: &DataType,
    precision: u8,
) -> Result<ArrayRef> {
    let largest = 10_i128.pow(u32::from(precision)) - 1;
    let checked = sums.map(|sum| match sum {
        Some(sum) if sum.unsigned_abs() > largest.unsigned_abs() => Err(out_of_range(sum, data_type)),
        sum => Ok(sum),
    });
    let checked = checked.collect::<Result<Vec<_>>>()?;
    of_sums::<T>(checked.into_iter(), data_type)
}

fn out_of_range(sum: i128, data_type: &DataType) -> DataFusionError {
    if data_type.is_integer() {
        return DataFusionError::Execution(format!(
            "the sum of integers is out of range: {sum} does not fit {data_type}; sum(CAST(... AS DECIMAL(38, 0))) has a wider range"
        ));
    }
    DataFusionError::Execution(format!(
        "the sum of decimals is out of range: it has more digits than {data_type}; sum(CAST(... AS DOUBLE)) has no such limit"
    ))
}

fn average_out_of_range(data_type: &DataType) -> DataFusionError {
    DataFusionError::Execution(format!(
        "the average of decimals is out of range: it has more digits than {data_type}; avg(CAST(... AS DOUBLE)) has no such limit"
    ))
}

/// Calls `add` with the row and the value of each row that is not null.
fn for_each_value(values: &ArrayRef, add: impl FnMut(usize, i128) -> Result<()>) -> Result<()> {
    fn of<T: ArrowPrimitiveType<Native: Into<i128>>>(
        values: &ArrayRef,
        mut add: impl FnMut(usize, i128) -> Result<()>,
    ) -> Result<()> {
        let values = values.as_primitive::<T>();
        if values.null_count() == 0 {
            return values.values().iter().enumerate().try_for_each(|(row, &value)| add(row, value.into()));
        }
        values.iter().enumerate().try_for_each(|(row, value)| value.map_or(Ok(()), |value| add(row, value.into())))
    }
    match values.data_type() {
        DataType::Int64 => of::<Int64Type>(values, add),
        DataType::UInt64 => of::<UInt64Type>(values, add),
        DataType::Decimal32(..) => of::<Decimal32Type>(values, add),
        DataType::Decimal64(..) => of::<Decimal64Type>(values, add),
        DataType::Decimal128(..) => of::<Decimal128Type>(values, add),
        other => exec_err!("a sum of {other}"),
    }
}

/// Adds a value to a sum.
fn added(sum: i128, value: i128) -> Result<i128> {
    sum.checked_add(value).ok_or_else(|| out_of_range(sum, &STATE))
}

/// Subtracts a value from a sum.
fn without(sum: i128, value: i128) -> Result<i128> {
    sum.checked_sub(value).ok_or_else(|| out_of_range(sum, &STATE))
}
