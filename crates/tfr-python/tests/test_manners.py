"""The package in a notebook or a shell: names, versions, representations, tracebacks, progress and open files."""

from __future__ import annotations

import datetime
import re
import subprocess
import sys
import traceback
from importlib import metadata
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pyarrow as pa
import pytest

import tfr_sql as tfr
from conftest import table, write
from tfr_sql import _version


def test_names_can_be_completed() -> None:
    found = dir(tfr)
    assert set(tfr.__all__) <= set(found) and "__version__" in found
    assert [name for name in found if not name.startswith("__") and name not in tfr.__all__] == []
    assert all(hasattr(tfr, name) for name in found)


def test_the_version_is_that_of_the_distribution_or_of_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def not_installed(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", not_installed)
    _version.version.cache_clear()
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", tfr.__version__)
    monkeypatch.setenv("TFR_SQL_BIN", str(tmp_path / "none"))
    _version.version.cache_clear()
    assert tfr.__version__ == "0+unknown"
    monkeypatch.setattr(metadata, "version", {"tfr-sql": "1.2.3"}.__getitem__)
    _version.version.cache_clear()
    assert tfr.__version__ == "1.2.3"
    monkeypatch.undo()
    _version.version.cache_clear()


def test_objects_show_themselves(tmp_path: Path) -> None:
    path = write(tmp_path / "set", 100, shards=2)
    loader = tfr.Loader(path, batch_size=32, columns=["id"], shuffle=7)
    assert repr(loader) == "<Loader of 100 rows, 2 files: batch_size=32, columns=['id'], shuffle=7>"
    part = tfr.Loader(path, batch_size=32, rank=1, world_size=2, equal="truncate")
    assert repr(part) == "<Loader of 50 rows, 2 files, rank 1 of 2: batch_size=32, equal='truncate'>"
    assert repr(tfr.sql("SELECT * FROM t", tables={"t": table(1)})) == "<Query 'SELECT * FROM t' with t>"
    assert repr(tfr.sql("SELECT 1")) == "<Query 'SELECT 1'>"


def test_schemas_show_themselves(tmp_path: Path) -> None:
    path = write(tmp_path / "set", 1)
    schema = tfr.schema(path)
    # The words are those of pyarrow.
    assert repr(schema) == "\n".join(f"{field.name}: {field.type}" for field in table(1).schema).replace("<item: ", "<").replace(
        "<element: ", "<"
    )
    assert schema.names == table(1).column_names and len(schema) == 10
    assert repr(tfr.sql("SELECT 1 AS n, 'a' AS s").schema) == "n: int64\ns: string"


def test_every_type_has_a_name() -> None:
    columns = {
        "decimal": pa.decimal128(5, 2),
        "time": pa.time64("us"),
        "zoned": pa.timestamp("ns", "UTC"),
        "duration": pa.duration("ms"),
        "date": pa.date32(),
        "fixed": pa.binary(4),
        "struct": pa.struct([("a", pa.int8()), ("b", pa.list_(pa.string()))]),
        "map": pa.map_(pa.string(), pa.int64()),
        "category": pa.dictionary(pa.int32(), pa.string()),
    }
    rows = pa.table({name: pa.array([], data_type) for name, data_type in columns.items()})
    assert repr(tfr.sql("SELECT * FROM t", tables={"t": rows}).schema).splitlines() == [
        "decimal: decimal(5, 2)",
        "time: time64[us]",
        "zoned: timestamp[ns, tz=UTC]",
        "duration: duration[ms]",
        "date: date32[day]",
        "fixed: fixed_size_binary[4]",
        "struct: struct<a: int8, b: list<string>>",
        "map: map<string, int64>",
        "category: dictionary<values=string>",
    ]


ROWS = pa.table({"n": [1, 2]})

def written(path: Path) -> Path:
    tfr.write_tfrecord(ROWS, path / "written", mode="overwrite")
    return path / "written"


FAILING: dict[str, Callable[[Path], Any]] = {
    "batches": lambda path: list(tfr.sql("SELECT nope FROM t", tables={"t": ROWS}).batches()),
    "arrow": lambda path: tfr.sql("SELECT nope FROM t", tables={"t": ROWS}).arrow(),
    "loop": lambda path: list(tfr.sql("SELECT nope FROM t", tables={"t": ROWS})),
    "schema": lambda path: tfr.sql("SELECT nope FROM t", tables={"t": ROWS}).schema,
    "plan": lambda path: tfr.sql("SELECT nope FROM t", tables={"t": ROWS}).plan(),
    "explain": lambda path: tfr.sql("SELECT nope FROM t", tables={"t": ROWS}).explain(),
    "write": lambda path: tfr.sql("SELECT nope FROM t", tables={"t": ROWS}).write(path / "set"),
    "rows": lambda path: tfr.write_tfrecord([{"a": 1}, {"a": "x"}], path / "set"),
    "field": lambda path: tfr.write_tfrecord({"a": {"b": [1, "x"]}}, path / "set"),
    "fill": lambda path: tfr.Loader(written(path), batch_size=1, fill={"n": datetime.date(2026, 1, 1)}),
    "columns": lambda path: tfr.write_tfrecord({"a": [1, "x"]}, path / "set"),
    "array": lambda path: tfr.write_tfrecord(pa.array([1]), path / "set"),
    "option": lambda path: tfr.write_tfrecord(ROWS, path / "set", shard=1),  # type: ignore[call-arg]
    "value": lambda path: tfr.write_tfrecord(ROWS, path / "set", shards="x"),
    "table": lambda path: tfr.sql("SELECT 1", tables={"a,b": ROWS}),
    "read": lambda path: tfr.read_tfrecord(path / "none").arrow(),
    "head": lambda path: tfr.head(path / "none"),
    "stats": lambda path: tfr.stats(path / "none"),
    "reshard": lambda path: tfr.reshard(path / "none", path / "set"),
    "salvage": lambda path: tfr.salvage(path / "none", path / "set"),
    "describe": lambda path: tfr.describe(path / "none"),
    "verify": lambda path: tfr.verify(path / "none"),
    "manifest": lambda path: tfr.manifest(path / "none"),
    "form": lambda path: tfr.schema(path / "none"),
    "scan": lambda path: list(tfr.scan_records(path / "none")),
    "source": lambda path: tfr.RecordSource(path / "none"),
    "loader": lambda path: tfr.Loader(path / "none", batch_size=1),
    "shuffle": lambda path: tfr.Loader(path / "none", batch_size=1, shuffle=True),
    "job": lambda path: tfr.start_write("s3://bucket/x", ROWS.schema),
    "stage": lambda path: tfr.start_write(path / "job", ROWS.schema).stage(0, pa.array([1])),
}


@pytest.mark.parametrize("call", FAILING)
def test_tracebacks_hide_the_frames_of_the_package(call: str, tmp_path: Path) -> None:
    with pytest.raises(tfr.TfrError) as info:
        FAILING[call](tmp_path)
    frames = [frame for frame, _ in traceback.walk_tb(info.value.__traceback__)]
    ours = [frame for frame in frames if str(frame.f_globals.get("__name__", "")).startswith("tfr_sql")]
    shown = [frame.f_code.co_name for frame in ours if frame.f_locals.get("__tracebackhide__") is not True]
    assert ours and shown == []
    assert info.value.__cause__ is None
    assert info.value.__context__ is None or info.value.__suppress_context__


OPEN = """
import gc, sys
from pathlib import Path
import test_manners as tests
for name, call in tests.FAILING.items():
    try:
        call(Path(sys.argv[1]))
    except tests.tfr.TfrError:
        pass
    gc.collect()
rows = tests.tfr.sql("SELECT * FROM generate_series(1, 1000000)").batches()
next(rows)
del rows
gc.collect()
"""


def test_failing_calls_close_their_files(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "dev", "-W", "error::ResourceWarning", "-c", OPEN, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent)
    assert done.returncode == 0, done.stderr
    assert "ResourceWarning" not in done.stderr, done.stderr


def shares(**options: Any) -> tuple[Callable[[tfr.Progress], None], list[float | None]]:
    found: list[float | None] = []
    return lambda progress: found.append(progress.share), found


def test_the_share_of_a_table_is_known(tmp_path: Path) -> None:
    rows = pa.table({"n": np.arange(300_000), "s": ["x" * 50] * 300_000})
    for name, data in {"table": rows, "columns": {"n": np.arange(300_000)}, "rows": rows.select(["n"]).to_pylist()}.items():
        call, found = shares()
        tfr.write_tfrecord(data, tmp_path / name, progress=call)
        assert found and None not in found and all(0 <= share <= 1 for share in found if share is not None)
        # From the start to the end.
        assert found == sorted(found, key=lambda share: share or 0)
    call, found = shares()
    tfr.sql("SELECT a.n FROM a JOIN b USING (n)", tables={"a": rows, "b": rows}).write(tmp_path / "query", progress=call)
    assert found and None not in found
    call, found = shares()
    tfr.write_tfrecord(rows.to_reader(), tmp_path / "stream", progress=call)
    assert found and set(found) == {None}


def test_a_bar_ends_at_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Bar:
        total = 100
        n = 0

        def __init__(self, **options: Any) -> None:
            bars.append(self)

        def set_postfix_str(self, text: str, refresh: bool) -> None: ...

        def refresh(self) -> None: ...

        def close(self) -> None: ...

    bars: list[Bar] = []
    module = type(sys)("tqdm.auto")
    module.tqdm = Bar  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tqdm", type(sys)("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", module)
    tfr.write_tfrecord(table(10), tmp_path / "set", progress=True)
    with pytest.raises(tfr.ExistsError):
        tfr.write_tfrecord(table(10), tmp_path / "set", progress=True)
    assert [bar.n for bar in bars] == [100, 0]


def test_paths_that_a_loader_does_not_read_have_a_hint(tmp_path: Path) -> None:
    import pyarrow.csv
    import pyarrow.feather
    import pyarrow.parquet

    pyarrow.parquet.write_table(ROWS, tmp_path / "x.parquet")
    pyarrow.feather.write_feather(ROWS, str(tmp_path / "x.arrow"), compression="uncompressed")
    pyarrow.csv.write_csv(ROWS, tmp_path / "x.csv")
    readers: list[Callable[[Any], Any]] = [
        lambda path: tfr.Loader(path, batch_size=1),
        tfr.RecordSource,
        lambda path: next(tfr.scan_records(path)),
        tfr.schema,
    ]
    for read in readers:
        for name, format_name in {"x.parquet": "Parquet", "x.arrow": "Arrow IPC", "x.csv": "CSV"}.items():
            with pytest.raises(tfr.UsageError, match=f"reads TFRecord files, found a file of {format_name}") as other:
                read(tmp_path / name)
            assert f"tfr_sql.sql(\"SELECT * FROM '{tmp_path}/{name}'\").write(\"shards/\")" in str(other.value.hint)
    for read in readers[2:]:
        for path in ["s3://bucket/x", ["gs://bucket/x", "y"]]:
            with pytest.raises(tfr.UsageError, match="reads local files, found a URL") as url:
                read(path)
            assert "tfr_sql.read_tfrecord(" in str(url.value.hint)
    # A name alone is no reason.
    tfr.write_tfrecord(ROWS, tmp_path / "set")
    (shard,) = (tmp_path / "set").glob("*.tfrecord")
    shard.rename(tmp_path / "records.json")
    assert len(tfr.Loader(tmp_path / "records.json", batch_size=2)) == 1


def test_a_shuffle_needs_a_seed() -> None:
    with pytest.raises(tfr.UsageError, match="shuffle is True, expected a seed") as info:
        tfr.Loader("shards/", batch_size=1, shuffle=True)
    assert "shuffle=7" in str(info.value.hint)
    with pytest.raises(tfr.UsageError, match="shuffle is False") as info:
        tfr.Loader("shards/", batch_size=1, shuffle=False)
    assert "Leave it out" in str(info.value.hint)


def test_shards_of_rows_keep_the_order_and_a_number_of_shards_does_not(tmp_path: Path) -> None:
    rows = pa.table({"n": range(10)})
    order = {}
    for name, options in {"shards": {"shards": 3}, "shard_rows": {"shard_rows": 4}}.items():
        tfr.write_tfrecord(rows, tmp_path / name, **options)  # type: ignore[arg-type]
        order[name] = [int(n) for batch in tfr.Loader(tmp_path / name, batch_size=4) for n in batch["n"]]
    tfr.sql("SELECT * FROM t ORDER BY n", tables={"t": rows}).write(tmp_path / "sorted", shards=3)
    order["sorted"] = [int(n) for batch in tfr.Loader(tmp_path / "sorted", batch_size=4) for n in batch["n"]]
    assert order["shard_rows"] == order["sorted"] == list(range(10))
    # As documented: assigned round-robin.
    assert order["shards"] == [0, 3, 6, 9, 1, 4, 7, 2, 5, 8]
