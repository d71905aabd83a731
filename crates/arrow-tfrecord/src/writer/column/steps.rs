//! The write loops of feature lists: [`StepCells`].

use std::ops::Range;

use super::super::bind::{BoundColumn, BoundSteps, WireNull};
use super::{BytesCells, CellValues, Cells, FEATURE_OVERHEAD, FeaturePlan};
use crate::wire::{FIELD_1, FIELD_2, MAX_VARINT_LEN, field_len, put_bytes, put_header, put_varint, varint_len};

/// An upper bound of the tags and lengths around the features of an example.
const EXAMPLE_OVERHEAD: usize = 2 * (1 + MAX_VARINT_LEN);

/// Features of steps, which have no name.
impl Cells<'_> {
    /// Bytes of the feature of a step.
    fn feature_len(&self, step: usize) -> usize {
        if self.is_null(step) {
            return match self.null_form(step) {
                WireNull::Absent | WireNull::Unset => 0,
                WireNull::Empty => field_len(0),
            };
        }
        field_len(self.list_len(step))
    }

    /// Bytes of the list of a step.
    fn list_len(&self, step: usize) -> usize {
        let packed = |len: usize| if len == 0 { 0 } else { field_len(len) };
        let ints = |values: &[i64], mut span: Range<usize>| {
            packed(span.by_ref().map(|element| varint_len(values[self.position(element)] as u64)).sum())
        };
        let bytes = |values: &BytesCells<'_>, span: Range<usize>| {
            span.map(|element| field_len(values.len(self.position(element)))).sum()
        };
        match &self.values {
            CellValues::Int64(values) => ints(values, step..step + 1),
            CellValues::Int64List(values, spans) => ints(values, spans.row(step)),
            CellValues::Float(_) => packed(size_of::<f32>()),
            CellValues::FloatList(_, spans) => packed(spans.row(step).len() * size_of::<f32>()),
            CellValues::Bytes(values) => bytes(values, step..step + 1),
            CellValues::BytesList(values, spans) => bytes(values, spans.row(step)),
        }
    }

    /// Writes the feature of a step as an element of a feature list, and returns the position after it.
    fn put_step(&self, out: &mut [u8], pos: usize, step: usize) -> usize {
        let pos = put_header(out, pos, FIELD_1, self.feature_len(step));
        if self.is_null(step) {
            return match self.null_form(step) {
                WireNull::Empty => put_header(out, pos, self.plan.kind.tag(), 0),
                WireNull::Absent | WireNull::Unset => pos,
            };
        }
        let list_len = self.list_len(step);
        let mut pos = put_header(out, pos, self.plan.kind.tag(), list_len);
        let span = match &self.values {
            CellValues::Int64(_) | CellValues::Float(_) | CellValues::Bytes(_) => step..step + 1,
            CellValues::Int64List(_, spans) | CellValues::FloatList(_, spans) | CellValues::BytesList(_, spans) => {
                spans.row(step)
            }
        };
        if span.is_empty() {
            return pos;
        }
        match &self.values {
            CellValues::Int64(values) | CellValues::Int64List(values, _) => {
                let values = span.map(|element| values[self.position(element)] as u64);
                pos = put_header(out, pos, FIELD_1, values.clone().map(varint_len).sum());
                values.fold(pos, |pos, value| put_varint(out, pos, value))
            }
            CellValues::Float(values) | CellValues::FloatList(values, _) => {
                pos = put_header(out, pos, FIELD_1, span.len() * size_of::<f32>());
                span.fold(pos, |pos, element| put_bytes(out, pos, &values[self.position(element)].to_le_bytes()))
            }
            CellValues::Bytes(values) | CellValues::BytesList(values, _) => span.fold(pos, |pos, element| {
                let position = self.position(element);
                let len = values.len(position);
                let pos = put_header(out, pos, FIELD_1, len);
                values.put(out, pos, position, len)
            }),
        }
    }
}

/// A column of feature lists: its features by step, and the steps of each row.
pub(in crate::writer) struct StepCells<'a> {
    cells: Cells<'a>,
    steps: &'a BoundSteps,
}

impl<'a> StepCells<'a> {
    /// Returns `None` if the column has no steps.
    pub(in crate::writer) fn new(column: &'a BoundColumn, plan: &'a FeaturePlan) -> Option<Self> {
        let steps = column.steps.as_ref()?;
        Some(Self { cells: Cells::new(column, plan), steps })
    }

    /// The steps, or examples, of `row`.
    pub(in crate::writer) fn steps(&self, row: usize) -> Range<usize> {
        self.steps.spans.row(row)
    }

    /// Writes the feature of a step as that of a row, with its name, and returns the position after it.
    pub(in crate::writer) fn put_as_row(&self, out: &mut [u8], pos: usize, step: usize) -> usize {
        self.cells.put(out, pos, step)
    }

    /// An upper bound of the bytes of the feature lists of `rows`, or of their examples.
    pub(in crate::writer) fn bound(&self, rows: Range<usize>) -> usize {
        if rows.is_empty() {
            return 0;
        }
        let steps = self.steps.spans.row(rows.start).start..self.steps.spans.row(rows.end - 1).end;
        let around = rows.len() * (self.cells.plan.key.len() + FEATURE_OVERHEAD) + steps.len() * EXAMPLE_OVERHEAD;
        around + self.cells.bound(steps)
    }

    /// Writes the feature list of `row`, or nothing if it is null, and returns the position after it.
    pub(in crate::writer) fn put(&self, out: &mut [u8], pos: usize, row: usize) -> usize {
        if self.steps.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return pos;
        }
        let (cells, steps) = (&self.cells, self.steps.spans.row(row));
        let list_len = steps.clone().map(|step| field_len(cells.feature_len(step))).sum();
        let key = &cells.plan.key;
        let pos = put_header(out, pos, FIELD_1, key.len() + field_len(list_len));
        let pos = put_bytes(out, pos, key);
        let pos = put_header(out, pos, FIELD_2, list_len);
        steps.fold(pos, |pos, step| cells.put_step(out, pos, step))
    }
}
