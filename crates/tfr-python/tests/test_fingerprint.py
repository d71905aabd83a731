"""The fingerprint of a source, and what compares it: states of loaders and checkpoints of grain."""

from __future__ import annotations

import json
import multiprocessing
import pickle
import re
import shutil
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from conftest import example, frame, table
from tfr_sql import DataError, Loader, RecordSource, UsageError, write_tfrecord

FORMATS = ["tfrecord", "array_record"]


def fingerprint(*paths: Path, **options: Any) -> str:
    return RecordSource([str(path) for path in paths], **options).fingerprint


def changed(first: int) -> Any:
    """Rows of which one differs from `table`, in a number of the same length."""
    rows = table(300).to_pydict()
    rows["small"] = [small + (1 if row == first else 0) for row, small in enumerate(rows["small"])]
    return table(300).set_column(1, "small", [pa.array(rows["small"], pa.int8())])


@pytest.fixture(params=FORMATS)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    out = tmp_path / "set"
    write_tfrecord(table(300), out, shards=3, record_format=request.param)
    return out


def again(path: Path, rows: Any, name: str = "again", **options: Any) -> Path:
    """Writes another set in the same format."""
    found = json.loads((path / "_manifest.json").read_text()).get("record_format", "tfrecord")
    out = path.parent / name
    write_tfrecord(rows, out, **{"shards": 3, "record_format": found, **options})
    return out


def lengths(path: Path) -> list[int]:
    return [shard["file_bytes"] for shard in json.loads((path / "_manifest.json").read_text())["shards"]]


def test_fingerprint_is_that_of_the_records(path: Path) -> None:
    expected = fingerprint(path)
    assert len(expected) == 32 and int(expected, 16) > 0
    # The same records at another time and place, and what a reader chooses of them.
    assert fingerprint(again(path, table(300))) == expected
    shutil.move(path, path.parent / "elsewhere")
    moved = path.parent / "elsewhere"
    assert fingerprint(moved) == expected
    assert fingerprint(moved, columns=["id"], crc=False) == expected
    assert fingerprint(*sorted(moved.glob("part-*"))) == expected


def test_fingerprint_of_one_changed_record_differs(path: Path) -> None:
    other = again(path, changed(123))
    assert lengths(other) == lengths(path)
    found = {fingerprint(path), fingerprint(other), fingerprint(again(path, table(299), "fewer"))}
    found |= {fingerprint(again(path, table(300), "more shards", shards=4)), fingerprint(path, other), fingerprint(other, path)}
    assert len(found) == 6


def test_fingerprint_without_a_manifest_has_names_lengths_and_counts(path: Path) -> None:
    whole, other = fingerprint(path), again(path, changed(123))
    for out in (path, other):
        (out / "_manifest.json").unlink()
    plain = fingerprint(path)
    # Another record of the same length cannot be noticed.
    assert plain == fingerprint(other) != whole
    for shard in list(path.glob("part-*")):
        shard.rename(shard.with_name(shard.name.replace("part", "train")))
    assert fingerprint(path) != plain


def test_fingerprint_counts_records_of_equal_lengths(tmp_path: Path) -> None:
    paths = tmp_path / "one" / "a.tfrecord", tmp_path / "two" / "a.tfrecord"
    for path, records in zip(paths, ([b"x" * 40], [b"x" * 12, b"x" * 12])):
        path.parent.mkdir()
        path.write_bytes(b"".join(frame(example(v=[record])) for record in records))
    long, short = paths[0].stat().st_size, paths[1].stat().st_size
    paths[0].write_bytes(frame(example(v=[b"x" * (40 + short - long)])))
    assert paths[0].stat().st_size == paths[1].stat().st_size
    assert fingerprint(paths[0]) != fingerprint(paths[1])


def test_fingerprint_does_not_believe_a_stale_manifest(path: Path) -> None:
    expected = fingerprint(path)
    shard = min(path.glob("part-*"))
    other = min(again(path, table(3000)).glob("part-*"))
    shutil.copy(other, shard)
    with pytest.raises(DataError, match=shard.name):
        RecordSource(path)
    # A file that is named is read whatever the manifest records, so its checksum there does not count.
    lone = path.parent / "lone" / shard.name
    lone.parent.mkdir()
    shutil.copy(other, lone)
    assert fingerprint(shard) == fingerprint(lone) != expected
    manifest = other.parent / "_manifest.json"
    text = manifest.read_text()
    manifest.write_text(re.sub('(?<="crc32c": ")[0-9a-f]{8}', "01234567", text, count=1))
    with pytest.raises(DataError, match="manifest"):
        RecordSource(other.parent)


def send(source: RecordSource, connection: Connection) -> None:
    connection.send((source.fingerprint, repr(source), [int(row["id"]) for row in source]))
    connection.close()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_fingerprint_is_the_same_in_every_process(path: Path, method: str) -> None:
    source = RecordSource(path, columns=["id"])
    read = [int(row["id"]) for row in source]
    context: Any = multiprocessing.get_context(method)
    found = []
    for copy in (source, pickle.loads(pickle.dumps(source))):
        receive, sender = context.Pipe(duplex=False)
        process = context.Process(target=send, args=(copy, sender))
        process.start()
        sender.close()
        found.append(receive.recv())
        process.join()
    assert found == [(source.fingerprint, repr(source), read)] * 2
    program = f"import tfr_sql; print(tfr_sql.RecordSource({str(path)!r}).fingerprint)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == source.fingerprint


def test_a_state_of_a_changed_set_is_refused(path: Path) -> None:
    loader = Loader(path, batch_size=32, shuffle=7)
    next(iter(loader))
    state = loader.state_dict()
    Loader(again(path, table(300)), batch_size=32, shuffle=7).load_state_dict(state)
    other = Loader(again(path, changed(123), "changed"), batch_size=32, shuffle=7)
    with pytest.raises(UsageError, match="the state is of another loader: fingerprint"):
        other.load_state_dict(state)
    # States of version 0.2 have the names, lengths and counts of files only.
    del state["data"]["fingerprint"]
    other.load_state_dict(state)


def test_a_checkpoint_of_grain_of_a_changed_set_is_refused(path: Path) -> None:
    grain = pytest.importorskip("grain")
    from tfr_sql.jax import TFRecordSource

    def batches(path: Path) -> Any:
        source = TFRecordSource(str(path), columns=["id"])
        sampler = grain.samplers.IndexSampler(len(source), shuffle=True, seed=7, num_epochs=1)
        return iter(grain.DataLoader(data_source=source, sampler=sampler, operations=[grain.transforms.Batch(50)]))

    read = batches(path)
    next(read)
    checkpoint = read.get_state()
    rest = [batch["id"].tolist() for batch in read]
    resumed = batches(again(path, table(300)))
    resumed.set_state(checkpoint)
    assert len(rest) == 5 and [batch["id"].tolist() for batch in resumed] == rest
    with pytest.raises(ValueError, match="data source"):
        batches(again(path, changed(123), "changed")).set_state(checkpoint)
