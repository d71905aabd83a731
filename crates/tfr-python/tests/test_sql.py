"""Queries over files and Arrow objects, and their rows as Arrow data."""

from __future__ import annotations

import math
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tfr_sql as tfr
from conftest import table
from tfr_sql._command import find_command


def test_rows_are_arrow_data(tmp_path: Path) -> None:
    rows = table(1000)
    query = tfr.sql("SELECT * FROM t ORDER BY id", tables={"t": rows})
    assert pa.schema(query).equals(rows.schema)
    assert pa.table(query).equals(rows)
    # The query runs again for another reader.
    assert pa.table(query).num_rows == 1000
    names = pa.table({"w": pa.array(["a", "b", "a", None]).dictionary_encode()})
    found = pa.table(tfr.sql("SELECT w FROM names", tables={"names": names}))
    assert pa.types.is_dictionary(found.schema.field("w").type) and found.to_pydict() == names.to_pydict()


def test_batches_become_numpy_arrays() -> None:
    rows = table(20_000)
    columns = "id, score, tokens, name"
    batches = list(tfr.sql(f"SELECT {columns} FROM t", tables={"t": rows}).batches())
    assert len(batches) > 1 and sum(batch.num_rows for batch in batches) == 20_000 == sum(map(len, batches))
    first = batches[0].to_numpy()
    assert batches[0].column_names == ["id", "score", "tokens", "name"] == list(first)
    assert first["id"][:3].tolist() == [0, 1, 2] and np.isnan(first["score"][0])
    assert first["tokens"][3].tolist() == [3, 3, 3] and first["name"][1] == "näme 1"
    assert pa.record_batch(batches[-1]).num_rows == batches[-1].num_rows
    with pytest.raises(tfr.DataError, match="small"):
        nulls = pa.table({"small": pa.array([1, None])})
        next(tfr.sql("SELECT small FROM t", tables={"t": nulls}).batches()).to_numpy()


def test_several_tables_and_one_table_twice(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}), tmp_path / "names.parquet")
    left = pa.table({"id": [1, 2, 2], "n": [10, 20, 30]})
    right = pa.table({"id": [2, 3], "m": [5, 6]})
    query = f"""SELECT name, n, m FROM a JOIN b USING (id) JOIN '{tmp_path}/names.parquet' USING (id) ORDER BY n"""
    found = pa.table(tfr.sql(query, tables={"a": left, "b": right}))
    assert found.to_pydict() == {"name": ["b", "b"], "n": [20, 30], "m": [5, 5]}
    pairs = "SELECT count(*) AS pairs FROM a x JOIN a y USING (id)"
    assert pa.table(tfr.sql(pairs, tables={"a": left.to_reader()})).to_pydict() == {"pairs": [5]}
    # A table that is not needed to its end.
    big = (pa.record_batch({"n": range(10_000)}) for _ in range(1000))
    assert pa.table(tfr.sql("SELECT n FROM big LIMIT 3", tables={"big": big})).num_rows == 3
    for name in ["", " a", "a=b", "a,b"]:
        with pytest.raises(tfr.UsageError, match="cannot name a table"):
            tfr.sql("SELECT 1", tables={name: left})


def test_errors_of_a_query_have_types() -> None:
    with pytest.raises(tfr.QueryError, match="no table named nothing"):
        list(tfr.sql("SELECT * FROM nothing").batches())
    divided = tfr.sql("SELECT 1 / (n - 5000) AS x FROM t", tables={"t": pa.table({"n": range(10_000)})})
    with pytest.raises(tfr.QueryError, match="division by zero"):
        list(divided.batches())
    # Other libraries have only the text.
    with pytest.raises(Exception, match="division by zero"):
        pa.table(divided)
    with pytest.raises(ZeroDivisionError):
        tables = {"t": (pa.record_batch({"n": [1 // n]}) for n in (1, 0))}
        list(tfr.sql("SELECT * FROM t", tables=tables).batches())
    with pytest.raises(tfr.UsageError, match="sql: no option 'shards'"):
        tfr.sql("SELECT 1", shards=3)  # type: ignore[call-arg]


def test_sets_are_read_as_they_were_written(tmp_path: Path) -> None:
    rows = table(500)
    tfr.write_tfrecord(rows, tmp_path / "a,b", shards=3)
    found = tfr.read_tfrecord(tmp_path / "a,b", columns=["id", "when"], where="id % 100 = 7", crc="skip", threads=1)
    assert sorted(pa.table(found).column("id").to_pylist()) == [7, 107, 207, 307, 407]
    assert pa.schema(found).field("when").type == pa.timestamp("us")
    files = sorted((tmp_path / "a,b").glob("*.tfrecord"))
    assert pa.table(tfr.read_tfrecord(files)).num_rows == 500
    with pytest.raises(tfr.QueryError, match="no column named nothing"):
        pa.table(tfr.read_tfrecord(files, columns=["nothing"]).schema)
    damaged = bytearray(files[0].read_bytes())
    damaged[20] ^= 1
    (tmp_path / "damaged.tfrecord").write_bytes(damaged)
    with pytest.raises(tfr.DataError) as info:
        list(tfr.read_tfrecord(tmp_path / "damaged.tfrecord").batches())
    assert (info.value.file, info.value.record, info.value.byte) == (str(tmp_path / "damaged.tfrecord"), 0, 0)


def test_plans_are_objects(tmp_path: Path) -> None:
    query = tfr.sql("SELECT id, score * 1.5 AS x FROM t", tables={"t": table(10)})
    plan = query.plan(tmp_path / "set", shards=2)
    assert [column["column"] for column in plan.columns] == ["id", "x"]
    assert plan.losses == {"x": "float32 of float64"} and not plan.rows_are_exact
    assert plan.shards.startswith("2 shards") and str(plan).startswith("column  type")
    assert "<pre>column" in plan._repr_html_() and not (tmp_path / "set").exists()
    assert tfr.sql("SELECT 1 AS n").plan().rows == 1
    assert "Projection" in query.explain() or "Streaming" in query.explain()
    assert "output_rows=10" in query.explain(analyze=True)


def test_tools(tmp_path: Path) -> None:
    tfr.write_tfrecord(pa.table({"n": range(100), "s": ["a", "b"] * 50}), tmp_path / "set", shards=4)
    assert tfr.head(tmp_path / "set", 1) == [{"n": [0], "s": ["a"]}]
    assert sorted(example["n"][0] for example in tfr.head(tmp_path / "set", 1000)) == list(range(100))
    assert tfr.reshard(tmp_path / "set", tmp_path / "one", shards=1).rows == 100
    shard = next((tmp_path / "one").glob("*.tfrecord"))
    damaged = bytearray(shard.read_bytes())
    damaged[20] ^= 1
    (tmp_path / "damaged.tfrecord").write_bytes(damaged)
    report = tfr.salvage(tmp_path / "damaged.tfrecord", tmp_path / "saved")
    assert report["rows"] == 99 and len(report["findings"]) == 1
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "a.tfrecord").write_bytes(shard.read_bytes())
    assert tfr.describe(foreign, emit=["stats", "index"]) == [
        foreign / name for name in ("_stats.pb", "_stats.html", "_a.tfrecord.idx")
    ]
    assert tfr.describe(foreign, emit=["tfmd"], out=tmp_path / "beside") == [tmp_path / "beside" / "schema.pbtxt"]


def test_statistics_are_an_object(tmp_path: Path) -> None:
    rows = pa.table({"n": [1, 2, 3, 2**60], "x": pa.array([0.5, None, math.inf, 1.5], pa.float32()), "s": ["a", "b", "a", "abc"]})
    tfr.write_tfrecord(rows, tmp_path / "set", shards=2)
    stats = tfr.stats(tmp_path / "set")
    assert (list(stats), len(stats), stats.records, stats.files) == (["n", "s", "x"], 3, 4, 2)
    assert (stats["n"]["min"], stats["n"]["max"], stats["n"]["distinct"]) == (1, 2**60, 4)
    assert (stats["x"]["missing"], stats["x"]["max"], stats["x"]["mean"], stats["x"]["infinities"]) == (1, math.inf, 1.0, 1)
    assert (stats["s"]["frequent"][0], stats["s"]["most_bytes"]) == ({"value": "a", "count": 2}, 3)
    printed = subprocess.run([find_command(), "stats", tmp_path / "set"], capture_output=True, text=True, check=True).stdout
    assert str(stats) == repr(stats) == printed
    tfr.describe(tmp_path / "set", emit=["stats"])
    assert (tmp_path / "set" / "_stats.pb").read_bytes() == stats.to_proto()
    assert (tmp_path / "set" / "_stats.html").read_text() == stats.to_html()
    assert stats._repr_html_().startswith("<iframe srcdoc=") and "<script" not in stats._repr_html_()
    with pytest.raises(KeyError):
        stats["y"]
    with pytest.raises(tfr.MissingError):
        tfr.stats(tmp_path / "none")


def test_a_split_is_read(tmp_path: Path) -> None:
    rows = pa.table({"n": range(1000)})
    tfr.write_tfrecord(rows, tmp_path / "set", split={"train": 0.9, "val": 0.1}, shards={"train": 3, "val": 1})
    found = {name: pa.table(tfr.read_tfrecord(tmp_path / "set", split=name))["n"].to_pylist() for name in ("train", "val")}
    assert sorted(found["train"] + found["val"]) == list(range(1000)) and 50 < len(found["val"]) < 150
    loader = tfr.Loader(tmp_path / "set", batch_size=1000, split="val")
    assert next(iter(loader))["n"].tolist() == found["val"]
    where = tfr.read_tfrecord(tmp_path / "set", split="val", where="n < 500")
    assert pa.table(where)["n"].to_pylist() == [n for n in found["val"] if n < 500]
    with pytest.raises(tfr.TfrError, match='no file is of the split "test"; the splits are: train, val'):
        pa.table(tfr.read_tfrecord(tmp_path / "set", split="test"))
    with pytest.raises(tfr.UsageError, match="too long for a command line"):
        pa.table(tfr.read_tfrecord([tmp_path / "set"] * 100_000))


FLAT = """
import resource, sys
import tfr_sql as tfr
rows = 0
for batch in tfr.read_tfrecord(sys.argv[1], threads=1).batches():
    rows += batch.num_rows
print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
"""


def test_memory_does_not_follow_the_rows(tmp_path: Path) -> None:
    row = pa.record_batch({"x": pa.array([bytes(10_000)] * 1000)})
    counts = (1, 40)
    peaks = []
    for count in counts:
        out = tmp_path / str(count)
        tfr.write_tfrecord((row for _ in range(count)), out)
        done = subprocess.run([sys.executable, "-c", FLAT, str(out)], capture_output=True, text=True, check=True)
        rows, peak = map(int, done.stdout.split())
        assert rows == 1000 * count
        peaks.append(peak)
    # 10 MB and 400 MB of values.
    assert peaks[1] - peaks[0] < 150, peaks
