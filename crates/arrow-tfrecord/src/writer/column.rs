//! The write loops: one feature of one row at a time, with only the kind of its column left to match on.
//!
//! Functions marked `inline(always)` are called from the loop over plain features and from elsewhere. Without the
//! attribute the compiler emits calls, which slow that loop by a seventh.

mod steps;

use std::hint::black_box;
use std::ops::Range;

use arrow_buffer::{Buffer, NullBuffer};

use super::bind::{BoundColumn, Spans, WireNull};
use super::values::{BytesValues, MAX_INLINE, Values};
use crate::feature::{FeatureKind, FeatureMapping};
use crate::wire::{
    FIELD_1, FIELD_2, MAX_VARINT_LEN, Template, field_len, put_bytes, put_header, put_varint, put_varint_of_len,
    varint_len,
};

pub(super) use steps::StepCells;

/// An upper bound of the tags and lengths around the values of one feature, excluding its key.
const FEATURE_OVERHEAD: usize = 5 * (1 + MAX_VARINT_LEN);

/// Padding required after the last value, because short pieces are copied with a constant width.
pub(super) const SPARE: usize = Template::WIDTH;

/// The cache line size of current processors, in bytes.
const CACHE_LINE: usize = 64;

/// The constant width with which short byte strings are copied.
const SHORT: usize = 48;

/// The bytes around the values of one feature, computed once per schema.
#[derive(Debug, Clone)]
pub(super) struct FeaturePlan {
    /// The key, encoded as a field of the map entry.
    key: Box<[u8]>,
    kind: FeatureKind,
    /// The template for one short value.
    template: Option<Template>,
    /// The wire state of nulls, unless the column overrides it: usually absent.
    pub(super) wire_null: WireNull,
    unset: Box<[u8]>,
    empty: Box<[u8]>,
}

impl FeaturePlan {
    pub(super) fn new(feature: &FeatureMapping, null: WireNull) -> Self {
        let name = &feature.name;
        let mut key = vec![0; name.len() + 1 + MAX_VARINT_LEN];
        let end = put_header(&mut key, 0, FIELD_1, name.len());
        let end = put_bytes(&mut key, end, name.as_bytes());
        key.truncate(end);
        let template = Template::new(name, feature.kind).filter(|template| template.longest() >= MAX_VARINT_LEN);
        let (unset, empty) = (Box::default(), Box::default());
        let mut plan = Self { key: key.into(), kind: feature.kind, template, wire_null: null, unset, empty };
        let mut entry = vec![0; plan.key.len() + FEATURE_OVERHEAD];
        let end = plan.put_list_header(&mut entry, 0, 0);
        plan.empty = entry[..end].into();
        let pos = put_header(&mut entry, 0, FIELD_1, plan.key.len() + field_len(0));
        let pos = put_bytes(&mut entry, pos, &plan.key);
        let end = put_header(&mut entry, pos, FIELD_2, 0);
        plan.unset = entry[..end].into();
        plan
    }

    #[cold]
    fn put_null(&self, out: &mut [u8], pos: usize, form: WireNull) -> usize {
        match form {
            WireNull::Absent => pos,
            WireNull::Unset => put_bytes(out, pos, &self.unset),
            WireNull::Empty => put_bytes(out, pos, &self.empty),
        }
    }

    /// Writes everything before the values of a list whose content is `list_len` bytes long.
    fn put_list_header(&self, out: &mut [u8], pos: usize, list_len: usize) -> usize {
        let feature_len = field_len(list_len);
        let entry_len = self.key.len() + field_len(feature_len);
        let pos = put_header(out, pos, FIELD_1, entry_len);
        let pos = put_bytes(out, pos, &self.key);
        let pos = put_header(out, pos, FIELD_2, feature_len);
        put_header(out, pos, self.kind.tag(), list_len)
    }

    /// Writes everything before the one value of a feature: `value_len` bytes.
    #[inline(always)]
    fn put_header(&self, out: &mut [u8], pos: usize, value_len: usize) -> usize {
        match &self.template {
            Some(template) if value_len <= template.longest() => template.put(out, pos, value_len),
            _ => {
                let pos = self.put_list_header(out, pos, field_len(value_len));
                put_header(out, pos, FIELD_1, value_len)
            }
        }
    }
}

/// A bound column and its plan, as plain slices for the loop over rows.
pub(super) struct Cells<'a> {
    plan: &'a FeaturePlan,
    nulls: Option<&'a NullBuffer>,
    null_forms: Option<&'a [WireNull]>,
    /// Whether every null is absent from the record.
    are_absent: bool,
    index: Option<&'a [usize]>,
    values: CellValues<'a>,
}

enum CellValues<'a> {
    Int64(&'a [i64]),
    Float(&'a [f32]),
    Bytes(BytesCells<'a>),
    Int64List(&'a [i64], &'a Spans),
    FloatList(&'a [f32], &'a Spans),
    BytesList(BytesCells<'a>, &'a Spans),
}

#[derive(Clone, Copy)]
enum BytesCells<'a> {
    Offsets32(&'a [i32], &'a [u8]),
    Offsets64(&'a [i64], &'a [u8]),
    Views(&'a [u128], &'a [Buffer]),
    Fixed(usize, &'a [u8]),
}

impl<'a> Cells<'a> {
    pub(super) fn new(column: &'a BoundColumn, plan: &'a FeaturePlan) -> Self {
        let values = match (&column.values, &column.spans) {
            (Values::Int64(values), Spans::One) => CellValues::Int64(values),
            (Values::Float(values), Spans::One) => CellValues::Float(values),
            (Values::Bytes(values), Spans::One) => CellValues::Bytes(values.into()),
            (Values::Int64(values), spans) => CellValues::Int64List(values, spans),
            (Values::Float(values), spans) => CellValues::FloatList(values, spans),
            (Values::Bytes(values), spans) => CellValues::BytesList(values.into(), spans),
        };
        let null_forms = column.null_forms.as_deref();
        let are_absent = null_forms.is_none() && plan.wire_null == WireNull::Absent;
        Self { plan, nulls: column.nulls.as_ref(), null_forms, are_absent, index: column.index.as_deref(), values }
    }

    /// An upper bound of the bytes of the features of `rows`.
    pub(super) fn bound(&self, rows: Range<usize>) -> usize {
        let overhead = rows.len() * (self.plan.key.len() + FEATURE_OVERHEAD);
        let valid = rows.clone().filter(|row| self.nulls.is_none_or(|nulls| nulls.is_valid(*row)));
        overhead
            + match &self.values {
                CellValues::Int64(_) => rows.len() * MAX_VARINT_LEN,
                CellValues::Float(_) => rows.len() * size_of::<f32>(),
                CellValues::Bytes(values) => match self.index {
                    None => values.bound(rows, self.nulls),
                    Some(index) => valid.map(|row| values.len(index[row])).sum(),
                },
                CellValues::Int64List(_, spans) => spans.elements(rows) * MAX_VARINT_LEN,
                CellValues::FloatList(_, spans) => spans.elements(rows) * size_of::<f32>(),
                CellValues::BytesList(values, spans) => {
                    let elements = valid.flat_map(|row| spans.row(row));
                    elements.map(|element| 1 + MAX_VARINT_LEN + values.len(self.position(element))).sum()
                }
            }
    }

    /// Touches every cache line of the values of `rows`. The processor can prefetch within a column. Row by row there
    /// are too many columns for that, and every line would be a cache miss.
    pub(super) fn touch(&self, rows: Range<usize>) {
        fn lines<T: Copy>(values: &[T]) {
            for value in values.iter().step_by(CACHE_LINE / size_of::<T>()) {
                black_box(*value);
            }
        }

        let data_of = |data: &'a [u8], start: usize, end: usize| data.get(start..end).unwrap_or_default();
        match (&self.values, self.index) {
            (CellValues::Int64(values), None) => lines(values.get(rows).unwrap_or_default()),
            (CellValues::Float(values), None) => lines(values.get(rows).unwrap_or_default()),
            (CellValues::Bytes(BytesCells::Offsets32(offsets, data)), None) => {
                lines(data_of(data, offsets[rows.start] as usize, offsets[rows.end] as usize));
            }
            (CellValues::Bytes(BytesCells::Offsets64(offsets, data)), None) => {
                lines(data_of(data, offsets[rows.start] as usize, offsets[rows.end] as usize));
            }
            _ => {}
        }
    }

    fn is_null(&self, row: usize) -> bool {
        self.nulls.is_some_and(|nulls| nulls.is_null(row))
    }

    /// The wire state of the null in `row`.
    fn null_form(&self, row: usize) -> WireNull {
        self.null_forms.map_or(self.plan.wire_null, |forms| forms[row])
    }

    #[inline(always)]
    fn position(&self, element: usize) -> usize {
        match self.index {
            Some(index) => index[element],
            None => element,
        }
    }

    /// Writes the feature of `row`, or the wire state of its null, and returns the position after it.
    #[inline(always)]
    pub(super) fn put(&self, out: &mut [u8], pos: usize, row: usize) -> usize {
        if let Some(nulls) = self.nulls
            && nulls.is_null(row)
        {
            return if self.are_absent { pos } else { self.plan.put_null(out, pos, self.null_form(row)) };
        }
        match &self.values {
            CellValues::Int64(values) => {
                let value = values[self.position(row)] as u64;
                let len = varint_len(value);
                let pos = self.plan.put_header(out, pos, len);
                put_varint_of_len(out, pos, value, len)
            }
            CellValues::Float(values) => {
                let value = values[self.position(row)].to_le_bytes();
                let pos = self.plan.put_header(out, pos, value.len());
                put_bytes(out, pos, &value)
            }
            CellValues::Bytes(values) => {
                let position = self.position(row);
                let len = values.len(position);
                let pos = self.plan.put_header(out, pos, len);
                values.put(out, pos, position, len)
            }
            CellValues::Int64List(values, spans) => self.put_int64_list(out, pos, values, spans.row(row)),
            CellValues::FloatList(values, spans) => self.put_float_list(out, pos, values, spans.row(row)),
            CellValues::BytesList(values, spans) => self.put_bytes_list(out, pos, values, spans.row(row)),
        }
    }

    /// Writes the bare value of `row`: a record of type bytes.
    pub(super) fn put_bare(&self, out: &mut [u8], pos: usize, row: usize) -> usize {
        match &self.values {
            CellValues::Bytes(values) if !self.is_null(row) => {
                let position = self.position(row);
                values.put(out, pos, position, values.len(position))
            }
            _ => pos,
        }
    }

    fn put_int64_list(&self, out: &mut [u8], pos: usize, values: &[i64], span: Range<usize>) -> usize {
        if span.is_empty() {
            return self.plan.put_list_header(out, pos, 0);
        }
        match self.index {
            None => self.put_varints(out, pos, values[span].iter().copied()),
            Some(index) => self.put_varints(out, pos, index[span].iter().map(|position| values[*position])),
        }
    }

    #[inline]
    fn put_varints(&self, out: &mut [u8], pos: usize, values: impl Iterator<Item = i64> + Clone) -> usize {
        let packed_len = values.clone().map(|value| varint_len(value as u64)).sum();
        let pos = self.plan.put_list_header(out, pos, field_len(packed_len));
        let pos = put_header(out, pos, FIELD_1, packed_len);
        values.fold(pos, |pos, value| put_varint(out, pos, value as u64))
    }

    fn put_float_list(&self, out: &mut [u8], pos: usize, values: &[f32], span: Range<usize>) -> usize {
        if span.is_empty() {
            return self.plan.put_list_header(out, pos, 0);
        }
        let packed_len = span.len() * size_of::<f32>();
        let pos = self.plan.put_list_header(out, pos, field_len(packed_len));
        let pos = put_header(out, pos, FIELD_1, packed_len);
        let end = pos + packed_len;
        let (slots, _) = out[pos..end].as_chunks_mut();
        match self.index {
            None => {
                for (slot, value) in slots.iter_mut().zip(&values[span]) {
                    *slot = value.to_le_bytes();
                }
            }
            Some(index) => {
                for (slot, position) in slots.iter_mut().zip(&index[span]) {
                    *slot = values[*position].to_le_bytes();
                }
            }
        }
        end
    }

    fn put_bytes_list(&self, out: &mut [u8], pos: usize, values: &BytesCells<'_>, span: Range<usize>) -> usize {
        let positions = span.map(|element| self.position(element));
        let list_len = positions.clone().map(|position| field_len(values.len(position))).sum();
        let pos = self.plan.put_list_header(out, pos, list_len);
        positions.fold(pos, |pos, position| {
            let len = values.len(position);
            let pos = put_header(out, pos, FIELD_1, len);
            values.put(out, pos, position, len)
        })
    }
}

impl<'a> From<&'a BytesValues> for BytesCells<'a> {
    fn from(values: &'a BytesValues) -> Self {
        match values {
            BytesValues::Offsets32 { offsets, data } => Self::Offsets32(offsets, data),
            BytesValues::Offsets64 { offsets, data } => Self::Offsets64(offsets, data),
            BytesValues::Views { views, data } => Self::Views(views, data),
            BytesValues::Fixed { width, data } => Self::Fixed(*width, data),
        }
    }
}

impl BytesCells<'_> {
    /// Bytes of the value at `position`.
    #[inline(always)]
    fn len(&self, position: usize) -> usize {
        match self {
            Self::Offsets32(offsets, _) => (offsets[position + 1] - offsets[position]) as usize,
            Self::Offsets64(offsets, _) => (offsets[position + 1] - offsets[position]) as usize,
            Self::Views(views, _) => views[position] as u32 as usize,
            Self::Fixed(width, _) => *width,
        }
    }

    /// An upper bound of the bytes of the values of `rows`.
    fn bound(&self, rows: Range<usize>, nulls: Option<&NullBuffer>) -> usize {
        match self {
            Self::Offsets32(offsets, _) => (offsets[rows.end] - offsets[rows.start]) as usize,
            Self::Offsets64(offsets, _) => (offsets[rows.end] - offsets[rows.start]) as usize,
            Self::Fixed(width, _) => width * rows.len(),
            // Values under a null are unspecified.
            Self::Views(..) => {
                rows.filter(|row| nulls.is_none_or(|nulls| nulls.is_valid(*row))).map(|row| self.len(row)).sum()
            }
        }
    }

    /// Copies the value at `position`, which has `len` bytes, and returns the position after it.
    #[inline(always)]
    fn put(&self, out: &mut [u8], pos: usize, position: usize, len: usize) -> usize {
        match self {
            Self::Offsets32(offsets, data) => put_short(out, pos, data, offsets[position] as usize, len),
            Self::Offsets64(offsets, data) => put_short(out, pos, data, offsets[position] as usize, len),
            Self::Fixed(width, data) => put_short(out, pos, data, position * width, len),
            Self::Views(views, data) => {
                let view = views[position];
                if len <= MAX_INLINE {
                    out[pos..pos + MAX_INLINE].copy_from_slice(&view.to_le_bytes()[4..]);
                    pos + len
                } else {
                    let buffer = (view >> 64) as u32 as usize;
                    let offset = (view >> 96) as usize;
                    put_short(out, pos, &data[buffer], offset, len)
                }
            }
        }
    }
}

/// Copies `data[start..start + len]`, usually shorter than [`SHORT`], to `pos`.
#[inline(always)]
fn put_short(out: &mut [u8], pos: usize, data: &[u8], start: usize, len: usize) -> usize {
    if len <= SHORT
        && let Some(source) = data.get(start..start + SHORT)
    {
        out[pos..pos + SHORT].copy_from_slice(source);
    } else {
        out[pos..pos + len].copy_from_slice(&data[start..start + len]);
    }
    pos + len
}
