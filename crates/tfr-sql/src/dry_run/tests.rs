use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float32Array, Int64Array, StringArray};
use arrow::record_batch::RecordBatch;
use arrow_tfrecord::{Mapping, MappingOptions, WriterBuilder};
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;

use super::SizeEstimate;

fn statistics(batch: &RecordBatch) -> Statistics {
    let mut statistics = Statistics::new_unknown(&batch.schema());
    statistics.num_rows = Precision::Exact(batch.num_rows());
    for (known, column) in statistics.column_statistics.iter_mut().zip(batch.columns()) {
        known.null_count = Precision::Exact(column.null_count());
    }
    statistics
}

fn written(batch: &RecordBatch) -> u64 {
    let mut writer = WriterBuilder::new(batch.schema()).build(Vec::new()).unwrap();
    writer.write(batch).unwrap();
    writer.finish().unwrap().len() as u64
}

fn estimate(batch: &RecordBatch, statistics: &Statistics) -> SizeEstimate {
    SizeEstimate::of(&Mapping::try_new(&batch.schema(), &MappingOptions::default()).unwrap(), statistics)
}

#[test]
fn dry_run_bounds_contain_the_written_size() {
    let columns: [(&str, ArrayRef); 3] = [
        ("a", Arc::new(Int64Array::from(vec![Some(0), Some(i64::MIN), Some(i64::MAX), None]))),
        ("flag", Arc::new(BooleanArray::from(vec![Some(true), None, None, Some(false)]))),
        ("price of the item", Arc::new(Float32Array::from(vec![Some(1.5), Some(f32::NAN), None, None]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let bounds = estimate(&batch, &statistics(&batch));
    let size = written(&batch);
    assert!(bounds.least.unwrap() <= size && size <= bounds.most.unwrap(), "{size} is not within {bounds:?}");
    assert!(bounds.exact_rows && bounds.unknown.is_empty());

    // Without the number of nulls, all or none may be.
    let mut blind = statistics(&batch);
    blind.column_statistics.iter_mut().for_each(|known| known.null_count = Precision::Absent);
    let wider = estimate(&batch, &blind);
    assert!(wider.least < bounds.least && wider.most > bounds.most);
}

#[test]
fn dry_run_names_columns_of_unknown_length() {
    let batch = RecordBatch::try_from_iter([("text", Arc::new(StringArray::from(vec!["x"])) as ArrayRef)]).unwrap();
    let known = estimate(&batch, &statistics(&batch));
    assert_eq!(known.unknown, ["text"]);
    assert!(known.to_string().ends_with("and the values of text"), "{known}");

    let unknown = estimate(&batch, &Statistics::new_unknown(&batch.schema()));
    assert!(unknown.to_string().starts_with("unknown before the input is read"), "{unknown}");
}
