"""Anything with Arrow data as the messages of an Arrow IPC stream."""

from __future__ import annotations

import itertools
import os
import re
from typing import Any, Iterable, Iterator, Mapping, Protocol, Union

from . import _native
from ._errors import TfrError, UsageError
from ._hugging_face import batches_of, is_dataset, is_dataset_dict
from ._require import require
from ._rows import batches_of_columns, batches_of_rows, is_columns


class ArrowStream(Protocol):
    """A table or a stream of batches."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class ArrowArray(Protocol):
    """A batch."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...


#: Tables, streams and batches, and the objects that `_known` converts.
ArrowLike = Union[ArrowStream, ArrowArray, Iterable[Union[ArrowStream, ArrowArray]], Any]

class Stream:
    """The messages of an Arrow stream with the rows of `data`. Reads nothing before the first message is taken.

    A stream or iterator that yields no batch at all is an error: it has most likely been read before.
    """

    def __init__(self, data: ArrowLike, name: str) -> None:
        __tracebackhide__ = True
        self._name = name
        # Refused here and not on the thread that reads the rows.
        self._parts, self.is_python = _source(data, name)
        self._once = _can_be_read_once(data)
        #: The number of all rows, if it is known.
        self.total = _number_of_rows(data)
        #: The number of rows that have been taken.
        self.taken = 0

    def __iter__(self) -> Iterator[bytes]:
        __tracebackhide__ = True
        encoder = None
        batches = 0
        for part in self._parts:
            reader = open_reader(part, self._name)
            if encoder is None:
                encoder = _native.StreamEncoder(reader)
            while (batch := reader.next()) is not None:
                batches += 1
                yield encoder.write(batch)
                self.taken += batch.num_rows
        if encoder is None or (self._once and batches == 0):
            raise UsageError(
                f"{self._name}: no batches: the stream has been read before, or never had any",
                hint="Pass a table, or a new stream. A table without rows is written as an empty set.",
            )
        yield encoder.finish()


def open_reader(data: Any, name: str) -> _native.BatchReader:
    """Returns a reader of the batches of an Arrow object. Refuses what is not a table, and types that cannot be read."""
    __tracebackhide__ = True
    try:
        return _native.BatchReader(data)
    except (TypeError, ValueError, NotImplementedError) as error:
        raise input_error(error, data, name) from None


def input_error(error: Exception, data: Any, name: str) -> Exception:
    """Returns an error of the native module about Arrow data with the name of the data, and of the column if it is known."""
    if isinstance(error, TfrError):
        return error
    if not _is_arrow(data):
        return UsageError(f"{name}: expected Arrow data, found {_kind(data)}: {error}")
    # Types of Arrow that are no columns, such as those of a Series, have these messages.
    if re.search("Unexpected data type|Unable to interpret C data struct as a Schema", str(error)):
        return UsageError(f"{name}: expected a table, found {_kind(data)}", hint=_HINT_OF_ARRAYS)
    problem = "; ".join(map(str, error.args)).removeprefix("C Data interface error: ").strip().rstrip(".")
    column = _column_at_fault(data)
    return UsageError(
        f"{name if column is None else f'{name}: column {column!r}'}: cannot be read as Arrow data: {problem}",
        hint="Convert the column to values of one type that Arrow has, or leave it out.",
    )


_HINT_OF_ARRAYS = "Pass a table with a name for each column, such as series.to_frame() or pyarrow.table({\"x\": array})."


def _column_at_fault(data: Any) -> str | None:
    """Returns the first column that is not readable on its own, of a table with named columns."""
    names = getattr(data, "column_names", None) or getattr(data, "columns", None)
    if names is None or not hasattr(data, "__getitem__"):
        return None
    for name in names:
        try:
            _native.BatchReader(data.select([name]) if hasattr(data, "column_names") else data[[name]])
        except Exception:
            return str(name)
    return None


def _kind(data: Any) -> str:
    library = type(data).__module__.partition(".")[0]
    return type(data).__name__ if library == "builtins" else f"{type(data).__name__} of {library}"


def _number_of_rows(data: Any) -> int | None:
    """Returns the number of rows of data in memory."""
    library = type(data).__module__.partition(".")[0]
    if isinstance(data, Mapping):
        columns = (column for column in data.values() if not isinstance(column, Mapping))
        return next((len(column) for column in columns if hasattr(column, "__len__")), None)
    if library in ("pandas", "numpy") or (library == "datasets" and hasattr(data, "__len__")):
        return len(data)
    if isinstance(data, (list, tuple)):
        counts = [1 if isinstance(part, Mapping) else getattr(part, "num_rows", None) for part in data]
        return sum(counts) if all(isinstance(count, int) for count in counts) else None  # type: ignore[arg-type]
    for attribute in ("num_rows", "height"):
        count = getattr(data, attribute, None)
        if isinstance(count, int):
            return count
    return None


def _source(data: Any, name: str) -> tuple[Iterable[Any], bool]:
    """Returns the parts of `data`, each with `__arrow_c_stream__` or `__arrow_c_array__`, and whether Python makes them."""
    __tracebackhide__ = True
    if isinstance(data, (str, bytes, os.PathLike)):
        raise UsageError(
            f"{name}: expected Arrow data, found a path or text",
            hint="Read files with a query: tfr_sql.sql(\"SELECT * FROM 'x.parquet'\").",
        )
    _refuse_tables(data, name)
    refuse_series(data, name)
    known: Iterable[Any] | None = _known(data, name)
    if known is not None:
        return known, False
    if _is_arrow(data):
        return [data], False
    if is_columns(data):
        return batches_of_columns(data, name), False
    if isinstance(data, Iterable) and not isinstance(data, Mapping) and type(data).__module__ != "numpy":
        return _parts(data, name), True
    raise UsageError(
        f"{name}: expected Arrow data, found {_kind(data)}",
        hint="Convert it to a pyarrow.Table, a DataFrame, a dictionary of arrays, or an iterable of batches or rows.",
    )


def _parts(data: Iterable[Any], name: str) -> Iterator[Any]:
    """Returns the batches of an iterable. Dictionaries in it are rows."""
    __tracebackhide__ = True
    parts = iter(data)
    for first in parts:
        if isinstance(first, Mapping) and not _is_arrow(first):
            yield from batches_of_rows(itertools.chain([first], parts), name, is_whole=isinstance(data, (list, tuple)))
            return
        yield _part(first, name)


def _part(part: Any, name: str) -> Any:
    __tracebackhide__ = True
    _refuse_objects(part, name)
    if _is_arrow(part):
        return part
    raise UsageError(f"{name}: expected an iterable of batches or rows, found {_kind(part)} in it")


def refuse_series(data: Any, name: str) -> None:
    """Refuses a Series of pandas, which is an iterable of values, or an Arrow array of them."""
    __tracebackhide__ = True
    if type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "to_frame"):
        raise UsageError(f"{name}: expected a table, found {_kind(data)}", hint=_HINT_OF_ARRAYS)


def _refuse_tables(data: Any, name: str) -> None:
    """Refuses a dictionary of tables, such as a DatasetDict."""
    __tracebackhide__ = True
    if is_dataset_dict(data):
        raise UsageError(
            f"{name}: expected one table, found {_kind(data)} of {len(data)}: {', '.join(map(str, data))}",
            hint="write_tfrecord writes a DatasetDict as splits. In a query, use one of them: data[\"train\"].",
        )
    values = data.values() if isinstance(data, Mapping) else ()
    is_table = [hasattr(value, "column_names") or hasattr(value, "columns") for value in values]
    if any(is_table):
        raise UsageError(
            f"{name}: expected one table, found {_kind(data)} of {len(is_table)}: {', '.join(map(str, data))}",
            hint="Write each to a directory of its own:\n"
            "for split, rows in data.items():\n"
            "    tfr_sql.write_tfrecord(rows, f\"out/{split}\")",
        )


def _is_arrow(data: Any) -> bool:
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")


def _can_be_read_once(data: Any) -> bool:
    """Whether `data` is a stream, which is empty when it has been read."""
    return hasattr(data, "__next__") or hasattr(data, "read_next_batch")


def _known(data: Any, name: str) -> Any:
    """Returns the parts of data that has no Arrow interface, or a better one than that; None if it is none of these."""
    __tracebackhide__ = True
    library = type(data).__module__.partition(".")[0]
    kind = type(data).__name__
    # The exceptions of a generator behind a reader of pyarrow survive only in Python.
    if library == "pyarrow" and kind == "RecordBatchReader":
        return iter(data)
    if library == "pyarrow" and hasattr(data, "scanner"):  # Dataset
        return [data.scanner().to_reader()]
    if library == "pyarrow" and hasattr(data, "to_reader") and kind == "Scanner":
        return [data.to_reader()]
    if library == "polars" and kind == "LazyFrame":
        data = data.collect()
        _refuse_objects(data, name)
        return [data]
    _refuse_objects(data, name)
    if library == "pyiceberg" and hasattr(data, "to_arrow_batch_reader"):  # DataScan
        return [data.to_arrow_batch_reader()]
    if is_dataset(data):
        return batches_of(data)
    if library == "ray" and hasattr(data, "iter_batches"):
        return iter(data.iter_batches(batch_format="pyarrow", batch_size=None))
    if library == "pyspark" and hasattr(data, "toArrow"):
        return [data.toArrow()]
    if library == "dask" and hasattr(data, "partitions"):
        return (part.compute() for part in data.partitions)
    if library == "modin" and hasattr(data, "modin"):
        return [data.modin.to_pandas()]
    if library == "pandas" and not _is_arrow(data) and hasattr(data, "to_records"):  # pandas before 2.2
        return [require("pyarrow", "a DataFrame of pandas before 2.2").Table.from_pandas(data)]
    return None


def _refuse_objects(data: Any, name: str) -> None:
    """Refuses Python objects in a frame or series of polars, which passes on their addresses as bytes."""
    __tracebackhide__ = True
    if type(data).__module__.partition(".")[0] != "polars":
        return
    columns = data.schema.items() if hasattr(data, "schema") else [(getattr(data, "name", ""), getattr(data, "dtype", None))]
    for column, dtype in columns:
        if _has_objects(dtype):
            raise UsageError(
                f"{name}: column {column!r} has the type {dtype} of polars: its values are Python objects",
                hint="Convert the column to a type with values, such as polars.String, or leave it out.",
            )


def _has_objects(dtype: Any) -> bool:
    """Whether a type of polars is `Object`, or has it in a list, an array or a struct."""
    if str(dtype) == "Object":
        return True
    inner = [dtype.inner] if hasattr(dtype, "inner") else [field.dtype for field in getattr(dtype, "fields", [])]
    return any(_has_objects(part) for part in inner)
