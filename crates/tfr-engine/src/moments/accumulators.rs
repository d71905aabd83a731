//! Accumulators for tallies: of all rows, of distinct values, and of groups.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::mem::size_of_val;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use datafusion_common::utils::take_function_args;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{Accumulator, EmitTo, GroupsAccumulator};

use crate::moving::Tally;

/// A tally that can be computed in parts.
pub trait Stored: Tally + Default {
    fn to_state(tallies: &[Self]) -> Vec<ArrayRef>;
    fn of_state(state: &[ArrayRef]) -> Result<Vec<Self>>;

    /// Identifies the value of the tally of one row. Distinct values are added in this order, whatever order they come in.
    type Key: Debug + Ord + Send + Sync;

    fn key(&self) -> Self::Key;

    /// Returns the values of tallies of one row, of which [`rows`](Tally::rows) makes them again.
    fn to_values(tallies: &[Self]) -> ArrayRef;
}

/// The tally of all rows.
#[derive(Debug)]
pub struct Whole<T: Stored> {
    total: T,
    statistic: T::Statistic,
}

impl<T: Stored> Whole<T> {
    pub fn new(statistic: T::Statistic) -> Self {
        Self { total: T::default(), statistic }
    }

    fn add(&mut self, tallies: impl IntoIterator<Item = T>) -> Result<()> {
        for tally in tallies {
            self.total = self.total.merged(&tally)?;
        }
        Ok(())
    }
}

impl<T: Stored> Accumulator for Whole<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(T::rows(values)?.into_iter().flatten())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.add(T::of_state(states)?)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let state = T::to_state(std::slice::from_ref(&self.total));
        state.iter().map(|array| ScalarValue::try_from_array(array, 0)).collect()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        T::result(Some(&self.total), &self.statistic)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// The tally of distinct values.
#[derive(Debug)]
pub struct Distinct<T: Stored> {
    values: BTreeMap<T::Key, T>,
    statistic: T::Statistic,
}

impl<T: Stored> Distinct<T> {
    pub fn new(statistic: T::Statistic) -> Self {
        Self { values: BTreeMap::new(), statistic }
    }
}

impl<T: Stored> Accumulator for Distinct<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.values.extend(T::rows(values)?.into_iter().flatten().map(|row| (row.key(), row)));
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [lists] = take_function_args("variance", states)?;
        lists.as_list::<i32>().iter().flatten().try_for_each(|values| self.update_batch(&[values]))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = T::to_values(&self.values.values().cloned().collect::<Vec<_>>());
        let scalars = (0..values.len()).map(|row| ScalarValue::try_from_array(&values, row));
        let list = ScalarValue::new_list_nullable(&scalars.collect::<Result<Vec<_>>>()?, values.data_type());
        Ok(vec![ScalarValue::List(list)])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let total = self.values.values().try_fold(T::default(), |total, value| total.merged(value))?;
        T::result(Some(&total), &self.statistic)
    }

    fn size(&self) -> usize {
        // Nodes of a tree are at least half full, except for the root.
        size_of_val(self) + 2 * self.values.len() * size_of::<(T::Key, T)>()
    }
}

/// The tallies of groups.
#[derive(Debug)]
pub struct Groups<T: Stored> {
    totals: Vec<T>,
    statistic: T::Statistic,
}

impl<T: Stored> Groups<T> {
    pub fn new(statistic: T::Statistic) -> Self {
        Self { totals: Vec::new(), statistic }
    }

    fn add(&mut self, group: usize, tally: &T) -> Result<()> {
        // Every group has been created.
        if let Some(total) = self.totals.get_mut(group) {
            *total = total.merged(tally)?;
        }
        Ok(())
    }
}

impl<T: Stored> GroupsAccumulator for Groups<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.totals.resize(total_num_groups, T::default());
        let rows = T::rows(values)?.into_iter().zip(group_indices).enumerate();
        for (row, (tally, &group)) in rows {
            if let Some(tally) = tally.filter(|_| passes(filter, row)) {
                self.add(group, &tally)?;
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, values: &[ArrayRef], group_indices: &[usize], total_num_groups: usize) -> Result<()> {
        self.totals.resize(total_num_groups, T::default());
        T::of_state(values)?.iter().zip(group_indices).try_for_each(|(tally, &group)| self.add(group, tally))
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let totals = emit_to.take_needed(&mut self.totals);
        ScalarValue::iter_to_array(
            totals.iter().map(|total| T::result(Some(total), &self.statistic)).collect::<Result<Vec<_>>>()?,
        )
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(T::to_state(&emit_to.take_needed(&mut self.totals)))
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let rows = T::rows(values)?.into_iter().enumerate();
        let tallies = rows.map(|(row, tally)| tally.filter(|_| passes(filter, row)).unwrap_or_default());
        Ok(T::to_state(&tallies.collect::<Vec<_>>()))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.totals.capacity() * size_of::<T>()
    }
}

fn passes(filter: Option<&BooleanArray>, row: usize) -> bool {
    filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
}
