"""Queries over files and Arrow objects, and their results as Arrow data, as shards, and as tables."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Callable, Iterator, Literal, Mapping, NoReturn, Sequence

from . import _native
from ._arrow import ArrowLike, Stream
from ._batch import RecordBatch
from ._categories import as_map_file, ranked_columns, vocabularies
from ._command import Command, Progress, arguments_of, losses_are_errors
from ._errors import TfrError, UsageError
from ._hugging_face import Rows, is_dataset, is_dataset_dict
from ._lakehouse import Located, located
from ._manifest import Manifest, Plan
from ._options import QUERY, READING, WRITING
from ._paths import Paths, StrPath
from ._require import require
from ._schema import Schema

if TYPE_CHECKING:
    from typing_extensions import Unpack

    import pandas  # type: ignore[import-untyped,import-not-found,unused-ignore]
    import polars  # type: ignore[import-not-found,unused-ignore]
    import pyarrow  # type: ignore[import-untyped,import-not-found,unused-ignore]

    from ._options import QueryOptions, ReadOptions, WriteOptions

#: The table that `write_tfrecord` writes, in its query.
_DATA = "data"

#: The table that `read_tfrecord` reads, in its query.
_RECORDS = "records"


def sql(query: str, /, *, tables: Mapping[str, ArrowLike] | None = None, **options: Unpack[QueryOptions]) -> Query:
    """Returns a query, which has not run yet. Paths in quotes are tables; `tables` adds Arrow objects by their names.

    Options are those of the command that concern the query: `threads=4`, `memory_limit="8GiB"`.

    >>> query = tfr.sql("SELECT sum(fare) AS fares FROM rides", tables={"rides": rides})
    >>> pyarrow.table(query).to_pydict()
    {'fares': [15.0]}
    """
    __tracebackhide__ = True
    arguments = arguments_of(options, QUERY, "sql")
    return Query(query, dict(tables or {}), arguments)


def write_tfrecord(
    data: ArrowLike,
    out: StrPath,
    *,
    progress: bool | Callable[[Progress], object] = False,
    **options: Unpack[WriteOptions],
) -> Manifest:
    """Writes all rows of `data` as a shard set, or nothing. Returns its manifest.

    `data` is a table or stream of any library with the Arrow interface, a dictionary of arrays, an iterable of batches or
    of dictionaries (rows), or one of the other objects that `docs/python.md` lists. Options are those of the command:
    `shards=16`, `shuffle=7`, `split={"train": 0.9, "val": 0.1}`, `map={"price": "string"}`. Integers in `split` are exact
    numbers of rows, which need a shuffle: `split={"train": "rest", "val": 1000}`.

    A DatasetDict of Hugging Face is written as splits, each under its own name. With `map={"label": "index"}`, a categorical
    column of pandas, an Enum of polars, an ordered dictionary of pyarrow and a ClassLabel become the ranks that their values
    have there, and the manifest records the names. Values of other columns are ranked in the order of their text.

    `shards=` assigns rows to shards round-robin, so a reader of all shards finds them in another order. `shard_rows=` and
    `shard_size=` keep the order of the rows, and so does `sql(...).write` with ORDER BY in the query.

    >>> tfr.write_tfrecord(rides, "rides/", shards=2)
    rides/: 6 rows in 2 shards, 386 B
      part-00000-of-00002.tfrecord  3  195 B
      part-00001-of-00002.tfrecord  3  191 B
    """
    __tracebackhide__ = True
    given: Any = options
    categories = vocabularies(data, ranked_columns(given.get("map")), _DATA)
    if categories and given.get("map_file") is not None:
        columns = ", ".join(categories)
        raise UsageError(
            f"{_DATA}: map= asks for the ranks of {columns}, whose categories have an order, and there is a map_file=",
            hint="Give the rule and the vocabulary of the column in the mapping file.",
        )
    if is_dataset_dict(data) or (is_dataset(data) and categories):
        data = Rows(data, dict(categories.values()), _DATA)
        given = _with_splits(data, given)
    query = Query(f"SELECT * FROM {_DATA}", {_DATA: data}, [])
    query._is_copy = True
    query._map_file = as_map_file(categories) if categories else None
    return query.write(out, progress=progress, **given)


def read_tfrecord(
    paths: Paths,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    record_format: Literal["tfrecord", "array_record"] = "tfrecord",
    **options: Unpack[ReadOptions],
) -> Query:
    """Returns a query that reads TFRecord files: `read_tfrecord("shards/").to_pandas()`.

    `where` is a condition in SQL. `record_format="array_record"` reads ArrayRecord files. Other options are keys of an input
    (`split="train"`, `schema="schema.pbtxt"`, `crc="skip"`), or resources (`threads=4`).

    >>> pyarrow.table(tfr.read_tfrecord("shards/", columns=["id"], where="fare > 3")).to_pydict()
    {'id': [4, 5]}
    """
    __tracebackhide__ = True
    found = [os.fspath(path) for path in ([paths] if isinstance(paths, (str, os.PathLike)) else paths)]
    if not found:
        raise UsageError("read_tfrecord: no path")
    if record_format not in ("tfrecord", "array_record"):
        raise UsageError(f"read_tfrecord: record_format={record_format!r}: expected tfrecord or array_record")
    keys = {name: value for name, value in options.items() if name in READING}
    rest = {name: value for name, value in options.items() if name not in READING}
    table = [f"{_RECORDS}={_in_quotes(found[0])}", *(f"path={_in_quotes(path)}" for path in found[1:])]
    for name, value in keys.items():
        many = value if isinstance(value, (list, tuple)) else [value]
        table += [f"{name}={_in_quotes(str(one).lower() if isinstance(one, bool) else str(one))}" for one in many]
    table.append(f"format={record_format}")
    selected = "*" if columns is None else ", ".join(_as_name(column) for column in columns)
    query = f"SELECT {selected} FROM {_RECORDS}" + (f" WHERE {where}" if where else "")
    arguments = [*arguments_of(rest, QUERY, "read_tfrecord"), f"--table={','.join(table)}"]
    return Query(query, {}, arguments)


class Query:
    """A query. It runs each time its rows are taken: by one of its methods, or by `pyarrow.table(query)` and others.

    A loop over a query yields `pyarrow.RecordBatch` objects as they come. `batches()` needs no pyarrow.

    >>> query = tfr.sql("SELECT id FROM 'shards/' ORDER BY id")
    >>> query.arrow().to_pydict(), [batch.num_rows for batch in query]
    ({'id': [0, 1, 2, 3, 4, 5]}, [6])
    """

    def __init__(self, query: str, tables: Mapping[str, ArrowLike], arguments: Sequence[str]) -> None:
        __tracebackhide__ = True
        for name in tables:
            if not name or name.strip() != name or any(character in name for character in '=,"'):
                raise UsageError(f"tables: {name!r} cannot name a table")
        self._query = query
        self._tables = dict(tables)
        self._arguments = list(arguments)
        self._started: _native.RowReader | None = None
        # Whether the query selects all rows of its tables, unchanged.
        self._is_copy = False
        # The text of a mapping file.
        self._map_file: str | None = None

    def __repr__(self) -> str:
        tables = f" with {', '.join(self._tables)}" if self._tables else ""
        return f"<Query {self._query!r}{tables}>"

    @property
    def schema(self) -> Schema:
        """The columns, for `pyarrow.schema`. Starts the query, whose rows are then taken by the next reader."""
        __tracebackhide__ = True
        if self._started is None:
            self._started = self._start()
        return Schema(self._started)

    def __arrow_c_schema__(self) -> object:
        __tracebackhide__ = True
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        __tracebackhide__ = True
        return self._take().__arrow_c_stream__(requested_schema)

    def __array__(self, *arguments: Any, **options: Any) -> NoReturn:
        # numpy and pandas would make objects of the batches.
        __tracebackhide__ = True
        raise UsageError("a query is no array", hint="Use query.to_pandas(), .pl(), .arrow(), or .batches() for numpy arrays.")

    def __iter__(self) -> Iterator[pyarrow.RecordBatch]:
        """Runs the query and yields its rows as they come."""
        __tracebackhide__ = True
        return map(require("pyarrow", "a loop over a query").record_batch, self._rows())

    def arrow(self) -> pyarrow.Table:
        """Runs the query and returns its rows."""
        __tracebackhide__ = True
        pyarrow = require("pyarrow", "Query.arrow")
        reader = self._take()
        return pyarrow.Table.from_batches(list(map(pyarrow.record_batch, _rows_of(reader))), pyarrow.schema(reader))

    def to_pandas(self) -> pandas.DataFrame:
        """Runs the query and returns its rows, as `pyarrow.Table.to_pandas` converts them."""
        __tracebackhide__ = True
        require("pandas", "Query.to_pandas")
        return self.arrow().to_pandas()

    def df(self) -> pandas.DataFrame:
        """Runs the query and returns its rows: `to_pandas` by the name that DuckDB has for it."""
        __tracebackhide__ = True
        return self.to_pandas()

    def pl(self) -> polars.DataFrame:
        """Runs the query and returns its rows."""
        __tracebackhide__ = True
        polars = require("polars", "Query.pl")
        reader = self._take()
        frames = list(map(polars.DataFrame, _rows_of(reader)))
        return polars.concat(frames or [polars.DataFrame(reader)])

    def batches(self) -> Iterator[RecordBatch]:
        """Runs the query and returns its rows as they come. A batch is Arrow data, and has `to_numpy()`.

        >>> for batch in tfr.sql("SELECT id FROM 'shards/' ORDER BY id").batches():
        ...     batch.to_numpy()["id"]
        array([0, 1, 2, 3, 4, 5])
        """
        __tracebackhide__ = True
        return map(RecordBatch, self._rows())

    def write(
        self, out: StrPath, *, progress: bool | Callable[[Progress], object] = False, **options: Unpack[WriteOptions]
    ) -> Manifest:
        """Runs the query and writes its rows as a shard set, or as a table such as `x.parquet`: all rows or nothing."""
        __tracebackhide__ = True
        target = os.fspath(out)
        refuse_loss = not options.get("strict") and losses_are_errors()
        arguments = [f"--out={target}", "--report=json", *_write_arguments(options, "write")]
        arguments += ["--strict"] if refuse_loss else []
        command = self._command(arguments, progress=progress, refuse_loss=refuse_loss, waits=True)
        return _written(target, json.loads(command.output()))

    def plan(self, out: StrPath | None = None, **options: Unpack[WriteOptions]) -> Plan:
        """Returns what `write` with these options would do: the mapping, its losses, the shards. Reads no rows.

        >>> tfr.sql("SELECT id, fare * 1.1 AS fare FROM 'shards/'").plan().losses
        {'fare': 'float32 of float64'}
        """
        __tracebackhide__ = True
        arguments = ["--dry-run", "--report=json", *_write_arguments(options, "plan")]
        arguments += [] if out is None else [f"--out={os.fspath(out)}"]
        return Plan(json.loads(self._command(arguments).output()))

    def explain(self, analyze: bool = False) -> str:
        """Returns the plan of the query engine. With `analyze`, the query runs, and the plan has its figures."""
        __tracebackhide__ = True
        explained = Query(f"EXPLAIN {'ANALYZE ' if analyze else ''}{self._query}", self._tables, self._arguments)
        lines = explained._command(["--format=jsonl"]).output().splitlines()
        rows = [json.loads(line) for line in lines]
        return "\n".join(f"{row['plan_type']}:\n{row['plan'].rstrip()}" for row in rows)

    def _command(
        self, arguments: Sequence[str], *, progress: Any = False, refuse_loss: bool = False, waits: bool = False
    ) -> Command:
        """Starts the command. `waits` tells that the caller only waits for its end, so tables can be read meanwhile."""
        __tracebackhide__ = True
        # No comprehension: its frame would be shown in tracebacks.
        tables: dict[str, Stream] = {}
        places: dict[str, Located] = {}
        for name, data in self._tables.items():
            place = located(data)
            if place is None:
                tables[name] = Stream(data, name)
            else:
                places[name] = place
        keys = {name: ",".join(map(_in_quotes, [place.location, *place.keys])) for name, place in places.items()}
        by_location = [f"--table={name}={text}" for name, text in keys.items()]
        return Command(
            [self._query, *self._arguments, *arguments, *by_location],
            tables=tables,
            remote=[name for name, place in places.items() if place.is_remote],
            progress=progress,
            refuse_loss=refuse_loss,
            feed_here=waits and all(table.is_python for table in tables.values()),
            is_copy=self._is_copy,
            map_file=self._map_file,
        )

    def _start(self) -> _native.RowReader:
        __tracebackhide__ = True
        command = self._command(["--format=arrow"])
        rows = command.process.stdout
        assert rows is not None
        # The reader opens it for itself.
        with rows:
            return _native.RowReader(f"/dev/fd/{rows.fileno()}", command)

    def _rows(self) -> Iterator[_native.RecordBatch]:
        """Runs the query when the first batch is taken."""
        __tracebackhide__ = True
        yield from _rows_of(self._take())

    def _take(self) -> _native.RowReader:
        __tracebackhide__ = True
        started, self._started = self._started, None
        return self._start() if started is None else started


def _rows_of(reader: _native.RowReader) -> Iterator[_native.RecordBatch]:
    __tracebackhide__ = True
    while (batch := reader.next()) is not None:
        yield batch


def _write_arguments(options: Mapping[str, Any], function: str) -> list[str]:
    __tracebackhide__ = True
    given = dict(options)
    shuffle = given.get("shuffle")
    if isinstance(shuffle, int) and not isinstance(shuffle, bool):
        if given.get("seed") is not None:
            raise UsageError(f"{function}: shuffle={shuffle} is a seed, and seed= is another one")
        given["shuffle"], given["seed"] = True, shuffle
    if isinstance(given.get("split"), Mapping):
        given["split"] = _sizes(given["split"])
    return arguments_of(given, WRITING, function)


def _sizes(splits: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the sizes of splits as the command has them: integers are numbers of rows, unless 1 is all of them."""

    def is_number(size: Any) -> bool:
        return hasattr(size, "__index__") and not isinstance(size, bool)

    if not all(is_number(size) or size == "rest" for size in splits.values()) or list(splits.values()) == [1]:
        return dict(splits)
    return {name: f"{int(size)}rows" if is_number(size) else size for name, size in splits.items()}


def _with_splits(rows: Rows, options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options with the column of the names of splits."""
    __tracebackhide__ = True
    if rows.split_column is None:
        return dict(options)
    for option in ("split", "split_by", "split_column", "prefix"):
        if options.get(option) is not None:
            raise UsageError(
                f"{_DATA}: a DatasetDict has splits, and {option}= makes others",
                hint=f"Leave out {option}=, or write one of its datasets.",
            )
    return {**options, "split_column": rows.split_column}


def _written(out: str, report: dict[str, Any]) -> Manifest:
    """Returns the manifest of what a run has written, or has left in place."""
    if report["report"] != "table" and os.path.isdir(out):
        try:
            return Manifest(json.loads(_native.manifest(out)), out=out, report=report)
        except TfrError:
            # A snapshot has none.
            pass
    names = ("rows", "shards", "files", "framed_bytes", "file_bytes")
    totals = {name: report[name] for name in names if name in report}
    return Manifest({"totals": {"rows": 0, "file_bytes": 0, **totals}}, out=out, report=report)


def _in_quotes(value: str) -> str:
    """Returns a value as `--table` reads it."""
    return '"' + value.replace('"', '""') + '"' if any(character in value for character in ',"') else value


def _as_name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'
