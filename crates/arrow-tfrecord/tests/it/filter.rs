//! Row filters against the same filter after reading.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::*;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;
use arrow_tfrecord::{Error, ErrorKind, MappingOptions, ReaderBuilder, RowFilter, WriterBuilder};
use insta::assert_snapshot;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::roundtrip::{encoded, same};
use crate::tables;

/// The batches that pieces of the file give.
fn batches(builder: ReaderBuilder, file: &[u8], piece: usize) -> Result<Vec<RecordBatch>, Error> {
    let mut decoder = builder.build_decoder()?;
    let mut batches = Vec::new();
    for mut bytes in file.chunks(piece).chain([&[][..]]) {
        loop {
            let taken = decoder.decode(bytes)?;
            bytes = &bytes[taken..];
            if decoder.capacity() > 0 {
                break;
            }
            batches.extend(decoder.flush()?);
        }
        assert!(bytes.is_empty());
    }
    batches.extend(decoder.flush()?);
    Ok(batches)
}

/// Passes what a column says, and counts the rows that it was asked about.
fn says(columns: Vec<usize>, column: usize, asked: &Arc<AtomicUsize>) -> RowFilter {
    let asked = Arc::clone(asked);
    RowFilter::new(columns, move |batch| {
        asked.fetch_add(batch.num_rows(), Ordering::Relaxed);
        Ok(batch.column(column).as_boolean().clone())
    })
}

/// The batch with two more columns, which say what passes.
fn with_answers(batch: &RecordBatch, answers: [Vec<Option<bool>>; 2]) -> RecordBatch {
    let mut fields = batch.schema().fields().to_vec();
    let mut columns = batch.columns().to_vec();
    for (number, answers) in answers.into_iter().enumerate() {
        fields.push(Arc::new(Field::new(format!("#{number}"), DataType::Boolean, true)));
        let answers = answers.into_iter().cycle().take(batch.num_rows());
        columns.push(Arc::new(answers.collect::<BooleanArray>()));
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

fn answers() -> impl Strategy<Value = Vec<Option<bool>>> {
    let mixed = proptest::collection::vec(any::<Option<bool>>(), 1..60);
    prop_oneof![4 => mixed, 1 => Just(vec![Some(true)]), 1 => Just(vec![Some(false), None])]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn row_filter_equals_selection_after_reading(
        batch in tables::batch(),
        answers in [answers(), answers()],
        also_read in proptest::collection::vec(any::<Index>(), 0..3),
        picks in proptest::collection::vec(any::<Index>(), 0..5),
        batch_size in 1..50usize,
        piece in 1..3000usize,
    ) {
        let batch = with_answers(&batch, answers);
        let file = encoded(&batch, &MappingOptions::default());
        let columns = batch.num_columns();
        let projection: Vec<_> = picks.iter().map(|pick| pick.index(columns)).collect();
        let builder = ReaderBuilder::new(batch.schema()).with_batch_size(batch_size);

        let whole = batches(builder.clone(), &file, file.len().max(1)).unwrap();
        let whole = concat_batches(&batch.schema(), &whole).unwrap();
        let [first, second] = [columns - 2, columns - 1].map(|answer| batch.column(answer).as_boolean().clone());
        let expected = filter_record_batch(&filter_record_batch(&whole, &first).unwrap(), &{
            let second: ArrayRef = Arc::new(second);
            arrow_select::filter::filter(&second, &first).unwrap().as_boolean().clone()
        }).unwrap();
        let expected = expected.project(&projection).unwrap();

        let mut read = vec![columns - 2];
        read.extend(also_read.iter().map(|column| column.index(columns)));
        let asked = [Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0))];
        let filtered = builder
            .with_projection(projection)
            .with_row_filter(says(read, 0, &asked[0]))
            .with_row_filter(says(vec![columns - 2, columns - 1], 1, &asked[1]));
        let filtered = batches(filtered, &file, piece).unwrap();
        for batch in &filtered {
            prop_assert!((1..=batch_size).contains(&batch.num_rows()));
        }
        for batch in filtered.iter().rev().skip(1) {
            prop_assert!(batch.num_rows() > batch_size - (batch_size / 8).max(1));
        }
        let filtered = concat_batches(&expected.schema(), &filtered).unwrap();
        prop_assert!(same(&filtered, &expected), "{:?}\n{:?}", filtered, expected);
        let asked = asked.map(|asked| asked.load(Ordering::Relaxed));
        let passes = first.iter().filter(|answer| *answer == Some(true)).count();
        prop_assert_eq!(asked, [batch.num_rows(), passes]);
    }
}

/// Ids 0 to 9999; every tenth has a name.
fn ids() -> (SchemaRef, Vec<u8>) {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10_000));
    let names = (0..10_000).map(|id| (id % 10 == 0).then(|| format!("name {id}")));
    let names: ArrayRef = Arc::new(StringArray::from_iter(names));
    let batch = RecordBatch::try_from_iter_with_nullable([("id", ids, false), ("name", names, true)]).unwrap();
    let mut writer = WriterBuilder::new(batch.schema()).build(Vec::new()).unwrap();
    writer.write(&batch).unwrap();
    (batch.schema(), writer.finish().unwrap())
}

fn every(nth: i64) -> RowFilter {
    RowFilter::new(vec![0], move |batch| {
        Ok(BooleanArray::from_unary(batch.column(0).as_primitive::<Int64Type>(), |id| id % nth == 0))
    })
}

/// Rows that do not pass are not decoded: here, rows without the non-nullable name.
#[test]
fn row_filter_skips_decoding_of_rejected_rows() {
    let (schema, file) = ids();
    let fields: Vec<_> = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(false)).collect();
    let builder = ReaderBuilder::new(Arc::new(Schema::new(fields))).with_batch_size(100);
    let rows: Vec<_> = batches(builder.clone().with_row_filter(every(10)), &file, 1 << 20)
        .unwrap()
        .iter()
        .map(RecordBatch::num_rows)
        .collect();
    assert_eq!(rows.iter().sum::<usize>(), 1000);
    assert!(rows.iter().rev().skip(1).all(|rows| (89..=100).contains(rows)), "{rows:?}");

    let error = batches(builder.with_row_filter(every(55)), &file, 1 << 20).unwrap_err();
    assert_snapshot!(error, @r#"record 55 at byte 1830: feature "name" is missing, but the schema requires it"#);
}

#[test]
fn no_row_passes() {
    let (schema, file) = ids();
    let none = RowFilter::new(vec![], |batch| Ok(BooleanArray::from(vec![false; batch.num_rows()])));
    let mut reader = ReaderBuilder::new(schema).with_row_filter(none).build(file.as_slice()).unwrap();
    assert!(reader.next().is_none());
}

#[test]
fn rows_are_counted_without_a_column() {
    let (schema, file) = ids();
    let builder = ReaderBuilder::new(schema).with_projection(vec![]).with_row_filter(every(3));
    let rows = batches(builder, &file, 1 << 16).unwrap().iter().map(RecordBatch::num_rows).sum::<usize>();
    assert_eq!(rows, 3334);
}

/// A filter gets the columns in its own order, as the schema has them.
#[test]
fn row_filter_gets_the_requested_columns_in_order() {
    let (schema, file) = ids();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let filter = RowFilter::new(vec![1, 0, 1], {
        let seen = Arc::clone(&seen);
        move |batch| {
            seen.lock().unwrap().push((batch.schema(), batch.num_rows()));
            Ok(BooleanArray::from(vec![true; batch.num_rows()]))
        }
    });
    let builder = ReaderBuilder::new(SchemaRef::clone(&schema)).with_row_filter(filter);
    batches(builder, &file, 1 << 20).unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!(seen.iter().map(|(_, rows)| rows).sum::<usize>(), 10_000);
    assert!(seen.iter().all(|(asked, rows)| **asked == schema.project(&[1, 0, 1]).unwrap() && *rows <= 1024));
}

#[test]
fn filters_that_fail() {
    let (schema, file) = ids();
    let builder = ReaderBuilder::new(schema);
    let failing = RowFilter::new(vec![0], |batch| match batch.column(0).as_primitive::<Int64Type>().value(0) {
        0 => Ok(BooleanArray::from(vec![true; batch.num_rows()])),
        _ => Err(ArrowError::ComputeError("division by zero".to_owned())),
    });
    let error = batches(builder.clone().with_row_filter(failing), &file, 1 << 20).unwrap_err();
    assert_snapshot!(error, @"record 1 at byte 51: cannot determine whether this and later records pass the filter");
    assert_snapshot!(std::error::Error::source(&error).unwrap(), @"Compute error: division by zero");

    let short = RowFilter::new(vec![0], |_| Ok(BooleanArray::from(vec![true; 3])));
    let error = batches(builder.clone().with_row_filter(short), &file, 1 << 20).unwrap_err();
    assert_snapshot!(std::error::Error::source(&error).unwrap(), @"Invalid argument error: a filter of 1 rows answered for 3");

    let error = builder.with_row_filter(RowFilter::new(vec![2], |_| unreachable!())).build_decoder().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NoSuchColumn { column: 2, columns: 2 }));
}
