//! [`Snapshot`]: a table as a saved dataset of `tf.data`, which `tf.data.Dataset.load(dir)` opens: native types, known
//! cardinality, nothing to parse.
//!
//! ```text
//! dir/dataset_spec.pb                                    the types: a StructuredValue
//! dir/snapshot.metadata                                  the run and the number of elements: a SnapshotMetadataRecord
//! dir/<run>/00000000.shard/00000000.snapshot             TFRecord: a TensorProto for each component of each element
//! dir/<run>/00000001.shard/00000000.snapshot
//! ```
//!
//! An element is a dict by column. Its components are in the order of `tf.nest`: keys sorted, nested dicts by their own
//! keys.
//!
//! | column | component |
//! |---|---|
//! | integers, floats of 16, 32 and 64 bits, booleans | a scalar of the same type |
//! | text, bytes | a scalar string |
//! | dates, times, timestamps, durations | an integer of the same width, in the unit of the column |
//! | a list | a tensor of one unknown dimension, which `dataset.ragged_batch(64)` batches to a `RaggedTensor` |
//! | a fixed-size list | a tensor of that shape |
//! | lists of lists, of equal length within a row | a tensor of as many dimensions |
//! | a struct | a dict |
//!
//! Tensors have no nulls: [`SnapshotNulls`] specifies how they are written. Decimals are rounded to the nearest
//! double. Maps and lists of structs have no tensor type and are rejected.
//!
//! Dataset.load does not detect the compression of chunks. Specify it: `tf.data.Dataset.load(dir, compression="GZIP")`.
//!
//! Source: `tensorflow/core/data/snapshot_utils.cc`, version 2 of the format;
//! `tensorflow/python/data/ops/{save,load}_op.py`.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BooleanArray, FixedSizeListArray, Int64Array, LargeBinaryArray, LargeListArray, RecordBatch,
    StringArray, new_empty_array,
};
use arrow_buffer::{ArrowNativeType, NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Fields, Schema};
use arrow_tfrecord::{RecordBuffer, serialize_tensor};
use prost::Message;
use tfr_arrow::nested::{item, value_type};
use tfr_proto::tensorflow::data::experimental::SnapshotMetadataRecord;
use tfr_proto::tensorflow::structured_value::Kind;
use tfr_proto::tensorflow::tensor_shape_proto::Dim;
use tfr_proto::tensorflow::{DataType as Dtype, DictValue, StructuredValue, TensorShapeProto, TensorSpecProto};
use tfrecord_framing::{MAX_RECORD_LEN, append_record};

use crate::error::{Error, ErrorKind, Result};

/// The name of the file with the types.
pub const DATASET_SPEC_NAME: &str = "dataset_spec.pb";

/// The name of the file with the run and the number of elements.
pub const METADATA_NAME: &str = "snapshot.metadata";

/// The version of the format: chunks are TFRecord files.
/// Source: `kCurrentVersion` of `tensorflow/core/kernels/data/experimental/snapshot_dataset_op.cc` and of `SaveDatasetV2`.
const VERSION: i64 = 2;

/// The suffix of the key of a column's null mask.
const MASK: &str = "/is_null";

/// How nulls are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum SnapshotNulls {
    /// Rejects nulls with an error that names the column and the row.
    #[default]
    Refuse,
    /// Writes a null as zero, no bytes or an empty list, and adds a boolean mask `c/is_null` for each nullable column
    /// `c`. Nulls in lists are errors.
    Mask,
}

/// Writes the rows of a table as elements of a saved dataset.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float64Array, Int32Array, RecordBatch};
/// use arrow_tfrecord::RecordBuffer;
/// use tfrecord_sidecars::snapshot::{Snapshot, SnapshotNulls, chunk_path};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let batch = RecordBatch::try_from_iter([
///     ("price", Arc::new(Float64Array::from(vec![9.5, 0.25])) as ArrayRef),
///     ("id", Arc::new(Int32Array::from(vec![1, 2]))),
/// ])?;
/// let snapshot = Snapshot::try_new(&batch.schema(), SnapshotNulls::Refuse)?;
/// let mut records = RecordBuffer::default();
/// snapshot.encode(&batch, &mut records)?;
/// assert_eq!((snapshot.records_per_element(), records.len()), (2, 4)); // id, price, id, price
///
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path();
/// let chunk = dir.join(chunk_path("1", 0));
/// std::fs::create_dir_all(chunk.parent().ok_or("no parent")?)?;
/// std::fs::write(&chunk, records.bytes())?;
/// std::fs::write(dir.join("dataset_spec.pb"), snapshot.dataset_spec())?;
/// std::fs::write(dir.join("snapshot.metadata"), snapshot.metadata("1", 0, 2))?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Snapshot {
    nulls: SnapshotNulls,
    /// In the order of `tf.nest`.
    components: Vec<Component>,
    spec: StructuredValue,
}

/// One tensor of every element.
#[derive(Debug, Clone)]
struct Component {
    /// The names of the column and of the struct fields on the path to the values, for errors.
    name: String,
    /// The same as positions.
    path: Vec<usize>,
    dtype: Dtype,
    content: ComponentContent,
}

#[derive(Debug, Clone)]
enum ComponentContent {
    /// The values, as a type that TensorFlow supports.
    Values {
        data_type: DataType,
        /// The serialized placeholder of a null row.
        placeholder: Arc<[u8]>,
    },
    /// The null mask.
    Mask,
}

/// The spec of a struct or of the table.
#[derive(Debug, Default)]
struct Dict {
    entries: BTreeMap<String, (StructuredValue, Vec<Component>)>,
}

/// The path of a shard's chunk, relative to the directory of the saved dataset.
pub fn chunk_path(run: &str, shard: u64) -> String {
    format!("{run}/{shard:08}.shard/00000000.snapshot")
}

impl Snapshot {
    /// Determines the components of every column.
    ///
    /// # Errors
    /// Fails on a type without a TensorFlow tensor type, a table without columns, or a column with the name of another
    /// one's mask.
    pub fn try_new(schema: &Schema, nulls: SnapshotNulls) -> Result<Self> {
        let mut dict = Dict::default();
        dict.fields(schema.fields(), "", &[], nulls, false)?;
        if dict.entries.is_empty() {
            return Err(refused("", "a table without columns has no elements", "select a column"));
        }
        let (spec, components) = dict.finish();
        Ok(Self { nulls, components, spec })
    }

    /// The content of `dataset_spec.pb`.
    pub fn dataset_spec(&self) -> Vec<u8> {
        self.spec.encode_to_vec()
    }

    /// The content of `snapshot.metadata`. `run` is the name of the run and of its directory, `created` is in
    /// microseconds since 1970, and `elements` is the total number of rows.
    pub fn metadata(&self, run: &str, created: i64, elements: u64) -> Vec<u8> {
        let record = SnapshotMetadataRecord {
            graph_hash: String::new(),
            run_id: run.to_owned(),
            creation_timestamp: created,
            version: VERSION,
            dtype: self.components.iter().map(|component| component.dtype.into()).collect(),
            num_elements: i64::try_from(elements).unwrap_or(i64::MAX),
            finalized: true,
        };
        record.encode_to_vec()
    }

    /// The number of records per element. All records of an element must be in one chunk.
    pub fn records_per_element(&self) -> usize {
        self.components.len()
    }

    /// Appends the records of every row of `batch`. On error, appends none.
    ///
    /// # Errors
    /// Fails on a batch with a different schema, a null that is not [masked](SnapshotNulls::Mask) or is in a list, or
    /// inner lists of different lengths.
    pub fn encode(&self, batch: &RecordBatch, out: &mut RecordBuffer) -> Result<()> {
        let tensors =
            self.components.iter().map(|component| component.tensors(batch, self.nulls)).collect::<Result<Vec<_>>>()?;
        for (tensors, component) in tensors.iter().zip(&self.components) {
            if let Some(row) = (0..tensors.len()).find(|row| tensors.value_length(*row).as_usize() > MAX_RECORD_LEN) {
                let problem = format!("row {row} is longer than a record can be: {MAX_RECORD_LEN} bytes");
                return Err(refused(&component.name, problem, "split it over several rows"));
            }
        }
        let mut frame = Vec::new();
        for row in 0..batch.num_rows() {
            for (tensors, component) in tensors.iter().zip(&self.components) {
                let tensor = match (&component.content, tensors.is_null(row)) {
                    (ComponentContent::Values { placeholder, .. }, true) => placeholder,
                    _ => tensors.value(row),
                };
                frame.clear();
                append_record(&mut frame, |payload| {
                    payload.extend_from_slice(tensor);
                    Ok::<(), Error>(())
                })?;
                out.push_frame(&frame);
            }
        }
        Ok(())
    }
}

impl Dict {
    fn fields(
        &mut self,
        fields: &Fields,
        around: &str,
        path: &[usize],
        nulls: SnapshotNulls,
        nullable: bool,
    ) -> Result<()> {
        for (position, field) in fields.iter().enumerate() {
            let name = if around.is_empty() { field.name().clone() } else { format!("{around}/{}", field.name()) };
            let path = [path, &[position]].concat();
            let nullable = nullable || field.is_nullable();
            if let DataType::Struct(fields) = field.data_type() {
                let mut dict = Self::default();
                dict.fields(fields, &name, &path, nulls, nullable)?;
                self.insert(field.name(), &name, dict.finish())?;
                continue;
            }
            let (data_type, dtype) = physical(field.data_type())
                .ok_or_else(|| refused(&name, no_tensor(field.data_type()), hint(field.data_type())))?;
            let shape = shape(&data_type);
            let placeholder = serialize_tensor(&zeros(&data_type, 1).map_err(|error| mismatch(&name, &error))?, None)?;
            let content = ComponentContent::Values { data_type, placeholder: placeholder.value(0).into() };
            let component = Component { name: name.clone(), path: path.clone(), dtype, content };
            self.insert(field.name(), &name, (tensor_spec(dtype, shape), vec![component]))?;
            if nullable && nulls == SnapshotNulls::Mask {
                let (key, dtype) = (format!("{}{MASK}", field.name()), Dtype::DtBool);
                let component = Component { name: name.clone(), path, dtype, content: ComponentContent::Mask };
                self.insert(&key, &name, (tensor_spec(dtype, Vec::new()), vec![component]))?;
            }
        }
        Ok(())
    }

    fn insert(&mut self, key: &str, name: &str, entry: (StructuredValue, Vec<Component>)) -> Result<()> {
        match self.entries.insert(key.to_owned(), entry) {
            None => Ok(()),
            Some(_) => {
                Err(refused(name, format!("there are two of the name {key:?}"), "give one another name with AS"))
            }
        }
    }

    fn finish(self) -> (StructuredValue, Vec<Component>) {
        let (mut fields, mut components) = (BTreeMap::new(), Vec::new());
        for (key, (spec, of_entry)) in self.entries {
            fields.insert(key, spec);
            components.extend(of_entry);
        }
        (StructuredValue { kind: Some(Kind::DictValue(DictValue { fields })) }, components)
    }
}

impl Component {
    /// The serialized tensor of every row. Null rows are null.
    fn tensors(&self, batch: &RecordBatch, nulls: SnapshotNulls) -> Result<LargeBinaryArray> {
        let (column, null_rows) = self.column(batch)?;
        let first_null = null_rows.as_ref().and_then(|nulls| (0..nulls.len()).find(|row| nulls.is_null(*row)));
        if let (SnapshotNulls::Refuse, Some(row)) = (nulls, first_null) {
            return Err(ErrorKind::SnapshotNull { column: self.name.clone(), row }.into());
        }
        let mismatch = |error: &dyn std::fmt::Display| mismatch(&self.name, error);
        match &self.content {
            ComponentContent::Mask => {
                let is_null = |row| null_rows.as_ref().is_some_and(|nulls| nulls.is_null(row));
                let mask: ArrayRef =
                    Arc::new((0..column.len()).map(|row| Some(is_null(row))).collect::<BooleanArray>());
                serialize_tensor(&mask, None).map_err(|error| mismatch(&error))
            }
            ComponentContent::Values { data_type, .. } => {
                let values = arrow_cast::cast(&column, data_type).map_err(|error| mismatch(&error))?;
                // A null ancestor hides the value.
                let data =
                    values.into_data().into_builder().nulls(null_rows).build().map_err(|error| mismatch(&error))?;
                serialize_tensor(&arrow_array::make_array(data), None).map_err(|error| mismatch(&error))
            }
        }
    }

    /// The column, and the nulls of it and of the structs that contain it.
    fn column(&self, batch: &RecordBatch) -> Result<(ArrayRef, Option<NullBuffer>)> {
        let other = || refused(&self.name, "the batch is of another schema", "hand in batches of one schema");
        let mut path = self.path.iter();
        let mut column = path.next().and_then(|first| batch.columns().get(*first)).ok_or_else(other)?;
        let mut nulls = column.logical_nulls();
        for position in path {
            let parts = column.as_struct_opt().ok_or_else(other)?;
            column = parts.columns().get(*position).ok_or_else(other)?;
            nulls = NullBuffer::union(nulls.as_ref(), column.logical_nulls().as_ref());
        }
        Ok((ArrayRef::clone(column), nulls.filter(|nulls| nulls.null_count() > 0)))
    }
}

/// The type of the values in tensors, and TensorFlow's dtype.
fn physical(data_type: &DataType) -> Option<(DataType, Dtype)> {
    let list = |item: &Field| physical(item.data_type()).map(|(values, dtype)| (field(values), dtype));
    Some(match data_type {
        DataType::Boolean => (DataType::Boolean, Dtype::DtBool),
        DataType::Int8 => (DataType::Int8, Dtype::DtInt8),
        DataType::Int16 => (DataType::Int16, Dtype::DtInt16),
        DataType::Int32 | DataType::Date32 | DataType::Time32(_) => (DataType::Int32, Dtype::DtInt32),
        DataType::Int64 | DataType::Date64 | DataType::Time64(_) | DataType::Timestamp(..) | DataType::Duration(_) => {
            (DataType::Int64, Dtype::DtInt64)
        }
        DataType::UInt8 => (DataType::UInt8, Dtype::DtUint8),
        DataType::UInt16 => (DataType::UInt16, Dtype::DtUint16),
        DataType::UInt32 => (DataType::UInt32, Dtype::DtUint32),
        DataType::UInt64 => (DataType::UInt64, Dtype::DtUint64),
        DataType::Float16 => (DataType::Float16, Dtype::DtHalf),
        DataType::Float32 => (DataType::Float32, Dtype::DtFloat),
        DataType::Float64 => (DataType::Float64, Dtype::DtDouble),
        data_type if data_type.is_decimal() => (DataType::Float64, Dtype::DtDouble),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => (DataType::LargeUtf8, Dtype::DtString),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            (DataType::LargeBinary, Dtype::DtString)
        }
        encoded if value_type(encoded) != encoded => physical(value_type(encoded))?,
        DataType::FixedSizeList(item, len) => {
            let (item, dtype) = list(item)?;
            (DataType::FixedSizeList(item, *len), dtype)
        }
        other => {
            let (item, dtype) = list(item(other)?)?;
            (DataType::LargeList(item), dtype)
        }
    })
}

fn field(data_type: DataType) -> Arc<Field> {
    Arc::new(Field::new_list_field(data_type, true))
}

/// The dimensions of a row's tensor; -1 if unknown.
fn shape(data_type: &DataType) -> Vec<i64> {
    match data_type {
        DataType::FixedSizeList(item, len) => [vec![i64::from(*len)], shape(item.data_type())].concat(),
        DataType::LargeList(item) => [vec![-1], shape(item.data_type())].concat(),
        _ => Vec::new(),
    }
}

fn tensor_spec(dtype: Dtype, shape: Vec<i64>) -> StructuredValue {
    let dim = shape.into_iter().map(|size| Dim { size, name: String::new() }).collect();
    let spec = TensorSpecProto {
        name: String::new(),
        shape: Some(TensorShapeProto { dim, unknown_rank: false }),
        dtype: dtype.into(),
    };
    StructuredValue { kind: Some(Kind::TensorSpecValue(spec)) }
}

/// An array of `len` placeholder values: zero, no bytes, empty lists.
fn zeros(data_type: &DataType, len: usize) -> Result<ArrayRef, arrow_schema::ArrowError> {
    Ok(match data_type {
        DataType::LargeList(item) => {
            let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(0, len));
            Arc::new(LargeListArray::try_new(Arc::clone(item), offsets, new_empty_array(item.data_type()), None)?)
        }
        DataType::FixedSizeList(item, size) => {
            let values = zeros(item.data_type(), len * usize::try_from(*size).unwrap_or_default())?;
            Arc::new(FixedSizeListArray::try_new_with_length(Arc::clone(item), *size, values, None, len)?)
        }
        DataType::LargeUtf8 | DataType::LargeBinary => {
            arrow_cast::cast(&(Arc::new(StringArray::from(vec![""; len])) as ArrayRef), data_type)?
        }
        number => arrow_cast::cast(&(Arc::new(Int64Array::from(vec![0; len])) as ArrayRef), number)?,
    })
}

fn no_tensor(data_type: &DataType) -> String {
    format!("{data_type} has no tensor")
}

fn hint(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Map(..) => "select map_keys() and map_values() as columns of their own",
        _ => "select its fields as columns of their own, or leave it out",
    }
}

fn refused(column: &str, problem: impl Into<String>, hint: &str) -> Error {
    ErrorKind::Snapshot { column: column.to_owned(), problem: problem.into(), hint: hint.to_owned() }.into()
}

fn mismatch(column: &str, error: &dyn std::fmt::Display) -> Error {
    refused(
        column,
        error.to_string(),
        "lists in lists must be of one length within a row, and without nulls: select their elements as columns, or leave it out",
    )
}

#[cfg(test)]
mod tests;
