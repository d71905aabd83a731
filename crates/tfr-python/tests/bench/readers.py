"""Rows per second of CPU time of this package and of other readers, on the same records.

    readers.py DIRECTORY [--rows 200000] [--only REGEX] [--runs 3]

DIRECTORY gets the records as TFRecord, ArrayRecord and MDS, the format of MosaicML streaming, if it does not exist. What a
reader needs and is not installed is named in place of its figures: TensorFlow, grain, tfrecord, mosaicml-streaming. Records
by number come in a random order of all of them.

Each reader runs in a process of its own, three times, on one thread where it has a choice. The CPU time is that of the
process, without imports and without the first batch. Peak memory is that of the process. The ratios are CPU seconds for a row,
relative to those of `tfr_sql.Loader`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import resource
import statistics
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import numpy as np

BATCH = 256

#: How often our readers read the records; others take long enough for one time.
EPOCHS = 20


def make(directory: str, rows: int) -> None:
    """Writes records of 10 features, one of them a list of 64 floats, in 4 shards of each format."""
    import pyarrow as pa

    import tfr_sql

    random = np.random.default_rng(7)
    columns: dict[str, Any] = {f"i{k}": random.integers(0, 10 ** (k + 2), rows) for k in range(4)}
    columns |= {f"f{k}": random.random(rows, np.float32) for k in range(3)}
    columns |= {f"s{k}": pa.array([f"text {i % 1000}" for i in range(rows)]) for k in range(2)}
    columns["v"] = pa.FixedSizeListArray.from_arrays(pa.array(random.random(rows * 64, np.float32)), 64)
    table = pa.table(columns)
    tfr_sql.write_tfrecord(table, f"{directory}/tfrecord", shards=4, emit=["index"])
    tfr_sql.write_tfrecord(table, f"{directory}/array_record", shards=4, record_format="array_record")
    try:
        from streaming import MDSWriter
    except ImportError:
        return
    kinds = {"l": "int64", "f": "float32", "s": "str"}
    types = {name: kinds[{"i": "l"}.get(name[0], name[0])] for name in columns if name != "v"}
    with MDSWriter(out=f"{directory}/mds", columns=types | {"v": "ndarray:float32:64"}) as out:
        for batch in table.to_batches(max_chunksize=1000):
            numbers = {name: batch.column(name).to_numpy() for name in types if types[name] != "str"}
            texts = {name: batch.column(name).to_pylist() for name in types if types[name] == "str"}
            vectors = batch.column("v").values.to_numpy().reshape(-1, 64)
            for row in range(len(batch)):
                values = {name: column[row] for name, column in (numbers | texts).items()}
                out.write(values | {"v": vectors[row]})


def loader(directory: str, **options: Any) -> Iterator[int]:
    import tfr_sql

    loader = tfr_sql.Loader(f"{directory}/tfrecord", batch_size=BATCH, epochs=EPOCHS, **options)
    return (len(batch["i0"]) for batch in loader)


def loader_torch(directory: str) -> Iterator[int]:
    from tfr_sql.torch import TFRecordDataset

    return (len(batch["i0"]) for batch in TFRecordDataset(f"{directory}/tfrecord", batch_size=BATCH, epochs=EPOCHS))


def iter_dataset(directory: str) -> Iterator[int]:
    from tfr_sql.jax import TFRecordIterDataset

    data: Any = TFRecordIterDataset(f"{directory}/tfrecord", batch_size=BATCH, epochs=EPOCHS)
    return (len(batch["i0"]) for batch in data)


def by_number(directory: str, kind: str) -> Iterator[int]:
    import tfr_sql

    source = tfr_sql.RecordSource(f"{directory}/{kind}")
    order = np.random.default_rng(1).permutation(len(source))
    return (len(source.__getitems__(order[at : at + BATCH])) for at in range(0, len(source), BATCH))


def grain_by_number(directory: str, kind: str) -> Iterator[int]:
    import grain

    from tfr_sql.jax import TFRecordSource

    rows = grain.MapDataset.source(TFRecordSource(f"{directory}/{kind}")).shuffle(seed=1).batch(BATCH)
    return (len(batch["i0"]) for batch in rows.to_iter_dataset(grain.ReadOptions(num_threads=1)))


def grain_array_record(directory: str, parse: bool) -> Iterator[int]:
    import grain
    import tfr_sql

    paths = sorted(map(str, Path(f"{directory}/array_record").glob("*.array_record")))
    rows = grain.MapDataset.source(grain.sources.ArrayRecordDataSource(paths)).shuffle(seed=1).batch(BATCH, batch_fn=list)
    decoder = tfr_sql.Decoder(tfr_sql.schema(f"{directory}/tfrecord"))
    for batch in rows.to_iter_dataset(grain.ReadOptions(num_threads=1)):
        if parse:
            decoder.parse(batch)
        yield len(batch)


def grain_tfrecord(directory: str, parse: bool) -> Iterator[int]:
    from grain.experimental import TFRecordIterDataset

    import tfr_sql

    decoder = tfr_sql.Decoder(tfr_sql.schema(f"{directory}/tfrecord"))
    for shard in shards(directory):
        for batch in TFRecordIterDataset(shard).batch(BATCH, batch_fn=list):
            if parse:
                decoder.parse(batch)
            yield len(batch)


def mosaicml(directory: str, shuffle: bool) -> Iterator[int]:
    from streaming import StreamingDataset

    data = StreamingDataset(local=f"{directory}/mds", shuffle=shuffle, batch_size=BATCH, num_canonical_nodes=1)
    return (1 for _ in data)


def shards(directory: str) -> list[str]:
    return sorted(map(str, Path(f"{directory}/tfrecord").glob("*.tfrecord")))


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
    "tfr_sql.jax.TFRecordIterDataset": (iter_dataset, {}),
    "tfr_sql.RecordSource, TFRecord by number": (by_number, {"kind": "tfrecord"}),
    "tfr_sql.RecordSource, ArrayRecord by number": (by_number, {"kind": "array_record"}),
    "grain, TFRecordSource over ArrayRecord": (grain_by_number, {"kind": "array_record"}),
    "grain, ArrayRecordDataSource, bytes only": (grain_array_record, {"parse": False}),
    "grain, ArrayRecordDataSource, Decoder": (grain_array_record, {"parse": True}),
    "grain, its TFRecordIterDataset, bytes only": (grain_tfrecord, {"parse": False}),
    "grain, its TFRecordIterDataset, Decoder": (grain_tfrecord, {"parse": True}),
    "MosaicML streaming": (mosaicml, {"shuffle": False}),
    "MosaicML streaming, shuffle": (mosaicml, {"shuffle": True}),
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
    parser = argparse.ArgumentParser()
    parser.add_argument("directory")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--only", default="", help="a regular expression for names of readers")
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    if not os.path.exists(asked.directory):
        # In a process of its own: a process begins with the peak of the one that has started it.
        writer = context.Process(target=make, args=(asked.directory, asked.rows))
        writer.start()
        writer.join()
    results: dict[str, Any] = {}
    for name in READERS:
        if not re.search(asked.only, name):
            continue
        runs = []
        for _ in range(asked.runs):
            receive, send = context.Pipe(duplex=False)
            process = context.Process(target=measure, args=(name, asked.directory, send))
            process.start()
            send.close()
            try:
                runs.append(receive.recv())
            except EOFError:
                runs.append("failed")
            process.join()
            if isinstance(runs[-1], str):
                break
        if isinstance(runs[-1], str):
            results[name] = runs[-1]
            continue
        rates = [read / seconds for read, seconds, *_ in runs]
        walls = [read / wall for read, _, wall, *_ in runs]
        results[name] = {
            "rows per CPU second": round(statistics.median(rates)),
            "of": [round(min(rates)), round(max(rates))],
            "rows per second": round(statistics.median(walls)),
            "peak MiB": max(run[3] for run in runs),
        }
    base = results.get("tfr_sql.Loader")
    for result in results.values():
        if isinstance(base, dict) and isinstance(result, dict):
            result["CPU seconds, relative"] = round(base["rows per CPU second"] / result["rows per CPU second"], 2)
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
