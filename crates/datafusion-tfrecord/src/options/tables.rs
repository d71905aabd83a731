//! The options of TFRecord: how shards are written, what columns become, and how records are read.

use arrow_tfrecord::{MappingOptions, NullPolicy, RecordType};
use tfrecord_framing::{Compression, CrcPolicy, Level};
use tfrecord_shards::{SaveMode, Sharding, Splits, check_prefix};

use super::OptionDeclaration;
use super::rules::{DEFAULT_SEED, parse_columns, parse_rules, parse_split_shards, parse_vocabularies};
use super::values::{boolean, bytes, count, number_or_all, one_of, words};
use crate::read::ReadOptions;
use crate::write::{SplitOptions, WriteOptions};

type Writing = OptionDeclaration<WriteOptions>;
type Mapping = OptionDeclaration<MappingOptions>;
type Reading = OptionDeclaration<ReadOptions>;

/// How shards are written. `split` has to be set before `split_by`.
pub static WRITING: [Writing; 15] = [
    Writing::new(
        "shards",
        "N",
        "write exactly N [shards](writing-shards.md#number-and-size-of-shards), balanced by rows",
        |write, value| {
            if value.contains('=') {
                write.split_shards = parse_split_shards(value)?;
            } else {
                let shards = count(value).map_err(|expected| format!("{expected}, or train=256,val=16"))?;
                write.sharding = Sharding::Count(shards);
            }
            Ok(())
        },
    )
    .excludes(&["shard_size", "shard_rows", "hosts"]),
    Writing::new("shard_size", "SIZE", "close a shard at this many bytes of records", |write, value| {
        write.sharding = Sharding::Bytes(bytes(value)?.get());
        Ok(())
    })
    .default("`128MiB`")
    .excludes(&["shard_rows", "hosts"]),
    Writing::new("shard_rows", "N", "close a shard at this many rows", |write, value| {
        write.sharding = Sharding::Rows(count(value)?.get() as u64);
        Ok(())
    })
    .excludes(&["hosts"]),
    Writing::new(
        "hosts",
        "N",
        "cut shards for N hosts that read them: 10 a host, none under 100 MiB",
        |write, value| {
            write.sharding = Sharding::Hosts(count(value)?);
            Ok(())
        },
    ),
    Writing::new(
        "prefix",
        "PREFIX",
        "start the names of shards with this: `PREFIX-00003-of-00016.tfrecord`",
        |write, value| {
            check_prefix(value).map_err(|error| match error.hint() {
                Some(hint) => format!("a part of a file name: {error}; {hint}"),
                None => format!("a part of a file name: {error}"),
            })?;
            value.clone_into(&mut write.prefix);
            Ok(())
        },
    )
    .default("`part`"),
    Writing::new("compression", "NAME", "compress shards: `none`, `gzip` or `zlib`", |write, value| {
        write.compression = value.trim().parse().map_err(|_| "none, gzip or zlib".to_owned())?;
        Ok(())
    })
    .default("`none`"),
    Writing::new("level", "LEVEL", "compress this hard, 0 to 9", |write, value| {
        let level = value.trim().parse::<u32>().ok().and_then(|level| Level::try_from(level).ok());
        write.level = level.ok_or("a number from 0 to 9")?;
        Ok(())
    })
    .default("6"),
    Writing::new(
        "mode",
        "MODE",
        "if [output exists](writing-shards.md#an-output-that-already-exists): `error`, `overwrite`, `append` or `ignore`",
        |write, value| {
            write.mode = one_of(
                value,
                &[
                    ("error", SaveMode::Error),
                    ("overwrite", SaveMode::Overwrite),
                    ("append", SaveMode::Append),
                    ("ignore", SaveMode::Ignore),
                ],
            )?;
            Ok(())
        },
    )
    .default("`error`"),
    Writing::new(
        "shuffle",
        "",
        "write all rows in a [uniform random order](shuffle-and-splits.md#shuffle)",
        |write, value| {
            // The seed may have been set before.
            write.shuffle = boolean(value)?.then(|| write.shuffle.unwrap_or(DEFAULT_SEED));
            Ok(())
        },
    ),
    Writing::new("seed", "S", "shuffle in the order of this number", |write, value| {
        write.shuffle = Some(value.trim().parse().map_err(|_| "a number from 0 to 2^64 - 1".to_owned())?);
        Ok(())
    })
    .default("0")
    .needs("shuffle"),
    Writing::new(
        "split",
        "NAME=F,…",
        "divide the rows into [splits](shuffle-and-splits.md#split-by-a-key): `train=0.9,val=0.1`",
        |write, value| {
            let splits = value.parse::<Splits>();
            let splits = splits.map_err(|error| format!("splits such as train=0.9,val=0.1: {error}"))?;
            write.splits = Some(SplitOptions { splits, by: Vec::new() });
            Ok(())
        },
    )
    .excludes(&["prefix"]),
    Writing::new(
        "split_by",
        "COL,…",
        "split by the key of these columns",
        |write, value| {
            let by = parse_columns(value)?;
            if let Some(splits) = &mut write.splits {
                splits.by = by;
            }
            Ok(())
        },
    )
    .default("the whole record")
    .needs("split"),
    Writing::new(
        "partition_by",
        "COL,…",
        "write a [directory](shuffle-and-splits.md#partition-directories) for each value of these columns: \
         `dt=2026-01-01/`",
        |write, value| {
            write.partition_by = parse_columns(value)?;
            Ok(())
        },
    ),
    // It may also stand with PARTITIONED BY, so that it needs no other option.
    Writing::new(
        "keep_partition_columns",
        "",
        "keep the columns of partition directories in the records, too",
        |write, value| {
            write.keep_partition_columns = boolean(value)?;
            Ok(())
        },
    ),
    Writing::new(
        "expected_rows",
        "N",
        "the number of rows, if it is known: a sorted query with a number of shards needs it",
        |write, value| {
            write.expected_rows = Some(value.trim().parse().map_err(|_| "a number of rows".to_owned())?);
            Ok(())
        },
    ),
];

/// What columns become in records, both for the writer and for a reader of records that no manifest describes.
pub static MAPPING: [Mapping; 6] =
    [
        Mapping::new(
            "map",
            "COL: RULE",
            "[how a column is written](mapping.md#choose-another-conversion)",
            |mapping, value| {
                for (column, rule) in parse_rules(value)? {
                    *mapping = std::mem::take(mapping).with_rule(column, rule);
                }
                Ok(())
            },
        )
        .repeats(),
        Mapping::new(
            "null",
            "POLICY",
            "[null values](mapping.md#nulls): `absent`, `unset`, `empty`, `error`, `mask` or `drop`",
            |mapping, value| {
                mapping.nulls = value.trim().parse().map_err(|_| words(NullPolicy::ALL))?;
                Ok(())
            },
        )
        .default("`absent`"),
        Mapping::new(
            "record_type",
            "TYPE",
            "[what a record is](mapping.md#record-types): `example`, `sequence-example` or `bytes`",
            |mapping, value| {
                mapping.record_type = value.trim().parse().map_err(|_| words(RecordType::ALL))?;
                Ok(())
            },
        )
        .default("`example`"),
        Mapping::new(
            "sequence",
            "COL,…",
            "more lists whose elements are steps of a sequence example",
            |mapping, value| {
                mapping.sequences.extend(parse_columns(value)?);
                Ok(())
            },
        )
        .repeats(),
        Mapping::new("separator", "TEXT", "text between the name of a column and of its part", |mapping, value| {
            match value {
                "" => Err("a character or more".to_owned()),
                _ => {
                    value.clone_into(&mut mapping.separator);
                    Ok(())
                }
            }
        })
        .default("`/`"),
        Mapping::new(
            "vocabulary",
            "COL: VALUE,…",
            "the values of a column that is written as ranks, in their order: `label: cat, dog`",
            |mapping, value| {
                for (column, values) in parse_vocabularies(value)? {
                    *mapping = std::mem::take(mapping).with_vocabulary(column, values);
                }
                Ok(())
            },
        )
        .repeats(),
    ];

/// The option of the mapping that only a writer has.
pub static STRICT: Mapping = Mapping::new(
    "strict",
    "",
    "refuse columns that would lose information, and [other doubtful input](messages.md#warnings)",
    |mapping, value| {
        mapping.strict = boolean(value)?;
        Ok(())
    },
);

/// How records are read.
pub static READING: [Reading; 5] = [
    Reading::new("compression", "NAME", "`auto`, `none`, `gzip` or `zlib`", |read, value| {
        let [none, gzip, zlib] = [Compression::None, Compression::Gzip, Compression::Zlib].map(Some);
        read.compression = match value {
            // The engine's word for it.
            "uncompressed" => none,
            _ => one_of(value, &[("auto", None), ("none", none), ("gzip", gzip), ("zlib", zlib)])?,
        };
        Ok(())
    })
    .default("`auto`"),
    Reading::new("crc", "CHECK", "`verify`, or `skip` checksums", |read, value| {
        read.crc = one_of(value, &[("verify", CrcPolicy::Verify), ("skip", CrcPolicy::Skip)])?;
        Ok(())
    })
    .default("`verify`"),
    Reading::new(
        "infer_files",
        "N",
        "number of TFRecord files, or `all`, [that determine the columns](reading-tfrecord.md#where-the-columns-come-from) of \
         shards without a schema",
        |read, value| {
            read.infer_files = number_or_all(value, 1)?;
            Ok(())
        },
    )
    .default("256"),
    Reading::new(
        "infer_records",
        "N",
        "number of records of each of these files, or `all`",
        |read, value| {
            read.infer_records = number_or_all(value, 1)?;
            Ok(())
        },
    )
    .default("1000"),
    Reading::new(
        "fixed_size_lists",
        "",
        "make a feature that always has the same number of values a list of that size",
        |read, value| {
            read.fixed_size_lists = boolean(value)?;
            Ok(())
        },
    )
    .default("`false`"),
];
