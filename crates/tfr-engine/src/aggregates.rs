//! Aggregates that are computed over another type, where the engine's results are wrong.
//!
//! * `min` and `max` of floating-point numbers: NaN is greater than all other numbers. The engine's results depended on
//!   the order of the rows in a group, and on whether file statistics, which omit NaN, were used.
//! * `min` and `max` of intervals: the shortest and the longest. The engine compared their months first.
//!
//! Upstream: ours (a choice of meaning). Held by `tests/slt/answers.slt`: 0 is -0; NaN is NaN, and greater than all others.

use std::mem::size_of_val;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryArray, BooleanArray, IntervalMonthDayNanoArray};
use arrow_schema::{DataType, FieldRef, IntervalUnit};
use datafusion::arrow::datatypes::{
    Float16Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType,
};
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::CastExpr;
use datafusion_common::{Result, ScalarValue, internal_datafusion_err, internal_err};
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::utils::AggregateOrderSensitivity;
use datafusion_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity, Signature, StatisticsArgs,
};

use crate::comparable::values::{comparable_array, length};

/// Returns the aggregates to register in place of the engine's.
pub fn exact_aggregates() -> Vec<Arc<AggregateUDF>> {
    [min_udaf(), max_udaf()].map(|inner| Arc::new(AggregateUDF::new_from_impl(ExactAggregate { inner }))).to_vec()
}

/// Returns the `min` of [`exact_aggregates`].
pub fn exact_min() -> AggregateUDF {
    AggregateUDF::new_from_impl(ExactAggregate { inner: min_udaf() })
}

/// An aggregate of the engine that is computed over converted values for some argument types.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ExactAggregate {
    inner: Arc<AggregateUDF>,
}

/// A conversion of the values.
#[derive(Debug, Clone, PartialEq)]
struct Representation {
    /// The type of the argument.
    of: DataType,
    /// The type that the aggregate is computed in.
    by: DataType,
}

impl ExactAggregate {
    fn representation(&self, data_type: &DataType) -> Option<Representation> {
        let by = match data_type {
            DataType::Float64 => DataType::Int64,
            DataType::Float32 => DataType::Int32,
            DataType::Float16 => DataType::Int16,
            DataType::Interval(IntervalUnit::MonthDayNano) => DataType::Binary,
            _ => return None,
        };
        Some(Representation { of: data_type.clone(), by })
    }

    /// Calls `make` with arguments of the type that the aggregate is computed in.
    fn with_args<T>(
        args: &AccumulatorArgs<'_>,
        representation: &Representation,
        make: impl FnOnce(AccumulatorArgs<'_>) -> Result<T>,
    ) -> Result<T> {
        let exprs: Vec<Arc<dyn PhysicalExpr>> = args
            .exprs
            .iter()
            .map(|expr| Arc::new(CastExpr::new(Arc::clone(expr), representation.by.clone(), None)) as _)
            .collect();
        let typed = |field: &FieldRef| Arc::new(field.as_ref().clone().with_data_type(representation.by.clone()));
        let expr_fields: Vec<FieldRef> = args.expr_fields.iter().map(typed).collect();
        make(AccumulatorArgs {
            return_field: typed(&args.return_field),
            schema: args.schema,
            ignore_nulls: args.ignore_nulls,
            order_bys: args.order_bys,
            is_reversed: args.is_reversed,
            name: args.name,
            is_distinct: args.is_distinct,
            exprs: &exprs,
            expr_fields: &expr_fields,
        })
    }
}

impl AggregateUDFImpl for ExactAggregate {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arg_types)
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let Some(representation) = self.representation(args.return_type()) else {
            return self.inner.state_fields(args);
        };
        let typed = |field: &FieldRef| Arc::new(field.as_ref().clone().with_data_type(representation.by.clone()));
        let input_fields: Vec<FieldRef> = args.input_fields.iter().map(typed).collect();
        self.inner.state_fields(StateFieldsArgs {
            return_field: typed(&args.return_field),
            input_fields: &input_fields,
            name: args.name,
            ordering_fields: args.ordering_fields,
            is_distinct: args.is_distinct,
        })
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match self.representation(args.return_type()) {
            Some(representation) => {
                let inner = Self::with_args(&args, &representation, |args| self.inner.accumulator(args))?;
                Ok(Box::new(Represented { inner, representation }))
            }
            None => self.inner.accumulator(args),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match self.representation(args.return_type()) {
            Some(representation) => {
                let inner =
                    Self::with_args(&args, &representation, |args| self.inner.create_sliding_accumulator(args))?;
                Ok(Box::new(Represented { inner, representation }))
            }
            None => self.inner.create_sliding_accumulator(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        match self.representation(args.return_type()) {
            Some(representation) => {
                let inner = Self::with_args(&args, &representation, |args| self.inner.create_groups_accumulator(args))?;
                Ok(Box::new(RepresentedGroups { inner, representation }))
            }
            None => self.inner.create_groups_accumulator(args),
        }
    }

    fn value_from_stats(&self, args: &StatisticsArgs) -> Option<ScalarValue> {
        match self.representation(args.return_type) {
            Some(_) => None,
            None => self.inner.value_from_stats(args),
        }
    }

    fn is_descending(&self) -> Option<bool> {
        self.inner.is_descending()
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

impl Representation {
    /// Converts values to the type that the aggregate is computed in.
    fn represent(&self, values: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
        values.iter().map(|values| self.represent_one(values)).collect()
    }

    fn represent_one(&self, values: &ArrayRef) -> Result<ArrayRef> {
        Ok(match &self.of {
            DataType::Float64 => {
                let values = comparable_array(values)?;
                Arc::new(
                    values
                        .as_primitive::<Float64Type>()
                        .unary::<_, Int64Type>(|value| ordered_64(value.to_bits().cast_signed())),
                )
            }
            DataType::Float32 => {
                let values = comparable_array(values)?;
                Arc::new(
                    values
                        .as_primitive::<Float32Type>()
                        .unary::<_, Int32Type>(|value| ordered_32(value.to_bits().cast_signed())),
                )
            }
            DataType::Float16 => {
                let values = comparable_array(values)?;
                Arc::new(
                    values
                        .as_primitive::<Float16Type>()
                        .unary::<_, Int16Type>(|value| ordered_16(value.to_bits().cast_signed())),
                )
            }
            DataType::Interval(_) => {
                let intervals = values.as_primitive::<IntervalMonthDayNanoType>();
                Arc::new(intervals.iter().map(|interval| interval.map(ordered_interval)).collect::<BinaryArray>())
            }
            other => return internal_err!("a representation of {other}"),
        })
    }

    /// Converts results back to the type of the argument.
    fn restore(&self, values: &ArrayRef) -> Result<ArrayRef> {
        Ok(match &self.of {
            DataType::Float64 => Arc::new(
                values
                    .as_primitive::<Int64Type>()
                    .unary::<_, Float64Type>(|value| f64::from_bits(ordered_64(value).cast_unsigned())),
            ),
            DataType::Float32 => Arc::new(
                values
                    .as_primitive::<Int32Type>()
                    .unary::<_, Float32Type>(|value| f32::from_bits(ordered_32(value).cast_unsigned())),
            ),
            DataType::Float16 => Arc::new(
                values
                    .as_primitive::<Int16Type>()
                    .unary::<_, Float16Type>(|value| half::f16::from_bits(ordered_16(value).cast_unsigned())),
            ),
            DataType::Interval(_) => {
                let intervals =
                    values.as_binary::<i32>().iter().map(|bytes| bytes.map(interval_of_ordered).transpose());
                Arc::new(intervals.collect::<Result<IntervalMonthDayNanoArray>>()?)
            }
            other => return internal_err!("a representation of {other}"),
        })
    }
}

/// Converts between the bits of a double and an integer with the same order. The function is its own inverse.
fn ordered_64(bits: i64) -> i64 {
    if bits < 0 { bits ^ i64::MAX } else { bits }
}

fn ordered_32(bits: i32) -> i32 {
    if bits < 0 { bits ^ i32::MAX } else { bits }
}

fn ordered_16(bits: i16) -> i16 {
    if bits < 0 { bits ^ i16::MAX } else { bits }
}

/// Encodes an interval as bytes that sort by its length: the length, then the parts.
fn ordered_interval(interval: IntervalMonthDayNano) -> Vec<u8> {
    const SIGN: u128 = 1 << 127;
    let mut bytes = (length(interval).cast_unsigned() ^ SIGN).to_be_bytes().to_vec();
    bytes.extend(interval.months.to_be_bytes());
    bytes.extend(interval.days.to_be_bytes());
    bytes.extend(interval.nanoseconds.to_be_bytes());
    bytes
}

/// Decodes an interval from [`ordered_interval`].
fn interval_of_ordered(bytes: &[u8]) -> Result<IntervalMonthDayNano> {
    let parts = bytes.get(size_of::<u128>()..).and_then(|parts| {
        let (months, parts) = parts.split_first_chunk()?;
        let (days, parts) = parts.split_first_chunk()?;
        let (nanoseconds, _) = parts.split_first_chunk()?;
        let (months, days) = (i32::from_be_bytes(*months), i32::from_be_bytes(*days));
        Some(IntervalMonthDayNano { months, days, nanoseconds: i64::from_be_bytes(*nanoseconds) })
    });
    parts.ok_or_else(|| internal_datafusion_err!("an interval of {} bytes", bytes.len()))
}

/// An accumulator over converted values. Its states are converted values too.
#[derive(Debug)]
struct Represented {
    inner: Box<dyn Accumulator>,
    representation: Representation,
}

impl Accumulator for Represented {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.update_batch(&self.representation.represent(values)?)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let value = self.inner.evaluate()?.to_array()?;
        ScalarValue::try_from_array(&self.representation.restore(&value)?, 0)
    }

    fn size(&self) -> usize {
        self.inner.size() + size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.retract_batch(&self.representation.represent(values)?)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}

/// Like [`Represented`], for many groups.
struct RepresentedGroups {
    inner: Box<dyn GroupsAccumulator>,
    representation: Representation,
}

impl GroupsAccumulator for RepresentedGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        let values = self.representation.represent(values)?;
        self.inner.update_batch(&values, group_indices, filter, total_num_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let values = self.inner.evaluate(emit_to)?;
        self.representation.restore(&values)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.inner.state(emit_to)
    }

    fn merge_batch(&mut self, values: &[ArrayRef], group_indices: &[usize], total_num_groups: usize) -> Result<()> {
        self.inner.merge_batch(values, group_indices, total_num_groups)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.inner.convert_to_state(&self.representation.represent(values)?, filter)
    }

    fn size(&self) -> usize {
        self.inner.size() + size_of_val(self)
    }
}
