//! Random queries, answered by this project's SQL, PostgreSQL and DuckDB: `tests/differential` makes them and compares.
//!
//! `DIFFERENTIAL_SEED`, `DIFFERENTIAL_QUERIES` and `DIFFERENTIAL_FIRST` set which queries are asked;
//! `DIFFERENTIAL_PYTHON` is an interpreter with both judges, in the place of the tests' own.

use std::any::Any;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, DurationMicrosecondType, Float32Type, Float64Type, IntervalMonthDayNanoType, IntervalUnit,
    Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, TimestampNanosecondType,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::Result;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::SessionContext;
use serde_json::{Value, json};
use tfr_tests::{Scratch, python_with_judges, skip};

use crate::session;

/// The queries of a run of all tests.
const SEED: &str = "1";
const QUERIES: &str = "500";

/// A query that takes longer hangs.
const DEADLINE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn random_queries_have_the_answers_of_duckdb() {
    let setting = |name: &str, otherwise: &str| std::env::var(name).unwrap_or_else(|_| otherwise.to_owned());
    let script = "tests/differential/differential.py";
    let mut command = match python_with_judges(script, "DIFFERENTIAL_PYTHON") {
        Ok(command) => command,
        Err(reason) => return skip(&reason),
    };
    let scratch = Scratch::default();
    command.args([setting("DIFFERENTIAL_SEED", SEED), setting("DIFFERENTIAL_QUERIES", QUERIES)]).arg(scratch.path());
    assert!(answer_requests(command).await, "answers differ; see above");
}

/// Runs a program that asks queries, and answers them: a JSON object a line on its standard output, the answer a line
/// on its standard input. Returns whether the program succeeded.
pub(super) async fn answer_requests(mut command: Command) -> bool {
    let mut asking = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut answers = asking.stdin.take().unwrap();
    let mut context = SessionContext::new();
    for line in BufReader::new(asking.stdout.take().unwrap()).lines() {
        let request: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let answer = match request.get("sql") {
            Some(sql) => rows(&context, sql.as_str().unwrap().to_owned()).await,
            None => match open(&request).await {
                Ok(opened) => {
                    context = opened;
                    json!({})
                }
                Err(error) => json!({"error": error.strip_backtrace()}),
            },
        };
        if writeln!(answers, "{answer}").is_err() {
            break;
        }
    }
    asking.wait().unwrap().success()
}

/// A session with some tables, which are read from Parquet files or held in memory.
async fn open(request: &Value) -> Result<SessionContext> {
    let number = |name: &str| request[name].as_u64().map(|number| usize::try_from(number).unwrap());
    let mut config = session::settings(number("threads").unwrap()).with_batch_size(number("batch").unwrap());
    config.options_mut().execution.sort_spill_reservation_bytes = 64 * 1024;
    let runtime = match number("memory") {
        Some(bytes) => RuntimeEnvBuilder::new().with_memory_pool(Arc::new(FairSpillPool::new(bytes))),
        None => RuntimeEnvBuilder::new(),
    };
    let context = session::open_in(config, runtime.build_arc()?);
    let paths: BTreeMap<String, String> = serde_json::from_value(request["tables"].clone()).unwrap();
    for (name, path) in paths {
        let options = tfr_formats::InputOptions::default();
        let table = tfr_formats::open_locations(&context.state(), &[path.into()], &options, None).await?;
        if request["in_memory"] == true {
            let held = context.read_table(table)?.cache().await?;
            context.register_table(name, held.into_view())?;
        } else {
            context.register_table(name, table)?;
        }
    }
    Ok(context)
}

/// The rows of a query, or its error. One that panics or hangs is an error, too.
async fn rows(context: &SessionContext, sql: String) -> Value {
    let context = context.clone();
    let asked = tokio::spawn(async move {
        let state = context.state();
        let plan = state.statement_to_plan(tfr_engine::parse(&sql)?).await?;
        let batches = context.execute_logical_plan(plan).await?.collect().await?;
        batches.iter().map(values).collect::<Result<Vec<_>>>()
    });
    match tokio::time::timeout(DEADLINE, asked).await {
        Ok(Ok(Ok(batches))) => json!({"rows": batches.concat()}),
        Ok(Ok(Err(error))) => json!({"error": error.strip_backtrace()}),
        Ok(Err(panic)) => json!({"error": format!("panicked: {}", said(panic.into_panic().as_ref()))}),
        Err(_) => json!({"error": "timeout"}),
    }
}

/// The type of lists with offsets of 32 bits and the items of another type of lists.
fn cast_type_of_list(data_type: &DataType) -> DataType {
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::FixedSizeList(item, _) => DataType::List(Arc::clone(item)),
        other => other.clone(),
    }
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned())).unwrap_or_default()
}

/// The rows of a batch. A value is a letter for its kind, and a text.
fn values(batch: &RecordBatch) -> Result<Vec<Value>> {
    let columns = batch.columns().iter().map(|column| column_values(column)).collect::<Result<Vec<_>>>()?;
    Ok((0..batch.num_rows()).map(|row| columns.iter().map(|column| column[row].clone()).collect()).collect())
}

fn column_values(column: &dyn Array) -> Result<Vec<Value>> {
    if let DataType::Dictionary(_, values) = column.data_type() {
        return column_values(&cast(column, values)?);
    }
    let options = FormatOptions::new();
    let text =
        |row| Ok::<_, arrow::error::ArrowError>(ArrayFormatter::try_new(column, &options)?.value(row).to_string());
    let value = |row: usize| -> Result<Value> {
        if column.is_null(row) {
            return Ok(Value::Null);
        }
        Ok(Value::String(match column.data_type() {
            DataType::Null => return Ok(Value::Null),
            DataType::Boolean => format!("b{}", text(row)?),
            DataType::Float64 => format!("f{:?}", column.as_primitive::<Float64Type>().value(row)),
            DataType::Float32 => format!("f{:?}", column.as_primitive::<Float32Type>().value(row)),
            data_type if data_type.is_numeric() => format!("n{}", text(row)?),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => format!("s{}", text(row)?),
            DataType::Date32 | DataType::Date64 => {
                let stamps = cast(column, &DataType::Timestamp(TimeUnit::Microsecond, None))?;
                format!("t{}", stamps.as_primitive::<TimestampMicrosecondType>().value(row))
            }
            DataType::Timestamp(unit, zone) => {
                let tag = if zone.is_some() { 'z' } else { 't' };
                let micros = if *unit == TimeUnit::Nanosecond {
                    // PostgreSQL and DuckDB round to microseconds.
                    (column.as_primitive::<TimestampNanosecondType>().value(row) + 500).div_euclid(1_000)
                } else {
                    let stamps = cast(column, &DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))?;
                    stamps.as_primitive::<TimestampMicrosecondType>().value(row)
                };
                format!("{tag}{micros}")
            }
            DataType::Time64(_) | DataType::Time32(_) => {
                let times = cast(column, &DataType::Time64(TimeUnit::Microsecond))?;
                format!("c{}", times.as_primitive::<Time64MicrosecondType>().value(row))
            }
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
                format!("x{}", text(row)?)
            }
            DataType::List(_) | DataType::LargeList(_) | DataType::ListView(_) | DataType::FixedSizeList(..) => {
                let DataType::List(item) = cast_type_of_list(column.data_type()) else { unreachable!() };
                let lists = cast(column, &DataType::List(item))?;
                return Ok(Value::Array(column_values(&lists.as_list::<i32>().value(row))?));
            }
            DataType::Struct(_) => {
                let fields =
                    column.as_struct().columns().iter().map(|field| Ok(column_values(&field.slice(row, 1))?.remove(0)));
                return Ok(Value::Array(fields.collect::<Result<Vec<_>>>()?));
            }
            DataType::Interval(IntervalUnit::MonthDayNano) => {
                let interval = column.as_primitive::<IntervalMonthDayNanoType>().value(row);
                let days = i64::from(interval.months) * 30 + i64::from(interval.days);
                format!("i{}", days * 86_400_000_000 + interval.nanoseconds / 1_000)
            }
            DataType::Duration(_) => {
                let durations = cast(column, &DataType::Duration(TimeUnit::Microsecond))?;
                format!("i{}", durations.as_primitive::<DurationMicrosecondType>().value(row))
            }
            _ => format!("?{}", text(row)?),
        }))
    };
    (0..column.len()).map(value).collect()
}
