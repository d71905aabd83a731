"""Writing Arrow data as shard sets, by the command."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any, Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tfr_sql as tfr
from conftest import table
from tfr_sql._command import find_command


def hashes(out: Path) -> list[tuple[str, str]]:
    return [(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in sorted(out.glob("*.tfrecord"))]


def nothing_in(directory: Path) -> bool:
    return list(directory.iterdir()) == []


def test_a_table_becomes_the_bytes_that_the_command_writes(tmp_path: Path) -> None:
    rows = table(5000)
    pq.write_table(rows, tmp_path / "t.parquet")
    options = ["--shards", "3", "--shuffle", "--seed", "7"]
    command = [find_command(), f"SELECT * FROM '{tmp_path}/t.parquet'", "--out", str(tmp_path / "expected"), *options]
    subprocess.run(command, check=True, capture_output=True)
    manifest = tfr.write_tfrecord(rows, tmp_path / "found", shards=3, shuffle=7)
    assert len(hashes(tmp_path / "found")) == 3
    assert hashes(tmp_path / "found") == hashes(tmp_path / "expected")
    assert (manifest.rows, len(manifest.files)) == (5000, 3)
    # Without a shuffle, the order is that of the rows.
    tfr.write_tfrecord(rows.to_reader(max_chunksize=100), tmp_path / "in order")
    assert [example["id"] for example in tfr.head(tmp_path / "in order", 3)] == [[0], [1], [2]]
    assert pa.table(tfr.read_tfrecord(tmp_path / "in order")).equals(rows)


def test_rows_that_do_not_fit_are_rejected(tmp_path: Path) -> None:
    ids = pa.array([1, 2**63, 3, None, 2**64 - 1], pa.uint64())
    rows = pa.table({"id": ids, "name": ["a", "b", "c", "d", "e"]})
    out, bad = tmp_path / "set", tmp_path / "bad"
    with pytest.raises(tfr.DataError) as refused:
        tfr.write_tfrecord(rows, out, null="error", rejects=bad, max_rejects=2)
    assert (refused.value.column, refused.value.row) == ("id", 1)
    assert "max_rejects" in str(refused.value.hint) and nothing_in(tmp_path)
    manifest = tfr.write_tfrecord(rows, out, null="error", rejects=bad, max_rejects=3)
    assert manifest["rejects"] == {"rows": 3, "table": str(bad)}
    assert pa.table(tfr.read_tfrecord(out)).to_pydict() == {"id": [1, 3], "name": ["a", "c"]}
    rejected = pq.read_table(bad)
    assert rejected.select(["id", "name"]).equals(rows.take([1, 3, 4]))
    assert rejected["_reject_column"].to_pylist() == ["id"] * 3
    assert rejected["_reject_row"].to_pylist() == [1, 3, 4]
    reasons = [reason.split(" ")[0] for reason in rejected["_reject_reason"].to_pylist()]
    assert reasons == [str(2**63), "null,", str(2**64 - 1)]


def test_a_manifest_shows_itself(tmp_path: Path) -> None:
    manifest = tfr.write_tfrecord(pa.table({"n": range(1000)}), tmp_path / "set", shards=2)
    lines = repr(manifest).splitlines()
    assert lines[0].endswith("set: 1,000 rows in 2 shards, 30.1 KiB")
    assert [line.split() for line in lines[1:]][0][:2] == ["part-00000-of-00002.tfrecord", "501"]
    assert "<td>part-00001-of-00002.tfrecord</td><td>499</td>" in manifest._repr_html_()
    assert manifest == tfr.manifest(tmp_path / "set") == json.loads((tmp_path / "set/_manifest.json").read_text())
    assert manifest.report is not None and manifest.report["rows"] == 1000


def test_a_table_file_can_be_written(tmp_path: Path) -> None:
    found = tfr.sql("SELECT n * 2 AS n FROM t", tables={"t": pa.table({"n": [1, 2]})}).write(tmp_path / "x.parquet")
    assert pq.read_table(tmp_path / "x.parquet").to_pydict() == {"n": [2, 4]}
    assert found.rows == 2 and repr(found).startswith(f"{tmp_path}/x.parquet: 2 rows in 1 file, ")


def test_options_are_those_of_the_command(tmp_path: Path) -> None:
    rows = pa.table({"user": [i % 50 for i in range(1000)], "price": [i / 3 for i in range(1000)], "day": ["a", "b"] * 500})
    manifest = tfr.write_tfrecord(
        rows,
        tmp_path / "set",
        split={"train": 0.9, "val": 0.1},
        split_by=["user"],
        shards={"train": 4, "val": 1},
        map={"price": "string"},
        partition_by=["day"],
        compression="gzip",
        emit=["stats"],
        threads=2,
    )
    assert [split["name"] for split in manifest.report["splits"]] == ["train", "val"]  # type: ignore[index]
    assert sum("train" in path and path.endswith("-of-00004.tfrecord.gz") for path in manifest.files) == 8
    # A rule makes text of the numbers.
    price = float(tfr.head(manifest.files[0], 1)[0]["price"][0])
    assert price * 3 == pytest.approx(round(price * 3))
    with pytest.raises(tfr.UsageError, match="no option 'shard'"):
        tfr.write_tfrecord(rows, tmp_path / "other", shard=3)  # type: ignore[call-arg]
    with pytest.raises(tfr.UsageError, match="invalid value '0' for shards=: expected") as info:
        tfr.write_tfrecord(rows, tmp_path / "other", shards=0)
    assert not (tmp_path / "other").exists() and info.value.hint is None


def test_an_empty_table_is_an_empty_set_but_a_stream_that_was_read_is_an_error(tmp_path: Path) -> None:
    rows = pa.table({"n": [1, 2]})
    assert tfr.write_tfrecord(rows.slice(2), tmp_path / "empty").rows == 0
    reader = rows.to_reader()
    assert tfr.write_tfrecord(reader, tmp_path / "first").rows == 2
    for data in [reader, iter([]), (batch for batch in ()), []]:  # type: ignore[var-annotated]
        with pytest.raises(tfr.UsageError, match="data: no batches: the stream has been read before"):
            tfr.write_tfrecord(data, tmp_path / "second")
        assert not (tmp_path / "second").exists()


class Failed(Exception):
    pass


def test_a_producer_that_raises_leaves_nothing_behind(tmp_path: Path) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        for _ in range(20):
            yield from table(1000).to_batches()
        raise Failed("midway")

    (tmp_path / "out").mkdir()
    schema = table(1).schema
    for data in [batches(), pa.RecordBatchReader.from_batches(schema, batches())]:
        with pytest.raises(Failed, match="midway"):
            tfr.write_tfrecord(data, tmp_path / "out" / "set")
        assert nothing_in(tmp_path / "out")
    # Several tables are read on threads.
    query = tfr.sql("SELECT a.* FROM a LEFT JOIN b USING (id)", tables={"a": batches(), "b": table(10)})
    with pytest.raises(Failed, match="midway"):
        query.write(tmp_path / "out" / "set")
    assert nothing_in(tmp_path / "out")
    with pytest.raises(tfr.UsageError, match="b: no batches: the stream has been read before"):
        tfr.sql("SELECT * FROM a, b", tables={"a": table(10), "b": iter([])}).write(tmp_path / "out" / "set")
    assert nothing_in(tmp_path / "out")
    with pytest.raises(tfr.UsageError, match="expected 10 columns, found 1") as info:
        tfr.write_tfrecord([*table(5).to_batches(), *pa.table({"id": [1]}).to_batches()], tmp_path / "out" / "set")
    assert info.value.hint == "Cast the batches to one schema." and nothing_in(tmp_path / "out")


def test_errors_have_types_and_places(tmp_path: Path) -> None:
    rows = pa.table({"n": pa.array([1, None, 3])})
    with pytest.raises(tfr.DataError) as data:
        tfr.write_tfrecord(rows, tmp_path / "set", null="error")
    assert (data.value.column, data.value.row) == ("n", 1) and data.value.hint
    tfr.write_tfrecord(rows, tmp_path / "set")
    with pytest.raises(FileExistsError) as exists:
        tfr.write_tfrecord(rows, tmp_path / "set")
    assert isinstance(exists.value, tfr.ExistsError) and 'mode="overwrite"' in str(exists.value.hint)
    assert tfr.write_tfrecord(rows, tmp_path / "set", mode="overwrite").rows == 3
    with pytest.raises(tfr.QueryError, match="no column named m"):
        tfr.sql("SELECT m FROM t", tables={"t": rows}).write(tmp_path / "other")
    with pytest.raises(tfr.MissingError, match="none.csv"):
        pa.table(tfr.sql(f"SELECT * FROM '{tmp_path}/none.csv'").schema)
    for data_without_arrow in ["x.parquet", 7, object()]:
        with pytest.raises(tfr.UsageError, match="data: expected Arrow data"):
            tfr.write_tfrecord(data_without_arrow, tmp_path / "other")
    with pytest.raises(tfr.UsageError, match="expected an iterable of batches or rows, found int in it"):
        tfr.write_tfrecord([1, 2], tmp_path / "other")


def test_partitions_are_overwritten(tmp_path: Path) -> None:
    def days(days: list[str], version: int) -> pa.Table:
        return pa.table({"day": days, "version": [version] * len(days)})

    def write(rows: pa.Table, **options: str) -> tfr.Manifest:
        return tfr.write_tfrecord(rows, tmp_path / "set", partition_by="day", **options)

    write(days(["a", "b"], 1))
    assert write(days(["b", "c"], 2), mode="overwrite-partitions").rows == 3
    found = pa.table(tfr.sql(f"SELECT day, version FROM '{tmp_path}/set' ORDER BY day")).to_pydict()
    assert found == {"day": ["a", "b", "c"], "version": [1, 2, 2]}
    assert tfr.verify(tmp_path / "set").findings == []
    with pytest.raises(tfr.UsageError, match='mode="overwrite-partitions" needs partition_by='):
        tfr.write_tfrecord(days(["a"], 3), tmp_path / "set", mode="overwrite-partitions")


def test_losses_are_warnings_that_can_be_errors(tmp_path: Path) -> None:
    rows = pa.table({"x": [0.1]})
    with pytest.warns(tfr.LossWarning, match='"x" loses information') as found:
        tfr.write_tfrecord(rows, tmp_path / "set")
    # The warning points here.
    assert [Path(warning.filename) for warning in found] == [Path(__file__)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(tfr.LossWarning, match='would lose information: "x"'):
            tfr.write_tfrecord(rows, tmp_path / "refused")
    with pytest.raises(tfr.QueryError, match='would lose information: "x"'):
        tfr.write_tfrecord(rows, tmp_path / "refused", strict=True)
    assert not (tmp_path / "refused").exists()


def test_notes_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="tfr_sql"):
        tfr.write_tfrecord(pa.table({"n": [1]}), tmp_path / "set")
    assert [record.getMessage().split(",")[0] for record in caplog.records] == ["1 row in 1 shard"]


def test_progress_is_reported(tmp_path: Path) -> None:
    seen: list[tfr.Progress] = []
    here = threading.get_ident()

    def show(progress: tfr.Progress) -> None:
        assert threading.get_ident() == here
        seen.append(progress)

    tfr.write_tfrecord(pa.table({"n": range(1000)}), tmp_path / "set", progress=show)
    assert seen and seen[0].rows == 0 and "rows" in seen[0].message
    # With tqdm, or silently without it.
    tfr.write_tfrecord(pa.table({"n": range(1000)}), tmp_path / "bar", progress=True)


def fake(tmp_path: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tfr-sql"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("TFR_SQL_BIN", str(path))


def test_a_command_that_dies_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"n": range(1000)})
    fake(tmp_path, "kill -9 $$", monkeypatch)
    with pytest.raises(tfr.CommandError, match="was ended by signal 9") as killed:
        tfr.write_tfrecord(rows, tmp_path / "set")
    assert killed.value.exit_code == -signal.SIGKILL and "memory_limit" in str(killed.value.hint)
    fake(tmp_path, "echo sorry >&2; exit 101", monkeypatch)
    with pytest.raises(tfr.CommandError, match="ended with exit code 101") as crashed:
        list(tfr.sql("SELECT 1").batches())
    assert (crashed.value.exit_code, crashed.value.stderr) == (101, "sorry\n")
    monkeypatch.setenv("TFR_SQL_BIN", str(tmp_path / "none"))
    with pytest.raises(tfr.MissingError, match="TFR_SQL_BIN"):
        tfr.sql("SELECT 1").schema


def write_in_process(out: str, connection: Any) -> None:
    connection.send(tfr.write_tfrecord(pa.table({"n": [1, 2, 3]}), out).rows)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_it_works_in_other_processes(tmp_path: Path, method: str) -> None:
    import multiprocessing

    assert tfr.write_tfrecord(pa.table({"n": [1]}), tmp_path / "before").rows == 1
    context: Any = multiprocessing.get_context(method)
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=write_in_process, args=(str(tmp_path / "set"), send))
    process.start()
    assert receive.recv() == 3
    process.join()
    assert process.exitcode == 0


def test_the_module_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "tfr_sql", "SELECT 1 AS one"], capture_output=True, text=True, check=True)
    assert done.stdout == "one\n1\n"
