//! Rows to a table in another format.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

use arrow::array::{
    Array as _, ArrayRef, BinaryArray, BooleanArray, DictionaryArray, Int64Array, ListArray, NullArray, StringArray,
    StructArray, TimestampMicrosecondArray, UInt64Array, UnionArray,
};
use arrow::datatypes::{DataType, Field, Float32Type, Int8Type, Schema, UnionFields};
use arrow::ipc::reader::FileReader;
use arrow::ipc::writer::FileWriter;
use arrow::record_batch::RecordBatch;
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;

use crate::workbench::{Workbench, assert_prints, tell};

const QUERY: &str = "SELECT UserId, label FROM 'events.parquet'";

fn read_parquet(path: PathBuf) -> (Schema, Vec<RecordBatch>) {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
    let schema = reader.schema().as_ref().clone();
    (schema, reader.build().unwrap().collect::<Result<_, _>>().unwrap())
}

fn read_arrow(path: PathBuf) -> (Schema, Vec<RecordBatch>) {
    let reader = FileReader::try_new(File::open(path).unwrap(), None).unwrap();
    (reader.schema().as_ref().clone(), reader.collect::<Result<_, _>>().unwrap())
}

fn ids(batches: &[RecordBatch]) -> Vec<i64> {
    let columns = batches.iter().map(|batch| batch["id"].as_any().downcast_ref::<Int64Array>().unwrap().clone());
    columns.flat_map(|ids| ids.values().to_vec()).collect()
}

/// Columns of many types, in `types.parquet`.
fn with_types(bench: &Workbench) {
    let struct_fields = StructArray::try_from(vec![("x", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef)]).unwrap();
    let list = ListArray::from_iter_primitive::<Float32Type, _, _>([Some(vec![Some(0.5), None]), None]);
    let dictionary: DictionaryArray<Int8Type> = [Some("a"), None].into_iter().collect();
    let time = TimestampMicrosecondArray::from(vec![Some(1), None]).with_timezone("Europe/Zurich");
    bench.parquet(
        "types.parquet",
        [
            ("flag", Arc::new(BooleanArray::from(vec![Some(true), None])) as ArrayRef),
            ("big", Arc::new(UInt64Array::from(vec![u64::MAX, 0]))),
            ("text", Arc::new(StringArray::from(vec![Some("a,\"b\"\nc"), Some("")]))),
            ("bytes", Arc::new(BinaryArray::from_opt_vec(vec![Some(b"\xff\x00".as_slice()), None]))),
            ("time", Arc::new(time)),
            ("dictionary", Arc::new(dictionary)),
            ("list", Arc::new(list)),
            ("struct", Arc::new(struct_fields)),
        ],
    );
}

#[test]
fn a_query_becomes_one_file() {
    let bench = Workbench::new();
    for (name, content) in [
        ("x.csv", "UserId,label\n7,click\n8,view\n7,\n9,view\n"),
        (
            "x.json",
            "[{\"UserId\":7,\"label\":\"click\"},\n {\"UserId\":8,\"label\":\"view\"},\n {\"UserId\":7,\"label\":null},\n \
             {\"UserId\":9,\"label\":\"view\"}]\n",
        ),
        (
            "x.jsonl",
            "{\"UserId\":7,\"label\":\"click\"}\n{\"UserId\":8,\"label\":\"view\"}\n{\"UserId\":7,\"label\":null}\n\
             {\"UserId\":9,\"label\":\"view\"}\n",
        ),
    ] {
        assert_eq!(bench.tell(&[QUERY, "--out", name, "--quiet"]), "exit 0\n");
        assert_eq!(fs::read_to_string(bench.path().join(name)).unwrap(), content);
        let zipped = format!("{name}.gz");
        assert_eq!(bench.tell(&[QUERY, "--out", &zipped, "--quiet"]), "exit 0\n");
        let mut text = String::new();
        let file = File::open(bench.path().join(zipped)).unwrap();
        flate2::read::MultiGzDecoder::new(file).read_to_string(&mut text).unwrap();
        assert_eq!(text, content);
    }
    assert_prints!(bench.tell(&[QUERY, "--out", "new/dir/x.csv"]), @r##"
    exit 0
    -- stderr
    4 rows, 38 B, [seconds]: new/dir/x.csv
    "##);
}

#[test]
fn types_survive() {
    let bench = Workbench::new();
    with_types(&bench);
    let (schema, batches) = read_parquet(bench.path().join("types.parquet"));
    for (name, read) in [("x.parquet", read_parquet as fn(PathBuf) -> _), ("x.arrow", read_arrow)] {
        assert_eq!(bench.tell(&["SELECT * FROM 'types.parquet'", "--out", name, "--quiet"]), "exit 0\n");
        let (found, rows) = read(bench.path().join(name));
        let types = |schema: &Schema| -> Vec<_> {
            schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect()
        };
        assert_eq!(types(&found), types(&schema), "{name}");
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].columns(), batches[0].columns(), "{name}");
    }
}

#[test]
fn text_table_files_equal_the_printed_rows() {
    let bench = Workbench::new();
    with_types(&bench);
    for (name, format, columns) in
        [("x.csv", "csv", "* EXCEPT (list, struct)"), ("x.json", "json", "*"), ("x.jsonl", "jsonl", "*")]
    {
        let query = &format!("SELECT {columns} FROM 'types.parquet'");
        assert_eq!(bench.tell(&[query, "--out", name, "--quiet"]), "exit 0\n");
        let printed = bench.run(&[query, "--format", format]).stdout;
        assert_eq!(
            String::from_utf8_lossy(&fs::read(bench.path().join(name)).unwrap()),
            String::from_utf8_lossy(&printed)
        );
    }
}

#[test]
fn csv_refuses_nested_columns_by_name() {
    let bench = Workbench::new();
    with_types(&bench);
    for out in ["x.csv", "x.csv.gz", "x.csv/"] {
        let shown = bench.tell(&["SELECT * FROM 'types.parquet'", "--out", out]);
        assert_eq!(
            shown.replace(out, "[out]"),
            "exit 1\n-- stderr\nerror: [out]: a CSV cell holds one value, found column \"list\": List(Float32), column \
             \"struct\": Struct(\"x\": non-null Int64)\n\nhint: write .json, .jsonl or .parquet instead, or select text: \
             array_to_string(tags, ';') AS tags for a list\n"
        );
    }
    assert!(bench.leftovers() == [PathBuf::from("types.parquet")], "{:?}", bench.leftovers());
    let text = "SELECT array_to_string(list, ';') AS list FROM 'types.parquet'";
    assert_eq!(bench.tell(&[text, "--out", "x.csv", "--quiet"]), "exit 0\n");
}

/// A column `x` of numbers or texts, in `union.arrow`.
fn with_union(bench: &Workbench) {
    let fields = UnionFields::try_new(
        [0, 1, 2],
        [
            Field::new("null", DataType::Null, true),
            Field::new("int", DataType::Int64, true),
            Field::new("string", DataType::Utf8, true),
        ],
    );
    let children: Vec<ArrayRef> = vec![
        Arc::new(NullArray::new(1)),
        Arc::new(Int64Array::from(vec![5])),
        Arc::new(StringArray::from(vec!["it's"])),
    ];
    let union =
        UnionArray::try_new(fields.unwrap(), vec![0, 1, 2].into(), Some(vec![0, 0, 0].into()), children).unwrap();
    let batch = RecordBatch::try_from_iter([("x", Arc::new(union) as ArrayRef)]).unwrap();
    let file = File::create(bench.path().join("union.arrow")).unwrap();
    let mut writer = FileWriter::try_new(file, batch.schema().as_ref()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
}

#[test]
fn table_writes_unions_to_json_only() {
    let bench = Workbench::new();
    with_union(&bench);
    let all = "SELECT * FROM 'union.arrow'";
    let lines = "{\"x\":null}\n{\"x\":5}\n{\"x\":\"it's\"}\n";
    assert_eq!(bench.tell(&[all, "--out", "x.jsonl", "--quiet"]), "exit 0\n");
    assert_eq!(fs::read_to_string(bench.path().join("x.jsonl")).unwrap(), lines);
    assert_eq!(bench.tell(&[all, "--format", "jsonl"]), format!("exit 0\n-- stdout\n{lines}"));
    assert_prints!(bench.tell(&[all, "--out", "x.parquet"]), @r##"
    exit 1
    -- stderr
    error: x.parquet: column "x": Parquet has no type for Union(Dense, 0: ("null": Null), 1: ("int": Int64), 2: ("string": Utf8))

    hint: write .arrow or .jsonl instead, or select one type of it, union_extract(x, 'int'), and which one a row has, union_tag(x)
    "##);
    assert_prints!(bench.tell(&[all, "--out", "x.csv"]), @r##"
    exit 1
    -- stderr
    error: x.csv: a CSV cell holds one value, found column "x": Union(Dense, 0: ("null": Null), 1: ("int": Int64), 2: ("string": Utf8))

    hint: write .json or .jsonl instead, or select one type of it, union_extract(x, 'int'), and which one a row has, union_tag(x)
    "##);
    assert_prints!(bench.tell(&["SELECT [x] AS list FROM 'union.arrow'", "--out", "x.parquet"]), @r##"
    exit 1
    -- stderr
    error: x.parquet: column "list": Parquet has no type for List(Union(Dense, 0: ("null": Null), 1: ("int": Int64), 2: ("string": Utf8)))

    hint: write .arrow or .jsonl instead, or leave it out
    "##);
    // The way out.
    let query = "SELECT union_extract(x, 'int') AS i, union_tag(x) AS tag FROM 'union.arrow'";
    for out in ["x.parquet", "x.csv"] {
        assert_eq!(bench.tell(&[query, "--out", out, "--quiet"]), "exit 0\n");
    }
    let (_, rows) = read_parquet(bench.path().join("x.parquet"));
    assert_eq!(rows[0]["i"].as_ref(), &Int64Array::from(vec![None, Some(5), None]));
    let shown = bench.tell(&["SELECT INTERVAL '1 month' AS \"a b\"", "--out", "y.parquet"]);
    assert_prints!(shown, @r##"
    exit 1
    -- stderr
    error: y.parquet: column "a b": Parquet has no type for Interval(MonthDayNano)

    hint: CAST("a b" AS VARCHAR) AS "a b"
    "##);
    let query = "SELECT CAST(\"a b\" AS VARCHAR) AS \"a b\" FROM (SELECT INTERVAL '1 month' AS \"a b\") t";
    assert_eq!(bench.tell(&[query, "--out", "y.parquet", "--quiet"]), "exit 0\n");
}

#[test]
fn two_columns_of_one_name_are_refused() {
    let bench = Workbench::new();
    for out in ["x.jsonl", "x.parquet", "x.csv/"] {
        let shown = bench.tell(&["SELECT * FROM (SELECT 1 AS id) x, (SELECT 2 AS id) y", "--out", out]);
        assert_eq!(
            shown.replace(out, "[out]"),
            "exit 1\n-- stderr\nerror: [out]: two columns are named \"id\"\n\nhint: rename one of them: ... AS id_2\n"
        );
    }
    assert!(bench.leftovers().is_empty());
}

#[test]
fn csv_table_distinguishes_null_from_empty_text() {
    let bench = Workbench::new();
    let query = "SELECT * FROM (VALUES ('', 1), (NULL, 2), ('NaN', 3)) AS t (a, b)";
    assert_eq!(bench.tell(&[query, "--out", "x.csv", "--quiet"]), "exit 0\n");
    assert_eq!(fs::read_to_string(bench.path().join("x.csv")).unwrap(), "a,b\n\"\",1\n,2\nNaN,3\n");
}

#[test]
fn dictionaries_inside_lists_reach_an_arrow_file() {
    let bench = Workbench::new();
    // Every batch has another dictionary, and there are many.
    let query = "SELECT make_array(arrow_cast(concat('word ', id / 3000), 'Dictionary(Int32, Utf8)')) AS words, id \
                 FROM 'many.parquet' ORDER BY id";
    let small = format!("SET datafusion.execution.batch_size = 1000; {query}");
    assert_eq!(bench.tell(&[&small, "--out", "x.arrow", "--quiet"]), "exit 0\n");
    let (schema, rows) = read_arrow(bench.path().join("x.arrow"));
    assert_eq!(schema.field(0).data_type(), &DataType::new_list(DataType::Utf8, true));
    let words = rows.iter().flat_map(|batch| {
        let lists = batch["words"].as_any().downcast_ref::<ListArray>().unwrap();
        let words = lists.values().as_any().downcast_ref::<StringArray>().unwrap().clone();
        (0..words.len()).map(move |i| words.value(i).to_owned())
    });
    assert!(words.eq((0..10_000).map(|id| format!("word {}", id / 3000))));
    let runs = "SET datafusion.execution.batch_size = 1000; SELECT arrow_cast(arrow_cast(concat('word ', id / 3000), \
                'Dictionary(Int32, Utf8)'), 'RunEndEncoded(\"run_ends\": non-null Int32, \"values\": Dictionary(Int32, \
                Utf8))') AS word FROM 'many.parquet'";
    assert_eq!(bench.tell(&[runs, "--out", "runs.arrow", "--quiet"]), "exit 0\n");
    assert_eq!(read_arrow(bench.path().join("runs.arrow")).0.field(0).data_type(), &DataType::Utf8);
}

#[test]
fn a_slash_asks_for_a_directory_of_files() {
    let bench = Workbench::new();
    fs::create_dir(bench.path().join("in")).unwrap();
    for part in 0..2 {
        let values = Arc::new(Int64Array::from_iter_values(part * 1000..(part + 1) * 1000)) as ArrayRef;
        bench.parquet(&format!("in/{part}.parquet"), [("id", values)]);
    }
    let shown = bench.tell(&["SELECT id FROM 'in/'", "--out", "out.parquet/"]);
    assert!(shown.starts_with("exit 0\n-- stderr\n2,000 rows in 2 files, "), "{shown}");
    let names = || -> Vec<_> {
        let entries = fs::read_dir(bench.path().join("out.parquet")).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(names(), ["_SUCCESS", "part-00000-of-00002.parquet", "part-00001-of-00002.parquet"]);
    let part = |i| ids(&read_parquet(bench.path().join(format!("out.parquet/part-0000{i}-of-00002.parquet"))).1);
    assert_eq!([part(0), part(1)].concat(), (0..2000).collect::<Vec<_>>());

    // The directory is there now, so its name is enough.
    let again = ["SELECT id FROM 'in/' ORDER BY id DESC", "--out", "out.parquet", "--mode", "overwrite", "--quiet"];
    assert_eq!(bench.tell(&again), "exit 0\n");
    assert_eq!(names(), ["_SUCCESS", "part-00000-of-00001.parquet"]);
    let rows = read_parquet(bench.path().join("out.parquet/part-00000-of-00001.parquet")).1;
    assert_eq!(ids(&rows), (0..2000).rev().collect::<Vec<_>>());
    assert_eq!(bench.leftovers(), [PathBuf::from("in"), PathBuf::from("out.parquet")]);
    // And it is read as a table.
    let count = bench.run(&["SELECT count(*) AS n FROM 'out.parquet'"]);
    assert_eq!(count.stdout, b"n\n2000\n");
}

#[test]
fn table_keeps_the_order_of_the_query() {
    let bench = Workbench::new();
    let query = "SELECT id FROM 'many.parquet' ORDER BY id % 7, id";
    let mut expected: Vec<i64> = (0..10_000).collect();
    expected.sort_by_key(|id| (id % 7, *id));
    let derived =
        "WITH x AS (SELECT id, id % 7 AS key FROM 'many.parquet' ORDER BY key, id) SELECT id FROM x WHERE id >= 0";
    for (query, name) in [(query, "x.parquet"), (query, "x.arrow"), (derived, "derived.parquet")] {
        assert_eq!(bench.tell(&[query, "--out", name, "--quiet"]), "exit 0\n");
    }
    assert_eq!(ids(&read_parquet(bench.path().join("x.parquet")).1), expected);
    assert_eq!(ids(&read_parquet(bench.path().join("derived.parquet")).1), expected);
    assert_eq!(ids(&read_arrow(bench.path().join("x.arrow")).1), expected);
}

#[test]
fn equal_runs_give_equal_files() {
    let bench = Workbench::new();
    fs::create_dir(bench.path().join("in")).unwrap();
    for part in 0..3 {
        let values = Arc::new(Int64Array::from_iter_values(part * 20_000..(part + 1) * 20_000)) as ArrayRef;
        bench.parquet(&format!("in/{part}.parquet"), [("id", values)]);
    }
    let runs = ["a.jsonl", "b.jsonl"].map(|name| {
        assert_eq!(bench.tell(&["SELECT id FROM 'in/' WHERE id % 3 = 0", "--out", name, "--quiet"]), "exit 0\n");
        fs::read(bench.path().join(name)).unwrap()
    });
    assert_eq!(runs[0].iter().filter(|byte| **byte == b'\n').count(), 20_000);
    assert!(runs[0] == runs[1]);
}

#[test]
fn no_rows_are_a_whole_file() {
    let bench = Workbench::new();
    let query = "SELECT UserId, label FROM 'events.parquet' WHERE false";
    for (name, content) in [("x.csv", "UserId,label\n"), ("x.json", "[]\n"), ("x.jsonl", "")] {
        assert!(bench.run(&[query, "--out", name]).status.success());
        assert_eq!(fs::read_to_string(bench.path().join(name)).unwrap(), content);
    }
    let shown = bench.tell(&[query, "--out", "x.parquet"]);
    assert!(shown.starts_with("exit 0\n-- stderr\nthe query yields no rows\n0 rows, "), "{shown}");
    let (schema, rows) = read_parquet(bench.path().join("x.parquet"));
    assert_eq!((schema.field(1).data_type(), rows.len()), (&DataType::Utf8, 0));
    assert!(bench.run(&[query, "--out", "x.arrow"]).status.success());
    assert_eq!(read_arrow(bench.path().join("x.arrow")).0.fields().len(), 2);
}

#[test]
fn table_is_replaced_only_by_overwrite() {
    let bench = Workbench::new();
    bench.text("x.csv", "mine");
    assert_prints!(bench.tell(&[QUERY, "--out", "x.csv"]), @r##"
    exit 1
    -- stderr
    error: x.csv: already exists

    hint: choose another name, or replace the existing files with --mode overwrite
    "##);
    assert_eq!(fs::read_to_string(bench.path().join("x.csv")).unwrap(), "mine");
    assert_eq!(bench.tell(&[QUERY, "--out", "x.csv", "--mode", "overwrite", "--quiet"]), "exit 0\n");
    assert!(fs::read_to_string(bench.path().join("x.csv")).unwrap().starts_with("UserId"));
    assert_eq!(bench.leftovers(), [PathBuf::from("x.csv")]);
}

#[test]
fn table_does_not_replace_a_directory_with_other_files() {
    let bench = Workbench::new();
    fs::create_dir(bench.path().join("x.csv")).unwrap();
    // Empty, it may be written to.
    assert_eq!(bench.tell(&[QUERY, "--out", "x.csv", "--quiet"]), "exit 0\n");
    assert_prints!(bench.tell(&[QUERY, "--out", "x.csv"]), @r##"
    exit 1
    -- stderr
    error: x.csv: already exists

    hint: choose another name, or replace the existing files with --mode overwrite
    "##);
    bench.text("x.csv/notes.txt", "mine");
    assert_prints!(bench.tell(&[QUERY, "--out", "x.csv/", "--mode", "overwrite"]), @r##"
    exit 1
    -- stderr
    error: x.csv/: neither replaced nor appended to, because it contains files written by other tools: notes.txt

    hint: choose another directory, or move these files away; to go on with the rows that are there, copy them to a set and append to that: tfr-sql "SELECT * FROM 'x.csv/'" --out DIR
    "##);
    assert!(bench.path().join("x.csv/notes.txt").exists());
    bench.text("y.csv", "mine");
    assert_prints!(bench.tell(&[QUERY, "--out", "y.csv/", "--mode", "overwrite"]), @r##"
    exit 1
    -- stderr
    error: y.csv/: expected a directory, found a file

    hint: choose another name, or move the existing file away
    "##);
}

#[test]
fn an_input_is_not_written_over() {
    let bench = Workbench::new();
    let overwrite = ["--mode", "overwrite"];
    assert_prints!(bench.tell(&[&[QUERY, "--out", "events.parquet"], overwrite.as_slice()].concat()), @r##"
    exit 1
    -- stderr
    error: [dir]/events.parquet: overlaps with input [dir]/events.parquet

    hint: write to another path: the output must not be an input, contain one or be inside one
    "##);
    fs::create_dir(bench.path().join("in")).unwrap();
    fs::rename(bench.path().join("events.parquet"), bench.path().join("in/a.parquet")).unwrap();
    assert_prints!(bench.tell(&["SELECT * FROM 'in/'", "--out", "in/b.parquet"]), @r##"
    exit 1
    -- stderr
    error: [dir]/in/b.parquet: overlaps with input [dir]/in

    hint: write to another path: the output must not be an input, contain one or be inside one
    "##);
}

#[test]
fn failed_table_write_leaves_nothing() {
    let bench = Workbench::new();
    let query = "SELECT 1 / (id - 9999) AS x FROM 'many.parquet'";
    for out in ["x.parquet", "x.csv", "x.json", "x.arrow", "x.parquet/", "new/x.csv"] {
        assert_eq!(bench.tell(&[query, "--out", out]), "exit 1\n-- stderr\nerror: division by zero\n");
        assert!(bench.leftovers().is_empty(), "{:?}", bench.leftovers());
    }
}

#[test]
fn table_write_to_a_full_disk_leaves_nothing() {
    let bench = Workbench::new();
    for out in ["x.csv", "x.parquet", "x.arrow"] {
        let query = "SELECT value, md5(CAST(value AS VARCHAR)) AS hash FROM generate_series(1, 100000)";
        let command = bench.command(&[query, "--out", out, "--quiet"]);
        // Files of at most 16 or 32 KiB, by the block size of the shell.
        let output = std::process::Command::new("sh")
            .current_dir(bench.path())
            .args(["-c", "ulimit -f 32; exec \"$0\" \"$@\""])
            .arg(command.get_program())
            .args(command.get_args())
            .output()
            .unwrap();
        let shown = tell(&output);
        assert!(shown.starts_with("exit 1\n"), "{shown}");
        assert!(
            shown.contains(&format!("error: {out}: cannot be written\n")) && shown.contains("File too large"),
            "{shown}"
        );
        assert!(bench.leftovers().is_empty(), "{:?}", bench.leftovers());
    }
}

#[test]
fn table_rejects_types_that_its_format_lacks() {
    let bench = Workbench::new();
    assert_prints!(bench.tell(&["SELECT INTERVAL '1 month 2 days' AS i", "--out", "x.parquet"]), @r##"
    exit 1
    -- stderr
    error: x.parquet: column "i": Parquet has no type for Interval(MonthDayNano)

    hint: CAST(i AS VARCHAR) AS i
    "##);
    assert!(bench.leftovers().is_empty());
}

#[test]
fn arrow_table_merges_dictionaries_of_batches() {
    let bench = Workbench::new();
    for (day, value) in [("1", 10), ("2", 20), ("3", 30)] {
        let dir = bench.path().join(format!("in/day=2026-01-0{day}"));
        fs::create_dir_all(&dir).unwrap();
        let values = Arc::new(Int64Array::from_iter_values(value..value + 3)) as ArrayRef;
        bench.parquet(&format!("in/day=2026-01-0{day}/a.parquet"), [("id", values)]);
    }
    let query = "SELECT id, arrow_cast(CAST(day AS VARCHAR), 'Dictionary(Int8, Utf8)') AS day FROM 'in/' ORDER BY id";
    let small = format!("SET datafusion.execution.batch_size = 2; {query}");
    assert_eq!(bench.tell(&[&small, "--out", "x.arrow", "--quiet"]), "exit 0\n");
    let (schema, rows) = read_arrow(bench.path().join("x.arrow"));
    assert_eq!(schema.field(1).data_type(), &DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)));
    let days = rows.iter().flat_map(|batch| {
        let days = arrow::compute::cast(&batch["day"], &DataType::Utf8).unwrap();
        let days = days.as_any().downcast_ref::<StringArray>().unwrap().clone();
        (0..days.len()).map(|i| days.value(i).to_owned()).collect::<Vec<_>>()
    });
    let expected = ["2026-01-01", "2026-01-02", "2026-01-03"].iter().flat_map(|day| [*day; 3]);
    assert!(days.eq(expected));
}

#[test]
fn long_values_make_short_row_groups() {
    let bench = Workbench::new();
    let query = "SET datafusion.execution.parquet.max_row_group_size = 1000; SELECT id FROM 'many.parquet'";
    assert_eq!(bench.tell(&[query, "--out", "x.parquet", "--quiet"]), "exit 0\n");
    let file = File::open(bench.path().join("x.parquet")).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    assert_eq!(reader.metadata().num_row_groups(), 10);
    assert_eq!(
        reader.metadata().file_metadata().created_by(),
        Some(concat!("tfr-sql version ", env!("CARGO_PKG_VERSION")))
    );
}

#[test]
fn table_report_matches_its_schema() {
    let bench = Workbench::new();
    let output = bench.run(&[QUERY, "--out", "x.csv.gz", "--report", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    crate::workbench::check_report(&report);
    assert_eq!((&report["report"], &report["rows"], &report["files"]), (&"table".into(), &4.into(), &1.into()));
    assert_eq!(report["file_bytes"], fs::metadata(bench.path().join("x.csv.gz")).unwrap().len());
}

#[test]
fn table_rejects_options_of_shards_by_name() {
    let bench = Workbench::new();
    for option in [
        &["--shards", "2"] as &[&str],
        &["--shard-size", "1MiB"],
        &["--shard-rows", "2"],
        &["--prefix", "train"],
        &["--compression", "gzip"],
        &["--level", "9"],
        &["--map", "label: string"],
        &["--null", "error"],
        &["--strict"],
        &["--dry-run"],
    ] {
        let shown = bench.tell(&[&[QUERY, "--out", "x.parquet"], option].concat());
        assert!(shown.starts_with("exit 2\n-- stderr\nerror: the argument '"), "{shown}");
        assert!(
            shown.contains(option[0]) && shown.contains("cannot be used with '--out x.parquet', a Parquet file"),
            "{shown}"
        );
    }
    assert!(bench.leftovers().is_empty());
}

/// Both have seen that nothing is there before either has written.
#[test]
fn concurrent_runs_with_ignore_mode_both_succeed() {
    let bench = Workbench::new();
    for round in 0..4 {
        for out in ["x.csv", "x.parquet/", "shards"] {
            let out = format!("{round}-{out}");
            let query = "SELECT value FROM generate_series(1, 50000)";
            let start =
                || bench.command(&[query, "--out", &out, "--mode", "ignore"]).stderr(Stdio::piped()).spawn().unwrap();
            let runs = [start(), start()].map(|run| run.wait_with_output().unwrap());
            let said = runs.map(|run| (run.status.code(), String::from_utf8(run.stderr).unwrap()));
            assert!(said.iter().all(|(code, _)| *code == Some(0)), "{said:?}");
            assert_eq!(said.iter().filter(|(_, said)| said.contains("50,000 rows")).count(), 1, "{said:?}");
        }
    }
    assert!(bench.leftovers().iter().all(|name| !name.to_string_lossy().starts_with('.')), "{:?}", bench.leftovers());
}
