"""The examples in docstrings are true, and every public function has one."""

from __future__ import annotations

import doctest
import importlib
import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

import tfr_sql as tfr
from conftest import example, frame


def found_in(module: ModuleType, names: list[str]) -> list[Any]:
    """Returns the examples of these names, and of the methods of classes, as tests of pytest."""
    finder, found = doctest.DocTestFinder(), []
    for name in names:
        tests = finder.find(getattr(module, name), f"{module.__name__}.{name}", globs={})
        found += [pytest.param(test, id=test.name) for test in tests if test.examples]
    return found


EXAMPLES = found_in(tfr, tfr.__all__)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Returns the names that examples use. The working directory has the files."""
    monkeypatch.chdir(tmp_path)
    rides = pa.table(
        {
            "id": range(6),
            "fare": pa.array([0.5, 1.5, 2.5, 2.5, 3.5, 4.5], pa.float32()),
            "tags": [["a"], [], ["c", "d"], [], ["e"], ["long", ""]],
        }
    )
    # In two shards, whose rows are in order.
    job = tfr.start_write("shards/", rides.schema)
    job.commit([job.stage(task, rides.slice(3 * task, 3)) for task in range(2)])
    damaged = bytearray(b"".join(frame(example(id=[i])) for i in range(3)))
    damaged[-1] ^= 1
    Path("damaged.tfrecord").write_bytes(damaged)
    return {"tfr": tfr, "pyarrow": pa, "rides": rides}


@pytest.mark.parametrize("test", EXAMPLES)
def test_examples(test: doctest.DocTest, data: dict[str, Any]) -> None:
    run(test, data)


def run(test: doctest.DocTest, data: dict[str, Any]) -> None:
    report: list[str] = []
    copy = doctest.DocTest(test.examples, dict(data), test.name, test.filename, test.lineno, test.docstring)
    failed = doctest.DocTestRunner(verbose=False).run(copy, out=report.append).failed
    assert not failed, "".join(report)


@pytest.mark.parametrize(
    ("module", "needs", "name"),
    [("torch", "torch", "TFRecordDataset"), ("tf", "tensorflow", "dataset"), ("jax", "grain", "TFRecordIterDataset")],
)
def test_examples_for_other_libraries(module: str, needs: str, name: str, data: dict[str, Any]) -> None:
    pytest.importorskip(needs)
    tests = found_in(importlib.import_module(f"tfr_sql.{module}"), [name])
    assert len(tests) == 1
    run(tests[0].values[0], data)


def test_every_function_has_an_example() -> None:
    functions = [name for name in tfr.__all__ if inspect.isfunction(getattr(tfr, name))]
    assert len(functions) > 10
    assert [name for name in functions if ">>> " not in str(getattr(tfr, name).__doc__)] == []
