"""Reads shards by their indexes with `tfrecord`, the reader for PyTorch.

Arguments: a directory of shards; the name of an index, with `*` for that of its shard without `.tfrecord`. Prints the ids of the
records, sorted, as JSON: those that workers find who share each file, and those that a reader finds who begins at any record.

It registers a `tensorflow.Example` of its own, and so does not go together with TensorFlow in one process.
"""

import glob
import json
import os
import sys

import tfrecord

WORKERS = 3


def ids(shard, index, worker=None):
    # An int64 list of one value.
    return [int(row["id"][0]) for row in tfrecord.tfrecord_loader(shard, index, {"id": "int"}, shard=worker)]


if __name__ == "__main__":
    directory, name = sys.argv[1:]
    by_workers, from_anywhere = [], []
    for shard in sorted(glob.glob(f"{directory}/*.tfrecord")):
        stem = os.path.basename(shard).removesuffix(".tfrecord")
        index = os.path.join(directory, name.replace("*", stem))
        for worker in range(WORKERS):
            by_workers += ids(shard, index, (worker, WORKERS))
        from_anywhere += ids(shard, index)
    json.dump({"by_workers": sorted(by_workers), "from_anywhere": sorted(from_anywhere)}, sys.stdout)
