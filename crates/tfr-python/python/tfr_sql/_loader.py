"""Batches of TFRecord files for training."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, Literal, Mapping, Sequence, Union

import numpy as np

from . import _native
from ._errors import UsageError
from ._fill import Fill, native_fill
from ._paths import Paths, StrPath, access, expand_records
from ._ragged import Ragged
from ._schema import check_schema
from ._warnings import skips_damaged, warn_of_damage, warn_of_missing

Column = Union["np.ndarray[Any, Any]", Ragged, Dict[str, Any]]
Batch = Dict[str, Column]
Equal = Literal["truncate", "repeat", "none"]

#: The version of `Loader.state_dict`. States of version 1 had the number of readers in place of the global batch.
_STATE_VERSION = 2


class Loader:
    """Reads TFRecord files as batches: a dictionary of a numpy array for each column.

    The files are those of a path or URL, several of these or a pattern: `s3://`, `gs://`, `az://`, `https://` and `hdfs://`
    with the credentials that the command finds in the environment. A directory with a manifest is read as the manifest says;
    columns then have the types that were written. Files of other tools work too: their columns are inferred from the
    first records, unless `schema` gives them, and their records are counted by reading the length of each.

    What a column becomes:

    * Numbers, booleans: an array of their type. A missing float is NaN; a missing integer or boolean is a `DataError`
      unless `fill` has a value for the column.
    * Dates and times: `datetime64` or `timedelta64`. A missing one is NaT.
    * Strings and bytes: an object array of `str` or `bytes`. A missing one is None.
    * Lists of equal length: an array with one more dimension.
    * Other lists: a `Ragged`, or a padded array. A missing list is empty.
    * Structs: a dictionary.

    Arguments:

    * `columns`: the columns to read, in this order. Other features are skipped.
    * `split`: read only the shards of this split of the set.
    * `schema`: the columns, as anything with `__arrow_c_schema__`. Features are read in the types that it gives.
    * `batch_size`: the number of rows of a batch of this rank.
    * `global_batch`: in place of `batch_size`, the number of rows of the batches of all ranks together, which is a
      multiple of `world_size`. It decides which rows a step has, so another number of ranks reads the same steps.
    * `shuffle`: a seed. Each epoch has another order: that of blocks of about 16 MiB, from all shards, and then that of
      the rows within `shuffle_buffer` rows, which come from up to 64 places. Its default is 65,536, or as many as fit
      128 MiB. These are the rows of all ranks together.
    * `epochs`: how often one iteration reads the rows. None repeats them without end.
    * `rank`, `world_size`: which part of each step to read. Each row is read by one rank, however few shards there are.
      Only the last step of an epoch may be smaller: there, the numbers of rows of the ranks differ by at most one.
    * `worker`, `num_workers`: which steps of the rank to read. The workers of a rank have whole steps in turn.
    * `equal`: "truncate" leaves rows out, "repeat" reads some twice, so that every rank has the same number of rows.
    * `ragged`: "pad" makes lists of scalars as long as the longest of the batch, with zeros or empty strings.
    * `pad_to`: the length of padded lists, by column. A longer list is a `DataError`.
    * `fill`: a value for rows that have none, by column: a number, text, bytes, a date or time, or a scalar of numpy.
    * `prefetch`: how many batches are made ahead.
    * `threads`: how many threads decode records.
    * `crc`: whether the checksums of records are checked.
    * `damaged`: "skip" passes over damaged records and reads what follows in the file. The files are then read once before
      the first batch, to count the intact records. A `DamageWarning` for each damaged file says how many are passed over.
    * `cache`, `cache_size`: a directory for the parts of remote files that are read, and the most bytes in it. Several
      processes share it. The default is `tfr_sql` in the user's directory for caches (`XDG_CACHE_HOME` or `~/.cache`), and "10GB".
    * `allow`: the paths and URLs that may be opened, with all that is below them. Others are refused, also those that a manifest
      or a link names.

    A `for` loop over the loader reads the next epochs, also if the one before was left early. `set_epoch` or
    `load_state_dict` let it begin elsewhere. `state_dict` is the position after the batch that was returned last.

    >>> loader = tfr.Loader("shards/", batch_size=4, columns=["id", "tags"])
    >>> [batch["id"] for batch in loader]
    [array([0, 1, 2, 3]), array([4, 5])]
    >>> next(iter(loader))["tags"]
    Ragged([['a'], [], ['c', 'd'], []])
    """

    def __init__(
        self,
        paths: Paths,
        *,
        batch_size: int | None = None,
        global_batch: int | None = None,
        columns: Sequence[str] | None = None,
        split: str | None = None,
        schema: Any = None,
        shuffle: int | None = None,
        shuffle_buffer: int | None = None,
        epochs: int | None = 1,
        drop_remainder: bool = False,
        rank: int = 0,
        world_size: int = 1,
        worker: int = 0,
        num_workers: int = 1,
        equal: Equal = "none",
        ragged: Literal["splits", "pad"] = "splits",
        pad_to: Mapping[str, int] | None = None,
        fill: Fill | None = None,
        prefetch: int = 2,
        threads: int = 1,
        crc: bool = True,
        damaged: Literal["error", "skip"] = "error",
        cache: StrPath | None = None,
        cache_size: int | str | None = None,
        allow: Sequence[StrPath] | None = None,
    ) -> None:
        __tracebackhide__ = True
        if isinstance(columns, str):
            raise UsageError(f"columns is the string {columns!r}, expected a list of names")
        if isinstance(shuffle, (bool, np.bool_)):
            hint = "Pass a seed: shuffle=7." if shuffle else "Leave it out: without shuffle, rows come in the order of the files."
            raise UsageError(f"shuffle is {shuffle}, expected a seed", hint=hint)
        if (batch_size is None) == (global_batch is None):
            found = "neither batch_size nor" if batch_size is None else "batch_size and"
            raise UsageError(f"{found} global_batch: expected one of them")
        self._batch = (
            None if batch_size is None else _check_number("batch_size", batch_size, 1),
            None if global_batch is None else _check_number("global_batch", global_batch, 1),
        )
        self._data = _native.DataSet(
            expand_records(paths, "Loader", urls=True, limited=allow is not None),
            split=split,
            schema=check_schema(schema, "schema"),
            skips_damaged=skips_damaged(damaged),
            **access(cache, cache_size, allow),
        )
        self._options: dict[str, Any] = {
            "columns": None if columns is None else list(columns),
            "shuffle": None if shuffle is None else _check_number("shuffle", shuffle, 0),
            "shuffle_buffer": None if shuffle_buffer is None else _check_number("shuffle_buffer", shuffle_buffer, 1),
            "drop_remainder": drop_remainder,
            "equal": equal,
            "ragged": ragged,
            "pad_to": dict(pad_to or {}),
            "fill": native_fill(fill, self._data),
            "threads": _check_number("threads", threads, 1),
            "crc": crc,
        }
        self._epochs = None if epochs is None else _check_number("epochs", epochs, 1)
        self._prefetch = _check_number("prefetch", prefetch, 0)
        warn_of_missing(self._data.missing)
        warn_of_damage(self._data.damage[1])
        self._epoch = 0
        self._step = 0
        self._resumed = False
        self._reader = (0, 1, 0, 1)
        self._set_reader(rank, world_size, worker, num_workers)

    def _set_reader(self, rank: int, world_size: int, worker: int, num_workers: int) -> None:
        __tracebackhide__ = True
        _check_number("world_size", world_size, 1)
        _check_number("num_workers", num_workers, 1)
        for name, value, count in [("rank", rank, world_size), ("worker", worker, num_workers)]:
            if not 0 <= value < count:
                raise UsageError(f"{name} is {value}, expected 0 to {count - 1}")
        self._reader = (rank, world_size, worker, num_workers)
        self._global_batch = self._check_batch(world_size)
        self._plan = self._new_plan()

    def _check_batch(self, world_size: int) -> int:
        """Returns the number of rows of the batches of all ranks."""
        __tracebackhide__ = True
        batch_size, global_batch = self._batch
        if global_batch is None:
            return _check_number("the global batch", (batch_size or 1) * world_size, 1)
        if global_batch % world_size:
            raise UsageError(
                f"global_batch is {global_batch}, which {world_size} ranks do not divide",
                hint=f"Use {_nearest(global_batch, world_size)} ranks, or another global_batch.",
            )
        return global_batch

    def __repr__(self) -> str:
        rank, world_size, worker, num_workers = self._reader
        names = ("batch_size", "global_batch")
        options = {**dict(zip(names, self._batch)), **{name: self._options[name] for name in ("columns", "shuffle", "equal")}}
        shown = {name: value for name, value in options.items() if value not in (None, "none")}
        parts = [f"{self.num_rows:,} rows", f"{len(self._data.files):,} files"]
        parts += [f"rank {rank} of {world_size}"] if world_size > 1 else []
        parts += [f"worker {worker} of {num_workers}"] if num_workers > 1 else []
        return f"<Loader of {', '.join(parts)}: {', '.join(f'{name}={value!r}' for name, value in shown.items())}>"

    def _new_plan(self) -> _native.Plan:
        __tracebackhide__ = True
        rank, world_size, worker, num_workers = self._reader
        return _native.Plan(
            self._data,
            global_batch=self._global_batch,
            rank=rank,
            world_size=world_size,
            worker=worker,
            num_workers=num_workers,
            **self._options,
        )

    @property
    def columns(self) -> list[str]:
        """The names of the columns that are read."""
        columns: list[str] | None = self._options["columns"]
        return self._data.columns if columns is None else list(columns)

    @property
    def files(self) -> list[str]:
        """The paths and URLs of the files."""
        return self._data.files

    @property
    def damaged(self) -> int:
        """The number of damaged records that `damaged="skip"` passes over in the files. Adjacent ones may count as one."""
        return self._data.damage[0]

    @property
    def num_rows(self) -> int:
        """The number of rows that this rank reads in an epoch, with all its workers."""
        return self._plan.rows

    def __len__(self) -> int:
        """Returns the number of batches of an iteration."""
        if self._epochs is None:
            raise TypeError("a loader with epochs=None has no length")
        _, _, worker, num_workers = self._reader
        return (self._plan.steps * self._epochs + num_workers - 1 - worker) // num_workers

    def _len_of_rank(self) -> int:
        """Returns the number of batches of an iteration by all workers of the rank."""
        if self._epochs is None:
            raise TypeError("a loader with epochs=None has no length")
        return self._plan.steps * self._epochs

    def __iter__(self) -> Iterator[Batch]:
        if not self._resumed:
            self._epoch, self._step = self._following(), 0
        self._resumed = False
        return _Iterator(self)

    def _following(self) -> int:
        """Returns the first epoch of the next iteration. One that was left early is not repeated."""
        has_begun = self._step > 0 or self._epoch % (self._epochs or 1) > 0
        return self._end_of(self._epoch) if has_begun else self._epoch

    def _end_epoch(self) -> int | None:
        return None if self._epochs is None else self._end_of(self._epoch)

    def _end_of(self, epoch: int) -> int:
        """Returns the end of an iteration that begins with this epoch; of one without end, that of its first epoch."""
        epochs = self._epochs or 1
        return (epoch // epochs + 1) * epochs

    def set_epoch(self, epoch: int) -> None:
        """Lets the next iteration begin with this epoch, counted from 0."""
        self._go_to(_check_number("epoch", epoch, 0), 0)

    def _go_to(self, epoch: int, step: int) -> None:
        self._epoch, self._step, self._resumed = epoch, step, True

    def state_dict(self) -> dict[str, Any]:
        """Returns the position after the batch that was returned last, as values that JSON can hold.

        It fits loaders with the same global batch, for any number of ranks and workers. The workers of a rank have the same
        state when they have returned as many batches. Between two epochs it fits loaders with another global batch, too.
        """
        return self._state_at(self._epoch, self._step)

    def state_at(self, epoch: int, step: int = 0) -> dict[str, Any]:
        """Returns the state before a step of an epoch, both counted from 0.

        It is for programs that count steps, such as those with workers: only they count the batches that were returned.

        >>> loader = tfr.Loader("shards/", batch_size=2, columns=["id"])
        >>> loader.load_state_dict(loader.state_at(0, step=1))
        >>> [batch["id"] for batch in loader]
        [array([2, 3]), array([4, 5])]
        """
        __tracebackhide__ = True
        epoch, step = _check_number("epoch", epoch, 0), _check_number("step", step, 0)
        if step > self._plan.all_steps:
            raise UsageError(f"step is {step}, an epoch has {self._plan.all_steps} steps", hint="Count the steps within the epoch.")
        return self._state_at(epoch, step)

    def _state_at(self, epoch: int, step: int) -> dict[str, Any]:
        return {
            "version": _STATE_VERSION,
            "epoch": epoch,
            "step": step,
            "data": {"rows": len(self._data), "checksum": self._data.checksum, "fingerprint": self._data.fingerprint},
            "order": self._order(),
        }

    def _order(self) -> dict[str, Any]:
        """Returns what the order of the steps depends on."""
        window, lanes = self._plan.window or (None, None)
        return {
            "global_batch": self._global_batch,
            "shuffle": self._options["shuffle"],
            "window": window,
            "lanes": lanes,
            "drop_remainder": self._options["drop_remainder"],
            "equal": self._options["equal"],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Lets the next iteration continue where `state_dict` was called: the same steps follow, with the same rows."""
        __tracebackhide__ = True
        try:
            version, epoch, step = state["version"], state["epoch"], state["step"]
            data, order = dict(state["data"]), dict(state["order"])
        except (KeyError, TypeError, ValueError):
            raise UsageError(f"not a state of a loader: {state!r}") from None
        if version not in (1, _STATE_VERSION):
            raise UsageError(f"the state has version {version!r}, expected {_STATE_VERSION} or 1")
        epoch, step = _check_number("epoch", epoch, 0), _check_number("step", step, 0)
        expected = self._state_at(0, 0)["data"]
        if "fingerprint" not in data:
            # A state of version 0.2.
            del expected["fingerprint"]
        self._compare(expected, data)
        if step != 0:
            self._compare_order(_of_version_1(order) if version == 1 else order)
        self._go_to(epoch, step)

    def _compare_order(self, order: dict[str, Any]) -> None:
        __tracebackhide__ = True
        expected, found = self._global_batch, order.get("global_batch")
        if found != expected and isinstance(found, int) and found > 0:
            world_size = self._reader[1]
            problem = f"the state has a global batch of {found}, this loader one of {expected}"
            if found % world_size:
                problem += f", and {world_size} ranks do not divide {found}"
                hint = f"Use {_nearest(found, world_size)} ranks, and global_batch={found}."
            else:
                hint = f"Pass global_batch={found}, which is batch_size={found // world_size} of {world_size} ranks."
            raise UsageError(problem, hint=hint)
        self._compare(self._order(), order)

    @staticmethod
    def _compare(expected: dict[str, Any], found: dict[str, Any]) -> None:
        __tracebackhide__ = True
        for name, value in expected.items():
            if found.get(name) != value:
                raise UsageError(f"the state is of another loader: {name} was {found.get(name)!r}, now it is {value!r}")

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        del state["_plan"]
        # A copy continues where this one is.
        state["_resumed"] = True
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._plan = self._new_plan()


class _Iterator(Iterator[Batch]):
    """An iteration of a loader. The loader has its position."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self._end = loader._end_epoch()
        self._batches: _native.Batches | None = None
        self._process = 0
        self._position = (loader._epoch, loader._step)
        self._done = False

    def __iter__(self) -> _Iterator:
        return self

    def __next__(self) -> Batch:
        __tracebackhide__ = True
        if self._done:
            raise StopIteration
        if self._batches is None or self._process != os.getpid():
            # After a fork, the thread is in the other process.
            epoch, step = self._position
            self._batches = self._loader._plan.batches(epoch, step, end=self._end, prefetch=self._loader._prefetch)
            self._process = os.getpid()
        try:
            found = self._batches.next()
        except BaseException as error:
            self._done = not isinstance(error, KeyboardInterrupt)
            raise
        loader = self._loader
        if found is None:
            self._done = True
            loader._epoch, loader._step = self._end or 0, 0
            raise StopIteration
        batch, *position = found
        self._position = (position[0], position[1])
        loader._epoch, loader._step = self._position
        return batch


def _nearest(global_batch: int, world_size: int) -> str:
    """Returns the nearest numbers of ranks that divide a global batch."""
    fewer = next(ranks for ranks in range(min(world_size, global_batch), 0, -1) if global_batch % ranks == 0)
    more = range(world_size, min(global_batch, world_size + 1_000_000))
    following = next((ranks for ranks in more if global_batch % ranks == 0), global_batch)
    return str(fewer) if fewer == following else f"{fewer} or {following}"


def _of_version_1(order: dict[str, Any]) -> dict[str, Any]:
    """Returns the order of a state of version 1, within an epoch. Only one reader without a shuffle had that of today."""
    __tracebackhide__ = True
    if order.get("shuffle") is not None or order.get("readers") != 1:
        what = "of several readers" if order.get("shuffle") is None else "with a shuffle"
        raise UsageError(
            f"the state has version 1 and is within an epoch {what}, whose order has changed",
            hint="Finish the epoch with tfr-sql 0.2, or begin the next one with set_epoch.",
        )
    return {**order, "global_batch": order.get("batch_size"), "lanes": None}


def _check_number(name: str, value: Any, least: int) -> int:
    __tracebackhide__ = True
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise UsageError(f"{name} is {value!r}, expected an integer")
    if value < least:
        raise UsageError(f"{name} is {value}, expected at least {least}")
    if value >= 2**64:
        raise UsageError(f"{name} is {value}, expected less than 2**64")
    return int(value)
