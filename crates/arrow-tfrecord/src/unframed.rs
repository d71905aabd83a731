//! Unframed records in a binary column: [`Encoder::serialize`] and [`RecordParser`].

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BooleanArray, LargeBinaryArray, RecordBatch, RecordBatchOptions, StructArray, UInt64Array,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use arrow_select::filter::FilterBuilder;
use arrow_select::take::take;
use tfr_arrow::nested::value_type;
use tfrecord_framing::{FOOTER_LEN, HEADER_LEN, Position};

use crate::dtype::of_type;
use crate::error::{ErrorKind, Result};
use crate::mapping::Mapping;
use crate::reader::{Record, RowDecoder, check_row_len};
use crate::record_buffer::RecordBuffer;
use crate::writer::Encoder;

/// Rows per block: the records of a block are copied while they are still in the cache.
const BLOCK_ROWS: usize = 256;

impl Encoder {
    /// Serializes every element of `rows` as a record without a frame: the input of `tf.io.parse_example`. The fields
    /// are the columns. Nulls stay null.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use arrow_array::{ArrayRef, Int64Array, StructArray};
    /// use arrow_schema::Schema;
    /// use arrow_tfrecord::{Encoder, Mapping, MappingOptions, RecordParser};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let rows = StructArray::try_from(vec![("a", Arc::new(Int64Array::from(vec![7])) as ArrayRef)])?;
    /// let schema = Arc::new(Schema::new(rows.fields().clone()));
    /// let mapping = Arc::new(Mapping::try_new(&schema, &MappingOptions::default())?);
    /// let records = Encoder::new(Arc::clone(&mapping)).serialize(&rows)?;
    /// assert_eq!(records.value(0), b"\x0a\x0c\x0a\x0a\x0a\x01a\x12\x05\x1a\x03\x0a\x01\x07");
    /// assert_eq!(RecordParser::try_new(&mapping)?.parse(&records)?, rows);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`encode`](Self::encode).
    pub fn serialize(&self, rows: &StructArray) -> Result<LargeBinaryArray> {
        let nulls = rows.nulls().filter(|nulls| nulls.null_count() > 0);
        let Some(nulls) = nulls else { return self.serialize_all(rows.columns(), rows.len(), None) };
        // Values under a null are unspecified and must not cause errors.
        let valid = BooleanArray::new(nulls.inner().clone(), None);
        let predicate = FilterBuilder::new(&valid).optimize().build();
        let column = |column: &ArrayRef| of_type(predicate.filter(column)?, column.data_type());
        let columns = rows.columns().iter().map(column).collect::<Result<Vec<_>, _>>();
        let columns = columns.map_err(|source| ErrorKind::Arrow { source })?;
        let row = |row: u64| nulls.valid_indices().nth(row as usize).map_or(row, |row| row as u64);
        self.serialize_all(&columns, predicate.count(), Some(nulls)).map_err(|error| error.map_row(row))
    }

    /// Serializes a record for each row of `columns`, with no bytes for rows in `nulls`.
    fn serialize_all(&self, columns: &[ArrayRef], rows: usize, nulls: Option<&NullBuffer>) -> Result<LargeBinaryArray> {
        let arrow = |source: ArrowError| ErrorKind::Arrow { source };
        let fields: Vec<_> = self.mapping().schema().fields().iter().zip(columns).collect();
        let fields = fields.into_iter().map(|(field, column)| {
            // The mapping ignores the names of fields within list types.
            field.as_ref().clone().with_data_type(column.data_type().clone())
        });
        let schema = Schema::new(fields.collect::<Vec<_>>());
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(schema.into(), columns.to_vec(), &options).map_err(arrow)?;
        let bound = self.bind(&batch)?;
        let mut records = RecordBuffer::default();
        let (mut data, mut lengths) = (Vec::new(), Vec::with_capacity(rows));
        for start in (0..rows).step_by(BLOCK_ROWS) {
            records.clear();
            bound.encode(start..start + BLOCK_ROWS, &mut records)?;
            for record in 0..records.len() {
                let payload = records.payload(record);
                data.extend_from_slice(payload);
                lengths.push(payload.len());
            }
        }
        let offsets = match nulls {
            None => OffsetBuffer::from_lengths(lengths),
            Some(nulls) => {
                let mut lengths = lengths.into_iter();
                let length = |is_valid: bool| if is_valid { lengths.next().unwrap_or_default() } else { 0 };
                OffsetBuffer::from_lengths(nulls.iter().map(length).collect::<Vec<_>>())
            }
        };
        Ok(LargeBinaryArray::try_new(offsets, Buffer::from_vec(data), nulls.cloned()).map_err(arrow)?)
    }
}

/// Decodes unframed records in a binary column: the output of [`Encoder::serialize`], or records nested in records.
///
/// For framed records, use [`Reader`](crate::Reader) or [`Decoder`](crate::Decoder).
#[derive(Debug)]
pub struct RecordParser {
    schema: SchemaRef,
    rows: RowDecoder,
}

impl RecordParser {
    /// Creates a parser of records with the columns of `mapping`.
    ///
    /// # Errors
    /// Fails on a column whose text form cannot be parsed, or whose rows exceed the maximum size of a batch.
    pub fn try_new(mapping: &Mapping) -> Result<Self> {
        check_row_len(mapping)?;
        let columns: Vec<_> = (0..mapping.columns().len()).collect();
        Ok(Self { schema: SchemaRef::clone(mapping.schema()), rows: RowDecoder::try_new(mapping, &columns)? })
    }

    /// The columns: the fields of the parsed structs.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Parses `records`, a binary array of any layout with one record per element. Nulls stay null.
    ///
    /// # Errors
    /// Those of [`Decoder::flush`](crate::Decoder::flush), or if `records` are not binary. Reported positions are those of
    /// a file with only these records.
    pub fn parse(&mut self, records: &dyn Array) -> Result<StructArray> {
        if !is_binary(records.data_type()) {
            let (expected, found) = ("binary records".to_owned(), records.data_type().to_string());
            return Err(ErrorKind::SchemaMismatch { expected, found }.into());
        }
        let arrow = |source: ArrowError| ErrorKind::Arrow { source };
        let records = arrow_cast::cast(records, &DataType::LargeBinary).map_err(arrow)?;
        let records = records.as_binary::<i64>();
        let nulls = records.nulls().filter(|nulls| nulls.null_count() > 0);
        let mut byte = 0;
        let offsets = records.value_offsets().windows(2).enumerate();
        let payloads = offsets.filter_map(|(row, pair)| {
            let payload = pair[0] as usize..pair[1] as usize;
            let position = Position { record: row as u64, byte };
            byte += (HEADER_LEN + payload.len() + FOOTER_LEN) as u64;
            let is_valid = nulls.is_none_or(|nulls| nulls.is_valid(row));
            is_valid.then_some(Record { payload, position })
        });
        let payloads: Vec<_> = payloads.collect();
        let parsed = self.rows.append(records.value_data(), &payloads).and_then(|()| self.rows.finish());
        self.rows.clear();
        let parsed = parsed?;
        let fields = self.schema.fields().clone();
        let columns = match nulls {
            None => parsed.columns().to_vec(),
            Some(nulls) => {
                let mut next = 0..;
                let places: UInt64Array =
                    nulls.iter().map(|is_valid| is_valid.then(|| next.next()).flatten()).collect();
                let column = |column: &ArrayRef| of_type(take(column, &places, None)?, column.data_type());
                parsed.columns().iter().map(column).collect::<Result<_, _>>().map_err(arrow)?
            }
        };
        let rows = StructArray::try_new_with_length(fields, columns, nulls.cloned(), records.len());
        Ok(rows.map_err(arrow)?)
    }
}

/// Whether an array has bytes or text as values. A cast makes bytes of the numbers of others, too.
fn is_binary(data_type: &DataType) -> bool {
    let values = value_type(data_type);
    values.is_binary() || values.is_string() || matches!(values, DataType::FixedSizeBinary(_))
}
