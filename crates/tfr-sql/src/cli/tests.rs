use arrow_tfrecord::Choice;
use clap::Parser as _;
use tfrecord_shards::Sharding;

use super::{Cli, TABLE_HELP, parse_map, parse_out, parse_prefix, parse_size, refuse_table_file};

fn parse(arguments: &[&str]) -> Cli {
    Cli::try_parse_from([&["tfr-sql", "SELECT 1"], arguments].concat()).unwrap()
}

#[test]
fn sizes_have_units_or_are_bytes() {
    let size = |text| parse_size(text).map(std::num::NonZeroU64::get);
    assert_eq!(size("128MiB"), Ok(128 << 20));
    assert_eq!(size("1.5 KiB"), Ok(1536));
    assert_eq!(size("4GB"), Ok(4_000_000_000));
    assert_eq!(size("77"), Ok(77));
    for bad in ["", "0", "0MiB", "-1", "12 parsecs", "MiB"] {
        assert!(size(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_mapped_name_may_be_quoted() {
    let map = |text| parse_map(text).map(|(name, choice)| (name, choice.to_string()));
    let choice = |name: &str, choice: Choice| Ok((name.to_owned(), choice.to_string()));
    assert_eq!(map("price: string"), choice("price", Choice::String));
    assert_eq!(map(" unit price :bits"), choice("unit price", Choice::Bits));
    assert_eq!(map(r#""a:b": wrap"#), choice("a:b", Choice::Wrap));
    assert_eq!(map(r#""say ""x"" : y" : micros"#), choice(r#"say "x" : y"#, Choice::Micros));
    for bad in ["price", "price:", ": string", "a:b: string", r#""a: string"#, r#""a" string"#, "price: exact"] {
        assert!(map(bad).is_err(), "{bad}");
    }
}

#[test]
fn shards_are_counted_sized_or_filled() {
    let sharding = |arguments: &[&str]| parse(&[&["--out", "x"], arguments].concat()).output.sharding();
    assert_eq!(sharding(&[]), Sharding::default());
    assert_eq!(sharding(&["--shards", "16"]), Sharding::Count(16.try_into().unwrap()));
    assert_eq!(sharding(&["--shard-size", "1MiB"]), Sharding::Bytes(1 << 20));
    assert_eq!(sharding(&["--shard-rows", "1000"]), Sharding::Rows(1000));
}

#[test]
fn a_prefix_is_the_start_of_a_visible_file_name() {
    assert!(parse_prefix("train").is_ok());
    for bad in ["", "a/b", ".train", "_train", "tra\nin", &"x".repeat(240)] {
        assert!(parse_prefix(bad).is_err(), "{bad}");
    }
}

#[test]
fn every_key_of_a_table_is_in_the_help() {
    let error = "t=a.csv,no_such_key=1".parse::<tfr_inputs::TableSpec>().unwrap_err().to_string();
    let (_, known) = error.split_once("known are ").unwrap();
    for key in known.split([',', ' ']).filter(|key| !key.is_empty() && *key != "and").chain(["path"]) {
        assert!(TABLE_HELP.contains(&format!("\n  {key} ")), "{key}");
    }
}

#[test]
fn a_target_is_a_local_path() {
    let out = |text: &str| parse_out(text.into()).map(|path| path.display().to_string());
    for (text, path) in [("a/b", "a/b"), ("./s3:/x", "./s3:/x"), ("file:///a%20b/c#1?", "/a b/c#1?")] {
        assert_eq!(out(text).unwrap(), path);
    }
    for bad in ["", "s3://bucket/x", "abfss://c@a.dfs.core.windows.net/x", "file://host/x"] {
        assert!(out(bad).is_err(), "{bad}");
    }
}

#[test]
fn one_table_file_is_refused_by_name() {
    let refusal = refuse_table_file("x/table.Parquet".as_ref()).unwrap_err().to_string();
    assert!(refusal.contains("writing Parquet is not supported yet"), "{refusal}");
    assert!(refuse_table_file("shards.d".as_ref()).is_ok());
}
