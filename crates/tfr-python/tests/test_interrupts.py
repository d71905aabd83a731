"""Ctrl-C raises KeyboardInterrupt at once, ends the command, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tfr_sql as tfr

#: Seconds until KeyboardInterrupt is raised, which docs/python.md promises.
PROMISED = 0.5

PROGRAM = """
import os, signal, sys, time
import pyarrow as pa
import tfr_sql as tfr

# Programs that a shell starts in the background ignore the signal.
signal.signal(signal.SIGINT, signal.default_int_handler)
kind, out, records = sys.argv[1:]
ENDLESS = "SELECT value AS n FROM generate_series(1, 1000000000000)"
ROWS = pa.schema([("n", pa.int64())])

def begun():
    os.write(1, b"begun\\n")

def slow():
    yield pa.record_batch({"n": range(100_000)})
    begun()
    time.sleep(60)

def endless():
    batch = pa.record_batch({"n": range(10_000)})
    yield batch
    begun()
    while True:
        yield batch

class Stream:
    # A stream of another library, which takes the rows where Python raises no KeyboardInterrupt.
    def __arrow_c_stream__(self, requested_schema=None):
        return pa.RecordBatchReader.from_batches(ROWS, slow()).__arrow_c_stream__(requested_schema)

def each_batch(query):
    for batch in query.batches():
        begun()

def each_batch_of(loader):
    batches = iter(loader)
    next(batches)
    begun()
    for batch in batches:
        pass

try:
    if kind == "write of a slow producer":
        tfr.write_tfrecord(slow(), out)
    elif kind == "write of a producer without end":
        tfr.write_tfrecord(endless(), out)
    elif kind == "write of two slow producers":
        tfr.sql("SELECT a.n FROM a JOIN b USING (n)", tables={"a": slow(), "b": slow()}).write(out)
    elif kind == "write of two producers without end":
        tfr.sql("SELECT a.n FROM a JOIN b USING (n)", tables={"a": endless(), "b": endless()}).write(out)
    elif kind == "write of a slow stream":
        tfr.write_tfrecord(Stream(), out)
    elif kind == "write of a query without end":
        tfr.sql(ENDLESS).write(out, shard_rows=10_000, progress=lambda progress: progress.rows and begun())
    elif kind == "batches of a slow producer":
        list(tfr.sql("SELECT n FROM a", tables={"a": slow()}).batches())
    elif kind == "batches of a query without end":
        each_batch(tfr.sql(ENDLESS))
    elif kind == "batches of a query without rows":
        query = tfr.sql(f"SELECT count(*) FROM ({ENDLESS}) WHERE n % 2 = 3")
        query.schema
        begun()
        list(query.batches())
    elif kind == "loader":
        each_batch_of(tfr.Loader(records, batch_size=10, epochs=None))
    elif kind == "loader with a large shuffle":
        begun()
        list(tfr.Loader(records, batch_size=10, epochs=None, shuffle=1, shuffle_buffer=10_000_000))
    elif kind == "stage of a slow producer":
        tfr.start_write(out, ROWS).stage(0, slow())
    elif kind == "stage of a large batch":
        batch = pa.record_batch({"n": pa.nulls(20_000_000, pa.int64())})
        begun()
        tfr.start_write(out, ROWS).stage(0, batch)
    elif kind == "stage of a slow stream":
        tfr.start_write(out, ROWS).stage(0, Stream())
except KeyboardInterrupt:
    print("interrupted", time.time(), flush=True)
"""

KINDS = [
    "write of a slow producer",
    "write of a producer without end",
    "write of two slow producers",
    "write of two producers without end",
    "write of a slow stream",
    "write of a query without end",
    "batches of a slow producer",
    "batches of a query without end",
    "batches of a query without rows",
    "loader",
    "loader with a large shuffle",
    "stage of a slow producer",
    "stage of a large batch",
    "stage of a slow stream",
]


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> str:
    out = tmp_path_factory.mktemp("records") / "set"
    tfr.sql("SELECT value AS n, repeat('x', 50) AS s FROM generate_series(1, 300000)").write(out, shards=2)
    return str(out)


def interrupt(kind: str, directory: Path, records: str, whole_group: bool) -> float:
    """Returns the seconds until KeyboardInterrupt was raised, when it has left nothing."""
    directory.mkdir()
    command = [sys.executable, "-c", PROGRAM, kind, str(directory / "set"), records]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    commands = children(process.pid)
    sent = time.time()
    # A terminal interrupts the command, too; others only the process.
    (os.killpg if whole_group else os.kill)(process.pid, signal.SIGINT)
    word, at = process.stdout.read().replace("begun\n", "").split()
    assert word == "interrupted"
    assert process.wait() == 0
    assert not any(os.path.exists(f"/proc/{child}") for child in commands)
    if kind.startswith("stage"):
        # The attempt is gone, and the job can go on.
        assert [path.name for path in directory.rglob("*") if path.suffix == ".staged"] == []
    else:
        assert list(directory.iterdir()) == []
    return float(at) - sent


@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupt_stops_everything(tmp_path: Path, records: str, kind: str) -> None:
    seconds = interrupt(kind, tmp_path / "first", records, whole_group=False)
    if seconds >= PROMISED:
        # The machine may have been busy once.
        seconds = interrupt(kind, tmp_path / "again", records, whole_group=False)
    assert seconds < PROMISED


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith("write")])
def test_a_terminal_interrupts_the_command_too(tmp_path: Path, records: str, kind: str) -> None:
    for attempt in range(3):
        interrupt(kind, tmp_path / str(attempt), records, whole_group=True)


def children(parent: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.append(int(stat.parent.name))
    return found
