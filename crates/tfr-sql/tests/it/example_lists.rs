//! Records of type elwc: tables of queries with a list of documents each.

use std::fs;
use std::process::Output;

use serde_json::{Value, json};

use crate::workbench::{Workbench, assert_prints, tell};

/// A table of queries, by its number of rows: their documents are a list of structs.
fn queries(rows: usize) -> String {
    format!(
        "SELECT 'q' || query AS query, query % 3 AS part, array_agg({{id: id, title: title, score: score}} ORDER BY id) AS docs \
         FROM (SELECT value % {rows} AS query, value AS id, CASE WHEN value % 4 > 0 THEN 'd' || value END AS title, \
               CAST(value / 4.0 AS REAL) AS score FROM generate_series(0, {last})) GROUP BY query ORDER BY query",
        last = 3 * rows - 1,
    )
}

fn success(output: &Output) -> String {
    assert!(output.status.success(), "{}", tell(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn rows_of(bench: &Workbench, query: &str) -> Vec<Value> {
    let printed = success(&bench.run(&[query, "--format", "jsonl"]));
    printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Writes a set of type elwc, and returns its rows as the query has them.
fn write(bench: &Workbench, query: &str, out: &str, options: &[&str]) -> Vec<Value> {
    success(&bench.run(&[&[query, "--out", out, "--record-type", "elwc"], options].concat()));
    rows_of(bench, query)
}

fn sorted(mut rows: Vec<Value>) -> Vec<Value> {
    rows.sort_by_key(ToString::to_string);
    rows
}

/// The rows of a set, in the order of the columns of [`queries`].
fn read(bench: &Workbench, set: &str) -> Vec<Value> {
    rows_of(bench, &format!("SELECT query, part, docs FROM '{set}'"))
}

#[test]
fn elwc_sets_are_tables_again() {
    let bench = Workbench::new();
    let arrangements: [(&str, &[&str]); 6] = [
        ("plain", &["--shards", "1"]),
        ("gzip", &["--shards", "3", "--compression", "gzip"]),
        ("array", &["--record-format", "array_record"]),
        ("shuffled", &["--shuffle", "--seed", "7", "--shards", "3"]),
        ("split", &["--split", "train=0.5,val=0.5", "--split-by", "query"]),
        ("parts", &["--partition-by", "part"]),
    ];
    for (out, options) in arrangements {
        let expected = write(&bench, &queries(50), out, options);
        assert_eq!(expected.len(), 50);
        let set = format!("{out}/");
        let found = read(&bench, &set);
        assert_eq!(sorted(found), sorted(expected), "{out}");
        success(&bench.run_tool(&["verify", &set]));
        assert_eq!(
            rows_of(&bench, &format!("SELECT count(*) AS n FROM '{set}' WHERE docs[1]['id'] < 10")),
            [json!({"n": 10})]
        );
    }
    let manifest: Value =
        serde_json::from_slice(&fs::read(bench.path().join("plain/_manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest["record_type"], "elwc");
    let schema: Value = serde_json::from_str(include_str!("../../../../schemas/manifest.schema.json")).unwrap();
    let errors: Vec<_> =
        jsonschema::validator_for(&schema).unwrap().iter_errors(&manifest).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
}

#[test]
fn elwc_records_survive_reshard_append_and_rebuild() {
    let bench = Workbench::new();
    let expected = write(&bench, &queries(20), "set", &["--shards", "4"]);
    success(&bench.run_tool(&["reshard", "set/", "--out", "two", "--shards", "2"]));
    success(&bench.run_tool(&["reshard", "set/", "--out", "array", "--record-format", "array_record"]));
    for set in ["two/", "array/"] {
        assert_eq!(sorted(read(&bench, set)), sorted(expected.clone()), "{set}");
    }
    let append =
        |record_type| bench.run(&[&queries(20), "--out", "two", "--mode", "append", "--record-type", record_type]);
    let refused = tell(&append("example"));
    assert!(refused.starts_with("exit 1") && refused.contains("the record type"), "{refused}");
    success(&append("elwc"));
    assert_eq!(sorted(read(&bench, "two/")), sorted([expected.clone(), expected.clone()].concat()));
    success(&bench.run_tool(&["rebuild", "set/", "--out", "again"]));
    assert_eq!(sorted(read(&bench, "again/")), sorted(expected));
}

#[test]
fn elwc_sets_are_written_by_tasks() {
    let bench = Workbench::new();
    for (plan, options) in
        [("ranges.tfrplan", &["--shard-rows", "5"][..]), ("cut.tfrplan", &["--shards", "2", "--shuffle"])]
    {
        success(&bench.run(&[&queries(20), "--out", "queries.parquet", "--mode", "overwrite"]));
        let query = "SELECT * FROM 'queries.parquet'".to_owned();
        let out = plan.replace(".tfrplan", "");
        let write =
            [&[query.as_str(), "--out", &out, "--record-type", "elwc", "--plan", plan, "--partitions", "2"], options];
        success(&bench.run(&write.concat()));
        let run = |arguments: &[&str]| success(&bench.run_tool(arguments));
        let tasks = || {
            for index in ["0", "1"] {
                run(&["task", plan, "--index", index]);
            }
        };
        tasks();
        if options.contains(&"--shuffle") {
            run(&["cut", plan]);
            tasks();
        }
        run(&["finish", plan]);
        assert_eq!(sorted(read(&bench, &format!("{out}/"))), sorted(rows_of(&bench, &queries(20))), "{plan}");
    }
}

#[test]
fn elwc_tools_describe_records() {
    let bench = Workbench::new();
    let query = "SELECT 'a' AS query, [{id: 1, title: 'x'}, {id: 2, title: NULL}] AS docs";
    write(&bench, query, "set", &[]);
    assert_prints!(bench.tell_tool(&["head", "set/"]), @r##"
    exit 0
    -- stdout
    {"context": {"query": ["a"]}, "examples": [{"id": [1], "title": ["x"]}, {"id": [2]}]}
    "##);
    assert_prints!(bench.tell_tool(&["head", "set/", "--as", "textproto"]), @r##"
    exit 0
    -- stdout
    # set/part-00000-of-00001.tfrecord: record 0 at byte 0
    examples {
      features {
        feature {
          key: "id"
          value {
            int64_list {
              value: 1
            }
          }
        }
        feature {
          key: "title"
          value {
            bytes_list {
              value: "x"
            }
          }
        }
      }
    }
    examples {
      features {
        feature {
          key: "id"
          value {
            int64_list {
              value: 2
            }
          }
        }
      }
    }
    context {
      features {
        feature {
          key: "query"
          value {
            bytes_list {
              value: "a"
            }
          }
        }
      }
    }
    "##);
    assert_prints!(bench.tell_tool(&["schema", "set/", "--as", "ddl"]), @r##"
    exit 0
    -- stdout
    CREATE EXTERNAL TABLE "set" (
      "query" VARCHAR NOT NULL, -- Utf8
      "docs" ARRAY<STRUCT<"id" BIGINT, "title" VARCHAR>> NOT NULL -- List(Struct("id": Int64, "title": Utf8))
    )
    STORED AS TFRECORD
    LOCATION 'set/'
    OPTIONS ('tfrecord.record_type' 'elwc');
    -- stderr
    types from the manifest
    "##);
    assert_prints!(bench.tell(&[query, "--out", "planned", "--record-type", "elwc", "--dry-run"]), @r##"
    exit 0
    -- stdout
    column  type                                      feature                      class                                 nulls  read with
    query   Utf8                                      bytes                        exact                                 -      tf.io.FixedLenFeature([], tf.string)
    docs    List(Struct("id": Int64, "title": Utf8))  id int64 of each example     encoded: an example for each element  -      tf.io.VarLenFeature(tf.int64)
                                                      title bytes of each example                                               tf.io.VarLenFeature(tf.string)

    rows    1 (exact)
    size    33 B to 56 B of records before compression, and the values of query, docs
    shards  1 shard or more, at most 128.0 MiB each: part-00000-of-?????.tfrecord ...
    "##);
    for form in ["arrow", "json"] {
        assert!(success(&bench.run_tool(&["schema", "set/", "--as", form])).contains("docs"), "{form}");
    }
    let python = success(&bench.run_tool(&["schema", "set/", "--as", "python"]));
    assert!(python.contains("CONTEXT = {") && python.contains("EXAMPLES = {"), "{python}");
    for form in ["pbtxt", "features.json"] {
        let refused = bench.tell_tool(&["schema", "set/", "--as", form]);
        assert!(refused.contains("records of type elwc have no such description"), "{refused}");
    }
    assert_prints!(bench.tell_tool(&["describe", "set/"]), @r##"
    exit 0
    -- stdout
    set/_parse_example.py
    set/_stats.pb
    set/_stats.html
    -- stderr
    left out tfds: records of type elwc have no such description
    left out tfmd: records of type elwc have no such description
    1 record in 1 file, [seconds]
    "##);
    assert!(success(&bench.run_tool(&["stats", "set/"])).contains("title"));
    for kind in ["tfds", "tfmd"] {
        let refused = bench.tell(&[query, "--out", "no", "--record-type", "elwc", "--emit", kind]);
        assert!(refused.contains("records of type elwc have no such description"), "{refused}");
        assert!(!bench.path().join("no").exists());
    }
    success(&bench.run(&[query, "--out", "all", "--record-type", "elwc", "--emit", "parse-fn,stats,index"]));
    success(&bench.run_tool(&["verify", "all/"]));
}

/// Without a manifest, the type of records is detected, and other names can be declared.
#[test]
fn elwc_files_without_manifest_are_detected() {
    let bench = Workbench::new();
    let query = "SELECT 'a' AS query, [{id: 1, title: 'x'}, {id: 2, title: NULL}] AS docs UNION ALL SELECT 'b', [] ORDER BY query";
    let expected = write(&bench, query, "set", &["--shards", "1"]);
    fs::copy(bench.path().join("set/part-00000-of-00001.tfrecord"), bench.path().join("other.tfrecord")).unwrap();
    assert_eq!(rows_of(&bench, "SELECT query, examples AS docs FROM 'other.tfrecord'"), expected);
    let declared = |columns: &str, options: &str| {
        let create =
            format!("CREATE EXTERNAL TABLE t ({columns}) STORED AS TFRECORD LOCATION 'other.tfrecord' {options}");
        format!("{create}; SELECT * FROM t")
    };
    let columns = "query VARCHAR, docs STRUCT<id BIGINT, title VARCHAR>[]";
    for options in ["", "OPTIONS ('tfrecord.record_type' 'elwc')"] {
        assert_eq!(rows_of(&bench, &declared(columns, options)), expected, "{options}");
    }
    assert_eq!(rows_of(&bench, &declared("query VARCHAR", "")), [json!({"query": "a"}), json!({"query": "b"})]);
    let table = ["SELECT query, examples FROM t", "--table", "t=other.tfrecord,record_type=elwc", "--format", "jsonl"];
    assert_eq!(success(&bench.run(&table)).lines().count(), 2);
    let ddl = success(&bench.run_tool(&["schema", "other.tfrecord", "--as", "ddl"]));
    assert_eq!(rows_of(&bench, &format!("{ddl} SELECT query, examples AS docs FROM \"other\"")), expected);
    // Columns in the wrong place, and records of another type.
    assert_prints!(bench.tell(&[&declared("id BIGINT", ""), "--format", "jsonl"]), @r##"
    exit 1
    -- stderr
    error: other.tfrecord: column "id": Int64 is read from feature "id", but the records have feature "id" of examples

    hint: declare id as a field of the list of structs; or leave the columns undeclared to see what there is
    "##);
    assert_prints!(bench.tell(&[&declared("docs STRUCT<query VARCHAR>[]", ""), "--format", "jsonl"]), @r##"
    exit 1
    -- stderr
    error: other.tfrecord: column "docs": List(Struct("query": Utf8View)) is read from feature "query" of examples, but the records have feature "query"

    hint: declare query as a column of its own: it is a feature of the context; or leave the columns undeclared to see what there is
    "##);
    assert_prints!(bench.tell(&[&declared(columns, "OPTIONS ('tfrecord.record_type' 'sequence-example')")]), @r##"
    exit 1
    -- stderr
    error: other.tfrecord: the records are of type elwc, expected sequence-example

    hint: leave out the option record_type, or set it to elwc
    "##);
    success(&bench.run(&["SELECT 1 AS id", "--out", "examples"]));
    assert_prints!(bench.tell(&["SELECT * FROM t", "--table", "t=examples/*.tfrecord,record_type=elwc"]), @r##"
    exit 1
    -- stderr
    error: examples/part-00000-of-00001.tfrecord: record 0 at byte 0: a feature where an example should be: not an ExampleListWithContext, at byte 10 of its payload

    hint: the records may be of another type, such as sequence-example or elwc, or of a broken writer
    "##);
    assert_prints!(bench.tell(&["SELECT * FROM t", "--table", "t=other.tfrecord,record_type=sequence-example"]), @r##"
    exit 1
    -- stderr
    error: other.tfrecord: the records are of type elwc, expected sequence-example

    hint: leave out the option record_type, or set it to elwc
    "##);
}

#[test]
fn elwc_rules_name_the_fields_of_examples() {
    let bench = Workbench::new();
    let query = "SELECT 'a' AS query, [{price: 0.1::DOUBLE, label: 'cat'}, {price: NULL, label: 'dog'}] AS docs";
    let rules = ["--map", "price: bits", "--map", "label: index"];
    let expected = write(&bench, query, "set", &rules);
    assert_eq!(rows_of(&bench, "SELECT query, docs FROM 'set/'"), expected);
    assert_eq!(rows_of(&bench, "SELECT docs[2]['label'] AS label FROM 'set/'"), [json!({"label": "dog"})]);
    let ddl = success(&bench.run_tool(&["schema", "set/", "--as", "ddl"]));
    fs::rename(bench.path().join("set/_manifest.json"), bench.path().join("manifest.json")).unwrap();
    let ddl = ddl.replace("set/", "set/*.tfrecord");
    assert_eq!(rows_of(&bench, &format!("{ddl} SELECT query, docs FROM \"set\"")), expected, "{ddl}");
}

#[test]
fn elwc_refuses_other_tables_before_it_writes() {
    let bench = Workbench::new();
    let refused = |query: &str, options: &[&str]| {
        let message = bench.tell(&[&[query, "--out", "no", "--record-type", "elwc"], options].concat());
        assert!(!bench.path().join("no").exists(), "{message}");
        message
    };
    assert_prints!(refused("SELECT 1 AS a, [1] AS b", &["--dry-run"]), @r##"
    exit 1
    -- stderr
    error: records of type elwc need one list of structs, whose elements become the examples, found: none

    hint: collect the rows of each query: SELECT query, array_agg({id: id}) AS docs ... GROUP BY query
    "##);
    assert_prints!(refused("SELECT [{x: 1}] AS a, [{y: 1}] AS b", &[]), @r##"
    exit 1
    -- stderr
    error: records of type elwc need one list of structs, whose elements become the examples, found: a, b

    hint: name the one that becomes the examples with --sequence COL
    "##);
    assert_prints!(refused("SELECT 1 AS x, [{x: 1}] AS a", &[]), @r##"
    exit 1
    -- stderr
    error: columns 0 and 1 would both become feature "x"

    hint: rename one of them: ... AS x_2
    "##);
    assert_prints!(refused("SELECT [{x: 1}, NULL] AS a", &[]), @r##"
    exit 1
    -- stderr
    error: column "a", row 0: null inside a list, which a feature cannot represent

    hint: write where nulls are with --map 'a: null=mask', leave them out with null=drop, or put a value in their place with null=default=VALUE
    "##);
    assert_prints!(refused("SELECT nullif([{x: 1}], [{x: 1}]) AS a", &[]), @r##"
    exit 1
    -- stderr
    error: column "a", row 0: null, but a record of type elwc has no null list of examples

    hint: write an empty list with --map 'a: null=empty' or mark the null with null=mask, rules that its fields inherit, or filter the row out
    "##);
    let named = write(&bench, "SELECT [{x: 1}] AS a, [{y: 1}] AS b", "named", &["--sequence", "b"]);
    assert_eq!(rows_of(&bench, "SELECT a, b FROM 'named/'"), named);
}

#[test]
fn elwc_rows_that_do_not_fit_are_rejected() {
    let bench = Workbench::new();
    let query = "SELECT n, CASE WHEN n = 2 THEN NULL WHEN n = 3 THEN [NULL] ELSE [{x: n}] END AS docs FROM generate_series(1, 4) AS t(n)";
    success(&bench.run(&[query, "--out", "set", "--record-type", "elwc", "--rejects", "bad", "--max-rejects", "2"]));
    let numbers = |table: &str| rows_of(&bench, &format!("SELECT n FROM '{table}' ORDER BY n"));
    assert_eq!(numbers("set/"), [json!({"n": 1}), json!({"n": 4})]);
    assert_eq!(rows_of(&bench, "SELECT count(*) AS n FROM 'bad/'"), [json!({"n": 2})]);
}

/// A list of structs in the context is not read as the examples, which are not declared.
#[test]
fn elwc_sets_are_read_without_their_examples() {
    let bench = Workbench::new();
    let query = "SELECT 'a' AS query, [{id: 7}] AS ads, [{id: 1, title: 'x'}, {id: 2, title: 'y'}] AS docs";
    write(&bench, query, "set", &["--sequence", "docs"]);
    let declared = |columns: &str, options: &str, query: &str| {
        format!("CREATE EXTERNAL TABLE t ({columns}) STORED AS TFRECORD LOCATION 'set/' {options}; {query}")
    };
    let ads = "ads STRUCT<id BIGINT>[]";
    assert_eq!(rows_of(&bench, &declared(ads, "", "SELECT ads FROM t")), [json!({"ads": [{"id": 7}]})]);
    let misspelt = declared(ads, "OPTIONS ('tfrecord.sequence' 'dcos')", "SELECT ads FROM t");
    assert_prints!(bench.tell(&[&misspelt]), @r##"
    exit 1
    -- stderr
    error: no sequence column "dcos": the columns are docs

    hint: did you mean "docs"? a name is matched as it is spelled
    "##);
    let other = declared(ads, "OPTIONS ('tfrecord.sequence' 'ads')", "SELECT ads FROM t");
    assert_prints!(bench.tell(&[&other]), @r##"
    exit 1
    -- stderr
    error: no sequence column "ads": the columns are docs
    "##);
    fs::remove_file(bench.path().join("set/_manifest.json")).unwrap();
    let table = ["SELECT * FROM t", "--table", "t=set/*.tfrecord,record_type=elwc,sequence=docs"];
    assert_prints!(bench.tell(&table), @r##"
    exit 1
    -- stderr
    error: no sequence column "docs": the columns are ads/id, examples, query
    "##);
}

/// Masks are applied to declared columns, and a warning names those that are not.
#[test]
fn elwc_masks_are_applied_or_named() {
    let bench = Workbench::new();
    let query = "SELECT 'a' AS query, [{id: 1, tags: ['x', NULL]}, NULL] AS docs";
    let expected = write(&bench, query, "set", &["--null", "mask", "--shards", "1"]);
    fs::copy(bench.path().join("set/part-00000-of-00001.tfrecord"), bench.path().join("other.tfrecord")).unwrap();
    let declared = |options: &str| {
        format!(
            "CREATE EXTERNAL TABLE t (query VARCHAR, docs STRUCT<id BIGINT, tags VARCHAR[]>[]) STORED AS TFRECORD \
             LOCATION 'other.tfrecord' {options}; SELECT * FROM t"
        )
    };
    assert_eq!(rows_of(&bench, &declared("OPTIONS ('tfrecord.null' 'mask')")), expected);
    assert_prints!(bench.tell(&[&declared(""), "--format", "jsonl"]), @r##"
    exit 0
    -- stdout
    {"query":"a","docs":[{"id":1,"tags":["x",""]},{"id":null,"tags":null}]}
    -- stderr
    warning: column "docs": nulls in it are read as values; feature "docs/is_null" says where they are, and the option map='docs: null=mask' reads them as nulls
    warning: column "tags": nulls in it are read as values; feature "tags/is_null" says where they are, and the option map='tags: null=mask' reads them as nulls
    "##);
    let inferred = ["SELECT query FROM t", "--table", "t=other.tfrecord,null=mask", "--format", "jsonl"];
    assert_prints!(bench.tell(&inferred), @r##"
    exit 0
    -- stdout
    {"query":"a"}
    -- stderr
    warning: column "docs": nulls in it are read as values; feature "docs/is_null" says where they are, and the option map='docs: null=mask' reads them as nulls, of a column that is declared
    warning: column "tags": nulls in it are read as values; feature "tags/is_null" says where they are, and the option map='tags: null=mask' reads them as nulls, of a column that is declared
    "##);
}
