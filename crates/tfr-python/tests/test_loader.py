from __future__ import annotations

import itertools
import json
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from conftest import digest, ids, table, write
from tfr_sql import DataError, Loader, Ragged, UsageError, write_tfrecord


@pytest.mark.parametrize("shards", [1, 3, 16])
@pytest.mark.parametrize("world", [1, 2, 5])
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("shuffle", [None, 7])
def test_each_row_is_read_once(sets: dict[int, str], shards: int, world: int, workers: int, shuffle: int | None) -> None:
    read: list[int] = []
    for rank in range(world):
        for worker in range(workers):
            loader = Loader(
                sets[shards], batch_size=32, columns=["id"], shuffle=shuffle, shuffle_buffer=100,
                rank=rank, world_size=world, worker=worker, num_workers=workers,
            )  # fmt: skip
            batches = list(loader)
            assert len(batches) == len(loader)
            # All workers of the rank have these.
            assert abs(loader.num_rows - 1000 / world) < 1
            read += ids(batches)
    assert sorted(read) == list(range(1000))


def test_values_are_those_that_were_written(sets: dict[int, str]) -> None:
    expected = table(1000).to_pylist()
    at = 0
    for batch in Loader(sets[3], batch_size=64):
        order = batch["id"].tolist()
        for row, number in enumerate(order):
            want = expected[number]
            assert batch["small"][row] == want["small"]
            assert batch["flag"][row] == want["flag"]
            score = batch["score"][row]
            assert math.isnan(score) if want["score"] is None else score == np.float32(want["score"])
            assert batch["name"][row] == want["name"]
            assert batch["image"][row] == want["image"]
            when = batch["when"][row]
            assert np.isnat(when) if want["when"] is None else when == np.datetime64(want["when"])
            assert batch["tokens"][row].tolist() == (want["tokens"] or [])
            assert batch["words"][row].tolist() == want["words"]
            assert batch["vector"][row].tolist() == want["vector"]
        at += len(order)
        types = {name: column.dtype.str for name, column in batch.items() if isinstance(column, np.ndarray)}
        assert types == {
            "id": "<i8", "small": "|i1", "flag": "|b1", "score": "<f4", "name": "|O", "image": "|O",
            "when": "<M8[us]", "vector": "<f4",
        }  # fmt: skip
        assert batch["tokens"].values.dtype == np.int32
        assert batch["tokens"].row_splits.dtype == np.int64
        assert batch["vector"].shape == (len(order), 3)
    assert at == 1000


def test_rows_are_in_order_without_a_shuffle(tmp_path: Path) -> None:
    write_tfrecord(table(500), tmp_path / "set", shard_rows=120)
    assert ids(Loader(tmp_path / "set", batch_size=33)) == list(range(500))


def test_batches_have_the_batch_size(sets: dict[int, str]) -> None:
    assert [len(batch["id"]) for batch in Loader(sets[3], batch_size=300)] == [300, 300, 300, 100]
    loader = Loader(sets[3], batch_size=300, drop_remainder=True)
    assert [len(batch["id"]) for batch in loader] == [300, 300, 300]
    assert len(loader) == 3
    assert [len(batch["id"]) for batch in Loader(sets[3], batch_size=5000)] == [1000]


def test_a_shuffle_is_determined_by_seed_and_epoch(sets: dict[int, str]) -> None:
    def order(seed: int, epoch: int) -> list[int]:
        loader = Loader(sets[16], batch_size=10, shuffle=seed)
        loader.set_epoch(epoch)
        return ids(loader)

    assert order(1, 0) == order(1, 0)
    assert len({tuple(order(seed, epoch)) for seed in (1, 2) for epoch in (0, 1)}) == 4
    assert all(sorted(order(1, epoch)) == list(range(1000)) for epoch in (0, 1))
    assert order(1, 0) != list(range(1000))


def test_the_order_of_a_seed_never_changes(tmp_path: Path) -> None:
    # The definition of the order, written again: SplitMix64, and the shuffle of Fisher and Yates.
    mask = 2**64 - 1

    def mix(state: int) -> int:
        state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & mask
        state = (state ^ state >> 27) * 0x94D049BB133111EB & mask
        return state ^ state >> 31

    def expected(seed: int, epoch: int, rows: int) -> list[int]:
        state = 0
        for number in (seed ^ 2 << 56, epoch, 0):
            state = mix((state ^ number) + 0x9E3779B97F4A7C15 & mask)
        order = list(range(rows))
        for last in range(rows - 1, 0, -1):
            state = state + 0x9E3779B97F4A7C15 & mask
            other = mix(state) * (last + 1) >> 64
            order[last], order[other] = order[other], order[last]
        return order

    write(tmp_path / "set", 12)
    loader = Loader(tmp_path / "set", batch_size=4, shuffle=1, epochs=2)
    assert ids(loader) == expected(1, 0, 12) + expected(1, 1, 12)


def test_zero_is_a_seed(sets: dict[int, str]) -> None:
    order = ids(Loader(sets[1], batch_size=100, shuffle=0))
    assert order != list(range(1000)) and sorted(order) == list(range(1000))


def test_a_shuffle_is_uniform(tmp_path: Path) -> None:
    # 4 rows have 24 orders. 2,400 epochs give 100 of each; the chi-squared statistic of 23 degrees of freedom is below
    # 49.7 with a probability of 0.999, and the seed is fixed.
    write(tmp_path / "set", 4)
    loader = Loader(tmp_path / "set", batch_size=4, columns=["id"], shuffle=5, epochs=2400)
    counts: dict[tuple[int, ...], int] = {}
    for batch in loader:
        order = tuple(batch["id"].tolist())
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 24
    assert sum((count - 100) ** 2 / 100 for count in counts.values()) < 49.7


def test_iterations_continue_with_the_next_epoch(sets: dict[int, str]) -> None:
    loader = Loader(sets[3], batch_size=100, shuffle=3)
    first, second = ids(loader), ids(loader)
    assert first != second
    both = Loader(sets[3], batch_size=100, shuffle=3, epochs=2)
    assert ids(both) == first + second
    assert len(both) == 20


@pytest.mark.parametrize("epochs", [1, 2, None])
def test_an_abandoned_iteration_is_not_repeated(sets: dict[int, str], epochs: int | None) -> None:
    loader = Loader(sets[3], batch_size=100, shuffle=3, epochs=epochs)
    one = Loader(sets[3], batch_size=100, shuffle=3)
    for following in (0, epochs or 1):
        one.set_epoch(following)
        assert digest(itertools.islice(loader, 4)) == digest(itertools.islice(one, 4))
    # One that is left between two epochs of it is not repeated, either.
    if epochs == 2:
        assert len(list(itertools.islice(loader, 10))) == 10
        assert loader.state_dict()["epoch"] == 4
        next(iter(loader))
        assert loader.state_dict()["epoch"] == 6


def test_epochs_without_end(sets: dict[int, str]) -> None:
    loader = Loader(sets[3], batch_size=600, epochs=None)
    batches = iter(loader)
    assert [len(next(batches)["id"]) for _ in range(5)] == [600, 400, 600, 400, 600]
    with pytest.raises(TypeError, match="no length"):
        len(loader)


OPTIONS: list[dict[str, Any]] = [
    {},
    {"shuffle": 11},
    {"shuffle": 11, "shuffle_buffer": 90},
    {"shuffle": 11, "shuffle_buffer": 90, "epochs": 2, "drop_remainder": True},
    {"rank": 1, "world_size": 2, "worker": 2, "num_workers": 3, "epochs": 2},
    {"rank": 4, "world_size": 5, "equal": "repeat", "shuffle": 2},
    {"threads": 3, "shuffle": 5, "ragged": "pad"},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("shards", [1, 16])
def test_a_resumed_loader_continues_bit_for_bit(sets: dict[int, str], shards: int, options: dict[str, Any]) -> None:
    whole = list(Loader(sets[shards], batch_size=30, **options))
    for taken in range(0, len(whole) + 1, 3):
        loader = Loader(sets[shards], batch_size=30, **options)
        batches = iter(loader)
        for _ in range(taken):
            next(batches)
        state = json.dumps(loader.state_dict())
        assert len(state) < 1024
        resumed = Loader(sets[shards], batch_size=30, **options)
        resumed.load_state_dict(json.loads(state))
        assert digest(resumed) == digest(whole[taken:])


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_do_not_change_batches(sets: dict[int, str], threads: int) -> None:
    for shuffle in (None, 9):
        one = digest(Loader(sets[16], batch_size=37, shuffle=shuffle))
        assert digest(Loader(sets[16], batch_size=37, shuffle=shuffle, threads=threads, prefetch=0)) == one


def test_a_state_between_epochs_fits_other_readers(sets: dict[int, str]) -> None:
    loader = Loader(sets[3], batch_size=100, shuffle=3)
    list(loader)
    other = Loader(sets[3], batch_size=7, shuffle=3, rank=1, world_size=4)
    other.load_state_dict(loader.state_dict())
    assert other.state_dict()["epoch"] == 1


def test_a_state_of_another_loader_is_refused(sets: dict[int, str]) -> None:
    loader = Loader(sets[3], batch_size=100)
    next(iter(loader))
    state = loader.state_dict()
    for other in [
        Loader(sets[3], batch_size=50),
        Loader(sets[16], batch_size=100),
        Loader(sets[3], batch_size=100, shuffle=1),
        Loader(sets[3], batch_size=100, drop_remainder=True),
    ]:
        with pytest.raises(UsageError, match="of another loader|a global batch of 100, this loader one of 50"):
            other.load_state_dict(state)
    for wrong, message in [
        ({}, "not a state"),
        ({**state, "version": 3}, "version 3, expected 2 or 1"),
        ({**state, "step": -1}, "step is -1"),
    ]:
        with pytest.raises(UsageError, match=message):
            loader.load_state_dict(wrong)


@pytest.mark.parametrize("equal, rows", [("truncate", 1000 // 7), ("repeat", 1000 // 7 + 1)])
def test_equal_readers(sets: dict[int, str], equal: Any, rows: int) -> None:
    read = []
    for rank in range(7):
        loader = Loader(sets[16], batch_size=10, shuffle=4, rank=rank, world_size=7, equal=equal)
        mine = ids(loader)
        assert len(mine) == loader.num_rows == rows
        read += mine
    assert len(set(read)) == min(1000, 7 * rows)


def test_more_readers_than_rows(tmp_path: Path) -> None:
    write(tmp_path / "set", 2)
    read = [ids(Loader(tmp_path / "set", batch_size=4, rank=rank, world_size=5)) for rank in range(5)]
    assert sorted(sum(read, [])) == [0, 1]
    read = [ids(Loader(tmp_path / "set", batch_size=4, rank=rank, world_size=5, equal="repeat")) for rank in range(5)]
    assert [len(rows) for rows in read] == [1] * 5


def test_no_rows(tmp_path: Path) -> None:
    write(tmp_path / "set", 0)
    assert list(Loader(tmp_path / "set", batch_size=4)) == []
    with pytest.raises(UsageError, match="epochs without end"):
        next(iter(Loader(tmp_path / "set", batch_size=4, epochs=None)))


def test_columns_are_read_in_the_order_asked_for(sets: dict[int, str]) -> None:
    loader = Loader(sets[1], batch_size=10, columns=["name", "id"])
    assert loader.columns == ["name", "id"]
    assert list(next(iter(loader))) == ["name", "id"]
    with pytest.raises(UsageError, match='no column "nmae"'):
        Loader(sets[1], batch_size=10, columns=["nmae"])


def test_padding(sets: dict[int, str]) -> None:
    batch = next(iter(Loader(sets[1], batch_size=8, ragged="pad")))
    assert batch["id"].tolist() == list(range(8))
    assert batch["tokens"].tolist() == [[i] * (i % 6) + [0] * (5 - i % 6) for i in range(8)]
    assert batch["words"].tolist() == [[f"w{i}"] * (i % 3) + [""] * (2 - i % 3) for i in range(8)]
    batch = next(iter(Loader(sets[1], batch_size=8, pad_to={"tokens": 7})))
    assert batch["tokens"].shape == (8, 7)
    assert isinstance(batch["words"], Ragged)
    with pytest.raises(DataError, match="expected at most 3 by pad_to") as raised:
        list(Loader(sets[1], batch_size=8, pad_to={"tokens": 3}))
    assert (raised.value.record, raised.value.column) == (4, "tokens")


def test_a_missing_integer_needs_a_value(tmp_path: Path) -> None:
    data = pa.table({"id": [0, 1, 2], "label": pa.array([5, None, 7], pa.int64())})
    write_tfrecord(data, tmp_path / "set")
    with pytest.raises(DataError, match="no value") as raised:
        list(Loader(tmp_path / "set", batch_size=2))
    assert (raised.value.record, raised.value.column) == (1, "label")
    assert raised.value.file is not None and raised.value.file.endswith(".tfrecord")
    assert raised.value.hint is not None and "fill" in raised.value.hint
    (batch,) = Loader(tmp_path / "set", batch_size=4, fill={"label": -1})
    assert batch["label"].tolist() == [5, -1, 7]
    for wrong in [1.5, "x"]:
        with pytest.raises(UsageError, match="fill"):
            Loader(tmp_path / "set", batch_size=4, fill={"label": wrong})


def test_nested_columns(tmp_path: Path) -> None:
    rows = [{"a": i, "b": [i] * (i % 3)} for i in range(9)]
    lists = [[[i] * j for j in range(i % 4)] for i in range(9)]
    structs = [[{"x": i, "y": str(i)}] * (i % 3) for i in range(9)]
    data = pa.table({"id": range(9), "row": rows, "lists": lists, "structs": structs})
    write_tfrecord(data, tmp_path / "set")
    first, second = Loader(tmp_path / "set", batch_size=5)
    assert first["row"]["a"].tolist() == list(range(5))
    assert first["row"]["b"].to_list() == [row["b"] for row in rows[:5]]
    assert second["lists"].to_list() == lists[5:]
    assert second["structs"].values["y"].tolist() == [cell["y"] for row in structs[5:] for cell in row]
    assert second["structs"][2]["x"].tolist() == [7]


def test_other_types(tmp_path: Path) -> None:
    columns = {
        "half": pa.array([0.5, None], pa.float16()),
        "big": pa.array([2**63 - 1, 0], pa.uint64()),
        "day": pa.array([1, None], pa.date32()),
        "hour": pa.array([3_600_000_000, None], pa.time64("us")),
        "took": pa.array([5, None], pa.duration("ms")),
        "city": pa.array(["Oslo", "Kyoto"]).dictionary_encode(),
        "text": pa.array(["a", None], pa.large_string()),
        "pairs": pa.array([[("a", 1), ("b", 2)], []], pa.map_(pa.string(), pa.int16())),
        "fixed": pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2)),
        "codes": pa.array([[b"\x00\xff"], []], pa.list_(pa.binary(2))),
        "matrix": pa.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], pa.list_(pa.list_(pa.int32(), 2), 2)),
        "steps": pa.array([[[1, 2], [3, 4]], []], pa.list_(pa.list_(pa.int32(), 2))),
    }
    write_tfrecord(pa.table(columns), tmp_path / "set")
    (batch,) = Loader(tmp_path / "set", batch_size=5)
    assert batch["half"].dtype == np.float16 and batch["half"][0] == 0.5 and np.isnan(batch["half"][1])
    assert batch["big"].dtype == np.uint64 and batch["big"].tolist() == [2**63 - 1, 0]
    assert batch["day"][0] == np.datetime64("1970-01-02") and np.isnat(batch["day"][1])
    assert batch["hour"][0] == np.timedelta64(1, "h") and np.isnat(batch["hour"][1])
    assert batch["took"][0] == np.timedelta64(5, "ms") and batch["took"].dtype.str == "<m8[ms]"
    assert batch["city"].tolist() == ["Oslo", "Kyoto"]
    assert batch["text"].tolist() == ["a", None]
    assert batch["pairs"].values["key"].tolist() == ["a", "b"] and batch["pairs"].row_splits.tolist() == [0, 2, 2]
    assert batch["pairs"].values["value"].dtype == np.int16
    assert batch["fixed"][0].tolist() == [1.0, 2.0] and np.isnan(batch["fixed"][1]).all()
    assert batch["codes"].to_list() == [[b"\x00\xff"], []]
    assert batch["matrix"].tolist() == columns["matrix"].to_pylist() and batch["matrix"].shape == (2, 2, 2)
    assert batch["steps"].values.tolist() == [[1, 2], [3, 4]] and batch["steps"].row_splits.tolist() == [0, 2, 2]
    # The same through the buffer of a shuffle.
    (shuffled,) = Loader(tmp_path / "set", batch_size=5, shuffle=1)
    assert sorted(shuffled["city"].tolist()) == ["Kyoto", "Oslo"]


def test_a_type_without_a_numpy_form(tmp_path: Path) -> None:
    data = pa.table({"id": [1], "age": pa.array([(1, 2, 3)], pa.month_day_nano_interval())})
    write_tfrecord(data, tmp_path / "set", map={"age": "string"})
    with pytest.raises(UsageError, match='column "age": type Interval') as raised:
        Loader(tmp_path / "set", batch_size=5)
    assert raised.value.hint is not None and "columns=" in raised.value.hint
    assert ids(Loader(tmp_path / "set", batch_size=5, columns=["id"])) == [1]


def test_decimals_are_doubles(tmp_path: Path) -> None:
    data = pa.table({"id": [1], "price": pa.array(["0.1"]).cast(pa.decimal128(5, 2))})
    write_tfrecord(data, tmp_path / "set")
    (batch,) = Loader(tmp_path / "set", batch_size=5)
    assert batch["price"].dtype == np.float64 and batch["price"].tolist() == [0.1]


def test_a_split_is_read_alone(tmp_path: Path) -> None:
    write(tmp_path / "set", 10)
    with pytest.raises(UsageError, match="no splits"):
        Loader(tmp_path / "set", batch_size=2, split="train")
    write_tfrecord(table(10), tmp_path / "two", shard_rows=7)
    path = tmp_path / "two" / "_manifest.json"
    content = json.loads(path.read_text())
    del content["manifest_crc32c"]
    content["splits"] = [{"name": "train", "fraction": 0.7}, {"name": "val", "fraction": 0.3}]
    for shard, name in zip(content["shards"], ["train", "val"]):
        shard["split"] = name
    path.write_text(json.dumps(content))
    assert ids(Loader(tmp_path / "two", batch_size=20, split="train")) == list(range(7))
    assert ids(Loader(tmp_path / "two", batch_size=20, split="val")) == [7, 8, 9]
    with pytest.raises(UsageError, match='no shard of split "test": the manifests list train, val'):
        Loader(tmp_path / "two", batch_size=2, split="test")


def test_a_schema_gives_the_types(sets: dict[int, str]) -> None:
    schema = pa.schema([("id", pa.int32()), ("score", pa.float64()), ("tokens", pa.list_(pa.uint8()))])
    with pytest.raises(DataError, match="does not fit"):
        list(Loader(sets[1], batch_size=500, schema=schema))
    schema = pa.schema([("id", pa.int32()), ("score", pa.float64())])
    batch = next(iter(Loader(sets[1], batch_size=5, schema=schema)))
    assert (batch["id"].dtype, batch["score"].dtype) == (np.int32, np.float64)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"batch_size": 0}, "batch_size is 0, expected at least 1"),
        ({"batch_size": 2.5}, "batch_size is 2.5, expected an integer"),
        ({"rank": 2, "world_size": 2}, "rank is 2, expected 0 to 1"),
        ({"worker": -1}, "worker is -1"),
        ({"equal": "yes"}, 'unknown equal "yes": expected none, truncate or repeat'),
        ({"ragged": "yes"}, 'unknown ragged "yes": expected splits or pad'),
        ({"threads": 0}, "threads is 0"),
        ({"shuffle": True}, "shuffle is True"),
        ({"shuffle": 2**64}, "expected less than"),
        ({"columns": "id"}, "columns is the string"),
        ({"pad_to": {"id": 3}}, "expected a list of scalars"),
        ({"pad_to": {"no": 3}}, "which is not read"),
    ],
)
def test_arguments_are_checked(sets: dict[int, str], options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Loader(sets[1], **{"batch_size": 10, **options})


def test_a_pickled_loader_has_its_position(sets: dict[int, str]) -> None:
    loader = Loader(sets[3], batch_size=100, shuffle=3)
    batches = iter(loader)
    next(batches)
    copy = pickle.loads(pickle.dumps(loader))
    assert copy.state_dict() == loader.state_dict()
    assert digest(copy) == digest(batches)


def test_blocks_of_large_files(tmp_path: Path) -> None:
    # 40 MB in one shard: the manifest lists positions where readers can start.
    rows = 40_000
    blob = pa.array([i.to_bytes(4, "little") * 250 for i in range(rows)], pa.binary())
    data = pa.table({"id": range(rows), "blob": blob})
    for compression in ("none", "gzip", "zlib"):
        out = str(tmp_path / compression)
        manifest = write_tfrecord(data, out, shards=1, compression=compression)
        assert len(manifest["shards"][0].get("offsets", [])) == (0 if compression == "zlib" else 2)
        read: list[int] = []
        for rank in range(5):
            loader = Loader(out, batch_size=1000, shuffle=1, shuffle_buffer=5000, rank=rank, world_size=5)
            for batch in loader:
                assert all(blob[:4] == int(i).to_bytes(4, "little") for i, blob in zip(batch["id"], batch["blob"]))
                read += batch["id"].tolist()
        assert sorted(read) == list(range(rows))
        # The same file without its manifest.
        (file,) = Loader(out, batch_size=1).files
        alone = tmp_path / ("alone-" + compression)
        alone.write_bytes(Path(file).read_bytes())
        loader = Loader(alone, batch_size=1000, columns=["id"], rank=3, world_size=4)
        assert ids(loader) == [row for row in range(rows) if row // 1000 % 4 == 3]
