use crate::parse;

fn outcome(sql: &str) -> String {
    match parse(sql) {
        Ok(statement) => statement.to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn equivalents_replace_clauses() {
    for (sql, expected) in [
        ("SELECT a FROM t MINUS SELECT b FROM u", "SELECT a FROM t EXCEPT SELECT b FROM u"),
        ("SELECT a FROM t SORT BY a DESC", "SELECT a FROM t ORDER BY a DESC"),
        ("SELECT a FROM t FETCH FIRST 3 ROWS ONLY", "SELECT a FROM t LIMIT 3"),
        ("SELECT a FROM t FETCH NEXT ROW ONLY", "SELECT a FROM t LIMIT 1"),
        ("FROM t", "FROM t SELECT *"),
        ("SELECT a FROM t GROUP BY a, b WITH ROLLUP", "SELECT a FROM t GROUP BY ROLLUP (a, b)"),
        ("SELECT a FROM t GROUP BY a, b WITH CUBE", "SELECT a FROM t GROUP BY CUBE (a, b)"),
        ("SELECT a + 1 FROM t GROUP BY 1 WITH ROLLUP", "SELECT a + 1 FROM t GROUP BY ROLLUP (a + 1)"),
        (
            "SELECT a FROM t GROUP BY a, b GROUPING SETS ((a, b), b, ())",
            "SELECT a FROM t GROUP BY GROUPING SETS ((a, b), (b), ())",
        ),
        ("SELECT a FROM t GROUP BY (a, b), ()", "SELECT a FROM t GROUP BY a, b"),
        ("SELECT 1 FROM t GROUP BY ()", "SELECT 1 FROM t GROUP BY GROUPING SETS (())"),
        (
            "SELECT a FROM t GROUP BY ROLLUP ((a, b), c)",
            "SELECT a FROM t GROUP BY GROUPING SETS ((a, b, c), (a, b), ())",
        ),
        (
            "SELECT a FROM t GROUP BY CUBE ((a, b), c)",
            "SELECT a FROM t GROUP BY GROUPING SETS ((a, b, c), (c), (a, b), ())",
        ),
        ("SELECT l[2:] FROM t", "SELECT l[2:-1] AS \"l[2:]\" FROM t"),
        ("SELECT * FROM t SEMI JOIN u ON a = b", "SELECT * FROM t LEFT SEMI JOIN u ON a = b"),
        (
            "SELECT CAST(a AS FLOAT(53)), CAST(b AS FLOAT(24)) FROM t",
            "SELECT CAST(a AS DOUBLE), CAST(b AS FLOAT(24)) FROM t",
        ),
        (
            "SELECT a FROM t WINDOW v AS (PARTITION BY b), w AS (v ORDER BY c) ORDER BY sum(a) OVER w",
            "SELECT a FROM t WINDOW v AS (PARTITION BY b), w AS (PARTITION BY b ORDER BY c) \
             ORDER BY sum(a) OVER (PARTITION BY b ORDER BY c)",
        ),
        (
            "SELECT a FROM t WHERE (a, b) IN (SELECT x, y FROM u)",
            "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM (SELECT x AS \"rows 1 value 1\", y AS \"rows 1 value 2\" FROM u) \
             AS \"rows 1\" (\"rows 1 value 1\", \"rows 1 value 2\") \
             WHERE (\"rows 1\".\"rows 1 value 1\" = a) AND (\"rows 1\".\"rows 1 value 2\" = b))",
        ),
        ("SELECT a FROM t WHERE (a, b) < (1, 2)", "SELECT a FROM t WHERE ((a < 1) OR ((a = 1) AND (b < 2)))"),
        ("SELECT * FROM t, UNNEST(t.l) AS u", "SELECT * FROM t, LATERAL (SELECT unnest(t.l)) AS u (u)"),
    ] {
        assert_eq!(outcome(sql), expected, "{sql}");
    }
}

#[test]
fn clauses_leave_other_queries_unchanged() {
    for sql in [
        "WITH u AS (SELECT a FROM t) SELECT DISTINCT ON (a) a, sum(b) OVER w FROM u WINDOW w AS (ORDER BY c)",
        "SELECT count(*) FILTER (WHERE a), array_agg(DISTINCT b ORDER BY b), lag(c) IGNORE NULLS OVER (ORDER BY d) FROM t",
        "SELECT my_function(DISTINCT a) OVER (ORDER BY b) FROM t",
        "SELECT * EXCLUDE (a) FROM t TABLESAMPLE (10 PERCENT) REPEATABLE (1) JOIN u USING(a) LIMIT 3 OFFSET 2",
        "VALUES (1, 2), (3, 4)",
    ] {
        assert_eq!(outcome(sql), sql);
    }
}

#[test]
fn queries_of_recursive_queries_keep_their_clauses() {
    let sql = "WITH RECURSIVE a AS (SELECT 1 UNION ALL SELECT 2 LIMIT 1) SELECT * FROM a";
    let named = r#"WITH RECURSIVE a AS ((SELECT 1 UNION ALL SELECT 2 AS "value 0" LIMIT 1)) SELECT * FROM a"#;
    assert_eq!(outcome(sql), named);
    let sql = "WITH RECURSIVE a AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM a LIMIT 3) SELECT * FROM a";
    assert!(outcome(sql).contains("LIMIT of the recursive query a is not supported"), "{}", outcome(sql));
}
