//! [`BoundedStringAgg`]: limits the length of the texts that `string_agg` joins.
//!
//! A text that grows doubles its buffer before the engine reserves memory for it, and is copied as a result: at a limit
//! of 256 MiB one took 568 MiB before it was rejected.

use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, BooleanArray};
use arrow_schema::{DataType, FieldRef};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, GroupsAccumulator, ReversedUDAF, Signature,
};

use super::functions::{Found, ResultTooLarge};
use super::size::RowSizes;

const NAME: &str = "string_agg";

/// Returns `string_agg`, as it is registered, with results of at most a share of `limit` bytes.
pub(super) fn bounded_string_agg(limit: u64, registered: &[Arc<AggregateUDF>]) -> Option<Arc<AggregateUDF>> {
    let inner = Arc::clone(registered.iter().rfind(|function| function.name() == NAME)?);
    Some(Arc::new(AggregateUDF::new_from_impl(BoundedStringAgg { inner, limit })))
}

/// The engine's aggregate, which rejects a text before it exceeds the bound.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct BoundedStringAgg {
    inner: Arc<AggregateUDF>,
    limit: u64,
}

impl AggregateUDFImpl for BoundedStringAgg {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        // Values that are sorted or distinct are kept apart until the end.
        let keeps_values = args.is_distinct || !args.order_bys.is_empty();
        let inner = self.inner.accumulator(args)?;
        Ok(match keeps_values {
            true => Box::new(BoundedValues { inner, limit: self.limit }),
            false => Box::new(BoundedText { inner, bytes: 0, limit: self.limit }),
        })
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let inner = self.inner.create_groups_accumulator(args)?;
        Ok(Box::new(BoundedTexts { inner, bytes: Vec::new(), limit: self.limit }))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.inner.reverse_udf() {
            ReversedUDAF::Reversed(_) => ReversedUDAF::Reversed(Arc::new(AggregateUDF::new_from_impl(self.clone()))),
            other => other,
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

/// Returns an error if a text of `bytes` is more than a quarter of the limit.
fn check(bytes: u64, limit: u64) -> Result<()> {
    match bytes > limit / 4 {
        true => Err(ResultTooLarge::new(NAME, Found::Value, bytes, limit).into()),
        false => Ok(()),
    }
}

/// Returns the bytes that a row adds: the value, and the separator if the aggregate has one.
fn added(values: &[ArrayRef]) -> impl Fn(usize) -> u64 {
    let sizes = values.iter().filter(|values| *values.data_type() != DataType::Null);
    let sizes: Vec<_> = sizes.map(|values| RowSizes::of(values.as_ref())).collect();
    move |row| match values[0].is_null(row) {
        true => 0,
        false => sizes.iter().map(|sizes| sizes.row(row)).fold(0, u64::saturating_add),
    }
}

/// One text.
#[derive(Debug)]
struct BoundedText {
    inner: Box<dyn Accumulator>,
    bytes: u64,
    limit: u64,
}

impl BoundedText {
    fn add(&mut self, values: &[ArrayRef]) -> Result<()> {
        let added = added(values);
        self.bytes = (0..values[0].len()).map(added).fold(self.bytes, u64::saturating_add);
        check(self.bytes, self.limit)
    }
}

impl Accumulator for BoundedText {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(values)?;
        self.inner.update_batch(values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.inner.evaluate()
    }

    fn size(&self) -> usize {
        self.inner.size() + size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.add(states)?;
        self.inner.merge_batch(states)
    }
}

/// Values that are joined at the end.
#[derive(Debug)]
struct BoundedValues {
    inner: Box<dyn Accumulator>,
    limit: u64,
}

impl BoundedValues {
    /// The values are joined from a copy, and the same value may be counted once.
    fn check(&self) -> Result<()> {
        check(self.inner.size() as u64 / 2, self.limit)
    }
}

impl Accumulator for BoundedValues {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.update_batch(values)?;
        self.check()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.inner.evaluate()
    }

    fn size(&self) -> usize {
        self.inner.size() + size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)?;
        self.check()
    }
}

/// A text of each group.
struct BoundedTexts {
    inner: Box<dyn GroupsAccumulator>,
    /// The bytes of each text.
    bytes: Vec<u64>,
    limit: u64,
}

impl BoundedTexts {
    fn add(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.bytes.resize(total, 0);
        let added = added(values);
        for (row, &group) in groups.iter().enumerate() {
            if filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row)) {
                let bytes = self.bytes[group].saturating_add(added(row));
                check(bytes, self.limit)?;
                self.bytes[group] = bytes;
            }
        }
        Ok(())
    }
}

impl GroupsAccumulator for BoundedTexts {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.add(values, group_indices, filter, total_num_groups)?;
        self.inner.update_batch(values, group_indices, filter, total_num_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        emit_to.take_needed(&mut self.bytes);
        self.inner.evaluate(emit_to)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        emit_to.take_needed(&mut self.bytes);
        self.inner.state(emit_to)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], group_indices: &[usize], total_num_groups: usize) -> Result<()> {
        self.add(states, group_indices, None, total_num_groups)?;
        self.inner.merge_batch(states, group_indices, total_num_groups)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.inner.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        self.inner.size() + self.bytes.capacity() * size_of::<u64>() + size_of_val(self)
    }
}
