use arrow_array::builder::{Int32Builder, ListBuilder};
use arrow_array::types::Int32Type;
use arrow_array::{DictionaryArray, Float64Array, Int32Array, StructArray};
use arrow_schema::TimeUnit;
use tfr_proto::tensorflow::TensorProto;

use super::*;

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap()
}

fn encoded(batch: &RecordBatch, nulls: SnapshotNulls) -> Result<Vec<TensorProto>> {
    let snapshot = Snapshot::try_new(&batch.schema(), nulls)?;
    let mut records = RecordBuffer::default();
    snapshot.encode(batch, &mut records)?;
    assert_eq!(records.len(), batch.num_rows() * snapshot.records_per_element());
    Ok((0..records.len()).map(|record| TensorProto::decode(records.payload(record)).unwrap()).collect())
}

fn dims(tensor: &TensorProto) -> Vec<i64> {
    tensor.tensor_shape.iter().flat_map(|shape| &shape.dim).map(|dim| dim.size).collect()
}

/// The order of `tf.nest`: keys sorted, and those of a dict in the place of the dict.
#[test]
fn snapshot_components_are_in_the_order_of_tf_nest() {
    let inner = |value| Arc::new(Int32Array::from(vec![value])) as ArrayRef;
    let fields = Fields::from(vec![Field::new("z", DataType::Int32, false), Field::new("a", DataType::Int32, false)]);
    let dict = StructArray::new(fields, vec![inner(3), inner(2)], None);
    let table = batch(vec![("y", inner(4)), ("m", Arc::new(dict)), ("B", inner(1))]);
    let values = encoded(&table, SnapshotNulls::Refuse).unwrap();
    let values: Vec<_> = values.iter().map(|tensor| tensor.tensor_content[0]).collect();
    assert_eq!(values, [1, 2, 3, 4]);
}

#[test]
fn types_are_kept() {
    let dates: ArrayRef = Arc::new(arrow_array::Date32Array::from(vec![5]));
    let times = arrow_array::TimestampMicrosecondArray::from(vec![6]).with_timezone("UTC");
    let words: DictionaryArray<Int32Type> = ["cat"].into_iter().collect();
    let table = batch(vec![("a", dates), ("b", Arc::new(times)), ("c", Arc::new(words))]);
    let snapshot = Snapshot::try_new(&table.schema(), SnapshotNulls::Refuse).unwrap();
    let record = SnapshotMetadataRecord::decode(snapshot.metadata("7", 1, 1).as_slice()).unwrap();
    assert_eq!(record.dtype, [Dtype::DtInt32, Dtype::DtInt64, Dtype::DtString].map(i32::from));
    assert_eq!((record.run_id.as_str(), record.num_elements, record.version, record.finalized), ("7", 1, 2, true));
    let tensors = encoded(&table, SnapshotNulls::Refuse).unwrap();
    assert_eq!(tensors.iter().map(|tensor| tensor.dtype).collect::<Vec<_>>(), record.dtype);
    assert_eq!(tensors[2].string_val, [b"cat"]);
}

#[test]
fn a_null_is_refused_or_masked() {
    let prices: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.0), None]));
    let table = batch(vec![("price", prices)]);
    let error = encoded(&table, SnapshotNulls::Refuse).unwrap_err();
    assert_eq!(error.to_string(), "column \"price\": row 1 is null, which a tensor cannot represent");
    let masked = encoded(&table, SnapshotNulls::Mask).unwrap();
    let contents: Vec<_> = masked.iter().map(|tensor| tensor.tensor_content.clone()).collect();
    assert_eq!(contents, [1.0_f64.to_le_bytes().to_vec(), vec![0], 0.0_f64.to_le_bytes().to_vec(), vec![1]]);
}

/// The null of a struct is that of all its fields, whatever these hold.
#[test]
fn a_null_struct_hides_its_fields() {
    let fields = Fields::from(vec![Field::new("x", DataType::Int32, false)]);
    let nulls = Some(NullBuffer::from(vec![true, false]));
    let point = StructArray::new(fields, vec![Arc::new(Int32Array::from(vec![1, 2]))], nulls);
    let tensors = encoded(&batch(vec![("point", Arc::new(point))]), SnapshotNulls::Mask).unwrap();
    let contents: Vec<_> = tensors.iter().map(|tensor| tensor.tensor_content.clone()).collect();
    assert_eq!(contents, [vec![1, 0, 0, 0], vec![0], vec![0; 4], vec![1]]);
}

#[test]
fn lists_have_their_shapes() {
    let lists = FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), Some(2)]), None], 2);
    let mut pairs = ListBuilder::new(ListBuilder::new(Int32Builder::new()));
    pairs.append_value([Some(vec![Some(1), Some(2), Some(3)]), Some(vec![Some(4), Some(5), Some(6)])]);
    pairs.append_null();
    let table = batch(vec![("fixed", Arc::new(lists)), ("lists", Arc::new(pairs.finish()))]);
    let tensors = encoded(&table, SnapshotNulls::Mask).unwrap();
    // fixed, its mask, lists, their mask, of two rows
    assert_eq!(
        tensors.iter().map(dims).collect::<Vec<_>>(),
        [vec![2], vec![], vec![2, 3], vec![], vec![2], vec![], vec![0, 0], vec![]]
    );
}

#[test]
fn snapshot_error_appends_nothing() {
    let mut lists = ListBuilder::new(ListBuilder::new(Int32Builder::new()));
    lists.append_value([Some(vec![Some(1)]), Some(vec![])]);
    let table = batch(vec![("a", Arc::new(Int32Array::from(vec![1]))), ("lists", Arc::new(lists.finish()))]);
    let snapshot = Snapshot::try_new(&table.schema(), SnapshotNulls::Refuse).unwrap();
    let mut records = RecordBuffer::default();
    let error = snapshot.encode(&table, &mut records).unwrap_err();
    assert!(error.to_string().starts_with("column \"lists\": "), "{error}");
    assert!(records.is_empty());
}

#[test]
fn types_without_a_tensor_are_refused_by_name() {
    let item = |data_type| Arc::new(Field::new_list_field(data_type, true));
    let types = [
        DataType::Null,
        DataType::Interval(arrow_schema::IntervalUnit::DayTime),
        DataType::List(item(DataType::Struct(vec![Field::new("x", DataType::Int8, true)].into()))),
        DataType::List(item(DataType::Null)),
    ];
    for data_type in types {
        let schema = Schema::new(vec![Field::new("c", data_type, true)]);
        let error = Snapshot::try_new(&schema, SnapshotNulls::Mask).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Snapshot { column, .. } if column == "c"), "{error}");
    }
    let twice =
        Schema::new(vec![Field::new("c", DataType::Int8, true), Field::new("c/is_null", DataType::Int8, false)]);
    assert!(Snapshot::try_new(&twice, SnapshotNulls::Mask).is_err());
    assert!(Snapshot::try_new(&twice, SnapshotNulls::Refuse).is_ok());
    assert!(Snapshot::try_new(&Schema::empty(), SnapshotNulls::Refuse).is_err());
    let time = Schema::new(vec![Field::new("c", DataType::Duration(TimeUnit::Second), true)]);
    assert!(Snapshot::try_new(&time, SnapshotNulls::Refuse).is_ok());
}
