//! Accumulators for sums: of all rows, of distinct values, and of groups.

use std::collections::HashMap;
use std::mem::size_of_val;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, UInt64Array};
use datafusion::arrow::datatypes::{Decimal128Type, UInt64Type};
use datafusion_common::utils::take_function_args;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{Accumulator, EmitTo, GroupsAccumulator};

use super::{STATE, SumType, added, for_each_value, without};

/// The sum of all rows.
#[derive(Debug)]
pub struct Sum {
    sum: i128,
    count: u64,
    result: SumType,
}

impl Sum {
    pub fn new(result: SumType) -> Self {
        Self { sum: 0, count: 0, result }
    }
}

impl Accumulator for Sum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let [values] = take_function_args("sum", values)?;
        for_each_value(values, |_, value| {
            self.sum = added(self.sum, value)?;
            self.count += 1;
            Ok(())
        })
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let [values] = take_function_args("sum", values)?;
        for_each_value(values, |_, value| {
            self.sum = without(self.sum, value)?;
            self.count -= 1;
            Ok(())
        })
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&self.result.results(vec![self.sum], &[self.count])?, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let sum = decimals(vec![self.sum])?;
        Ok(vec![ScalarValue::try_from_array(&sum, 0)?, ScalarValue::UInt64(Some(self.count))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [sums, counts] = take_function_args("sum", states)?;
        for_each_value(sums, |_, sum| {
            self.sum = added(self.sum, sum)?;
            Ok(())
        })?;
        self.count += counts.as_primitive::<UInt64Type>().iter().flatten().sum::<u64>();
        Ok(())
    }
}

/// The sum of distinct values. In a sliding window, a value counts until its last copy has left.
#[derive(Debug)]
pub struct DistinctSum {
    copies: HashMap<i128, u64>,
    result: SumType,
}

impl DistinctSum {
    pub fn new(result: SumType) -> Self {
        Self { copies: HashMap::new(), result }
    }
}

impl Accumulator for DistinctSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let [values] = take_function_args("sum", values)?;
        for_each_value(values, |_, value| {
            *self.copies.entry(value).or_default() += 1;
            Ok(())
        })
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let [values] = take_function_args("sum", values)?;
        for_each_value(values, |_, value| {
            if let Some(copies) = self.copies.get_mut(&value) {
                *copies -= 1;
                if *copies == 0 {
                    self.copies.remove(&value);
                }
            }
            Ok(())
        })
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sum = self.copies.keys().try_fold(0, |sum, &value| added(sum, value))?;
        let count = self.copies.len() as u64;
        ScalarValue::try_from_array(&self.result.results(vec![sum], &[count])?, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.copies.capacity() * size_of::<(i128, u64)>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = decimals(self.copies.keys().copied().collect())?;
        let values =
            (0..values.len()).map(|row| ScalarValue::try_from_array(&values, row)).collect::<Result<Vec<_>>>()?;
        Ok(vec![ScalarValue::List(ScalarValue::new_list_nullable(&values, &STATE))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [lists] = take_function_args("sum", states)?;
        lists.as_list::<i32>().iter().flatten().try_for_each(|values| self.update_batch(&[values]))
    }
}

/// The sums of groups.
#[derive(Debug)]
pub struct GroupSums {
    sums: Vec<i128>,
    counts: Vec<u64>,
    result: SumType,
}

impl GroupSums {
    pub fn new(result: SumType) -> Self {
        Self { sums: Vec::new(), counts: Vec::new(), result }
    }

    fn add(&mut self, group: usize, value: i128, count: u64) -> Result<()> {
        // Every group has been created.
        if let (Some(sum), Some(counted)) = (self.sums.get_mut(group), self.counts.get_mut(group)) {
            *sum = added(*sum, value)?;
            *counted += count;
        }
        Ok(())
    }

    fn grow(&mut self, groups: usize) {
        self.sums.resize(groups, 0);
        self.counts.resize(groups, 0);
    }
}

impl GroupsAccumulator for GroupSums {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        let [values] = take_function_args("sum", values)?;
        self.grow(total_num_groups);
        for_each_value(values, |row, value| match group_indices.get(row) {
            Some(&group) if passes(filter, row) => self.add(group, value, 1),
            _ => Ok(()),
        })
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let counts = emit_to.take_needed(&mut self.counts);
        self.result.results(emit_to.take_needed(&mut self.sums), &counts)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let sums = decimals(emit_to.take_needed(&mut self.sums))?;
        Ok(vec![sums, Arc::new(UInt64Array::from(emit_to.take_needed(&mut self.counts)))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef], group_indices: &[usize], total_num_groups: usize) -> Result<()> {
        let [sums, counts] = take_function_args("sum", states)?;
        self.grow(total_num_groups);
        let states = sums.as_primitive::<Decimal128Type>().iter().zip(counts.as_primitive::<UInt64Type>());
        group_indices
            .iter()
            .zip(states)
            .try_for_each(|(&group, (sum, count))| self.add(group, sum.unwrap_or_default(), count.unwrap_or_default()))
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let [values] = take_function_args("sum", values)?;
        let (mut sums, mut counts) = (vec![0; values.len()], vec![0; values.len()]);
        for_each_value(values, |row, value| {
            if let (true, Some(sum), Some(count)) = (passes(filter, row), sums.get_mut(row), counts.get_mut(row)) {
                (*sum, *count) = (value, 1);
            }
            Ok(())
        })?;
        Ok(vec![decimals(sums)?, Arc::new(UInt64Array::from(counts))])
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.sums.capacity() * size_of::<i128>() + self.counts.capacity() * size_of::<u64>()
    }
}

fn passes(filter: Option<&BooleanArray>, row: usize) -> bool {
    filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
}

/// Converts sums to their representation in states.
fn decimals(sums: Vec<i128>) -> Result<ArrayRef> {
    Ok(Arc::new(Decimal128Array::from(sums).with_data_type(STATE)))
}
