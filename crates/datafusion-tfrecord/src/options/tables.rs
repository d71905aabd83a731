//! The TFRecord options: for writing shards, mapping columns and reading records.

use arrow_tfrecord::{MappingOptions, NullPolicy, RecordType};
use tfrecord_framing::array_record::ChunkOptions;
use tfrecord_framing::{Compression, Container, CrcPolicy, Level, RecordFormat};
use tfrecord_shards::{RowSplits, SaveMode, Sharding, check_prefix};

use super::OptionDeclaration;
use super::rules::{DEFAULT_SEED, check_shards, parse_columns, parse_rules, parse_split_shards, parse_vocabularies};
use super::values::{boolean, bytes, count, number_or_all, one_of, set, words};
use crate::read::ReadOptions;
use crate::write::{SplitOptions, WriteOptions};

type Writing = OptionDeclaration<WriteOptions>;
type Mapping = OptionDeclaration<MappingOptions>;
type Reading = OptionDeclaration<ReadOptions>;

/// Options for writing shards. `split` must be set before `split_by`.
pub static WRITING: [Writing; 19] = [
    Writing::new("shards", "N", |write, value| {
        if value.contains('=') {
            write.split_shards = parse_split_shards(value)?;
        } else {
            let shards = count(value).map_err(|expected| format!("{expected}, or train=256,val=16"))?;
            write.sharding = Sharding::Count(check_shards(shards)?);
        }
        Ok(())
    })
    .help("write exactly N [shards](writing-shards.md#number-and-size-of-shards), balanced by rows", "")
    .excludes(&["shard_size", "shard_rows", "hosts"]),
    Writing::new("shard_size", "SIZE", |write, value| {
        set(&mut write.sharding, bytes(value).map(|bytes| Sharding::Bytes(bytes.get())))
    })
    .help("close a shard at this many bytes of records", "`128MiB`")
    .excludes(&["shard_rows", "hosts"]),
    Writing::new("shard_rows", "N", |write, value| {
        set(&mut write.sharding, count(value).map(|rows| Sharding::Rows(rows.get() as u64)))
    })
    .help("close a shard at this many rows", "")
    .excludes(&["hosts"]),
    Writing::new("hosts", "N", |write, value| set(&mut write.sharding, count(value).map(Sharding::Hosts)))
        .help("cut shards for N hosts that read them: 10 a host, none under 100 MiB", ""),
    Writing::new("prefix", "PREFIX", |write, value| {
        check_prefix(value).map_err(|_| {
            "a short start of a file name without slashes and control characters, whose first character is a letter or a digit"
        })?;
        value.clone_into(&mut write.prefix);
        Ok(())
    })
    .help("start the names of shards with this: `PREFIX-00003-of-00016.tfrecord`", "`part`"),
    Writing::new("record_format", "FORMAT", |write, value| {
        set(&mut write.record_format, value.parse().map_err(|_| words(RecordFormat::ALL)))
    })
    .help("the format of shards: `tfrecord`, or [`array_record`](writing-shards.md#arrayrecord)", "`tfrecord`"),
    Writing::new("group_size", "N", |write, value| {
        let most = ChunkOptions::MAX_GROUP_SIZE;
        let size = value.trim().parse().ok().filter(|size| *size <= most);
        write.group_size = Some(size.ok_or_else(|| format!("a number from 1 to {most}"))?);
        Ok(())
    })
    .help("with `array_record`, put N records into a chunk, which is read as a whole", "1")
    .needs("record_format"),
    Writing::new("compression", "NAME", |write, value| {
        // Whether the format has it is checked after all options are parsed.
        (write.compression, write.chunk_codec) = match (value.trim().parse(), value.trim().parse()) {
            (Ok(compression), codec) => (compression, codec.unwrap_or_default()),
            (Err(_), Ok(codec)) => (Compression::None, codec),
            (Err(_), Err(_)) => return Err("none, gzip or zlib, or zstd with array_record".to_owned()),
        };
        Ok(())
    })
    .help("compress shards: `none`, `gzip`, `zlib`; ArrayRecord: `zstd`", "`none`"),
    Writing::new("level", "LEVEL", |write, value| {
        let level = value.trim().parse::<u32>().ok().and_then(|level| Level::try_from(level).ok());
        write.level = level.ok_or("a number from 0 to 9")?;
        Ok(())
    })
    .help("the compression level, from 0 (fast) to 9 (small)", "6"),
    Writing::new("mode", "MODE", |write, value| {
        use SaveMode::{Append, Error, Ignore, Overwrite, OverwritePartitions};
        let modes = [
            ("error", Error),
            ("overwrite", Overwrite),
            ("overwrite-partitions", OverwritePartitions),
            ("append", Append),
            ("ignore", Ignore),
        ];
        // Spark has two names for it.
        let is_spark = value.trim().eq_ignore_ascii_case("errorifexists");
        set(&mut write.mode, one_of(if is_spark { "error" } else { value }, &modes))
    })
    .help(
        "if [output exists](writing-shards.md#an-output-that-already-exists): `error`, \
                 `overwrite`, `append`, `ignore`, …",
        "`error`",
    ),
    Writing::new("add_columns", "", |write, value| set(&mut write.add_columns, boolean(value)))
        .help(
            "with `append` or `overwrite-partitions`, add [new columns](writing-shards.md#an-output-that-already-exists), which are null in the \
             existing rows",
            "",
        )
        .needs("mode"),
    Writing::new("shuffle", "", |write, value| {
        // The seed may already be set.
        write.shuffle = boolean(value)?.then(|| write.shuffle.unwrap_or(DEFAULT_SEED));
        Ok(())
    })
    .help("write all rows in a [uniform random order](shuffle-and-splits.md#shuffle)", ""),
    Writing::new("seed", "S", |write, value| {
        set(&mut write.shuffle, value.trim().parse().map_err(|_| "a number from 0 to 2^64 - 1".to_owned()).map(Some))
    })
    .help("the seed of the shuffle: equal seeds give equal orders", "0")
    .needs("shuffle"),
    Writing::new("split", "NAME=F,…", |write, value| {
        write.splits = Some(if RowSplits::are_meant(value) {
            let expected = |error| format!("splits such as train=800rows,val=200rows: {error}");
            SplitOptions::Rows(value.parse().map_err(expected)?)
        } else {
            let expected = |error| format!("splits such as train=0.9,val=0.1: {error}");
            SplitOptions::Hash { splits: value.parse().map_err(expected)?, by: Vec::new() }
        });
        Ok(())
    })
    .help(
        "divide the rows into [splits](shuffle-and-splits.md#split-by-a-key): `train=0.9,val=0.1`, or `train=800rows,…`",
        "",
    )
    .excludes(&["prefix"]),
    Writing::new("split_by", "COL,…", |write, value| {
        let columns = parse_columns(value)?;
        match &mut write.splits {
            Some(SplitOptions::Hash { by, .. }) => *by = columns,
            Some(_) => return Err("fractions of keys in 'split', for exact numbers of rows divide keys".to_owned()),
            None => {}
        }
        Ok(())
    })
    .help("split by the key of these columns", "the whole record")
    .needs("split"),
    Writing::new("split_column", "COL", |write, value| match parse_columns(value)?.as_slice() {
        [column] => {
            write.splits = Some(SplitOptions::Column(column.clone()));
            Ok(())
        }
        _ => Err("one column".to_owned()),
    })
    .help("divide the rows into the [splits that this column names](shuffle-and-splits.md#splits-in-a-column)", "")
    .excludes(&["split", "split_by", "prefix"]),
    Writing::new("partition_by", "COL,…", |write, value| set(&mut write.partition_by, parse_columns(value))).help(
        "write a [directory](shuffle-and-splits.md#partition-directories) for each value of \
                 these columns: `dt=2026-01-01/`",
        "",
    ),
    // Also valid with PARTITIONED BY, so no other option is required.
    Writing::new("keep_partition_columns", "", |write, value| set(&mut write.keep_partition_columns, boolean(value)))
        .help("keep the columns of partition directories in the records, too", ""),
    Writing::new("expected_rows", "N", |write, value| {
        set(&mut write.expected_rows, value.trim().parse().map_err(|_| "a number of rows".to_owned()).map(Some))
    })
    .help("the number of rows, if it is known: a sorted query with a number of shards needs it", ""),
];

/// Options for mapping columns to records. They apply to the writer, and to a reader of records without a manifest.
pub static MAPPING: [Mapping; 6] = [
    Mapping::new("map", "COL: RULE", |mapping, value| {
        for (column, rule) in parse_rules(value)? {
            *mapping = std::mem::take(mapping).with_rule(column, rule);
        }
        Ok(())
    })
    .help("[how a column is written](mapping.md#choose-another-conversion)", "")
    .repeats(),
    Mapping::new("null", "POLICY", |mapping, value| {
        set(&mut mapping.nulls, value.trim().parse().map_err(|_| words(NullPolicy::ALL)))
    })
    .help("[null values](mapping.md#nulls): `absent`, `unset`, `empty`, `error`, `mask` or `drop`", "`absent`"),
    Mapping::new("record_type", "TYPE", |mapping, value| {
        set(&mut mapping.record_type, value.trim().parse().map_err(|_| words(RecordType::ALL)))
    })
    .help("[what a record is](mapping.md#record-types): `example`, `sequence-example`, `elwc` or `bytes`", "`example`"),
    Mapping::new("sequence", "COL,…", |mapping, value| {
        mapping.sequences.extend(parse_columns(value)?);
        Ok(())
    })
    .help("more lists whose elements are steps of a sequence example, or the list of examples of `elwc`", "")
    .repeats(),
    Mapping::new("separator", "TEXT", |mapping, value| match value {
        "" => Err("a character or more".to_owned()),
        _ => {
            value.clone_into(&mut mapping.separator);
            Ok(())
        }
    })
    .help("text between the name of a column and of its part", "`/`"),
    Mapping::new("vocabulary", "COL: VALUE,…", |mapping, value| {
        for (column, values) in parse_vocabularies(value)? {
            *mapping = std::mem::take(mapping).with_vocabulary(column, values);
        }
        Ok(())
    })
    .help("the values of a column that is written as ranks, in their order: `label: cat, dog`", "")
    .repeats(),
];

/// The mapping option that only a writer has.
pub static STRICT: Mapping = Mapping::new("strict", "", |mapping, value| set(&mut mapping.strict, boolean(value)))
    .help(
        "refuse columns that would lose information, and [other doubtful \
                 input](messages.md#warnings)",
        "",
    );

/// Options for reading records.
pub static READING: [Reading; 6] = [
    Reading::new("compression", "NAME", |read, value| {
        read.container = match value.trim() {
            auto if auto.eq_ignore_ascii_case("auto") => None,
            name => match name.parse() {
                Ok(compression) if !name.is_empty() => Some(Container::TfRecord(compression)),
                _ => return Err("auto, none, gzip or zlib".to_owned()),
            },
        };
        Ok(())
    })
    .help("`auto`, `none`, `gzip` or `zlib`", "`auto`"),
    Reading::new("crc", "CHECK", |read, value| {
        set(&mut read.crc, one_of(value, &[("verify", CrcPolicy::Verify), ("skip", CrcPolicy::Skip)]))
    })
    .help("`verify`, or `skip` checksums", "`verify`"),
    Reading::new("damaged", "ACTION", |read, value| {
        set(&mut read.skips_damaged, one_of(value, &[("error", false), ("skip", true)]))
    })
    .help(
        "`error`, or `skip` [damaged records](reading-tfrecord.md#damaged-files), which are counted and reported",
        "`error`",
    ),
    Reading::new("infer_files", "N", |read, value| set(&mut read.infer_files, number_or_all(value, 1))).help(
        "number of TFRecord files, or `all`, [that determine the \
                 columns](reading-tfrecord.md#where-the-columns-come-from) of shards without a schema",
        "256",
    ),
    Reading::new("infer_records", "N", |read, value| set(&mut read.infer_records, number_or_all(value, 1)))
        .help("number of records of each of these files, or `all`", "1000"),
    Reading::new("fixed_size_lists", "", |read, value| set(&mut read.fixed_size_lists, boolean(value)))
        .help("make a feature that always has the same number of values a list of that size", "`false`"),
];
