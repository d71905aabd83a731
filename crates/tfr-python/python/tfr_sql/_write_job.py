"""Sets that tasks in several processes write: stage anywhere, publish once."""

from __future__ import annotations

import inspect
import json
import os
import re
import weakref
from typing import Any, Iterable, Literal, Mapping, Protocol, Sequence, Union

from . import _native
from ._arrow import input_error, refuse_series
from ._errors import UsageError
from ._manifest import Manifest
from ._paths import StrPath
from ._schema import ArrowSchema, check_schema


class ArrowStream(Protocol):
    """Rows of pyarrow, pandas, polars, duckdb and others."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class ArrowArray(Protocol):
    """A record batch."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...


ArrowRows = Union[ArrowStream, ArrowArray]

_MAX_TASK = 2**32 - 1


def start_write(
    out: StrPath,
    schema: ArrowSchema,
    *,
    shard_rows: int | None = None,
    shard_size: str | int | None = None,
    record_format: Literal["tfrecord", "array_record"] = "tfrecord",
    group_size: int | None = None,
    compression: Literal["gzip", "zlib", "zstd"] | None = None,
    level: int | None = None,
    prefix: str = "part",
    mode: Literal["error", "overwrite", "append"] = "error",
    mapping: Mapping[str, str] | None = None,
    null: Literal["absent", "unset", "empty", "error", "mask", "drop"] | None = None,
    record_type: Literal["example", "sequence-example", "elwc", "bytes"] | None = None,
    sequence: Sequence[str] = (),
    separator: str | None = None,
    strict: bool = False,
    emit: Sequence[Literal["index"]] = (),
) -> WriteJob:
    """Starts a shard set in the directory `out`, whose rows are written by tasks in any processes.

    `schema` has the columns of all rows: anything with `__arrow_c_schema__`. All processes must see the directory under
    the same path. The options are those of the command. `shard_rows` and `shard_size` apply to each task: its last shard
    may be smaller.

    >>> job = tfr.start_write("staged/", rides.schema)
    >>> reports = [job.stage(task, rides.slice(3 * task, 3)) for task in range(2)]
    >>> job.commit(reports, tasks=2).rows
    6
    """
    __tracebackhide__ = True
    path = os.fspath(out)
    scheme = re.match(r"([a-z][a-z0-9+.-]*)://", path, re.IGNORECASE)
    if scheme:
        raise UsageError(
            f"{path}: expected a directory, found a URL of {scheme[1]}",
            hint="Write to a directory that all processes see. tfr-sql writes to object stores.",
        )
    sidecars = {emit} if isinstance(emit, str) else set(emit)
    if sidecars - {"index"}:
        raise UsageError(f"emit has {sorted(sidecars - {'index'})}, expected only 'index' if tasks write the set")
    return WriteJob(
        _native.WriteJob.start(
            path,
            check_schema(schema, "schema"),
            shard_rows=shard_rows,
            shard_size=None if shard_size is None else str(shard_size),
            record_format=record_format,
            group_size=group_size,
            compression=compression,
            level=level,
            prefix=prefix,
            mode=mode,
            mapping=None if mapping is None else dict(mapping),
            null=null,
            record_type=record_type,
            sequence=[sequence] if isinstance(sequence, str) else list(sequence),
            separator=separator,
            strict=strict,
            index="index" in sidecars,
        )
    )


class WriteJob:
    """A shard set that is started and not yet published. It can be pickled, and used in any process.

    Nothing has to run from start to end. What is staged is not mistaken for that of a killed run until 24 hours after a
    task has begun or ended.
    """

    def __init__(self, job: _native.WriteJob) -> None:
        """Use `start_write` instead."""
        self._job = job

    def __repr__(self) -> str:
        return f"WriteJob(out={str(self._job.out)!r}, run={self._job.run!r})"

    @property
    def out(self) -> str:
        """The directory of the set."""
        return os.fspath(self._job.out)

    def stage(self, task_id: int, data: ArrowRows | Iterable[ArrowRows], *, threads: int = 1) -> bytes:
        """Writes the rows of a task to shards that no reader sees yet, and returns a small report for `commit`.

        Tasks are numbered from 0, and the rows of the set are in their order. `data` has `__arrow_c_stream__` or
        `__arrow_c_array__`, or is an iterable of such objects. Its columns are those of the job's schema.

        A task may be repeated, and several attempts of it may run at the same time. If this raises, or the process is
        killed, the attempt does not count.
        """
        __tracebackhide__ = True
        if isinstance(task_id, bool) or not isinstance(task_id, int) or not 0 <= task_id <= _MAX_TASK:
            raise UsageError(f"task_id is {task_id!r}, expected a number from 0 to {_MAX_TASK}")
        writer = self._job.task(task_id, threads=threads)
        try:
            for rows in _parts(data):
                try:
                    writer.write(rows)
                except (TypeError, ValueError, NotImplementedError) as error:
                    raise input_error(error, rows, "data") from None
            return writer.finish()
        finally:
            writer.close()

    def commit(self, reports: Iterable[bytes | None], *, tasks: int | None = None) -> Manifest:
        """Publishes the set, all or nothing, and returns its manifest.

        `reports` has one report of each task, in any order. If it has several of a task, the newest counts. A task
        without a report is an error that names it, after which the set can still be published. `tasks` is the number of
        tasks; without it, the tasks are those up to the last one that has a report.

        Whatever else is staged is discarded.
        """
        __tracebackhide__ = True
        messages: list[bytes] = []
        for position, report in enumerate(reports):
            if not isinstance(report, (bytes, bytearray, memoryview)):
                raise UsageError(f"reports[{position}] is {report!r}, expected the bytes that stage has returned")
            messages.append(bytes(report))
        return Manifest(json.loads(self._job.commit(messages, tasks=tasks)), out=self.out)

    def abort(self) -> None:
        """Discards what is staged. Does nothing if the set is published or aborted."""
        self._job.abort()


#: Objects that can be read once, and have been.
_READ: weakref.WeakSet[Any] = weakref.WeakSet()


def _parts(data: Any) -> Iterable[Any]:
    """Returns objects of Arrow's interface."""
    __tracebackhide__ = True
    refuse_series(data, "data")
    _refuse_exhausted(data)
    if _has_rows(data):
        return (data,)
    if isinstance(data, (str, bytes, Mapping)) or not hasattr(data, "__iter__"):
        raise UsageError(f"data is a {type(data).__name__}, expected Arrow data or an iterable of it")
    return _checked(data)


def _checked(batches: Iterable[Any]) -> Iterable[Any]:
    __tracebackhide__ = True
    for batch in batches:
        if not _has_rows(batch):
            raise UsageError(f"data contains a {type(batch).__name__}, expected Arrow data")
        yield batch


def _refuse_exhausted(data: Any) -> None:
    """Refuses what was read before, which would be a task without rows if it were read again."""
    if not hasattr(data, "__next__") and not hasattr(data, "read_next_batch"):
        return
    is_ended = inspect.isgenerator(data) and inspect.getgeneratorstate(data) == inspect.GEN_CLOSED
    try:
        is_ended = is_ended or data in _READ
        _READ.add(data)
    except TypeError:
        # Some objects have no weak references, or cannot be hashed.
        pass
    if is_ended:
        raise UsageError(
            f"data is a {type(data).__name__} that has been read before",
            hint="Create it in the task, so that each attempt has its own.",
        )


def _has_rows(data: Any) -> bool:
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")
