//! Files written by other systems. Each is read as the corpus expects, or rejected with an error that names it; no
//! reader panics or hangs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result;

use crate::support::{chain, read, row_count, texts};

/// More than any file of the corpus takes, even in a debug build on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

pub fn corpus() -> Option<PathBuf> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    if corpus.join("MANIFEST.csv").is_file() {
        return Some(corpus);
    }
    println!("skipped: there is no {}", corpus.display());
    None
}

/// Reads the manifest's rows by our own CSV reader.
pub async fn manifest(corpus: &Path, kind: &str) -> Result<Vec<BTreeMap<String, String>>> {
    let batches = read(&format!("{},types=string", corpus.join("MANIFEST.csv").display())).await?;
    let mut rows = Vec::new();
    for batch in &batches {
        let names: Vec<_> = batch.schema().fields().iter().map(|field| field.name().clone()).collect();
        assert!(batch.columns().iter().all(|column| column.data_type() == &DataType::Utf8));
        for row in 0..batch.num_rows() {
            let cell = |column: usize| batch.column(column).as_string::<i32>().value(row).to_owned();
            let row: BTreeMap<_, _> =
                names.iter().cloned().enumerate().map(|(index, name)| (name, cell(index))).collect();
            if row["kind"] == kind {
                rows.push(row);
            }
        }
    }
    Ok(rows)
}

/// The result of one file, or how it is wrong.
pub async fn outcome(corpus: &Path, row: &BTreeMap<String, String>, options: &str) -> Result<String, String> {
    let path = corpus.join(&row["path"]);
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
        ("ok", Err(error)) if chain(&error).contains("a VARIANT is not supported") => Ok("ok: refused".to_owned()),
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

/// Valid files that the Parquet crate rejects (with an error that names the file), and its messages; and one damaged
/// file that it reads. A file whose result changes has to be removed from the list.
const KNOWN: &[(&str, &str)] = &[
    ("arrow-testing/data/parquet/ARROW-17100.parquet", "eof decoding byte array"),
    ("cudf/nested-unsigned-malformed.parquet", "Not enough bytes to decode"),
    ("duckdb/bug13053-2.parquet", "two columns are named \"column\""),
    ("duckdb/empty-group/empty_group_test.parquet", "a group without columns"),
    ("impala/data/alltypes_empty_pages.parquet", "failed to fill whole buffer"),
    ("parquet-dotnet/test-delta-binary-packed.parquet", "failed to fill whole buffer"),
    ("parquet-go/malformed/negative_page_size.parquet", "expected an error, read 500 rows"),
];

/// Folders that are rejected for good reason, and how.
const REFUSED_FOLDERS: &[(&str, &str)] = &[
    ("duckdb/hive-partitioning/mismatching_count", "partition directories [part, date], but"),
    ("duckdb/hive-partitioning/mismatching_names", "partition directories [part, date], but"),
    // The files also contain a partition column, with other values.
    ("duckdb/hive-partitioning/hive_col_also_in_file", "column \"a\" is both in the file and in its path"),
    // Contains test.csv next to test.parquet.
    ("duckdb/hive-partitioning/simple", "the content is Parquet, but the table is read as CSV"),
];

/// Prints the results of the files and returns those with wrong results.
pub fn wrong(outcomes: &[(String, Result<String, String>)], known: &[(&str, &str)]) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (path, outcome) in outcomes {
        let known = known.iter().find(|(known, _)| path.ends_with(known)).map(|(_, reason)| *reason);
        match (outcome, known) {
            (Err(problem), Some(reason)) if problem.contains(reason) => {
                *counts.entry("known problem").or_default() += 1
            }
            (Err(problem), _) => wrong.push(format!("{path}: {problem}")),
            (Ok(_), Some(reason)) => wrong.push(format!("{path}: listed for {reason:?}, but this is as it should be")),
            (Ok(outcome), None) => *counts.entry(outcome).or_default() += 1,
        }
    }
    println!("{counts:?}");
    wrong
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_parquet_file() -> Result<()> {
    let Some(corpus) = corpus() else { return Ok(()) };
    let mut outcomes = Vec::new();
    for row in manifest(&corpus, "parquet").await? {
        outcomes.push((row["path"].clone(), outcome(&corpus, &row, "").await));
    }
    assert_eq!(wrong(&outcomes, KNOWN), Vec::<String>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_csv_file() -> Result<()> {
    let Some(corpus) = corpus() else { return Ok(()) };
    let mut outcomes = Vec::new();
    for row in manifest(&corpus, "csv").await? {
        let options = dialect(&row);
        let mut outcome = outcome(&corpus, &row, &options).await;
        let is_read = outcome.as_ref().is_ok_and(|outcome| outcome.ends_with("read"));
        if is_read && !row["expected"].is_empty() {
            outcome = same_cells(&corpus, &row, &options).await.map(|()| format!("{}: read", row["expect"]));
        }
        outcomes.push((row["path"].clone(), outcome));
    }
    assert_eq!(wrong(&outcomes, KNOWN), Vec::<String>::new());
    Ok(())
}

/// Folders of Parquet files are tables with all their rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_parquet_folder() -> Result<()> {
    let Some(corpus) = corpus() else { return Ok(()) };
    assert_eq!(wrong(&folders(&corpus, "parquet").await?, REFUSED_FOLDERS), Vec::<String>::new());
    Ok(())
}

/// Returns the results of the folders with files of one format.
pub async fn folders(corpus: &Path, kind: &str) -> Result<Vec<(String, Result<String, String>)>> {
    let text = std::fs::read_to_string(corpus.join("DATASETS.json"))?;
    let datasets: Vec<serde_json::Value> = serde_json::from_str(&text).expect("DATASETS.json is JSON");
    let mut outcomes = Vec::new();
    for dataset in datasets.iter().filter(|dataset| dataset["kind"] == kind) {
        let folder = dataset["folder"].as_str().unwrap_or_default();
        let expected = dataset["rows"].as_u64().unwrap_or_default();
        let outcome = match read(&format!("\"{}\"", corpus.join(folder).display())).await {
            Ok(batches) if row_count(&batches) as u64 == expected => Ok("read".to_owned()),
            Ok(batches) => Err(format!("{} rows, expected {expected}", row_count(&batches))),
            Err(error) => Err(chain(&error)),
        };
        outcomes.push((folder.to_owned(), outcome));
    }
    Ok(outcomes)
}

/// Returns the options for the dialect that the manifest specifies as JSON.
fn dialect(row: &BTreeMap<String, String>) -> String {
    let text = Some(row["dialect"].as_str()).filter(|text| !text.is_empty()).unwrap_or("{}");
    let dialect: BTreeMap<String, String> = serde_json::from_str(text).expect("the dialect is JSON");
    // The expectations have an empty text for an empty cell.
    let mut options = ",format=csv,header=false,types=string,null=no such cell".to_owned();
    for (key, value) in &dialect {
        match (key.as_str(), value.as_str()) {
            ("delimiter" | "quote" | "escape", value) => {
                options.push_str(&format!(",{key}=\"{}\"", value.replace('"', "\"\"")));
            }
            ("encoding", encoding) if encoding != "not utf-8" => options.push_str(&format!(",encoding={encoding}")),
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
