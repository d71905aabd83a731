"""Checks the values of SQL functions with the ops of TensorFlow that are made for them.

    check_functions.py SHARDS    of records with these features:

- `tensor/DTYPE/NAME`: what serialize_tensor made of the values that NAME stands for in TENSORS
- `record`: what tf_example made of a struct, `sequence`: what tf_sequence_example made of one

Prints what is wrong, a line each, and `ok` at the end.
"""

import glob
import sys

import numpy as np
import tensorflow as tf

TENSORS = {
    "scalar": 3,
    "list": [0, 1, 3],
    "empty": [],
    "matrix": [[0, 1, 3], [1, 0, 2]],
    "shaped": [[0, 1], [3, 2]],
}


def expected(dtype, values):
    if dtype == tf.string:
        return np.vectorize(lambda value: str(value).encode(), otypes=[object])(np.array(values, np.int64))
    return np.array(values, np.int64).astype(dtype.as_numpy_dtype)


def check_tensors(features):
    """Every tensor is what TensorFlow would have written, and reads as the values."""
    names = [name for name in features if name.startswith("tensor/")]
    for name in names:
        _, dtype, kind = name.split("/")
        dtype = tf.dtypes.as_dtype(dtype)
        wanted = expected(dtype, TENSORS[kind])
        (written,) = features[name].bytes_list.value
        found = tf.io.parse_tensor(written, dtype).numpy()
        if np.shape(found) != wanted.shape or not np.array_equal(found, wanted):
            yield f"{name}: {found}, expected {wanted}"
        if written != tf.io.serialize_tensor(tf.constant(wanted, dtype)).numpy():
            yield f"{name}: not as tf.io.serialize_tensor writes it"
    if len(names) < 60:
        yield f"only {len(names)} tensors"


def check_record(record):
    parsed = tf.io.parse_single_example(
        record,
        {
            "label": tf.io.FixedLenFeature([], tf.int64),
            "name": tf.io.FixedLenFeature([], tf.string),
            "emb": tf.io.FixedLenFeature([2], tf.float32),
        },
    )
    found = (parsed["label"].numpy(), parsed["name"].numpy().decode(), parsed["emb"].numpy().tolist())
    if found != (7, "é", [0.5, 1.5]):
        yield f"record: {found}"


def check_sequence(record):
    context, lists = tf.io.parse_single_sequence_example(
        record,
        {"id": tf.io.FixedLenFeature([], tf.int64)},
        {"frames": tf.io.RaggedFeature(tf.int64), "words": tf.io.FixedLenSequenceFeature([], tf.string)},
    )
    found = (context["id"].numpy(), lists["frames"].to_list(), lists["words"].numpy().tolist())
    if found != (7, [[1, 2], [3]], [b"a", b"b"]):
        yield f"sequence: {found}"


def main():
    (shard,) = glob.glob(f"{sys.argv[1]}/*-of-*")
    (record,) = tf.data.TFRecordDataset(shard)
    features = tf.train.Example.FromString(record.numpy()).features.feature
    (example,), (sequence,) = features["record"].bytes_list.value, features["sequence"].bytes_list.value
    for wrong in [*check_tensors(features), *check_record(example), *check_sequence(sequence)]:
        print(wrong)
    print("ok")


if __name__ == "__main__":
    main()
