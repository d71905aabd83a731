//! [`buffers`]: rejects buffers that are too short or too long for the number of values.
//!
//! arrow-ipc takes the first bytes of a longer buffer as the values. It panics on a short one in a union.

use arrow_ipc::{MetadataVersion, RecordBatch};
use arrow_schema::{DataType, Field, UnionMode};

use super::refusal::{Refusal, damaged};

/// Writers pad buffers to a multiple of this number of bytes, and some record the padded length.
const PADDING: u64 = 64;

/// Checks the buffers of a batch with these columns; `lengths`: those of the buffers, decompressed.
pub(super) fn buffers<'a>(
    batch: &RecordBatch<'_>,
    lengths: Vec<u64>,
    fields: impl Iterator<Item = &'a Field>,
    version: MetadataVersion,
) -> Result<(), Refusal> {
    let nodes = batch.nodes().into_iter().flatten().map(|node| node.length().unsigned_abs());
    let views = batch.variadicBufferCounts().into_iter().flatten();
    let mut columns = Columns {
        nodes: Box::new(nodes),
        lengths: lengths.into_iter(),
        views: Box::new(views),
        has_union_nulls: version < MetadataVersion::V5,
    };
    for field in fields {
        columns.field(field)?;
    }
    Ok(())
}

/// Iterates over the columns of a batch in order, depth first.
struct Columns<'a> {
    /// The number of values of each column.
    nodes: Box<dyn Iterator<Item = u64> + 'a>,
    lengths: std::vec::IntoIter<u64>,
    /// The number of variadic buffers for each view column.
    views: Box<dyn Iterator<Item = i64> + 'a>,
    /// Whether unions have a null buffer.
    has_union_nulls: bool,
}

impl Columns<'_> {
    fn field(&mut self, field: &Field) -> Result<(), Refusal> {
        use DataType::{
            Binary, BinaryView, Boolean, Dictionary, FixedSizeBinary, FixedSizeList, LargeBinary, LargeList,
            LargeListView, LargeUtf8, List, ListView, Map, Null, RunEndEncoded, Struct, Union, Utf8, Utf8View,
        };
        let Some(rows) = self.nodes.next() else { return damaged("a batch has fewer columns than its schema") };
        let data_type = field.data_type();
        if !matches!(data_type, Null | RunEndEncoded(..)) && (!matches!(data_type, Union(..)) || self.has_union_nulls) {
            let nulls = self.next()?;
            // There is no buffer if no value is null.
            if nulls > 0 {
                self.require(field, rows, nulls, rows.div_ceil(8))?;
            }
        }
        match data_type {
            Null => {}
            Boolean => self.values(field, rows, rows.div_ceil(8))?,
            FixedSizeBinary(size) => self.values(field, rows, rows.saturating_mul(size.unsigned_abs().into()))?,
            Utf8 | Binary => {
                self.offsets(field, rows, 4)?;
                self.next()?;
            }
            LargeUtf8 | LargeBinary => {
                self.offsets(field, rows, 8)?;
                self.next()?;
            }
            Utf8View | BinaryView => {
                self.values(field, rows, rows.saturating_mul(16))?;
                for _ in 0..self.views.next().unwrap_or_default() {
                    self.next()?;
                }
            }
            List(item) | Map(item, _) => {
                self.offsets(field, rows, 4)?;
                self.field(item)?;
            }
            LargeList(item) => {
                self.offsets(field, rows, 8)?;
                self.field(item)?;
            }
            ListView(item) | LargeListView(item) => {
                let width = if matches!(data_type, ListView(_)) { 4 } else { 8 };
                self.values(field, rows, rows.saturating_mul(width))?;
                self.values(field, rows, rows.saturating_mul(width))?;
                self.field(item)?;
            }
            FixedSizeList(item, _) => self.field(item)?,
            Struct(fields) => fields.iter().try_for_each(|field| self.field(field))?,
            RunEndEncoded(ends, values) => {
                self.field(ends)?;
                self.field(values)?;
            }
            Union(fields, mode) => {
                self.values(field, rows, rows)?;
                if *mode == UnionMode::Dense {
                    self.values(field, rows, rows.saturating_mul(4))?;
                }
                fields.iter().try_for_each(|(_, field)| self.field(field))?;
            }
            Dictionary(numbers, _) => self.numbers(field, rows, numbers)?,
            numbers => self.numbers(field, rows, numbers)?,
        }
        Ok(())
    }

    fn next(&mut self) -> Result<u64, Refusal> {
        match self.lengths.next() {
            Some(len) => Ok(len),
            None => damaged("a batch has fewer buffers than its columns need"),
        }
    }

    fn numbers(&mut self, field: &Field, rows: u64, data_type: &DataType) -> Result<(), Refusal> {
        let width = data_type.primitive_width().unwrap_or(1) as u64;
        self.values(field, rows, rows.saturating_mul(width))
    }

    /// Checks the next buffer, which has one offset more than values. It may be empty if there are no values.
    fn offsets(&mut self, field: &Field, rows: u64, width: u64) -> Result<(), Refusal> {
        let len = self.next()?;
        match rows == 0 && len == 0 {
            true => Ok(()),
            false => self.require(field, rows, len, rows.saturating_add(1).saturating_mul(width)),
        }
    }

    /// Checks the next buffer.
    fn values(&mut self, field: &Field, rows: u64, expected: u64) -> Result<(), Refusal> {
        let len = self.next()?;
        self.require(field, rows, len, expected)
    }

    fn require(&self, field: &Field, rows: u64, len: u64, expected: u64) -> Result<(), Refusal> {
        // The padding may be that of a buffer with one value more, such as an offset.
        let most = expected.saturating_add(2 * PADDING - 1) / PADDING * PADDING;
        match (expected..=most).contains(&len) {
            true => Ok(()),
            false => {
                let (name, data_type) = (field.name(), field.data_type());
                damaged(format!(
                    "column \"{name}\" has {rows} values of type {data_type}, which need {expected} bytes, but its \
                     buffer has {len}"
                ))
            }
        }
    }
}
