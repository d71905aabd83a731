"""Checked by `mypy --strict`: the types that users see."""

from __future__ import annotations

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
    print(first, ok, text, row, tfr.manifest(paths[0])["totals"])


def job(out: str, rows: ArrowRows) -> str:
    job = tfr.start_write(out, tfr.schema("shards/"), shard_size="64MiB", mode="append", mapping={"a": "string"}, emit=["index"])
    reports: list[bytes] = [job.stage(0, rows), job.stage(1, iter([rows]), threads=2)]
    totals: dict[str, int] = job.commit(reports, tasks=2)["totals"]
    job.abort()
    return f"{job.out} {totals}"


def errors(error: tfr.TfrError) -> tuple[str | None, int | None]:
    if isinstance(error, tfr.DataError):
        return error.file, error.record
    return error.hint, None


def test_nothing_here_runs() -> None:
    assert callable(batches) and callable(others) and callable(job) and callable(errors)
