use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;

use super::super::{Bounds, within};

/// The error of a query in a session with a bound of 1 MiB, or the number of its rows.
async fn outcome(sql: &str) -> Result<usize, String> {
    let builder = crate::exact(SessionStateBuilder::new().with_default_features());
    let bounds = Bounds { batch: 1 << 18, value: 1 << 20 };
    let context = SessionContext::new_with_state(within(builder, bounds).build());
    let rows = async { context.sql(sql).await?.collect().await }.await;
    rows.map(|batches| batches.iter().map(|batch| batch.num_rows()).sum())
        .map_err(|error| error.find_root().to_string())
}

#[tokio::test]
async fn function_result_above_the_limit_is_rejected_before_allocation() {
    // A constant is computed by planning.
    assert_eq!(
        outcome("SELECT repeat('x', 2100000000)").await.expect_err("an error"),
        "External error: the result of repeat in row 0 takes 2100000000 bytes, more than the memory limit of 1048576 bytes"
    );
    for (call, bytes) in [
        ("lpad('x', 2000000000)", "2000000000"),
        ("lpad('x', 2000000000, 'é')", "4000000000"),
        ("rpad('x', v, 'yz')", "4000000000"),
        ("repeat('abc', v)", "6000000000"),
        ("array_repeat(1, v)", "16000000000"),
        ("array_repeat(NULL, v)", "16000000000"),
        ("list_repeat('abcd', v)", "8000000000"),
        ("array_resize([1], v, 0)", "16000000000"),
        ("range(v)", "16000000000"),
        ("generate_series(1, v)", "16000000000"),
        ("range(v, 0, -2)", "8000000008"),
        ("generate_series(DATE '0001-01-01', DATE '9999-12-31', INTERVAL '1 day')", "29216472"),
        ("replace(repeat('a', 1000000), 'a', 'bcde')", "4000000"),
        ("encode(repeat('a', 1000000), 'hex')", "2000006"),
        ("concat(repeat('a', 1000000), 'b', repeat('c', 100000))", "1100001"),
        ("concat_ws(repeat('-', 100000), repeat('a', 1000000), 'b')", "1200001"),
        ("array_concat(array_repeat(1, 100000), array_repeat(2, 100000))", "1600000"),
        ("regexp_replace(repeat('ab', 1000), 'B', repeat('c', 1000000), 'gi')", "1000002000"),
        ("regexp_replace(repeat('ab', 200000), '(.)', '\\1\\1\\1', 'g')", "6400000"),
    ] {
        let sql = format!("SELECT {call} FROM (VALUES (2000000000)) t(v)");
        let message = outcome(&sql).await.expect_err(call);
        assert!(message.contains(&format!("in row 0 takes {bytes} bytes")), "{call}: {message}");
    }
}

#[tokio::test]
async fn function_results_below_the_limit_are_computed_in_any_number() {
    // 64 results of 64 KiB are four times the bound, and come 4 at a time.
    let rows = "FROM (SELECT unnest(range(64)) AS v)";
    assert_eq!(outcome(&format!("SELECT repeat('x', 65536 + v * 0) {rows}")).await, Ok(64));
    assert_eq!(outcome(&format!("SELECT repeat('', 2000000000 + v) {rows}")).await, Ok(64));
    assert_eq!(outcome(&format!("SELECT repeat('x', CAST(NULL AS BIGINT)), lpad('x', v) {rows}")).await, Ok(64));
    assert_eq!(outcome(&format!("SELECT range(10, v, 5), range(v, 10, -5) {rows}")).await, Ok(64));
    assert_eq!(
        outcome(&format!("SELECT translate(repeat('x', 65536), 'x', 'é'), reverse(concat(v, 'a')) {rows}")).await,
        Ok(64)
    );
    // Of a negative length there is nothing.
    assert_eq!(outcome("SELECT lpad('abc', n, 'x'), rpad('abc', n) FROM (VALUES (1), (-1), (5)) t(n)").await, Ok(3));
    // Elsewhere all results of a batch are needed at once.
    let message = outcome(&format!("SELECT max(repeat('x', 65536 + v * 0)) {rows}")).await.expect_err("an error");
    assert!(
        message.ends_with(
            "repeat in 64 rows take 4194304 bytes, more than a quarter of the memory limit of 1048576 bytes"
        ),
        "{message}"
    );
}

/// Constants are copied for each row: 2.2 GB at once, more than a column can hold, if all rows of the batch were taken.
#[tokio::test]
async fn operators_with_long_constants_take_few_rows_at_a_time() {
    let rows = "FROM (SELECT unnest(range(2200)) AS v)";
    assert_eq!(outcome(&format!("SELECT max(repeat('x', 1000000) || v) {rows}")).await, Ok(1));
    assert_eq!(outcome(&format!("SELECT v {rows} WHERE repeat('x', 1000000) || v > 'y'")).await, Ok(0));
}

#[tokio::test]
async fn rows_beyond_the_bound_are_refused() {
    let doubled = "SELECT s || s AS s, v FROM (SELECT s || s AS s, v FROM (SELECT repeat('x', 300000 + v) AS s, v \
                   FROM (SELECT unnest(range(3)) AS v)))";
    assert_eq!(
        outcome(doubled).await.expect_err("an error"),
        "External error: a row takes 1200008 bytes, 1200000 of them in column \"s\", more than the memory limit of 1048576 bytes"
    );
}
