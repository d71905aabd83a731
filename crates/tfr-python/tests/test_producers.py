"""Objects of other libraries as tables. Each test needs its library, and is skipped without it."""

from __future__ import annotations

import json
import shutil
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import tfr_sql as tfr

COLUMNS = {"n": [1, 2, 3], "s": ["a", None, "c"], "x": [0.5, 1.5, 2.5]}


def rows() -> pa.Table:
    return pa.table(COLUMNS)


def written(data: Any, tmp_path: Path) -> dict[str, list[Any]]:
    """Writes `data`, and returns what a reader without this package's writer finds in the records."""
    out = tmp_path / "written"
    tfr.write_tfrecord(data, out, map={"x": "string"}, mode="overwrite")
    found = sorted(tfr.head(out, 100), key=lambda example: example["n"])
    return {
        "n": [example["n"][0] for example in found],
        "s": [example.get("s", [None])[0] for example in found],
        "x": [float(example["x"][0]) for example in found],
    }


def test_pyarrow(tmp_path: Path) -> None:
    table = rows()
    pq.write_table(table, tmp_path / "t.parquet")
    dataset = ds.dataset(tmp_path / "t.parquet")
    batches = table.to_batches(max_chunksize=2)
    for data in [table, table.to_reader(), batches, iter(batches), batches[0], dataset, dataset.scanner(filter=ds.field("n") > 0)]:
        expected = {name: values[:2] for name, values in COLUMNS.items()} if data is batches[0] else COLUMNS
        assert written(data, tmp_path) == expected


def test_pandas(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", minversion="2.2")
    assert written(pandas.DataFrame(COLUMNS), tmp_path) == COLUMNS
    found = pandas.DataFrame.from_arrow(tfr.sql("SELECT n FROM t ORDER BY n", tables={"t": rows()}))
    assert found["n"].tolist() == [1, 2, 3]


def test_polars(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(COLUMNS)
    assert written(frame, tmp_path) == written(frame.lazy(), tmp_path) == COLUMNS
    assert polars.DataFrame(tfr.sql("SELECT * FROM t ORDER BY n", tables={"t": frame})).equals(frame)


def test_objects_of_polars_are_refused(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    objects = polars.Series("what", [{1}, {2}, {3}], dtype=polars.Object)
    frame = polars.DataFrame(COLUMNS).with_columns(objects)
    for data in [frame, frame.lazy(), [frame], iter([frame])]:
        with pytest.raises(tfr.UsageError, match="column 'what' has the type Object of polars"):
            tfr.write_tfrecord(data, tmp_path / "refused")
    assert not (tmp_path / "refused").exists()
    nested = {"l": [[1]], "s": [{"x": 1}], "a": polars.Series([[1, 2]], dtype=polars.Array(polars.Int64, 2))}
    tfr.write_tfrecord(polars.DataFrame(nested), tmp_path / "fine")


def test_duckdb(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    source = rows()
    connection = duckdb.connect()
    connection.register("source", source)
    assert written(connection.sql("SELECT * FROM source"), tmp_path) == COLUMNS
    query = tfr.sql("SELECT n FROM t", tables={"t": source})
    assert connection.sql("SELECT sum(n) FROM query").fetchall() == [(6,)] and query is not None


def test_datafusion(tmp_path: Path) -> None:
    datafusion = pytest.importorskip("datafusion")
    context = datafusion.SessionContext()
    assert written(context.from_arrow(rows()), tmp_path) == COLUMNS
    assert context.from_arrow(tfr.sql("SELECT * FROM t", tables={"t": rows()})).count() == 3


def test_deltalake(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake(tmp_path / "delta", rows())
    deltalake.write_deltalake(tmp_path / "delta", pa.table({"n": [9], "s": ["z"], "x": [9.5]}), mode="append")
    table = deltalake.DeltaTable(tmp_path / "delta")
    table.delete("n = 9")
    assert written(deltalake.DeltaTable(tmp_path / "delta"), tmp_path) == COLUMNS


def test_delta_tables_are_read_by_location_and_version(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    location = tmp_path / "a, b"
    deltalake.write_deltalake(location, rows(), configuration={"delta.columnMapping.mode": "none"})
    first = deltalake.DeltaTable(location)
    deltalake.write_deltalake(location, rows(), mode="append")
    assert written(first, tmp_path) == COLUMNS
    # The set is one that can be written again, and pins the version.
    manifest = json.loads((tmp_path / "written" / "_manifest.json").read_text())
    assert manifest["options"]["versions"] == {"data": {"format": "Delta Lake", "version": 0}}
    query = "SELECT count(*) AS n FROM t JOIN u USING (n)"
    tables = {"t": deltalake.DeltaTable(location), "u": pa.table({"n": [1, 5]})}
    assert pa.table(tfr.sql(query, tables=tables)).to_pydict() == {"n": [2]}
    with pytest.raises(tfr.TfrError, match="allow"):
        tfr.sql("SELECT * FROM t", tables={"t": first}, allow=tmp_path / "elsewhere").arrow()


def test_delta_mapping_mode_may_have_any_case(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake(tmp_path / "delta", rows(), configuration={"delta.columnMapping.mode": "none"})
    log = tmp_path / "delta" / "_delta_log" / "00000000000000000000.json"
    log.write_text(log.read_text().replace('"none"', '"NONE"'))
    assert written(deltalake.DeltaTable(tmp_path / "delta"), tmp_path) == COLUMNS


def test_delta_credentials_are_those_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    class DeltaTable:
        """What this package uses of a table in a store that needs credentials."""

        table_uri = "s3://bucket/table/"

        def version(self) -> int:
            return 3

    DeltaTable.__module__ = "deltalake.table"
    class Denied(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(403)

    server = HTTPServer(("127.0.0.1", 0), Denied)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    try:
        with pytest.raises(tfr.TfrError) as raised:
            tfr.sql("SELECT * FROM t", tables={"t": DeltaTable()}).arrow()
    finally:
        server.shutdown()
    assert "credentials of the environment" in str(raised.value.hint)


def test_pyiceberg(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    sqlalchemy = pytest.importorskip("sqlalchemy")
    from pyiceberg.catalog.sql import SqlCatalog

    assert sqlalchemy is not None
    catalog = SqlCatalog("test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", schema=rows().schema)
    table.append(rows())
    assert written(table.scan(), tmp_path) == written(table, tmp_path) == COLUMNS


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_iceberg_locations_are_not_decoded(tmp_path: Path, scheme: str) -> None:
    class StaticTable:
        """What this package uses of a table of pyiceberg."""

        metadata_location = f"{scheme}{tmp_path}/a%20b#c/metadata/v9.metadata.json"

    StaticTable.__module__ = "pyiceberg.table"
    shutil.copytree(Path(__file__).parents[3] / "tests/data/iceberg/tables/v1_part", tmp_path / "a%20b#c")
    found = pa.table(tfr.sql("SELECT count(*) AS n FROM t", tables={"t": StaticTable()}))
    assert found.to_pydict() == {"n": [7]}


def test_hugging_face_datasets(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_dict(COLUMNS)
    assert written(data, tmp_path) == COLUMNS
    assert written(data.select([2, 0]), tmp_path)["n"] == [1, 3]
    assert written(data.to_iterable_dataset(), tmp_path) == COLUMNS


def test_arro3(tmp_path: Path) -> None:
    arro3 = pytest.importorskip("arro3.core")
    table = arro3.Table.from_arrow(rows())
    assert written(table, tmp_path) == written(table.to_reader(), tmp_path) == COLUMNS
    assert arro3.Table.from_arrow(tfr.sql("SELECT * FROM t", tables={"t": table})).num_rows == 3


def test_ray(tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        assert written(ray.data.from_arrow(rows()), tmp_path) == COLUMNS
    finally:
        ray.shutdown()


def test_spark(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", minversion="4.0")
    sql = pytest.importorskip("pyspark.sql")
    try:
        session = sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    except Exception as error:
        pytest.skip(f"Spark does not start: {error}")
    try:
        frame = session.createDataFrame([(1, "a", 0.5), (2, None, 1.5), (3, "c", 2.5)], "n long, s string, x double")
        assert written(frame, tmp_path) == COLUMNS
    finally:
        session.stop()
