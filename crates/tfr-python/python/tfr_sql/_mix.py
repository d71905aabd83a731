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

#: The most turns that are remembered.
_MAX_REPEATED = 1 << 16


class Mix(Iterator[Batch]):
    """Rows of several sets, in a ratio, without end: each set begins its next epoch when it has no more rows.

    * `loaders`: a `Loader` for each set, by name. Each has its own shuffle, columns, rank and batch size.
    * `weights`: the share of each set, by name: `{"web": 0.7, "books": 0.3}`, or `{"web": 7, "books": 3}`.
    * `batch_size`: batches of this size have rows of all sets, which must have the same columns. Without it, each batch is
      a batch of one set.
    * `source`: the name of a column with the name of the set that each row is from.

    Which set has a turn depends on the weights alone: after any number of turns, each set has had its share of them, up to
    less than one. A turn is a row with `batch_size`, else a batch. A set with the weight 0 has no turns.

    `state_dict` is the position after the batch that was returned last. A mix that loads it may have other weights, which
    hold from there on.

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
            "weights": {name: str(weight) for name, weight in self._weights.items()},
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
        for name, rows in self._sets.items():
            rows.load_state_dict(sets[name])
        self._turns = _Turns(list(self._weights.values()))
        if weights == {name: str(weight) for name, weight in self._weights.items()}:
            self._turns.counts = [_check_number("turns", turns.get(name), 0) for name in self._sets]


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
        self._weights = [weight // gcd(*scaled) for weight in scaled]
        self._total = sum(self._weights)
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
            begin = _Turns([Fraction(weight) for weight in self._weights])
            self._repeated = np.fromiter((begin._one() for _ in range(self._total)), np.intp, self._total)
        places = (sum(self.counts) + np.arange(count)) % self._total
        turns = self._repeated[places]
        had = np.bincount(turns, minlength=len(self.counts)).tolist()
        self.counts = [before + more for before, more in zip(self.counts, had)]
        return turns

    def _one(self) -> int:
        total, margin, turn = self._total, self._margin, sum(self.counts) + 1
        best, best_left, best_weight = -1, 0, 1
        for number, weight in enumerate(self._weights):
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
        self._loader = loader
        self._batches: Iterator[Batch] | None = None
        #: The batch whose rows are taken, the position before it, and the number of rows taken.
        self._batch: Batch | None = None
        self._before: dict[str, Any] = {}
        self._taken = 0

    def batch(self) -> Batch:
        """Returns the next batch."""
        for _ in range(2):
            if self._batches is None:
                self._batches = iter(self._loader)
            for batch in self._batches:
                return batch
            self._batches = None
        _, _, worker, num_workers = self._loader._reader
        raise UsageError(f"the loader {self.name!r} has no batch for worker {worker} of {num_workers}", hint="Use fewer workers.")

    def take(self, count: int) -> list[Batch]:
        """Returns the next rows, in parts."""
        parts = []
        while count > 0:
            if self._batch is None:
                # A state that was loaded has the rows taken of its next batch.
                self._before, self._batch = self._loader.state_dict(), self.batch()
            length = _length(self._batch)
            end = min(self._taken + count, length)
            parts.append({name: _part(column, slice(self._taken, end)) for name, column in self._batch.items()})
            count -= end - self._taken
            self._taken = end
            if end == length:
                self._batch, self._taken = None, 0
        return parts

    def set_worker(self, worker: int, num_workers: int) -> None:
        rank, world_size, *_ = self._loader._reader
        self._loader._set_reader(rank, world_size, worker, num_workers)
        self._batches = None

    def state_dict(self) -> dict[str, Any]:
        return {"loader": self._loader.state_dict() if self._batch is None else self._before, "taken": self._taken}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        __tracebackhide__ = True
        self._loader.load_state_dict(state["loader"])
        self._batches, self._batch, self._taken = None, None, _check_number("taken", state["taken"], 0)

    def __getstate__(self) -> dict[str, Any]:
        # A copy continues where this one is.
        loader = copy(self._loader)
        if self._batch is not None:
            loader.load_state_dict(self._before)
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
        types = {(part.dtype, part.shape[1:]) if isinstance(part, np.ndarray) else None for part in parts}
        if len(types) == 1:
            return np.concatenate(parts)
    kinds = sorted({_kind(part) for part in parts})
    raise UsageError(f"the column {name!r} is {' and '.join(kinds)} in different sets", hint="Give the loaders a schema=.")


def _kind(part: Any) -> str:
    if isinstance(part, np.ndarray):
        return f"an array of {part.dtype}{list(part.shape[1:]) if part.ndim > 1 else ''}"
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
