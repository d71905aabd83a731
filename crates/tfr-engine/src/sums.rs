//! `sum` of integers and decimals, and `avg` of integers, in 128 bits.
//!
//! The engine's sums wrap around at the width of the value type: 64 bits for integers, 32 for the smallest decimals.
//! Its averages of integers are sums of doubles, whose last digits depend on the order of the rows. Here a sum that
//! exceeds its type is an error, and an average is the exact sum divided and rounded to the nearest double.

mod accumulators;

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

use accumulators::{DistinctSum, GroupSums, Sum};

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
enum ResultKind {
    Sum,
    Average,
}

/// The engine's `sum` or `avg`, except for integers and decimals.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ExactSum {
    inner: Arc<AggregateUDF>,
    signature: Signature,
    result: ResultKind,
}

impl ExactSum {
    /// Whether values of a type are summed here.
    fn sums(&self, data_type: &DataType) -> bool {
        let is_decimal =
            matches!(data_type, DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..));
        matches!(data_type, DataType::Int64 | DataType::UInt64) || is_decimal && self.result == ResultKind::Sum
    }

    fn sums_arguments(&self, args: &AccumulatorArgs<'_>) -> bool {
        args.expr_fields.first().is_some_and(|field| self.sums(field.data_type()))
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
                data_type if data_type.is_decimal() => data_type.clone(),
                DataType::Duration(_) => data_type.clone(),
                _ => return None,
            })
        }
        match arg_types {
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
        let result = SumType { result: self.result, data_type: args.return_type().clone() };
        Ok(if args.is_distinct { Box::new(DistinctSum::new(result)) } else { Box::new(Sum::new(result)) })
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if self.sums_arguments(&args) { self.accumulator(args) } else { self.inner.create_sliding_accumulator(args) }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        if self.sums_arguments(&args) { !args.is_distinct } else { self.inner.groups_accumulator_supported(args) }
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        if !self.sums_arguments(&args) {
            return self.inner.create_groups_accumulator(args);
        }
        let result = SumType { result: self.result, data_type: args.return_type().clone() };
        Ok(Box::new(GroupSums::new(result)))
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
}

impl SumType {
    /// Returns the results for sums and the numbers of their values. The sum of no values is NULL.
    fn results(&self, sums: Vec<i128>, counts: &[u64]) -> Result<ArrayRef> {
        let present = sums.into_iter().zip(counts).map(|(sum, &count)| (count > 0).then_some((sum, count)));
        if self.result == ResultKind::Average {
            return Ok(Arc::new(
                present.map(|sum| sum.map(|(sum, count)| average(sum, count))).collect::<Float64Array>(),
            ));
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
