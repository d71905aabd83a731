from __future__ import annotations

import copy
import itertools
import json
import pickle
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from conftest import table
from tfr_sql import Loader, Mix, Ragged, UsageError, write_tfrecord
from tfr_sql._mix import _Turns


def numbers(directory: Path, name: str, start: int, rows: int) -> str:
    """A set of consecutive ids."""
    path = str(directory / name)
    write_tfrecord(pa.table({"id": range(start, start + rows)}), path, shard_rows=40)
    return path


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    directory = tmp_path_factory.mktemp("mix")
    return numbers(directory, "web", 0, 100), numbers(directory, "books", 1000, 30)


def loaders(two: tuple[str, str], **options: Any) -> dict[str, Loader]:
    return {name: Loader(path, batch_size=size, **options) for name, path, size in zip(["web", "books"], two, [16, 7])}


def mixed(mix: Mix, batches: int) -> list[list[int]]:
    return [batch["id"].tolist() for batch in itertools.islice(mix, batches)]


@pytest.mark.parametrize("remembered", [0, 1 << 16])
def test_mix_gives_each_set_its_share_at_any_time(remembered: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfr_sql._mix._MAX_REPEATED", remembered)
    choices = random.Random(3)
    for sets in range(1, 8):
        for _ in range(20):
            weights = [Fraction(choices.randint(0, 50), choices.choice([1, 3, 10])) for _ in range(sets)]
            weights[0] += 1
            turns, total = _Turns(weights), sum(weights)
            counts = [0] * sets
            number = 0
            for taken in [1] * 100 + [7] * 50:
                for turn in turns.next(taken):
                    counts[turn] += 1
                    number += 1
                    for count, weight in zip(counts, weights):
                        assert abs(count - number * weight / total) < 1
                assert counts == turns.counts


def test_mix_by_row_has_rows_of_all_sets_in_their_order(two: tuple[str, str]) -> None:
    mix = Mix(loaders(two), weights={"web": 0.75, "books": 0.25}, batch_size=32, source="set")
    assert mix.weights == {"web": 0.75, "books": 0.25}
    of_set: dict[str, list[int]] = {"web": [], "books": []}
    for batch in itertools.islice(mix, 20):
        assert list(batch) == ["id", "set"]
        assert len(batch["id"]) == 32 and (batch["set"] == "web").sum() == 24
        for name, row in zip(batch["set"], batch["id"].tolist()):
            of_set[name].append(row)
    for name, rows, loader in [("web", 480, loaders(two)["web"]), ("books", 160, loaders(two)["books"])]:
        epochs = [row for _ in range(6) for batch in loader for row in batch["id"].tolist()]
        assert of_set[name] == epochs[:rows]


def test_mix_by_batch_gives_batches_of_one_set(two: tuple[str, str]) -> None:
    mix = Mix(loaders(two, shuffle=7), weights={"web": 2, "books": 1}, source="set")
    batches = list(itertools.islice(mix, 30))
    assert [len(set(batch["set"])) for batch in batches] == [1] * 30
    names = [batch["set"][0] for batch in batches]
    assert (names.count("web"), names.count("books")) == (20, 10)
    loader = loaders(two, shuffle=7)["web"]
    expected = [batch["id"].tolist() for _ in range(3) for batch in loader]
    assert [batch["id"].tolist() for batch in batches if batch["set"][0] == "web"] == expected[:20]


@pytest.mark.parametrize("batch_size", [None, 1, 20])
@pytest.mark.parametrize("shuffle", [None, 7])
def test_mix_resumes_after_any_batch(two: tuple[str, str], batch_size: int | None, shuffle: int | None) -> None:
    def new() -> Mix:
        return Mix(loaders(two, shuffle=shuffle), weights={"web": 0.6, "books": 0.4}, batch_size=batch_size)

    expected = mixed(new(), 41)
    mix = new()
    for number in range(40):
        state = json.loads(json.dumps(mix.state_dict()))
        resumed = new()
        resumed.load_state_dict(state)
        assert mixed(resumed, 41 - number) == expected[number:]
        assert mixed(pickle.loads(pickle.dumps(mix)), 2) == expected[number : number + 2]
        assert mixed(copy.copy(mix), 1) == expected[number : number + 1]
        assert mixed(mix, 1) == expected[number : number + 1]


def test_mix_may_have_other_weights_from_a_state_on(two: tuple[str, str]) -> None:
    mix = Mix(loaders(two), weights={"web": 1, "books": 1}, batch_size=10)
    before = [row for batch in mixed(mix, 3) for row in batch]
    changed = Mix(loaders(two), weights={"web": 1, "books": 0}, batch_size=10)
    changed.load_state_dict(mix.state_dict())
    after = [row for batch in mixed(changed, 2) for row in batch]
    assert sorted(before) == [*range(15), *range(1000, 1015)]
    assert after == list(range(15, 35))
    third = Mix(loaders(two), weights={"web": 1, "books": 4}, batch_size=10)
    third.load_state_dict(changed.state_dict())
    rows = mixed(third, 1)[0]
    assert [row for row in rows if row < 1000] == [35, 36]
    assert [row for row in rows if row >= 1000] == list(range(1015, 1023))


def test_mix_joins_columns_of_any_kind(tmp_path: Path) -> None:
    rows = table(60)
    nested = pa.array([[[n] * (n % 3), []][: n % 3] for n in range(60)], pa.list_(pa.list_(pa.int64())))
    pairs = pa.array([{"a": n, "b": [str(n)] * (n % 4)} for n in range(60)])
    rows = rows.append_column("nested", nested).append_column("pair", pairs)
    paths = {}
    for name, part in [("first", rows.slice(0, 40)), ("second", rows.slice(40))]:
        paths[name] = str(tmp_path / name)
        write_tfrecord(part, paths[name], shards=2)
    sets = {name: Loader(path, batch_size=8) for name, path in paths.items()}
    expected = {row["id"]: row for name in paths for batch in Loader(paths[name], batch_size=60) for row in by_row(batch)}
    for batch in itertools.islice(Mix(sets, weights={"first": 2, "second": 1}, batch_size=9), 6):
        for row in by_row(batch):
            assert repr(row) == repr(expected[row["id"]])


def by_row(batch: dict[str, Any]) -> list[dict[str, Any]]:
    def value(column: Any, row: int) -> Any:
        if isinstance(column, dict):
            return {name: value(part, row) for name, part in column.items()}
        found = column[row]
        return found.to_list() if isinstance(found, Ragged) else np.asarray(found).tolist()

    return [{name: value(column, row) for name, column in batch.items()} for row in range(len(batch["id"]))]


def test_mix_refuses_what_is_no_mix(two: tuple[str, str], tmp_path: Path) -> None:
    both = {"web": 1, "books": 1}
    web, books = loaders(two).values()
    for weights, message in [
        ({"web": 1}, "weights are of ['web'], expected one of each loader: ['books', 'web']"),
        ({"web": 1, "books": -1}, "the weight of 'books' is -1, expected at least 0"),
        ({"web": 1, "books": float("nan")}, "the weight of 'books' is nan, expected a number"),
        ({"web": 0, "books": 0}, "all weights are 0, expected one that is not"),
    ]:
        with pytest.raises(UsageError) as caught:
            Mix(loaders(two), weights=weights)
        assert str(caught.value) == message
    with pytest.raises(UsageError, match="source is 'id', which is a column of the loader 'web'"):
        Mix(loaders(two), weights=both, source="id")
    write_tfrecord(pa.table({"id": pa.array(range(10), pa.int32())}), str(tmp_path / "narrow"))
    narrow = Loader(str(tmp_path / "narrow"), batch_size=4)
    with pytest.raises(UsageError, match="the column 'id' is an array of int32 and an array of int64 in different sets"):
        next(Mix({"web": web, "narrow": narrow}, weights={"web": 1, "narrow": 1}, batch_size=4))
    write_tfrecord(pa.table({"x": range(10)}), str(tmp_path / "other"))
    other = Loader(str(tmp_path / "other"), batch_size=4)
    with pytest.raises(UsageError, match="the columns of 'other' are"):
        Mix({"web": web, "other": other}, weights={"web": 1, "other": 1}, batch_size=4)
    assert len(list(itertools.islice(Mix({"web": web, "other": other}, weights={"web": 1, "other": 1}), 2))) == 2
    dropped = Loader(two[1], batch_size=64, drop_remainder=True)
    with pytest.raises(UsageError, match="the loader 'books' has no rows"):
        Mix({"books": dropped}, weights={"books": 1})
    del books
    state = Mix(loaders(two), weights=both, batch_size=4).state_dict()
    with pytest.raises(UsageError, match="batch_size was 4, now it is 8"):
        Mix(loaders(two), weights=both, batch_size=8).load_state_dict(state)
    with pytest.raises(UsageError, match="the state is of the sets"):
        Mix({"web": web}, weights={"web": 1}, batch_size=4).load_state_dict(state)
    for state in [{}, {**state, "version": 2}, None]:
        with pytest.raises(UsageError):
            Mix(loaders(two), weights=both, batch_size=4).load_state_dict(state)  # type: ignore[arg-type]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("batch_size", [None, 10])
def test_mix_for_torch_resumes(two: tuple[str, str], workers: int, batch_size: int | None) -> None:
    torch = pytest.importorskip("torch")
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
    from tfr_sql.torch import MixDataset

    def new() -> Any:
        mix = Mix(loaders(two, shuffle=7), weights={"web": 2, "books": 1}, batch_size=batch_size, source="set")
        return stateful(MixDataset(mix), batch_size=None, num_workers=workers)

    batches = list(itertools.islice(new(), 30))
    assert all(batch["id"].dtype == torch.int64 for batch in batches)
    names = [name for batch in batches for name in (batch["set"] if batch_size else batch["set"][:1])]
    assert names.count("web") == 2 * names.count("books")
    loader = new()
    before = [batch["id"].tolist() for batch in itertools.islice(loader, 11)]
    state = loader.state_dict()
    resumed = new()
    resumed.load_state_dict(state)
    after = [batch["id"].tolist() for batch in itertools.islice(resumed, 19)]
    assert before + after == [batch["id"].tolist() for batch in batches]


def test_mix_for_grain_resumes(two: tuple[str, str]) -> None:
    pytest.importorskip("grain")
    from tfr_sql.jax import MixIterDataset

    data = MixIterDataset(Mix(loaders(two, shuffle=7), weights={"web": 2, "books": 1}, batch_size=10))
    batches: Any = iter(data)
    before = [next(batches)["id"].tolist() for _ in range(7)]
    state = json.loads(json.dumps(batches.get_state()))
    after = [next(batches)["id"].tolist() for _ in range(5)]
    other: Any = iter(data)
    assert [next(other)["id"].tolist() for _ in range(3)] == before[:3]
    other.set_state(state)
    assert [next(other)["id"].tolist() for _ in range(5)] == after


def test_mix_states_fit_only_the_same_batches(two: tuple[str, str]) -> None:
    weights = {"web": 3, "books": 1}

    def new(batch_size: int | None = 10, **options: Any) -> Mix:
        return Mix(loaders(two, **options), weights=weights, batch_size=batch_size)

    mix = new(shuffle=7, world_size=2)
    next(mix)
    state = mix.state_dict()
    for other, message in [
        (new(shuffle=8, world_size=2), "shuffle was 7, now it is 8"),
        (new(shuffle=7), "the state has a global batch of 32, this loader one of 16"),
        (new(shuffle=7, world_size=2, num_workers=2), "of 2 ranks with 1 workers, here are 2 with 2"),
    ]:
        before = other.state_dict()
        with pytest.raises(UsageError) as caught:
            other.load_state_dict(state)
        assert message in str(caught.value)
        assert other.state_dict() == before
    with pytest.raises(UsageError, match="the mix is within a batch of 'web'"):
        mix._set_worker(0, 2)
    # Whole batches fit other workers.
    whole = new(None)
    next(whole)
    workers = new(None, num_workers=2)
    workers.load_state_dict(whole.state_dict())
    # The same ratio is the same turns.
    written = Mix(loaders(two, shuffle=7, world_size=2), weights={"web": 0.75, "books": 0.25}, batch_size=10)
    written.load_state_dict(state)
    assert mixed(written, 3) == mixed(mix, 3)


def test_mix_has_loaders_of_its_own(two: tuple[str, str]) -> None:
    loader = Loader(two[0], batch_size=16)
    next(iter(loader))
    mix = Mix({"one": loader, "again": loader}, weights={"one": 1, "again": 1}, batch_size=8)
    assert mixed(mix, 1) == [[16, 16, 17, 17, 18, 18, 19, 19]]
    assert loader.state_dict()["step"] == 1


def test_mix_that_fails_has_read_nothing(two: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    mix = Mix(loaders(two), weights={"web": 1, "books": 1}, batch_size=10)
    next(mix)
    before = mix.state_dict()
    expected = mixed(copy.copy(mix), 2)
    rows = mix._sets["books"]
    with monkeypatch.context() as patched:
        patched.setattr(rows, "take", lambda count: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            next(mix)
    assert mix.state_dict() == before
    assert mixed(mix, 2) == expected


def test_mix_does_not_join_text_and_bytes(tmp_path: Path) -> None:
    for name, values in [("text", ["a", "b"]), ("bytes", [b"a", b"b"])]:
        write_tfrecord(pa.table({"x": values}), tmp_path / name)
    sets = {name: Loader(tmp_path / name, batch_size=2) for name in ("text", "bytes")}
    with pytest.raises(UsageError, match="the column 'x' is an array of bytes and an array of str in different sets"):
        next(Mix(sets, weights={"text": 1, "bytes": 1}, batch_size=2))
    lists = pa.table({"x": [[1], [1, 2, 3]]})
    write_tfrecord(lists, tmp_path / "lists", shard_rows=1)
    padded = Loader(tmp_path / "lists", batch_size=1, ragged="pad")
    with pytest.raises(UsageError, match="pad_to"):
        next(Mix({"lists": padded}, weights={"lists": 1}, batch_size=2))


@pytest.mark.parametrize("persistent", [False, True])
def test_mix_in_workers_is_not_begun_again(two: tuple[str, str], persistent: bool) -> None:
    torch = pytest.importorskip("torch")
    from tfr_sql.torch import MixDataset

    mix = Mix(loaders(two), weights={"web": 2, "books": 1})
    loader = torch.utils.data.DataLoader(MixDataset(mix), batch_size=None, num_workers=2, persistent_workers=persistent)
    assert len(list(itertools.islice(loader, 6))) == 6
    if persistent:
        assert len(list(itertools.islice(loader, 6))) == 6
    else:
        with pytest.raises(UsageError, match="would begin the mix again"):
            next(iter(loader))
