use std::collections::HashSet;

use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;

use super::super::{Error, Explanation};
use super::*;

/// A row of the columns that the suggestions name.
const TABLE: &str = "(SELECT 'a,b,c' AS s, 7 AS n, CAST(2.5 AS DOUBLE) AS x, DATE '2024-03-15' AS d, \
    CAST('2024-03-15 10:20:30' AS TIMESTAMP) AS ts, [3, 1, 2] AS list, MAP {'k': 1} AS m, \
    CAST('ab' AS BYTEA) AS b, true AS c) AS t";

#[tokio::test]
async fn every_suggestion_can_be_run() -> Result<()> {
    let state = tfr_engine::exact(SessionStateBuilder::new().with_default_features()).build();
    let context = SessionContext::new_with_state(state);
    let mut failed = Vec::new();
    for function in FUNCTIONS.iter().filter(|function| !function.instead.is_empty()) {
        let sql = format!("SELECT {} FROM {TABLE}", function.instead.replace("try_cast", "TRY_CAST"));
        let outcome = match context.sql(&sql).await {
            Ok(plan) => plan.collect().await.map(drop),
            Err(error) => Err(error),
        };
        if let Err(error) = outcome {
            failed.push(format!("{}: {} ({error})", function.names[0], function.instead));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}

#[tokio::test]
async fn syntax_of_other_engines_is_recognized() {
    let context = SessionContext::new();
    for sql in [
        "SELECT i FROM {} CROSS JOIN UNNEST(list) AS u(i)",
        "SELECT count(DISTINCT n, s) FROM",
        "SELECT n DIV 2 FROM",
        "SELECT date_trunc(ts, 'month') FROM",
        "SELECT trunc(d, 'MM') FROM",
        "SELECT element_at(list, 1) FROM",
        "SELECT decode(n, 7, 'seven') FROM",
        "SELECT to_date('20240315', 'yyyyMMdd') FROM",
        "SELECT explode(list) FROM",
    ] {
        let sql = match sql.contains("{}") {
            true => sql.replace("{}", TABLE),
            false => format!("{sql} {TABLE}"),
        };
        let outcome = match context.sql(&sql).await {
            Ok(plan) => plan.collect().await.map(drop),
            Err(error) => Err(error),
        };
        let explanation = Explanation::of(&Error::from(outcome.expect_err(&sql)));
        let hint = explanation.hint.unwrap_or_default();
        assert!(!hint.is_empty() && !hint.contains("did you mean"), "{sql}: {:?} {hint}", explanation.causes);
    }
}

#[test]
fn foreign_function_names_are_listed_once() {
    let mut names = HashSet::new();
    for name in FUNCTIONS.iter().flat_map(|function| function.names) {
        assert!(names.insert(name), "{name}");
        assert_eq!(name.to_lowercase(), **name);
    }
    assert!(names.len() >= 60);
}
