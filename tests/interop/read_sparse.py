"""Reads two columns of a shard set as one sparse tensor, and prints it: rows of [position, value], as JSON."""

import glob
import json
import sys

import tensorflow as tf

SPEC = {"weights": tf.io.SparseFeature("at", "weight", tf.float32, size=100)}

if __name__ == "__main__":
    (shard,) = glob.glob(f"{sys.argv[1]}/*.tfrecord")
    records = [record.numpy() for record in tf.data.TFRecordDataset(shard)]
    weights = tf.io.parse_example(tf.constant(records), SPEC)["weights"]
    rows = [[] for _ in records]
    for (row, at), value in zip(weights.indices.numpy().tolist(), weights.values.numpy().tolist(), strict=True):
        rows[row].append([at, value])
    json.dump(rows, sys.stdout)
