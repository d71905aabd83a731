"""Python's own data as Arrow batches: dictionaries of arrays, structured arrays of numpy, and rows as dictionaries."""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Mapping

from ._errors import UsageError
from ._require import require

if TYPE_CHECKING:
    from ._ragged import Ragged

#: The rows of a batch. The types of rows from an iterator are inferred from the first ones.
_ROWS = 8192


def is_columns(data: Any) -> bool:
    """Whether `data` is a dictionary, or a structured array of numpy."""
    return isinstance(data, Mapping) or (_is_array(data) and data.dtype.names is not None)


def batches_of_columns(data: Any, name: str) -> Iterator[Any]:
    """Returns the batches of a dictionary of arrays, or of a structured array."""
    __tracebackhide__ = True
    columns = _fields(data) if _is_array(data) else dict(data)
    if not columns:
        raise UsageError(f"{name}: a dictionary without columns")
    for column, values in columns.items():
        if not isinstance(column, str):
            raise UsageError(f"{name}: the column {column!r} is named by {type(column).__name__}, expected str")
        if not _is_column(values):
            raise UsageError(
                f"{name}: column {column!r}: expected an array or a list, found {type(values).__name__}",
                hint="A dictionary has an array or a list for each column. For rows, pass a list of dictionaries.",
            )
    # No comprehensions: their frames would be shown in tracebacks.
    arrays = {}
    for column, values in columns.items():
        arrays[column] = _array(values, f"{name}: column {column!r}")
    lengths = {column: len(array) for column, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{column} has {length:,}" for column, length in lengths.items())
        raise UsageError(f"{name}: the columns have different numbers of rows: {found}")
    table = _pyarrow().table(arrays)
    batches = table.to_batches(max_chunksize=_ROWS)
    return iter(batches or [table])


def batches_of_rows(rows: Iterable[Any], name: str, *, is_whole: bool) -> Iterator[Any]:
    """Yields batches of rows, each of which is a dictionary. A key that a row lacks is a null.

    `is_whole` says that all rows are in memory: then all of them determine the columns and their types, and otherwise
    the first ones.
    """
    __tracebackhide__ = True
    pyarrow = _pyarrow()
    rows = iter(rows)
    first = list(rows if is_whole else itertools.islice(rows, _ROWS))
    _refuse_batch(first[0], name)
    names = list(dict.fromkeys(key for row in first if isinstance(row, Mapping) for key in row))
    schema = None
    number = 0
    while first:
        _check_rows(first, set(names), name, number)
        columns = {}
        for column in names:
            values = [_value(row.get(column)) for row in first]
            known = None if schema is None else schema.field(column).type
            columns[column] = _array_of_rows(values, known, f"{name}: column {column!r}", number)
        table = pyarrow.table(columns)
        schema = table.schema
        yield from table.to_batches(max_chunksize=_ROWS)
        number += len(first)
        first = list(itertools.islice(rows, _ROWS))


def _check_rows(rows: list[Any], names: set[str], name: str, first: int) -> None:
    __tracebackhide__ = True
    for number, row in enumerate(rows, first):
        if not isinstance(row, Mapping):
            raise UsageError(f"{name}: row {number} is a {type(row).__name__}, expected a dictionary like the first")
        if not row.keys() <= names:
            more = next(key for key in row if key not in names)
            raise UsageError(
                f"{name}: row {number} has the column {more!r}, which none of the first {first:,} rows has",
                hint="Pass a list of rows, or rows with the same keys.",
            )


def _refuse_batch(row: Mapping[str, Any], name: str) -> None:
    """Refuses a dictionary that may be a row with lists, or a batch of rows."""
    __tracebackhide__ = True
    values = list(row.values())
    if not all(isinstance(key, str) for key in row):
        raise UsageError(f"{name}: the names of columns are no text: {', '.join(map(repr, row))}")
    if values and all(map(_is_of_batch, values)) and len({len(value) for value in values if not isinstance(value, Mapping)}) == 1:
        raise UsageError(
            f"{name}: the dictionaries have arrays of one length: rows with lists, or batches of rows?",
            hint="For rows, make lists of the arrays: {\"x\": array.tolist()}. Write batches as record batches: "
            "pyarrow.RecordBatch.from_pydict(batch).",
        )


def _array_of_rows(values: list[Any], known: Any, where: str, first: int) -> Any:
    """Returns the values of a column; `known` is the type of the rows before."""
    __tracebackhide__ = True
    pyarrow = _pyarrow()
    rows = f"{where}: rows {first:,} to {first + len(values) - 1:,}"
    try:
        # With a type, pyarrow would cut the fractions of floats.
        array = pyarrow.array(values)
    except (pyarrow.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"{rows}: {error}", hint="Give the values of a column one type.") from None
    if known is None or array.type == known:
        return array
    problem = ""
    if _fits(array.type, known):
        try:
            return array.cast(known)
        except pyarrow.ArrowException as error:
            problem = f": {error}"
    raise UsageError(
        f"{rows} have the type {array.type}, expected {known} as in the rows before{problem}",
        hint="Pass a list of rows, or record batches with a schema: the first rows of an iterator determine the types.",
    )


def _fits(found: Any, known: Any) -> bool:
    """Whether values of a type may be converted to another one: numbers, and values that are all missing."""
    types = _pyarrow().types
    if types.is_null(found) or found == known:
        return True
    if types.is_list(found) and types.is_list(known):
        return _fits(found.value_type, known.value_type)
    if types.is_struct(found) and types.is_struct(known):
        return {field.name for field in found} <= {field.name for field in known} and all(
            _fits(field.type, known.field(field.name).type) for field in found
        )
    return all(types.is_integer(one) or types.is_floating(one) for one in (found, known))


def _value(value: Any) -> Any:
    """Returns a value of a row as pyarrow reads it."""
    if _is_ragged(value):
        return value.to_list()
    if _is_array(value) and value.ndim != 1:
        return value.tolist()
    return value


def _array(values: Any, where: str) -> Any:
    """Returns a column as an Arrow array: a numpy array of any shape, a `Ragged`, a list, or a dictionary of columns."""
    __tracebackhide__ = True
    pyarrow = _pyarrow()
    try:
        if _is_ragged(values):
            return _lists(values, where)
        if isinstance(values, Mapping):
            fields = {}
            for name, part in values.items():
                fields[name] = _array(part, f"{where}, field {name!r}")
            return pyarrow.StructArray.from_arrays(list(fields.values()), names=list(fields))
        if hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__"):
            return pyarrow.chunked_array(values) if hasattr(values, "__arrow_c_stream__") else pyarrow.array(values)
        if not _is_array(values) and hasattr(values, "__array__"):  # tensors
            values = require("numpy", "a dictionary of arrays").asarray(values)
        if not _is_array(values):
            return pyarrow.array(list(map(_value, values)))
        return _array_of_numpy(values, where)
    except (pyarrow.ArrowException, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"{where}: no Arrow array: {error}", hint="Give the values of a column one type.") from None


def _array_of_numpy(values: Any, where: str) -> Any:
    __tracebackhide__ = True
    pyarrow = _pyarrow()
    if values.ndim == 0:
        raise UsageError(f"{where}: expected an array with a value for each row, found a single value")
    if values.ndim > 1:
        # One dimension at a time, from the last.
        array = _array_of_numpy(values.reshape(-1), where)
        for size in values.shape[:0:-1]:
            array = pyarrow.FixedSizeListArray.from_arrays(array, size)
        return array
    if values.dtype.names is not None:
        return _array(_fields(values), where)
    if values.dtype.byteorder == (">" if sys.byteorder == "little" else "<"):
        values = values.astype(values.dtype.newbyteorder("="))
    mask = getattr(values, "mask", None)  # numpy.ma
    if mask is None:
        return pyarrow.array(values)
    return pyarrow.array(values.data, mask=require("numpy", "a masked array").ma.getmaskarray(values))


def _lists(rows: Ragged, where: str) -> Any:
    __tracebackhide__ = True
    pyarrow = _pyarrow()
    values = _array(rows.values, where)
    is_large = len(values) >= 2**31
    offsets = pyarrow.array(rows.row_splits, pyarrow.int64() if is_large else pyarrow.int32())
    return (pyarrow.LargeListArray if is_large else pyarrow.ListArray).from_arrays(offsets, values)


def _fields(array: Any) -> dict[str, Any]:
    return {name: array[name] for name in array.dtype.names}


def _is_column(values: Any) -> bool:
    if isinstance(values, (str, bytes)):
        return False
    return isinstance(values, (list, tuple, Mapping, range)) or _is_ragged(values) or hasattr(values, "__array__") or (
        hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__")
    )


def _is_of_batch(value: Any) -> bool:
    """Whether this may be a column of a batch of `Loader`."""
    if isinstance(value, Mapping):
        return len(value) > 0 and all(map(_is_of_batch, value.values()))
    return _is_ragged(value) or (_is_array(value) and value.ndim > 0)


def _is_array(data: Any) -> bool:
    """Whether this is an array of numpy, which need not be installed."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(data, numpy.ndarray)


def _is_ragged(data: Any) -> bool:
    module = sys.modules.get("tfr_sql._ragged")
    return module is not None and isinstance(data, module.Ragged)


def _pyarrow() -> Any:
    return require("pyarrow", "writing lists and dictionaries")
