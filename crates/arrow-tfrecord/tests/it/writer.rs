//! The writer over a sink.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, RecordBatchWriter};
use arrow_tfrecord::{Error, ErrorKind, WriterBuilder};
use tfrecord_framing::{Compression, Level, RecordReader};

fn batch(values: Vec<f64>) -> RecordBatch {
    let ids = Int64Array::from_iter_values(0..values.len() as i64);
    RecordBatch::try_from_iter([("id", Arc::new(ids) as ArrayRef), ("x", Arc::new(Float64Array::from(values)))])
        .unwrap()
}

#[test]
fn writer_error_names_row_and_leaves_the_file_unchanged() {
    let good = batch(vec![1.0, 2.0, 3.0]);
    let mut writer = WriterBuilder::new(good.schema()).build(Vec::new()).unwrap();
    writer.write(&good).unwrap();
    let error = writer.write(&batch(vec![4.0, 1e300])).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::OutOfRange { row: 4, .. }), "{error:?}");
    writer.write(&good).unwrap();
    let file = writer.finish().unwrap();

    let mut reader = RecordReader::new(file.as_slice());
    let (mut record, mut records) = (Vec::new(), 0);
    while reader.read_record(&mut record).unwrap() {
        records += 1;
    }
    assert_eq!(records, 6);
}

#[test]
fn compressed_files_hold_the_same_records() {
    let batch = batch((0..10_000).map(f64::from).collect());
    let written = |compression| {
        let builder = WriterBuilder::new(batch.schema()).with_compression(compression, Level::default());
        let mut writer = builder.build(Vec::new()).unwrap();
        writer.write(&batch).unwrap();
        let file = writer.finish().unwrap();
        let mut reader = RecordReader::with_compression(file.as_slice(), compression);
        let (mut record, mut records) = (Vec::new(), Vec::new());
        while reader.read_record(&mut record).unwrap() {
            records.push(record.clone());
        }
        records
    };
    let plain = written(Compression::None);
    assert_eq!(plain.len(), 10_000);
    assert!(plain == written(Compression::Gzip));
    assert!(plain == written(Compression::Zlib));
}

#[test]
fn arrow_writers_keep_the_error() {
    let good = batch(vec![1.0]);
    let mut writer = WriterBuilder::new(good.schema()).build(Vec::new()).unwrap();
    let error = RecordBatchWriter::write(&mut writer, &batch(vec![1e300])).unwrap_err();
    let arrow_schema::ArrowError::ExternalError(source) = error else { panic!("{error:?}") };
    assert!(source.downcast_ref::<Error>().is_some());
    writer.close().unwrap();
}
