"""Reads what lies beside the shards of a table by the readers that it is for, and compares it with the table.

Arguments: the table as an Arrow IPC file; a directory with `shards`, and `snapshot` if the table has one; then the columns
that are class labels. Prints what is wrong as a JSON list.

The shards are those of two splits, `train` and `val`. Rows are told by the column `id`, which counts from 0.
"""

import glob
import importlib.util
import json
import math
import os
import struct
import sys
import traceback

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf


class Wrong(Exception):
    """A reader reads something else than the table."""


def expect(what, expected, found):
    if not same(expected, found):
        raise Wrong(f"{what}: expected {repr(expected)[:200]}, found {repr(found)[:200]}")


def same(expected, found):
    if isinstance(expected, dict):
        return isinstance(found, dict) and set(expected) == set(found) and all(same(expected[k], found[k]) for k in expected)
    if isinstance(expected, (list, tuple, np.ndarray)):
        return len(expected) == len(found) and all(map(same, expected, found))
    if isinstance(expected, float):
        return expected == found or (math.isnan(expected) and math.isnan(found)) or np.float32(expected) == np.float32(found)
    return expected == found


def plain(value):
    """A tensor, or a dict of them, as Python's own values."""
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, tf.RaggedTensor):
        return value.to_list()
    value = value.numpy() if hasattr(value, "numpy") else value
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def wanted(value, kind, labels=None):
    """A value of the table as the readers give it: text as bytes, labels as ranks, lists of structs as a dict of lists."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return {field.name: wanted(None if value is None else value[field.name], field.type, labels) for field in fields}
    if pa.types.is_map(kind):
        pairs = value or []
        keys, values = [key for key, _ in pairs], [item for _, item in pairs]
        return {"key": wanted(keys, pa.list_(kind.key_type)), "value": wanted(values, pa.list_(kind.item_type))}
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind) or pa.types.is_large_list(kind):
        item, values = kind.value_type, value or []
        if pa.types.is_struct(item):
            fields = [item.field(i) for i in range(item.num_fields)]
            return {f.name: wanted([v[f.name] for v in values], pa.list_(f.type), labels) for f in fields}
        return [wanted(inner, item, labels) for inner in values]
    if value is None:
        return None
    if labels:
        return labels.index(value)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return value.encode()
    if pa.types.is_date32(kind):
        return (value - np.datetime64(0, "D").item()).days
    if pa.types.is_timestamp(kind):
        return int(np.datetime64(value.replace(tzinfo=None), "us").astype(np.int64))
    return value


def table_rows(table, labels):
    rows = []
    for row in table.to_pylist():
        rows.append({f.name: wanted(row[f.name], f.type, labels.get(f.name)) for f in table.schema})
    return rows


def vocabularies(table, columns):
    def words(column):
        values = column.combine_chunks()
        while pa.types.is_list(values.type):
            values = values.flatten()
        return sorted({word for word in values.to_pylist() if word is not None}, key=str.encode)

    return {name: words(table.column(name)) for name in columns}


# What readers give for a null, by the type of the values.
def least(dtype):
    if dtype == np.bool_:
        return False
    if dtype == np.object_ or np.dtype(dtype).kind in "SU":
        return b""
    return np.finfo(dtype).min.item() if np.issubdtype(dtype, np.floating) else np.iinfo(dtype).min


def check_tfds(directory, table, labels):
    import tensorflow_datasets as tfds

    builder = tfds.builder_from_directory(f"{directory}/shards")
    rows, features = table_rows(table, labels), builder.info.features
    expect("tfds columns", set(table.column_names), set(features))

    def read(split):
        data = builder.as_dataset(split=split, shuffle_files=False, read_config=tfds.ReadConfig(interleave_cycle_length=1))
        return [plain(row) for row in data]

    def compare(split, found):
        expect(f"tfds {split}", builder.info.splits[split].num_examples, len(found))
        for other in found:
            number = other["id"]
            for name, value in rows[number].items():
                if value is None:
                    value = least(features[name].np_dtype)
                    if features[name].np_dtype == np.float64:
                        value = float("-inf")
                expect(f"tfds {split}, row {number}, {name}", value, other[name])

    train, val = read("train"), read("val")
    compare("train", train)
    compare("val", val)
    expect("tfds ids", list(range(len(rows))), sorted(row["id"] for row in train + val))
    low, high = round(len(train) * 0.1), round(len(train) * 0.2)
    ids = [row["id"] for row in train[low:high]]
    expect("tfds train[10%:20%]", ids, [row["id"] for row in read("train[10%:20%]")])
    for name, words in labels.items():
        feature = features[name]
        feature = getattr(feature, "feature", feature)
        expect(f"tfds labels of {name}", words, feature.names)


def check_snapshot(directory, table, labels):
    path = f"{directory}/snapshot"
    if not os.path.exists(path):
        return
    # As they are: without labels, for native types are what it is for.
    rows = table_rows(table, {})
    data = tf.data.Dataset.load(path, reader_func=lambda shards: shards.flat_map(lambda shard: shard))
    first = next(iter(data.take(1)))
    if "id" not in first or len(os.listdir(f"{path}/1")) != 1:
        raise Wrong("snapshot: not one shard, in which rows are in order")
    expect("snapshot cardinality", len(rows), data.cardinality().numpy())
    expect("snapshot by default", len(rows), sum(1 for _ in tf.data.Dataset.load(path)))
    for number, (row, found) in enumerate(zip(rows, map(plain, data), strict=True)):
        compare_masked(f"snapshot, row {number}", row, found)
    for field in table.schema:
        if pa.types.is_primitive(field.type) and not pa.types.is_temporal(field.type):
            expect(f"snapshot type of {field.name}", field.type.to_pandas_dtype(), data.element_spec[field.name].dtype.as_numpy_dtype)
    ragged = data.ragged_batch(16)
    for field in table.schema:
        if pa.types.is_list(field.type):
            first = next(iter(ragged.take(1)))[field.name]
            expect(f"snapshot batch of {field.name}", [row[field.name] or [] for row in rows[:16]], plain(first))


def compare_masked(what, row, found):
    for name, value in row.items():
        if isinstance(value, dict):
            compare_masked(f"{what}, {name}", value, found[name])
            continue
        is_null = found.get(f"{name}/is_null", False)
        if value is None:
            expect(f"{what}, {name}/is_null", True, is_null)
        elif is_null:  # a list, of which the table's rows say no more
            expect(f"{what}, {name}", [], value)
        else:
            expect(f"{what}, {name}", value, found[name])


def check_index(directory, table, labels):
    """Every line leads to a record: as NVIDIA DALI and `tfrecord` for PyTorch go there."""
    ids, shards = [], sorted(glob.glob(f"{directory}/shards/*.tfrecord"))
    indexes = [os.path.join(os.path.dirname(shard), f"_{os.path.basename(shard)}.idx") for shard in shards]
    expect("index files", indexes, sorted(glob.glob(f"{directory}/shards/*.idx")))
    for shard, path in zip(shards, indexes):
        with open(shard, "rb") as file, open(path, encoding="ascii") as index:
            content, end = file.read(), 0
            for line in index:
                start, size = map(int, line.split())
                expect(f"index {shard}", end, start)
                (length,) = struct.unpack_from("<Q", content, start)
                expect(f"index {shard} at {start}", size, length + 16)
                example = tf.train.Example.FromString(content[start + 12 : start + 12 + length])
                ids.append(example.features.feature["id"].int64_list.value[0])
                end = start + size
            expect(f"index {shard} end", len(content), end)
    expect("index ids", list(range(len(table))), sorted(ids))


def load_module(path):
    spec = importlib.util.spec_from_file_location("parse_example", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check_parse(directory, table, labels):
    module = load_module(f"{directory}/shards/_parse_example.py")
    shards = f"{directory}/shards"
    for files in (shards, f"{shards}/*.tfrecord", [f"{shards}/train-*", f"{shards}/val-*"]):
        expect(f"parse_example {files}", len(table), sum(len(batch["id"]) for batch in module.dataset(files, 100)))
    batches = list(module.dataset(shards, 100, shuffle=500, seed=3))
    expect("parse_example ids", list(range(len(table))), sorted(np.concatenate([b["id"].numpy() for b in batches]).tolist()))
    again = list(module.dataset(shards, 100, shuffle=500, seed=3))
    expect("parse_example seed", batches[0]["id"].numpy().tolist(), again[0]["id"].numpy().tolist())
    batch = next(iter(module.dataset(shards, len(table), cycle_length=1)))
    order = np.argsort(batch["id"].numpy())
    for name in table.column_names:
        field = table.schema.field(name)
        if name not in batch or not (pa.types.is_primitive(field.type) and table.column(name).null_count == 0):
            continue
        if pa.types.is_temporal(field.type):
            continue
        expect(f"parse_example {name}", field.type.to_pandas_dtype(), batch[name].dtype.as_numpy_dtype)
        expect(f"parse_example {name}", table.column(name).to_pylist(), batch[name].numpy()[order].tolist())
    try:
        module.dataset(f"{shards}/nothing-*", 1)
    except FileNotFoundError:
        return
    raise Wrong("parse_example: no file is no error")


def check_statistics(directory, table, labels):
    from tensorflow_metadata.proto.v0 import statistics_pb2

    with open(f"{directory}/shards/_stats.pb", "rb") as file:
        (statistics,) = statistics_pb2.DatasetFeatureStatisticsList.FromString(file.read()).datasets
    expect("stats rows", len(table), statistics.num_examples)
    features = {feature.path.step[0]: feature for feature in statistics.features}
    for field in table.schema:
        for name, column in parts(field.name, table.column(field.name)):
            if name in features:
                check_feature(name, column, features[name], labels.get(name))


def parts(name, column):
    """The columns that become one feature each: fields of structs, and values of lists of a fixed size as one list."""
    kind = column.type
    if pa.types.is_struct(kind):
        arrays = (column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column).flatten()
        return [part for i, inner in enumerate(arrays) for part in parts(f"{name}/{kind.field(i).name}", inner)]
    if pa.types.is_list(kind) and pa.types.is_fixed_size_list(kind.value_type):
        flat = [None if row is None else [value for pair in row for value in pair] for row in column.to_pylist()]
        return [(name, pa.array(flat, pa.list_(kind.value_type.value_type)))]
    if pa.types.is_fixed_size_list(kind):
        return [(name, column.cast(pa.list_(kind.value_type)))]
    return [] if pa.types.is_list(kind) and pa.types.is_nested(kind.value_type) or pa.types.is_map(kind) else [(name, column)]


def check_feature(name, column, feature, labels):
    stats = getattr(feature, feature.WhichOneof("stats"))
    common, nulls = stats.common_stats, column.null_count
    expect(f"stats {name} missing", (nulls, len(column) - nulls), (common.num_missing, common.num_non_missing))
    if pa.types.is_list(column.type):
        lengths = pc.list_value_length(column).drop_null().to_numpy()
        expect(f"stats {name} lengths", (lengths.min(), lengths.max(), lengths.sum()),
               (common.min_num_values, common.max_num_values, common.tot_num_values))
        near(f"stats {name} mean length", lengths.mean(), common.avg_num_values)
        column = (column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column).flatten()
    values = column.drop_null()
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if labels:
        values = pa.array([labels.index(value) for value in values.to_pylist()])
    expect(f"stats {name} values", len(values), common.tot_num_values)
    kind = feature.WhichOneof("stats")
    if kind == "num_stats":
        check_numbers(name, values, stats)
    else:
        check_bytes(name, values, stats, kind)


def check_numbers(name, values, stats):
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    elif pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    values = values.to_numpy(zero_copy_only=False)
    if values.dtype == np.float64:
        values = values.astype(np.float32)  # what records hold
    values = values.astype(np.float64)
    numbers = values[~np.isnan(values)]
    expect(f"stats {name} NaNs", len(values) - len(numbers), stats.histograms[0].num_nan)
    expect(f"stats {name} zeros", int((numbers == 0).sum()), stats.num_zeros)
    expect(f"stats {name} range", (numbers.min(), numbers.max()), (stats.min, stats.max))
    near(f"stats {name} mean", numbers.mean(), stats.mean, 1e-9)
    near(f"stats {name} deviation", numbers.std(), stats.std_dev, 1e-9)
    within(f"stats {name} median", numbers, 0.5, stats.median)
    standard, quantiles = stats.histograms
    expect(f"stats {name} histograms", (0, 1), (standard.type, quantiles.type))
    near(f"stats {name} histogram", len(numbers), sum(bucket.sample_count for bucket in standard.buckets))
    below = 0
    for bucket in standard.buckets[:-1]:
        below += bucket.sample_count
        exact = (numbers < bucket.high_value).sum()
        if abs(exact - below) > 0.01 * len(numbers) + 1:
            raise Wrong(f"stats {name} histogram: {below} below {bucket.high_value}, expected {exact}")
    for rank, bucket in enumerate(quantiles.buckets, 1):
        within(f"stats {name} quantiles", numbers, rank / len(quantiles.buckets), bucket.high_value)


def within(what, numbers, rank, found):
    """Whether a value is of the rank within 1 %, and the one beside it of few values."""
    slack = 0.01 + 1 / len(numbers)
    low, high = (numbers < found).mean() - slack, (numbers <= found).mean() + slack
    if not low <= rank <= high:
        raise Wrong(f"{what}: {found} is of rank {low} to {high}, expected {rank}")


def near(what, expected, found, tolerance=1e-6):
    if abs(expected - found) > tolerance * max(1, abs(expected)):
        raise Wrong(f"{what}: expected {expected}, found {found}")


def check_bytes(name, values, stats, kind):
    values = [value.encode() if isinstance(value, str) else value for value in values.to_pylist()]
    distinct = len(set(values))
    limit = 0 if distinct <= 2048 and kind == "string_stats" else 0.04
    if abs(distinct - stats.unique) > limit * distinct:
        raise Wrong(f"stats {name} unique: expected {distinct}, found {stats.unique}")
    mean = sum(map(len, values)) / len(values)
    if kind == "bytes_stats":
        near(f"stats {name} mean length", mean, stats.avg_num_bytes)
        expect(f"stats {name} longest", max(map(len, values)), stats.max_num_bytes_int)
        return
    near(f"stats {name} mean length", mean, stats.avg_length)
    if distinct <= 2048:
        counts = sorted(((values.count(value), value) for value in set(values)), key=lambda pair: (-pair[0], pair[1]))
        top = [(round(value.frequency), value.value.encode()) for value in stats.top_values]
        expect(f"stats {name} top values", counts[: len(top)], top)
        expect(f"stats {name} top values", min(20, distinct), len(top))


def check_schema(directory, table, labels):
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import schema_pb2

    with open(f"{directory}/shards/schema.pbtxt", encoding="utf-8") as file:
        schema = text_format.Parse(file.read(), schema_pb2.Schema())
    features = {feature.name: feature for feature in schema.feature}
    for field in table.schema:
        feature, column = features.get(field.name), table.column(field.name)
        if feature is None:
            continue
        expect(f"schema {field.name} presence", column.null_count == 0, feature.presence.min_fraction == 1)
        if feature.HasField("string_domain"):
            words = column.combine_chunks().flatten() if pa.types.is_list(field.type) else column
            words = sorted({word for word in words.to_pylist() if word is not None})
            expect(f"schema {field.name} words", words, list(feature.string_domain.value))


def main():
    source, directory, *columns = sys.argv[1:]
    with pa.memory_map(source) as file:
        table = pa.ipc.open_file(file).read_all()
    labels = vocabularies(table, columns)
    problems = []
    for check in (check_tfds, check_snapshot, check_parse, check_statistics, check_schema, check_index):
        try:
            check(directory, table, labels)
        except Wrong as wrong:
            problems.append(str(wrong))
        except Exception:
            problems.append(f"{check.__name__}: {traceback.format_exc(limit=-4)}")
    json.dump(problems, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
