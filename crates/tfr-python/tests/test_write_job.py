from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import signal
import threading
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Iterator

import pyarrow as pa
import pytest

import tfr_sql as tfr
from conftest import Example, table, unframe

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
TASKS = 4
ROWS = 100


def rows(task: int) -> pa.Table:
    ids = range(task * ROWS, (task + 1) * ROWS)
    return pa.table({"id": ids, "name": [f"name {i}" for i in ids]}, SCHEMA)


def ids(out: Path) -> list[int]:
    """The ids of the records of a set, in its order, read without this package."""
    found = []
    for shard in json.loads((out / "_manifest.json").read_text())["shards"]:
        for record in unframe((out / shard["path"]).read_bytes()):
            found.extend(Example.FromString(record).features.feature["id"].int64_list.value)
    return found


def names(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


def stage(job: Any, task: int) -> bytes:
    return bytes(job.stage(task, rows(task)))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_tasks_in_other_processes_write_one_set(tmp_path: Path, method: str) -> None:
    out = tmp_path / "made" / "shards"
    job = tfr.start_write(out, SCHEMA, shard_rows=40)
    context = multiprocessing.get_context(method)
    with warnings.catch_warnings():
        # Other tests have left threads that do not matter in a child.
        warnings.simplefilter("ignore", DeprecationWarning)
        with ProcessPoolExecutor(2, mp_context=context) as pool:
            reports = list(pool.map(stage, [job] * TASKS, reversed(range(TASKS))))
    assert all(len(report) < 300 for report in reports)
    manifest = job.commit(reports, tasks=TASKS)
    assert ids(out) == list(range(TASKS * ROWS))
    assert [shard["rows"] for shard in manifest["shards"]] == [40, 40, 20] * TASKS
    assert manifest["write_partitions"] == TASKS
    assert manifest == tfr.manifest(out)
    assert isinstance(manifest, tfr.Manifest) and manifest.rows == TASKS * ROWS
    assert repr(manifest).startswith(f"{out}: 400 rows in 12 shards, ") and "<td>40</td>" in manifest._repr_html_()
    assert tfr.verify(out).ok
    assert names(tmp_path) == names_of(out, tmp_path, 3 * TASKS)


def names_of(out: Path, root: Path, shards: int) -> list[str]:
    files = ["_SUCCESS", "_manifest.json", *(f"part-{i:05}-of-{shards:05}.tfrecord" for i in range(shards))]
    paths = [out / file for file in files] + [out, *out.parents]
    return sorted(str(path.relative_to(root)) for path in paths if path != root and path.is_relative_to(root))


def stage_and_hang(job: Any, connection: Any) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield from rows(0).to_batches(max_chunksize=10)
        connection.send("staging")
        signal.pause()

    job.stage(0, batches())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_killed_attempt_does_not_count(tmp_path: Path, method: str) -> None:
    out = tmp_path / "shards"
    job = tfr.start_write(out, SCHEMA, shard_rows=7)
    context: Any = multiprocessing.get_context(method)
    receive, send = context.Pipe(duplex=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        process = context.Process(target=stage_and_hang, args=(job, send))
        process.start()
    assert receive.recv() == "staging"
    # A second attempt of the task, while the first is at work.
    second = stage(job, 0)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert any(name.endswith(".staged") for name in names(tmp_path))
    job.commit([second])
    assert ids(out) == list(range(ROWS))
    assert names(tmp_path) == names_of(out, tmp_path, 15)


def test_two_attempts_at_once_are_one_task(tmp_path: Path) -> None:
    out = tmp_path / "shards"
    job = tfr.start_write(out, SCHEMA)
    both = threading.Barrier(2)
    reports = {}

    def attempt(name: str) -> None:
        def batches() -> Iterator[pa.Table]:
            yield rows(0).slice(0, 50)
            both.wait()
            yield rows(0).slice(50)

        reports[name] = job.stage(0, batches())

    threads = [threading.Thread(target=attempt, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(reports.values())) == 2
    # Spark lists one of them; others may list both.
    manifest = job.commit(reports.values())
    assert manifest["totals"]["rows"] == ROWS
    assert ids(out) == list(range(ROWS))
    assert names(tmp_path) == names_of(out, tmp_path, 1)


def test_a_failed_task_leaves_nothing_and_is_repeated(tmp_path: Path) -> None:
    out = tmp_path / "shards"
    job = tfr.start_write(out, SCHEMA, shard_rows=10)
    staged = names(tmp_path)

    def batches() -> Iterator[pa.Table]:
        yield rows(0)
        raise RuntimeError("the source is gone")

    with pytest.raises(RuntimeError, match="the source is gone"):
        job.stage(0, batches())
    with pytest.raises(tfr.UsageError, match="column"):
        job.stage(0, [rows(0), table(3)])
    assert names(tmp_path) == staged
    job.commit([stage(job, 0)])
    assert ids(out) == list(range(ROWS))


class OnlyStream:
    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


class OnlyArray:
    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        return tuple(self.batch.__arrow_c_array__(requested_schema))  # type: ignore[return-value]


def test_data_is_a_stream_an_array_or_several(tmp_path: Path) -> None:
    out = tmp_path / "shards"
    job = tfr.start_write(out, SCHEMA)
    batches = [rows(task).to_batches()[0] for task in range(6)]
    data: list[Any] = [
        rows(0),
        batches[1],
        OnlyStream(rows(2)),
        OnlyArray(batches[3]),
        iter([OnlyArray(batches[4]), OnlyStream(rows(5))]),
        pa.RecordBatchReader.from_batches(SCHEMA, [batches[0]]),
        [],
    ]
    job.commit([job.stage(task, rows, threads=2) for task, rows in enumerate(data)])
    assert ids(out) == [*range(6 * ROWS), *range(ROWS)]


@pytest.mark.parametrize("data", [None, 1, "text", b"bytes", {"id": [1]}, [1], [{"id": 1}]])
def test_other_data_is_refused(tmp_path: Path, data: Any) -> None:
    job = tfr.start_write(tmp_path / "shards", SCHEMA)
    with pytest.raises(tfr.UsageError, match="expected Arrow data"):
        job.stage(0, data)


def test_data_that_was_read_before_is_refused(tmp_path: Path) -> None:
    job = tfr.start_write(tmp_path / "shards", SCHEMA)
    data: list[Any] = [
        (batch for batch in rows(0).to_batches()),
        pa.RecordBatchReader.from_batches(SCHEMA, rows(0).to_batches()),
    ]
    for stream in data:
        assert json.loads(job.stage(0, stream))["rows"] == ROWS
        with pytest.raises(tfr.UsageError, match="has been read before"):
            job.stage(0, stream)
    ended = (batch for batch in rows(0).to_batches())
    list(ended)
    with pytest.raises(tfr.UsageError, match="has been read before"):
        job.stage(0, ended)
    # A table can be read again.
    whole = rows(0)
    assert [json.loads(job.stage(0, whole))["rows"] for _ in range(2)] == [ROWS, ROWS]


def test_options_are_those_of_the_command(tmp_path: Path) -> None:
    out = tmp_path / "shards"
    schema = pa.schema([("price", pa.float64()), ("tags", pa.list_(pa.string()))])
    job = tfr.start_write(
        out, schema, shard_size="1KiB", compression="gzip", level=9, prefix="train", mapping={"price": "string"}, null="mask",
        record_type="sequence-example", sequence=["tags"], separator=".", strict=True,
    )  # fmt: skip
    data = pa.table({"price": [0.1, None] * 50, "tags": [["a", "b"], []] * 50}, schema)
    manifest = pickle.loads(pickle.dumps(job)).commit([job.stage(0, data)])
    assert (manifest["compression"], manifest["record_type"]) == ("gzip", "sequence-example")
    assert manifest["sharding"] == {"bytes": 1024}
    assert manifest["shards"][0]["path"].startswith("train-00000-of-0")
    assert manifest["shards"][0]["path"].endswith(".tfrecord.gz")
    assert manifest["options"]["level"] == 9
    mapping = manifest["options"]["mapping"]
    assert (mapping["nulls"], mapping["choices"], mapping["separator"]) == ("mask", {"price": "string"}, ".")
    assert tfr.verify(out).ok


def test_indexes_are_published(tmp_path: Path) -> None:
    out = tmp_path / "shards"
    job = tfr.start_write(out, SCHEMA, shard_rows=60, emit=["index"])
    job.commit([stage(job, 0)])
    index = (out / "_part-00001-of-00002.tfrecord.idx").read_text().splitlines()
    assert len(index) == 40
    assert tfr.RecordSource(out)[99]["id"] == 99


def test_an_append_and_an_overwrite(tmp_path: Path) -> None:
    out = tmp_path / "shards"
    job = tfr.start_write(out, SCHEMA)
    job.commit([stage(job, 0)])
    with pytest.raises(tfr.ExistsError):
        tfr.start_write(out, SCHEMA)
    append = tfr.start_write(out, SCHEMA, mode="append")
    append.commit([stage(append, 0)])
    assert ids(out) == [*range(ROWS), *range(ROWS)]
    with pytest.raises(tfr.TfrError, match="not appended to"):
        tfr.start_write(out, table(1).schema, mode="append")

    # Both have begun with the same set.
    first, second = (tfr.start_write(out, SCHEMA, mode="append") for _ in range(2))
    reports = [stage(first, 0)], [stage(second, 0)]
    first.commit(reports[0])
    with pytest.raises(tfr.TfrError, match="another run wrote here in the meantime"):
        second.commit(reports[1])
    assert len(ids(out)) == 3 * ROWS
    # What its tasks have written is kept until then.
    second.abort()

    overwrite = tfr.start_write(out, SCHEMA, mode="overwrite")
    overwrite.commit([stage(overwrite, 0)])
    assert ids(out) == list(range(ROWS))
    assert names(tmp_path) == names_of(out, tmp_path, 1)


def test_a_missing_task_is_named_and_can_be_run(tmp_path: Path) -> None:
    out = tmp_path / "shards"
    job = tfr.start_write(out, SCHEMA)
    reports: list[bytes | None] = [stage(job, 0), None, stage(job, 2)]
    with pytest.raises(tfr.UsageError, match=r"reports\[1\] is None"):
        job.commit(reports)
    with pytest.raises(tfr.UsageError, match="not reported: task 1\n") as caught:
        job.commit([report for report in reports if report])
    assert caught.value.hint == "Run these tasks, and commit with the reports of all tasks."
    with pytest.raises(tfr.UsageError, match="not reported: tasks 1, 3, 4\n"):
        job.commit([report for report in reports if report], tasks=5)
    assert not out.exists()
    reports[1] = stage(job, 1)
    job.commit(reports, tasks=3)
    assert ids(out) == list(range(3 * ROWS))


def test_an_aborted_job_leaves_nothing(tmp_path: Path) -> None:
    job = tfr.start_write(tmp_path / "made" / "shards", SCHEMA)
    report = stage(job, 0)
    job.abort()
    assert names(tmp_path) == []
    job.abort()
    for use in (lambda: stage(job, 0), lambda: job.commit([report])):
        with pytest.raises(tfr.TfrError, match="has already been published or aborted"):
            use()
    other = tfr.start_write(tmp_path / "other", SCHEMA)
    other.commit([stage(other, 0)])
    other.abort()
    assert ids(tmp_path / "other") == list(range(ROWS))


def test_a_forged_report_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "shards"
    job, other = tfr.start_write(out, SCHEMA), tfr.start_write(tmp_path / "other", SCHEMA)
    with pytest.raises(tfr.UsageError, match="expected reports of run"):
        job.commit([stage(other, 0)])
    with pytest.raises(tfr.UsageError, match="not a report of a task"):
        job.commit([b"{}"])
    report = stage(job, 0)
    [path] = tmp_path.glob(f".tfr-*-shards/.tfr-*/00000.{json.loads(report)['attempt']}.report")
    content = json.loads(path.read_text())
    content["shards"][0]["staged"] = "../../../etc/passwd"
    path.write_text(json.dumps(content))
    with pytest.raises(tfr.DataError, match="expected shard") as caught:
        job.commit([report])
    assert caught.value.file == str(path)
    job.abort()
    other.abort()
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shard_rows": 1, "shard_size": 1}, "expected shard_rows or shard_size, found both"),
        ({"shard_rows": 0}, "shard_rows is 0"),
        ({"shard_size": "much"}, "shard_size is 'much'"),
        ({"compression": "snappy"}, "compression: "),
        ({"level": 3}, "level needs compression"),
        ({"compression": "gzip", "level": 99}, "level: "),
        ({"compression": "gzip", "emit": ["index"]}, "an index is for uncompressed shards"),
        ({"emit": ["stats"]}, "expected only 'index'"),
        ({"mode": "ignore"}, "mode is 'ignore'"),
        ({"null": "none"}, "null: "),
        ({"record_type": "proto"}, "record_type: "),
        ({"mapping": {"id": "wings"}}, "mapping: "),
        ({"mapping": {"id": "tensor"}}, "id"),
        ({"prefix": "a/b"}, "prefix"),
    ],
)
def test_invalid_options_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(tfr.UsageError) as caught:
        tfr.start_write(tmp_path / "shards", SCHEMA, **options)
    assert message in str(caught.value).replace('"', "'")
    assert names(tmp_path) == []


def test_object_stores_are_refused_by_name() -> None:
    with pytest.raises(tfr.UsageError, match="s3://bucket/train: expected a directory, found a URL of s3"):
        tfr.start_write("s3://bucket/train", SCHEMA)


@pytest.mark.parametrize("task", [-1, 2**32, True, "0", 1.0])
def test_invalid_task_ids_are_refused(tmp_path: Path, task: Any) -> None:
    job = tfr.start_write(tmp_path / "shards", SCHEMA)
    with pytest.raises(tfr.UsageError, match="task_id"):
        job.stage(task, rows(0))
    with pytest.raises(tfr.UsageError, match="threads"):
        job.stage(0, rows(0), threads=0)


def test_a_value_that_does_not_fit_is_located(tmp_path: Path) -> None:
    job = tfr.start_write(tmp_path / "shards", SCHEMA, null="error")
    bad = pa.table({"id": [1, None], "name": ["a", "b"]}, SCHEMA)
    with pytest.raises(tfr.DataError) as caught:
        job.stage(0, [rows(0), bad])
    assert (caught.value.column, caught.value.row) == ("id", ROWS + 1)
