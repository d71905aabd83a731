//! [`Corpus`]: files that other systems wrote, with what a reader must make of them. `README.md` there describes it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::csv::ReaderBuilder;
use arrow::csv::reader::Format;
use arrow::datatypes::{DataType, Field, Schema};
use serde_json::Value;

use crate::programs::repository;

/// `../shared/corpus`.
pub struct Corpus {
    root: PathBuf,
    entries: Vec<Entry>,
}

/// A row of the corpus's `MANIFEST.csv`.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Where the file lies in the corpus.
    pub path: String,
    /// `parquet`, `csv`, `tfrecord`, ...
    pub kind: String,
    /// `ok`, `error`, `either` or `n/a`.
    pub expect: String,
    /// Rows of the whole file; of a damaged TFRecord file, the sound ones before the damage.
    pub rows: Option<u64>,
    /// Where the expectation lies, if there is one.
    pub expected: String,
    /// Of CSV: delimiter, quote, escape, encoding.
    pub dialect: Value,
    /// What is odd about it, parts separated by semicolons; of JSON `encoding ...`.
    pub special: String,
    /// Where the damage is, and other remarks.
    pub note: String,
}

impl Corpus {
    /// The corpus, if it is there; else the test says that it is skipped.
    pub fn find() -> Option<Self> {
        let root = repository().join("../shared/corpus");
        let manifest = root.join("MANIFEST.csv");
        if !manifest.exists() {
            eprintln!("skipped: {} is not there", root.display());
            return None;
        }
        Some(Self { entries: entries(&manifest), root })
    }

    /// Those that are data, of some kinds. What the manifest says of an ArrayRecord file is what readers of TFRecord say.
    pub fn entries(&self, kinds: &[&str]) -> Vec<Entry> {
        let is_meant = |entry: &&Entry| {
            kinds.contains(&entry.kind.as_str()) && entry.expect != "n/a" && !entry.path.contains(".array_record")
        };
        self.entries.iter().filter(is_meant).cloned().collect()
    }

    /// The path of a file of the corpus.
    pub fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path)
    }
}

fn entries(manifest: &Path) -> Vec<Entry> {
    let (header, _) = Format::default().with_header(true).infer_schema(File::open(manifest).unwrap(), Some(0)).unwrap();
    let columns: Vec<_> = header.fields().iter().map(|field| Field::new(field.name(), DataType::Utf8, true)).collect();
    let batches: Vec<RecordBatch> = ReaderBuilder::new(Arc::new(Schema::new(columns)))
        .with_header(true)
        .build(File::open(manifest).unwrap())
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let mut entries = Vec::new();
    for batch in &batches {
        let cell = |column: &str, row: usize| {
            let cells = batch.column_by_name(column).unwrap().as_string::<i32>();
            if cells.is_null(row) { "" } else { cells.value(row) }.to_owned()
        };
        entries.extend((0..batch.num_rows()).map(|row| Entry {
            path: cell("path", row),
            kind: cell("kind", row),
            expect: cell("expect", row),
            rows: cell("rows", row).parse().ok(),
            expected: cell("expected", row),
            dialect: serde_json::from_str(&cell("dialect", row)).unwrap_or_default(),
            special: cell("special", row),
            note: cell("note", row),
        }));
    }
    entries
}
