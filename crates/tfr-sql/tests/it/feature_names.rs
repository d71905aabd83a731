//! Names of columns that the query computes and does not name.

use crate::workbench::{Workbench, assert_prints, tell};

/// The header of the CSV output, which has the names of the features.
fn header(bench: &Workbench, arguments: &[&str]) -> String {
    let output = bench.run(&[arguments, &["--format", "csv"]].concat());
    assert!(output.status.success(), "{}", tell(&output));
    String::from_utf8(output.stdout).unwrap().lines().next().unwrap().to_owned()
}

#[test]
fn names_do_not_depend_on_where_the_input_is() {
    let bench = Workbench::new();
    let expected = "score + 1,sum(score),count(*)";
    for table in ["'events.parquet'", "'./events.parquet' e", "t", "t AS e"] {
        let query = format!("SELECT score+1, SUM(score), count(*) FROM {table} GROUP BY 1 ORDER BY 1");
        assert_eq!(header(&bench, &[&query, "--table", "t=events.parquet"]), expected, "{table}");
    }
    let qualified = "SELECT e.score + 1, sum(e.score), count(*) FROM 'events.parquet' e GROUP BY 1";
    assert_eq!(header(&bench, &[qualified]), expected);
    let inner = format!("SELECT * FROM ({qualified})");
    assert_eq!(header(&bench, &[&inner]), expected);
    let path = bench.path().join("events.parquet");
    let subquery = format!("SELECT (SELECT max(score) FROM '{}') FROM 'events.parquet'", path.display());
    assert_eq!(header(&bench, &[&subquery]), "(SELECT max(score) FROM 'events.parquet')");
    let union = format!("{qualified} UNION ALL SELECT 1, 2, 3");
    assert_eq!(header(&bench, &[&union]), expected);
}

#[test]
fn feature_name_is_the_text_of_the_expression() {
    let bench = Workbench::new();
    for (expression, name) in [
        ("CAST(score AS INT)", "CAST(score AS INT)"),
        ("score::BIGINT", "score::BIGINT"),
        ("(((score)) * 2)", "((score)) * 2"),
        ("\"score\" IS NULL", "score IS NULL"),
        ("CASE WHEN score > 1 THEN 'a' END", "CASE WHEN score > 1 THEN 'a' END"),
        ("[score][1]", "[score][1]"),
        ("{a: score}['a']", "{a: score}['a']"),
        ("score IN (SELECT 1)", "score IN (SELECT 1)"),
        ("'x'", "'x'"),
        ("row_number() OVER (ORDER BY score)", "row_number() OVER (ORDER BY score)"),
    ] {
        let query = format!("SELECT {expression} FROM 'events.parquet' LIMIT 1");
        assert_eq!(header(&bench, &[&query]).trim_matches('"').replace("\"\"", "\""), name);
    }
}

#[test]
fn feature_name_keeps_aliases() {
    let bench = Workbench::new();
    for query in [
        "SELECT score + 1 AS n, \"UserId\" FROM 'events.parquet'",
        "SELECT n, \"UserId\" FROM (SELECT score + 1 AS n, \"UserId\" FROM 'events.parquet')",
        "WITH e(n, \"UserId\") AS (SELECT score + 1, \"UserId\" FROM 'events.parquet') SELECT * FROM e",
    ] {
        assert_eq!(header(&bench, &[query]), "n,UserId", "{query}");
    }
    // Inner names of the engine are found as before.
    let engine = "SELECT \"sum(t.score)\" + 1 AS n FROM (SELECT sum(score) FROM 'events.parquet' t)";
    assert_eq!(header(&bench, &[engine]), "n");
}

#[test]
fn feature_names_must_be_unique() {
    let query = "SELECT sum(a.score), sum(b.score) FROM 'events.parquet' a, 'events.parquet' b";
    assert_prints!(Workbench::new().tell(&[query]), @r##"
    exit 1
    -- stderr
    error: two columns would be named "sum(score)"

    hint: name one of them: sum(score) AS ...
    "##);
}
