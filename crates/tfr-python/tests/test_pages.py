"""The examples of docs/python.md run, each in a directory with the data that they name."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tfr_sql as tfr
from s3 import S3

PAGE = Path(__file__).resolve().parents[3] / "docs" / "python.md"

#: The example that runs in the processes of Spark.
ELSEWHERE = "TaskContext"

#: What an example needs besides pyarrow, by a text in it.
NEEDS = {
    "to_pandas": "pandas",
    ".pl()": "polars",
    "dataset_dict": "datasets",
    "delta_table": "deltalake",
    "torch": "torch",
    "tfr_sql.jax": "grain",
    "tfr_sql.tf": "tensorflow",
}


def examples() -> list[tuple[int, str]]:
    """Returns the blocks of Python, with the lines on which they begin."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [(text.count("\n", 0, block.start()) + 2, block[1]) for block in found]


def rides() -> pa.Table:
    return pa.table(
        {
            "user_id": range(1000),
            "fare": pa.array([i / 2 for i in range(1000)], pa.float32()),
            "tip": pa.array([i / 8 for i in range(1000)], pa.float32()),
            "price": [i / 10 for i in range(1000)],
            "tags": [["a"] * (i % 3) for i in range(1000)],
        }
    )


def dataset_dict() -> Any:
    datasets = pytest.importorskip("datasets")
    return datasets.DatasetDict({name: datasets.Dataset.from_dict({"n": [1, 2, 3, 4]}) for name in ("train", "test")})


@pytest.mark.parametrize(("line", "code"), [pytest.param(line, code, id=f"line {line}") for line, code in examples()])
def test_examples(line: int, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if ELSEWHERE in code:
        compile(code, str(PAGE), "exec")
        return
    for text, library in NEEDS.items():
        if text in code:
            pytest.importorskip(library)
    monkeypatch.chdir(tmp_path)
    table = rides()
    pq.write_table(pa.table({"user_id": range(1000), "name": ["a"] * 1000}), "names.parquet")
    if ".write(" not in code and "write_tfrecord(" not in code:
        tfr.write_tfrecord(table, "shards/", shards=2, map={"price": "string"})
        for path in re.findall(r'Loader\("(\w+/)"', code):
            tfr.write_tfrecord(table, path, map={"price": "string"}, mode="ignore")
        names: dict[str, Any] = {"loader": tfr.Loader("shards/", batch_size=256)}
    else:
        names = {}
    if "s3://bucket/" in code:
        tfr.write_tfrecord(table, "root/bucket/train/", shards=2)
        server = S3(tmp_path / "root")
        request.addfinalizer(server.close)
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
    if "TFRecordDataset" in code:
        # There are no ranks here.
        code = code.replace(", auto_rank=True", "")
    if "dataset_dict" in code:
        names["dataset_dict"] = dataset_dict()
    if "delta_table" in code:
        deltalake = pytest.importorskip("deltalake")
        deltalake.write_deltalake(tmp_path / "delta", table)
        names["delta_table"] = deltalake.DeltaTable(tmp_path / "delta")
    if "grain." in code:
        names["grain"] = pytest.importorskip("grain")
    if "start_write" in code:
        # What the driver and its task do, in one process.
        code = code.replace("/shared/train", "train").replace("reports,", "[report],")
        names |= {"schema": table.schema, "task_id": 0, "batches": table, "number_of_tasks": 1}
    names |= {"tfr": tfr, "df": table, "model": SimpleNamespace(fit=lambda batches, epochs: next(iter(batches)))}
    exec(compile("\n" * (line - 1) + code, str(PAGE), "exec"), names)
