"""The steps of an epoch are the same for every number of ranks and workers, also when the number changes on the way."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import random
from pathlib import Path
from typing import Any, Iterator

import pyarrow as pa
import pytest

from conftest import digest, ids
from tfr_sql import Loader, UsageError, write_tfrecord

ROWS = 2507
BATCH = 240
WORLDS = [1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 16]
STEPS = 11

#: Some of the numbers of ranks do not divide the number of lanes, which is 5.
OPTIONS: list[dict[str, Any]] = [
    {},
    {"shuffle": 3, "shuffle_buffer": 3 * BATCH},
    {"shuffle": 4, "threads": 2},
    {"shuffle": 5, "shuffle_buffer": 1, "drop_remainder": True},
]


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The same rows of 2 kB in files of several kinds."""
    root = tmp_path_factory.mktemp("elastic")
    rows = pa.table({"id": range(ROWS), "blob": [random.Random(i).randbytes(2100) for i in range(ROWS)]})
    for name, options in [("one", {"shards": 1}), ("many", {"shards": 9}), ("gzip", {"shards": 10, "compression": "gzip"})]:
        write_tfrecord(rows, root / name, **options)  # type: ignore[arg-type]
    return [str(root / name) for name in ("one", "many", "gzip")]


def loaders(path: str, world: int, workers: int, **options: Any) -> list[list[Loader]]:
    """Returns the loaders of the workers of each rank."""
    count = max(workers, 1)

    def loader(rank: int, worker: int) -> Loader:
        return Loader(
            path, global_batch=BATCH, columns=["id"], epochs=2,
            rank=rank, world_size=world, worker=worker, num_workers=count, **options,
        )  # fmt: skip

    return [[loader(rank, worker) for worker in range(count)] for rank in range(world)]


def steps_of(ranks: list[list[Loader]]) -> Iterator[list[int]]:
    """Yields the rows of each step, from the worker of each rank whose turn it is."""
    readers = [[iter(worker) for worker in rank] for rank in ranks]
    step = 0
    while True:
        batches = [next(rank[step % len(rank)], None) for rank in readers]
        if batches[0] is None:
            assert batches == [None] * len(ranks)
            return
        assert len({len(batch["id"]) for batch in batches if batch}) <= 2
        yield sorted(ids([batch for batch in batches if batch]))
        step += 1


@functools.lru_cache(maxsize=None)
def uninterrupted(path: str, options: int) -> list[list[int]]:
    return list(steps_of(loaders(path, 1, 0, **OPTIONS[options])))


def run(path: str, schedule: random.Random, options: dict[str, Any], whole: list[list[int]]) -> None:
    """Reads two epochs with up to four kills, and other numbers of ranks and workers after each."""
    per_epoch = len(whole) // 2
    state: dict[str, Any] | None = None
    done = 0
    assert Loader(path, batch_size=BATCH, **options).state_dict()["order"]["lanes"] in (5, None)
    while True:
        world, workers = schedule.choice(WORLDS), schedule.randrange(5)
        ranks = loaders(path, world, workers, **options)
        if state is not None:
            for worker in sum(ranks, []):
                worker.load_state_dict(state)
        begun, until = done, schedule.randrange(done, len(whole) + 8)
        for step in steps_of(ranks):
            assert step == whole[done], (options, world, workers, done)
            done += 1
            if done == until:
                break
        if done == len(whole):
            return
        assert done == until or begun == until
        one = schedule.choice(ranks)
        if (done - begun) % len(one) == 0:
            states = [worker.state_dict() for worker in one]
            assert all(other == states[0] for other in states)
            state = states[0]
        else:
            # Within a round of the workers, the program counts.
            state = one[0].state_at(done // per_epoch, done % per_epoch)
        text = json.dumps(state)
        assert len(text) < 1024
        state = json.loads(text)


@pytest.mark.parametrize("number", range(100))
def test_elastic_steps_survive_random_kills(paths: list[str], number: int) -> None:
    schedule = random.Random(number)
    path, options = schedule.choice(paths), schedule.choice(OPTIONS)
    whole = uninterrupted(path, OPTIONS.index(options))
    dropped = "drop_remainder" in options
    assert len(whole) == 2 * (STEPS - dropped)
    for epoch in (whole[: len(whole) // 2], whole[len(whole) // 2 :]):
        rows = sum(epoch, [])
        assert len(set(rows)) == len(rows) == (ROWS // BATCH * BATCH if dropped else ROWS)
    run(path, schedule, options, whole)


@pytest.mark.parametrize(
    ("world", "nearest"), [(7, "6 or 8"), (9, "8 or 10"), (11, "10 or 12"), (13, "12 or 15"), (14, "12 or 15"), (500, "240")]
)
def test_elastic_world_that_does_not_divide_is_refused(paths: list[str], world: int, nearest: str) -> None:
    with pytest.raises(UsageError) as raised:
        Loader(paths[0], global_batch=BATCH, rank=1, world_size=world)
    assert str(raised.value).startswith(f"global_batch is 240, which {world} ranks do not divide")
    assert raised.value.hint == f"Use {nearest} ranks, or another global_batch."


def test_elastic_batch_is_given_once(paths: list[str]) -> None:
    for sizes in ({}, {"batch_size": 60, "global_batch": BATCH}):
        with pytest.raises(UsageError, match="expected one of them"):
            Loader(paths[0], **sizes)
    ranks = [{"rank": rank, "world_size": 4, "shuffle": 1} for rank in range(4)]
    by_rank = [digest(Loader(paths[1], batch_size=60, **rank)) for rank in ranks]
    assert by_rank == [digest(Loader(paths[1], global_batch=BATCH, **rank)) for rank in ranks]


def within(path: str, **options: Any) -> dict[str, Any]:
    loader = Loader(path, **options)
    next(iter(loader))
    return loader.state_dict()


def test_elastic_state_of_another_global_batch_is_refused(paths: list[str]) -> None:
    state = within(paths[0], batch_size=60, world_size=4)
    with pytest.raises(UsageError, match="a global batch of 240, this loader one of 180") as raised:
        Loader(paths[0], batch_size=60, world_size=3).load_state_dict(state)
    assert raised.value.hint == "Pass global_batch=240, which is batch_size=80 of 3 ranks."
    with pytest.raises(UsageError, match="7 ranks do not divide 240") as raised:
        Loader(paths[0], batch_size=60, world_size=7).load_state_dict(state)
    assert raised.value.hint == "Use 6 or 8 ranks, and global_batch=240."
    Loader(paths[0], batch_size=80, world_size=3).load_state_dict(state)


def version_1(path: str, readers: int, shuffle: int | None) -> dict[str, Any]:
    """A state of the first version after two batches, as tfr-sql 0.2 made it."""
    data = Loader(path, batch_size=50).state_dict()["data"]
    order = {"batch_size": 50, "shuffle": shuffle, "window": None if shuffle is None else 65500, "drop_remainder": False}
    return {
        "version": 1,
        "epoch": 3,
        "step": 2,
        "data": data,
        "order": {**order, "equal": "none", "reader": 0, "readers": readers},
    }


def test_states_of_version_1(paths: list[str]) -> None:
    loader = Loader(paths[0], batch_size=50, columns=["id"])
    loader.load_state_dict(version_1(paths[0], 1, None))
    assert ids(loader) == list(range(100, ROWS))
    assert loader.state_dict()["epoch"] == 4
    for readers, shuffle, problem in [(2, None, "of several readers"), (1, 7, "with a shuffle")]:
        state = version_1(paths[0], readers, shuffle)
        loader = Loader(paths[0], batch_size=50, shuffle=shuffle)
        with pytest.raises(UsageError, match=f"has version 1 and is within an epoch {problem}") as raised:
            loader.load_state_dict(state)
        assert raised.value.hint is not None and "set_epoch" in raised.value.hint
        # Between epochs, the number of the epoch is all.
        loader.load_state_dict({**state, "step": 0})
        assert loader.state_dict()["epoch"] == 3


@pytest.mark.parametrize("equal", ["truncate", "repeat"])
@pytest.mark.parametrize("shuffle", [None, 5])
def test_elastic_equal_ranks_have_equal_steps(paths: list[str], equal: Any, shuffle: int | None) -> None:
    whole = list(steps_of(loaders(paths[1], 1, 0, shuffle=shuffle)))[: STEPS - 1]
    for world in (4, 6, 16):
        ranks = [
            Loader(paths[1], global_batch=BATCH, columns=["id"], shuffle=shuffle, rank=rank, world_size=world, equal=equal)
            for rank in range(world)
        ]
        batches = [[batch["id"].tolist() for batch in rank] for rank in ranks]
        assert {tuple(map(len, rank)) for rank in batches} == {tuple(map(len, batches[0]))}
        assert [sorted(sum(step, [])) for step in zip(*batches)][: STEPS - 1] == whole
        rest = ROWS % BATCH
        rest += -rest % world if equal == "repeat" else -(rest % world)
        last = sum((rank[-1] for rank in batches), [])
        assert len(last) == rest and len(set(last)) == rest
        read = sum(sum(batches, []), [])
        assert len(set(read)) == min(ROWS, len(read))
        assert all(loader.num_rows == len(read) // world for loader in ranks)


def test_elastic_damage_concerns_the_rank_that_has_the_record(tmp_path: Path, paths: list[str]) -> None:
    (source,) = Loader(paths[0], batch_size=1).files
    file = bytearray(Path(source).read_bytes())
    # In record 10.
    file[len(file) * 10 // ROWS + 1500] ^= 1
    (tmp_path / "a.tfrecord").write_bytes(file)
    for rank in range(4):
        loader = Loader(tmp_path / "a.tfrecord", batch_size=8, columns=["id"], rank=rank, world_size=4)
        if rank == 1:
            with pytest.raises(Exception, match="record 10 at byte"):
                list(loader)
        else:
            assert len(ids(loader)) == loader.num_rows


def open_files(suffix: str) -> list[str]:
    found = []
    for link in Path("/proc/self/fd").iterdir():
        # Another thread may close it meanwhile.
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(link))
    return [path for path in found if path.endswith(suffix)]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are seen in /proc")
def test_elastic_rank_opens_few_files(tmp_path: Path) -> None:
    # 12 files of 1 MiB are 12 lanes, of which each of 4 ranks has 3.
    rows = pa.table({"id": range(3072), "blob": [random.Random(i).randbytes(4200) for i in range(3072)]})
    write_tfrecord(rows, tmp_path / "set", shard_rows=256)
    opened, read = 0, []
    for rank in range(4):
        loader = Loader(tmp_path / "set", global_batch=BATCH, shuffle=2, shuffle_buffer=BATCH, rank=rank, world_size=4)
        assert loader.state_dict()["order"]["lanes"] == 12
        for batch in loader:
            opened = max(opened, len(open_files(".tfrecord")))
            read.append(batch)
    # A lane that goes on to the next file may have two.
    assert 1 <= opened <= 6
    assert sorted(ids(read)) == list(range(3072))


@pytest.mark.parametrize("equal", ["none", "truncate", "repeat"])
@pytest.mark.parametrize("rows", [101, 103, 100])
def test_states_at_the_end_of_an_epoch_lose_no_step(tmp_path: Path, equal: Any, rows: int) -> None:
    write_tfrecord(pa.table({"id": range(rows)}), tmp_path / "set", shards=2)

    def loaders(world: int) -> list[Loader]:
        return [
            Loader(tmp_path / "set", global_batch=10, epochs=2, shuffle=3, rank=rank, world_size=world, equal=equal)
            for rank in range(world)
        ]

    def steps(world: int, state: Any = None) -> list[list[int]]:
        batches = []
        for loader in loaders(world):
            if state is not None:
                loader.load_state_dict(state)
            batches.append([(loader.state_dict()["epoch"], loader.state_dict()["step"], ids([batch])) for batch in loader])
        found: dict[Any, list[int]] = {}
        for rank in batches:
            for epoch, step, part in rank:
                found.setdefault((epoch, step), []).extend(part)
        return [sorted(part) for _, part in sorted(found.items())]

    for world in (1, 2, 5):
        expected = steps(world)
        # The last rank has rows in each step.
        last = loaders(world)[-1]
        states = [last.state_dict() for _ in last]
        for number, state in enumerate(states, 1):
            assert steps(world, state) == expected[number:], (world, number)
        # Other ranks continue with the first step that they have not read; only a last step that is no rank's is left out.
        for other in (1, 2, 5):
            whole = steps(other)
            for number, state in enumerate(states, 1):
                if state["step"] <= rows // 10:
                    done = state["epoch"] * (len(whole) // 2) + state["step"]
                    assert steps(other, state) == whole[done:], (world, other, number)


def test_state_at_counts_within_an_epoch(sets: dict[int, str]) -> None:
    loader = Loader(sets[3], batch_size=100)
    assert loader.state_at(0, 10)["step"] == 10
    with pytest.raises(UsageError, match="step is 11, an epoch has 10 steps"):
        loader.state_at(0, 11)
