//! A column of one batch, converted to one of the three kinds of feature: [`BoundColumn`].
//!
//! Everything that depends on the Arrow type or can fail happens here, one column at a time. Writing the rows is then
//! only copying. Columns that already have the type of their feature are used without conversion.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{ArrowNativeType, NullBuffer, ScalarBuffer};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::DataType;
use tfr_arrow::integers;
use tfr_arrow::nested::Encoded;
use tfr_arrow::text::{NoText, NoTextError, find_without_text};

use super::convert::{self, Converted};
use super::tensor;
use super::values::Values;
use crate::dtype::value_type;
use crate::error::{Error, ErrorKind, Result};
use crate::lists::lists;
use crate::mapping::{ColumnMapping, Conversion};
use crate::options::{NullPolicy, NullRule};

/// The wire state of a null that is not replaced by a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WireNull {
    Absent,
    Unset,
    Empty,
}

impl From<&NullRule> for WireNull {
    fn from(rule: &NullRule) -> Self {
        match rule {
            NullRule::Policy(NullPolicy::Unset) => Self::Unset,
            NullRule::Policy(NullPolicy::Empty) => Self::Empty,
            _ => Self::Absent,
        }
    }
}

/// One column of a batch, ready to be written row by row.
#[derive(Debug)]
pub(super) struct BoundColumn {
    /// Rows without the feature.
    pub(super) nulls: Option<NullBuffer>,
    /// The wire state of each null, if they differ.
    pub(super) null_forms: Option<Arc<[WireNull]>>,
    /// The elements that are a row's values.
    pub(super) spans: Spans,
    /// The position of each element's value in `values`, if it differs from the element's own: the keys of a
    /// dictionary, or the runs of a run-end-encoded column.
    pub(super) index: Option<Vec<usize>>,
    pub(super) values: Values,
    /// In a column of feature lists, the steps of each row. All other code treats steps as rows.
    pub(super) steps: Option<BoundSteps>,
}

/// The steps of each row.
#[derive(Debug)]
pub(super) struct BoundSteps {
    /// Rows without the feature list.
    pub(super) nulls: Option<NullBuffer>,
    pub(super) spans: Spans,
}

/// The elements that are the values of a row.
#[derive(Debug)]
pub(super) enum Spans {
    /// The element at the row's own position.
    One,
    /// The same number for every row.
    Fixed(usize),
    /// From one offset to the next, relative to the first.
    Offsets32(ScalarBuffer<i32>),
    Offsets64(ScalarBuffer<i64>),
    /// At any position: start and length.
    Views(Vec<(usize, usize)>),
}

impl Spans {
    #[inline]
    pub(super) fn row(&self, row: usize) -> Range<usize> {
        match self {
            Self::One => row..row + 1,
            Self::Fixed(len) => row * len..(row + 1) * len,
            Self::Offsets32(offsets) => offsets_row(offsets, row),
            Self::Offsets64(offsets) => offsets_row(offsets, row),
            Self::Views(views) => {
                let (start, len) = views[row];
                start..start + len
            }
        }
    }

    /// An upper bound of the number of elements in `rows`: may include those of null rows.
    pub(super) fn elements(&self, rows: Range<usize>) -> usize {
        match self {
            Self::Views(views) => views[rows].iter().map(|(_, len)| len).sum(),
            _ if rows.is_empty() => 0,
            _ => self.row(rows.end - 1).end - self.row(rows.start).start,
        }
    }
}

#[inline]
fn offsets_row<O: ArrowNativeType>(offsets: &[O], row: usize) -> Range<usize> {
    let base = offsets[0].as_usize();
    offsets[row].as_usize() - base..offsets[row + 1].as_usize() - base
}

impl BoundColumn {
    /// Converts `array`, a column of the type of `mapping`, to the kind of its feature.
    pub(super) fn try_new(mapping: &ColumnMapping, array: &ArrayRef) -> Result<Self> {
        let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        if let Some(nulls) = &nulls {
            refuse_nulls(mapping, nulls)?;
        }
        let (spans, elements) = match mapping.conversion {
            // The whole list is one value.
            Conversion::Tensor(_) => (Spans::One, ArrayRef::clone(array)),
            _ => unnest(array),
        };
        let (index, distinct) = distinct_values(&elements, &mapping.conversion);
        let Converted { values, mismatches } = convert::convert(&mapping.conversion, &mapping.column, &distinct)?;
        let column = Self { nulls, null_forms: None, spans, index, values, steps: None };
        column.refuse_null_elements(mapping, &elements, array.len())?;
        column.refuse_mismatches(mapping, &elements, &mismatches, array.len())?;
        Ok(column)
    }

    fn valid_rows(&self, rows: usize) -> impl Iterator<Item = usize> {
        (0..rows).filter(|row| self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*row)))
    }

    fn refuse_null_elements(&self, mapping: &ColumnMapping, elements: &ArrayRef, rows: usize) -> Result<()> {
        if matches!(self.spans, Spans::One) {
            return Ok(());
        }
        let Some(nulls) = elements.logical_nulls().filter(|nulls| nulls.null_count() > 0) else {
            return Ok(());
        };
        match self.valid_rows(rows).find(|row| self.spans.row(*row).any(|element| nulls.is_null(element))) {
            Some(row) => {
                let (column, can_be_dropped) = (mapping.column.clone(), !matches!(self.spans, Spans::Fixed(_)));
                Err(ErrorKind::NullElement { column, row: row as u64, can_be_dropped }.into())
            }
            None => Ok(()),
        }
    }

    /// Fails if a non-null row has a value that its feature cannot represent.
    fn refuse_mismatches(
        &self,
        mapping: &ColumnMapping,
        elements: &ArrayRef,
        mismatches: &[usize],
        rows: usize,
    ) -> Result<()> {
        if mismatches.is_empty() {
            return Ok(());
        }
        let mismatch = |element: &usize| {
            let position = self.index.as_ref().map_or(*element, |index| index[*element]);
            mismatches.binary_search(&position).is_ok()
        };
        let found = self.valid_rows(rows).find_map(|row| Some((row, self.spans.row(row).find(mismatch)?)));
        match found {
            Some((row, element)) => Err(out_of_range(&mapping.column, &mapping.conversion, elements, row, element)),
            None => Ok(()),
        }
    }
}

/// The error for an element of a part of `column`.
pub(super) fn out_of_range(
    column: &str,
    conversion: &Conversion,
    elements: &ArrayRef,
    row: usize,
    element: usize,
) -> Error {
    if let Conversion::Tensor(shape) = conversion
        && let Some((_, mismatches)) = tensor::serialize(&elements.slice(element, 1), shape)
    {
        let reason = mismatches.first().map(|(_, reason)| reason.to_string()).unwrap_or_default();
        return ErrorKind::Tensor { column: Some(column.to_owned()), row: row as u64, reason }.into();
    }
    let value = text(elements, element);
    if let Conversion::Index(_) = conversion {
        return ErrorKind::NotInVocabulary { column: column.to_owned(), row: row as u64, value }.into();
    }
    let is_beyond_its_type = arrow_cast::cast(&elements.slice(element, 1), value_type(elements.data_type()))
        .is_ok_and(|plain| !convert::beyond_precision(&plain).is_empty());
    if *conversion == Conversion::Text
        && !is_beyond_its_type
        && let Some(NoText { value, data_type, .. }) = find_without_text(&elements.slice(element, 1))
    {
        let (column, row) = (column.to_owned(), row as u64);
        return ErrorKind::NoText(NoTextError { column, row, value, data_type }).into();
    }
    let (column, row) = (column.to_owned(), row as u64);
    let data_type = value_type(elements.data_type()).clone();
    if is_beyond_its_type {
        return ErrorKind::BeyondPrecision { column, row, value, data_type }.into();
    }
    let target = match conversion {
        Conversion::NarrowedFloat64 | Conversion::DecimalFloat => "a float (at most 3.4028235e38)",
        Conversion::Rescaled(_) => "an int64 in the unit chosen",
        _ => "an int64 (at most 9223372036854775807)",
    };
    ErrorKind::OutOfRange { column, row, value, target, data_type }.into()
}

/// Formats a value as text. Dates and times outside the calendar are formatted as the stored number.
fn text(elements: &ArrayRef, element: usize) -> String {
    let options = FormatOptions::default().with_display_error(false);
    let text =
        ArrayFormatter::try_new(elements, &options).and_then(|formatter| formatter.value(element).try_to_string());
    text.unwrap_or_else(|_| integers(elements).get(element).map(i64::to_string).unwrap_or_default())
}

/// The reason why nulls are not allowed, if they are not.
pub(super) fn why_no_null(nullable: bool, nulls: &NullRule) -> Option<&'static str> {
    match nullable {
        false => Some("the schema allows none"),
        true => nulls.is(NullPolicy::Error).then_some("null=error is set"),
    }
}

fn refuse_nulls(mapping: &ColumnMapping, nulls: &NullBuffer) -> Result<()> {
    let rule = match why_no_null(mapping.nullable, &mapping.nulls) {
        Some(rule) if !mapping.features.is_empty() => rule,
        _ => return Ok(()),
    };
    let row = (0..nulls.len()).find(|row| nulls.is_null(*row)).unwrap_or_default() as u64;
    Err(ErrorKind::Null { column: mapping.column.clone(), row, rule }.into())
}

/// The elements of a list column, with those of each row. The elements of other columns are their rows.
fn unnest(array: &ArrayRef) -> (Spans, ArrayRef) {
    fn offsets<O: ArrowNativeType>(offsets: &[O], values: &ArrayRef) -> ArrayRef {
        let first = offsets.first().map_or(0, |offset| offset.as_usize());
        let last = offsets.last().map_or(0, |offset| offset.as_usize());
        values.slice(first, last - first)
    }
    match array.data_type() {
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            (Spans::Offsets32(list.offsets().inner().clone()), offsets(list.offsets(), list.values()))
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            (Spans::Offsets64(list.offsets().inner().clone()), offsets(list.offsets(), list.values()))
        }
        DataType::ListView(_) | DataType::LargeListView(_) => {
            let (views, elements) = lists(array, 0..array.len());
            (Spans::Views(views), elements)
        }
        DataType::FixedSizeList(_, len) => {
            (Spans::Fixed(len.as_usize()), ArrayRef::clone(array.as_fixed_size_list().values()))
        }
        _ => (Spans::One, ArrayRef::clone(array)),
    }
}

/// The values of a dictionary or of runs, and the position of each element's value among them.
pub(super) fn distinct_values(elements: &ArrayRef, conversion: &Conversion) -> (Option<Vec<usize>>, ArrayRef) {
    match elements.data_type() {
        DataType::Dictionary(_, value_type) => {
            let dictionary = elements.as_any_dictionary();
            let values = dictionary.values();
            // A dictionary may be far longer than the batch that uses it. That costs nothing only if its values are
            // used without conversion.
            if values.len() > elements.len()
                && *conversion != Conversion::Bytes
                && let Ok(plain) = arrow_cast::cast(elements, value_type)
            {
                return (None, plain);
            }
            // Keys of nulls are unspecified, and an empty dictionary has only nulls.
            let index = if values.is_empty() { vec![0; elements.len()] } else { dictionary.normalized_keys() };
            (Some(index), ArrayRef::clone(values))
        }
        _ => match Encoded::of(elements) {
            Some(runs) => (Some(runs.positions().to_vec()), ArrayRef::clone(runs.values())),
            None => (None, ArrayRef::clone(elements)),
        },
    }
}
