"""Reads the records of described with TensorFlow, and needs nothing else.

    for batch in dataset("shards/train-*", batch_size=64, shuffle=10_000):
        ...
"""

import os

import tensorflow as tf

# What a null is read as. Choose values that cannot be mistaken for others of their column. A column that is taken out
# of this table is read as a tf.SparseTensor, in which a null is a missing value.
NULLS = {
    "name": b"",
}


def _scalar(name, dtype):
    if name in NULLS:
        return tf.io.FixedLenFeature([], dtype, default_value=NULLS[name])
    return tf.io.VarLenFeature(dtype)


# The features of a record, for tf.io.parse_example.
# A list that is null is read as an empty one.
FEATURES = {
    # Int64 not null
    "id": tf.io.FixedLenFeature([], tf.int64),
    # Int64 not null
    "day": tf.io.FixedLenFeature([], tf.int64),
    # Float64 not null: float32 of float64
    "score": tf.io.FixedLenFeature([], tf.float32),
    # Float32 not null
    "ratio": tf.io.FixedLenFeature([], tf.float32),
    # Utf8
    "name": _scalar("name", tf.string),
    # Timestamp(µs): microseconds
    "seen": tf.io.FixedLenFeature([], tf.int64),
    # Decimal128(10, 2) not null: float32 of decimal(10,2)
    "price": tf.io.FixedLenFeature([], tf.float32),
    # List(Int64)
    "pair": tf.io.RaggedFeature(tf.int64),
}


def parse(records):
    """Reads a vector of serialized Examples: a dict of tensors by column."""
    features = tf.io.parse_example(records, FEATURES)
    # What records have no room for: the types of the columns.
    features["score"] = tf.cast(features["score"], tf.float64)
    return features


# How the files are compressed.
COMPRESSION = ""


def dataset(
    files,
    batch_size,
    *,
    label=None,
    shuffle=0,
    seed=None,
    repeat=False,
    drop_remainder=False,
    cycle_length=16,
    compression=COMPRESSION,
):
    """Reads files, and gives batches of what `parse` returns.

    files: a path, a directory, a pattern like "shards/train-*", or a list of these.
    label: a column, if elements are to be pairs of the other columns and this one: what `fit` of Keras takes.
    shuffle: how many records to shuffle among. The files are shuffled too. 0 keeps the order of the files, of which
        `cycle_length` are read side by side, a record of each in turn.
    seed: makes two shuffles equal.
    repeat: True for ever, or how many times.
    drop_remainder: whether the last batch may be left out, so that all are of one size.
    compression: "", "GZIP", "ZLIB", or None to go by the first file's name.
    """
    patterns = [files] if isinstance(files, (str, os.PathLike)) else files
    names = set()
    for pattern in map(os.fspath, patterns):
        names.update(tf.io.gfile.glob(f"{pattern}/*.tfrecord*" if tf.io.gfile.isdir(pattern) else pattern))
    names = sorted(name for name in names if not name.endswith((".idx", ".tfindex")))
    if not names:
        raise FileNotFoundError(f"no file is {files}")
    if compression is None:
        compression = {".gz": "GZIP", ".zlib": "ZLIB"}.get(os.path.splitext(names[0])[1], "")
    records = tf.data.Dataset.from_tensor_slices(names)
    if shuffle:
        records = records.shuffle(len(names), seed=seed)
    records = records.interleave(
        lambda name: tf.data.TFRecordDataset(name, compression_type=compression),
        cycle_length=min(cycle_length, len(names)),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=not shuffle or seed is not None,
    )
    if shuffle:
        records = records.shuffle(shuffle, seed=seed)
    if repeat:
        records = records.repeat(None if repeat is True else repeat)
    records = records.batch(batch_size, drop_remainder=drop_remainder)
    batches = records.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    if label is not None:
        batches = batches.map(lambda features: (features, features.pop(label)))
    return batches.prefetch(tf.data.AUTOTUNE)
