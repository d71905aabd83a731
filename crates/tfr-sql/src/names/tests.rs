use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::common::TableReference;
use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::DFParser;

use super::{listed_files, plan, quoted_tables};
use crate::error::{Explanation, Result};

fn context() -> SessionContext {
    let mut config = SessionConfig::new();
    config.options_mut().sql_parser.enable_ident_normalization = false;
    config.options_mut().sql_parser.collect_spans = true;
    let context = SessionContext::new_with_config(config);
    for (name, columns) in
        [("Events", vec!["UserId", "dt", "Total"]), ("users", vec!["UserId", "name"]), ("twins", vec!["ab", "AB"])]
    {
        let fields: Vec<_> = columns.iter().map(|column| Field::new(*column, DataType::Int64, true)).collect();
        let batch = RecordBatch::new_empty(Schema::new(fields).into());
        let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap();
        context.register_table(TableReference::bare(name), Arc::new(table)).unwrap();
    }
    context
}

async fn columns(sql: &str) -> Result<Vec<String>> {
    let statement = DFParser::parse_sql(sql).unwrap().pop_front().unwrap();
    let plan = plan(&context(), statement).await?;
    Ok(plan.schema().fields().iter().map(|field| field.name().clone()).collect())
}

async fn refusal(sql: &str) -> Explanation {
    Explanation::of(&columns(sql).await.unwrap_err())
}

#[tokio::test]
async fn column_lookup_ignores_case_if_unambiguous() {
    for sql in [
        "SELECT userid FROM Events",
        "SELECT UserId FROM events",
        "SELECT EVENTS.USERID FROM events",
        "SELECT e.userid FROM Events AS E",
        "SELECT userid FROM Events WHERE USERID > 1 GROUP BY Userid ORDER BY userId",
        "SELECT userid FROM (SELECT USERID FROM Events)",
        "WITH Mine AS (SELECT userid FROM events) SELECT USERID FROM mine",
        "SELECT userid FROM events WHERE EXISTS (SELECT 1 FROM users WHERE users.USERID = events.userid)",
        "SELECT e.userid FROM events AS E WHERE e.total > (SELECT max(userid) FROM users U WHERE u.USERID = e.USERID)",
        "SELECT e.userid FROM events e JOIN users u ON e.userid = u.userid",
        "SELECT max(userid) AS \"UserId\" FROM events GROUP BY DT HAVING count(total) > 1",
    ] {
        assert_eq!(columns(sql).await.unwrap(), ["UserId"], "{sql}");
    }
}

#[tokio::test]
async fn column_lookup_keeps_aliases_as_given() {
    assert_eq!(columns("SELECT dt AS Day, COUNT(*) AS N FROM events GROUP BY dt").await.unwrap(), ["Day", "N"]);
    assert_eq!(columns("SELECT ab, AB FROM twins").await.unwrap(), ["ab", "AB"]);
}

#[tokio::test]
async fn column_lookup_corrects_each_scope_separately() {
    // The outer `userid` is what the subquery made; only the inner one is the column.
    let sql = "SELECT userid FROM (SELECT UserID AS userid FROM events)";
    assert_eq!(columns(sql).await.unwrap(), ["userid"]);
}

#[tokio::test]
async fn two_candidates_are_not_guessed_between() {
    let refusal = refusal("SELECT Ab FROM twins").await;
    assert_eq!(refusal.causes, ["no column named Ab"]);
}

#[tokio::test]
async fn column_lookup_matches_quoted_names_exactly() {
    let refusal = refusal("SELECT \"userid\" FROM events").await;
    assert_eq!(refusal.causes, ["no column named userid"]);
}

#[tokio::test]
async fn a_near_miss_is_suggested() {
    assert_eq!(
        refusal("SELECT usr_id FROM users").await.hint.unwrap(),
        "did you mean UserId? the columns are UserId, name"
    );
    let refusal = refusal("SELECT 1 FROM evnts").await;
    assert_eq!(refusal.causes, ["no table named evnts"]);
    assert_eq!(refusal.hint.unwrap(), "did you mean Events?");
}

#[test]
fn quoted_paths_are_distinguished_from_names() {
    let sql = "WITH \"c d\" AS (SELECT 1) SELECT * FROM 'a/*.parquet' JOIN \"b.csv\" ON true JOIN t ON true, \"c d\"";
    let mut statement = DFParser::parse_sql(sql).unwrap().pop_front().unwrap();
    assert_eq!(quoted_tables(&mut statement).into_iter().collect::<Vec<_>>(), ["a/*.parquet", "b.csv"]);
}

#[test]
fn files_function_arguments_are_inputs() {
    let sql = "WITH a AS (SELECT * FROM files('a/**', 'b.jpg')) SELECT * FROM a, (SELECT path FROM files('c/*')), others('d')";
    let mut statement = DFParser::parse_sql(sql).unwrap().pop_front().unwrap();
    assert_eq!(listed_files(&mut statement).into_iter().collect::<Vec<_>>(), ["a/**", "b.jpg", "c/*"]);
}
