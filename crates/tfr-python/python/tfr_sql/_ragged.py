"""Rows of any length in one array."""

from __future__ import annotations

from typing import Any, Iterator

import numpy as np
from numpy.typing import NDArray


class Ragged:
    """Rows of any length: a flat array of values, and the bounds of the rows.

    Row `i` is `values[row_splits[i]:row_splits[i + 1]]`, as in `tf.RaggedTensor.from_row_splits`. The values are an
    array, another `Ragged` (lists of lists), or a dictionary (lists of structs).
    """

    __slots__ = ("values", "row_splits")

    values: Any
    row_splits: NDArray[np.int64]

    def __init__(self, values: Any, row_splits: NDArray[np.int64]) -> None:
        self.values = values
        self.row_splits = row_splits

    def __len__(self) -> int:
        return len(self.row_splits) - 1

    def __getitem__(self, row: int) -> Any:
        if not -len(self) <= row < len(self):
            raise IndexError(f"row {row} of {len(self)}")
        row %= len(self)
        return _part(self.values, slice(int(self.row_splits[row]), int(self.row_splits[row + 1])))

    def __iter__(self) -> Iterator[Any]:
        return (self[row] for row in range(len(self)))

    def __repr__(self) -> str:
        return f"Ragged({self.to_list()!r})"

    def lengths(self) -> NDArray[np.int64]:
        """Returns the number of values of each row."""
        return np.diff(self.row_splits)

    def to_list(self) -> list[Any]:
        """Returns the rows as lists."""
        return [row.to_list() if isinstance(row, Ragged) else _listed(row) for row in self]


def _part(values: Any, rows: slice) -> Any:
    """Returns some rows of a column."""
    if isinstance(values, dict):
        return {name: _part(column, rows) for name, column in values.items()}
    if isinstance(values, Ragged):
        splits = values.row_splits[rows.start : rows.stop + 1]
        if len(splits) == 0:
            splits = np.zeros(1, np.int64)
        inner = _part(values.values, slice(int(splits[0]), int(splits[-1])))
        return Ragged(inner, splits - splits[0])
    return values[rows]


def _listed(row: Any) -> Any:
    return {name: _listed(column) for name, column in row.items()} if isinstance(row, dict) else (
        row.to_list() if isinstance(row, Ragged) else row.tolist()
    )
