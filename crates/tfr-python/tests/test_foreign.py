"""Files of other tools: no manifest, and whatever compression and order of features."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from conftest import Example, digest, example, frame, ids, unframe, write
from tfr_sql import Loader, UsageError, scan_records, schema, write_tfrecord


def records(rows: range) -> list[bytes]:
    return [
        example(id=[i], weights=[i / 4, 1.0], tokens=list(range(i % 3 + 1)), name=[f"n{i}".encode()], raw=[b"\xff" * (i % 2)])
        for i in rows
    ]


def write_files(directory: Path, compression: str = "none") -> None:
    directory.mkdir()
    for part, rows in enumerate([range(0, 70), range(70, 70), range(70, 200)]):
        content = b"".join(map(frame, records(rows)))
        content = {"none": lambda c: c, "gzip": gzip.compress, "zlib": zlib.compress}[compression](content)
        (directory / f"data_{part}.tfrecord").write_bytes(content)
    (directory / "README.md").write_text("not records")


@pytest.mark.parametrize("compression", ["none", "gzip", "zlib"])
def test_files_without_a_manifest(tmp_path: Path, compression: str) -> None:
    write_files(tmp_path / "in", compression)
    loader = Loader(tmp_path / "in", batch_size=64)
    assert len(loader) == 4 and loader.num_rows == 200
    batches = list(loader)
    assert ids(batches) == list(range(200))
    batch = batches[0]
    assert batch["weights"].dtype == np.float32
    assert batch["weights"].tolist() == [[i / 4, 1.0] for i in range(64)]
    assert batch["tokens"].to_list() == [list(range(i % 3 + 1)) for i in range(64)]
    assert batch["name"].tolist() == [f"n{i}" for i in range(64)]
    assert batch["raw"].tolist() == [b"\xff" * (i % 2) for i in range(64)]
    read = [ids(Loader(tmp_path / "in", batch_size=9, shuffle=1, rank=rank, world_size=7)) for rank in range(7)]
    assert sorted(sum(read, [])) == list(range(200))
    assert [len(rows) for rows in read] == [28, 29, 28, 29, 28, 29, 29]


def test_the_same_batches_with_and_without_a_manifest(tmp_path: Path) -> None:
    out = write(tmp_path / "set", 300, 3)
    loader = Loader(out, batch_size=50)
    columns = pa.schema(schema(out))
    (tmp_path / "copy").mkdir()
    for file in loader.files:
        (tmp_path / "copy" / Path(file).name).write_bytes(Path(file).read_bytes())
    assert digest(Loader(tmp_path / "copy", batch_size=50, schema=columns)) == digest(loader)


def test_a_schema_may_leave_out_columns_with_options(tmp_path: Path) -> None:
    out = Path(write(tmp_path / "set", 20))
    path = out / "_manifest.json"
    content = json.loads(path.read_text())
    del content["manifest_crc32c"]
    content["options"]["mapping"]["choices"] = {"when": "string"}
    path.write_text(json.dumps(content))
    columns = pa.schema([("id", pa.int64()), ("name", pa.string())])
    assert ids(Loader(out, batch_size=50, schema=columns)) == list(range(20))


def test_shards_are_read_by_protobuf(tmp_path: Path) -> None:
    out = write(tmp_path / "set", 50)
    (file,) = Loader(out, batch_size=1).files
    (batch,) = Loader(out, batch_size=50)
    for row, payload in enumerate(unframe(Path(file).read_bytes())):
        features = Example.FromString(payload).features.feature
        number = features["id"].int64_list.value[0]
        assert number == batch["id"][row]
        assert list(features["vector"].float_list.value) == batch["vector"][row].tolist()
        assert list(features["tokens"].int64_list.value) == batch["tokens"][row].tolist()
        assert list(features["image"].bytes_list.value) == [batch["image"][row]]


def test_several_paths_and_patterns(tmp_path: Path) -> None:
    write_files(tmp_path / "in")
    first, last = tmp_path / "in" / "data_0.tfrecord", tmp_path / "in" / "data_2.tfrecord"
    assert ids(Loader([last, first], batch_size=64)) == [*range(70, 200), *range(70)]
    assert ids(Loader(tmp_path / "in" / "data_*", batch_size=64)) == list(range(200))
    assert ids(Loader([first, first], batch_size=64)) == list(range(70))


def test_sets_with_one_more_column_are_one_table(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    write_tfrecord(pa.table({"id": [1, 2]}), first)
    write_tfrecord(pa.table({"more": [0.5], "id": [3]}, pa.schema([("more", pa.float32()), ("id", pa.int64())])), second)
    batches = list(Loader([first, second], batch_size=3, fill={"more": -1.0}))
    assert batches[0]["id"].tolist() == [1, 2, 3]
    assert batches[0]["more"].tolist() == [-1.0, -1.0, 0.5]
    assert ids(Loader([first, second], batch_size=3, schema=pa.schema([("id", pa.int64())]))) == [1, 2, 3]
    # The rule of a column that the other set lacks.
    write_tfrecord(pa.table({"id": [3], "price": [0.1]}), second, map={"price": "string"}, mode="overwrite")
    (batch,) = Loader([first, second], batch_size=3, fill={"price": -1.0})
    assert batch["price"].tolist() == [-1.0, -1.0, 0.1]
    (batch,) = Loader([second, first], batch_size=3, fill={"price": -1.0})
    assert batch["price"].tolist() == [0.1, -1.0, -1.0]
    write_tfrecord(pa.table({"id": [3], "price": ["a"]}), first, mode="overwrite")
    write_tfrecord(pa.table({"id": [3], "price": ["a"]}), second, map={"price": "index"}, mode="overwrite")
    with pytest.raises(UsageError, match="different options of columns"):
        Loader([first, second], batch_size=3)


def test_sets_with_two_types_of_a_column_are_refused(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    write_tfrecord(pa.table({"id": [1]}), first)
    write_tfrecord(pa.table({"id": ["1"]}), second)
    with pytest.raises(UsageError, match="their manifests record different types of \"id\"") as raised:
        Loader([first, second], batch_size=2)
    assert raised.value.hint == "Read the sets one by one: one kind of feature has no type that reads the other."
    write_tfrecord(pa.table({"id": pa.array([2], pa.int32())}), second, mode="overwrite")
    with pytest.raises(UsageError, match="or pass schema= with types that fit both"):
        Loader([first, second], batch_size=2)
    assert ids(Loader([first, second], batch_size=2, schema=pa.schema([("id", pa.int64())]))) == [1, 2]


def test_sets_with_different_columns_are_refused(tmp_path: Path) -> None:
    out = write(tmp_path / "set", 5)
    write_files(tmp_path / "in")
    with pytest.raises(UsageError, match="has a manifest that records its columns"):
        Loader([out, tmp_path / "in"], batch_size=2)


@pytest.mark.parametrize("compression", ["none", "gzip", "zlib"])
def test_scan_records(tmp_path: Path, compression: str) -> None:
    write_files(tmp_path / "in", compression)
    assert list(scan_records(tmp_path / "in")) == records(range(200))
    for start in (0, 1, 69, 70, 71, 199, 200):
        assert list(scan_records(tmp_path / "in", start=start)) == records(range(start, 200))
    with pytest.raises(UsageError, match="start is 201, expected at most 200, the number of records"):
        next(scan_records(tmp_path / "in", start=201))
    for wrong in (-1, True, "1"):
        with pytest.raises(UsageError, match="expected the number of a record"):
            next(scan_records(tmp_path / "in", start=wrong))  # type: ignore[arg-type]
