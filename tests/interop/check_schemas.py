"""Reads shard sets by the descriptions that the command gave of them, and compares the rows with their source.

Standard input is a list of jobs, standard output a list of answers in the same order, both JSON. A job:

    {"name": "...", "source": "table.arrow", "out": "a directory with one shard", "choices": {"column": "bits"},
     "nulls": "absent | mask", "record_type": "example | sequence-example", "sequences": ["column"],
     "python": "module.py", "pbtxt": "schema.pbtxt", "features": "features.json"}

The last two are null where the records are no Examples.

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
        rules = oracle.Rules.of(job)
        self.columns = [oracle.Column(field, rules) for field in self.table.schema]
        self.features = {feature.name: feature for column in self.columns for feature in column.features}
        self.nested, self.rows = {name: [] for name in self.features}, {name: [] for name in self.features}
        for i, column in enumerate(self.columns):
            for row in column.nested(self.table.column(i)):
                for feature, value in row.items():
                    self.nested[feature.name].append(value)
                    values = None if value is oracle.ABSENT else oracle.flat(feature, value)
                    self.rows[feature.name].append(values)
        self.steps = {feature.name for column in self.columns if column.in_steps for feature in column.features}
        # Of which something is known besides the feature.
        self.whole = {column.name for column in self.columns if is_whole(column)}
        (self.shard,) = glob.glob(f"{job['out']}/*.tfrecord*")

    def is_restored(self, feature):
        """Whether the type of the values is restored from the one of the feature."""
        return feature.role == "values" and feature.choice != "tensor" and is_number(feature.dtype)


def is_whole(column):
    """Whether all of a column is one feature."""
    parts = column.root.leaves()
    return len(parts) == 1 and parts[0].path == column.name and column.name in {f.name for f in column.features}


def is_number(dtype):
    return pa.types.is_boolean(dtype) or pa.types.is_integer(dtype) or pa.types.is_floating(dtype)


def restored(feature, value):
    """A value as it is read once it has the type of its column again; of lists, each."""
    if isinstance(value, list):
        return [restored(feature, inner) for inner in value]
    dtype = numpy_type(feature)
    if feature.choice == "bits":
        return np.int64(value).view(dtype)
    if isinstance(value, oracle.Written):
        return dtype(value.value)
    if pa.types.is_uint64(feature.dtype):
        return np.int64(value).view(dtype)
    return dtype(value)


def numpy_type(feature):
    return np.bool_ if pa.types.is_boolean(feature.dtype) else feature.dtype.to_pandas_dtype()


def same(expected, found):
    if isinstance(expected, list):
        return len(expected) == len(found) and all(map(same, expected, found))
    if isinstance(expected, np.generic) and not isinstance(expected, np.float32):
        found = expected.dtype.type(found)
        return found.tobytes() == expected.tobytes() or (found != found and expected != expected)
    return oracle.same(expected, found)


def compare(name, expected, found, null, what):
    """`null` is what a null is read as."""
    if len(expected) != len(found):
        raise Wrong(f"{what}: {name}: {len(found)} rows, expected {len(expected)}")
    for row, (values, read) in enumerate(zip(expected, found, strict=True)):
        equal = same_null(null, read) if values is oracle.ABSENT else same(values, read)
        if not equal:
            raise Wrong(f"{what}: {name}, row {row}: expected {values!r}, found {read!r}")


def same_null(expected, found):
    if isinstance(expected, list):
        return len(expected) == len(found) and all(map(same_null, expected, found))
    return expected == found or (expected != expected and found != found)


def lists(tensor):
    """The rows of any tensor: a list of lists for a ragged one, else a flat list each."""
    if isinstance(tensor, tf.SparseTensor):
        rows = [[] for _ in range(tensor.dense_shape[0])]
        for (row, *_), value in zip(tensor.indices.numpy(), tensor.values.numpy(), strict=True):
            rows[row].append(value)
        return rows
    if isinstance(tensor, tf.RaggedTensor):
        return tensor.to_list()
    return [flat(row) for row in tensor.numpy()]


def flat(values):
    # Of bytes alone NumPy makes an array that forgets zeros at the end.
    return [values] if isinstance(values, bytes) else list(values.ravel())


# ---- python: the module parses the records


def check_python(job, source):
    with open(job["python"], encoding="utf-8") as file:
        text = file.read()
    records = [record.numpy() for record in tf.data.TFRecordDataset(source.shard)]
    parsed, lengths, nulls = run_module(text, records)
    entries = {feature.key: feature for feature in source.features.values() if feature.role != "lengths"}
    for key, feature in entries.items():
        tensor = parsed[key]
        if source.is_restored(feature) and tensor.dtype.as_numpy_dtype != numpy_type(feature):
            raise Wrong(f"python: {key}: {tensor.dtype}, expected {feature.dtype}")
        compare_parsed(source, feature, tensor, lengths, nulls.get(key, []), "python")
    if set(parsed) != set(entries):
        raise Wrong(f"python: columns {sorted(parsed)}, expected {sorted(entries)}")
    # Without the table of nulls, a null is a missing value.
    parsed, lengths, _ = run_module(NULLS.sub("NULLS = {}\n", text), records)
    for key, feature in entries.items():
        compare_parsed(source, feature, parsed[key], lengths, [], "python without NULLS")


def compare_parsed(source, feature, tensor, lengths, null, what):
    expected = source.nested[feature.name]
    if source.is_restored(feature):
        expected = [value if value is oracle.ABSENT else restored(feature, value) for value in expected]
    if feature.name in source.steps:
        if isinstance(tensor, tf.RaggedTensor):
            found = tensor.to_list()
        else:  # as long as the longest
            rows = zip(tensor.numpy(), lengths[feature.key].numpy(), strict=True)
            found = [list(row[:length]) for row, length in rows]
    else:
        found = lists(tensor)
        if not isinstance(tensor, tf.RaggedTensor):
            depth = len(feature.dims)
            expected = [value if value is oracle.ABSENT else oracle.flattened(value, depth) for value in expected]
    compare(feature.key, expected, found, null, what)


def run_module(text, records):
    module = {}
    exec(compile(text, "module", "exec"), module)
    # In a graph, as `Dataset.map` runs it.
    (parsed,) = tf.data.Dataset.from_tensors(tf.constant(records, tf.string)).map(module["parse"])
    parsed, lengths = parsed if isinstance(parsed, tuple) else (parsed, {})
    return parsed, lengths, read_nulls(module)


def read_nulls(module):
    """What nulls are read as, after the casts of the module."""
    nulls = module.get("NULLS", {})
    if not nulls:
        return {}
    # A record without nullable features: one that lacks others is refused, so these are given.
    features = {}
    is_sequence = "SEQUENCES" in module
    for name, spec in module["CONTEXT" if is_sequence else "FEATURES"].items():
        if name in nulls or not isinstance(spec, tf.io.FixedLenFeature):
            continue
        count = int(np.prod(spec.shape))
        kind = {tf.int64: "int64_list", tf.float32: "float_list", tf.string: "bytes_list"}[spec.dtype]
        features[name] = tf.train.Feature(**{kind: {"value": [b"0" if kind == "bytes_list" else 0] * count}})
    if is_sequence:
        steps = {name: tf.train.FeatureList() for name in module["SEQUENCES"]}
        record = tf.train.SequenceExample(context={"feature": features}, feature_lists={"feature_list": steps})
        parsed, _ = module["parse"](tf.constant([record.SerializeToString()]))
    else:
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
    if set(features) != set(source.rows) or len(features) != len(schema.feature):
        raise Wrong(f"pbtxt: features {list(features)}, expected {list(source.rows)}")
    types = {"int64": schema_pb2.INT, "float": schema_pb2.FLOAT, "bytes": schema_pb2.BYTES}
    tensors = schema.tensor_representation_group[""].tensor_representation
    for name, rows in source.rows.items():
        feature, counts = features[name], [None if row is None else len(row) for row in rows]
        if feature.type != types[source.features[name].kind]:
            raise Wrong(f"pbtxt: {name}: type {feature.type}, expected {source.features[name].kind}")
        if feature.presence.min_fraction == 1 and None in counts:
            raise Wrong(f"pbtxt: {name} is said to be in all records")
        if feature.HasField("shape"):
            least = most = int(np.prod([dim.size for dim in feature.shape.dim]))
        else:
            least, most = feature.value_count.min, feature.value_count.max or None
        for count in counts:
            if count is not None and (count < least or (most is not None and count > most)):
                raise Wrong(f"pbtxt: {name}: {count} values, expected {least} to {most}")
        representation = tensors[name].WhichOneof("kind")
        if (representation == "dense_tensor") != feature.HasField("shape"):
            raise Wrong(f"pbtxt: {name}: a {representation}")
        if name in source.whole:
            check_domain(source.features[name], feature, rows)


def check_domain(column, feature, rows):
    if feature.HasField("bool_domain") != pa.types.is_boolean(column.dtype):
        raise Wrong(f"pbtxt: {column.name}: {feature}")
    if feature.HasField("int_domain"):
        domain = feature.int_domain
        for value in (value for row in rows for value in row or []):
            if value < domain.min or (domain.HasField("max") and value > domain.max):
                raise Wrong(f"pbtxt: {column.name}: {value} is not within {domain}")
    text = "utf8" in feature.annotation.tag or feature.HasField("string_domain")
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
    features = dict(leaves(builder.info.features))
    rows = [dict(tensors(row)) for row in rows]
    # A column of lists in lists is one feature, and so are its lengths with it.
    keys = {name: name if name in features else feature.key for name, feature in source.features.items()}
    keys = {name: key for name, key in keys.items() if key in features or source.features[name].role != "lengths"}
    if set(features) != set(keys.values()):
        raise Wrong(f"features.json: {sorted(features)}, expected {sorted(set(keys.values()))}")
    for name, expected in source.rows.items():
        if name not in keys:
            continue
        column = source.features[name]
        feature, in_sequence = features[keys[name]]
        info = feature.get_serialized_info()
        # A tensor of unknown length, or a sequence, is empty where it is missing.
        null = [] if in_sequence or info.default_value is None or None in info.shape else flat(np.asarray(info.default_value))
        if column.kind == "float":  # of which a float64 may be beyond what is stored
            null = [np.float32(value) for value in null]
        found = [row[keys[name]] for row in rows]
        if keys[name] == name:
            found = [flat(value.numpy()) for value in found]
        else:
            found, expected = [value.to_list() for value in found], source.nested[name]
        # TFDS stores the numbers of forms as they are.
        if column.choice in (None, "wrap") and source.is_restored(column):
            if feature.np_dtype != numpy_type(column):
                raise Wrong(f"features.json: {name}: {feature.np_dtype}, expected {column.dtype}")
            expected = [None if row is None else restored(column, row) for row in expected]
        compare(name, expected, found, null, "features.json")


def leaves(feature, name="", in_sequence=False):
    """The features that have values of their own, and whether they lie in a sequence."""
    import tensorflow_datasets as tfds

    if isinstance(feature, tfds.features.FeaturesDict):
        for child, inner in feature.items():
            yield from leaves(inner, f"{name}/{child}" if name else child, in_sequence)
    elif isinstance(feature, tfds.features.Sequence):
        yield from leaves(feature.feature, name, True)
    else:
        yield name, (feature, in_sequence)


def tensors(value, name=""):
    if isinstance(value, dict):
        for child, inner in value.items():
            yield from tensors(inner, f"{name}/{child}" if name else child)
    else:
        yield name, value


def answer(job):
    problems = []
    source = Source(job)
    checks = (check_python, check_pbtxt, check_features)
    for check in checks if job["pbtxt"] else checks[:1]:
        try:
            check(job, source)
        except Wrong as wrong:
            problems.append(str(wrong))
        except Exception:
            problems.append(f"{check.__name__}: {traceback.format_exc(limit=-3)}")
    return {"name": job["name"], "problems": problems}


if __name__ == "__main__":
    json.dump([answer(job) for job in json.load(sys.stdin)], sys.stdout)
