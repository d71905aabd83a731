"""Batches of several sets, in a ratio."""

from __future__ import annotations

from copy import copy
from fractions import Fraction
from math import gcd, lcm
from typing import Any, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from ._errors import UsageError
from ._loader import Batch, Loader, _check_number
from ._ragged import Ragged, _part

#: The version of `Mix.state_dict`.
_STATE_VERSION = 1

#: The longest cycle of turns that is cached.
_MAX_REPEATED = 1 << 16


class Mix(Iterator[Batch]):
    """Rows of several sets, in a ratio, without end: each set begins its next epoch when it has no more rows.

    * `loaders`: a `Loader` for each set, by name. Each has its own shuffle, columns, rank and batch size. The mix has copies,
      which continue where the loaders are, and do not end after `epochs`.
    * `weights`: the share of each set, by name: `{"web": 0.7, "books": 0.3}`, or `{"web": 7, "books": 3}`.
    * `batch_size`: batches of this size have rows of all sets, which must have the same columns. Without it, each batch is
      a batch of one set.
    * `source`: the name of a column with the name of the set that each row is from.

    Which set has a turn depends on the weights alone: after any number of turns, each set has had its share of them, up to
    less than one. A turn is a row with `batch_size`, else a batch. A set with the weight 0 has no turns.

    `state_dict` is the position after the batch that was returned last. A mix that loads it may have other weights, which
    apply from there on.

    >>> loaders = {"all": tfr.Loader("shards/", batch_size=4, columns=["id"]), "again": tfr.Loader("shards/", batch_size=2, columns=["id"])}
    >>> mix = tfr.Mix(loaders, weights={"all": 3, "again": 1}, batch_size=4, source="set")
    >>> next(mix)["set"].tolist()
    ['all', 'all', 'again', 'all']
    """

    def __init__(
        self,
        loaders: Mapping[str, Loader],
        *,
        weights: Mapping[str, float],
        batch_size: int | None = None,
        source: str | None = None,
    ) -> None:
        __tracebackhide__ = True
        if not loaders:
            raise UsageError("a mix of no loaders, expected at least one")
        if set(weights) != set(loaders):
            raise UsageError(f"weights are of {sorted(weights)}, expected one of each loader: {sorted(loaders)}")
        self._weights = {name: _fraction(name, weights[name]) for name in loaders}
        if not any(self._weights.values()):
            raise UsageError("all weights are 0, expected one that is not")
        self._batch_size = None if batch_size is None else _check_number("batch_size", batch_size, 1)
        self._source = source
        for name, loader in loaders.items():
            if loader.num_rows == 0:
                raise UsageError(f"the loader {name!r} has no rows")
            if source in loader.columns:
                raise UsageError(f"source is {source!r}, which is a column of the loader {name!r}")
        first, *others = loaders
        self._columns = loaders[first].columns
        for name in others:
            if self._batch_size is not None and set(loaders[name].columns) != set(loaders[first].columns):
                raise UsageError(
                    f"the columns of {name!r} are {loaders[name].columns}, those of {first!r} {loaders[first].columns}",
                    hint="Give all loaders the same columns=, or mix whole batches: leave batch_size out.",
                )
        self._sets = {name: _Rows(name, loader) for name, loader in loaders.items()}
        self._turns = _Turns(list(self._weights.values()))

    @property
    def weights(self) -> dict[str, float]:
        """The share of each set. They add up to 1."""
        total = sum(self._weights.values())
        return {name: float(weight / total) for name, weight in self._weights.items()}

    def __repr__(self) -> str:
        shares = ", ".join(f"{name}={share:.4g}" for name, share in self.weights.items())
        return f"<Mix of {len(self._sets)} sets: {shares}>"

    def _set_worker(self, worker: int, num_workers: int) -> None:
        """Lets the mix have a part of the rows of its loaders."""
        __tracebackhide__ = True
        for rows in self._sets.values():
            rows.set_worker(worker, num_workers)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_sets": {name: copy(rows) for name, rows in self._sets.items()}, "_turns": copy(self._turns)}

    def __next__(self) -> Batch:
        __tracebackhide__ = True
        places, counts = [rows.place() for rows in self._sets.values()], list(self._turns.counts)
        try:
            return self._next()
        except BaseException:
            # What was not returned is not read.
            for rows, place in zip(self._sets.values(), places):
                rows.go_to(*place)
            self._turns.counts = counts
            raise

    def _next(self) -> Batch:
        __tracebackhide__ = True
        sets = list(self._sets.values())
        if self._batch_size is None:
            rows = sets[self._turns.next(1)[0]]
            batch = rows.batch()
            return self._named([rows.name], np.zeros(_length(batch), np.intp), batch)
        turns = self._turns.next(self._batch_size)
        parts: list[Batch] = []
        # The position of each row of the batch in the parts, one after the other.
        places = np.empty(len(turns), np.intp)
        begin = 0
        for number, rows in enumerate(sets):
            found = np.flatnonzero(turns == number)
            places[found] = np.arange(begin, begin + len(found))
            begin += len(found)
            parts += rows.take(len(found))
        columns = {name: _chosen(_joined(name, [part[name] for part in parts]), places) for name in self._columns}
        return self._named(list(self._sets), turns, columns)

    def _named(self, names: list[str], turns: Any, batch: Batch) -> Batch:
        if self._source is not None:
            batch[self._source] = np.array(names, object)[turns]
        return batch

    def state_dict(self) -> dict[str, Any]:
        """Returns the position after the batch that was returned last, as values that JSON can hold: with the states of the
        loaders."""
        return {
            "version": _STATE_VERSION,
            "batch_size": self._batch_size,
            "weights": dict(zip(self._sets, self._turns.weights)),
            "turns": dict(zip(self._sets, self._turns.counts)),
            "sets": {name: rows.state_dict() for name, rows in self._sets.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues where `state_dict` was called. With the same weights, the same batches follow."""
        __tracebackhide__ = True
        try:
            version, batch_size, sets = state["version"], state["batch_size"], dict(state["sets"])
            weights, turns = dict(state["weights"]), dict(state["turns"])
        except (KeyError, TypeError, ValueError):
            raise UsageError(f"not a state of a mix: {state!r}") from None
        if version != _STATE_VERSION:
            raise UsageError(f"the state has version {version!r}, expected {_STATE_VERSION}")
        if set(sets) != set(self._sets):
            raise UsageError(f"the state is of the sets {sorted(sets)}, this is a mix of {sorted(self._sets)}")
        if batch_size != self._batch_size:
            raise UsageError(f"the state is of another mix: batch_size was {batch_size!r}, now it is {self._batch_size!r}")
        new = _Turns(list(self._weights.values()))
        if weights == dict(zip(self._sets, new.weights)):
            new.counts = [_check_number("turns", turns.get(name), 0) for name in self._sets]
        # A state that is refused changes nothing.
        loaded = {name: copy(rows) for name, rows in self._sets.items()}
        for name, rows in loaded.items():
            rows.load_state_dict(sets[name])
        self._sets, self._turns = loaded, new


def _fraction(name: str, weight: Any) -> Fraction:
    """Returns a weight as it is written: 0.1 is a tenth."""
    __tracebackhide__ = True
    try:
        found = Fraction(str(weight))
    except (ValueError, ZeroDivisionError):
        raise UsageError(f"the weight of {name!r} is {weight!r}, expected a number") from None
    if found < 0:
        raise UsageError(f"the weight of {name!r} is {weight!r}, expected at least 0")
    return found


class _Turns:
    """Whose turn it is: after any number of turns, each has had its share of them, up to less than one.

    Source: R. Tijdeman, "The chairman assignment problem", Discrete Mathematics 32 (1980). Since the shares are then exact
    after as many turns as the weights add up to, the turns repeat themselves from there on.
    """

    def __init__(self, weights: list[Fraction]) -> None:
        scale = lcm(*(weight.denominator for weight in weights))
        scaled = [int(weight * scale) for weight in weights]
        #: The shares, as whole numbers without a common divisor.
        self.weights = [weight // gcd(*scaled) for weight in scaled]
        self._total = sum(self.weights)
        self._margin = max(2 * sum(weight > 0 for weight in weights) - 2, 1)
        self._repeated: NDArray[np.intp] | None = None
        #: The number of turns that each has had.
        self.counts = [0] * len(weights)

    def __copy__(self) -> _Turns:
        turns = _Turns.__new__(_Turns)
        turns.__dict__ = {**self.__dict__, "counts": list(self.counts)}
        return turns

    def next(self, count: int) -> NDArray[np.intp]:
        """Returns the next turns."""
        if self._total > _MAX_REPEATED:
            return np.fromiter((self._one() for _ in range(count)), np.intp, count)
        if self._repeated is None:
            begin = _Turns([Fraction(weight) for weight in self.weights])
            self._repeated = np.fromiter((begin._one() for _ in range(self._total)), np.intp, self._total)
        places = (sum(self.counts) + np.arange(count)) % self._total
        turns = self._repeated[places]
        had = np.bincount(turns, minlength=len(self.counts)).tolist()
        self.counts = [before + more for before, more in zip(self.counts, had)]
        return turns

    def _one(self) -> int:
        total, margin, turn = self._total, self._margin, sum(self.counts) + 1
        best, best_left, best_weight = -1, 0, 1
        for number, weight in enumerate(self.weights):
            owed = (weight * turn - self.counts[number] * total) * margin
            # Of those that may have this turn, the one whose last chance comes first.
            left = total * (margin - 1) - owed
            if weight and owed >= total and (best < 0 or left * best_weight < best_left * weight):
                best, best_left, best_weight = number, left, weight
        self.counts[best] += 1
        return best


class _Rows:
    """The rows of a set, epoch after epoch."""

    def __init__(self, name: str, loader: Loader) -> None:
        self.name = name
        # A loader of its own, without end: workers share the steps of all epochs.
        self._loader = copy(loader)
        self._loader._epochs = None
        self._batches: Iterator[Batch] | None = None
        #: The batch whose rows are taken, the position before it, and the number of rows taken.
        self._batch: Batch | None = None
        self._before = (0, 0)
        self._taken = 0

    def batch(self) -> Batch:
        """Returns the next batch."""
        if self._batches is None:
            self._batches = iter(self._loader)
        return next(self._batches)

    def take(self, count: int) -> list[Batch]:
        """Returns the next rows, in parts."""
        __tracebackhide__ = True
        parts = []
        while count > 0:
            if self._batch is None:
                # A state that was loaded has the rows taken of its next batch.
                self._before, self._batch = self._position(), self.batch()
            length = _length(self._batch)
            if self._taken >= length:
                raise UsageError(f"the state is {self._taken} rows into a batch of {self.name!r}, which has {length} here")
            end = min(self._taken + count, length)
            parts.append({name: _part(column, slice(self._taken, end)) for name, column in self._batch.items()})
            count -= end - self._taken
            self._taken = end
            if end == length:
                self._batch, self._taken = None, 0
        return parts

    def _position(self) -> tuple[int, int]:
        return (self._loader._epoch, self._loader._step) if self._batch is None else self._before

    def place(self) -> tuple[tuple[int, int], int]:
        """Returns the position of the batch whose rows are taken, and their number."""
        return self._position(), self._taken

    def go_to(self, position: tuple[int, int], taken: int) -> None:
        """Continues where `place` was called."""
        self._loader._go_to(*position)
        self._batches, self._batch, self._taken = None, None, taken

    def set_worker(self, worker: int, num_workers: int) -> None:
        __tracebackhide__ = True
        rank, world_size, *now = self._loader._reader
        if self._taken and now != [worker, num_workers]:
            raise UsageError(f"the mix is within a batch of {self.name!r}", hint="Make a new Mix for the workers.")
        place = self.place()
        self._loader._set_reader(rank, world_size, worker, num_workers)
        self.go_to(*place)

    def state_dict(self) -> dict[str, Any]:
        _, ranks, _, workers = self._loader._reader
        position, taken = self.place()
        return {"loader": self._loader._state_at(*position), "taken": taken, "ranks": ranks, "workers": workers}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        __tracebackhide__ = True
        try:
            loader, taken, readers = state["loader"], state["taken"], (state["ranks"], state["workers"])
            order = dict(loader["order"])
        except (KeyError, TypeError, ValueError):
            raise UsageError(f"not a state of a set: {state!r}") from None
        taken = _check_number("taken", taken, 0)
        _, ranks, _, workers = self._loader._reader
        if taken:
            # The rows that were taken are those of a batch of the same order and reader.
            self._loader._compare_order(order)
            if readers != (ranks, workers):
                raise UsageError(
                    f"the state is within a batch of {self.name!r} of {readers[0]} ranks with {readers[1]} workers, "
                    f"here are {ranks} with {workers}",
                    hint="Load it with as many ranks and workers, or mix whole batches: leave batch_size out.",
                )
        self._loader.load_state_dict(loader)
        self._batches, self._batch, self._taken = None, None, taken

    def __getstate__(self) -> dict[str, Any]:
        # A copy continues where this one is.
        loader = copy(self._loader)
        loader._go_to(*self._position())
        return {**self.__dict__, "_loader": loader, "_batches": None, "_batch": None}


def _length(batch: Batch) -> int:
    """Returns the number of rows of a batch."""
    column = next(iter(batch.values()))
    return _length(column) if isinstance(column, dict) else len(column)


def _joined(name: str, parts: list[Any]) -> Any:
    """Returns the rows of several columns, one after the other. Rows of different types are no column."""
    __tracebackhide__ = True
    first = parts[0]
    if len(parts) == 1:
        return first
    if isinstance(first, dict) and all(isinstance(part, dict) and set(part) == set(first) for part in parts):
        return {field: _joined(f"{name}.{field}", [part[field] for part in parts]) for field in first}
    if isinstance(first, Ragged) and all(isinstance(part, Ragged) for part in parts):
        lengths = np.concatenate([part.lengths() for part in parts])
        return Ragged(_joined(name, [part.values for part in parts]), _splits(lengths))
    if isinstance(first, np.ndarray):
        kinds = {_kind(part) for part in parts if len(part)}
        if len(kinds) <= 1 and all(isinstance(part, np.ndarray) for part in parts):
            return np.concatenate([part for part in parts if len(part)] or parts)
        if all(isinstance(part, np.ndarray) and part.dtype == first.dtype for part in parts) and first.ndim > 1:
            raise UsageError(
                f"the column {name!r} is {' and '.join(sorted(kinds))}",
                hint=f"Pass pad_to={{{name!r}: ...}} to the loaders, or leave out ragged=\"pad\".",
            )
    found = sorted({_kind(part) for part in parts})
    raise UsageError(f"the column {name!r} is {' and '.join(found)} in different sets", hint="Give the loaders a schema=.")


def _kind(part: Any) -> str:
    if isinstance(part, np.ndarray):
        # Texts and bytes are both objects.
        value = next((value for value in part.flat if value is not None), None) if part.dtype == object else None
        kind = part.dtype if value is None else type(value).__name__
        return f"an array of {kind}{list(part.shape[1:]) if part.ndim > 1 else ''}"
    return "ragged" if isinstance(part, Ragged) else f"a dictionary of {sorted(part)}"


def _chosen(column: Any, rows: Any) -> Any:
    """Returns the rows with these numbers, in this order."""
    if isinstance(column, dict):
        return {name: _chosen(values, rows) for name, values in column.items()}
    if isinstance(column, Ragged):
        lengths = column.lengths()[rows]
        splits = _splits(lengths)
        # The number of each value: how far it is from the first of its row, and where that one is.
        values = np.arange(splits[-1]) + np.repeat(column.row_splits[:-1][rows] - splits[:-1], lengths)
        return Ragged(_chosen(column.values, values), splits)
    return column[rows]


def _splits(lengths: Any) -> Any:
    splits = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=splits[1:])
    return splits
