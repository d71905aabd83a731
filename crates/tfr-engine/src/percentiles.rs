//! `percentile_cont`, with the weights of PostgreSQL.
//!
//! The engine cuts the weight of the greater of two values to six digits: the percentile 0.3 of 10, 20, 30, 40 and 50 was
//! 21.99999.
//!
//! Upstream: unreported. Held by `tests/slt/numbers.slt`: The weights of percentiles are not cut.

use std::collections::VecDeque;
use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array};
use arrow::compute::cast;
use arrow::datatypes::Float64Type;
use arrow_schema::{DataType, Field, FieldRef};
use datafusion::functions_aggregate::percentile_cont::percentile_cont_udaf;
use datafusion::physical_expr::expressions::Literal;
use datafusion_common::utils::SingleRowListArrayBuilder;
use datafusion_common::{Result, ScalarValue, plan_err};
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::utils::format_state_name;
use datafusion_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, Signature};

/// Returns the aggregate to register in place of the engine's.
pub fn exact_percentile() -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::new_from_impl(ExactPercentile { inner: percentile_cont_udaf() }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ExactPercentile {
    inner: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for ExactPercentile {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let values = DataType::new_list(DataType::Float64, true);
        Ok(vec![Arc::new(Field::new(format_state_name(args.name, self.name()), values, true))])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Percentile {
            share: share(&args)?,
            is_descending: args.order_bys.first().is_some_and(|order| order.options.descending),
            is_distinct: args.is_distinct,
            values: VecDeque::new(),
        }))
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

/// Returns the first argument of `percentile_cont(share) WITHIN GROUP (ORDER BY x)`, which the engine passes as the second.
fn share(args: &AccumulatorArgs<'_>) -> Result<f64> {
    let literal = args.exprs.get(1).and_then(|expr| expr.downcast_ref::<Literal>()).map(Literal::value);
    match literal {
        Some(ScalarValue::Float64(Some(share))) if (0.0..=1.0).contains(share) => Ok(*share),
        Some(ScalarValue::Float64(Some(share))) => {
            plan_err!("Percentile value must be between 0.0 and 1.0 inclusive, {share} is invalid")
        }
        _ => plan_err!("Percentile value for 'PERCENTILE_CONT' must be a literal"),
    }
}

/// All values of a group or frame, in the order of the rows.
#[derive(Debug)]
struct Percentile {
    share: f64,
    is_descending: bool,
    is_distinct: bool,
    values: VecDeque<f64>,
}

fn doubles(values: &ArrayRef) -> Result<Float64Array> {
    Ok(cast(values, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
}

impl Accumulator for Percentile {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if let Some(values) = values.first() {
            self.values.extend(doubles(values)?.iter().flatten());
        }
        Ok(())
    }

    /// The rows that leave a frame are those that came first.
    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if let Some(values) = values.first() {
            let count = values.len() - values.logical_null_count();
            self.values.drain(..count.min(self.values.len()));
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = Float64Array::from_iter_values(self.values.iter().copied());
        Ok(vec![SingleRowListArrayBuilder::new(Arc::new(values)).build_list_scalar()])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        if let Some(lists) = states.first() {
            for values in lists.as_list::<i32>().iter().flatten() {
                self.values.extend(doubles(&values)?.iter().flatten());
            }
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut values: Vec<f64> = self.values.iter().copied().collect();
        if self.is_distinct {
            values.sort_unstable_by(order);
            values.dedup_by(|one, other| order(one, other).is_eq());
        }
        Ok(ScalarValue::Float64(between(&mut values, self.share, self.is_descending)))
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.values.capacity() * size_of::<f64>()
    }
}

/// Returns the value at a share of the way from the first value to the last. Between two values, it is weighted by the
/// distances from both.
fn between(values: &mut [f64], share: f64, is_descending: bool) -> Option<f64> {
    let ordered = |one: &f64, other: &f64| if is_descending { order(other, one) } else { order(one, other) };
    let place = share * values.len().checked_sub(1)? as f64;
    let (_, first, rest) = values.select_nth_unstable_by(place.floor() as usize, ordered);
    let weight = place - place.floor();
    match rest.iter().copied().min_by(ordered) {
        Some(next) if weight > 0.0 => Some(*first + weight * (next - *first)),
        _ => Some(*first),
    }
}

/// Orders numbers. NaN is the greatest.
fn order(one: &f64, other: &f64) -> std::cmp::Ordering {
    one.partial_cmp(other).unwrap_or_else(|| one.is_nan().cmp(&other.is_nan()))
}
