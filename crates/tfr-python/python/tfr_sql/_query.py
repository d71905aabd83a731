"""Queries over files and Arrow objects, and their results as Arrow data, as shards, and as tables."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping, Sequence

from . import _native
from ._arrow import ArrowLike, messages
from ._command import Command, Progress, arguments_of, losses_are_errors
from ._errors import TfrError, UsageError
from ._inspect import ArrowSchema, shards_of_split
from ._manifest import Manifest, Plan
from ._options import QUERY, READING, WRITING
from ._paths import Paths, StrPath

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._native import RecordBatch
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

    `data` is a table or stream of any library with the Arrow interface, an iterable of batches, or one of the other
    objects that `docs/python.md` lists. Options are those of the command: `shards=16`, `shuffle=7`,
    `split={"train": 0.9, "val": 0.1}`, `map={"price": "string"}`.

    >>> tfr.write_tfrecord(rides, "rides/", shards=2)
    rides/: 6 rows in 2 shards, 386 B
      part-00000-of-00002.tfrecord  3  195 B
      part-00001-of-00002.tfrecord  3  191 B
    """
    return Query(f"SELECT * FROM {_DATA}", {_DATA: data}, []).write(out, progress=progress, **options)


def read_tfrecord(
    paths: Paths,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    split: str | None = None,
    **options: Unpack[ReadOptions],
) -> Query:
    """Returns a query that reads TFRecord files: `pyarrow.table(read_tfrecord("shards/"))`.

    `where` is a condition in SQL. `split` reads only the shards of this split. Other options are keys of an input (`schema="schema.pbtxt"`, `crc="skip"`), or
    resources (`threads=4`).

    >>> pyarrow.table(tfr.read_tfrecord("shards/", columns=["id"], where="fare > 3")).to_pydict()
    {'id': [4, 5]}
    """
    found = [os.fspath(path) for path in ([paths] if isinstance(paths, (str, os.PathLike)) else paths)]
    if not found:
        raise UsageError("read_tfrecord: no path")
    if split is not None:
        found = [path for directory in found for path in shards_of_split(directory, split)]
    keys = {name: value for name, value in options.items() if name in READING}
    rest = {name: value for name, value in options.items() if name not in READING}
    table = [f"{_RECORDS}={_in_quotes(found[0])}", *(f"path={_in_quotes(path)}" for path in found[1:])]
    for name, value in keys.items():
        many = value if isinstance(value, (list, tuple)) else [value]
        table += [f"{name}={_in_quotes(str(one).lower() if isinstance(one, bool) else str(one))}" for one in many]
    table.append("format=tfrecord")
    selected = "*" if columns is None else ", ".join(_as_name(column) for column in columns)
    query = f"SELECT {selected} FROM {_RECORDS}" + (f" WHERE {where}" if where else "")
    arguments = [*arguments_of(rest, QUERY, "read_tfrecord"), f"--table={','.join(table)}"]
    return Query(query, {}, arguments)


class Query:
    """A query. It runs when its rows are taken: `pyarrow.table(query)`, `polars.DataFrame(query)`, `query.batches()`."""

    def __init__(self, query: str, tables: Mapping[str, ArrowLike], arguments: Sequence[str]) -> None:
        for name in tables:
            if not name or name.strip() != name or any(character in name for character in '=,"'):
                raise UsageError(f"tables: {name!r} cannot name a table")
        self._query = query
        self._tables = dict(tables)
        self._arguments = list(arguments)
        self._started: _native.RowReader | None = None

    def __repr__(self) -> str:
        return f"<Query {self._query!r}>"

    @property
    def schema(self) -> ArrowSchema:
        """The columns, for `pyarrow.schema`. Starts the query, whose rows are then taken by the next reader."""
        if self._started is None:
            self._started = self._start()
        return self._started

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._take().__arrow_c_stream__(requested_schema)

    def batches(self) -> Iterator[RecordBatch]:
        """Runs the query and returns its rows as they come. A batch is Arrow data, and has `to_numpy()`.

        >>> for batch in tfr.sql("SELECT id FROM 'shards/' ORDER BY id").batches():
        ...     batch.to_numpy()["id"]
        array([0, 1, 2, 3, 4, 5])
        """
        reader = self._take()
        while (batch := reader.next()) is not None:
            yield batch

    def write(
        self, out: StrPath, *, progress: bool | Callable[[Progress], object] = False, **options: Unpack[WriteOptions]
    ) -> Manifest:
        """Runs the query and writes its rows as a shard set, or as a table such as `x.parquet`: all rows or nothing."""
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
        arguments = ["--dry-run", "--report=json", *_write_arguments(options, "plan")]
        arguments += [] if out is None else [f"--out={os.fspath(out)}"]
        return Plan(json.loads(self._command(arguments).output()))

    def explain(self, analyze: bool = False) -> str:
        """Returns the plan of the query engine. With `analyze`, the query runs, and the plan has its figures."""
        explained = Query(f"EXPLAIN {'ANALYZE ' if analyze else ''}{self._query}", self._tables, self._arguments)
        lines = explained._command(["--format=jsonl"]).output().splitlines()
        rows = [json.loads(line) for line in lines]
        return "\n".join(f"{row['plan_type']}:\n{row['plan'].rstrip()}" for row in rows)

    def _command(
        self, arguments: Sequence[str], *, progress: Any = False, refuse_loss: bool = False, waits: bool = False
    ) -> Command:
        """Starts the command. `waits` tells that the caller only waits for its end, so tables can be read meanwhile."""
        found = {name: messages(data, name) for name, data in self._tables.items()}
        tables = {name: stream for name, (stream, _) in found.items()}
        feed_here = waits and all(is_python for _, is_python in found.values())
        all_arguments = [self._query, *self._arguments, *arguments]
        return Command(all_arguments, tables=tables, progress=progress, refuse_loss=refuse_loss, feed_here=feed_here)

    def _start(self) -> _native.RowReader:
        command = self._command(["--format=arrow"])
        rows = command.process.stdout
        assert rows is not None
        reader = _native.RowReader(f"/dev/fd/{rows.fileno()}", command)
        # The reader has opened it for itself.
        rows.close()
        return reader

    def _take(self) -> _native.RowReader:
        started, self._started = self._started, None
        return self._start() if started is None else started


def _write_arguments(options: Mapping[str, Any], function: str) -> list[str]:
    given = dict(options)
    shuffle = given.get("shuffle")
    if isinstance(shuffle, int) and not isinstance(shuffle, bool):
        if given.get("seed") is not None:
            raise UsageError(f"{function}: shuffle={shuffle} is a seed, and seed= is another one")
        given["shuffle"], given["seed"] = True, shuffle
    return arguments_of(given, WRITING, function)


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
