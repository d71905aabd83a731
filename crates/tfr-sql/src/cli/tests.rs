use std::collections::BTreeSet;

use clap::CommandFactory as _;
use tfrecord_shards::Sharding;

use super::rebuild::DECIDING_OPTIONS;
use super::{Cli, QueryArgs, TableFormat, TableTarget, Target, Tool, values};

fn parse(arguments: &[&str]) -> Result<Cli, clap::Error> {
    Cli::parse(["tfr-sql"].iter().chain(arguments).map(Into::into).collect(), None)
}

fn query(arguments: &[&str]) -> QueryArgs {
    parse(&[&["SELECT 1"], arguments].concat()).unwrap().query
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn a_rule_names_a_column_or_a_part_of_one() {
    let maps = |text: &str| {
        let maps = query(&["--out", "x", "--map", text]).mapping.maps;
        maps.into_iter().map(|(name, rule)| (name, rule.to_string())).collect::<Vec<_>>()
    };
    let rule = |name: &str, rule: &str| vec![(name.to_owned(), rule.to_owned())];
    assert_eq!(maps("price: string"), rule("price", "string"));
    assert_eq!(maps(" unit price :bits, null=mask"), rule("unit price", "bits, null=mask"));
    assert_eq!(maps(r#""a:b": wrap"#), rule("a:b", "wrap"));
    assert_eq!(maps(r#""say ""x"" : y" : null=default=a, b"#), rule(r#"say "x" : y"#, "null=default=a, b"));
    assert_eq!(maps("point/x: null=drop"), rule("point/x", "null=drop"));
    for bad in ["price", "price:", ": string", "a:b: string", r#""a: string"#, r#""a" string"#, "price: exact"] {
        assert!(parse(&["SELECT 1", "--out", "x", "--map", bad]).is_err(), "{bad}");
    }
}

#[test]
fn sequence_option_takes_lists_and_may_be_repeated() {
    let arguments = ["--out", "x", "--sequence", r#"a,"b, c""#, "--sequence", "d"];
    assert_eq!(
        query(&arguments).mapping.declared.options().sequences.into_iter().collect::<Vec<_>>(),
        ["a", "b, c", "d"]
    );
    assert!(parse(&["SELECT 1", "--out", "x", "--sequence", "a,,b"]).is_err());
}

#[test]
fn shard_options_set_count_size_or_rows() {
    let sharding = |arguments: &[&str]| query(&[&["--out", "x"], arguments].concat()).output.writing.options().sharding;
    assert_eq!(sharding(&[]), Sharding::default());
    assert_eq!(sharding(&["--shards", "16"]), Sharding::Count(16.try_into().unwrap()));
    assert_eq!(sharding(&["--shard-size", "1MiB"]), Sharding::Bytes(1 << 20));
    assert_eq!(sharding(&["--shard-rows", "1000"]), Sharding::Rows(1000));
}

#[test]
fn infer_files_option_takes_a_count_or_all() {
    let sample = |text: &str| query(&["--infer-files", text]).inference.options().infer_files;
    assert_eq!((sample("7"), sample("all")), (Some(7), None));
    assert!(parse(&["SELECT 1", "--infer-files", "0"]).is_err());
}

#[test]
fn a_prefix_is_the_start_of_a_visible_file_name() {
    let prefix = |text: &str| parse(&["SELECT 1", "--out", "x", "--prefix", text]);
    assert!(prefix("train").is_ok());
    for bad in ["", "a/b", ".train", "_train", "tra\nin", &"x".repeat(240)] {
        assert!(prefix(bad).is_err(), "{bad}");
    }
}

#[test]
fn out_option_takes_a_local_path() {
    let out = |text: &str| values::out(text.into()).map(|path| path.display().to_string());
    for (text, path) in [("a/b", "a/b"), ("./s3:/x", "./s3:/x"), ("file:///a%20b/c#1?", "/a b/c#1?")] {
        assert_eq!(out(text).unwrap(), path);
    }
    for bad in ["", "s3://bucket/x", "abfss://c@a.dfs.core.windows.net/x", "file://host/x"] {
        assert!(out(bad).is_err(), "{bad}");
    }
}

#[test]
fn out_option_takes_a_url_for_shards() {
    for url in ["s3://bucket/train/", "abfss://c@a.dfs.core.windows.net/x", "gs://bucket/train.d"] {
        let args = query(&["--out", url]);
        let Some(Target::Shards(target)) = args.output.target() else { panic!("{url}") };
        assert!(target.local().is_none(), "{url}");
        assert_eq!(target.to_string(), url);
    }
    let args = query(&["--out", "gs://bucket/a/x.csv.gz"]);
    let Some(Target::Table(TableTarget { store: Some(store), gzip: true, .. })) = args.output.target() else {
        panic!("no table in a store");
    };
    assert_eq!((store.object_store().as_str(), store.key().as_ref()), ("gs://bucket/", "a/x.csv.gz"));
    for (bad, reason) in [
        ("s3://bucket/x.csv.gz/", "writing a directory of CSV files to an object store is not supported"),
        ("s3://bucket/x.tfrecord", "writing a single TFRecord file is not supported"),
    ] {
        let error = parse(&["SELECT 1", "--out", bad]).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn output_name_determines_the_table_format() {
    let target = |out: &str| query(&["--out", out]).output.target().cloned().unwrap();
    for (out, format, gzip, is_directory) in [
        ("x.parquet", TableFormat::Parquet, false, false),
        ("a.b/X.Parquet", TableFormat::Parquet, false, false),
        ("x.csv.gz", TableFormat::Csv, true, false),
        ("x.jsonl.gz/", TableFormat::JsonLines, true, true),
        ("x.ndjson", TableFormat::JsonLines, false, false),
        ("x.json", TableFormat::Json, false, false),
        ("x.arrow/", TableFormat::Arrow, false, true),
    ] {
        let Target::Table(table) = target(out) else { panic!("{out}") };
        let found = (table.path.to_str(), table.format, table.gzip, table.is_directory);
        assert_eq!(found, (Some(out), format, gzip, is_directory));
        assert!(table.store.is_none());
    }
    for out in ["shards", "shards.d", "shards/", "x.tfrecord/", "x.gz", ".parquet", "2026.11.20", ".."] {
        assert!(matches!(target(out), Target::Shards(target) if target.to_string() == out), "{out}");
    }
    for bad in ["x.avro", "x.tsv", "x.ORC", "x.tfrecord", "x.csv.zst", "x.csv.zst/", "x.parquet.gz", "x.arrow.gz"] {
        let error = parse(&["SELECT 1", "--out", bad]).unwrap_err().to_string();
        assert!(error.contains("is not supported\n\nhint: "), "{error}");
    }
}

#[test]
fn output_name_of_a_record_file_is_rejected() {
    for (name, directory) in [
        ("x.tfrecord.gz", "--out x/ --compression gzip;"),
        ("a.b/X.TFRecords.GZ", "--out a.b/X/ --compression gzip;"),
        ("x.tfrecord.deflate", "--out x/ --compression zlib;"),
        ("x.tfrecord.snappy", "--out x/;"),
        ("x.tfrec", "--out x/;"),
        ("x.record", "--out x/;"),
        ("x.ipc", "--out x/;"),
        ("x.xlsx", "--out x/;"),
        ("s3://bucket/x.tfrecord.gz", "--out s3://bucket/x/ --compression gzip;"),
    ] {
        let error = parse(&["SELECT 1", "--out", name]).unwrap_err().to_string();
        assert!(error.contains("is not supported\n\nhint: "), "{error}");
        assert!(error.contains(directory), "{error}");
        let directory = query(&["--out", &format!("{name}/")]);
        assert!(matches!(directory.output.target(), Some(Target::Shards(_))), "{name}/");
    }
}

#[test]
fn output_is_a_directory_if_one_of_that_name_exists() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("x.parquet");
    std::fs::create_dir(&out).unwrap();
    let args = query(&["--out", out.to_str().unwrap()]);
    assert!(matches!(args.output.target(), Some(Target::Table(TableTarget { is_directory: true, .. }))));
}

#[test]
fn tool_name_is_not_a_query() {
    assert!(matches!(parse(&["verify", "x"]).unwrap().tool, Some(Tool::Verify(_))));
    assert!(matches!(parse(&["-q", "verify", "x"]).unwrap().tool, Some(Tool::Verify(_))));
    assert!(parse(&["verify"]).is_err());
    // Behind another option, and where nothing else can stand.
    assert!(parse(&["--threads", "2", "verify", "x"]).is_err());
    assert!(parse(&["SELECT 1", "verify", "x"]).is_err());
    assert!(parse(&["--", "verify"]).unwrap().tool.is_none());
}

/// A new option belongs to one of the two lists: manifests record the first.
#[test]
fn rebuild_has_each_option_that_decides_what_is_written() {
    const OTHERS: [&str; 21] = [
        "query",
        "file",
        "out",
        "mode",
        "add_columns",
        "rejects",
        "max_rejects",
        "dry_run",
        "plan",
        "cluster",
        "scratch",
        "map_file",
        "hive_metastore",
        "s3_endpoint",
        "threads",
        "partitions",
        "memory_limit",
        "temp_dir",
        "format",
        "report",
        "generate",
    ];
    let command = Cli::command().arg(super::Generated::option());
    let options = command.get_arguments().filter(|option| !option.is_global_set());
    let options: Vec<_> = options.map(|option| option.get_id().as_str()).collect();
    let listed: Vec<_> = DECIDING_OPTIONS.into_iter().chain(OTHERS).collect();
    assert_eq!(listed.iter().collect::<BTreeSet<_>>(), options.iter().collect::<BTreeSet<_>>());
    assert_eq!(listed.len(), options.len());
}
