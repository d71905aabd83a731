//! Directories that Hugging Face's `datasets` wrote: `tests/data/hugging_face` (`make.py` there).

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::ipc::writer::FileWriter;
use parquet::arrow::ArrowWriter;
use serde_json::Value;
use tfr_tests::{Fault, Operation, Run, S3Server, Scratch, repository, run, tfr_sql};

fn data_set(name: &str) -> String {
    repository().join("tests/data/hugging_face").join(name).display().to_string()
}

/// The rows of `query`, where `t` is a table.
fn read(table: &str, query: &str) -> Run {
    run(tfr_sql().args(["--table", &format!("t={table}"), query, "--format", "csv"]))
}

fn ids(table: &str) -> Vec<String> {
    let found = read(table, "SELECT id FROM t ORDER BY id").success();
    found.stdout.lines().skip(1).map(str::to_owned).collect()
}

/// Each directory has a file of a derived data set, whose ids are 1000 and more.
#[test]
fn hugging_face_directories_have_the_rows_of_their_files() {
    assert_eq!(ids(&data_set("saved/")), ["0", "1", "2", "3", "4"]);
    assert_eq!(ids(&data_set("splits/")), ["1", "2", "3", "7"]);
    assert_eq!(ids(&data_set("splits/,split=test")), ["7"]);
    assert_eq!(ids(&data_set("splits/,format=arrow,split=train")), ["1", "2", "3"]);
    assert_eq!(ids(&data_set("cache/")), ["1", "2", "3"]);
    assert_eq!(ids(&data_set("cache/,split=test")), ["3"]);
    // A pattern reads what it names.
    assert_eq!(ids(&data_set("cache/c*.arrow")).len(), 5);
}

#[test]
fn hugging_face_splits_are_found_by_name() {
    for (table, known) in [
        ("splits/,split=val", "the splits are train, test"),
        ("cache/,split=val", "the splits are test, train"),
        ("saved/,split=train", "it has no splits"),
        ("saved/data-00000-of-00002.arrow,split=train", "it has no splits"),
    ] {
        let refused = read(&data_set(table), "SELECT * FROM t").exits_with(1);
        assert!(refused.stderr.contains(known), "{table}: {}", refused.stderr);
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

#[test]
fn hugging_face_state_must_be_sound() {
    let scratch = Scratch::default();
    let directory = scratch.join("saved");
    copy(Path::new(&data_set("saved")), &directory);
    let table = format!("{}/", directory.display());
    let state = fs::read_to_string(directory.join("state.json")).unwrap();
    for (from, to, problem) in [
        ("data-00001", "data-00002", "it lists the file \"data-00002-of-00002.arrow\", which does not exist"),
        ("data-00001-of-00002.arrow", "../saved/data-00001-of-00002.arrow", "which does not exist"),
        ("\"_fingerprint\"", "\"_indices_data_files\": [{\"filename\": \"i.arrow\"}], \"_fingerprint\"", "by indices"),
        ("\"_fingerprint\"", "_fingerprint", "line"),
    ] {
        fs::write(directory.join("state.json"), state.replacen(from, to, 1)).unwrap();
        let refused = read(&table, "SELECT * FROM t").exits_with(1);
        assert!(refused.stderr.contains(problem) && refused.stderr.contains("state.json"), "{}", refused.stderr);
    }
}

/// The rows are whole without the names of their labels.
#[test]
fn hugging_face_metadata_that_is_damaged_is_noted() {
    let scratch = Scratch::default();
    let schema = Schema::new(vec![Field::new("label", DataType::Int64, true)]);
    let schema = Arc::new(schema.with_metadata([("huggingface".to_owned(), "{\"info\"".to_owned())].into()));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(Int64Array::from(vec![1]))]).unwrap();
    let mut writer = FileWriter::try_new(Vec::new(), &schema).unwrap();
    writer.write(&batch).unwrap();
    fs::write(scratch.join("a.arrow"), writer.into_inner().unwrap()).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), Arc::clone(&schema), None).unwrap();
    writer.write(&batch).unwrap();
    fs::write(scratch.join("a.parquet"), writer.into_inner().unwrap()).unwrap();
    for name in ["a.arrow", "a.parquet"] {
        let query = format!("SELECT label FROM '{}'", scratch.join(name).display());
        let found = run(tfr_sql().args([&query, "--format", "csv"])).success();
        assert_eq!(found.stdout, "label\n1\n");
        let noted =
            format!("{name}: its metadata \"huggingface\" is damaged, so that names of labels are missing: EOF");
        assert_eq!(found.stderr.matches(&noted).count(), 1, "{}", found.stderr);
    }
}

/// A store may answer to the name of a file that does not exist in any way: a plain directory is not asked for one.
#[test]
fn hugging_face_descriptions_are_read_only_if_they_are_listed() {
    let server = S3Server::default();
    let file = fs::read(data_set("cache/csv-train.arrow")).unwrap();
    server.put("plain/a.arrow", file);
    let query = format!("SELECT count(*) AS n FROM '{}'", server.url("plain/"));
    let found = run(server.tfr_sql().args([&query, "--format", "csv"])).success();
    assert_eq!(found.stdout, "n\n2\n");
    let requests = server.requests();
    let gets = requests.iter().filter(|request| request.operation == Operation::Get);
    let others: Vec<_> = gets.filter(|request| !request.path.ends_with("/a.arrow")).collect();
    assert!(others.iter().all(|request| !request.path.ends_with(".json")), "{:?}", others.len());
    // One that is listed and cannot be read is named.
    server.put_directory("saved/", Path::new(&data_set("saved")));
    let first = server.requests().iter().filter(|request| request.operation == Operation::Get).count();
    server.fail(Operation::Get, first, Fault::Status(403, String::new()));
    let query = format!("SELECT id FROM '{}'", server.url("saved/"));
    let found = run(server.tfr_sql().args([&query])).exits_with(1);
    assert!(found.stderr.contains("saved/state.json: cannot read the data set"), "{}", found.stderr);
}

/// Returns the contents of the label files next to `features.json`, and how many features are labels.
fn labels(out: &Path) -> (Vec<(String, String)>, usize) {
    let mut files: Vec<_> = fs::read_dir(out)
        .unwrap()
        .map(|file| file.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(".labels.txt"))
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read_to_string(path).unwrap()))
        .collect();
    files.sort();
    let features = fs::read_to_string(out.join("features.json")).unwrap();
    (files, features.matches("ClassLabel\"").count())
}

#[test]
fn label_names_are_in_the_sidecars() {
    let scratch = Scratch::default();
    let query = "SELECT id, label, labels AS sizes, label + 1 AS next FROM t";
    let write = |table: &str, query: &str, more: &[&str], out: &str| {
        let out = scratch.join(out);
        let arguments = ["--table", &format!("t={table}"), query, "--emit", "tfds", "--out"];
        run(tfr_sql().args(arguments).arg(&out).args(more)).success();
        out
    };
    let expected = (
        vec![
            ("label.labels.txt".to_owned(), "cat\ndog\nbird\n".to_owned()),
            ("sizes.labels.txt".to_owned(), "small\nlarge\n".to_owned()),
        ],
        2,
    );
    let out = write(&data_set("saved/"), query, &["--map", "label: index"], "shards");
    assert_eq!(labels(&out), expected);
    // From the set, with and without its manifest.
    let again = "SELECT id, label, sizes, next FROM t";
    assert_eq!(labels(&write(&format!("{}/", out.display()), again, &[], "copy")), expected);
    for file in ["_manifest.json", "_SUCCESS"] {
        fs::remove_file(out.join(file)).unwrap();
    }
    assert_eq!(labels(&write(&format!("{}/", out.display()), again, &[], "described")), expected);
    // Tables do not have them.
    let parquet = scratch.join("t.parquet");
    run(tfr_sql().args(["--table", &format!("t={}", data_set("saved/")), query, "--out"]).arg(&parquet)).success();
    assert_eq!(labels(&write(&parquet.display().to_string(), again, &[], "through")), (Vec::new(), 0));
    // Rows with other numbers are not of these labels.
    let union = "SELECT label FROM t UNION ALL SELECT 3";
    assert_eq!(labels(&write(&data_set("saved/"), union, &[], "union")), (Vec::new(), 0));
    let cases = "SELECT CASE WHEN id = 1 THEN id ELSE label END AS label FROM t";
    assert_eq!(labels(&write(&data_set("saved/"), cases, &[], "cases")), (Vec::new(), 0));
    // Nor are those of a table whose labels have other names.
    let kinds = format!("u={}", repository().join("tests/data/tfds/kinds/1.0.0/").display());
    let mixed = "SELECT label FROM t UNION ALL SELECT label FROM u";
    assert_eq!(labels(&write(&data_set("saved/"), mixed, &["--table", &kinds], "mixed")), (Vec::new(), 0));
    // Files with other names have none in common.
    let both = format!("{},path={}", data_set("saved/data-00000-of-00002.arrow"), data_set("cache/csv-train.arrow"));
    assert_eq!(labels(&write(&both, "SELECT id, label FROM t", &[], "both")).1, 0);
}

/// An image is a struct of its bytes and its path.
#[test]
fn hugging_face_images_are_their_bytes_on_request() {
    let scratch = Scratch::default();
    let table = format!("t={}", data_set("splits/"));
    let (whole, bytes) = (scratch.join("whole"), scratch.join("bytes"));
    let found = run(tfr_sql().args(["--table", &table, "SELECT image FROM t", "--out"]).arg(&whole)).success();
    assert!(found.stderr.contains("select \"image\".bytes AS \"image\""), "{}", found.stderr);
    let query = "SELECT \"image\".bytes AS \"image\" FROM t";
    let found = run(tfr_sql().args(["--table", &table, query, "--emit", "tfds", "--out"]).arg(&bytes)).success();
    assert!(!found.stderr.contains("note: column"), "{}", found.stderr);
    let features: Value = serde_json::from_slice(&fs::read(bytes.join("features.json")).unwrap()).unwrap();
    assert_eq!(features.pointer("/featuresDict/features/image/image/encodingFormat"), Some(&Value::from("png")));
}
