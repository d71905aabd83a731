//! Nested columns, sequences, records as they are, and all that is said of columns.

use std::fs;

use crate::workbench::{Workbench, assert_prints, tell};

/// A table of every shape of column, with nulls at every level.
const NESTED: &str = "SELECT * FROM (VALUES \
    (1, named_struct('x', 1, 'y', 2.5e0), [[1, 2], [3]], [named_struct('a', 1, 'b', 'u'), named_struct('a', 2, 'b', 'v')], \
     ['p', NULL, 'q'], MAP {'k': 1, 'l': 2}), \
    (2, NULL, [[]], [], NULL, NULL), \
    (3, named_struct('x', NULL, 'y', 1.5e0), NULL, [NULL], [], MAP {})\
    ) AS t(id, point, ragged, items, tags, counts)";

#[test]
fn nested_columns_come_back() {
    let bench = Workbench::new();
    let source = bench.run(&[NESTED, "--format", "jsonl"]);
    assert_prints!(String::from_utf8_lossy(&source.stdout), @r##"
    {"id":1,"point":{"x":1,"y":2.5},"ragged":[[1,2],[3]],"items":[{"a":1,"b":"u"},{"a":2,"b":"v"}],"tags":["p",null,"q"],"counts":{"k":1,"l":2}}
    {"id":2,"point":null,"ragged":[[]],"items":[],"tags":null,"counts":null}
    {"id":3,"point":{"x":null,"y":1.5},"ragged":null,"items":[null],"tags":[],"counts":{}}
    "##);
    let types: [&[&str]; 3] = [
        &["--null", "mask"],
        &["--null", "mask", "--separator", ".", "--map", "point.y: bits"],
        &["--null", "mask", "--record-type", "sequence-example", "--sequence", "tags"],
    ];
    for (turn, options) in types.into_iter().enumerate() {
        let out = format!("set-{turn}");
        let written = bench.run(&[&[NESTED, "--out", &out], options].concat());
        assert!(written.status.success(), "{}", tell(&written));
        // A feature list has no place for the flag of a null struct that is not in a list.
        let query = format!("SELECT id, ragged, items, tags, counts FROM '{out}/'");
        let found = bench.run(&[&query, "--format", "jsonl"]);
        let columns = format!("SELECT id, ragged, items, tags, counts FROM ({NESTED})");
        assert_eq!(tell(&found), tell(&bench.run(&[&columns, "--format", "jsonl"])), "{options:?}");
    }
    let points = bench.run(&["SELECT point FROM 'set-1/'", "--format", "jsonl"]);
    assert_prints!(tell(&points), @r##"
    exit 0
    -- stdout
    {"point":{"x":1,"y":2.5}}
    {"point":null}
    {"point":{"x":null,"y":1.5}}
    "##);
}

#[test]
fn dry_run_lists_each_feature_of_nested_columns() {
    let bench = Workbench::new();
    assert_prints!(bench.tell(&[NESTED, "--dry-run", "--map", "items: null=mask", "--map", "tags: null=drop", "--map", "point/y: bits"]), @r##"
    exit 0
    -- stdout
    column  type                                                                             feature                                 class                                                                         nulls   read with
    id      Int64                                                                            int64                                   exact                                                                         -       tf.io.FixedLenFeature([], tf.int64)
    point   Struct("x": Int64, "y": Float64)                                                 point/x int64                           narrowed: y: bits of float64; field by field; a struct of nulls becomes null  absent  tf.io.VarLenFeature(tf.int64)
                                                                                             point/y int64                                                                                                                 tf.io.VarLenFeature(tf.int64)
    ragged  List(List(Int64))                                                                ragged/ragged_flat_values int64 list    encoded: values and row lengths                                               absent  tf.io.RaggedFeature(tf.int64, "ragged/ragged_flat_values", [tf.io.RaggedFeature.RowLengths("ragged/ragged_row_lengths_0")])
                                                                                             ragged/ragged_row_lengths_0 int64 list
    items   List(Struct("a": Int64, "b": Utf8))                                              items/a int64 list                      encoded: field by field                                                       mask    tf.io.RaggedFeature(tf.int64)
                                                                                             items/a/is_null int64 list                                                                                                    tf.io.RaggedFeature(tf.int64)
                                                                                             items/b bytes list                                                                                                            tf.io.RaggedFeature(tf.string)
                                                                                             items/b/is_null int64 list                                                                                                    tf.io.RaggedFeature(tf.int64)
                                                                                             items/is_null int64 list                                                                                                      tf.io.RaggedFeature(tf.int64)
    tags    List(Utf8)                                                                       bytes list                              narrowed: nulls in lists are dropped                                          drop    tf.io.RaggedFeature(tf.string)
    counts  Map("entries": non-null Struct("key": non-null Utf8, "value": Int64), unsorted)  counts/key bytes list                   encoded: keys and values                                                      absent  tf.io.RaggedFeature(tf.string)
                                                                                             counts/value int64 list                                                                                                       tf.io.RaggedFeature(tf.int64)

    rows    3 (exact)
    size    117 B to 758 B of records before compression, and the values of ragged, items, tags, counts
    shards  1 shard or more, at most 128.0 MiB each: part-00000-of-?????.tfrecord ...
    "##);
    let sequences = ["--record-type", "sequence-example", "--sequence", "tags", "--map", "tags: null=default=none"];
    let query = format!("SELECT id, ragged, tags FROM ({NESTED})");
    assert_prints!(bench.tell(&[&[query.as_str(), "--dry-run"], &sequences[..]].concat()), @r##"
    exit 0
    -- stdout
    column  type               feature              class                                                   nulls         read with
    id      Int64              int64                exact                                                   -             tf.io.FixedLenFeature([], tf.int64)
    ragged  List(List(Int64))  steps of int64 list  encoded: a feature for each step                        absent        tf.io.RaggedFeature(tf.int64)
    tags    List(Utf8)         steps of bytes       narrowed: nulls become "none"; a feature for each step  default=none  tf.io.FixedLenSequenceFeature([], tf.string)

    rows    3 (exact)
    size    139 B to 190 B of records before compression, and the values of ragged, tags
    shards  1 shard or more, at most 128.0 MiB each: part-00000-of-?????.tfrecord ...
    "##);
    assert_prints!(bench.tell(&["SELECT label FROM 'events.parquet'", "--dry-run", "--record-type", "bytes", "--null", "error"]), @r##"
    exit 0
    -- stdout
    column  type      feature     class  nulls  read with
    label   Utf8View  the record  exact  error  -

    rows    4 (exact, from the files' statistics)
    size    64 B to 64 B of records before compression, and the values of label
    shards  1 shard or more, at most 128.0 MiB each: part-00000-of-?????.tfrecord ...
    "##);
}

#[test]
fn unwritable_nested_columns_are_reported_with_a_hint() {
    let bench = Workbench::new();
    assert_prints!(bench.tell(&[NESTED, "--out", "x", "--quiet"]), @r##"
    exit 1
    -- stderr
    error: column "items", row 2: null inside a list, which a feature cannot represent

    hint: write where nulls are with --map 'items: null=mask', leave them out with null=drop, or put a value in their place with null=default=VALUE
    "##);
    assert_prints!(bench.tell(&[NESTED, "--out", "x", "--map", "point/z: bits"]), @r##"
    exit 1
    -- stderr
    error: no column "point/z" to map: the columns are counts, counts/key, counts/value, id, items, items/a, items/b, point, point/x, point/y, ragged, tags
    "##);
    assert_prints!(bench.tell(&[NESTED, "--out", "x", "--record-type", "bytes"]), @r##"
    exit 1
    -- stderr
    error: records of type bytes need a single column of strings or bytes, found: id Int64, point Struct("x": Int64, "y": Float64), ragged List(List(Int64)), items List(Struct("a": Int64, "b": Utf8)), tags List(Utf8), counts Map("entries": non-null Struct("key": non-null Utf8, "value": Int64), unsorted)

    hint: select the one column, as BYTEA or VARCHAR, or write records of type example
    "##);
    assert_prints!(bench.tell(&[NESTED, "--out", "x", "--sequence", "tags"]), @r##"
    exit 1
    -- stderr
    error: column "tags": type List(Utf8) is not a sequence: records are not of type sequence-example
    "##);
    assert_prints!(bench.tell(&[NESTED, "--out", "x", "--null", "mask", "--strict"]), @r##"
    exit 1
    -- stderr
    error: a column would lose information: "point" (y: float32 of float64)

    hint: choose an exact form for each with --map 'column: choice', or run without --strict
    "##);
    assert!(bench.leftovers().is_empty());
}

#[test]
fn index_choice_writes_the_rank_of_a_label() {
    let bench = Workbench::new();
    let query = "SELECT label FROM 'events.parquet'";
    assert_prints!(bench.tell(&[query, "--out", "ranks", "--map", "LABEL: index"]), @r##"
    exit 0
    -- stderr
    gathering the vocabulary of label
    4 rows in 1 shard, 120 B, [seconds]: ranks
    "##);
    assert_prints!(bench.tell_tool(&["cat", "ranks/part-00000-of-00001.tfrecord"]), @r##"
    exit 0
    -- stdout
    {"label": [0]}
    {"label": [1]}
    {}
    {"label": [1]}
    "##);
    assert_prints!(bench.tell(&["SELECT * FROM 'ranks/'"]), @r##"
    exit 0
    -- stdout
    label
    click
    view
    ""
    view
    "##);
    bench.text(
        "labels.toml",
        "[columns.label]\nnull = \"default=none\"\nvocabulary = [\"view\", \"click\", \"none\"]\n",
    );
    assert!(bench.run(&[query, "--out", "given", "--map-file", "labels.toml"]).status.success());
    assert_prints!(bench.tell_tool(&["cat", "given/part-00000-of-00001.tfrecord"]), @r##"
    exit 0
    -- stdout
    {"label": [1]}
    {"label": [0]}
    {"label": [2]}
    {"label": [0]}
    "##);
    // So are the values of a part of a column.
    let part = "SELECT named_struct('label', label) AS event FROM 'events.parquet'";
    assert_prints!(bench.tell(&[part, "--out", "part", "--map", "event/label: index"]), @r##"
    exit 0
    -- stderr
    gathering the vocabulary of event/label
    warning: column "event" loses information: a struct of nulls becomes null
    4 rows in 1 shard, 138 B, [seconds]: part
    "##);
    bench.text("labels.toml", "[columns.label]\nvocabulary = [\"view\"]\n");
    assert_prints!(bench.tell(&[query, "--out", "short", "--map-file", "labels.toml"]), @r##"
    exit 1
    -- stderr
    error: column "label", row 0: "click" is not in the vocabulary

    hint: add "click" to the vocabulary, or replace it in the query
    "##);
    assert_prints!(bench.tell(&[query, "--out", "other", "--map", "label: index", "--map-file", "no.toml"]), @r##"
    exit 1
    -- stderr
    error: no.toml: cannot be read
      cause: No such file or directory (os error 2)
    "##);
}

#[test]
fn map_option_overrides_the_map_file() {
    let bench = Workbench::new();
    bench.text("mapping.toml", "null = \"mask\"\n[columns]\nscore = \"bits\"\nPRICE = \"unscaled, null=error\"\n");
    let query = "SELECT score, price FROM 'events.parquet'";
    let plan = ["--dry-run", "--map-file", "mapping.toml", "--null", "absent", "--map", "score: string"];
    assert_prints!(bench.tell(&[&[query], &plan[..]].concat()), @r##"
    exit 0
    -- stdout
    column  type              feature  class                       nulls   read with
    score   Float64           bytes    encoded: text of float64    absent  tf.io.VarLenFeature(tf.string)
    price   Decimal128(9, 2)  int64    encoded: unscaled, scale 2  error   tf.io.FixedLenFeature([], tf.int64)

    rows    4 (exact, from the files' statistics)
    size    72 B to 224 B of records before compression, and the values of score
    shards  1 shard or more, at most 128.0 MiB each: part-00000-of-?????.tfrecord ...
    "##);
    bench.text("mapping.toml", "[columns]\nscore = \"bit\"\n");
    assert_prints!(bench.tell(&[query, "--dry-run", "--map-file", "mapping.toml"]), @r##"
    exit 2
    -- stderr
    error: mapping.toml: line 2: score = "bit": unknown choice "bit": expected wrap, bits, string, tensor, unscaled, seconds, millis, micros, index
    "##);
}

#[test]
fn bytes_record_type_writes_values_verbatim() {
    let bench = Workbench::new();
    let query = "SELECT label FROM 'events.parquet' WHERE label IS NOT NULL";
    assert!(bench.run(&[query, "--out", "lines", "--record-type", "bytes"]).status.success());
    assert_prints!(bench.tell(&["SELECT * FROM 'lines/'"]), @r##"
    exit 0
    -- stdout
    label
    click
    view
    view
    "##);
    let raw =
        bench.run(&["SELECT record FROM r", "--table", "r=lines/*.tfrecord,record_type=bytes", "--format", "jsonl"]);
    assert_prints!(tell(&raw), @r##"
    exit 0
    -- stdout
    {"record":"636c69636b"}
    {"record":"76696577"}
    {"record":"76696577"}
    "##);
    // Those of another type, too: what a record is, is said by the reader.
    assert!(bench.run(&["SELECT 1 AS one", "--out", "examples"]).status.success());
    let raw = ["SELECT record FROM r", "--table", "r=examples/,record_type=bytes", "--format", "jsonl"];
    assert_prints!(bench.tell(&raw), @r##"
    exit 0
    -- stdout
    {"record":"0a0e0a0c0a036f6e6512051a030a0101"}
    "##);
}

/// Without a manifest, sequences are read in the columns that are declared.
#[test]
fn sequences_without_manifest_are_read_as_declared() {
    let bench = Workbench::new();
    let query = "SELECT 7 AS id, [[1, 2], [], [3]] AS frames, ['a', 'b'] AS tags";
    let options = ["--record-type", "sequence-example", "--sequence", "tags"];
    assert!(bench.run(&[&[query, "--out", "set"], &options[..]].concat()).status.success());
    fs::copy(bench.path().join("set/part-00000-of-00001.tfrecord"), bench.path().join("foreign.tfrecord")).unwrap();
    let declared = "CREATE EXTERNAL TABLE t (id BIGINT, frames BIGINT[][], tags VARCHAR[]) STORED AS TFRECORD \
        LOCATION 'foreign.tfrecord' OPTIONS ('tfrecord.record_type' 'sequence-example', 'tfrecord.sequence' 'tags'); \
        SELECT * FROM t";
    assert_prints!(bench.tell(&[declared, "--format", "jsonl"]), @r##"
    exit 0
    -- stdout
    {"id":7,"frames":[[1,2],[],[3]],"tags":["a","b"]}
    "##);
    let undeclared =
        declared.replace(" OPTIONS ('tfrecord.record_type' 'sequence-example', 'tfrecord.sequence' 'tags')", "");
    assert_ne!(undeclared, declared);
    let shown = bench.tell(&[declared, "--format", "jsonl"]);
    assert_eq!(bench.tell(&[undeclared.as_str(), "--format", "jsonl"]), shown);
    // In the order of their names.
    assert_prints!(bench.tell(&["SELECT * FROM 'foreign.tfrecord'", "--format", "jsonl"]), @r##"
    exit 0
    -- stdout
    {"frames":[[1,2],[],[3]],"id":7,"tags":["a","b"]}
    "##);
    assert_prints!(bench.tell_tool(&["schema", "foreign.tfrecord", "--as", "ddl"]), @r##"
    exit 0
    -- stdout
    CREATE EXTERNAL TABLE "foreign" (
      "frames" BIGINT[][],
      "id" BIGINT,
      "tags" VARCHAR[] -- List(Utf8)
    )
    STORED AS TFRECORD
    LOCATION 'foreign.tfrecord'
    OPTIONS ('tfrecord.record_type' 'sequence-example', 'tfrecord.sequence' 'frames, tags');
    -- stderr
    types from records of 1 file
    "##);
    // What the manifest says holds where nothing else is said.
    assert_prints!(bench.tell(&["SELECT * FROM t", "--table", "t=set/,record_type=sequence-example", "--format", "jsonl"]), @r##"
    exit 0
    -- stdout
    {"id":7,"frames":[[1,2],[],[3]],"tags":["a","b"]}
    "##);
}

#[test]
fn index_choice_writes_ranks_of_nested_labels() {
    let bench = Workbench::new();
    let query = "SELECT * FROM (VALUES \
        (named_struct('kind', 'dog', 'tags', ['b', NULL]), [named_struct('name', 'y')], MAP {'k': 'z'}), \
        (named_struct('kind', NULL, 'tags', ['a']), [], NULL), \
        (NULL, [named_struct('name', 'x'), named_struct('name', 'y')], MAP {'l': 'z', 'k': 'w'})) AS t(s, l, m)";
    let rules = ["s/kind: index", "s/tags: index, null=mask", "l: index", "m/value: index"];
    let rules: Vec<_> = rules.iter().flat_map(|rule| ["--map", *rule]).collect();
    assert_prints!(bench.tell(&[&[query, "--out", "ranks", "--shards", "1"], &rules[..]].concat()), @r##"
    exit 0
    -- stderr
    gathering the vocabulary of l, m/value, s/kind, s/tags
    warning: column "s" loses information: a struct of nulls becomes null
    3 rows in 1 shard, 278 B, [seconds]: ranks
    "##);
    assert_prints!(bench.tell_tool(&["cat", "ranks/part-00000-of-00001.tfrecord"]), @r##"
    exit 0
    -- stdout
    {"l/name": [1], "m/key": ["k"], "m/value": [1], "s/kind": [0], "s/tags": [1, 0], "s/tags/is_null": [0, 1]}
    {"l/name": [], "s/tags": [0], "s/tags/is_null": [0]}
    {"l/name": [0, 1], "m/key": ["l", "k"], "m/value": [1, 0]}
    "##);
    let back = bench.tell(&["SELECT * FROM 'ranks/'", "--format", "jsonl"]);
    assert_eq!(back, bench.tell(&[query, "--format", "jsonl"]));
}

/// What was said of columns when they were written is said again of files that no manifest tells of.
#[test]
fn schema_takes_the_options_of_a_table() {
    let bench = Workbench::new();
    let query = "SELECT 7 AS id, 0.1e0 AS price, [1, NULL] AS l";
    let options = ["--map", "price: bits", "--null", "mask"];
    assert!(bench.run(&[&[query, "--out", "set"], &options[..]].concat()).status.success());
    fs::copy(bench.path().join("set/part-00000-of-00001.tfrecord"), bench.path().join("foreign.tfrecord")).unwrap();
    assert_prints!(bench.tell_tool(&["schema", "foreign.tfrecord"]), @r##"
    exit 0
    -- stdout
    id         Int64
    l          List(Int64)
    l/is_null  List(Int64)
    price      Int64
    -- stderr
    warning: column "l": nulls in it are read as values; feature "l/is_null" says where they are, and the option map='l: null=mask' reads them as nulls
    types from records of 1 file
    "##);
    assert_prints!(bench.tell_tool(&["schema", "foreign.tfrecord", "--as", "ddl", "--option", "null=mask"]), @r##"
    exit 0
    -- stdout
    CREATE EXTERNAL TABLE "foreign" (
      "id" BIGINT,
      "l" BIGINT[],
      "price" BIGINT
    )
    STORED AS TFRECORD
    LOCATION 'foreign.tfrecord'
    OPTIONS ('tfrecord.map' 'l: null=mask');
    -- stderr
    types from records of 1 file
    "##);
    let unknown = bench.tell_tool(&["schema", "foreign.tfrecord", "--option", "nul=mask"]);
    assert!(
        unknown.starts_with("exit 2\n") && unknown.contains(r#"unknown option "nul"; did you mean null?"#),
        "{unknown}"
    );
}

#[test]
fn index_numbers_the_strings_of_list_views() {
    let bench = Workbench::new();
    let lists = "(VALUES (1, ['b', 'a']), (2, NULL), (3, ['b'])) AS t(id, x)";
    let mut found = Vec::new();
    for layout in ["List(Utf8)", "ListView(Utf8)", "LargeListView(Utf8)"] {
        let query = format!("SELECT id, arrow_cast(x, '{layout}') AS x FROM {lists}");
        let out = layout.replace(['(', ')', ' ', ','], "-");
        assert_eq!(bench.tell(&[&query, "--out", &out, "--map", "x: index", "--quiet"]), "exit 0\n", "{layout}");
        found.push(bench.tell_tool(&["head", &out]));
    }
    assert_prints!(found[0], @r##"
    exit 0
    -- stdout
    {"id": [1], "x": [1, 0]}
    {"id": [2]}
    {"id": [3], "x": [1]}
    "##);
    assert!(found.iter().all(|records| *records == found[0]), "{found:?}");
}
