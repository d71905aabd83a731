use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;

use super::super::{Error, Explanation};

async fn explain(sql: &str) -> Explanation {
    let state = tfr_engine::exact(SessionStateBuilder::new().with_default_features()).build();
    let context = SessionContext::new_with_state(state);
    for table in ["CREATE TABLE t AS SELECT 1 AS a, {x: 1} AS s", "CREATE TABLE u AS SELECT 1 AS a, 2 AS b"] {
        context.sql(table).await.unwrap();
    }
    let error = context.state().statement_to_plan(tfr_engine::parse(sql).unwrap()).await.expect_err(sql);
    Explanation::of(&Error::from(error))
}

#[tokio::test]
async fn names_of_columns_are_explained() {
    for (sql, text, hint) in [
        ("SELECT t.a, t.a FROM t", "two columns have the name t.a", "name one of them with AS: SELECT a.x, b.x AS x_2"),
        (
            "SELECT a + 1 AS b, a AS b FROM t",
            "two columns have the name b",
            "name one of them with AS: SELECT a.x, b.x AS x_2",
        ),
        (
            "SELECT * FROM t JOIN t ON true",
            "two columns have the name t.a",
            "give a table that is joined with itself another name: t AS a JOIN t AS b; and name columns of a subquery with AS",
        ),
        ("SELECT a FROM t, u", "several tables have a column a", "write the name of the table, as in t.a"),
        (
            "SELECT s.* FROM t",
            "no table named s",
            "for the fields of a struct column write unnest(s), or s['a'] AS a for one of them",
        ),
        (
            "SELECT a + 1 AS a, unnest(s) FROM t",
            "a struct cannot be unnested within an expression, or next to an expression that has the name of a column",
            "unnest it in a subquery: SELECT a + 1 AS a, p, q FROM (SELECT a, unnest(s) FROM t) AS u(a, p, q)",
        ),
        (
            "SELECT * FROM u AS v(x)",
            "a table has 2 columns, and 1 names are given for them",
            "give a name for each column: AS t(a, b)",
        ),
    ] {
        let explanation = explain(sql).await;
        assert_eq!(explanation.causes, [text], "{sql}");
        assert_eq!(explanation.hint.as_deref(), Some(hint), "{sql}");
    }
}
