use crate::workbench::{Workbench, assert_told};

#[test]
fn the_plan_is_shown_and_nothing_is_made() {
    let bench = Workbench::new();
    let query = "SELECT * FROM 'events.parquet'";
    assert_told!(bench.tell(&[query, "--out", "shards", "--shards", "2", "--compression", "gzip", "--dry-run"]), @r##"
    exit 0
    -- stdout
    column  type              feature  class                              nulls   read with
    UserId  Int64             int64    exact                              absent  tf.io.VarLenFeature(tf.int64)
    label   Utf8View          bytes    exact                              absent  tf.io.VarLenFeature(tf.string)
    score   Float64           float    narrowed: float32 of float64       absent  tf.io.VarLenFeature(tf.float32)
    price   Decimal128(9, 2)  float    narrowed: float32 of decimal(9,2)  absent  tf.io.VarLenFeature(tf.float32)

    rows    4 (exact, from the files' statistics)
    size    322 B to 358 B of records before compression, and the values of label
    shards  2 shards, about 2 rows each: part-00000-of-00002.tfrecord.gz ...
    "##);
    assert_told!(bench.tell(&[query, "--dry-run", "--map", "score: bits", "--map", "price: string", "--shard-rows", "3"]), @r##"
    exit 0
    -- stdout
    column  type              feature  class                          nulls   read with
    UserId  Int64             int64    exact                          absent  tf.io.VarLenFeature(tf.int64)
    label   Utf8View          bytes    exact                          absent  tf.io.VarLenFeature(tf.string)
    score   Float64           int64    encoded: bits of float64       absent  tf.io.VarLenFeature(tf.int64)
    price   Decimal128(9, 2)  bytes    encoded: text of decimal(9,2)  absent  tf.io.VarLenFeature(tf.string)

    rows    4 (exact, from the files' statistics)
    size    298 B to 370 B of records before compression, and the values of label, price
    shards  about 2 shards, at most 3 rows each: part-00000-of-?????.tfrecord ...
    "##);
    assert_told!(bench.tell(&["SELECT id FROM 'many.parquet' WHERE id > 5 ORDER BY id", "--dry-run"]), @r##"
    exit 0
    -- stdout
    column  type   feature  class  nulls   read with
    id      Int64  int64    exact  absent  tf.io.VarLenFeature(tf.int64)

    rows    about 9,994 (estimated from the files' statistics)
    size    about 312.3 KiB to 400.2 KiB of records before compression
    shards  about 1 shard, at most 128.0 MiB each, in the query's order: part-00000-of-?????.tfrecord ...
    "##);
    assert_told!(bench.tell(&["SELECT * FROM users", "--table", "users=users.csv,delimiter=;", "--dry-run"]), @r##"
    exit 0
    -- stdout
    column  type   feature  class  nulls   read with
    id      Int64  int64    exact  absent  tf.io.VarLenFeature(tf.int64)
    name    Utf8   bytes    exact  absent  tf.io.VarLenFeature(tf.string)

    rows    unknown before the input is read
    size    unknown before the input is read
    shards  at most 128.0 MiB each: part-00000-of-?????.tfrecord ...
    "##);
    assert!(bench.leftovers().is_empty());
}

#[test]
fn what_would_be_refused_is_refused() {
    assert_told!(Workbench::new().tell(&["SELECT score FROM 'events.parquet'", "--strict", "--dry-run"]), @r##"
    exit 1
    -- stderr
    error: a column would lose information: "score" (float32 of float64)

    hint: choose an exact form for each with --map 'column: choice', or run without --strict
    "##);
}
