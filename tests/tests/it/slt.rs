//! SQL behaviour, in the files of `tests/slt`.
//!
//! The session is that of the command, as far as it is not DataFusion's, and a table function of the tests' own:
//! `records('shards/')` gives the records of a shard set by protobuf, a row a feature. `$__TEST_DIR__` is a directory of
//! the file's own, `$EXAMPLES` the data of the examples, `$DATA` that of the tests.
//!
//! `SLT_COMPLETE=1 tests/run -E 'test(slt)'` writes what the statements answer into the files.

mod plain_engine;

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use async_trait::async_trait;
use datafusion::catalog::{TableFunctionImpl, TableProvider};
use datafusion::common::{DataFusionError, Result, ScalarValue, plan_err};
use datafusion::datasource::MemTable;
use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, SessionConfig, SessionContext};
use sqllogictest::{AsyncDB, DBOutput, DefaultColumnType, Runner};
use tfr_tests::{Feature, read_file, repository, shard_files};

use crate::session;

#[tokio::test(flavor = "multi_thread")]
async fn sql_files() {
    let mut files: Vec<_> = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("slt"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "slt"))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let mut runner = Runner::new(|| async { Ok(Session::new()) });
        runner.set_var("EXAMPLES".to_owned(), repository().join("examples/data").display().to_string());
        runner.set_var("DATA".to_owned(), repository().join("tests/data").display().to_string());
        if std::env::var_os("SLT_COMPLETE").is_some() {
            runner
                .update_test_file(
                    &file,
                    " ",
                    sqllogictest::default_validator,
                    sqllogictest::default_normalizer,
                    sqllogictest::default_column_validator,
                )
                .await
                .unwrap();
        } else if let Err(error) = runner.run_file_async(&file).await {
            panic!("{}", error.display(false));
        }
    }
}

struct Session(SessionContext);

impl Session {
    fn new() -> Self {
        let context = session::open(SessionConfig::new().with_target_partitions(2));
        context.register_udtf("records", Arc::new(Records));
        Self(context)
    }
}

#[async_trait]
impl AsyncDB for Session {
    type Error = DataFusionError;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>> {
        let plan = self.0.state().statement_to_plan(tfr_engine::parse(sql)?).await?;
        output(self.0.execute_logical_plan(plan).await?).await
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        "DataFusion"
    }
}

/// The rows of an answer as text.
async fn output(answer: DataFrame) -> Result<DBOutput<DefaultColumnType>> {
    let types = vec![DefaultColumnType::Any; answer.schema().fields().len()];
    let batches = answer.collect().await?;
    if types.is_empty() {
        return Ok(DBOutput::StatementComplete(0));
    }
    let mut rows = Vec::new();
    for batch in &batches {
        let options = FormatOptions::new().with_null("NULL");
        let columns = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options))
            .collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            rows.push(columns.iter().map(|column| shown(column.value(row).to_string())).collect());
        }
    }
    Ok(DBOutput::Rows { types, rows })
}

fn shown(cell: String) -> String {
    if cell.is_empty() { "(empty)".to_owned() } else { cell }
}

/// `records('directory')`: a row for each feature of each record.
#[derive(Debug)]
struct Records;

impl TableFunctionImpl for Records {
    fn call(&self, arguments: &[Expr]) -> Result<Arc<dyn TableProvider>> {
        let [Expr::Literal(ScalarValue::Utf8(Some(directory)), _)] = arguments else {
            return plan_err!("records takes the path of a directory");
        };
        if !Path::new(directory).is_dir() {
            return plan_err!("{directory} is not there");
        }
        let (mut shards, mut numbers, mut features, mut values) = (vec![], vec![], vec![], vec![]);
        for file in shard_files(Path::new(directory)) {
            for (number, record) in read_file(&file).into_iter().enumerate() {
                for (name, feature) in record {
                    shards.push(file.file_name().unwrap().to_string_lossy().into_owned());
                    numbers.push(number as i64);
                    features.push(name);
                    values.push(text(&feature));
                }
            }
        }
        let columns: [(&str, ArrayRef); 4] = [
            ("shard", Arc::new(StringArray::from(shards))),
            ("record", Arc::new(Int64Array::from(numbers))),
            ("feature", Arc::new(StringArray::from(features))),
            ("value", Arc::new(StringArray::from(values))),
        ];
        let batch = RecordBatch::try_from_iter(columns)?;
        Ok(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?))
    }
}

fn text(feature: &Feature) -> String {
    match feature {
        Feature::Int64(values) => format!("int64 {values:?}"),
        Feature::Float(values) => format!("float {values:?}"),
        Feature::Bytes(values) => {
            let texts: Vec<_> = values.iter().map(|value| value.escape_ascii().to_string()).collect();
            format!("bytes {texts:?}")
        }
        Feature::Unset => "unset".to_owned(),
    }
}
