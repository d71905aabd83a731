//! Byte-swaps the numbers of a big-endian body.

use arrow_buffer::Buffer;
use arrow_ipc::{MetadataVersion, RecordBatch};
use arrow_schema::{DataType, Field, IntervalUnit, UnionMode};

use super::refusal::{Refusal, damaged};

/// The longest value stored inline in a view; longer ones are referenced by buffer index and offset.
const MAX_INLINE_LEN: u32 = 12;

/// Returns a copy of `body` with the numbers of all `fields` in little-endian order.
pub(super) fn swapped<'a>(
    batch: &RecordBatch<'_>,
    body: &[u8],
    fields: impl Iterator<Item = &'a Field>,
    version: MetadataVersion,
) -> Result<Buffer, Refusal> {
    if batch.compression().is_some() {
        return Err(Refusal::Unsupported("compressed big-endian Arrow IPC"));
    }
    let buffers = batch.buffers().into_iter().flatten();
    let ranges = buffers.map(|buffer| buffer.offset() as usize..buffer.offset() as usize + buffer.length() as usize);
    let views = batch.variadicBufferCounts().into_iter().flatten();
    let mut swap = Swap {
        body: body.to_vec(),
        ranges: Box::new(ranges),
        views: Box::new(views),
        has_union_nulls: version < MetadataVersion::V5,
    };
    for field in fields {
        swap.field(field.data_type())?;
    }
    Ok(Buffer::from_vec(swap.body))
}

/// Iterates over the buffers of a batch in column order.
struct Swap<'a> {
    body: Vec<u8>,
    /// The ranges of the buffers in the body, checked to be inside.
    ranges: Box<dyn Iterator<Item = std::ops::Range<usize>> + 'a>,
    /// The number of variadic buffers for each view column.
    views: Box<dyn Iterator<Item = i64> + 'a>,
    /// Whether unions have a null buffer.
    has_union_nulls: bool,
}

impl Swap<'_> {
    fn field(&mut self, data_type: &DataType) -> Result<(), Refusal> {
        use DataType::{
            Binary, BinaryView, Boolean, Dictionary, FixedSizeBinary, FixedSizeList, Interval, LargeBinary, LargeList,
            LargeListView, LargeUtf8, List, ListView, Map, Null, RunEndEncoded, Struct, Union, Utf8, Utf8View,
        };
        if !matches!(data_type, Null | RunEndEncoded(..)) && (!matches!(data_type, Union(..)) || self.has_union_nulls) {
            self.next()?;
        }
        match data_type {
            Null => {}
            Boolean | FixedSizeBinary(_) => drop(self.next()?),
            Utf8 | Binary => {
                self.numbers(&[4])?;
                self.next()?;
            }
            LargeUtf8 | LargeBinary => {
                self.numbers(&[8])?;
                self.next()?;
            }
            Utf8View | BinaryView => {
                self.view_structs()?;
                for _ in 0..self.views.next().unwrap_or_default() {
                    self.next()?;
                }
            }
            List(item) | Map(item, _) => {
                self.numbers(&[4])?;
                self.field(item.data_type())?;
            }
            LargeList(item) => {
                self.numbers(&[8])?;
                self.field(item.data_type())?;
            }
            ListView(item) => {
                self.numbers(&[4])?;
                self.numbers(&[4])?;
                self.field(item.data_type())?;
            }
            LargeListView(item) => {
                self.numbers(&[8])?;
                self.numbers(&[8])?;
                self.field(item.data_type())?;
            }
            FixedSizeList(item, _) => self.field(item.data_type())?,
            Struct(fields) => fields.iter().try_for_each(|field| self.field(field.data_type()))?,
            RunEndEncoded(ends, values) => {
                self.field(ends.data_type())?;
                self.field(values.data_type())?;
            }
            Dictionary(keys, _) => self.numbers(&[keys.primitive_width().unwrap_or(1)])?,
            Union(fields, mode) => {
                self.next()?;
                if *mode == UnionMode::Dense {
                    self.numbers(&[4])?;
                }
                fields.iter().try_for_each(|(_, field)| self.field(field.data_type()))?;
            }
            Interval(IntervalUnit::DayTime) => self.numbers(&[4, 4])?,
            Interval(IntervalUnit::MonthDayNano) => self.numbers(&[4, 4, 8])?,
            number => self.numbers(&[number.primitive_width().unwrap_or(1)])?,
        }
        Ok(())
    }

    fn next(&mut self) -> Result<&mut [u8], Refusal> {
        match self.ranges.next().and_then(|range| self.body.get_mut(range)) {
            Some(buffer) => Ok(buffer),
            None => damaged("a batch has fewer buffers than its columns need"),
        }
    }

    /// Swaps the numbers of the next buffer, which have these widths in rotation.
    fn numbers(&mut self, widths: &[usize]) -> Result<(), Refusal> {
        let mut rest = self.next()?;
        for width in widths.iter().cycle() {
            let Some((number, behind)) = rest.split_at_mut_checked(*width) else { break };
            number.reverse();
            rest = behind;
        }
        Ok(())
    }

    fn view_structs(&mut self) -> Result<(), Refusal> {
        for view in self.next()?.chunks_exact_mut(16) {
            let (len, rest) = view.split_at_mut(4);
            len.reverse();
            if u32::from_le_bytes([len[0], len[1], len[2], len[3]]) > MAX_INLINE_LEN {
                // After the value's four-byte prefix.
                rest[4..8].reverse();
                rest[8..].reverse();
            }
        }
        Ok(())
    }
}
