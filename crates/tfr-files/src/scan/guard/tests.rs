use super::*;

#[tokio::test]
async fn a_panic_in_the_middle_of_a_stream_is_its_last_error() {
    let batches = futures::stream::iter(0..3).map(|batch| {
        assert!(batch < 1, "broken page {batch}");
        Ok(RecordBatch::new_empty(Arc::new(Schema::empty())))
    });
    let found: Vec<_> = guard_stream(Origin::of("t/f.parquet"), batches.boxed()).collect().await;
    let found: Vec<_> = found.into_iter().map(|batch| batch.map_err(|error| error.to_string())).collect();
    assert!(matches!(found.as_slice(), [Ok(_), Err(message)] if message.ends_with(
        "t/f.parquet: cannot be read: the reader failed on malformed content (broken page 1)"
    )));
}

#[test]
fn scan_guard_keeps_errors_of_the_query() {
    let divided = || Err::<(), _>(DataFusionError::from(ArrowError::DivideByZero));
    let origin = Origin::of("f");
    let error = guard_origin(&origin, divided).expect_err("an error");
    assert!(matches!(error, DataFusionError::ArrowError(..)), "{error}");
    let damaged = || Err::<(), _>(DataFusionError::from(ArrowError::ParquetError("bad page".to_owned())));
    let error = guard_origin(&origin, damaged).expect_err("an error").to_string();
    assert!(error.ends_with("f: cannot be read"), "{error}");
    let out_of_range = || Err::<(), _>(DataFusionError::Execution("Timestamp out of range".to_owned()));
    let evaluating = Origin { evaluates: true, ..origin };
    let error = guard_origin(&evaluating, out_of_range).expect_err("an error").to_string();
    assert!(error.ends_with("an expression of the query failed on a value of f"), "{error}");
}
