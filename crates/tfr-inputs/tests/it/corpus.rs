//! Files that other systems wrote: every one of them is read as the corpus says, or refused with an error that names
//! it, and none makes a reader panic or hang.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result;

use crate::support::{chain, read, row_count, texts};

/// Longer than any file of the corpus takes, even in a debug build on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn corpus() -> Option<PathBuf> {
    let found = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|dir| dir.join("shared/corpus"))
        .find(|dir| dir.join("MANIFEST.csv").is_file());
    if found.is_none() {
        println!("skipped: there is no ../shared/corpus beside this checkout");
    }
    found
}

/// The manifest's rows, read by our own CSV reader.
async fn manifest(corpus: &Path, kind: &str) -> Result<Vec<BTreeMap<String, String>>> {
    let batches = read(&format!("{},types=string", corpus.join("MANIFEST.csv").display())).await?;
    let mut rows = Vec::new();
    for batch in &batches {
        let names: Vec<_> = batch.schema().fields().iter().map(|field| field.name().clone()).collect();
        assert!(batch.columns().iter().all(|column| column.data_type() == &DataType::Utf8));
        for row in 0..batch.num_rows() {
            let cell = |column: usize| batch.column(column).as_string::<i32>().value(row).to_owned();
            let row: BTreeMap<_, _> = names.iter().cloned().enumerate().map(|(index, name)| (name, cell(index))).collect();
            if row["kind"] == kind {
                rows.push(row);
            }
        }
    }
    Ok(rows)
}

/// What came of one file, or what is wrong with that.
async fn outcome(corpus: &Path, row: &BTreeMap<String, String>, options: &str) -> Result<String, String> {
    let path = corpus.join(&row["path"]);
    if std::env::var_os("TFR_TRACE").is_some() { eprintln!("FILE {}", row["path"]); }
    let spec = format!("\"{}\"{options}", path.display());
    let task = tokio::spawn(async move { read(&spec).await });
    let read = match tokio::time::timeout(PATIENCE, task).await {
        Err(_) => return Err("hangs".to_owned()),
        Ok(Err(panic)) => return Err(format!("panics: {panic}")),
        Ok(Ok(read)) => read,
    };
    match (row["expect"].as_str(), read) {
        ("ok" | "either", Ok(batches)) => {
            let (found, expected) = (row_count(&batches).to_string(), &row["rows"]);
            if found == *expected || (row["expect"] == "either") {
                return Ok(format!("{}: read", row["expect"]));
            }
            Err(format!("{found} rows, expected {expected}"))
        }
        ("ok", Err(error)) => Err(format!("expected {} rows: {}", row["rows"], chain(&error))),
        ("error", Ok(batches)) => Err(format!("expected an error, read {} rows", row_count(&batches))),
        (expect, Err(error)) => {
            let message = chain(&error);
            match message.contains(&row["path"]) {
                true => Ok(format!("{expect}: refused")),
                false => Err(format!("the error does not name the file: {message}")),
            }
        }
        (expect, Ok(_)) => Ok(format!("{expect}: read")),
    }
}

fn report(outcomes: &[(String, Result<String, String>)]) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (path, outcome) in outcomes {
        match outcome {
            Ok(outcome) => *counts.entry(outcome).or_default() += 1,
            Err(problem) => println!("{path}: {problem}"),
        }
    }
    println!("{counts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_parquet_file() -> Result<()> {
    let Some(corpus) = corpus() else { return Ok(()) };
    let mut outcomes = Vec::new();
    for row in manifest(&corpus, "parquet").await? {
        outcomes.push((row["path"].clone(), outcome(&corpus, &row, "").await));
    }
    report(&outcomes);
    let wrong = outcomes.iter().filter(|(_, outcome)| outcome.is_err()).count();
    assert_eq!(wrong, 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_csv_file() -> Result<()> {
    let Some(corpus) = corpus() else { return Ok(()) };
    let mut outcomes = Vec::new();
    for row in manifest(&corpus, "csv").await? {
        let options = dialect(&row);
        let mut outcome = outcome(&corpus, &row, &options).await;
        if row["expect"] == "ok" && outcome.is_ok() {
            outcome = same_cells(&corpus, &row, &options).await.map(|()| "ok: read".to_owned());
        }
        outcomes.push((row["path"].clone(), outcome));
    }
    report(&outcomes);
    let wrong = outcomes.iter().filter(|(_, outcome)| outcome.is_err()).count();
    assert_eq!(wrong, 0);
    Ok(())
}

/// The options for the dialect that the manifest gives as JSON.
fn dialect(row: &BTreeMap<String, String>) -> String {
    let text = Some(row["dialect"].as_str()).filter(|text| !text.is_empty()).unwrap_or("{}");
    let dialect: BTreeMap<String, String> = serde_json::from_str(text).expect("the dialect is JSON");
    let mut options = ",format=csv,header=false,types=string".to_owned();
    for (key, value) in &dialect {
        match (key.as_str(), value.as_str()) {
            ("delimiter" | "quote" | "escape", value) => {
                options.push_str(&format!(",{key}=\"{}\"", value.replace('"', "\"\"")));
            }
            ("encoding", encoding @ ("latin1" | "utf-16")) => options.push_str(&format!(",encoding={encoding}")),
            _ => {}
        }
    }
    options
}

async fn same_cells(corpus: &Path, row: &BTreeMap<String, String>, options: &str) -> Result<(), String> {
    let expected = std::fs::read_to_string(corpus.join(&row["expected"])).map_err(|error| error.to_string())?;
    let expected: Vec<Vec<String>> =
        expected.lines().map(|line| serde_json::from_str(line).expect("expectations are JSON")).collect();
    let path = corpus.join(&row["path"]);
    let batches = read(&format!("\"{}\"{options}", path.display())).await.map_err(|error| chain(&error))?;
    let found = texts(&batches).map_err(|error| error.to_string())?;
    match expected.iter().zip(&found).position(|(expected, found)| expected != found) {
        Some(row) => Err(format!("row {row}: {:?}, expected {:?}", found[row], expected[row])),
        None => Ok(()),
    }
}
