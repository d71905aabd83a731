//! The options of `STORED AS TFRECORD OPTIONS (...)`.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;

use datafusion_common::Result;
use tfrecord_framing::Level;
use tfrecord_shards::{SaveMode, Sharding, Splits};

use super::rules::{DEFAULT_SEED, parse_columns, parse_split_shards, set_mapping_option};
use crate::error::ErrorKind;
use crate::read::ReadOptions;
use crate::write::{SplitOptions, WriteOptions};

/// What our options start with. The engine puts the second in front of options that are written without a point.
const PREFIXES: [&str; 2] = ["tfrecord.", "format."];

/// Every option, without prefix.
const NAMES: [&str; 26] = [
    "shards",
    "shard_size",
    "shard_rows",
    "hosts",
    "shuffle",
    "seed",
    "split",
    "split_by",
    "partition_by",
    "keep_partition_columns",
    "prefix",
    "compression",
    "level",
    "mode",
    "null",
    "map",
    "record_type",
    "sequence",
    "separator",
    "vocabulary",
    "strict",
    "expected_rows",
    "crc",
    "infer_files",
    "infer_records",
    "fixed_size_lists",
];

/// How to write, all but the target, and how to read. Which of the two is to be done is not known yet.
pub(super) fn parse(options: &HashMap<String, String>) -> Result<(WriteOptions, ReadOptions)> {
    let mut write = WriteOptions::new(PathBuf::new());
    let mut read = ReadOptions::default();
    let mut sharding: Option<&str> = None;
    let mut arrangement = Arrangement::default();
    // In one order, whatever the map's, so that the same mistake is found first every time.
    for (option, value) in options.iter().collect::<BTreeMap<_, _>>() {
        let name = PREFIXES.iter().find_map(|prefix| option.strip_prefix(prefix)).unwrap_or(option);
        let option = Named { option, value };
        match name {
            "shards" if value.contains('=') => {
                write.split_shards = parse_split_shards(value).map_err(|expected| option.invalid(expected))?;
            }
            "shards" => write.sharding = Sharding::Count(option.parse::<NonZeroUsize>("a positive number")?),
            "shard_size" => write.sharding = Sharding::Bytes(option.bytes()?),
            "shard_rows" => write.sharding = Sharding::Rows(option.positive()?),
            "hosts" => write.sharding = Sharding::Hosts(option.parse::<NonZeroUsize>("a positive number")?),
            "shuffle" => arrangement.shuffle = Some(option.parse("true or false")?),
            "seed" => arrangement.seed = Some((option, option.parse("a number from 0 to 2^64 - 1")?)),
            "split" => {
                let splits = value.parse::<Splits>();
                arrangement.splits =
                    Some(splits.map_err(|error| option.invalid(format!("splits such as train=0.9,val=0.1: {error}")))?);
            }
            "split_by" => arrangement.split_by = Some((option, option.columns()?)),
            "partition_by" => write.partition_by = option.columns()?,
            // The engine's own word, which it has read by itself.
            "execution.keep_partition_by_columns" => {}
            "keep_partition_columns" => write.keep_partition_columns = option.parse("true or false")?,
            "prefix" => {
                write.prefix.clone_from(value);
                arrangement.prefix = Some(option);
            }
            "compression" if value == "auto" => read.compression = None,
            "compression" => {
                write.compression = option.parse("none, gzip or zlib")?;
                read.compression = Some(write.compression);
            }
            "level" => {
                let level = Level::try_from(option.parse::<u32>("a number from 0 to 9")?);
                write.level = level.map_err(|_| option.invalid("a number from 0 to 9"))?;
            }
            "mode" => write.mode = option.mode()?,
            _ if set_mapping_option(&mut write.mapping, name, value)
                .map_err(|expected| option.invalid(expected))? =>
            {
                set_mapping_option(read.mapping.get_or_insert_default(), name, value)
                    .map_err(|expected| option.invalid(expected))?;
            }
            "strict" => write.mapping.strict = option.parse("true or false")?,
            "expected_rows" => write.expected_rows = Some(option.parse("a number of rows")?),
            "crc" => read.crc = option.parse("verify or skip")?,
            "infer_files" => read.infer_files = option.number_or_all("a number of files, or all")?,
            "infer_records" => read.infer_records = option.number_or_all("a number of records, or all")?,
            "fixed_size_lists" => read.fixed_size_lists = option.parse("true or false")?,
            _ => {
                let known = NAMES.map(|name| format!("tfrecord.{name}")).to_vec();
                return Err(ErrorKind::UnknownOption { option: option.option.to_owned(), known }.into());
            }
        }
        if matches!(name, "shards" | "shard_size" | "shard_rows" | "hosts")
            && let Some(first) = sharding.replace(option.option)
        {
            let (first, second) = (first.to_owned(), option.option.to_owned());
            return Err(ErrorKind::ConflictingOptions { first, second }.into());
        }
    }
    arrangement.settle(&mut write)?;
    Ok((write, read))
}

/// Options of which one needs another, or excludes it.
#[derive(Default)]
struct Arrangement<'a> {
    shuffle: Option<bool>,
    seed: Option<(Named<'a>, u64)>,
    splits: Option<Splits>,
    split_by: Option<(Named<'a>, Vec<String>)>,
    prefix: Option<Named<'a>>,
}

impl Arrangement<'_> {
    fn settle(self, write: &mut WriteOptions) -> Result<()> {
        match (self.shuffle, self.seed) {
            (Some(true), seed) => write.shuffle = Some(seed.map_or(DEFAULT_SEED, |(_, seed)| seed)),
            (_, Some((option, _))) => return Err(option.needs("shuffle").into()),
            _ => {}
        }
        match (self.splits, self.split_by) {
            (Some(_), _) if self.prefix.is_some() => {
                let (first, second) = ("tfrecord.prefix".to_owned(), "tfrecord.split".to_owned());
                return Err(ErrorKind::ConflictingOptions { first, second }.into());
            }
            (Some(splits), by) => {
                write.splits = Some(SplitOptions { splits, by: by.map_or_else(Vec::new, |(_, by)| by) });
            }
            (None, Some((option, _))) => return Err(option.needs("split").into()),
            (None, None) => {}
        }
        Ok(())
    }
}

/// An option as it was written.
#[derive(Clone, Copy)]
struct Named<'a> {
    option: &'a str,
    value: &'a str,
}

impl Named<'_> {
    fn invalid(self, expected: impl Display) -> ErrorKind {
        let Self { option, value } = self;
        ErrorKind::InvalidOption { option: option.to_owned(), found: value.to_owned(), expected: expected.to_string() }
    }

    /// It says nothing without another.
    fn needs(self, other: &str) -> ErrorKind {
        self.invalid(format!("'tfrecord.{other}' beside it"))
    }

    fn columns(self) -> Result<Vec<String>> {
        parse_columns(self.value).map_err(|expected| self.invalid(expected).into())
    }

    fn parse<T: FromStr>(self, expected: &str) -> Result<T> {
        self.value.trim().parse().map_err(|_| self.invalid(expected).into())
    }

    /// `None` is all.
    fn number_or_all(self, expected: &str) -> Result<Option<usize>> {
        if self.value.trim() == "all" { Ok(None) } else { self.parse(expected).map(Some) }
    }

    fn positive(self) -> Result<u64> {
        match self.parse("a positive number")? {
            0 => Err(self.invalid("a positive number").into()),
            number => Ok(number),
        }
    }

    /// A number of bytes, with or without a unit: `64MiB`, `64 MB`, `67108864`.
    fn bytes(self) -> Result<u64> {
        const UNITS: [(&str, u64); 10] = [
            ("", 1),
            ("b", 1),
            ("k", 1 << 10),
            ("kib", 1 << 10),
            ("m", 1 << 20),
            ("mib", 1 << 20),
            ("g", 1 << 30),
            ("gib", 1 << 30),
            ("kb", 1_000),
            ("mb", 1_000_000),
        ];
        const EXPECTED: &str = "a positive number of bytes, such as 64MiB";
        let value = self.value.trim();
        let (number, unit) = value.split_at(value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len()));
        let unit = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit.trim())).map(|(_, bytes)| *bytes);
        let bytes = number.parse::<u64>().ok().zip(unit).and_then(|(number, unit)| number.checked_mul(unit));
        bytes.filter(|bytes| *bytes > 0).ok_or_else(|| self.invalid(EXPECTED).into())
    }

    fn mode(self) -> Result<SaveMode> {
        match self.value.trim() {
            "error" => Ok(SaveMode::Error),
            "overwrite" => Ok(SaveMode::Overwrite),
            "append" => Ok(SaveMode::Append),
            "ignore" => Ok(SaveMode::Ignore),
            _ => Err(self.invalid("error, overwrite, append or ignore").into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tfrecord_framing::Compression;

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
    fn sizes_take_units() -> Result<()> {
        for (text, bytes) in [("64MiB", 64 << 20), ("2 g", 2 << 30), ("1000", 1000), ("5MB", 5_000_000)] {
            assert_eq!(parsed(&[("tfrecord.shard_size", text)])?.sharding, Sharding::Bytes(bytes), "{text}");
        }
        for text in ["0", "", "-1", "1.5g", "99999999999999g", "5 parsecs"] {
            assert!(parsed(&[("tfrecord.shard_size", text)]).is_err(), "{text}");
        }
        Ok(())
    }

    #[test]
    fn rows_are_arranged() -> Result<()> {
        let options = parsed(&[
            ("tfrecord.shuffle", "true"),
            ("tfrecord.split", "train=0.9, val=0.1"),
            ("tfrecord.split_by", "user, day"),
            ("tfrecord.shards", "train=9, val=1"),
            ("tfrecord.partition_by", "day"),
            ("tfrecord.mode", "append"),
        ])?;
        assert_eq!((options.shuffle, options.mode), (Some(DEFAULT_SEED), SaveMode::Append));
        let splits = options.splits.map(|split| (split.splits.to_string(), split.by));
        assert_eq!(splits, Some(("train=0.9,val=0.1".to_owned(), vec!["user".to_owned(), "day".to_owned()])));
        let shards: Vec<_> = options.split_shards.values().map(|shards| shards.get()).collect();
        assert_eq!((shards, options.partition_by), (vec![9, 1], vec!["day".to_owned()]));
        assert_eq!(parsed(&[("tfrecord.shuffle", "true"), ("tfrecord.seed", "7")])?.shuffle, Some(7));
        assert_eq!(parsed(&[("tfrecord.shuffle", "false")])?.shuffle, None);
        Ok(())
    }

    #[test]
    fn mistakes_tell_what_would_be_right() {
        insta::assert_snapshot!(message(&[("tfrecord.shard", "4")]), @r##"External error: unknown option "tfrecord.shard": the options are tfrecord.shards, tfrecord.shard_size, tfrecord.shard_rows, tfrecord.hosts, tfrecord.shuffle, tfrecord.seed, tfrecord.split, tfrecord.split_by, tfrecord.partition_by, tfrecord.keep_partition_columns, tfrecord.prefix, tfrecord.compression, tfrecord.level, tfrecord.mode, tfrecord.null, tfrecord.map, tfrecord.record_type, tfrecord.sequence, tfrecord.separator, tfrecord.vocabulary, tfrecord.strict, tfrecord.expected_rows, tfrecord.crc, tfrecord.infer_files, tfrecord.infer_records, tfrecord.fixed_size_lists"##);
        insta::assert_snapshot!(message(&[("tfrecord.shards", "0")]), @r#"External error: option tfrecord.shards: found "0", expected a positive number"#);
        insta::assert_snapshot!(message(&[("tfrecord.level", "10")]), @r#"External error: option tfrecord.level: found "10", expected a number from 0 to 9"#);
        insta::assert_snapshot!(message(&[("tfrecord.map", "price")]), @r##"External error: option tfrecord.map: found "price", expected 'column: rule, ...', where a rule is one of wrap, bits, string, tensor, unscaled, seconds, millis, micros, index, or null=POLICY, or both"##);
        insta::assert_snapshot!(message(&[("tfrecord.mode", "merge")]), @r##"External error: option tfrecord.mode: found "merge", expected error, overwrite, append or ignore"##);
        insta::assert_snapshot!(message(&[("tfrecord.seed", "7")]), @r##"External error: option tfrecord.seed: found "7", expected 'tfrecord.shuffle' beside it"##);
        insta::assert_snapshot!(message(&[("tfrecord.shuffle", "false"), ("tfrecord.seed", "7")]), @r##"External error: option tfrecord.seed: found "7", expected 'tfrecord.shuffle' beside it"##);
        insta::assert_snapshot!(message(&[("tfrecord.split_by", "user")]), @r##"External error: option tfrecord.split_by: found "user", expected 'tfrecord.split' beside it"##);
        insta::assert_snapshot!(message(&[("tfrecord.split", "a=0.5,b=0.6")]), @r##"External error: option tfrecord.split: found "a=0.5,b=0.6", expected splits such as train=0.9,val=0.1: the fractions of the splits add up to 1.1, expected 1"##);
        insta::assert_snapshot!(message(&[("tfrecord.split", "a=1"), ("tfrecord.prefix", "b")]), @"External error: options tfrecord.prefix and tfrecord.split exclude each other");
        insta::assert_snapshot!(message(&[("tfrecord.shards", "train=0")]), @r##"External error: option tfrecord.shards: found "train=0", expected a number of shards for each split, 1 or more: train=256,val=16"##);
        insta::assert_snapshot!(message(&[("tfrecord.shards", "4"), ("tfrecord.hosts", "2")]), @"External error: options tfrecord.hosts and tfrecord.shards exclude each other");
        insta::assert_snapshot!(message(&[("tfrecord.shards", "4"), ("tfrecord.shard_rows", "9")]), @"External error: options tfrecord.shard_rows and tfrecord.shards exclude each other");
    }
}
