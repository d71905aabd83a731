"""The examples for Spark and Ray, if these are installed. Each runs in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tfr_sql as tfr
from conftest import Example, unframe

EXAMPLES = Path(__file__).parents[3] / "examples" / "python"

# Spark and Ray start servers, which takes a while on a busy machine.
TIMEOUT = 600


def run(program: list[str], **environment: str) -> str:
    paths = [os.fspath(EXAMPLES), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    variables = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(paths), **environment}
    done = subprocess.run([sys.executable, *program], env=variables, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def ids(out: Path) -> list[int]:
    found = []
    for shard in json.loads((out / "_manifest.json").read_text())["shards"]:
        for record in unframe((out / shard["path"]).read_bytes()):
            found.extend(Example.FromString(record).features.feature["id"].int64_list.value)
    return found


def assert_whole(out: Path, rows: int) -> None:
    assert ids(out) == list(range(rows))
    assert tfr.verify(out).ok
    assert os.listdir(out.parent) == [out.name]


def test_spark_writes_a_set(tmp_path: Path) -> None:
    pytest.importorskip("pyspark.sql.datasource")
    out = tmp_path / "sets" / "shards"
    assert run([os.fspath(EXAMPLES / "spark_data_source.py"), os.fspath(out)]).endswith("1000 rows in 8 shards\n")
    assert_whole(out, 1000)


# The first attempt of a task kills its process when half of its rows are staged, and Spark runs the task again.
SPARK_RETRY = """
import os, signal, sys
from pathlib import Path
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
import tfr_sql as tfr

out, killed = sys.argv[1], Path(sys.argv[2])
spark = SparkSession.builder.master("local[2,3]").config("spark.sql.execution.arrow.maxRecordsPerBatch", 10).getOrCreate()
df = spark.range(0, 400, numPartitions=4)
job = tfr.start_write(out, pa.schema([("id", pa.int64())]), shard_rows=30)

def stage(batches):
    def dying():
        for number, batch in enumerate(batches):
            if number == 5 and TaskContext.get().partitionId() == 2 and not killed.exists():
                killed.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch
    yield pa.RecordBatch.from_pydict({"report": [job.stage(TaskContext.get().partitionId(), dying())]})

reports = [row.report for row in df.mapInArrow(stage, "report binary").collect()]
job.commit(reports, tasks=4)
# Two of these partitions are empty.
job = tfr.start_write(out, pa.schema([("id", pa.int64())]), mode="append")
reports = [row.report for row in spark.range(400, 402, numPartitions=4).mapInArrow(stage, "report binary").collect()]
job.commit(reports)
spark.stop()
print(len(reports))
"""


def test_spark_repeats_a_killed_task(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    out, killed = tmp_path / "sets" / "shards", tmp_path / "killed"
    assert run(["-c", SPARK_RETRY, os.fspath(out), os.fspath(killed)]) == "4\n"
    assert killed.exists()
    assert_whole(out, 402)


# A failed job is aborted by Spark, and appending to a set keeps its rows.
SPARK_MODES = """
import sys
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, expr
from spark_data_source import TFRecordDataSource

spark = SparkSession.builder.master("local[2]").getOrCreate()
spark.dataSource.register(TFRecordDataSource)
spark.conf.set("spark.sql.ansi.enabled", True)
rows = lambda first, end: spark.range(first, end, numPartitions=2).selectExpr(
    "id", "array(id, id + 1) AS list", "named_struct('x', id) AS point", "timestamp_seconds(id) AS time", "id % 2 = 0 AS even")
rows(0, 100).write.format("tfrecord").mode("append").save(sys.argv[1])
rows(100, 150).write.format("tfrecord").mode("append").save(sys.argv[1])
try:
    rows(150, 200).withColumn("even", expr("assert_true(id < 190) IS NULL")).write.format("tfrecord").mode("append").save(sys.argv[1])
except Exception as error:
    print("failed" if "is not true" in str(error) else error)
spark.stop()
"""


def test_spark_appends_and_aborts(tmp_path: Path) -> None:
    pytest.importorskip("pyspark.sql.datasource")
    out = tmp_path / "sets" / "shards"
    assert run(["-c", SPARK_MODES, os.fspath(out)]) == "failed\n"
    assert_whole(out, 150)


def test_ray_writes_a_set(tmp_path: Path) -> None:
    pytest.importorskip("ray.data")
    out = tmp_path / "sets" / "shards"
    assert run([os.fspath(EXAMPLES / "ray_datasink.py"), os.fspath(out)]).endswith("1000 rows in 8 shards\n")
    assert_whole(out, 1000)
