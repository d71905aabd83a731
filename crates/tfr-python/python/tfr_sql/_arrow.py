"""Anything with Arrow data as the messages of an Arrow IPC stream."""

from __future__ import annotations

import os
from typing import Any, Iterable, Iterator, Protocol, Union

from . import _native
from ._errors import UsageError


class ArrowStream(Protocol):
    """A table or a stream of batches."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class ArrowArray(Protocol):
    """A batch."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...


#: Tables, streams and batches, and the objects that `_known` converts.
ArrowLike = Union[ArrowStream, ArrowArray, Iterable[Union[ArrowStream, ArrowArray]], Any]

#: The rows of a batch, from sources that let the reader decide.
_ROWS = 8192


def messages(data: ArrowLike, name: str) -> tuple[Iterator[bytes], bool]:
    """Returns the messages of an Arrow stream with the rows of `data`. Reads nothing before the first is taken.

    Also returns whether `data` is a Python iterable of batches. Other data may wait outside of Python for its rows.

    A stream or iterator that yields no batch at all is an error: it has most likely been read before.
    """
    # Refused here and not on the thread that reads the rows.
    source, is_python = _source(data, name)
    return _encode(source, name, _can_be_read_once(data)), is_python


def _encode(source: Iterable[Any], name: str, once: bool) -> Iterator[bytes]:
    encoder = None
    batches = 0
    for part in source:
        reader = _native.BatchReader(part)
        if encoder is None:
            encoder = _native.StreamEncoder(reader)
        while (batch := reader.next()) is not None:
            batches += 1
            yield encoder.write(batch)
    if encoder is None or (once and batches == 0):
        raise UsageError(
            f"{name}: no batches: the stream has been read before, or never had any",
            hint="Pass a table, or a new stream. A table without rows is written as an empty set.",
        )
    yield encoder.finish()


def _source(data: Any, name: str) -> tuple[Iterable[Any], bool]:
    """Returns the parts of `data`, each with `__arrow_c_stream__` or `__arrow_c_array__`, and whether Python makes them."""
    if isinstance(data, (str, bytes, os.PathLike)):
        raise UsageError(
            f"{name}: expected Arrow data, found a path or text",
            hint="Read files with a query: tfr_sql.sql(\"SELECT * FROM 'x.parquet'\").",
        )
    known: Iterable[Any] | None = _known(data, name)
    if known is not None:
        return known, False
    if _is_arrow(data):
        return [data], False
    if isinstance(data, Iterable) and not isinstance(data, dict):
        return (_part(part, name) for part in data), True
    raise UsageError(
        f"{name}: expected Arrow data, found {type(data).__name__}",
        hint="Convert it to a pyarrow.Table, a DataFrame, or an iterable of batches.",
    )


def _part(part: Any, name: str) -> Any:
    _refuse_objects(part, name)
    if _is_arrow(part):
        return part
    raise UsageError(f"{name}: expected an iterable of batches, found {type(part).__name__} in it")


def _is_arrow(data: Any) -> bool:
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")


def _can_be_read_once(data: Any) -> bool:
    """Whether `data` is a stream, which is empty when it has been read."""
    return hasattr(data, "__next__") or hasattr(data, "read_next_batch")


def _known(data: Any, name: str) -> Any:
    """Returns the parts of data that has no Arrow interface, or a better one than that; None if it is none of these."""
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
    if library == "deltalake" and kind == "DeltaTable":
        return [_rows_of_delta(data, name)]
    if library == "pyiceberg" and hasattr(data, "scan") and not _is_arrow(data):  # Table
        return [data.scan().to_arrow_batch_reader()]
    if library == "pyiceberg" and hasattr(data, "to_arrow_batch_reader"):  # DataScan
        return [data.to_arrow_batch_reader()]
    if library == "datasets" and hasattr(data, "with_format"):  # Hugging Face Dataset, IterableDataset
        return _rows_of_hugging_face(data)
    if library == "ray" and hasattr(data, "iter_batches"):
        return iter(data.iter_batches(batch_format="pyarrow", batch_size=None))
    if library == "pyspark" and hasattr(data, "toArrow"):
        return [data.toArrow()]
    if library == "dask" and hasattr(data, "partitions"):
        return (part.compute() for part in data.partitions)
    if library == "modin" and hasattr(data, "modin"):
        return [data.modin.to_pandas()]
    if library == "pandas" and not _is_arrow(data) and hasattr(data, "to_records"):  # pandas before 2.2
        import pyarrow  # type: ignore[import-untyped,import-not-found,unused-ignore]

        return [pyarrow.Table.from_pandas(data)]
    return None


def _refuse_objects(data: Any, name: str) -> None:
    """Refuses Python objects in a frame or series of polars, which passes on their addresses as bytes."""
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


def _rows_of_delta(table: Any, name: str) -> Any:
    from deltalake import QueryBuilder  # type: ignore[import-not-found,unused-ignore]

    # Spark accepts any case. deltalake 1.6 maps nothing then: every column is null.
    mode = table.metadata().configuration.get("delta.columnMapping.mode")
    if mode not in (None, "none", "name", "id"):
        raise UsageError(
            f"{name}: deltalake does not read the columns of this table: delta.columnMapping.mode is {mode!r}, "
            f"expected {str(mode).lower()!r}",
            hint=f"In Spark: ALTER TABLE t SET TBLPROPERTIES ('delta.columnMapping.mode' = '{str(mode).lower()}')",
        )
    return QueryBuilder().register("t", table).execute("SELECT * FROM t")


def _rows_of_hugging_face(data: Any) -> Iterator[Any]:
    if hasattr(data, "__len__") and len(data) == 0:
        yield data.features.arrow_schema.empty_table()
        return
    yield from data.with_format("arrow").iter(batch_size=_ROWS)
