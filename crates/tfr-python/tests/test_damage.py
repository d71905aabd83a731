from __future__ import annotations

import gzip
import json
import pickle
import warnings
from pathlib import Path

import pytest

from conftest import example, frame, ids, write
from tfr_sql import (
    DamageWarning,
    DataError,
    Loader,
    MissingError,
    MissingFilesWarning,
    RecordSource,
    TfrError,
    UsageError,
    read_tfrecord,
    scan_records,
    schema,
    verify,
)


def shard_of(directory: str) -> Path:
    return Path(Loader(directory, batch_size=1).files[0])


def flip(path: Path, byte: int) -> None:
    content = bytearray(path.read_bytes())
    content[byte] ^= 1
    path.write_bytes(content)


def starts(path: Path) -> list[int]:
    """Returns the byte at which each record starts."""
    content, at, found = path.read_bytes(), 0, []
    while at < len(content):
        found.append(at)
        at += 16 + int.from_bytes(content[at : at + 8], "little")
    return found


@pytest.mark.parametrize("part", ["payload", "length"])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_damaged_record_is_named(tmp_path: Path, part: str, threads: int) -> None:
    path = shard_of(write(tmp_path / "set", 200))
    start = starts(path)[150]
    flip(path, start + (20 if part == "payload" else 0))
    read = []
    with pytest.raises(DataError, match="checksum") as raised:
        for batch in Loader(tmp_path / "set", batch_size=10, threads=threads):
            read += batch["id"].tolist()
    error = raised.value
    assert (error.file, error.record, error.byte) == (str(path), 150, start)
    assert read == list(range(len(read))) and len(read) <= 150
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.record, copy.byte) == (DataError, str(error), 150, start)


def test_a_reader_is_not_told_of_damage_in_the_part_of_another(tmp_path: Path) -> None:
    path = shard_of(write(tmp_path / "set", 200))
    flip(path, starts(path)[150] + 20)
    assert ids(Loader(tmp_path / "set", batch_size=10, rank=0, world_size=2)) == rows_of(range(200), 0, 2)
    with pytest.raises(DataError):
        ids(Loader(tmp_path / "set", batch_size=10, rank=1, world_size=2))
    assert ids(Loader(tmp_path / "set", batch_size=10, rank=8, world_size=10)) == rows_of(range(200), 8, 10)
    flip(path, starts(path)[150])
    with pytest.raises(DataError, match="length"):
        ids(Loader(tmp_path / "set", batch_size=10, rank=8, world_size=10))


def rows_of(rows: range, rank: int, world: int) -> list[int]:
    """The rows of a rank with batches of 10, in order."""
    return [row for row in rows if row // 10 % world == rank]


def test_damaged_records_can_be_skipped(tmp_path: Path) -> None:
    path = shard_of(write(tmp_path / "set", 200, shards=2))
    rows = ids(Loader(tmp_path / "set", batch_size=50))
    at = starts(path)
    flip(path, at[30] + 20)
    flip(path, at[70])
    flip(path, at[99] + 20)
    kept = [row for number, row in enumerate(rows) if number not in (30, 70, 99)]
    line = f"{path}: damaged records passed over: 3, the first: record 30 at byte {at[30]}: payload does not match"
    with pytest.warns(DamageWarning, match=line.replace("+", "[+]")):
        loader = Loader(tmp_path / "set", batch_size=7, damaged="skip")
    assert (loader.damaged, loader.num_rows, len(loader)) == (3, 197, 29)
    assert ids(loader) == kept
    with pytest.warns(DamageWarning):
        parts = [Loader(tmp_path / "set", batch_size=5, damaged="skip", rank=rank, world_size=5) for rank in range(5)]
    assert [row for step in zip(*map(list, parts)) for row in ids(step)] == kept
    assert sorted(row for part in pickle.loads(pickle.dumps(parts)) for row in ids(part)) == sorted(kept)
    with pytest.warns(DamageWarning):
        shuffled = Loader(tmp_path / "set", batch_size=7, damaged="skip", shuffle=3, threads=3)
    batches = iter(shuffled)
    first = [next(batches) for _ in range(11)]
    shuffled.load_state_dict(json.loads(json.dumps(shuffled.state_dict())))
    assert sorted(ids(first) + ids(shuffled)) == sorted(kept)

    # Compressed files without a manifest, whose columns are inferred, and a cut one that was undamaged.
    lone = tmp_path / "lone.tfrecord.gz"
    lone.write_bytes(gzip.compress(path.read_bytes()[:-5]))
    with pytest.warns(DamageWarning):
        assert ids(Loader(lone, batch_size=7, damaged="skip", columns=["id"])) == kept[:97]
    with pytest.warns(DamageWarning, match="passed over: 3") as warned:
        scan = scan_records(tmp_path / "set", damaged="skip")
        records = list(scan)
        assert (len(records), scan.damaged) == (197, 3)
        assert list(scan_records(tmp_path / "set", damaged="skip", start=90)) == records[90:]
    assert len(warned) == 2
    with pytest.raises(UsageError, match="start is 1 more than"):
        list(scan_records(tmp_path / "set", damaged="skip", start=198))
    with pytest.raises(UsageError, match="damaged is 'ignore'"):
        Loader(tmp_path / "set", batch_size=7, damaged="ignore")  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DamageWarning):
            Loader(tmp_path / "set", batch_size=7, damaged="skip")

    # What is written from damaged files says so.
    written = read_tfrecord(tmp_path / "set", damaged="skip").write(tmp_path / "copy")
    assert (written.rows, written["damaged_records"]) == (197, 3)
    assert written.report is not None and written.report["damaged_records"] == 3
    assert "damaged_records" not in read_tfrecord(tmp_path / "copy").write(tmp_path / "again")


def test_checksums_can_be_left_unchecked(tmp_path: Path) -> None:
    path = shard_of(write(tmp_path / "set", 200))
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError):
        ids(Loader(tmp_path / "set", batch_size=10))
    assert ids(Loader(tmp_path / "set", batch_size=10, crc=False)) == list(range(200))


def test_an_error_ends_the_iteration(tmp_path: Path) -> None:
    path = shard_of(write(tmp_path / "set", 20))
    flip(path, starts(path)[0] + 20)
    batches = iter(Loader(tmp_path / "set", batch_size=10))
    with pytest.raises(DataError):
        next(batches)
    with pytest.raises(StopIteration):
        next(batches)


@pytest.mark.parametrize("cut", [1, 30])
def test_a_truncated_shard_is_refused(tmp_path: Path, cut: int) -> None:
    path = shard_of(write(tmp_path / "set", 200))
    content = path.read_bytes()
    path.write_bytes(content[:-cut])
    with pytest.raises(DataError, match=f"expected {len(content)} bytes, found {len(content) - cut}") as raised:
        Loader(tmp_path / "set", batch_size=10)
    assert raised.value.file == str(path)
    alone = tmp_path / "alone.tfrecord"
    alone.write_bytes(content[:-cut])
    with pytest.raises(DataError, match="truncated") as raised:
        Loader(alone, batch_size=10)
    assert raised.value.record == 199


@pytest.mark.parametrize("compression", ["none", "gzip", "zlib"])
@pytest.mark.parametrize("more", [1, -1])
def test_a_manifest_with_another_number_of_records_is_found_out(tmp_path: Path, compression: str, more: int) -> None:
    path = tmp_path / "set" / "_manifest.json"
    write(tmp_path / "set", 200, compression=compression)
    content = json.loads(path.read_text())
    del content["manifest_crc32c"]
    content["shards"][0]["rows"] += more
    content["totals"]["rows"] += more
    path.write_text(json.dumps(content))
    # The last record is that of rank 1.
    assert ids(Loader(tmp_path / "set", batch_size=10, world_size=2)) == rows_of(range(200), 0, 2)[: (200 + more) // 2]
    for options in ({"rank": 1, "world_size": 2}, {"shuffle": 1}):
        with pytest.raises(DataError, match="records"):
            ids(Loader(tmp_path / "set", batch_size=10, **options))  # type: ignore[arg-type]


def test_a_file_that_changes_is_refused(tmp_path: Path) -> None:
    path = shard_of(write(tmp_path / "set", 200))
    loader = Loader(tmp_path / "set", batch_size=10)
    path.write_bytes(path.read_bytes() + frame(b""))
    with pytest.raises(DataError, match="has changed"):
        list(loader)


def test_an_incomplete_set_is_refused(tmp_path: Path) -> None:
    path = shard_of(write(tmp_path / "set", 200, 3))
    (tmp_path / "set" / "_SUCCESS").unlink()
    with pytest.raises(DataError, match="_SUCCESS is missing"):
        Loader(tmp_path / "set", batch_size=10)
    path.unlink()
    with pytest.raises(DataError, match="missing"):
        Loader(tmp_path / "set", batch_size=10)
    with pytest.raises(DataError, match="missing"):
        next(scan_records(tmp_path / "set"))


def test_a_damaged_gzip_stream_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord.gz"
    content = gzip.compress(b"".join(frame(example(id=[i])) for i in range(100)))
    path.write_bytes(content[:-4])
    with pytest.raises(DataError, match="gzip") as raised:
        Loader(path, batch_size=10)
    assert raised.value.file == str(path)


def test_a_record_that_is_no_example_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    good = frame(example(id=[1]))
    path.write_bytes(good * 5 + frame(b"\xff\xff\xff") + good)
    schema = pytest.importorskip("pyarrow").schema([("id", "int64")])
    with pytest.raises(DataError) as raised:
        list(Loader(path, batch_size=2, schema=schema))
    assert (raised.value.record, raised.value.byte) == (5, 5 * len(good))


def test_a_sample_that_misled_is_explained(tmp_path: Path) -> None:
    # 1,000 records have one value, a later one has two.
    path = tmp_path / "a.tfrecord"
    path.write_bytes(frame(example(id=[1])) * 1000 + frame(example(id=[1, 2])))
    with pytest.raises(DataError, match="expected 1 value, found 2") as raised:
        list(Loader(path, batch_size=200))
    assert (raised.value.record, raised.value.column) == (1000, "id")
    assert raised.value.hint is not None and "schema=" in raised.value.hint


def test_missing_files(tmp_path: Path) -> None:
    for path in ["nowhere", "*.tfrecord"]:
        with pytest.raises(MissingError) as raised:
            Loader(tmp_path / path, batch_size=1)
        assert isinstance(raised.value, FileNotFoundError) and isinstance(raised.value, TfrError)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no TFRecord files"):
        Loader(tmp_path / "empty", batch_size=1)


def test_verify_finds_all_damage(tmp_path: Path) -> None:
    path = shard_of(write(tmp_path / "set", 200))
    assert verify(tmp_path / "set").ok
    assert verify(tmp_path / "set").records == 200
    for record in (3, 100):
        flip(path, starts(path)[record] + 20)
    found = verify(tmp_path / "set", threads=1)
    assert not found.ok
    assert found.records == 198
    assert [f"record {record} at byte" in str(finding) for record, finding in zip((3, 100), found.findings)] == [True, True]
    assert found.findings[0].path == str(path)
    with pytest.raises(DataError, match="and 1 more"):
        verify(tmp_path / "set", raise_on_damage=True)


def test_a_part_of_a_set_is_a_warning(tmp_path: Path) -> None:
    for number in [0, 2]:
        (tmp_path / f"part-{number:05}-of-00003.tfrecord").write_bytes(frame(example(id=[number])))
    expected = f"only 2 of the 3 files {tmp_path}/part-*-of-00003.tfrecord exist: number 1 is missing"
    readers = [
        lambda paths: ids(Loader(paths, batch_size=1)),
        lambda paths: list(scan_records(paths)),
        lambda paths: list(scan_records(paths, start=1)),
        lambda paths: len(RecordSource(paths)),
        schema,
    ]
    for read in readers:
        with pytest.warns(MissingFilesWarning) as warned:
            read(tmp_path)
        assert [str(warning.message) for warning in warned] == [expected]
        assert warned[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(MissingFilesWarning):
                read(tmp_path)
            # What is named is read as named.
            read(tmp_path / "*.tfrecord")


def test_an_empty_file_with_the_name_of_a_compressed_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.tfrecord").write_bytes(frame(example(id=[1])))
    (tmp_path / "b.tfrecord.gz").write_bytes(b"")
    for read in [lambda: Loader(tmp_path, batch_size=1), lambda: list(scan_records(tmp_path))]:
        with pytest.raises(DataError, match="b.tfrecord.gz: expected a compressed file or one of ArrayRecord, found an empty one"):
            read()
