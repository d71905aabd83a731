from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tfr_sql as tfr
from conftest import digest
from tfr_sql import Loader, UsageError

grain = pytest.importorskip("grain")

from tfr_sql.jax import TFRecordIterDataset, TFRecordSource  # noqa: E402


def test_an_iter_dataset_has_the_batches_of_a_loader(sets: dict[int, str]) -> None:
    data: Any = TFRecordIterDataset(sets[3], batch_size=50, shuffle=1)
    assert digest(data) == digest(Loader(sets[3], batch_size=50, shuffle=1))
    sizes = list(data.map(lambda batch: len(batch["id"])))
    assert sizes == [50] * 20


def test_an_iter_dataset_resumes(sets: dict[int, str]) -> None:
    data: Any = TFRecordIterDataset(sets[3], batch_size=50, shuffle=1)
    batches = iter(data)
    for _ in range(7):
        next(batches)
    state = json.loads(json.dumps(batches.get_state()))
    rest = digest(batches)
    other = iter(data)
    next(other)
    other.set_state(state)
    assert digest(other) == rest


def test_slices_have_batches_in_turn(sets: dict[int, str]) -> None:
    slices = []
    for worker in range(3):
        data = TFRecordIterDataset(sets[16], batch_size=50, shuffle=1)
        data.set_slice(slice(worker, None, 3))
        slices.append(list(data))
    in_turn = [batch for batches in itertools.zip_longest(*slices) for batch in batches if batch is not None]
    assert digest(in_turn) == digest(Loader(sets[16], batch_size=50, shuffle=1))
    with pytest.raises(UsageError, match="mp_prefetch"):
        TFRecordIterDataset(sets[16], batch_size=50, num_workers=2)


def test_a_source_in_a_pipeline(sets: dict[int, str]) -> None:
    source = TFRecordSource(sets[3], columns=["id", "vector"])
    data = grain.MapDataset.source(source).shuffle(seed=1).map(lambda row: row["id"]).batch(100)
    assert sorted(int(i) for batch in data for i in batch) == list(range(1000))


def payloads(paths: list[str]) -> list[bytes]:
    """The records of TFRecord files, by their layout alone."""
    records = []
    for path in paths:
        with open(path, "rb") as file:
            while length := file.read(12):
                records.append(file.read(int.from_bytes(length[:8], "little")))
                file.read(4)
    return records


def of_grain(paths: list[str]) -> list[bytes]:
    """The records that grain reads, by number, in another order than theirs."""
    source = grain.sources.ArrayRecordDataSource(paths)
    order = [at * 7 % len(source) for at in range(len(source))]
    read = dict(zip(order, source.__getitems__(order), strict=True))
    return [read[at] for at in range(len(source))]


@pytest.mark.parametrize("options", [{}, {"group_size": 16, "compression": "zstd"}])
def test_grain_reads_array_records(tmp_path: Path, options: dict[str, Any]) -> None:
    rows = {"id": list(range(1009)), "text": ["x" * (at * at % 3001) for at in range(1009)]}
    tfr.write_tfrecord(rows, tmp_path / "plain", shards=3, shuffle=7)
    manifest = tfr.write_tfrecord(rows, tmp_path / "array", shards=3, shuffle=7, record_format="array_record", **options)
    paths = [str(tmp_path / "array" / shard["path"]) for shard in manifest["shards"]]
    expected = payloads(sorted(map(str, (tmp_path / "plain").glob("*.tfrecord"))))
    assert len(expected) == 1009 and of_grain(paths) == expected
    data = grain.MapDataset.source(grain.sources.ArrayRecordDataSource(paths)).shuffle(seed=7).batch(100, batch_fn=list)
    batches = [tfr.Decoder(pa.schema([("id", pa.int64())])).parse(batch) for batch in data]
    assert sorted(number for batch in batches for number in pa.array(batch).field("id").to_pylist()) == rows["id"]


def test_grain_reads_array_records_of_tasks(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64())])
    sets = {}
    for record_format in ("tfrecord", "array_record"):
        job = tfr.start_write(tmp_path / record_format, schema, shard_rows=300, record_format=record_format)
        reports = [job.stage(task, pa.table({"id": range(500 * task, 500 * task + 500)}, schema)) for task in range(2)]
        manifest = job.commit(reports, tasks=2)
        sets[record_format] = [str(tmp_path / record_format / shard["path"]) for shard in manifest["shards"]]
    assert len(sets["array_record"]) == 4
    assert of_grain(sets["array_record"]) == payloads(sets["tfrecord"])


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "gzip"},
        {"group_size": 0},
        {"group_size": 1 << 17},
        {"emit": ["index"]},
        {"record_format": "tfrecord", "group_size": 2},
        {"record_format": "tfrecord", "compression": "zstd"},
        {"record_format": "riegeli"},
        {"compression": "zstd", "level": 3},
    ],
)
def test_array_records_reject_options_of_other_formats(tmp_path: Path, options: dict[str, Any]) -> None:
    options = {"record_format": "array_record", **options}
    with pytest.raises(UsageError):
        tfr.start_write(tmp_path / "tasks", pa.schema([("id", pa.int64())]), **options)
    with pytest.raises(UsageError):
        tfr.write_tfrecord({"id": [1]}, tmp_path / "rows", **options)
    assert not list(tmp_path.iterdir())
