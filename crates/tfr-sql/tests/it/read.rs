//! Shards as tables of a query.

use std::fs;

use serde_json::{Value, json};

use crate::workbench::{Workbench, assert_prints};

/// Four records in two shards, in `shards`.
fn with_shards(bench: &Workbench) {
    let query = "SELECT UserId, label, score, price FROM 'events.parquet' ORDER BY score";
    assert_eq!(bench.tell(&[query, "--out", "shards", "--shards", "2", "--quiet"]), "exit 0\n");
}

/// Spark's output of no rows.
#[test]
fn directory_of_empty_files_has_a_hint() {
    let bench = Workbench::new();
    let out = bench.path().join("out");
    fs::create_dir(&out).unwrap();
    for name in ["part-00000-c000.tfrecord", "_SUCCESS"] {
        fs::write(out.join(name), "").unwrap();
    }
    let shown = bench.tell(&["SELECT * FROM 'out/'"]);
    assert!(shown.contains("hint: a job without rows leaves such files: declare the columns"), "{shown}");
    let declared = "CREATE EXTERNAL TABLE t (n BIGINT) STORED AS TFRECORD LOCATION 'out/'; SELECT count(*) AS n FROM t";
    assert!(bench.tell(&[declared]).starts_with("exit 0\n-- stdout\nn\n0\n"), "{}", bench.tell(&[declared]));
}

#[test]
fn shards_are_a_table() {
    let bench = Workbench::new();
    with_shards(&bench);
    // By the manifest, in the types they had.
    assert_prints!(bench.tell(&["SELECT * FROM 'shards/' ORDER BY score"]), @r##"
    exit 0
    -- stdout
    UserId,label,score,price
    7,,0.10000000149011612,0.99
    8,view,0.25,
    7,click,0.5,10.50
    9,view,1.0,-0.01
    "##);
    assert_prints!(bench.tell(&["SELECT label, count(*) AS n FROM 'shards' GROUP BY label ORDER BY n, label"]), @r##"
    exit 0
    -- stdout
    label,n
    click,1
    ,1
    view,2
    "##);
    assert_prints!(bench.tell(&["SELECT userid FROM 'shards/part-00001*' ORDER BY 1"]), @r##"
    exit 0
    -- stdout
    UserId
    7
    9
    "##);
    assert_prints!(bench.tell(&["SELECT count(*) AS n FROM t", "--table", "t=shards,format=tfrecord,crc=skip"]), @r##"
    exit 0
    -- stdout
    n
    4
    "##);
    let external = "CREATE EXTERNAL TABLE t (label VARCHAR, \"UserId\" INT) STORED AS TFRECORD LOCATION 'shards/';
        SELECT * FROM t WHERE label IS NOT NULL ORDER BY \"UserId\"";
    assert_prints!(bench.tell(&[external]), @r##"
    exit 0
    -- stdout
    label,UserId
    click,7
    view,8
    view,9
    "##);
}

#[test]
fn shards_without_manifest_have_inferred_columns() {
    let bench = Workbench::new();
    with_shards(&bench);
    fs::remove_file(bench.path().join("shards/_manifest.json")).unwrap();
    fs::remove_file(bench.path().join("shards/_SUCCESS")).unwrap();
    assert_prints!(bench.tell(&["SELECT * FROM 'shards/' ORDER BY score"]), @r##"
    exit 0
    -- stdout
    UserId,label,price,score
    7,,0.99,0.1
    8,view,,0.25
    7,click,10.5,0.5
    9,view,-0.01,1.0
    "##);
    // The first record has no label, and no price.
    let first = ["--infer-files", "1", "--infer-records", "1"];
    assert_prints!(bench.tell(&[&["SELECT * FROM 'shards/' ORDER BY score LIMIT 1"], first.as_slice()].concat()), @r##"
    exit 0
    -- stdout
    UserId,price,score
    7,0.99,0.1
    -- stderr
    note: the columns of 'shards/' are those of only 1 record in 1 of 2 files; --infer-files all --infer-records all inspects every record
    warning: shards/part-00000-of-00002.tfrecord: column "label": records with a feature that is no column, because the inspected records lack it: 1, the first in row 1: not read
    warning: shards/part-00001-of-00002.tfrecord: column "label": records with a feature that is no column, because the inspected records lack it: 2, the first in row 0: not read
    "##);
    assert_prints!(bench.tell(&["SELECT label FROM 'shards/'", "--infer-records", "none"]), @r##"
    exit 2
    -- stderr
    error: invalid value 'none' for '--infer-records <N>': expected a whole number, 1 or more, or all

    For more information, try '--help'.
    "##);
}

#[test]
fn inference_from_a_sample_is_reported() {
    let bench = Workbench::new();
    with_shards(&bench);
    fs::rename(bench.path().join("shards/part-00000-of-00002.tfrecord"), bench.path().join("a.tfrecord")).unwrap();
    fs::rename(bench.path().join("shards/part-00001-of-00002.tfrecord"), bench.path().join("b.tfrecord")).unwrap();
    let note = |arguments: &[&str]| {
        let output = bench.run(arguments);
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let query = "SELECT score FROM '*.tfrecord'";
    // All records were looked at: there is nothing to tell.
    assert_eq!(note(&[query]), "");
    assert_eq!(note(&[query, "--infer-records", "2"]), "");
    assert_eq!(
        note(&[query, "--infer-records", "1"]),
        "note: the columns of '*.tfrecord' are those of only 2 records in 2 files; --infer-records all inspects \
         every record\n"
    );
    assert_eq!(note(&[query, "--infer-records", "1", "--quiet"]), "");
    assert_eq!(
        note(&["SELECT score FROM t", "--table", "t=*.tfrecord,infer_files=1"]),
        "note: the columns of 't' are those of only 2 records in 1 of 2 files; infer_files=all,infer_records=all in --table \
         inspects every record\n"
    );
    assert_eq!(
        note(&["CREATE EXTERNAL TABLE t STORED AS TFRECORD LOCATION 'a.tfrecord' OPTIONS (infer_records '1'); \
                SELECT score FROM t"]),
        "note: the columns of 't' are those of only 1 record in 1 file; OPTIONS (infer_records 'all') inspects \
         every record\n"
    );
}

#[test]
fn read_rejects_an_incomplete_set() {
    let bench = Workbench::new();
    with_shards(&bench);
    fs::remove_file(bench.path().join("shards/part-00000-of-00002.tfrecord")).unwrap();
    assert_prints!(bench.tell(&["SELECT * FROM 'shards/'"]), @r##"
    exit 1
    -- stderr
    error: shards: the shard set is not complete: part-00000-of-00002.tfrecord is missing

    hint: write the set again; tfr-sql verify tells all that is wrong with it, and a pattern reads the files anyway: 'shards/*.tfrecord*'
    "##);
    assert_prints!(bench.tell_tool(&["cat", "shards"]), @r##"
    exit 1
    -- stdout
    {"UserId": [7], "label": ["click"], "price": [10.5], "score": [0.5]}
    {"UserId": [9], "label": ["view"], "price": [-0.01], "score": [1.0]}
    -- stderr
    warning: shards/part-00000-of-00002.tfrecord: missing, although _manifest.json lists it
    "##);
    fs::remove_file(bench.path().join("shards/_SUCCESS")).unwrap();
    assert_prints!(bench.tell(&["SELECT * FROM 'shards/'"]), @r##"
    exit 1
    -- stderr
    error: shards: the shard set is not complete: _SUCCESS is missing

    hint: write the set again; tfr-sql verify tells all that is wrong with it, and a pattern reads the files anyway: 'shards/*.tfrecord*'
    "##);
}

#[test]
fn damage_is_reported_with_file_record_and_byte() {
    let bench = Workbench::new();
    with_shards(&bench);
    let shard = bench.path().join("shards/part-00000-of-00002.tfrecord");
    let mut bytes = fs::read(&shard).unwrap();
    bytes[100] ^= 1;
    fs::write(&shard, bytes).unwrap();
    assert_prints!(bench.tell(&["SELECT * FROM 'shards/'", "--out", "x.csv"]), @r##"
    exit 1
    -- stderr
    error: shards/part-00000-of-00002.tfrecord: record 1 at byte 73: payload of 57 bytes has the checksum 0xac3c5c6e, expected 0xa71b8111

    hint: the file was damaged after it was written: fetch or write it again
    "##);
    assert_eq!(bench.leftovers(), [std::path::Path::new("shards")]);
}

#[test]
fn write_rejects_output_that_overlaps_its_input() {
    let bench = Workbench::new();
    with_shards(&bench);
    let query = "SELECT label FROM 'shards/'";
    for out in ["shards", "shards/more", "shards/x.csv", "shards/part-00000-of-00002.tfrecord/"] {
        let shown = bench.tell(&[query, "--out", out, "--mode", "overwrite"]);
        assert!(shown.starts_with("exit 1\n") && shown.contains("overlaps with input"), "{shown}");
    }
    assert_eq!(fs::read_dir(bench.path().join("shards")).unwrap().count(), 4);
}

#[test]
fn manifest_records_inputs_and_table_options() {
    let bench = Workbench::new();
    with_shards(&bench);
    let query = "SELECT t.label FROM t JOIN 'shards/part-*' s ON t.label = s.label";
    let table = "t=shards/,crc=skip,damaged=skip,infer_files=all,map=score: bits";
    assert_eq!(bench.tell(&[query, "--table", table, "--out", "out", "--quiet"]), "exit 0\n");
    let manifest: Value = serde_json::from_slice(&fs::read(bench.path().join("out/_manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest["inputs"], json!(["shards/", "shards/part-*"]));
    let recorded = &manifest["options"]["tables"]["t"];
    let given = json!({
        "path": ["shards/"], "crc": "skip", "damaged": "skip", "infer_files": "all", "map": ["score: bits"],
    });
    assert_eq!(recorded, &given);
}

#[test]
fn query_of_one_word_is_rejected_with_a_hint() {
    let bench = Workbench::new();
    with_shards(&bench);
    assert_prints!(bench.tell(&["shards/"]), @r##"
    exit 2
    -- stderr
    error: not a query: shards/

    hint: put the path into a query: tfr-sql "SELECT * FROM 'shards/'"
    "##);
    assert_prints!(bench.tell(&["Verfy"]), @r##"
    exit 2
    -- stderr
    error: not a query: Verfy

    hint: did you mean the tool? specify what to work on: verify PATH
    "##);
    assert_prints!(bench.tell(&["SELECT", "*", "FROM", "events.parquet"]), @r##"
    exit 2
    -- stderr
    error: unexpected argument '*' behind the query 'SELECT'

    hint: the whole query is one argument: put it in quotes

    Usage: tfr-sql [OPTIONS] <QUERY|--file <FILE>>
           tfr-sql [OPTIONS] <TOOL>

    For more information, try '--help'.
    "##);
}

#[test]
fn parts_of_columns_are_compared_where_sets_meet_or_are_declared() {
    let bench = Workbench::new();
    let write = |query: &str, out: &str, more: &[&str]| {
        assert_eq!(bench.tell(&[&[query, "--out", out, "--quiet"], more].concat()), "exit 0\n");
    };
    let time = "arrow_cast('2020-09-13T12:26:40', 'Timestamp(Millisecond, None)')";
    write("SELECT named_struct('x', 1, 'y', 2) AS s", "names/a", &[]);
    write("SELECT named_struct('p', 1, 'q', 2) AS s", "names/b", &[]);
    write("SELECT 1 AS x", "forms/a", &[]);
    write("SELECT named_struct('p', 7) AS s", "forms/b", &["--separator", "."]);
    write(
        &format!("SELECT named_struct('t', {time}, 'n', 'a') AS s, [[1], [2, 3]] AS r"),
        "h",
        &["--map", "s/t: seconds"],
    );
    let declared = |columns: &str| {
        let table = format!("CREATE EXTERNAL TABLE t ({columns}) STORED AS TFRECORD LOCATION 'h/'; SELECT * FROM t");
        bench.tell(&[table.as_str()])
    };
    assert_prints!(bench.tell(&["SELECT * FROM 'names/*/*'"]), @r##"
    exit 1
    -- stderr
    error: names/b: column "s": found Struct("p": Int64, "q": Int64), but names/a has Struct("x": Int64, "y": Int64)

    hint: register the files of each type as a table of their own, by a pattern, and join them with UNION ALL: SELECT CAST("s" AS ...) ...
    "##);
    assert_prints!(bench.tell(&["SELECT * FROM 'forms/*/*'"]), @r##"
    exit 1
    -- stderr
    error: forms/b: column "s" has another form than in forms/a

    hint: read the sets as two tables, and join them with UNION ALL
    "##);
    assert_prints!(declared("s STRUCT<t TIMESTAMP>"), @r##"
    exit 1
    -- stderr
    error: h: column "s": declared as Struct("t": Timestamp(ns)), but it was written as Struct("t": Timestamp(ms), "n": Utf8)

    hint: declare s as STRUCT<"t" TIMESTAMP(3), "n" VARCHAR>, or leave the columns undeclared; CAST it in the query
    "##);
    assert_prints!(declared("s STRUCT<t TIMESTAMP(3), n VARCHAR>"), @r##"
    exit 0
    -- stdout
    s
    "{t: 2020-09-13T12:26:40, n: a}"
    "##);
    assert_prints!(declared("s STRUCT<t TIMESTAMP(3), zz BIGINT>"), @r##"
    exit 1
    -- stderr
    error: h: no column "s.zz" was written; the columns are s.t, s.n

    hint: leave s.zz out, or leave the columns undeclared
    "##);
    assert_prints!(declared("r BIGINT[]"), @r##"
    exit 1
    -- stderr
    error: h: column "r": declared as List(Int64), but it was written as List(List(Int64))

    hint: declare r as BIGINT[][], or leave the columns undeclared; CAST it in the query
    "##);
}

#[test]
fn type_conflict_hint_makes_the_files_readable() {
    let bench = Workbench::new();
    let write = |query: &str, out: &str| assert_eq!(bench.tell(&[query, "--out", out, "--quiet"]), "exit 0\n");
    write("SELECT CAST(1 AS INT) AS x, 'a' AS s", "p/1.parquet");
    write("SELECT 3000000000 AS x, 'b' AS s", "p/2.parquet");
    write("SELECT 1 AS x", "q/1.parquet");
    write("SELECT 'b' AS x", "q/2.parquet");
    let declared = |columns: &str, location: &str, query: &str| {
        let create = format!("CREATE EXTERNAL TABLE t ({columns}) STORED AS PARQUET LOCATION '{location}'; {query}");
        bench.tell(&[create.as_str(), "--format", "csv"])
    };
    assert_prints!(bench.tell(&["SELECT sum(x) AS x, max(s) AS s FROM 'p/'"]), @r##"
    exit 0
    -- stdout
    x,s
    3000000001,b
    "##);
    assert_prints!(declared("x INT", "p/", "SELECT sum(x) FROM t"), @r##"
    exit 1
    -- stderr
    error: p/2.parquet: row 0: column "x": the Int64 value 3000000000 is not exact as Int32

    hint: give "x" a type that holds all values of the files, in the columns of CREATE EXTERNAL TABLE or with the option types
    "##);
    assert_prints!(bench.tell(&["SELECT * FROM 'q/'"]), @r##"
    exit 1
    -- stderr
    error: q/2.parquet: column "x": found Utf8View, but q/1.parquet has Int64

    hint: give the column one type: --table 't=...,types=x STRING', and CAST("x" AS ...) in the query
    "##);
    let sum = declared("\"x\" BIGINT, s VARCHAR", "p/", "SELECT sum(x) AS x, max(s) AS s FROM t");
    assert_eq!(sum, "exit 0\n-- stdout\nx,s\n3000000001,b\n");
    assert_prints!(declared("x BIGINT", "q/", "SELECT * FROM t"), @r##"
    exit 1
    -- stderr
    error: q/2.parquet: column "x": declared as Int64, but the file has Utf8View

    hint: declare "x" as VARCHAR, to which every file can be converted, and CAST it in the query
    "##);
    assert_prints!(declared("x SMALLINT", "p/2.parquet", "SELECT * FROM t"), @r##"
    exit 1
    -- stderr
    error: p/2.parquet: row 0: column "x": the Int64 value 3000000000 is not exact as Int16

    hint: give "x" a type that holds all values of the files, in the columns of CREATE EXTERNAL TABLE or with the option types
    "##);
}

#[test]
fn keyword_column_error_suggests_quotes() {
    let bench = Workbench::new();
    bench.text("x.libsvm", "1 1:2 3:4\n");
    assert_prints!(bench.tell(&["SELECT label,\n  values, indices\nFROM 'x.libsvm'"]), @r##"
    exit 1
    -- stderr
    error: SQL: line 2, column 3: expected the end of the query, found values

    hint: put a column whose name is a keyword of SQL in double quotes: "values"
    "##);
    assert_prints!(bench.tell(&["SELECT label, values, end FROM 'x.libsvm'"]), @r##"
    exit 1
    -- stderr
    error: SQL: line 1, column 15: expected the end of the query, found values

    hint: put a column whose name is a keyword of SQL in double quotes: "values", "end"
    "##);
    // Quotes would not help here.
    assert_prints!(bench.tell(&["SELECT label FROM 'x.libsvm' LIMIT 1 values"]), @r##"
    exit 1
    -- stderr
    error: SQL: line 1, column 38: expected the end of the query, found values
    "##);
    let query = "SELECT label, \"values\" FROM 'x.libsvm'";
    assert_eq!(bench.tell(&[query, "--format", "jsonl"]), "exit 0\n-- stdout\n{\"label\":1.0,\"values\":[2.0,4.0]}\n");
}

#[test]
fn table_option_of_another_format_is_rejected() {
    let bench = Workbench::new();
    assert_prints!(bench.tell(&["SELECT * FROM t", "--table", "t=users.csv,index_base=1"]), @r##"
    exit 1
    -- stderr
    error: users.csv: option "index_base" is for libsvm, but this is CSV

    hint: leave index_base out, or specify the format of the files with format=
    "##);
}

/// A statement that Hive would take, too.
#[test]
fn columns_of_hive_text_are_declared_as_hive_declares_them() {
    let bench = Workbench::new();
    bench.text("logs.txt", "header\n9999-12-31 23:59:59,abc,k:1;l:2,aGk=,1\n0001-01-01 00:00:00.123456,d  ,,,2\n");
    let table = "CREATE EXTERNAL TABLE logs (`at` TIMESTAMP, Kind CHAR(2), m MAP<STRING,INT> COMMENT 'a map', b BINARY, n TINYINT)
        ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' COLLECTION ITEMS TERMINATED BY ';' MAP KEYS TERMINATED BY ':'
        STORED AS TEXTFILE LOCATION 'logs.txt'
        TBLPROPERTIES ('skip.header.line.count'='1', 'transient_lastDdlTime'='1700000000');";
    let query = format!("{table} SELECT at, kind, m['l'] AS l, encode(b, 'hex') AS b, n FROM logs");
    assert_prints!(bench.tell(&[&query]), @r##"
    exit 0
    -- stdout
    at,kind,l,b,n
    9999-12-31T23:59:59,ab,2,6869,1
    0001-01-01T00:00:00.123456,d,,"",2
    -- stderr
    warning: logs.txt: line 2, column "kind": a cell is cut to fit its type
    "##);
    let twice = "CREATE EXTERNAL TABLE logs (n INT) STORED AS TEXTFILE OPTIONS ('schema' 'n INT') LOCATION 'logs.txt';
        SELECT * FROM logs";
    assert_prints!(bench.tell(&[twice]), @r##"
    exit 1
    -- stderr
    error: the columns are declared twice: by the statement and by its option schema
    "##);
}

/// What Hive's own SHOW CREATE TABLE prints.
#[test]
fn clauses_of_hive_have_its_meaning() {
    let bench = Workbench::new();
    fs::create_dir_all(bench.path().join("t/P=abcdef")).unwrap();
    fs::write(bench.path().join("t/P=abcdef/f"), b"caf\xe9\x011=a;01=b;2=c\n").unwrap();
    let table = "CREATE EXTERNAL TABLE t (s STRING, m MAP<INT,STRING>) PARTITIONED BY (p CHAR(3))
        ROW FORMAT DELIMITED FIELDS TERMINATED BY '\\u0001' COLLECTION ITEMS TERMINATED BY '\\;' MAP KEYS TERMINATED BY '='
        STORED AS TEXTFILE LOCATION 't/' TBLPROPERTIES ('serialization.encoding'='ISO-8859-1', 'bucketing_version'='2');";
    let query = format!("{table} SELECT p, s, m, m[2] AS two FROM t WHERE p = 'abc'");
    assert_prints!(bench.tell(&[&query, "--format", "jsonl"]), @r##"
    exit 0
    -- stdout
    {"p":"abc","s":"café","m":{"1":"a","2":"c"},"two":"c"}
    -- stderr
    warning: t/P=abcdef/f: column "p" of the path is cut to its length, "abc"; files: 1
    warning: t/P=abcdef/f: line 1, column "m": a key occurs twice in a map, and the first value is used
    "##);
    let refused = table.replace("bucketing_version'='2", "timestamp.formats'='yyyy/MM/dd");
    assert_prints!(bench.tell(&[&format!("{refused} SELECT * FROM t")]), @r##"
    exit 1
    -- stderr
    error: t: the property 'timestamp.formats'='yyyy/MM/dd' is not supported: timestamps are read as yyyy-MM-dd HH:mm:ss.fffffffff only

    hint: declare the column as STRING, and parse it in the query: to_timestamp(s, '%Y/%m/%d')
    "##);
}

#[test]
fn a_declared_timestamp_keeps_its_zone() {
    let bench = Workbench::new();
    bench.text("t.csv", "t,u\n2026-01-02T03:04:05+02:00,2026-01-02 03:04:05\n");
    let table = "CREATE EXTERNAL TABLE t (t TIMESTAMP WITH TIME ZONE, u TIMESTAMP(3)) STORED AS CSV LOCATION 't.csv';";
    let query = format!("{table} SELECT arrow_typeof(t) AS type, t, arrow_typeof(u) AS other, u FROM t");
    assert_prints!(bench.tell(&[&query]), @r##"
    exit 0
    -- stdout
    type,t,other,u
    "Timestamp(ns, ""UTC"")",2026-01-02T01:04:05Z,Timestamp(ms),2026-01-02T03:04:05
    "##);
    let there = format!("SET datafusion.execution.time_zone = '+05:00'; {query}");
    assert_prints!(bench.tell(&[&there]), @r##"
    exit 0
    -- stdout
    type,t,other,u
    "Timestamp(ns, ""+05:00"")",2026-01-02T06:04:05+05:00,Timestamp(ms),2026-01-02T03:04:05
    "##);
}

#[test]
fn a_file_that_a_table_has_twice_is_refused() {
    let bench = Workbench::new();
    for name in ["a", "b"] {
        bench.text(&format!("{name}.csv"), "x\n1\n");
    }
    fs::create_dir_all(bench.path().join("dir/dt=1")).unwrap();
    bench.text("dir/dt=1/c.csv", "x\n1\n");
    let count = |table: &str| bench.tell(&["SELECT count(*) FROM t", "--table", table]);
    assert_prints!(count("t=a.csv,path=./a.csv"), @r##"
    exit 1
    -- stderr
    error: a.csv: the table has it twice: it is in a.csv and ./a.csv

    hint: name each file once; UNION ALL of two tables reads rows twice
    "##);
    assert_prints!(count("t=a.csv,path=a.csv"), @r##"
    exit 1
    -- stderr
    error: a.csv: the table has it twice: it is in a.csv and again in the same location

    hint: name each file once; UNION ALL of two tables reads rows twice
    "##);
    for table in ["t=*.csv,path=a*.csv", "t=dir/,path=dir/dt=1/", "t=dir/dt=1/c.csv,path=dir/**/*.csv"] {
        let said = count(table);
        assert!(
            said.starts_with("exit 1\n") && said.contains(": the table has it twice: it is in "),
            "{table}: {said}"
        );
    }
    assert_eq!(count("t=a.csv,path=b.csv"), "exit 0\n-- stdout\ncount(*)\n2\n");
    // Two tables are not one.
    let union = "SELECT count(*) AS n FROM (SELECT * FROM 'a.csv' UNION ALL SELECT * FROM 'a.csv')";
    assert_eq!(bench.tell(&[union]), "exit 0\n-- stdout\nn\n2\n");
    let said = bench.tell(&["SELECT * FROM files('a.csv', '*.csv')"]);
    assert!(said.contains("a.csv: the table has it twice: it is in a.csv and *.csv"), "{said}");
    let shards = "SELECT 1 AS one";
    bench.run(&[shards, "--out", "shards", "--shards", "1"]);
    let said = count("t=shards/,path=shards/part-00000-of-00001.tfrecord");
    assert!(said.contains("part-00000-of-00001.tfrecord: the table has it twice"), "{said}");
}
