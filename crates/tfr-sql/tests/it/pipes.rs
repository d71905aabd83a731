//! Tables on pipes: standard input, named pipes and `/dev/fd/N`; and rows as an Arrow stream on standard output.

use std::fs::File;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::thread;

use arrow::array::{ArrayRef, AsArray as _, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Int8Type, Int64Type};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;

use crate::workbench::{Workbench, assert_prints, tell};

/// Two batches of 3 rows, whose last values look like the end-of-stream marker; with or without the marker itself.
fn stream(is_complete: bool) -> Vec<u8> {
    let numbers: ArrayRef = Arc::new(Int32Array::from(vec![7, -1, 0]));
    let batch = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.write(&batch).unwrap();
    if is_complete {
        writer.finish().unwrap();
    }
    writer.get_ref().clone()
}

fn with_stdin(bench: &Workbench, arguments: &[&str], input: &[u8]) -> Output {
    let mut command = bench.command(arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    thread::scope(|scope| {
        // The command may end before it has read everything.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().unwrap()
    })
}

fn batches(output: &Output) -> Vec<RecordBatch> {
    assert!(output.status.success(), "{}", tell(output));
    StreamReader::try_new(output.stdout.as_slice(), None).unwrap().map(Result::unwrap).collect()
}

const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

#[test]
fn rows_are_an_arrow_stream() {
    let bench = Workbench::new();
    let output = bench.run(&["SELECT \"UserId\", label, price FROM 'events.parquet'", "--format", "arrow"]);
    assert!(output.stdout.ends_with(&END));
    let [rows] = batches(&output).try_into().unwrap();
    assert_eq!(rows["UserId"].as_primitive::<Int64Type>().values(), &[7, 8, 7, 9]);
    // Not a view, which other libraries may lack.
    assert_eq!(
        *rows["label"].as_string::<i32>(),
        StringArray::from(vec![Some("click"), Some("view"), None, Some("view")])
    );
    assert_eq!(*rows["price"].data_type(), DataType::Decimal128(9, 2));

    let none = bench.run(&["SELECT * FROM 'events.parquet' WHERE \"UserId\" > 100", "--format", "arrow"]);
    let reader = StreamReader::try_new(none.stdout.as_slice(), None).unwrap();
    assert_eq!((reader.schema().fields().len(), reader.count()), (4, 0));
    assert!(none.stdout.ends_with(&END));
}

#[test]
fn dictionaries_stay_dictionaries() {
    let bench = Workbench::new();
    let words = |words: &[&str]| -> ArrayRef { Arc::new(words.iter().copied().collect::<DictionaryArray<Int8Type>>()) };
    let file = File::create(bench.path().join("words.arrows")).unwrap();
    let first = RecordBatch::try_from_iter([("w", words(&["a", "b", "a"]))]).unwrap();
    let mut writer = StreamWriter::try_new(file, &first.schema()).unwrap();
    writer.write(&first).unwrap();
    writer.write(&RecordBatch::try_from_iter([("w", words(&["x", "a"]))]).unwrap()).unwrap();
    writer.finish().unwrap();
    let found = batches(&bench.run(&["SELECT w FROM 'words.arrows'", "--format", "arrow"]));
    let texts = found.iter().flat_map(|batch| {
        let words = batch["w"].as_dictionary::<Int8Type>().downcast_dict::<StringArray>().unwrap();
        words.into_iter().map(|word| word.unwrap().to_owned()).collect::<Vec<_>>()
    });
    assert_eq!(texts.collect::<Vec<_>>(), ["a", "b", "a", "x", "a"]);
}

#[test]
fn a_failed_query_has_no_end_marker() {
    let bench = Workbench::new();
    let output = bench.run(&["SELECT 1 / (id - 9999) AS x FROM 'many.parquet'", "--format", "arrow"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(!output.stdout.ends_with(&END));
    assert!(StreamReader::try_new(output.stdout.as_slice(), None).is_ok());
}

#[test]
fn a_terminal_gets_no_arrow_stream() {
    let bench = Workbench::new();
    let command = format!("{} 'SELECT 1' --format arrow --color never", env!("CARGO_BIN_EXE_tfr-sql"));
    // A terminal in which the command runs.
    let output = Command::new("script").args(["-qec", &command, "/dev/null"]).stdin(Stdio::null()).output();
    let Ok(output) = output else { return println!("skipped: there is no `script`") };
    let text = String::from_utf8_lossy(&output.stdout).replace('\r', "");
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.starts_with("error: --format arrow is for programs, and standard output is a terminal"), "{text}");
    assert!(bench.leftovers().is_empty());
}

#[test]
fn an_output_cannot_be_standard_output() {
    let bench = Workbench::new();
    assert_prints!(bench.tell(&["SELECT 1", "--out", "-"]), @r##"
    exit 2
    -- stderr
    error: invalid value '-' for '--out <URL>': an output is published when it is complete, which standard output cannot be

    hint: name a file or a directory; without --out, a query prints its rows: add --format arrow, csv or jsonl

    For more information, try '--help'.
    "##);
    assert_eq!(bench.run_tool(&["reshard", "shards", "--out", "-"]).status.code(), Some(2));
    assert!(bench.leftovers().is_empty(), "{:?}", bench.leftovers());
}

#[test]
fn a_piped_stream_must_be_complete() {
    let bench = Workbench::new();
    let query = "SELECT count(*) AS n FROM '-'";
    assert_eq!(with_stdin(&bench, &[query], &stream(true)).stdout, b"n\n6\n");

    let cut = stream(false);
    let failed = with_stdin(&bench, &[query], &cut);
    assert_eq!(failed.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&failed.stderr).contains("ends without its end-of-stream marker"),
        "{}",
        tell(&failed)
    );
    let failed = with_stdin(&bench, &["SELECT * FROM '-'", "--out", "shards"], &cut);
    assert_eq!(failed.status.code(), Some(1));
    let declared = "CREATE EXTERNAL TABLE t STORED AS ARROW LOCATION '-'; SELECT n FROM t";
    assert_eq!(with_stdin(&bench, &[declared], &cut).status.code(), Some(1));
    // Within a message, between the bytes of the marker, before any of it, and within the schema.
    for end in [cut.len() - 1, cut.len() + 4, 0, 100] {
        let failed = with_stdin(&bench, &[query], &stream(true)[..end]);
        assert_eq!(failed.status.code(), Some(1), "{end}: {}", tell(&failed));
    }
    assert!(bench.leftovers().is_empty(), "{:?}", bench.leftovers());
}

#[test]
fn a_file_may_lack_the_marker_but_no_part_of_a_message() {
    let bench = Workbench::new();
    let cut = stream(false);
    std::fs::write(bench.path().join("t.arrows"), &cut).unwrap();
    let query = "SELECT count(*) AS n FROM 't.arrows'";
    assert_eq!(bench.run(&[query]).stdout, b"n\n6\n");
    // Standard input is that file.
    let mut command = bench.command(&["SELECT count(*) AS n FROM '-'"]);
    let output = command.stdin(File::open(bench.path().join("t.arrows")).unwrap()).output().unwrap();
    assert_eq!(output.stdout, b"n\n6\n", "{}", tell(&output));
    std::fs::write(bench.path().join("t.arrows"), &cut[..cut.len() - 1]).unwrap();
    assert_eq!(bench.run(&[query]).status.code(), Some(1));
}

/// Runs a script of bash, in which `$TFR` is the command.
fn bash(bench: &Workbench, script: &str) -> Output {
    let mut command = Command::new("bash");
    command.current_dir(bench.path()).args(["-c", script]).env("TFR", env!("CARGO_BIN_EXE_tfr-sql"));
    command.output().unwrap()
}

#[test]
fn pipes_of_a_shell_are_tables() {
    let bench = Workbench::new();
    let output = bash(
        &bench,
        r#"$TFR "SELECT u.name, e.label FROM u JOIN e ON u.id = e.\"UserId\" WHERE label = 'view' ORDER BY name" \
            --table 'u=/dev/fd/5,delimiter=;' --table e=/dev/fd/6 5< <(cat users.csv) 6< <(cat events.parquet)"#,
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout), "name,label\nBarbara,view\nGrace,view\n", "{}", tell(&output));
    let output = bash(
        &bench,
        r#"$TFR "SELECT count(*) AS n FROM '"<(cat many.parquet)"' a JOIN '-' b USING (id)" < <(cat many.parquet)"#,
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout), "n\n10000\n", "{}", tell(&output));
    // One pipe, read twice and by two names.
    let output = bash(
        &bench,
        r#"$TFR "SELECT count(*) AS n FROM '-' a JOIN '/dev/stdin' b USING (id) JOIN '-' c USING (id)" < <(cat many.parquet)"#,
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout), "n\n10000\n", "{}", tell(&output));
    // A descriptor that is a file.
    let output = bash(&bench, r#"$TFR "SELECT count(*) AS n FROM '/dev/fd/5'" 5< many.parquet"#);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "n\n10000\n", "{}", tell(&output));
}

/// The program before the pipe has failed, usually.
#[test]
fn an_empty_pipe_is_named() {
    let bench = Workbench::new();
    for query in [
        "\"SELECT * FROM '-'\" < <(true)",
        "\"SELECT * FROM t\" --table t=-,format=csv < <(true)",
        "\"SELECT * FROM t\" --table t=- < /dev/null",
        "\"CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '-'; SELECT * FROM t\" < <(true)",
    ] {
        let output = bash(&bench, &format!("$TFR {query}"));
        let shown = tell(&output);
        let expected =
            "error: standard input: empty, so it is not a table\n\nhint: did the program that writes it fail?";
        assert!(shown.contains(expected), "{query}: {shown}");
    }
    let output = bash(&bench, "$TFR \"SELECT * FROM t\" --table t=/dev/fd/5 5< <(true)");
    assert!(tell(&output).contains("error: /dev/fd/5: empty, so it is not a table"), "{}", tell(&output));
    // Declared columns are a table without rows.
    let declared = "CREATE EXTERNAL TABLE t (id BIGINT) STORED AS CSV LOCATION '-'; SELECT count(*) AS n FROM t";
    let output = bash(&bench, &format!("$TFR \"{declared}\" < <(true)"));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "n\n0\n", "{}", tell(&output));
}

#[test]
fn named_pipes_are_tables() {
    let bench = Workbench::new();
    let make = |name: &str| {
        assert!(Command::new("mkfifo").arg(bench.path().join(name)).status().unwrap().success());
        bench.path().join(name)
    };
    let (left, right) = (make("left"), make("right"));
    let rows = |numbers: Vec<i64>| {
        let batch = RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from(numbers)) as ArrayRef)]).unwrap();
        let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        writer.into_inner().unwrap()
    };
    let output = thread::scope(|scope| {
        scope.spawn(|| std::fs::write(&right, rows(vec![2, 3, 4])).unwrap());
        scope.spawn(|| std::fs::write(&left, rows(vec![1, 2, 3])).unwrap());
        bench.run(&["SELECT n FROM 'left' JOIN r USING (n) ORDER BY n", "--table", "r=right"])
    });
    assert_eq!(String::from_utf8_lossy(&output.stdout), "n\n2\n3\n", "{}", tell(&output));
}

/// Rows as a stream of several batches, and the same stream as a file.
fn many(bench: &Workbench) -> Vec<u8> {
    let batch = |first: i64| {
        let numbers = Arc::new(Int64Array::from_iter_values(first..first + 1000)) as ArrayRef;
        let words = Arc::new(StringArray::from_iter_values((0..1000).map(|n| ["cat", "dog"][n % 2]))) as ArrayRef;
        RecordBatch::try_from_iter([("n", numbers), ("w", words)]).unwrap()
    };
    let mut writer = StreamWriter::try_new(Vec::new(), &batch(0).schema()).unwrap();
    (0..20).for_each(|part| writer.write(&batch(part * 1000)).unwrap());
    let stream = writer.into_inner().unwrap();
    std::fs::write(bench.path().join("many.arrows"), &stream).unwrap();
    stream
}

#[test]
fn piped_stream_is_copied_only_if_read_twice() {
    let bench = Workbench::new();
    let stream = many(&bench);
    let run = |arguments: &[&str]| {
        let output = with_stdin(&bench, &[arguments, &["-v"]].concat(), &stream);
        assert!(output.status.success(), "{}", tell(&output));
        let is_copied = String::from_utf8_lossy(&output.stderr).contains("kept in");
        (String::from_utf8_lossy(&output.stdout).into_owned(), is_copied)
    };
    let answer = |text: &str, is_copied| (format!("n\n{text}\n"), is_copied);
    assert_eq!(run(&["SELECT count(*) AS n FROM '-' WHERE n % 2 = 0"]), answer("10000", false));
    assert_eq!(run(&["SELECT sum(n) AS n FROM t", "--table", "t=-,format=arrow"]), answer("199990000", false));
    assert_eq!(run(&["SELECT count(*) AS n FROM '-' a JOIN '-' b USING (n)"]), answer("20000", true));
    assert_eq!(run(&["SELECT count(*) AS n FROM '-' WHERE n > (SELECT avg(n) FROM '-')"]), answer("10000", true));
    let recursive = "WITH RECURSIVE r AS (SELECT CAST(1 AS BIGINT) AS n UNION ALL SELECT t.n + 1 AS n FROM r JOIN '-' t \
        ON t.n = r.n WHERE r.n < 5) SELECT max(n) AS n FROM r";
    assert_eq!(run(&[recursive]), answer("5", true));
    // Runs that need the rows twice: to count them, and to collect a vocabulary.
    let counted = ["SELECT n FROM '-' ORDER BY n", "--out", "ordered", "--shards", "3"];
    assert!(run(&counted).1);
    let ranked = ["SELECT w FROM '-'", "--out", "ranked", "--map", "w: index"];
    assert!(run(&ranked).1);
    let count = |query: &str| String::from_utf8(bench.run(&[query]).stdout).unwrap();
    assert_eq!(count("SELECT count(*) AS n FROM 'ordered/'"), "n\n20000\n");
    assert_eq!(count("SELECT w, count(*) AS n FROM 'ranked/' GROUP BY w ORDER BY w"), "w,n\ncat,10000\ndog,10000\n");
}

#[test]
fn a_stream_is_written_like_a_file() {
    let bench = Workbench::new();
    let stream = many(&bench);
    let options = ["--shards", "3", "--quiet"];
    let written = with_stdin(&bench, &[&["SELECT * FROM '-'", "--out", "streamed"], &options[..]].concat(), &stream);
    assert!(written.status.success(), "{}", tell(&written));
    assert!(bench.run(&[&["SELECT * FROM 'many.arrows'", "--out", "read"], &options[..]].concat()).status.success());
    for shard in 0..3 {
        let bytes =
            |set: &str| std::fs::read(bench.path().join(format!("{set}/part-{shard:05}-of-00003.tfrecord"))).unwrap();
        assert_eq!(bytes("streamed"), bytes("read"), "shard {shard}");
    }
    let schema = |set: &str| {
        let manifest = std::fs::read(bench.path().join(set).join("_manifest.json")).unwrap();
        serde_json::from_slice::<serde_json::Value>(&manifest).unwrap()["schema"].clone()
    };
    assert_eq!(schema("streamed"), schema("read"));
}

/// A query would wait for the other end.
#[test]
fn a_manifest_that_is_a_pipe_is_an_error() {
    let bench = Workbench::new();
    assert_eq!(tell(&bench.run(&["SELECT 1 AS a", "--out", "set", "--quiet"])), "exit 0\n");
    let manifest = bench.path().join("set/_manifest.json");
    std::fs::remove_file(&manifest).unwrap();
    assert!(Command::new("mkfifo").arg(&manifest).status().unwrap().success());
    let refused = tell(&bench.run_tool(&["SELECT * FROM 'set/'", "--quiet"]));
    assert!(refused.contains("error: set/_manifest.json: not a regular file"), "{refused}");
}
