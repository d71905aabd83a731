"""Rows per second of CPU time of this package and of other readers, on the same records: readers.py DIRECTORY [ROWS].

Each reader runs in a process of its own, three times, on one thread where it has a choice. The CPU time is that of the
process, without imports and without the first batch. Peak memory is that of the process.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import numpy as np

BATCH = 256

#: How often our readers read the records; others take long enough for one time.
EPOCHS = 20


def make(directory: str, rows: int) -> None:
    """Writes records of 10 features, one of them a list of 64 floats, in 4 shards."""
    import pyarrow as pa

    import tfr_sql

    random = np.random.default_rng(7)
    columns: dict[str, Any] = {f"i{k}": random.integers(0, 10 ** (k + 2), rows) for k in range(4)}
    columns |= {f"f{k}": random.random(rows, np.float32) for k in range(3)}
    columns |= {f"s{k}": pa.array([f"text {i % 1000}" for i in range(rows)]) for k in range(2)}
    columns["v"] = pa.FixedSizeListArray.from_arrays(pa.array(random.random(rows * 64, np.float32)), 64)
    tfr_sql.write_tfrecord(pa.table(columns), directory, shards=4)


def loader(directory: str, **options: Any) -> Iterator[int]:
    import tfr_sql

    loader = tfr_sql.Loader(directory, batch_size=BATCH, epochs=EPOCHS, **options)
    return (len(batch["i0"]) for batch in loader)


def loader_torch(directory: str) -> Iterator[int]:
    from tfr_sql.torch import TFRecordDataset

    return (len(batch["i0"]) for batch in TFRecordDataset(directory, batch_size=BATCH, epochs=EPOCHS))


def shards(directory: str) -> list[str]:
    return sorted(map(str, Path(directory).glob("*.tfrecord")))


def vahidk(directory: str) -> Iterator[int]:
    from tfrecord.reader import tfrecord_loader

    kinds = {**{f"i{k}": "int" for k in range(4)}, **{f"f{k}": "float" for k in range(3)}, "s0": "byte", "s1": "byte", "v": "float"}
    for shard in shards(directory):
        for _ in tfrecord_loader(shard, None, kinds):
            yield 1


def vahidk_torch(directory: str) -> Iterator[int]:
    from tfrecord.torch.dataset import TFRecordDataset
    from torch.utils.data import DataLoader

    numbers = {**{f"i{k}": "int" for k in range(4)}, **{f"f{k}": "float" for k in range(3)}, "v": "float"}
    for shard in shards(directory):
        for batch in DataLoader(TFRecordDataset(shard, None, numbers), batch_size=BATCH):
            yield len(batch["i0"])


def tensorflow(directory: str) -> Iterator[int]:
    import tensorflow as tf

    one = {f"i{k}": tf.io.FixedLenFeature([], tf.int64) for k in range(4)}
    one |= {f"f{k}": tf.io.FixedLenFeature([], tf.float32) for k in range(3)}
    one |= {f"s{k}": tf.io.FixedLenFeature([], tf.string) for k in range(2)}
    one["v"] = tf.io.FixedLenFeature([64], tf.float32)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    records = tf.data.TFRecordDataset(shards(directory)).batch(BATCH).map(lambda batch: tf.io.parse_example(batch, one))
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    return (len(batch["i0"]) for batch in records.with_options(options).as_numpy_iterator())


READERS: dict[str, tuple[Callable[..., Iterator[int]], dict[str, Any]]] = {
    "tfr_sql.Loader": (loader, {}),
    "tfr_sql.Loader, shuffle": (loader, {"shuffle": 1}),
    "tfr_sql.Loader, numbers only": (loader, {"columns": ["i0", "i1", "i2", "i3", "f0", "f1", "f2", "v"]}),
    "tfr_sql.Loader, 2 columns": (loader, {"columns": ["i0", "v"]}),
    "tfr_sql.torch.TFRecordDataset": (loader_torch, {}),
    "tf.data": (tensorflow, {}),
    "tfrecord (vahidk), loop": (vahidk, {}),
    "tfrecord (vahidk), torch": (vahidk_torch, {}),
}


def measure(name: str, directory: str, connection: Any) -> None:
    reader, options = READERS[name]
    try:
        rows = reader(directory, **options)
        first = next(rows)
    except ImportError as error:
        connection.send(str(error))
        return
    start, started = time.process_time(), time.perf_counter()
    read = sum(rows)
    seconds, wall = time.process_time() - start, time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    connection.send((read, seconds, wall, peak, first))


def main() -> None:
    directory = sys.argv[1]
    if not os.path.exists(directory):
        make(directory, int(sys.argv[2]) if len(sys.argv) > 2 else 200_000)
    context = multiprocessing.get_context("spawn")
    results: dict[str, Any] = {}
    for name in READERS:
        runs = []
        for _ in range(3):
            receive, send = context.Pipe(duplex=False)
            process = context.Process(target=measure, args=(name, directory, send))
            process.start()
            runs.append(receive.recv())
            process.join()
        if isinstance(runs[0], str):
            results[name] = runs[0]
            continue
        rates = [read / seconds for read, seconds, *_ in runs]
        walls = [read / wall for read, _, wall, *_ in runs]
        results[name] = {
            "rows per CPU second": round(statistics.median(rates)),
            "of": [round(min(rates)), round(max(rates))],
            "rows per second": round(statistics.median(walls)),
            "peak MiB": max(run[3] for run in runs),
        }
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
