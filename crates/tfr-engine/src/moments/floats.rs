//! Sums of doubles and of products of their deviations, by the method of Youngs and Cramer.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array, UInt64Array};
use arrow::datatypes::{Float64Type, UInt64Type};
use arrow_schema::DataType;
use datafusion_common::utils::take_function_args;
use datafusion_common::{Result, ScalarValue, exec_err};

use super::Statistic;
use super::accumulators::Stored;
use crate::moving::Tally;

/// The number of rows, the sums of `x` and `y`, and the sums of products of their deviations from the mean. Aggregates
/// of one column are of `x`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Moments {
    count: u64,
    x: f64,
    y: f64,
    xx: f64,
    yy: f64,
    xy: f64,
}

impl Moments {
    fn of(x: f64, y: f64) -> Self {
        // The deviation of a number from itself: 0, or NaN if it is not finite.
        let deviation = |number: f64| if number.is_finite() { 0.0 } else { f64::NAN };
        let (dx, dy) = (deviation(x), deviation(y));
        Self { count: 1, x, y, xx: dx, yy: dy, xy: dx + dy }
    }

    pub fn state_types() -> [(&'static str, DataType); 6] {
        let float = |name| (name, DataType::Float64);
        [("count", DataType::UInt64), float("x"), float("y"), float("xx"), float("yy"), float("xy")]
    }
}

impl Tally for Moments {
    type Statistic = Statistic;

    fn rows(values: &[ArrayRef]) -> Result<Vec<Option<Self>>> {
        match values {
            [x] => Ok(x.as_primitive::<Float64Type>().iter().map(|x| Some(Self::of(x?, 0.0))).collect()),
            [y, x] => {
                let rows = y.as_primitive::<Float64Type>().iter().zip(x.as_primitive::<Float64Type>());
                Ok(rows.map(|(y, x)| Some(Self::of(x?, y?))).collect())
            }
            _ => exec_err!("{} columns", values.len()),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "fewer than 2^53 rows")]
    fn merged(&self, other: &Self) -> Result<Self> {
        if self.count == 0 {
            return Ok(*other);
        }
        if other.count == 0 {
            return Ok(*self);
        }
        let count = self.count + other.count;
        let (x, y) = (self.x + other.x, self.y + other.y);
        let (n, own, others) = (count as f64, self.count as f64, other.count as f64);
        let (dx, dy, weight) = match other.count {
            1 => (other.x * n - x, other.y * n - y, 1.0 / (own * n)),
            _ => (self.x / own - other.x / others, self.y / own - other.y / others, own * others / n),
        };
        Ok(Self {
            count,
            x,
            y,
            xx: self.xx + other.xx + dx * dx * weight,
            yy: self.yy + other.yy + dy * dy * weight,
            xy: self.xy + other.xy + dx * dy * weight,
        })
    }

    #[expect(clippy::cast_precision_loss, reason = "fewer than 2^53 rows")]
    fn result(tally: Option<&Self>, statistic: &Statistic) -> Result<ScalarValue> {
        let value = tally.filter(|tally| tally.count > 0).and_then(|&Self { count, x, y, xx, yy, xy }| {
            let n = count as f64;
            let of_sample = |value: f64| (count > 1).then_some(value / (n - 1.0));
            Some(match statistic {
                Statistic::VariancePop => xx / n,
                Statistic::VarianceSamp => of_sample(xx)?,
                Statistic::StddevPop => (xx / n).sqrt(),
                Statistic::StddevSamp => of_sample(xx)?.sqrt(),
                Statistic::CovariancePop => xy / n,
                Statistic::CovarianceSamp => of_sample(xy)?,
                Statistic::Correlation if xx == 0.0 || yy == 0.0 => return None,
                Statistic::Correlation => {
                    let product = xx * yy;
                    let root = if product.is_normal() { product.sqrt() } else { xx.sqrt() * yy.sqrt() };
                    (xy / root).clamp(-1.0, 1.0)
                }
                Statistic::Slope | Statistic::Intercept | Statistic::R2 if xx == 0.0 => return None,
                Statistic::Slope => xy / xx,
                Statistic::Intercept => (y - x * xy / xx) / n,
                Statistic::R2 if yy == 0.0 => 1.0,
                Statistic::R2 => xy * xy / (xx * yy),
                Statistic::AverageX => x / n,
                Statistic::AverageY => y / n,
                Statistic::Sxx => xx,
                Statistic::Syy => yy,
                Statistic::Sxy => xy,
            })
        });
        Ok(ScalarValue::Float64(value))
    }
}

impl Stored for Moments {
    fn to_state(tallies: &[Self]) -> Vec<ArrayRef> {
        let floats = |get: fn(&Self) -> f64| Arc::new(tallies.iter().map(get).collect::<Float64Array>()) as ArrayRef;
        let counts: UInt64Array = tallies.iter().map(|tally| tally.count).collect();
        vec![
            Arc::new(counts),
            floats(|tally| tally.x),
            floats(|tally| tally.y),
            floats(|tally| tally.xx),
            floats(|tally| tally.yy),
            floats(|tally| tally.xy),
        ]
    }

    fn of_state(state: &[ArrayRef]) -> Result<Vec<Self>> {
        let [counts, x, y, xx, yy, xy] = take_function_args("moments", state)?;
        let float = |array: &ArrayRef, row| array.as_primitive::<Float64Type>().value(row);
        let counts = counts.as_primitive::<UInt64Type>();
        let tally = |row| Self {
            count: counts.value(row),
            x: float(x, row),
            y: float(y, row),
            xx: float(xx, row),
            yy: float(yy, row),
            xy: float(xy, row),
        };
        Ok((0..counts.len()).map(tally).collect())
    }

    /// The bits of the value, arranged in the order of [`f64::total_cmp`].
    type Key = i64;

    fn key(&self) -> i64 {
        let bits = self.x.to_bits().cast_signed();
        if bits < 0 { bits ^ i64::MAX } else { bits }
    }

    fn to_values(tallies: &[Self]) -> ArrayRef {
        Arc::new(tallies.iter().map(|tally| tally.x).collect::<Float64Array>())
    }
}
