//! Every way to hold it wrong is told before anything is opened, with exit code 2.

use crate::workbench::{Workbench, assert_prints, tell};

const QUERY: &str = "SELECT * FROM 'events.parquet'";

#[test]
fn a_query_is_needed() {
    assert_prints!(Workbench::new().tell(&["--out", "shards"]), @r##"
    exit 2
    -- stderr
    error: the following required arguments were not provided:
      <QUERY|--file <FILE>>

    Usage: tfr-sql --out <URL> --threads <N> <QUERY|--file <FILE>>

    For more information, try '--help'.
    "##);
}

#[test]
fn empty_query_is_rejected() {
    assert_prints!(Workbench::new().tell(&["  -- nothing\n"]), @r##"
    exit 2
    -- stderr
    error: the SQL text is empty

    hint: try tfr-sql "SELECT * FROM 'table.parquet'"
    "##);
}

#[test]
fn a_query_comes_from_one_place() {
    assert_prints!(Workbench::new().tell(&[QUERY, "-f", "query.sql"]), @r##"
    exit 2
    -- stderr
    error: the argument '[QUERY]' cannot be used with '--file <FILE>'

    Usage: tfr-sql --threads <N> <QUERY|--file <FILE>>

    For more information, try '--help'.
    "##);
}

#[test]
fn shard_options_exclude_each_other() {
    assert_prints!(Workbench::new().tell(&[QUERY, "--out", "shards", "--shards", "2", "--shard-rows", "5"]), @r##"
    exit 2
    -- stderr
    error: the argument '--shards <N>' cannot be used with '--shard-rows <N>'

    Usage: tfr-sql --shards <N> --threads <N> <QUERY|--file <FILE>> <--out <URL>|--dry-run>

    For more information, try '--help'.
    "##);
}

#[test]
fn sizes_need_a_number_and_a_unit() {
    assert_prints!(Workbench::new().tell(&[QUERY, "--out", "shards", "--shard-size", "12 parsecs"]), @r##"
    exit 2
    -- stderr
    error: invalid value '12 parsecs' for '--shard-size <SIZE>': expected a size such as 512KiB, 128MiB or 4GB

    For more information, try '--help'.
    "##);
}

#[test]
fn map_option_rejects_unknown_choices() {
    assert_prints!(Workbench::new().tell(&[QUERY, "--out", "shards", "--map", "score: exact"]), @r##"
    exit 2
    -- stderr
    error: invalid value 'score: exact' for '--map <COL: RULE>': unknown choice "exact": expected wrap, bits, string, tensor, unscaled, seconds, millis, micros, index

    For more information, try '--help'.
    "##);
}

#[test]
fn map_option_takes_one_choice_per_column() {
    assert_prints!(Workbench::new().tell(&[QUERY, "--out", "x", "--map", "score: bits", "--map", "score: string"]), @r##"
    exit 2
    -- stderr
    error: --map is given twice for column "score"

    Usage: tfr-sql [OPTIONS] <QUERY|--file <FILE>>
           tfr-sql [OPTIONS] <TOOL>

    For more information, try '--help'.
    "##);
}

#[test]
fn compression_has_tensorflows_names() {
    assert_prints!(Workbench::new().tell(&[QUERY, "--out", "shards", "--compression", "zstd"]), @r##"
    exit 2
    -- stderr
    error: --compression zstd cannot be used with --record-format tfrecord, which has none, gzip or zlib

    Usage: tfr-sql [OPTIONS] <QUERY|--file <FILE>>
           tfr-sql [OPTIONS] <TOOL>

    For more information, try '--help'.
    "##);
}

/// Each as in spark-tfrecord, and read back with the suffix that Spark gives a zlib stream.
#[test]
fn names_of_spark_are_accepted() {
    let bench = Workbench::new();
    let codec = "org.apache.hadoop.io.compress.DefaultCodec";
    let arguments = ["--out", "shards", "--codec", codec, "--mode", "errorifexists", "--record-type", "Example", "-q"];
    assert_eq!(bench.tell(&[&["SELECT 7 AS n"], arguments.as_slice()].concat()), "exit 0\n");
    assert!(bench.path().join("shards/part-00000-of-00001.tfrecord.deflate").is_file());
    assert_prints!(bench.tell(&["SELECT n FROM 'shards/'"]), @r##"
    exit 0
    -- stdout
    n
    7
    "##);
}

#[test]
fn a_level_is_of_a_compression() {
    assert_prints!(Workbench::new().tell(&[QUERY, "--out", "shards", "--level", "9"]), @r##"
    exit 2
    -- stderr
    error: --level needs --compression gzip or --compression zlib

    Usage: tfr-sql [OPTIONS] <QUERY|--file <FILE>>
           tfr-sql [OPTIONS] <TOOL>

    For more information, try '--help'.
    "##);
}

#[test]
fn writing_options_need_a_target() {
    assert_prints!(Workbench::new().tell(&[QUERY, "--shards", "2"]), @r##"
    exit 2
    -- stderr
    error: the following required arguments were not provided:
      <--out <URL>|--dry-run>

    Usage: tfr-sql --shards <N> --threads <N> <QUERY|--file <FILE>> <--out <URL>|--dry-run>

    For more information, try '--help'.
    "##);
}

#[test]
fn rows_are_printed_or_written() {
    assert_prints!(Workbench::new().tell(&[QUERY, "--out", "shards", "--format", "csv"]), @r##"
    exit 2
    -- stderr
    error: the argument '--format <FORMAT>' cannot be used with:
      --out <URL>
      --dry-run

    Usage: tfr-sql --format <FORMAT> --threads <N> <QUERY|--file <FILE>>

    For more information, try '--help'.
    "##);
}

#[test]
fn a_table_file_is_refused_by_name() {
    assert_prints!(Workbench::new().tell(&[QUERY, "--out", "copy.avro"]), @r##"
    exit 2
    -- stderr
    error: --out copy.avro: writing Avro is not supported

    hint: for shards give a directory: --out copy/; tables are .parquet, .csv, .json, .jsonl and .arrow

    Usage: tfr-sql [OPTIONS] <QUERY|--file <FILE>>
           tfr-sql [OPTIONS] <TOOL>

    For more information, try '--help'.
    "##);
}

#[test]
fn out_option_rejects_targets_that_would_show_partial_sets() {
    let bench = Workbench::new();
    assert_prints!(bench.tell(&[QUERY, "--out", "https://host/shards"]), @r##"
    exit 1
    -- stderr
    error: cannot write to https://host/shards: readers would see shards before the set is complete

    hint: write to S3, Google Cloud Storage, Azure, HDFS or a local directory, and copy the directory as a whole
    "##);
    assert_prints!(bench.tell(&[QUERY, "--out", "file://shards"]), @r##"
    exit 2
    -- stderr
    error: invalid value 'file://shards' for '--out <URL>': expected file:// and an absolute path

    For more information, try '--help'.
    "##);
    assert!(bench.leftovers().is_empty());
}

#[test]
fn counts_start_at_one() {
    assert_prints!(Workbench::new().tell(&[QUERY, "--out", "shards", "--shards", "0"]), @r##"
    exit 2
    -- stderr
    error: invalid value '0' for '--shards <N>': expected a whole number, 1 or more, or train=256,val=16

    For more information, try '--help'.
    "##);
}

#[test]
fn memory_limit_option_has_a_minimum() {
    assert_prints!(Workbench::new().tell(&[QUERY, "--memory-limit", "1"]), @r##"
    exit 2
    -- stderr
    error: invalid value '1' for '--memory-limit <SIZE>': expected 8MiB or more: rows are sorted and written some thousands at a time

    For more information, try '--help'.
    "##);
}

#[test]
fn temp_dir_option_must_exist() {
    let bench = Workbench::new();
    assert_prints!(bench.tell(&[QUERY, "--temp-dir", "absent/dir"]), @r##"
    exit 2
    -- stderr
    error: absent/dir: cannot be used to spill into
      cause: No such file or directory (os error 2)

    hint: name a directory that can be written to with --temp-dir
    "##);
    assert!(bench.leftovers().is_empty());
    assert_prints!(bench.tell(&[QUERY, "--temp-dir", "users.csv"]), @r##"
    exit 2
    -- stderr
    error: users.csv: cannot be used to spill into
      cause: not a directory

    hint: name a directory that can be written to with --temp-dir
    "##);
}

#[test]
fn temp_dir_is_needed_only_for_spilling() {
    let bench = Workbench::new();
    let tell_with = |temp: &str, arguments: &[&str]| {
        tell(&bench.command(arguments).args(["--quiet"]).env("TMPDIR", temp).output().unwrap())
    };
    for temp in ["absent/dir", ""] {
        assert_eq!(tell_with(temp, &["SELECT 1 AS one", "--format", "csv"]), "exit 0\n-- stdout\none\n1\n");
    }
    let sort = "SELECT value, md5(CAST(value AS VARCHAR)) AS hash FROM generate_series(1, 200000) ORDER BY hash";
    let sort = [sort, "--out", "sorted", "--memory-limit", "8MiB"];
    assert_prints!(tell_with("absent/dir", &sort), @r##"
    exit 1
    -- stderr
    error: absent/dir: cannot be used to spill into
      cause: No such file or directory (os error 2)

    hint: name a directory that can be written to with --temp-dir
    "##);
    assert!(bench.leftovers().is_empty());
    // An empty name is that of no directory.
    assert_eq!(tell_with("", &sort), "exit 0\n");
}

#[test]
fn table_option_needs_name_and_url() {
    assert_prints!(Workbench::new().tell(&[QUERY, "--table", "users.csv"]), @r##"
    exit 2
    -- stderr
    error: invalid value 'users.csv' for '--table <NAME=URL[,…]>': table "users.csv": expected NAME=URL, such as t=events.csv

    For more information, try '--help'.
    "##);
}

#[test]
fn table_option_rejects_a_repeated_name() {
    assert_prints!(Workbench::new().tell(&[QUERY, "--table", "t=users.csv", "--table", "t=events.parquet"]), @r##"
    exit 2
    -- stderr
    error: --table is given twice for t

    Usage: tfr-sql [OPTIONS] <QUERY|--file <FILE>>
           tfr-sql [OPTIONS] <TOOL>

    For more information, try '--help'.
    "##);
}

#[test]
fn usage_error_creates_nothing() {
    let bench = Workbench::new();
    bench.run(&[QUERY, "--out", "shards", "--shard-size", "none"]);
    assert!(bench.leftovers().is_empty());
}

#[test]
fn options_of_splits_and_shuffles_need_them() {
    let tell = |arguments: &[&str]| Workbench::new().tell(&[&[QUERY, "--out", "shards"], arguments].concat());
    assert_prints!(tell(&["--seed", "7"]), @r##"
    exit 2
    -- stderr
    error: the following required arguments were not provided:
      --shuffle

    Usage: tfr-sql --shuffle --seed <S> --threads <N> <QUERY|--file <FILE>> <--out <URL>|--dry-run>

    For more information, try '--help'.
    "##);
    assert_prints!(tell(&["--split-by", "UserId"]), @r##"
    exit 2
    -- stderr
    error: the following required arguments were not provided:
      --split <NAME=F,…>

    Usage: tfr-sql --split <NAME=F,…> --split-by <COL,…> --threads <N> <QUERY|--file <FILE>> <--out <URL>|--dry-run>

    For more information, try '--help'.
    "##);
    assert_prints!(tell(&["--keep-partition-columns"]), @r##"
    exit 2
    -- stderr
    error: the following required arguments were not provided:
      --partition-by <COL,…>

    Usage: tfr-sql --partition-by <COL,…> --keep-partition-columns --threads <N> <QUERY|--file <FILE>> <--out <URL>|--dry-run>

    For more information, try '--help'.
    "##);
    assert_prints!(tell(&["--shards", "train=2,val=1"]), @r##"
    exit 2
    -- stderr
    error: --shards train=… needs --split

    hint: without splits give one number: --shards 16

    Usage: tfr-sql [OPTIONS] <QUERY|--file <FILE>>
           tfr-sql [OPTIONS] <TOOL>

    For more information, try '--help'.
    "##);
    assert_prints!(tell(&["--split", "train=0.9,val=0.1", "--shards", "train=2,test=1"]), @r##"
    exit 2
    -- stderr
    error: --shards: there is no split "test"

    hint: the splits are train, val

    Usage: tfr-sql [OPTIONS] <QUERY|--file <FILE>>
           tfr-sql [OPTIONS] <TOOL>

    For more information, try '--help'.
    "##);
    assert_prints!(tell(&["--split", "train=0.9,val=0.1", "--shards", "train=0"]), @r##"
    exit 2
    -- stderr
    error: invalid value 'train=0' for '--shards <N>': expected a number of shards for each split, 1 or more: train=256,val=16

    For more information, try '--help'.
    "##);
    assert_prints!(tell(&["--split", "train=0.9,val=0.1", "--prefix", "day"]), @r##"
    exit 2
    -- stderr
    error: the argument '--split <NAME=F,…>' cannot be used with '--prefix <PREFIX>'

    Usage: tfr-sql --split <NAME=F,…> --threads <N> <QUERY|--file <FILE>> <--out <URL>|--dry-run>

    For more information, try '--help'.
    "##);
    assert_prints!(tell(&["--split", "train=90,val=10"]), @r##"
    exit 2
    -- stderr
    error: invalid value 'train=90,val=10' for '--split <NAME=F,…>': expected splits such as train=0.9,val=0.1: the fractions of the splits add up to 100, expected 1; numbers of rows are written train=800rows,val=200rows

    For more information, try '--help'.
    "##);
    assert_prints!(tell(&["--split", "train=0.9,train-small=0.1"]), @r##"
    exit 2
    -- stderr
    error: invalid value 'train=0.9,train-small=0.1' for '--split <NAME=F,…>': expected splits such as train=0.9,val=0.1: split "train-small": expected a name of up to 64 bytes: letters, digits and underscores, with a letter or a digit first

    For more information, try '--help'.
    "##);
    assert_prints!(tell(&["--hosts", "2", "--shards", "2"]), @r##"
    exit 2
    -- stderr
    error: the argument '--hosts <N>' cannot be used with '--shards <N>'

    Usage: tfr-sql --hosts <N> --threads <N> <QUERY|--file <FILE>> <--out <URL>|--dry-run>

    For more information, try '--help'.
    "##);
    assert_prints!(Workbench::new().tell_tool(&["reshard", "in", "--out", "out", "--shards", "train=2"]), @r##"
    exit 2
    -- stderr
    error: --shards train=… is for a query with --split

    Usage: tfr-sql reshard [OPTIONS] --out <DIR> <PATHS>...

    For more information, try '--help'.
    "##);
}

#[test]
fn arrangement_options_are_rejected_for_tables() {
    let tell = |arguments: &[&str]| Workbench::new().tell(&[&[QUERY, "--out", "x.parquet"], arguments].concat());
    assert_prints!(tell(&["--shuffle"]), @r##"
    exit 2
    -- stderr
    error: the argument '--shuffle' is for TFRecord shards and cannot be used with '--out x.parquet', a Parquet file

    Usage: tfr-sql [OPTIONS] <QUERY|--file <FILE>>
           tfr-sql [OPTIONS] <TOOL>

    For more information, try '--help'.
    "##);
    assert_prints!(tell(&["--partition-by", "label"]), @r##"
    exit 2
    -- stderr
    error: the argument '--partition-by <COL,…>' is for TFRecord shards and cannot be used with '--out x.parquet', a Parquet file

    Usage: tfr-sql [OPTIONS] <QUERY|--file <FILE>>
           tfr-sql [OPTIONS] <TOOL>

    For more information, try '--help'.
    "##);
    assert_prints!(tell(&["--mode", "append"]), @r##"
    exit 2
    -- stderr
    error: --mode append is for TFRecord shards and cannot be used with '--out x.parquet', a Parquet file

    hint: write it to a directory of its own, and read both with a pattern

    Usage: tfr-sql [OPTIONS] <QUERY|--file <FILE>>
           tfr-sql [OPTIONS] <TOOL>

    For more information, try '--help'.
    "##);
}

#[test]
fn shards_option_rejects_a_size() {
    let bench = Workbench::new();
    for shards in ["1000000000", "100001"] {
        let shown = bench.tell(&[QUERY, "--out", "shards", "--shards", shards]);
        assert!(shown.starts_with("exit 2\n"), "{shown}");
        assert!(shown.contains("expected at most 100000 shards; is a size in bytes meant (shard_size)?"), "{shown}");
    }
    let split = ["--split", "a=0.5,b=0.5", "--split-by", "id", "--shards", "a=4,b=1000000000"];
    let shown = bench.tell(&[&["SELECT id FROM 'many.parquet'", "--out", "shards"], &split[..]].concat());
    assert!(shown.contains("expected at most 100000 shards"), "{shown}");
}

#[test]
fn a_url_without_its_slashes_is_not_a_local_path() {
    let bench = Workbench::new();
    for (typed, meant) in [
        ("http:/h/x.csv", "http://h/x.csv"),
        ("s3:b/x.csv", "s3://b/x.csv"),
        ("file:/none/x.csv", "file:///none/x.csv"),
        ("//me:pw@h/x.csv", "https://***@h/x.csv"),
    ] {
        let read = format!("SELECT * FROM '{typed}'");
        for (arguments, code) in [(&[read.as_str()][..], 1), (&["SELECT 1 AS a", "--out", typed], 2)] {
            let shown = bench.tell(arguments);
            assert!(shown.starts_with(&format!("exit {code}\n")), "{shown}");
            assert!(shown.contains(&format!("a URL is meant: {meant}; a local path is written as ./NAME")), "{shown}");
            assert!(!shown.contains("me:pw"), "{shown}");
        }
    }
    assert!(bench.leftovers().is_empty(), "{:?}", bench.leftovers());
    // A file of such a name is read.
    bench.text("s3:x.csv", "a\n1\n");
    assert!(bench.tell(&["SELECT * FROM 's3:x.csv'", "--format", "csv"]).starts_with("exit 0\n"));
}

#[test]
fn a_target_has_a_name_that_can_be_read_again() {
    let bench = Workbench::new();
    insta::assert_snapshot!(tell(&bench.run(&["SELECT 1 AS a", "--out", "new\nline"])), @r"
    exit 2
    -- stderr
    error: invalid value 'new
    line' for '--out <URL>': a name with a control character could not be read again

    For more information, try '--help'.
    ");
    assert!(bench.leftovers().is_empty(), "{:?}", bench.leftovers());
}
