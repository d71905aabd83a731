//! Lines of Hive's SerDes: the rows are those of Hive 4.0.1's own `SELECT`, and where it has none, it has failed.
//!
//! `data/hive-serdes.jsonl` has a table a line: the class and the properties as the metastore has them, the columns, the
//! bytes of the file as Latin-1, and the rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::catalog::TableProvider;
use datafusion::error::{DataFusionError, Result};
use serde::Deserialize;
use serde_json::Value;
use tfr_formats::HiveTable;
use tfr_formats::hive_text::HiveColumns;
use tfr_stores::LocationText;

use crate::support::{chain, session, write};

#[derive(Deserialize)]
struct Case {
    name: String,
    serde: String,
    serde_parameters: BTreeMap<String, String>,
    parameters: BTreeMap<String, String>,
    columns: Vec<(String, String)>,
    data: String,
    rows: Option<Vec<Vec<Value>>>,
}

impl Case {
    fn table(&self) -> HiveTable {
        let mut table = HiveTable::default();
        table.serde = Some(self.serde.clone());
        table.input_format = Some("org.apache.hadoop.mapred.TextInputFormat".to_owned());
        table.serde_parameters = self.serde_parameters.clone();
        table.parameters = self.parameters.clone();
        table.columns = self.columns.clone();
        table
    }

    /// Returns the schema of the table and its rows as Hive prints them.
    async fn read(&self) -> Result<(Arc<Schema>, Vec<Vec<Value>>)> {
        let dir = tempfile::tempdir()?;
        let data: Vec<u8> = self.data.chars().map(|c| c as u8).collect();
        write(dir.path(), &[("f", &data)])?;
        let ctx = session(1);
        let options = self.table().reader().and_then(|reader| reader.input_options());
        let options = options.map_err(|error| DataFusionError::External(error.into()))?;
        let location: LocationText = dir.path().join("f").display().to_string().as_str().into();
        let table = tfr_formats::open_locations(&ctx.state(), &[location], &options, None).await?;
        let schema = table.schema();
        let batches = ctx.read_table(table as Arc<dyn TableProvider>)?.collect().await?;
        let rows = batches.iter().flat_map(|batch| {
            let row = |row| batch.columns().iter().map(|column| shown(column.as_ref(), row)).collect();
            (0..batch.num_rows()).map(row)
        });
        Ok((schema, rows.collect()))
    }
}

/// Returns a value as Hive prints it: nested values are texts.
fn shown(array: &dyn Array, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    match array.data_type() {
        DataType::List(_) | DataType::Map(..) | DataType::Struct(_) => Value::String(nested(array, row)),
        DataType::Boolean => Value::Bool(array.as_boolean().value(row)),
        DataType::Binary => Value::String(String::from_utf8_lossy(array.as_binary::<i32>().value(row)).into_owned()),
        DataType::Timestamp(..) => {
            let text = array_value_to_string(array, row).expect("a timestamp").replace('T', " ");
            Value::String(if text.contains('.') { text.trim_end_matches('0').to_owned() } else { text })
        }
        _ => Value::String(array_value_to_string(array, row).expect("a value")),
    }
}

/// Returns a value as a part of a nested one.
fn nested(array: &dyn Array, row: usize) -> String {
    if array.is_null(row) {
        return "null".to_owned();
    }
    let all = |array: &dyn Array| (0..array.len()).map(|row| nested(array, row)).collect::<Vec<_>>();
    match array.data_type() {
        DataType::List(_) => format!("[{}]", all(&array.as_list::<i32>().value(row)).join(",")),
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let (keys, values) = (all(entries.column(0)), all(entries.column(1)));
            let entries = keys.iter().zip(values).map(|(key, value)| format!("{key}:{value}"));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
        }
        DataType::Struct(fields) => {
            let parts = fields.iter().zip(array.as_struct().columns());
            let parts = parts.map(|(field, part)| format!("\"{}\":{}", field.name(), nested(part, row)));
            format!("{{{}}}", parts.collect::<Vec<_>>().join(","))
        }
        DataType::Utf8 | DataType::Date32 => {
            Value::String(array_value_to_string(array, row).expect("a text")).to_string()
        }
        _ => array_value_to_string(array, row).expect("a value"),
    }
}

/// Returns Hive's value in the form of [`shown`]: numbers as texts, without the blanks of a CHAR, and microseconds.
fn expected(value: &Value, hive_type: &str) -> Value {
    let text = match value {
        Value::Null | Value::Bool(_) => return value.clone(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    Value::String(match hive_type {
        "timestamp" => text.chars().take("2024-01-31 10:11:12.123456".len()).collect(),
        _ if hive_type.starts_with("char") => text.trim_end_matches(' ').to_owned(),
        _ => text,
    })
}

/// Whether both are one value: numbers may be written in other ways.
fn is_same(found: &Value, expected: &Value, hive_type: &str) -> bool {
    let number = |value: &Value| value.as_str().and_then(|text| text.parse::<f64>().ok());
    match hive_type {
        "float" => {
            number(found).map(|value| value as f32).map(f32::to_bits)
                == number(expected).map(|value| value as f32).map(f32::to_bits)
        }
        "double" => number(found).map(f64::to_bits) == number(expected).map(f64::to_bits),
        _ if hive_type.starts_with("decimal") => match (found.as_str(), expected.as_str()) {
            (Some(found), Some(expected)) => {
                let short = |text: &str| match text.contains('.') {
                    true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
                    false => text.to_owned(),
                };
                short(found) == short(expected)
            }
            _ => found == expected,
        },
        _ => found == expected,
    }
}

#[tokio::test]
async fn hive_serdes_give_the_rows_of_hive() {
    let cases = include_str!("data/hive-serdes.jsonl").lines();
    let mut wrong = Vec::new();
    let (mut tables, mut failures) = (0, 0);
    for case in cases {
        let case: Case = serde_json::from_str(case).expect("a case");
        let (found, rows) = (case.read().await, &case.rows);
        tables += 1;
        match (found, rows) {
            (Err(_), None) => failures += 1,
            (Err(error), Some(_)) => wrong.push(format!("{}: {}", case.name, chain(&error))),
            (Ok((_, rows)), None) => wrong.push(format!("{}: Hive fails, found {rows:?}", case.name)),
            (Ok((schema, found)), Some(rows)) => {
                let declared = match case.name.starts_with("ocsv") {
                    true => case.columns.iter().map(|(name, _)| format!("`{name}` string")).collect::<Vec<_>>(),
                    false => case.columns.iter().map(|(name, found)| format!("`{name}` {found}")).collect(),
                };
                let declared: HiveColumns = declared.join(", ").parse().expect("columns");
                assert_eq!(schema.fields(), declared.schema().fields(), "{}", case.name);
                if found.len() != rows.len() {
                    wrong.push(format!("{}: {} rows, not {}", case.name, found.len(), rows.len()));
                }
                for (line, (found, expected_row)) in found.iter().zip(rows).enumerate() {
                    for ((found, value), (_, hive_type)) in found.iter().zip(expected_row).zip(&case.columns) {
                        let value = expected(value, hive_type);
                        if !is_same(found, &value, hive_type) {
                            wrong.push(format!("{}: row {line}: Hive {value}, found {found}", case.name));
                        }
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!((tables, failures), (173, 52));
}
