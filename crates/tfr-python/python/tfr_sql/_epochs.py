"""The positions in a dataset from which the workers of a process read."""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import sys
import tempfile
import weakref
from contextlib import contextmanager
from multiprocessing import context, reduction
from typing import Any, Callable, Iterator, NamedTuple

#: How many begun iterations are recorded. Workers that begin several are only a few apart: as far as they prefetch.
_RECORDED = 16


class Worker(NamedTuple):
    """A worker process of a `DataLoader`."""

    number: int
    #: The same for all workers of an iteration.
    seed: int


class EpochCounter:
    """The epoch and step that the next iteration begins with, shared by a process and its workers, forked or spawned.

    The process that makes workers does not learn when, so the workers themselves advance the epoch. They agree on it: the
    first worker of an iteration takes the next position and records it for the others. An iteration is recognized by the
    seed that PyTorch draws for it. A worker that begins again with the same seed begins another iteration.

    The record is in a file without a name, with an entry for each process that has the dataset: ranks that were started
    with it count on their own. So does a copy that is not made for another process.
    """

    def __init__(self, following: int = 0, step: int = 0) -> None:
        self._open(_new_file())
        process = str(os.getpid())
        self._write({"creator": process, "entries": {process: _new_entry(following, step)}})

    def _open(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._close = weakref.finalize(self, os.close, descriptor)

    def begin(self, worker: Worker | None, end: Callable[[int], int], at: tuple[int, int] | None = None) -> tuple[int, int]:
        """Begins an iteration, and returns its first epoch and step.

        `worker` is None in the process that has the dataset. `end` returns the end of an iteration that begins with an
        epoch. `at` is the position of an iteration that continues another.
        """
        with self._entry(worker) as entry:
            following = entry["following"]
            epoch, step = (following, entry["step"]) if at is None else at
            if worker is not None:
                begun = entry["begun"]
                for one in begun:
                    if one["seed"] == worker.seed and worker.number not in one["workers"]:
                        one["workers"].append(worker.number)
                        if at is None:
                            return int(one["epoch"]), int(one["step"])
                        # Workers that continue may be in different epochs.
                        entry["following"] = max(following, end(epoch))
                        return at
                begun.append({"seed": worker.seed, "epoch": epoch, "step": step, "workers": [worker.number]})
                del begun[:-_RECORDED]
            else:
                entry["begun"] = []
            entry["following"], entry["step"] = end(epoch), 0
            return int(epoch), int(step)

    def has_workers(self) -> bool:
        """Whether workers of this process have begun an iteration."""
        with self._entry(None) as entry:
            return bool(entry["begun"])

    def has_begun(self, worker: Worker | None, epoch: int) -> None:
        """Records that an iteration without an end has begun this epoch, which the next iteration does not repeat."""
        with self._entry(worker) as entry:
            if epoch + 1 > entry["following"]:
                entry["following"], entry["step"] = epoch + 1, 0

    def set(self, following: int, step: int) -> None:
        """Lets the next iteration begin with this epoch and step, without regard to those of workers before."""
        with self._entry(None) as entry:
            entry["following"], entry["step"], entry["begun"] = following, step, []

    @contextmanager
    def _entry(self, worker: Worker | None) -> Iterator[dict[str, Any]]:
        """Yields the entry of the process that has the dataset, and writes it back. No other process changes it meanwhile."""
        # This kind of lock is of a process, though forked processes share the open file, and ends with its process.
        fcntl.lockf(self._descriptor, fcntl.LOCK_EX)
        try:
            record = self._read()
            entries = record["entries"]
            process = str(os.getpid() if worker is None else _parent())
            if process not in entries:
                creator = entries[record["creator"]]
                entries[process] = _new_entry(creator["following"], creator["step"])
            yield entries[process]
            self._write(record)
        finally:
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN)

    def _read(self) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(os.pread(self._descriptor, os.fstat(self._descriptor).st_size, 0))
        return record

    def _write(self, record: dict[str, Any]) -> None:
        text = json.dumps(record).encode()
        os.pwrite(self._descriptor, text, 0)
        os.ftruncate(self._descriptor, len(text))

    def __reduce__(self) -> Any:
        if context.get_spawning_popen() is None:
            with self._entry(None) as entry:
                return EpochCounter, (entry["following"], entry["step"])
        # The process that is being started receives the descriptor.
        return _received, (reduction.DupFd(self._descriptor),)


def _new_entry(following: int, step: int) -> dict[str, Any]:
    return {"following": following, "step": step, "begun": []}


def _received(descriptor: Any) -> EpochCounter:
    counter = EpochCounter.__new__(EpochCounter)
    counter._open(descriptor.detach())
    return counter


def _parent() -> int:
    """Returns the id of the process that made this worker. The operating system may name the server that forked it."""
    parent = multiprocessing.parent_process()
    return os.getppid() if parent is None or parent.pid is None else parent.pid


def _new_file() -> int:
    if sys.platform == "linux":
        return os.memfd_create("tfr_sql_epochs")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
