//! Aggregates over moving window frames that never subtract what leaves the frame.
//!
//! The engine subtracts: after a NaN or an infinity had left a frame, `sum` and `avg` stayed NaN, and after a large
//! number they had lost the digits of the small ones. Here a frame is two stacks of rows. The rows that leave next have
//! been added up from the end of their stack, so that a row leaves by being dropped. Each row is added twice, whatever
//! the length of the frame.
//!
//! Upstream: unreported. Held by `tests/slt/numbers.slt`: What has left a moving frame leaves nothing behind.

use std::fmt::Debug;
use std::mem::size_of_val;

use arrow::array::ArrayRef;
use datafusion_common::{Result, ScalarValue, internal_err};
use datafusion_expr::Accumulator;

/// What an aggregate keeps of one row or of several.
pub trait Tally: Clone + Debug + Send + Sync + 'static {
    /// Which result is computed.
    type Statistic: Debug + Send + Sync + 'static;

    /// Returns the tally of each row, or `None` for rows with nulls.
    fn rows(values: &[ArrayRef]) -> Result<Vec<Option<Self>>>;

    /// Returns the tally of the rows of `self` and of the later rows of `other`.
    fn merged(&self, other: &Self) -> Result<Self>;

    /// Returns the result for a tally, or for no rows.
    fn result(tally: Option<&Self>, statistic: &Self::Statistic) -> Result<ScalarValue>;
}

/// An accumulator for moving frames.
#[derive(Debug)]
pub struct Moving<T: Tally> {
    statistic: T::Statistic,
    /// The rows that arrived last, and their tally.
    arrived: Vec<T>,
    arrived_total: Option<T>,
    /// The tallies of the other rows: each of its row and of all later ones of this stack. The last one leaves next.
    leaving: Vec<T>,
}

impl<T: Tally> Moving<T> {
    pub fn new(statistic: T::Statistic) -> Self {
        Self { statistic, arrived: Vec::new(), arrived_total: None, leaving: Vec::new() }
    }

    fn push(&mut self, row: T) -> Result<()> {
        self.arrived_total = Some(match &self.arrived_total {
            Some(total) => total.merged(&row)?,
            None => row.clone(),
        });
        self.arrived.push(row);
        Ok(())
    }

    fn pop(&mut self) -> Result<()> {
        if self.leaving.is_empty() {
            self.arrived_total = None;
            while let Some(row) = self.arrived.pop() {
                let total = match self.leaving.last() {
                    Some(later) => row.merged(later)?,
                    None => row,
                };
                self.leaving.push(total);
            }
        }
        self.leaving.pop();
        Ok(())
    }
}

impl<T: Tally> Accumulator for Moving<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        T::rows(values)?.into_iter().flatten().try_for_each(|row| self.push(row))
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        T::rows(values)?.into_iter().flatten().try_for_each(|_| self.pop())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let total = match (self.leaving.last(), &self.arrived_total) {
            (Some(earlier), Some(later)) => Some(earlier.merged(later)?),
            (earlier, later) => earlier.or(later.as_ref()).cloned(),
        };
        T::result(total.as_ref(), &self.statistic)
    }

    fn size(&self) -> usize {
        size_of_val(self) + (self.arrived.capacity() + self.leaving.capacity()) * size_of::<T>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        internal_err!("a window frame is not computed in parts")
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        internal_err!("a window frame is not computed in parts")
    }
}
