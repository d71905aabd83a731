from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from conftest import digest, example, frame
from tfr_sql import Loader


def send_digest(batches: Any, connection: Connection) -> None:
    connection.send(digest(batches))
    connection.close()


def digest_in_process(method: str, batches: Any) -> str:
    context: Any = multiprocessing.get_context(method)
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=send_digest, args=(batches, send))
    process.start()
    send.close()
    try:
        return str(receive.recv())
    finally:
        process.join()
        assert process.exitcode == 0


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_loader_works_in_another_process(sets: dict[int, str], method: str) -> None:
    loader = Loader(sets[3], batch_size=30, shuffle=2, threads=2)
    assert digest_in_process(method, loader) == digest(loader)


def test_an_iteration_continues_after_a_fork(sets: dict[int, str]) -> None:
    loader = Loader(sets[16], batch_size=30, shuffle=2)
    batches = iter(loader)
    for _ in range(5):
        next(batches)
    there = digest_in_process("fork", batches)
    assert there == digest(batches)


def test_a_fork_does_not_wait_for_the_thread_of_its_parent(sets: dict[int, str]) -> None:
    batches = iter(Loader(sets[16], batch_size=30, epochs=None))
    next(batches)
    child = os.fork()
    if child == 0:
        del batches
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    next(batches)


def test_the_interpreter_ends_while_a_loader_reads(sets: dict[int, str]) -> None:
    program = f"import tfr_sql; batches = iter(tfr_sql.Loader({sets[3]!r}, batch_size=10, epochs=None)); next(batches)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_an_interrupt_ends_a_wait(tmp_path: Path) -> None:
    # The signal arrives whenever it does: before a check, in it, or in a later one.
    path = tmp_path / "a.tfrecord"
    path.write_bytes(frame(example(id=[1])) * 300_000)
    program = f"""
import os, signal, threading, tfr_sql
# Programs that a shell starts in the background ignore the signal.
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    threading.Timer(0, os.kill, (os.getpid(), signal.SIGINT)).start()
    while True:
        tfr_sql.verify({str(path)!r}, threads=1)
except KeyboardInterrupt:
    print("interrupted")
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, timeout=120, capture_output=True, text=True)
    assert done.stdout == "interrupted\n"


def test_the_package_needs_no_numpy_to_be_imported() -> None:
    program = "import sys, tfr_sql; sys.exit('numpy' in sys.modules or 'tfr_sql._native' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
