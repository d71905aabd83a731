use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;

use super::super::{Bounds, within};

/// The error of a query in a session with a limit of 8 MiB, or the number of its rows.
async fn outcome(sql: &str) -> Result<usize, String> {
    let builder = crate::exact(SessionStateBuilder::new().with_default_features());
    let bounds = Bounds { batch: 1 << 18, value: 8 << 20 };
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
        "External error: the constant result of repeat takes 2100000000 bytes, more than an eighth of the memory limit of \
         8388608 bytes"
    );
    for (call, bytes) in [
        ("rpad('x', v, 'yz')", "4000000000"),
        ("repeat('abc', v)", "6000000000"),
        ("array_repeat(1, v)", "16000000000"),
        ("array_repeat(NULL, v)", "16000000000"),
        ("list_repeat('abcd', v)", "8000000000"),
        ("array_resize([1], v, 0)", "16000000000"),
        ("range(v)", "16000000000"),
        ("generate_series(1, v)", "16000000000"),
        ("range(v, 0, -2)", "8000000008"),
        ("concat(repeat('a', v - 1999000000), repeat('b', v - 1999000000), repeat('c', v - 1999000000))", "3000000"),
        ("concat_ws(repeat('-', v - 1999900000), repeat('a', v - 1998000000), 'b')", "2200001"),
        ("array_concat(array_repeat(1, v - 1999850000), array_repeat(2, v - 1999850000))", "2400000"),
        ("array_to_string(range(v - 1999900000), repeat('-', 1000))", "104000000"),
        ("string_to_array(replace(repeat('a', 200000), 'a', concat('b', v - 1999999999)), 'b')", "3600016"),
    ] {
        let sql = format!("SELECT {call} FROM (VALUES (2000000000)) t(v)");
        let message = outcome(&sql).await.expect_err(call);
        assert!(message.contains(&format!("in row 0 takes {bytes} bytes")), "{call}: {message}");
    }
    for (call, bytes) in [
        ("lpad('x', 2000000000)", "2000000000"),
        ("lpad('x', 2000000000, 'é')", "4000000000"),
        ("generate_series(DATE '0001-01-01', DATE '9999-12-31', INTERVAL '1 day')", "29216472"),
        ("replace(repeat('a', 1000000), 'a', 'bcde')", "4000000"),
        ("encode(repeat('a', 1000000), 'hex')", "2000006"),
        ("array_to_string(range(100000), 'é')", "4200000"),
        ("string_to_array(repeat('a', 100000), NULL)", "1700016"),
        ("regexp_replace(repeat('ab', 1000), 'B', repeat('c', 1000000), 'gi')", "1000002000"),
        ("regexp_replace(repeat('ab', 200000), '(.)', '\\1\\1\\1', 'g')", "6400000"),
    ] {
        let message = outcome(&format!("SELECT {call}")).await.expect_err(call);
        assert!(message.contains(&format!("takes {bytes} bytes, more than an eighth")), "{call}: {message}");
    }
}

/// Each is short enough, and all of them are not.
#[tokio::test]
async fn constants_of_a_query_are_bounded_together() {
    let columns: Vec<_> = (0..4).map(|column| format!("repeat('{column}', 300000) AS c{column}")).collect();
    assert_eq!(outcome(&format!("SELECT {}", columns[..3].join(", "))).await, Ok(1));
    let message = outcome(&format!("SELECT {}", columns.join(", "))).await.expect_err("an error");
    assert!(
        message.starts_with("External error: the constants of the query take 120")
            && message.ends_with("more than an eighth of the memory limit of 8388608 bytes"),
        "{message}"
    );
}

#[tokio::test]
async fn string_agg_beyond_the_bound_is_rejected() {
    let rows = "FROM (SELECT repeat('x', 100000 + v * 0) AS s, v FROM (SELECT unnest(range(40)) AS v))";
    for (query, expected) in [
        ("SELECT length(string_agg(s, ',')) {rows} WHERE v < 20", Ok(1)),
        ("SELECT length(string_agg(s, ',')) {rows}", Err(())),
        ("SELECT v % 2, string_agg(s, ',') {rows} GROUP BY 1", Ok(2)),
        ("SELECT v % 1, string_agg(s, ',') {rows} GROUP BY 1", Err(())),
        ("SELECT v % 2, string_agg(s, ',') FILTER (WHERE v < 20) {rows} GROUP BY 1", Ok(2)),
        ("SELECT length(string_agg(DISTINCT s, ',')) {rows}", Ok(1)),
        ("SELECT length(string_agg(v || s, ',' ORDER BY v)) {rows} WHERE v < 20", Ok(1)),
        (
            "SELECT length(string_agg(v || s, ',' ORDER BY v)) FROM (SELECT a.s, a.v FROM (SELECT s, v {rows}) a, range(3))",
            Err(()),
        ),
    ] {
        let outcome = outcome(&query.replace("{rows}", rows)).await;
        let is_refused = |message: String| {
            let starts = message.starts_with("External error: the result of string_agg takes ");
            assert!(
                starts && message.ends_with("bytes, more than a quarter of the memory limit of 8388608 bytes"),
                "{message}"
            );
        };
        assert_eq!(outcome.map_err(is_refused), expected, "{query}");
    }
}

#[tokio::test]
async fn function_results_below_the_limit_are_computed_in_any_number() {
    // 64 results of 64 KiB are twice the bound of a batch, and come 32 at a time.
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
            "repeat in 64 rows take 4194304 bytes, more than a quarter of the memory limit of 8388608 bytes"
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
    let doubled = "SELECT s || s AS s, v FROM (SELECT s || s AS s, v FROM (SELECT s || s AS s, v FROM (SELECT repeat('x', 1200000 + v) \
                   AS s, v FROM (SELECT unnest(range(3)) AS v))))";
    assert_eq!(
        outcome(doubled).await.expect_err("an error"),
        "External error: a row takes 9600008 bytes, 9600000 of them in column \"s\", more than the memory limit of 8388608 bytes"
    );
}
