//! `STORED AS TFRECORD OPTIONS (...)`.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::slice;

use super::{MAPPING, OptionText, READING, STRICT, WRITING, set_option};
use crate::error::{ErrorKind, refused};
use crate::read::ReadOptions;
use crate::write::WriteOptions;
use arrow_tfrecord::MappingOptions;
use datafusion_common::Result;

/// Prefixes of our options. The engine adds the second to options written without a dot.
const PREFIXES: [&str; 2] = ["tfrecord.", "format."];

/// An option of the engine, which has already handled it.
const ENGINES: &str = "execution.keep_partition_by_columns";

/// Parses write options (except the target) and read options. Which of the two is needed is not known here.
pub(crate) fn parse(options: &HashMap<String, String>) -> Result<(WriteOptions, ReadOptions)> {
    let mut write = WriteOptions::new(PathBuf::new());
    let mut read = ReadOptions::default();
    let mut mapping = MappingOptions::default();
    let mut given = Vec::new();
    // Sorted, so that the same mistake is always reported first.
    for (option, value) in options.iter().collect::<BTreeMap<_, _>>() {
        let key = PREFIXES.iter().find_map(|prefix| option.strip_prefix(prefix)).unwrap_or(option);
        if key == ENGINES {
            continue;
        }
        // If both declare the option, the value may be valid for only one of them.
        let tried: Vec<_> = [
            set_option(&WRITING, &mut write, key, value),
            set_option(&MAPPING, &mut mapping, key, value),
            set_option(slice::from_ref(&STRICT), &mut mapping, key, value),
            set_option(&READING, &mut read, key, value),
        ]
        .into_iter()
        .flatten()
        .collect();
        if tried.is_empty() {
            let known: Vec<_> = known().map(|text| format!("tfrecord.{}", text.key)).collect();
            return Err(refused(format!("unknown option {option:?}: the options are {}", known.join(", "))).into());
        }
        if let Err(expected) = tried
            .into_iter()
            .reduce(|first, next| first.or_else(|expected| next.map_err(|_| expected)))
            .unwrap_or(Ok(()))
        {
            return Err(invalid(option, value, expected).into());
        }
        given.push(Given { option, key, value });
    }
    check(&given)?;
    if write.add_columns
        && !write.mode.keeps_set()
        && let Some(Given { option, value, .. }) = given.iter().find(|given| given.key == "add_columns")
    {
        return Err(invalid(option, value, "'tfrecord.mode' 'append' as well".to_owned()).into());
    }
    if given.iter().any(|given| MAPPING.iter().any(|option| option.text.is_named(given.key))) {
        read.mapping = Some(MappingOptions { strict: false, ..mapping.clone() });
    }
    write.mapping = mapping;
    Ok((write, read))
}

/// All options, each key once.
fn known() -> impl Iterator<Item = OptionText> {
    let texts = WRITING.iter().map(|option| option.text).chain(MAPPING.iter().map(|option| option.text));
    let reading = READING.iter().map(|option| option.text);
    let reading = reading.filter(|text| WRITING.iter().all(|option| option.text.key != text.key));
    texts.chain([STRICT.text]).chain(reading)
}

/// An option as written by the user.
struct Given<'a> {
    option: &'a str,
    key: &'a str,
    value: &'a str,
}

/// Rejects options that exclude each other, and options whose required option is missing.
fn check(given: &[Given<'_>]) -> Result<()> {
    let text = |key: &str| known().find(|text| text.is_named(key));
    let excludes = |one: &str, other: &str| text(one).is_some_and(|text| text.excludes.contains(&other));
    for (at, option) in given.iter().enumerate() {
        let excluded =
            given[..at].iter().find(|other| excludes(other.key, option.key) || excludes(option.key, other.key));
        if let Some(first) = excluded {
            return Err(excluding(first.option, option.option).into());
        }
        let needs = text(option.key).map_or("", |text| text.needs);
        let is_on = |other: &Given<'_>| other.key == needs && !other.value.trim().eq_ignore_ascii_case("false");
        if !needs.is_empty() && !given.iter().any(is_on) {
            return Err(invalid(option.option, option.value, format!("'tfrecord.{needs}' as well")).into());
        }
    }
    Ok(())
}

/// Returns the error of an option with an invalid value.
pub(crate) fn invalid(option: &str, found: &str, expected: String) -> ErrorKind {
    refused(format!("option {option}: found {found:?}, expected {expected}"))
}

/// Returns the error of options that exclude each other.
pub(crate) fn excluding(first: &str, second: &str) -> ErrorKind {
    refused(format!("options {first} and {second} exclude each other"))
}

#[cfg(test)]
mod tests {
    use std::num::{NonZeroU32, NonZeroUsize};

    use tfrecord_framing::array_record::{ChunkCodec, ChunkOptions};
    use tfrecord_framing::{Compression, FramingConflict};
    use tfrecord_shards::{SaveMode, Sharding};

    use super::super::DEFAULT_SEED;
    use super::*;
    use crate::write::SplitOptions;

    fn parsed(options: &[(&str, &str)]) -> Result<WriteOptions> {
        let options = options.iter().map(|(option, value)| ((*option).to_owned(), (*value).to_owned())).collect();
        parse(&options).map(|(write, _)| write)
    }

    fn message(options: &[(&str, &str)]) -> String {
        parsed(options).map_or_else(|error| error.to_string(), |options| format!("accepted: {options:?}"))
    }

    #[test]
    fn options_are_found_with_and_without_prefix() -> Result<()> {
        let options = parsed(&[("format.shards", "4"), ("tfrecord.compression", "gzip"), ("tfrecord.level", "9")])?;
        assert_eq!(options.sharding, Sharding::Count(NonZeroUsize::MIN.saturating_add(3)));
        assert_eq!((options.compression, options.level.get()), (Compression::Gzip, 9));
        Ok(())
    }

    #[test]
    fn options_accept_the_names_of_spark() -> Result<()> {
        let options = parsed(&[("tfrecord.mode", "ErrorIfExists"), ("tfrecord.compression", "GzipCodec")])?;
        assert_eq!((options.mode, options.compression), (SaveMode::Error, Compression::Gzip));
        Ok(())
    }

    #[test]
    fn options_of_array_record_are_found_in_any_order() -> Result<()> {
        let format = ("tfrecord.record_format", "array_record");
        let options = parsed(&[("tfrecord.compression", "zstd"), ("tfrecord.group_size", "7"), format])?;
        let expected = ChunkOptions { group_size: NonZeroU32::MIN.saturating_add(6), codec: ChunkCodec::Zstd };
        assert_eq!(options.framing(), Ok(expected.into()));
        let conflict = parsed(&[("tfrecord.compression", "gzip"), format])?.framing();
        assert!(matches!(conflict, Err(FramingConflict::Compression { .. })));
        assert_eq!(
            parsed(&[("tfrecord.compression", "uncompressed"), format])?.framing(),
            Ok(ChunkOptions::default().into())
        );
        Ok(())
    }

    #[test]
    fn options_parse_arrangement_of_rows() -> Result<()> {
        let options = parsed(&[
            ("tfrecord.shuffle", "true"),
            ("tfrecord.split", "train=0.9, val=0.1"),
            ("tfrecord.split_by", "user, day"),
            ("tfrecord.shards", "train=9, val=1"),
            ("tfrecord.partition_by", "day"),
            ("tfrecord.mode", "append"),
        ])?;
        assert_eq!((options.shuffle, options.mode), (Some(DEFAULT_SEED), SaveMode::Append));
        let splits = "train=0.9,val=0.1".parse().expect("splits");
        let by = vec!["user".to_owned(), "day".to_owned()];
        assert_eq!(options.splits, Some(SplitOptions::Hash { splits, by }));
        let shards: Vec<_> = options.split_shards.values().map(|shards| shards.get()).collect();
        assert_eq!((shards, options.partition_by), (vec![9, 1], vec!["day".to_owned()]));
        assert_eq!(parsed(&[("tfrecord.shuffle", "true"), ("tfrecord.seed", "7")])?.shuffle, Some(7));
        assert_eq!(parsed(&[("tfrecord.shuffle", "false")])?.shuffle, None);
        Ok(())
    }

    #[test]
    fn options_errors_suggest_corrections() {
        insta::assert_snapshot!(message(&[("tfrecord.shard", "4")]), @r##"External error: unknown option "tfrecord.shard": the options are tfrecord.shards, tfrecord.shard_size, tfrecord.shard_rows, tfrecord.hosts, tfrecord.prefix, tfrecord.record_format, tfrecord.group_size, tfrecord.compression, tfrecord.level, tfrecord.mode, tfrecord.add_columns, tfrecord.shuffle, tfrecord.seed, tfrecord.split, tfrecord.split_by, tfrecord.split_column, tfrecord.partition_by, tfrecord.keep_partition_columns, tfrecord.expected_rows, tfrecord.map, tfrecord.null, tfrecord.record_type, tfrecord.sequence, tfrecord.separator, tfrecord.vocabulary, tfrecord.strict, tfrecord.crc, tfrecord.damaged, tfrecord.infer_files, tfrecord.infer_records, tfrecord.fixed_size_lists"##);
        insta::assert_snapshot!(message(&[("tfrecord.shards", "0")]), @r#"External error: option tfrecord.shards: found "0", expected a whole number, 1 or more, or train=256,val=16"#);
        insta::assert_snapshot!(message(&[("tfrecord.level", "10")]), @r#"External error: option tfrecord.level: found "10", expected a number from 0 to 9"#);
        insta::assert_snapshot!(message(&[("tfrecord.map", "price")]), @r##"External error: option tfrecord.map: found "price", expected 'column: rule, ...', where a rule is one of wrap, bits, string, tensor, unscaled, seconds, millis, micros, index, or null=POLICY, or both"##);
        insta::assert_snapshot!(message(&[("tfrecord.mode", "merge")]), @r##"External error: option tfrecord.mode: found "merge", expected error, overwrite, overwrite-partitions, append or ignore"##);
        insta::assert_snapshot!(message(&[("tfrecord.seed", "7")]), @r##"External error: option tfrecord.seed: found "7", expected 'tfrecord.shuffle' as well"##);
        insta::assert_snapshot!(message(&[("tfrecord.shuffle", "false"), ("tfrecord.seed", "7")]), @r##"External error: option tfrecord.seed: found "7", expected 'tfrecord.shuffle' as well"##);
        insta::assert_snapshot!(message(&[("tfrecord.add_columns", "true"), ("tfrecord.mode", "overwrite")]), @r##"External error: option tfrecord.add_columns: found "true", expected 'tfrecord.mode' 'append' as well"##);
        insta::assert_snapshot!(message(&[("tfrecord.split", "a=0.5,b=200rows")]), @r##"External error: option tfrecord.split: found "a=0.5,b=200rows", expected splits such as train=800rows,val=200rows: split "a": found "0.5", expected a number of rows such as 800rows, or rest for all others"##);
        insta::assert_snapshot!(message(&[("tfrecord.split_by", "user")]), @r##"External error: option tfrecord.split_by: found "user", expected 'tfrecord.split' as well"##);
        insta::assert_snapshot!(message(&[("tfrecord.split", "a=0.5,b=0.6")]), @r##"External error: option tfrecord.split: found "a=0.5,b=0.6", expected splits such as train=0.9,val=0.1: the fractions of the splits add up to 1.1, expected 1"##);
        insta::assert_snapshot!(message(&[("tfrecord.split", "a=1"), ("tfrecord.prefix", "b")]), @"External error: options tfrecord.prefix and tfrecord.split exclude each other");
        insta::assert_snapshot!(message(&[("tfrecord.shards", "train=0")]), @r##"External error: option tfrecord.shards: found "train=0", expected a number of shards for each split, 1 or more: train=256,val=16"##);
        insta::assert_snapshot!(message(&[("tfrecord.shards", "4"), ("tfrecord.hosts", "2")]), @"External error: options tfrecord.hosts and tfrecord.shards exclude each other");
        insta::assert_snapshot!(message(&[("tfrecord.shards", "4"), ("tfrecord.shard_rows", "9")]), @"External error: options tfrecord.shard_rows and tfrecord.shards exclude each other");
    }
}
