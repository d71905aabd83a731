//! [`BoundFeature`]: the values of one feature as written, for code that inspects values instead of records.

use std::borrow::Cow;
use std::ops::Range;

use arrow_buffer::NullBuffer;

use super::bind::{BoundColumn, Spans, WireNull};
use super::values::{BytesValues, MAX_INLINE, Values, behind_view};
use crate::feature::FeatureMapping;

/// One feature of a [`BoundBatch`](crate::BoundBatch): its values in each row's record.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
/// use arrow_tfrecord::{Encoder, FeatureValues, Mapping, MappingOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let flags: ArrayRef = Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]));
/// let batch = RecordBatch::try_from_iter([("flag", flags)])?;
/// let encoder = Encoder::new(Arc::new(Mapping::try_new(&batch.schema(), &MappingOptions::default())?));
/// let bound = encoder.bind(&batch)?;
/// let flag = bound.features().next().ok_or("no feature")?;
/// assert_eq!(flag.single_values(), Some(2));
/// assert_eq!(flag.lengths().as_deref(), Some(&[Some(1), None, Some(1)][..]));
/// assert!(matches!(flag.values(), FeatureValues::Int64(values) if *values == [1, 0]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct BoundFeature<'a> {
    pub(super) mapping: &'a FeatureMapping,
    pub(super) column: &'a BoundColumn,
    /// The wire state of nulls, unless the column overrides it.
    pub(super) wire_null: WireNull,
    pub(super) rows: usize,
}

/// The values of a feature in row order, by its kind.
#[derive(Debug)]
pub enum FeatureValues<'a> {
    /// `int64_list`
    Int64(Cow<'a, [i64]>),
    /// `float_list`
    Float(Cow<'a, [f32]>),
    /// `bytes_list`
    Bytes(FeatureBytes<'a>),
}

impl FeatureValues<'_> {
    /// Number of values in all rows.
    pub fn len(&self) -> usize {
        match self {
            Self::Int64(values) => values.len(),
            Self::Float(values) => values.len(),
            Self::Bytes(values) => values.len(),
        }
    }

    /// Whether no row has a value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The values of a [`bytes_list`](FeatureValues::Bytes).
#[derive(Debug)]
pub struct FeatureBytes<'a> {
    values: &'a BytesValues,
    positions: Positions,
}

/// The positions of the values of rows.
#[derive(Debug)]
enum Positions {
    /// Contiguous.
    Range(Range<usize>),
    Each(Vec<usize>),
}

impl<'a> FeatureBytes<'a> {
    /// Number of values.
    pub fn len(&self) -> usize {
        match &self.positions {
            Positions::Range(range) => range.len(),
            Positions::Each(positions) => positions.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value at `position`. `None` if out of bounds.
    #[inline]
    pub fn get(&self, position: usize) -> Option<&'a [u8]> {
        let position = match &self.positions {
            Positions::Range(range) => Some(range.start + position).filter(|at| *at < range.end)?,
            Positions::Each(positions) => *positions.get(position)?,
        };
        Some(self.values.get(position))
    }

    /// The views of the values of a view column, in order. Equal views have equal values.
    pub fn views(&self) -> Option<Cow<'a, [u128]>> {
        match self.values {
            BytesValues::Views { views, .. } => Some(picked(views, &self.positions)),
            _ => None,
        }
    }

    /// The value of one of these [views](Self::views), if it is not stored inline: if it has more than 12 bytes.
    #[inline]
    pub fn behind_view(&self, view: u128) -> Option<&'a [u8]> {
        match self.values {
            BytesValues::Views { data, .. } if view as u32 as usize > MAX_INLINE => Some(behind_view(view, data)),
            _ => None,
        }
    }

    /// The values, in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + '_ {
        (0..self.len()).filter_map(|position| self.get(position))
    }
}

impl<'a> BoundFeature<'a> {
    /// The mapping of the feature.
    pub fn mapping(&self) -> &'a FeatureMapping {
        self.mapping
    }

    /// Number of rows.
    pub fn num_rows(&self) -> usize {
        self.rows
    }

    /// The number of rows with one value, if all other records lack the feature or have it without a kind. `None` if
    /// rows may have [other numbers](Self::lengths) of values.
    pub fn single_values(&self) -> Option<usize> {
        let column = self.column;
        match (&column.spans, &column.steps, &column.nulls) {
            (Spans::One, None, None) => Some(self.rows),
            (Spans::One, None, Some(nulls)) if column.null_forms.is_none() && self.wire_null != WireNull::Empty => {
                Some(nulls.len() - nulls.null_count())
            }
            _ => None,
        }
    }

    /// The number of values of each row, summed over the steps of a feature list or the examples of a record. A row is
    /// `None` if its record lacks the feature or has it without a kind. Returns `None` if every row has one value.
    pub fn lengths(&self) -> Option<Vec<Option<usize>>> {
        let column = self.column;
        if matches!(column.spans, Spans::One) && column.nulls.is_none() && column.steps.is_none() {
            return None;
        }
        let lengths = (0..self.rows).map(|row| match &column.steps {
            None => self.length(row),
            Some(steps) if is_null(steps.nulls.as_ref(), row) => None,
            Some(steps) => {
                let mut lengths = steps.spans.row(row).filter_map(|step| self.length(step));
                match self.mapping.in_examples {
                    // A record has it if one of its examples has it.
                    true => lengths.next().map(|first| first + lengths.sum::<usize>()),
                    false => Some(lengths.sum()),
                }
            }
        });
        Some(lengths.collect())
    }

    /// Number of values of a row, or of a step.
    fn length(&self, row: usize) -> Option<usize> {
        if !is_null(self.column.nulls.as_ref(), row) {
            return Some(self.column.spans.row(row).len());
        }
        match self.column.null_forms.as_ref().map_or(self.wire_null, |forms| forms[row]) {
            WireNull::Absent | WireNull::Unset => None,
            WireNull::Empty => Some(0),
        }
    }

    /// The values of all rows, concatenated.
    pub fn values(&self) -> FeatureValues<'a> {
        let column = self.column;
        match (&column.values, self.positions()) {
            (Values::Int64(values), positions) => FeatureValues::Int64(picked(values, &positions)),
            (Values::Float(values), positions) => FeatureValues::Float(picked(values, &positions)),
            (Values::Bytes(values), positions) => FeatureValues::Bytes(FeatureBytes { values, positions }),
        }
    }

    fn positions(&self) -> Positions {
        let column = self.column;
        let whole = match (&column.nulls, &column.steps, &column.index) {
            (None, None, None) => Some(0..column.spans.elements(0..self.rows)),
            _ => None,
        };
        match (whole, &column.spans) {
            (Some(all), Spans::Offsets32(_) | Spans::Offsets64(_) | Spans::Fixed(_)) => return Positions::Range(all),
            (Some(_), Spans::One) => return Positions::Range(0..self.rows),
            _ => {}
        }
        if let (Spans::One, Some(nulls), None, None) = (&column.spans, &column.nulls, &column.steps, &column.index) {
            return Positions::Each(nulls.valid_indices().collect());
        }
        let mut positions = Vec::with_capacity(self.rows);
        let mut add = |row: usize| {
            if !is_null(column.nulls.as_ref(), row) {
                match &column.index {
                    None => positions.extend(column.spans.row(row)),
                    Some(index) => positions.extend(column.spans.row(row).map(|element| index[element])),
                }
            }
        };
        match &column.steps {
            None => (0..self.rows).for_each(&mut add),
            Some(steps) => (0..self.rows)
                .filter(|row| !is_null(steps.nulls.as_ref(), *row))
                .for_each(|row| steps.spans.row(row).for_each(&mut add)),
        }
        Positions::Each(positions)
    }
}

fn is_null(nulls: Option<&NullBuffer>, row: usize) -> bool {
    nulls.is_some_and(|nulls| nulls.is_null(row))
}

fn picked<'a, T: Copy>(values: &'a [T], positions: &Positions) -> Cow<'a, [T]> {
    match positions {
        Positions::Range(range) => Cow::Borrowed(&values[range.clone()]),
        Positions::Each(positions) => Cow::Owned(positions.iter().map(|position| values[*position]).collect()),
    }
}
