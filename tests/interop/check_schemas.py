"""Reads shard sets by the descriptions that the command gave of them, and compares the rows with their source.

Standard input is a list of jobs, standard output a list of answers in the same order, both JSON. A job:

    {"name": "...", "source": "table.arrow", "out": "a directory with one shard", "choices": {"column": "bits"},
     "python": "module.py", "pbtxt": "schema.pbtxt", "features": "features.json"}

An answer is {"name", "problems"}: a list of what is wrong, empty if every description reads every value.
"""

import glob
import json
import os
import re
import shutil
import sys
import tempfile
import traceback

import numpy as np
import oracle
import pyarrow as pa
import tensorflow as tf

NULLS = re.compile(r"^NULLS = \{\n(.*?)^\}\n", re.DOTALL | re.MULTILINE)


class Wrong(Exception):
    """A description does not say what it must."""


class Source:
    """The table that the shards were made of, and what each row becomes."""

    def __init__(self, job):
        with pa.memory_map(job["source"]) as file:
            self.table = pa.ipc.open_file(file).read_all()
        self.columns = [oracle.Column(field, job["choices"].get(field.name)) for field in self.table.schema]
        self.rows = {
            column.name: list(column.rows(self.table.column(i)))
            for i, column in enumerate(self.columns)
            if column.kind is not None
        }
        self.values = {name: list(oracle.plain(self.table.column(name))) for name in self.rows}
        (self.shard,) = glob.glob(f"{job['out']}/*.tfrecord*")

    def columns_with_features(self):
        return [column for column in self.columns if column.kind is not None]

    def expected(self, column, restored):
        """Each row of a column as it is read: a list of values, or None. `restored`: with the types of the column."""
        rows = self.rows[column.name]
        if not restored or not is_restored(column):
            return rows
        values = ([value] if value is not None and not column.is_list else value for value in self.values[column.name])
        return [restored_values(column, row, value) for row, value in zip(rows, values, strict=True)]


def is_restored(column):
    """Whether the type of the values is restored from the one of the feature."""
    dtype = column.dtype
    numeric = pa.types.is_boolean(dtype) or pa.types.is_integer(dtype) or pa.types.is_floating(dtype)
    return numeric and column.choice != "tensor"


def restored_values(column, row, values):
    if row is None:
        return None
    if pa.types.is_floating(column.dtype) and column.choice is None:
        return [numpy_type(column)(value) for value in row]  # the float32 that is stored
    return [numpy_type(column)(value) for value in values]


def numpy_type(column):
    return np.bool_ if pa.types.is_boolean(column.dtype) else column.dtype.to_pandas_dtype()


def same(expected, found):
    if isinstance(expected, np.generic):
        found = expected.dtype.type(found)
        return found.tobytes() == expected.tobytes() or (found != found and expected != expected)
    return oracle.same(expected, found)


def compare(source, column, found, null, restored, what):
    """`null` is the list of values that a null is read as."""
    expected = source.expected(column, restored)
    if len(expected) != len(found):
        raise Wrong(f"{what}: {column.name}: {len(found)} rows, expected {len(expected)}")
    for row, (values, read) in enumerate(zip(expected, found, strict=True)):
        values, equal = (null, same_null) if values is None else (values, same)
        if len(values) != len(read) or not all(map(equal, values, read)):
            raise Wrong(f"{what}: {column.name}, row {row}: expected {values!r}, found {read!r}")


def same_null(expected, found):
    return expected == found or (expected != expected and found != found)


def lists(tensor):
    """The rows of any tensor, each a flat list."""
    if isinstance(tensor, tf.SparseTensor):
        rows = [[] for _ in range(tensor.dense_shape[0])]
        for (row, *_), value in zip(tensor.indices.numpy(), tensor.values.numpy(), strict=True):
            rows[row].append(value)
        return rows
    if isinstance(tensor, tf.RaggedTensor):
        return [list(row.numpy()) for row in tensor]
    return [flat(row) for row in tensor.numpy()]


def flat(values):
    # Of bytes alone NumPy makes an array that forgets zeros at the end.
    return [values] if isinstance(values, bytes) else list(values.ravel())


# ---- python: the module parses the records


def check_python(job, source):
    with open(job["python"], encoding="utf-8") as file:
        text = file.read()
    records = [record.numpy() for record in tf.data.TFRecordDataset(source.shard)]
    parsed, nulls = run_module(text, records)
    for column in source.columns_with_features():
        tensor = parsed[column.name]
        if is_restored(column) and tensor.dtype.as_numpy_dtype != numpy_type(column):
            raise Wrong(f"python: {column.name}: {tensor.dtype}, expected {column.dtype}")
        compare(source, column, lists(tensor), nulls.get(column.name, []), True, "python")
    if set(parsed) != set(source.rows):
        raise Wrong(f"python: columns {sorted(parsed)}, expected {sorted(source.rows)}")
    # Without the table of nulls, a null is a missing value.
    parsed, _ = run_module(NULLS.sub("NULLS = {}\n", text), records)
    for column in source.columns_with_features():
        compare(source, column, lists(parsed[column.name]), [], True, "python without NULLS")


def run_module(text, records):
    module = {}
    exec(compile(text, "module", "exec"), module)
    # In a graph, as `Dataset.map` runs it.
    (parsed,) = tf.data.Dataset.from_tensors(tf.constant(records, tf.string)).map(module["parse"])
    return parsed, read_nulls(module)


def read_nulls(module):
    """What nulls are read as, after the casts of the module."""
    nulls = module.get("NULLS", {})
    if not nulls:
        return {}
    # A record without nullable features: one that lacks others is refused, so these are given.
    features = {}
    for name, spec in module["FEATURES"].items():
        if name in nulls or not isinstance(spec, tf.io.FixedLenFeature):
            continue
        count = int(np.prod(spec.shape))
        kind = {tf.int64: "int64_list", tf.float32: "float_list", tf.string: "bytes_list"}[spec.dtype]
        features[name] = tf.train.Feature(**{kind: {"value": [b"0" if kind == "bytes_list" else 0] * count}})
    record = tf.train.Example(features={"feature": features}).SerializeToString()
    parsed = module["parse"](tf.constant([record]))
    return {name: lists(parsed[name])[0] for name in nulls}


# ---- pbtxt: TensorFlow Metadata reads it, and it says of each feature what the records hold


def check_pbtxt(job, source):
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import schema_pb2

    with open(job["pbtxt"], encoding="utf-8") as file:
        schema = text_format.Parse(file.read(), schema_pb2.Schema())
    features = {feature.name: feature for feature in schema.feature}
    if list(features) != list(source.rows) or len(features) != len(schema.feature):
        raise Wrong(f"pbtxt: features {list(features)}, expected {list(source.rows)}")
    types = {"int64": schema_pb2.INT, "float": schema_pb2.FLOAT, "bytes": schema_pb2.BYTES}
    tensors = schema.tensor_representation_group[""].tensor_representation
    for column in source.columns_with_features():
        feature, counts = features[column.name], [None if row is None else len(row) for row in source.rows[column.name]]
        if feature.type != types[column.kind]:
            raise Wrong(f"pbtxt: {column.name}: type {feature.type}, expected {column.kind}")
        if feature.presence.min_fraction == 1 and None in counts:
            raise Wrong(f"pbtxt: {column.name} is said to be in all records")
        if feature.HasField("shape"):
            least = most = int(np.prod([dim.size for dim in feature.shape.dim]))
        else:
            least, most = feature.value_count.min, feature.value_count.max or None
        for count in counts:
            if count is not None and (count < least or (most is not None and count > most)):
                raise Wrong(f"pbtxt: {column.name}: {count} values, expected {least} to {most}")
        representation = tensors[column.name].WhichOneof("kind")
        if (representation == "dense_tensor") != feature.HasField("shape"):
            raise Wrong(f"pbtxt: {column.name}: a {representation}")
        check_domain(column, feature, source.rows[column.name])


def check_domain(column, feature, rows):
    if feature.HasField("bool_domain") != pa.types.is_boolean(column.dtype):
        raise Wrong(f"pbtxt: {column.name}: {feature}")
    if feature.HasField("int_domain"):
        domain = feature.int_domain
        for value in (value for row in rows for value in row or []):
            if value < domain.min or (domain.HasField("max") and value > domain.max):
                raise Wrong(f"pbtxt: {column.name}: {value} is not within {domain}")
    text = "utf8" in feature.annotation.tag
    if text != (column.kind == "bytes" and (column.choice == "string" or oracle.is_text(column.dtype))):
        raise Wrong(f"pbtxt: {column.name}: {feature.annotation}")


# ---- features.json: TensorFlow Datasets loads the directory


def check_features(job, source):
    import tensorflow_datasets as tfds

    if source.table.num_rows == 0:
        return  # which TFDS refuses
    with tempfile.TemporaryDirectory() as directory:
        shutil.copy(source.shard, f"{directory}/part-train.tfrecord-00000-of-00001")
        shutil.copy(job["features"], f"{directory}/features.json")
        count = source.table.num_rows
        split = {"name": "train", "shardLengths": [str(count)], "numBytes": str(os.path.getsize(source.shard))}
        info = {"name": "part", "version": "1.0.0", "fileFormat": "tfrecord", "splits": [split]}
        with open(f"{directory}/dataset_info.json", "w", encoding="utf-8") as file:
            json.dump(info, file)
        builder = tfds.builder_from_directory(directory)
        rows = list(builder.as_dataset(split="train", shuffle_files=False))
    if set(builder.info.features) != set(source.rows):
        raise Wrong(f"features.json: {sorted(builder.info.features)}, expected {sorted(source.rows)}")
    for column in source.columns_with_features():
        feature = builder.info.features[column.name]
        info = feature.get_serialized_info()
        # A tensor of unknown length is empty where it is missing.
        null = [] if info.default_value is None or None in info.shape else flat(np.asarray(info.default_value))
        if column.kind == "float":  # of which a float64 may be beyond what is stored
            null = [np.float32(value) for value in null]
        # TFDS stores the numbers of forms as they are.
        restored = column.choice in (None, "wrap")
        found = [flat(row[column.name].numpy()) for row in rows]
        if restored and is_restored(column) and feature.np_dtype != numpy_type(column):
            raise Wrong(f"features.json: {column.name}: {feature.np_dtype}, expected {column.dtype}")
        compare(source, column, found, null, restored, "features.json")


def answer(job):
    problems = []
    source = Source(job)
    for check in (check_python, check_pbtxt, check_features):
        try:
            check(job, source)
        except Wrong as wrong:
            problems.append(str(wrong))
        except Exception:
            problems.append(f"{check.__name__}: {traceback.format_exc(limit=-3)}")
    return {"name": job["name"], "problems": problems}


if __name__ == "__main__":
    json.dump([answer(job) for job in json.load(sys.stdin)], sys.stdout)
