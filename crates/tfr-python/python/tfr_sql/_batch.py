"""Rows of a query."""

from __future__ import annotations

from typing import Any

from . import _native
from ._fill import Fill, native_fill
from ._require import require


class RecordBatch:
    """Rows of a query. They are Arrow data, for `pyarrow.record_batch`, polars and others."""

    __slots__ = ("_rows",)

    def __init__(self, rows: _native.RecordBatch) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self._rows.num_rows

    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""
        return self._rows.column_names

    def to_numpy(self, *, fill: Fill | None = None) -> dict[str, Any]:
        """Returns the columns as numpy arrays, or as `Ragged` if their rows have any length.

        `fill` has values for nulls of columns that have no numpy value for them.
        """
        __tracebackhide__ = True
        require("numpy", "RecordBatch.to_numpy")
        return self._rows.to_numpy(fill=native_fill(fill, self._rows))

    def __repr__(self) -> str:
        return repr(self._rows)

    def __arrow_c_schema__(self) -> object:
        return self._rows.__arrow_c_schema__()

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        return self._rows.__arrow_c_array__(requested_schema)
