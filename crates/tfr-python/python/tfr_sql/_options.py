"""The options of the command by their Python names.

Made from the declarations of the command: `UPDATE_PAGES=1 tests/run -E 'test(python_options::)'` writes this file.
"""

from __future__ import annotations

import os
from typing import Mapping, Sequence, TypedDict, Union

Value = Union[str, int, float, "os.PathLike[str]"]

#: A list is joined with commas, a dictionary is written as `key=value,...`. Options that may be repeated are.
Values = Union[Value, Sequence[Value], Mapping[str, Value]]

QUERY: dict[str, str] = {
    "allow": "repeat",
    "hive_metastore": "value",
    "infer_files": "value",
    "infer_records": "value",
    "memory_limit": "value",
    "s3_endpoint": "value",
    "temp_dir": "value",
    "threads": "value",
    "timeout": "value",
}


class QueryOptions(TypedDict, total=False):
    #: Open only this path or URL, and what is below it; repeatable
    allow: Values | None
    #: Read tables named hive.DATABASE.TABLE as this metastore records them: thrift://host:9083
    hive_metastore: Values | None
    #: Number of TFRecord files, or all, that determine the columns of shards without a schema [default: 256]
    infer_files: Values | None
    #: Number of records of each of these files, or all [default: 1000]
    infer_records: Values | None
    #: Limit the memory of the query before it spills [default: 60% of memory]
    memory_limit: Values | None
    #: Use this S3 server instead of AWS: a URL such as http://host:9000
    s3_endpoint: Values | None
    #: Spill into this existing directory [default: the system's]
    temp_dir: Values | None
    #: Use this many threads [default: all cores]
    threads: Values | None
    #: Stop after this time, such as 90s, 30m or 12h, as after SIGTERM; the exit code is then 124
    timeout: Values | None

WRITING: dict[str, str] = {
    "add_columns": "flag",
    "allow": "repeat",
    "compression": "value",
    "emit": "repeat",
    "group_size": "value",
    "hive_metastore": "value",
    "hosts": "value",
    "infer_files": "value",
    "infer_records": "value",
    "keep_partition_columns": "flag",
    "layout": "value",
    "level": "value",
    "map": "repeat",
    "map_file": "value",
    "max_rejects": "value",
    "memory_limit": "value",
    "mode": "value",
    "null": "value",
    "partition_by": "value",
    "partitions": "value",
    "prefix": "value",
    "record_format": "value",
    "record_type": "value",
    "rejects": "value",
    "s3_endpoint": "value",
    "seed": "value",
    "separator": "value",
    "sequence": "repeat",
    "shard_rows": "value",
    "shard_size": "value",
    "shards": "value",
    "shuffle": "flag",
    "split": "value",
    "split_by": "value",
    "split_column": "value",
    "strict": "flag",
    "temp_dir": "value",
    "threads": "value",
    "timeout": "value",
}


class WriteOptions(TypedDict, total=False):
    #: With append or overwrite-partitions, add new columns, which are null in the existing rows
    add_columns: bool | None
    #: Open only this path or URL, and what is below it; repeatable
    allow: Values | None
    #: Compress shards: none, gzip, zlib; ArrayRecord: zstd [default: none]
    compression: Values | None
    #: Also write sidecar files: tfds, tfmd, parse-fn, stats, index
    emit: Values | None
    #: With array_record, put N records into a chunk, which is read as a whole [default: 1]
    group_size: Values | None
    #: Read tables named hive.DATABASE.TABLE as this metastore records them: thrift://host:9083
    hive_metastore: Values | None
    #: Cut shards for N hosts that read them: 10 a host, none under 100 MiB
    hosts: Values | None
    #: Number of TFRecord files, or all, that determine the columns of shards without a schema [default: 256]
    infer_files: Values | None
    #: Number of records of each of these files, or all [default: 1000]
    infer_records: Values | None
    #: Keep the columns of partition directories in the records, too
    keep_partition_columns: bool | None
    #: Write shards (default), or a snapshot for tf.data.Dataset.load
    layout: Values | None
    #: The compression level, from 0 (fast) to 9 (small) [default: 6]
    level: Values | None
    #: Choose how a column is written, e.g. 'price: string'; repeatable
    map: Values | None
    #: Read these options from a TOML file
    map_file: Values | None
    #: Fail if more than this many rows do not fit [default: 0]
    max_rejects: Values | None
    #: Limit the memory of the query before it spills [default: 60% of memory]
    memory_limit: Values | None
    #: If output exists: error, overwrite, append, ignore, … [default: error]
    mode: Values | None
    #: Null values: absent, unset, empty, error, mask or drop [default: absent]
    null: Values | None
    #: Write a directory for each value of these columns: dt=2026-01-01/
    partition_by: Values | None
    #: Divide the query into this many partitions [default: the number of threads]
    partitions: Values | None
    #: Start the names of shards with this: PREFIX-00003-of-00016.tfrecord [default: part]
    prefix: Values | None
    #: The format of shards: tfrecord, or array_record [default: tfrecord]
    record_format: Values | None
    #: What a record is: example, sequence-example, elwc or bytes [default: example]
    record_type: Values | None
    #: Write rows that do not fit to this directory, as a Parquet table
    rejects: Values | None
    #: Use this S3 server instead of AWS: a URL such as http://host:9000
    s3_endpoint: Values | None
    #: The seed of the shuffle: equal seeds give equal orders [default: 0]
    seed: Values | None
    #: Text between the name of a column and of its part [default: /]
    separator: Values | None
    #: More lists whose elements are steps of a sequence example, or the list of examples of elwc
    sequence: Values | None
    #: Close a shard at this many rows
    shard_rows: Values | None
    #: Close a shard at this many bytes of records [default: 128MiB]
    shard_size: Values | None
    #: Write exactly N shards, balanced by rows
    shards: Values | None
    #: Write all rows in a uniform random order
    shuffle: bool | int | None
    #: Divide the rows into splits: train=0.9,val=0.1, or train=800rows,…
    split: Values | None
    #: Split by the key of these columns [default: the whole record]
    split_by: Values | None
    #: Divide the rows into the splits that this column names
    split_column: Values | None
    #: Refuse columns that would lose information, and other doubtful input
    strict: bool | None
    #: Spill into this existing directory [default: the system's]
    temp_dir: Values | None
    #: Use this many threads [default: all cores]
    threads: Values | None
    #: Stop after this time, such as 90s, 30m or 12h, as after SIGTERM; the exit code is then 124
    timeout: Values | None

READING: dict[str, str] = {
    "bare_files": "value",
    "compression": "value",
    "crc": "value",
    "damaged": "value",
    "fixed_size_lists": "value",
    "infer_files": "value",
    "infer_records": "value",
    "map": "repeat",
    "null": "value",
    "partitions": "value",
    "record_type": "value",
    "schema": "value",
    "separator": "value",
    "sequence": "repeat",
    "split": "value",
    "types": "value",
    "vocabulary": "repeat",
}


class ReadOptions(TypedDict, total=False):
    #: Open only this path or URL, and what is below it; repeatable
    allow: Values | None
    #: true reads the files of a table format as they are, deleted rows too, with a warning
    bare_files: Values | None
    #: auto, none, gzip or zlib
    compression: Values | None
    #: verify, or skip checksums
    crc: Values | None
    #: error, or skip damaged records, which are counted and reported
    damaged: Values | None
    #: make a feature that always has the same number of values a list of that size
    fixed_size_lists: Values | None
    #: Read tables named hive.DATABASE.TABLE as this metastore records them: thrift://host:9083
    hive_metastore: Values | None
    #: number of TFRecord files, or all, that determine the columns of shards without a schema
    infer_files: Values | None
    #: number of records of each of these files, or all
    infer_records: Values | None
    #: how a column is written
    map: Values | None
    #: Limit the memory of the query before it spills [default: 60% of memory]
    memory_limit: Values | None
    #: null values: absent, unset, empty, error, mask or drop
    null: Values | None
    #: types of the columns in the path, as Hive declares them: dt DATE
    partitions: Values | None
    #: what a record is: example, sequence-example, elwc or bytes
    record_type: Values | None
    #: Use this S3 server instead of AWS: a URL such as http://host:9000
    s3_endpoint: Values | None
    #: a schema.pbtxt with the columns
    schema: Values | None
    #: text between the name of a column and of its part
    separator: Values | None
    #: more lists whose elements are steps of a sequence example, or the list of examples of elwc
    sequence: Values | None
    #: the split to read, also of a Hugging Face directory
    split: Values | None
    #: Spill into this existing directory [default: the system's]
    temp_dir: Values | None
    #: Use this many threads [default: all cores]
    threads: Values | None
    #: Stop after this time, such as 90s, 30m or 12h, as after SIGTERM; the exit code is then 124
    timeout: Values | None
    #: types of some columns, as Hive declares them: x DOUBLE
    types: Values | None
    #: the values of a column that is written as ranks, in their order: label: cat, dog
    vocabulary: Values | None

RESHARD: dict[str, str] = {
    "allow": "repeat",
    "compression": "value",
    "group_size": "value",
    "hosts": "value",
    "level": "value",
    "mode": "value",
    "prefix": "value",
    "record_format": "value",
    "s3_endpoint": "value",
    "shard_rows": "value",
    "shard_size": "value",
    "shards": "value",
    "threads": "value",
    "timeout": "value",
}


class ReshardOptions(TypedDict, total=False):
    #: Open only this path or URL, and what is below it; repeatable
    allow: Values | None
    #: Compress shards: none, gzip, zlib; ArrayRecord: zstd [default: none]
    compression: Values | None
    #: With array_record, put N records into a chunk, which is read as a whole [default: 1]
    group_size: Values | None
    #: Cut shards for N hosts that read them: 10 a host, none under 100 MiB
    hosts: Values | None
    #: The compression level, from 0 (fast) to 9 (small) [default: 6]
    level: Values | None
    #: If output exists: error, overwrite, append, ignore, … [default: error]
    mode: Values | None
    #: Start the names of shards with this: PREFIX-00003-of-00016.tfrecord [default: part]
    prefix: Values | None
    #: The format of shards: tfrecord, or array_record [default: tfrecord]
    record_format: Values | None
    #: Use this S3 server instead of AWS: a URL such as http://host:9000
    s3_endpoint: Values | None
    #: Close a shard at this many rows
    shard_rows: Values | None
    #: Close a shard at this many bytes of records [default: 128MiB]
    shard_size: Values | None
    #: Write exactly N shards, balanced by rows
    shards: Values | None
    #: Use this many threads [default: all cores]
    threads: Values | None
    #: Stop after this time, such as 90s, 30m or 12h, as after SIGTERM; the exit code is then 124
    timeout: Values | None

SALVAGE: dict[str, str] = {
    "allow": "repeat",
    "compression": "value",
    "group_size": "value",
    "hosts": "value",
    "level": "value",
    "mode": "value",
    "prefix": "value",
    "record_format": "value",
    "s3_endpoint": "value",
    "shard_rows": "value",
    "shard_size": "value",
    "shards": "value",
    "threads": "value",
    "timeout": "value",
}


class SalvageOptions(TypedDict, total=False):
    #: Open only this path or URL, and what is below it; repeatable
    allow: Values | None
    #: Compress shards: none, gzip, zlib; ArrayRecord: zstd [default: none]
    compression: Values | None
    #: With array_record, put N records into a chunk, which is read as a whole [default: 1]
    group_size: Values | None
    #: Cut shards for N hosts that read them: 10 a host, none under 100 MiB
    hosts: Values | None
    #: The compression level, from 0 (fast) to 9 (small) [default: 6]
    level: Values | None
    #: If output exists: error, overwrite, append, ignore, … [default: error]
    mode: Values | None
    #: Start the names of shards with this: PREFIX-00003-of-00016.tfrecord [default: part]
    prefix: Values | None
    #: The format of shards: tfrecord, or array_record [default: tfrecord]
    record_format: Values | None
    #: Use this S3 server instead of AWS: a URL such as http://host:9000
    s3_endpoint: Values | None
    #: Close a shard at this many rows
    shard_rows: Values | None
    #: Close a shard at this many bytes of records [default: 128MiB]
    shard_size: Values | None
    #: Write exactly N shards, balanced by rows
    shards: Values | None
    #: Use this many threads [default: all cores]
    threads: Values | None
    #: Stop after this time, such as 90s, 30m or 12h, as after SIGTERM; the exit code is then 124
    timeout: Values | None

DESCRIBE: dict[str, str] = {
    "allow": "repeat",
    "emit": "repeat",
    "replace": "flag",
    "timeout": "value",
}


class DescribeOptions(TypedDict, total=False):
    #: Open only this path or URL, and what is below it; repeatable
    allow: Values | None
    #: Write these files: tfds, tfmd, parse-fn, stats, index [default: tfmd,parse-fn,stats, and tfds if possible]
    emit: Values | None
    #: Replace existing files with these names that other tools wrote
    replace: bool | None
    #: Stop after this time, such as 90s, 30m or 12h, as after SIGTERM; the exit code is then 124
    timeout: Values | None
