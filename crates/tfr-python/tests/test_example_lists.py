"""Records of type elwc, the ExampleListWithContext of TensorFlow Ranking."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

import tfr_sql as tfr

DOCUMENT = pa.struct([("id", pa.int64()), ("score", pa.float32())])
QUERIES = pa.table(
    {
        "query": ["a", "b", "c"],
        "docs": pa.array(
            [[{"id": 1, "score": 0.5}, {"id": 2, "score": None}], [], [{"id": 3, "score": 1.5}]],
            pa.list_(DOCUMENT),
        ),
    }
)


@pytest.mark.parametrize("record_format", ["tfrecord", "array_record"])
def test_lists_of_examples_come_back(tmp_path: Path, record_format: str) -> None:
    out = tmp_path / "set"
    manifest = tfr.write_tfrecord(QUERIES, out, record_type="elwc", record_format=record_format)
    assert (manifest["record_type"], manifest.rows) == ("elwc", 3)
    assert tfr.verify(out).ok
    assert pa.table(tfr.sql(f"SELECT * FROM '{out}/'")).equals(QUERIES)
    (path,) = (str(file) for file in out.iterdir() if file.name.startswith("part"))
    # Without its manifest, the type of the records is detected.
    other = tmp_path / f"other.{path.rpartition('.')[2]}"
    other.write_bytes(Path(path).read_bytes())
    found = pa.table(tfr.sql(f"SELECT query, examples FROM '{other}'"))
    assert found.column("query").to_pylist() == QUERIES.column("query").to_pylist()
    assert found.column("examples").to_pylist() == QUERIES.column("docs").to_pylist()


def test_lists_of_examples_are_written_by_tasks(tmp_path: Path) -> None:
    out = tmp_path / "set"
    job = tfr.start_write(out, QUERIES.schema, record_type="elwc")
    job = pickle.loads(pickle.dumps(job))
    job.commit([job.stage(task, QUERIES.slice(task, 1)) for task in range(3)])
    assert pa.table(tfr.read_tfrecord(out)).sort_by("query").equals(QUERIES)
    with pytest.raises(tfr.UsageError, match="one list of structs"):
        tfr.start_write(tmp_path / "other", pa.schema([("id", pa.int64())]), record_type="elwc")


def test_loader_reads_lists_of_examples(tmp_path: Path) -> None:
    out = tmp_path / "set"
    tfr.write_tfrecord(QUERIES, out, record_type="elwc")
    (batch,) = tfr.Loader(out, batch_size=3)
    assert batch["query"].tolist() == ["a", "b", "c"]
    docs = batch["docs"]
    assert docs.row_splits.tolist() == [0, 2, 2, 3]
    assert docs.values["id"].tolist() == [1, 2, 3]
    # A null is NaN, as in other columns.
    assert str(docs.values["score"].tolist()) == "[0.5, nan, 1.5]"
    assert tfr.RecordSource(out)[0]["docs"]["id"].tolist() == [1, 2]


def test_loader_reads_other_lists_without_the_examples(tmp_path: Path) -> None:
    out = tmp_path / "set"
    ads = pa.array([[{"id": 7}], [{"id": 8}], []], pa.list_(pa.struct([("id", pa.int64())])))
    tfr.write_tfrecord(QUERIES.append_column("ads", ads), out, record_type="elwc", sequence=["docs"])
    (batch,) = tfr.Loader(out, batch_size=3, schema=pa.schema([("ads", ads.type)]))
    assert batch["ads"].row_splits.tolist() == [0, 1, 2, 2]
    assert batch["ads"].values["id"].tolist() == [7, 8]
