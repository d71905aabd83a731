"""Checked by `mypy --strict`: the types that users see."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np

import tfr_sql as tfr
from tfr_sql._write_job import ArrowRows


def batches(paths: str) -> list[int]:
    loader = tfr.Loader(paths, batch_size=3, columns=["a"], shuffle=1, equal="truncate", pad_to={"b": 4}, fill={"a": 0})
    sizes = []
    for batch in loader:
        column = batch["a"]
        if isinstance(column, tfr.Ragged):
            splits: np.ndarray[Any, np.dtype[np.int64]] = column.row_splits
            sizes.append(int(splits[-1]))
        elif not isinstance(column, dict):
            sizes.append(column.size)
    state: dict[str, Any] = loader.state_dict()
    loader.load_state_dict(state)
    return sizes


def others(paths: list[str]) -> None:
    first: bytes = next(tfr.scan_records(paths))
    ok: bool = tfr.verify(paths).ok
    text: str = tfr.schema(paths, "pbtxt")
    row: dict[str, Any] = tfr.RecordSource(paths)[0]
    rest: list[bytes] = list(tfr.scan_records(paths, start=3))
    stats: tfr.Stats = tfr.stats(paths[0])
    proto: bytes = stats.to_proto()
    written: list[Path] = tfr.describe(paths[0], emit=["tfds"], out="described")
    print(first, ok, text, row, rest, tfr.manifest(paths[0])["totals"], stats["a"]["mean"], proto, written)


def job(out: str, rows: ArrowRows) -> str:
    job = tfr.start_write(out, tfr.schema("shards/"), shard_size="64MiB", mode="append", mapping={"a": "string"}, emit=["index"])
    reports: list[bytes] = [job.stage(0, rows), job.stage(1, iter([rows]), threads=2)]
    manifest: tfr.Manifest = job.commit(reports, tasks=2)
    totals: dict[str, int] = manifest["totals"]
    job.abort()
    return f"{job.out} {totals}"


def queries(table: tfr.Query) -> tuple[int, dict[str, str]]:
    query = tfr.sql("SELECT * FROM t", tables={"t": table}, threads=2)
    arrays: dict[str, Any] = next(query.batches()).to_numpy()
    manifest = query.write("out", shards={"train": 2}, shuffle=7, split=["train=1"], map={"a": "string"}, strict=True)
    losses: dict[str, str] = query.plan(compression="gzip", level=9).losses
    read: tfr.Query = tfr.read_tfrecord(["out"], columns=list(arrays), split="train", crc="skip", threads=1)
    print(read.explain(), tfr.reshard("out", "other", hosts=2).files)
    return tfr.write_tfrecord(table, "again", progress=lambda progress: print(progress.share)).rows + manifest.rows, losses


def results(query: tfr.Query) -> None:
    rows: list[int] = [batch.num_rows for batch in query]
    names: list[str] = query.schema.names
    arrays: dict[str, Any] = next(query.batches()).to_numpy(fill={"a": np.int64(1), "b": datetime.date(2026, 1, 1)})
    print(rows, names, arrays, query.arrow(), query.to_pandas(), query.df(), query.pl(), tfr.__version__)


def inputs(array: np.ndarray[Any, np.dtype[np.int64]]) -> None:
    rows: list[dict[str, Any]] = [{"a": 1}]
    for data in ({"a": array, "b": [1]}, rows, iter(rows), array):
        tfr.write_tfrecord(data, "out", mode="overwrite")


def errors(error: tfr.TfrError) -> tuple[str | None, int | None]:
    if isinstance(error, tfr.DataError):
        return error.file, error.record
    return error.hint, None


def test_nothing_here_runs() -> None:
    assert all(map(callable, [batches, others, job, queries, results, inputs, errors]))
