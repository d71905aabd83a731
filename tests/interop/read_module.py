"""Reads the one shard of each set by the Python module that `tfr-sql schema --as python` printed of it.

Arguments: the module and the directory of each set. Prints, for each, the columns of what `parse` returns as a line of JSON:
rows as lists, of a sparse tensor those of its values, and text for bytes.
"""

import glob
import json
import sys

import tensorflow as tf


def rows(tensor):
    if isinstance(tensor, tf.SparseTensor):
        rows = [[] for _ in range(tensor.dense_shape[0])]
        for (row, *_), value in zip(tensor.indices.numpy(), tensor.values.numpy().tolist(), strict=True):
            rows[row].append(value)
        return rows
    return tensor.to_list() if isinstance(tensor, tf.RaggedTensor) else tensor.numpy().tolist()


def text(value):
    if isinstance(value, list):
        return [text(inner) for inner in value]
    return value.decode() if isinstance(value, bytes) else value


def columns(path, directory):
    module = {}
    with open(path, encoding="utf-8") as file:
        exec(compile(file.read(), path, "exec"), module)
    (shard,) = glob.glob(f"{glob.escape(directory)}/*record")
    if shard.endswith(".array_record"):
        # All records are one batch.
        (parsed,) = module["dataset"](directory, batch_size=1_000_000)
        (shuffled,) = module["dataset"](shard, batch_size=1_000_000, shuffle=True, seed=7)
        assert len(tf.nest.flatten(shuffled)) == len(tf.nest.flatten(parsed))
    else:
        records = [record.numpy() for record in tf.data.TFRecordDataset(shard)]
        # In a graph, as `Dataset.map` runs it.
        (parsed,) = tf.data.Dataset.from_tensors(tf.constant(records)).map(module["parse"])
    parsed = parsed[0] if isinstance(parsed, tuple) else parsed
    return {name: text(rows(tensor)) for name, tensor in parsed.items()}


if __name__ == "__main__":
    for path, directory in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        print(json.dumps(columns(path, directory)))
