//! What would take gigabytes without a bound, in a process that may not have them.

use std::fs;
use std::io::Write;
use std::process::{Command, Output};
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, ListViewArray, RecordBatch};
use arrow::datatypes::{DataType, Field};
use arrow::ipc::writer::FileWriter;

use crate::workbench::{Workbench, tell};

/// Runs the command in a shell that lets a process have 2,500,000 KiB of addresses, a tenth of them as memory.
fn run(bench: &Workbench, arguments: &[&str]) -> Output {
    let plain = bench.command(arguments);
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v 2500000 && exec \"$0\" \"$@\" --memory-limit 256MiB --quiet"]);
    command.arg(plain.get_program()).args(plain.get_args());
    if let Some(directory) = plain.get_current_dir() {
        command.current_dir(directory);
    }
    command.output().unwrap()
}

#[test]
fn rows_that_share_a_text_are_computed_a_few_at_a_time() {
    let bench = Workbench::new();
    // 3,000 rows of 1 MB that share one text by a dictionary, in 463 bytes.
    let file = include_bytes!("shared_text.parquet");
    fs::write(bench.path().join("shared.parquet"), file).unwrap();
    let query = "SELECT count(*) AS n, max(octet_length(concat(a, 'y'))) AS length FROM 'shared.parquet'";
    assert_eq!(tell(&run(&bench, &[query, "--format", "csv"])), "exit 0\n-- stdout\nn,length\n3000,1000001\n");
}

/// A sort counted the text once for all rows that share it, merged 2,000 of them, and copied the text for each to spill them.
#[test]
fn a_sort_of_rows_that_share_a_text_is_bounded() {
    let bench = Workbench::new();
    fs::write(bench.path().join("shared.parquet"), include_bytes!("shared_text.parquet")).unwrap();
    for text in ["a", "arrow_cast(a, 'Dictionary(Int32, Utf8)')"] {
        let query = format!("SELECT {text} AS a FROM 'shared.parquet' ORDER BY a");
        let refused = tell(&run(&bench, &[&query, "--format", "csv"]));
        assert!(
            refused.starts_with("exit 1\n-- stderr\nerror: the values that rows of a sort share take "),
            "{refused}"
        );
        assert!(refused.contains(" bytes, more than the memory limit of 268435456 bytes\n"), "{refused}");
        let first = format!("SELECT octet_length(a) AS n FROM ({query} LIMIT 1)");
        assert_eq!(tell(&run(&bench, &[&first, "--format", "csv"])), "exit 0\n-- stdout\nn\n1000000\n");
    }
}

#[test]
fn list_views_that_share_a_list_are_computed_a_few_at_a_time() {
    let bench = Workbench::new();
    // 1,000 rows of 2 MB that share one list of doubles, in a file of 2 MB.
    const LEN: i32 = 250_000;
    let item = Arc::new(Field::new_list_field(DataType::Float64, true));
    let doubles = Arc::new(Float64Array::from_iter_values((0..LEN).map(f64::from)));
    let (starts, lengths) = (vec![0; 1000].into(), vec![LEN; 1000].into());
    let views = ListViewArray::new(item, starts, lengths, doubles, None);
    let batch = RecordBatch::try_from_iter([("x", Arc::new(views) as ArrayRef)]).unwrap();
    let file = fs::File::create(bench.path().join("views.arrow")).unwrap();
    let mut writer = FileWriter::try_new(file, batch.schema_ref()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    let query = "SELECT count(*) AS n, max(x[3]) AS third FROM 'views.arrow'";
    assert_eq!(tell(&run(&bench, &[query, "--format", "csv"])), "exit 0\n-- stdout\nn,third\n1000,2.0\n");
}

#[test]
fn results_beyond_the_limit_are_refused() {
    let bench = Workbench::new();
    assert_eq!(
        tell(&run(&bench, &["SELECT repeat('x', 2100000000)"])),
        "exit 1\n-- stderr\nerror: the constant result of repeat takes 2100000000 bytes, more than an eighth of the memory limit of \
         268435456 bytes\n\nhint: raise --memory-limit, or make shorter values\n"
    );
}

#[test]
fn long_names_are_described() {
    let bench = Workbench::new();
    let name = "n".repeat(70_000);
    let output = run(&bench, &[&format!("SELECT 1 AS {name}, 2 AS b"), "--out", "long/"]);
    assert_eq!(tell(&output), "exit 0\n");
    let output = bench.run_tool(&["schema", "long/", "--quiet"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(&format!("{name}  Int64")), "{}", text.len());
    let output = run(&bench, &["SELECT * FROM 'long/'", "--out", "again/", "--dry-run"]);
    assert!(output.status.success() && output.stdout.len() > 70_000);
}

#[test]
fn long_queries_are_planned_or_refused() {
    let bench = Workbench::new();
    let terms: Vec<String> = (0..3000).map(|term| format!("value = {term}")).collect();
    let query = format!("SELECT count(*) AS n FROM generate_series(0, 9999) WHERE {}", terms.join(" OR "));
    assert_eq!(tell(&run(&bench, &[&query, "--format", "csv"])), "exit 0\n-- stdout\nn\n3000\n");
    let query = format!("SELECT {}", vec!["'a'"; 10_000].join(" || "));
    assert_eq!(
        tell(&run(&bench, &[&query])),
        "exit 1\n-- stderr\nerror: the query is too long: expressions are nested more than 1000 levels deep\n"
    );
}

/// The engine would read an input again for each part of the other: it lost and repeated rows, or panicked.
#[test]
fn joins_without_an_equality_are_whole_or_refused() {
    let bench = Workbench::new();
    for side in ["left.parquet", "right.parquet"] {
        let rows = "SELECT value AS k, (value * 7919) % 1000 AS v, concat(value, '-', repeat('x', 20000)) AS s FROM generate_series(1, 2000)";
        assert_eq!(tell(&bench.run(&[rows, "--out", side, "--quiet"])), "exit 0\n");
    }
    let outer = "SELECT count(*) AS n, count(r.k) AS m, sum(length(l.s)) AS a, count(r.s) AS b \
        FROM 'left.parquet' l LEFT JOIN 'right.parquet' r ON l.v > r.v + 990";
    let anti = "SELECT count(*) AS n, sum(length(l.s)) AS a FROM 'left.parquet' l \
        WHERE NOT EXISTS (SELECT 1 FROM 'right.parquet' r WHERE l.v > r.v + 990 AND l.s <> r.s)";
    for (query, rows) in [(outer, "n,m,a,b\n2162,180,43249622,180"), (anti, "n,a\n1982,39648812")] {
        for threads in ["1", "2"] {
            let run = |memory| {
                let options = ["--threads", threads, "--memory-limit", memory, "--format", "csv", "--quiet"];
                tell(&bench.run_tool(&[&[query], options.as_slice()].concat()))
            };
            let refusal = run("16MiB");
            assert!(
                refusal.contains("hint: a join without an equality does not spill: raise --memory-limit"),
                "{refusal}"
            );
            assert_eq!(run("512MiB"), format!("exit 0\n-- stdout\n{rows}\n"));
        }
    }
}

/// What is read or computed as a whole and would not fit is named, and not allocated.
/// The engine's exchange could wait for ever once it had spilled.
#[test]
fn an_exchange_that_spills_goes_on() {
    let bench = Workbench::new();
    let rows =
        "SELECT value AS k, value % 10 AS g, concat(value, repeat('x', 100000)) AS s FROM generate_series(1, 2000)";
    assert_eq!(tell(&bench.run(&[rows, "--out", "wide.parquet", "--quiet"])), "exit 0\n");
    for query in [
        "SELECT count(*) AS n, sum(length(m)) AS length FROM (SELECT k, min(s) AS m FROM 'wide.parquet' GROUP BY k)",
        "SELECT count(*) AS n, sum(length(s)) AS length \
         FROM (SELECT s, row_number() OVER (PARTITION BY k ORDER BY g) AS r FROM 'wide.parquet') WHERE r = 1",
    ] {
        let output = bench.run(&[query, "--memory-limit", "128MiB", "--format", "csv", "--quiet"]);
        assert_eq!(tell(&output), "exit 0\n-- stdout\nn,length\n2000,200006893\n", "{query}");
    }
}

#[test]
fn memory_limit_error_names_a_value_that_exceeds_it() {
    let bench = Workbench::new();
    let long = "x".repeat(20 << 20);
    fs::write(bench.path().join("cell.csv"), format!("a,b\n1,{long}\n")).unwrap();
    let page = ["SELECT repeat('x', 20000000) AS t", "--out", "page.parquet", "--quiet"];
    assert_eq!(tell(&bench.run(&page)), "exit 0\n");
    let doubled = "SELECT octet_length(s || s || s) AS n FROM (SELECT s || s || s || s || s || s AS s, value FROM \
                   (SELECT repeat('x', 2000000 + value) AS s, value FROM generate_series(1, 2)))";
    let queries = ["SELECT * FROM 'cell.csv'", "SELECT length(t) FROM 'page.parquet'", doubled];
    let refusals = queries.map(|query| {
        let refused = bench.run_tool(&[query, "--memory-limit", "8MiB", "--threads", "1", "--quiet"]);
        assert_eq!(refused.status.code(), Some(1), "{query}");
        let text = String::from_utf8(refused.stderr).unwrap();
        text.split("\n\n").next().unwrap_or_default().to_owned()
    });
    insta::assert_snapshot!(refusals.join("\n"), @r#"
    error: cell.csv: line 2: the record takes more than 2097152 bytes, a quarter of the memory limit
    error: page.parquet: cannot be read
      cause: row group 0, column "t": the page at byte 4 has 20000004 bytes when decompressed, more than the memory limit of 8388608 bytes
    error: a row takes 12000006 bytes, 12000006 of them in column "s", more than the memory limit of 8388608 bytes
    "#);
}

/// A few bytes that decompress to millions of cells, keys or bytes, and records that take more than their text.
#[test]
fn memory_limit_error_names_input_that_expands() {
    let bench = Workbench::new();
    let compressed = |name: &str, text: &str| {
        let mut file =
            flate2::write::GzEncoder::new(fs::File::create(bench.path().join(name)).unwrap(), Default::default());
        file.write_all(text.as_bytes()).unwrap();
        file.finish().unwrap();
    };
    compressed("cells.csv.gz", &format!("{}\n1\n", ",".repeat(200_000)));
    let keys: Vec<String> = (0..60_000).map(|key| format!("\"k{key}\":{{\"a\":1}}")).collect();
    compressed("keys.jsonl.gz", &format!("{{{}}}\n", keys.join(",")));
    compressed("numbers.jsonl.gz", &format!("{{\"a\":[{}1]}}\n", "1,".repeat(500_000)));
    let avro = include_bytes!("long_block.avro");
    fs::write(bench.path().join("block.avro"), avro).unwrap();
    fs::write(bench.path().join("image.bin"), vec![0; 10 << 20]).unwrap();
    let queries = [
        "SELECT * FROM 'cells.csv.gz'",
        "SELECT * FROM 'keys.jsonl.gz'",
        "SELECT * FROM 'numbers.jsonl.gz'",
        "SELECT * FROM 'block.avro'",
        "SELECT md5(content) FROM files('image.bin')",
    ];
    let refusals = queries.map(|query| {
        let refused = bench.run_tool(&[query, "--memory-limit", "32MiB", "--threads", "1", "--quiet"]);
        assert_eq!(refused.status.code(), Some(1), "{query}");
        let text = String::from_utf8(refused.stderr).unwrap();
        text.split("\n\n").next().unwrap_or_default().trim_end().to_owned()
    });
    insta::assert_snapshot!(refusals.join("\n"), @r#"
    error: cells.csv.gz: line 1: it has more than 100000 columns
    error: keys.jsonl.gz: line 1: it has more than 100000 columns
    error: numbers.jsonl.gz: line 1: the record takes more than 8388608 bytes, a quarter of the memory limit
    error: block.avro: byte 62: the block has more than 8388608 bytes when decompressed
    error: image.bin: 10485760 bytes, but a value can have at most 8388608
    "#);
}

#[test]
fn a_sort_of_texts_spills() {
    let bench = Workbench::new();
    let rows = "SELECT concat(md5(CAST(value AS VARCHAR)), repeat('x', 30)) AS t FROM generate_series(1, 200000)";
    assert_eq!(tell(&bench.run(&[rows, "--out", "rows.parquet", "--quiet"])), "exit 0\n");
    let query = "SELECT count(*) AS n, min(t) AS least FROM (SELECT t, row_number() OVER (ORDER BY t) AS r FROM 'rows.parquet') WHERE r > 199999";
    for threads in ["1", "2"] {
        let options = ["--memory-limit", "16MiB", "--threads", threads, "--format", "csv", "--quiet"];
        let sorted = tell(&bench.run_tool(&[&[query], options.as_slice()].concat()));
        assert!(sorted.starts_with("exit 0\n-- stdout\nn,least\n1,ffff"), "{sorted}");
    }
}

#[test]
fn memory_limit_defaults_to_the_address_space_limit() {
    let bench = Workbench::new();
    let plain = bench.command(&["SELECT 1 AS a", "-v", "--format", "csv"]);
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v 1048576 && exec \"$0\" \"$@\""]).arg(plain.get_program()).args(plain.get_args());
    let text = tell(&command.output().unwrap());
    let limit = text.split(", ").find_map(|part| part.split_once(" MiB of memory")?.0.parse::<f64>().ok());
    // 60 % of half of what the program leaves of 1 GiB.
    assert!(limit.is_some_and(|limit| (50.0..307.2).contains(&limit)), "{text}");
}
