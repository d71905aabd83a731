"""ArrayRecord files in Python: what is read of them is what is read of TFRecord files."""

from __future__ import annotations

import pickle
import random
from pathlib import Path
from typing import Any

import pytest

from conftest import digest, ids, table
from tfr_sql import DataError, Loader, RecordSource, UsageError, read_tfrecord, scan_records, write_tfrecord

FORMS: list[dict[str, Any]] = [{}, {"group_size": 7}, {"compression": "zstd", "group_size": 16}]


def both(directory: Path, form: dict[str, Any], rows: int = 700) -> tuple[str, str]:
    """The same set as TFRecord and as ArrayRecord."""
    paths = str(directory / "tfrecord"), str(directory / "array_record")
    write_tfrecord(table(rows), paths[0], shards=3)
    write_tfrecord(table(rows), paths[1], shards=3, record_format="array_record", **form)
    return paths


@pytest.mark.parametrize("form", FORMS)
def test_array_record_gives_the_batches_of_tfrecord(tmp_path: Path, form: dict[str, Any]) -> None:
    tfrecord, array_record = both(tmp_path, form)
    assert list(scan_records(array_record)) == list(scan_records(tfrecord))
    assert list(scan_records(array_record, start=500)) == list(scan_records(tfrecord, start=500))
    assert digest(Loader(array_record, batch_size=64)) == digest(Loader(tfrecord, batch_size=64))
    for world in (1, 3):
        read: list[int] = []
        for rank in range(world):
            read += ids(Loader(array_record, batch_size=32, shuffle=7, shuffle_buffer=100, rank=rank, world_size=world))
        assert sorted(read) == list(range(700)) and read != sorted(read)
    loader = Loader(array_record, batch_size=32, shuffle=7)
    batches = iter(loader)
    for _ in range(5):
        next(batches)
    state, rest = loader.state_dict(), digest(batches)
    resumed = Loader(array_record, batch_size=32, shuffle=7)
    resumed.load_state_dict(state)
    assert digest(resumed) == rest


@pytest.mark.parametrize("form", FORMS)
def test_array_record_is_a_table(tmp_path: Path, form: dict[str, Any]) -> None:
    tfrecord, array_record = both(tmp_path, form)
    expected = read_tfrecord(tfrecord, threads=1).arrow()
    assert expected.num_rows == 700
    assert read_tfrecord(array_record, record_format="array_record", threads=1).arrow().equals(expected)
    with pytest.raises(DataError):
        read_tfrecord(array_record).arrow()
    with pytest.raises(UsageError):
        read_tfrecord("x.parquet", record_format="parquet")  # type: ignore[arg-type]


@pytest.mark.parametrize("form", FORMS)
def test_array_record_is_read_by_number(tmp_path: Path, form: dict[str, Any]) -> None:
    tfrecord, array_record = both(tmp_path, form)
    expected, source = RecordSource(tfrecord), RecordSource(array_record)
    assert len(source) == 700
    numbers = list(range(700)) + random.Random(1).choices(range(700), k=300)
    for found, row in zip(source.__getitems__(numbers), expected.__getitems__(numbers)):
        assert repr(found) == repr(row)
    copy = pickle.loads(pickle.dumps(source))
    assert repr(copy[699]) == repr(expected[-1]) and repr(copy) == repr(source)
    with pytest.raises(IndexError):
        source[700]


def test_array_record_by_number_names_damage(tmp_path: Path) -> None:
    path = tmp_path / "set"
    write_tfrecord(table(50), path, record_format="array_record")
    [file] = path.glob("*.array_record")
    source = RecordSource(file)
    content = bytearray(file.read_bytes())
    content[200] ^= 1
    file.write_bytes(content)
    with pytest.raises(DataError) as caught:
        source.__getitems__(range(50))
    assert caught.value.file == str(file) and caught.value.record is not None
    file.write_bytes(content[:-100])
    with pytest.raises(DataError, match="array_record"):
        RecordSource(file)


def test_compressed_tfrecord_is_not_read_by_number(tmp_path: Path) -> None:
    write_tfrecord(table(20), tmp_path / "gzip", compression="gzip")
    with pytest.raises(UsageError, match="expected an uncompressed file"):
        RecordSource(tmp_path / "gzip")
