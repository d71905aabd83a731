from __future__ import annotations

import copy
import itertools
import multiprocessing
from typing import Any

import numpy as np
import pytest

from conftest import ids
from tfr_sql import Loader, UsageError

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader  # noqa: E402

from tfr_sql.torch import TFRecordDataset  # noqa: E402


def numbers(batches: Any) -> list[int]:
    return [int(i) for batch in batches for i in batch["id"]]


def test_tensors(sets: dict[int, str]) -> None:
    batch = next(iter(TFRecordDataset(sets[1], batch_size=10)))
    assert batch["id"].dtype == torch.int64 and batch["id"].tolist() == list(range(10))
    assert batch["vector"].shape == (10, 3) and batch["flag"].dtype == torch.bool
    assert batch["tokens"]["values"].dtype == torch.int32
    nested = torch.nested.nested_tensor_from_jagged(batch["tokens"]["values"], batch["tokens"]["row_splits"])
    assert nested[3].tolist() == [3, 3, 3]
    assert batch["when"].dtype == torch.int64
    assert isinstance(batch["name"], np.ndarray)


def test_tensors_share_the_memory_of_arrays(sets: dict[int, str]) -> None:
    from tfr_sql.torch import _tensors

    batch: Any = next(iter(Loader(sets[1], batch_size=10)))
    tensors = _tensors(batch)
    assert tensors["vector"].data_ptr() == batch["vector"].ctypes.data
    batch["id"][0] = 77
    assert tensors["id"][0] == 77


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_read_each_row_once(sets: dict[int, str], workers: int, context: str) -> None:
    read: list[int] = []
    for rank in range(2):
        data = TFRecordDataset(
            sets[3], batch_size=32, columns=["id"], shuffle=1, rank=rank, world_size=2, num_workers=workers
        )
        loader = DataLoader(data, batch_size=None, num_workers=workers, multiprocessing_context=context if workers else None)
        batches = list(loader)
        assert len(batches) == len(loader)
        read += numbers(batches)
    assert sorted(read) == list(range(1000))


def test_arguments(sets: dict[int, str]) -> None:
    with pytest.raises(UsageError, match="worker"):
        TFRecordDataset(sets[1], batch_size=10, worker=1)
    with pytest.raises(UsageError, match="not initialized"):
        TFRecordDataset(sets[1], batch_size=10, auto_rank=True)
    data = TFRecordDataset(sets[1], batch_size=10, num_workers=2)
    with pytest.raises(UsageError, match="num_workers is 2"):
        next(iter(data))


def test_the_rank_is_that_of_the_process_group(sets: dict[int, str], tmp_path: Any) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    try:
        assert numbers(TFRecordDataset(sets[1], batch_size=64, auto_rank=True)) == list(range(1000))
        with pytest.raises(UsageError, match="auto_rank"):
            TFRecordDataset(sets[1], batch_size=64, auto_rank=True, rank=0)
    finally:
        torch.distributed.destroy_process_group()


def test_a_dataset_resumes(sets: dict[int, str]) -> None:
    data = TFRecordDataset(sets[3], batch_size=50, shuffle=1)
    batches = iter(data)
    first = [next(batches) for _ in range(4)]
    resumed = TFRecordDataset(sets[3], batch_size=50, shuffle=1)
    resumed.load_state_dict(data.state_dict())
    assert numbers(resumed) == numbers(batches)
    assert len(first) == 4


@pytest.mark.parametrize("workers", [0, 3])
def test_a_stateful_data_loader_resumes(sets: dict[int, str], workers: int) -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader

    def loader() -> Any:
        return stateful(TFRecordDataset(sets[3], batch_size=50, shuffle=1), batch_size=None, num_workers=workers)

    whole = numbers(loader())
    assert sorted(whole) == list(range(1000))
    one = loader()
    batches = iter(one)
    first = numbers([next(batches) for _ in range(7)])
    state = one.state_dict()
    other = loader()
    other.load_state_dict(state)
    assert first + numbers(other) == whole


@pytest.mark.parametrize(
    ("context", "workers", "persistent"),
    [(None, 0, False), ("fork", 1, False), ("fork", 3, False), ("fork", 3, True), ("spawn", 2, False), ("forkserver", 2, True)],
)
def test_each_loop_reads_the_next_epoch(sets: dict[int, str], context: str | None, workers: int, persistent: bool) -> None:
    data = TFRecordDataset(sets[3], batch_size=50, columns=["id"], shuffle=1)
    loader = DataLoader(
        data, batch_size=None, num_workers=workers, multiprocessing_context=context, persistent_workers=persistent
    )
    epochs = [numbers(loader) for _ in range(3)]
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert [sorted(epoch) for epoch in epochs] == [list(range(1000))] * 3
    data.set_epoch(1)
    assert numbers(loader) == epochs[1]
    assert numbers(loader) == epochs[2]


def test_an_epoch_is_not_that_of_the_seed_of_torch(sets: dict[int, str]) -> None:
    loader = DataLoader(TFRecordDataset(sets[3], batch_size=50, shuffle=1), batch_size=None, num_workers=2)
    epochs = []
    for _ in range(3):
        torch.manual_seed(5)
        epochs.append(numbers(loader))
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert [sorted(epoch) for epoch in epochs] == [list(range(1000))] * 3


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("epochs", [1, None])
def test_a_loop_that_is_left_early_is_not_repeated(sets: dict[int, str], workers: int, epochs: int | None) -> None:
    data = TFRecordDataset(sets[3], batch_size=50, columns=["id"], shuffle=1, epochs=epochs)
    loader = DataLoader(data, batch_size=None, num_workers=workers)
    assert numbers(itertools.islice(loader, 5)) != numbers(itertools.islice(loader, 5))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loop_without_end_goes_on_behind_what_it_has_read(sets: dict[int, str], workers: int) -> None:
    def loader() -> Any:
        data = TFRecordDataset(sets[3], batch_size=50, columns=["id"], shuffle=1, epochs=None)
        return data, DataLoader(data, batch_size=None, num_workers=workers, prefetch_factor=1 if workers else None)

    _, steps = loader()
    # 20 batches are an epoch, so these are in the third.
    assert len(list(itertools.islice(steps, 45))) == 45
    following = numbers(itertools.islice(steps, 20))
    data, again = loader()
    data.set_epoch(3)
    assert following == numbers(itertools.islice(again, 20))


def first_of(data: Any, connection: Any) -> None:
    connection.send([numbers(DataLoader(data, batch_size=None, num_workers=workers)) for workers in (2, 0)])


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_with_one_dataset_count_epochs_on_their_own(sets: dict[int, str], method: str) -> None:
    data = TFRecordDataset(sets[3], batch_size=50, columns=["id"], shuffle=1)
    data.set_epoch(4)
    context: Any = multiprocessing.get_context(method)
    found = []
    for _ in range(2):
        receive, send = context.Pipe(duplex=False)
        process = context.Process(target=first_of, args=(data, send))
        process.start()
        send.close()
        found.append(receive.recv())
        process.join()
    assert found[0] == found[1]
    assert found[0][0] == numbers(DataLoader(data, batch_size=None, num_workers=2))


def test_a_copy_counts_epochs_on_its_own(sets: dict[int, str]) -> None:
    data = TFRecordDataset(sets[3], batch_size=50, columns=["id"], shuffle=1)
    numbers(DataLoader(data, batch_size=None, num_workers=1))
    other = copy.deepcopy(data)
    second = numbers(DataLoader(data, batch_size=None, num_workers=1))
    assert numbers(DataLoader(other, batch_size=None, num_workers=1)) == second
    assert numbers(data) != second


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("taken", [7, 20])
def test_after_a_resumed_loop_comes_the_next_epoch(sets: dict[int, str], workers: int, taken: int) -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader

    def loader() -> Any:
        return stateful(TFRecordDataset(sets[3], batch_size=50, shuffle=1), batch_size=None, num_workers=workers)

    whole = loader()
    epochs = [numbers(whole) for _ in range(3)]
    assert len({tuple(epoch) for epoch in epochs}) == 3
    one = loader()
    assert numbers(one) == epochs[0]
    batches = iter(one)
    first = numbers(itertools.islice(batches, taken))
    state = one.state_dict()
    other = loader()
    other.load_state_dict(state)
    assert first + numbers(other) == epochs[1]
    assert numbers(other) == epochs[2]


def test_a_state_between_epochs_is_for_all_workers(sets: dict[int, str]) -> None:
    data = TFRecordDataset(sets[3], batch_size=50, columns=["id"], shuffle=1)
    numbers(data)
    other = TFRecordDataset(sets[3], batch_size=50, columns=["id"], shuffle=1)
    other.load_state_dict(data.state_dict())
    loader = DataLoader(other, batch_size=None, num_workers=2)
    second, third = numbers(loader), numbers(loader)
    assert second != third
    data.set_epoch(1)
    assert second == numbers(DataLoader(data, batch_size=None, num_workers=2))


@pytest.mark.parametrize("workers", [0, 1])
def test_batches_of_batches_are_refused(sets: dict[int, str], workers: int) -> None:
    data = TFRecordDataset(sets[1], batch_size=10, columns=["id"])
    for options in ({}, {"batch_size": 4}):
        with pytest.raises(UsageError, match="batches of batches"):
            next(iter(DataLoader(data, num_workers=workers, **options)))
    joined = DataLoader(data, batch_size=4, num_workers=workers, collate_fn=join)
    assert next(iter(joined)).tolist() == list(range(40))


def join(batches: Any) -> Any:
    return torch.cat([batch["id"] for batch in batches])


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_do_not_change_batches(sets: dict[int, str], context: str) -> None:
    def batches(workers: int, **options: Any) -> list[list[int]]:
        data = TFRecordDataset(sets[3], batch_size=50, columns=["id"], shuffle=1, **options)
        loader = DataLoader(data, batch_size=None, num_workers=workers, multiprocessing_context=context if workers else None)
        return [batch["id"].tolist() for batch in loader]

    for options in ({}, {"epochs": 2}, {"rank": 1, "world_size": 3}):
        expected = batches(0, **options)
        assert batches(3, **options) == expected


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_a_state_within_an_epoch_fits_other_ranks_and_workers(sets: dict[int, str], workers: int) -> None:
    def dataset(rank: int, world: int) -> Any:
        return TFRecordDataset(sets[3], global_batch=60, columns=["id"], shuffle=1, rank=rank, world_size=world)

    whole = [sorted(batch["id"].tolist()) for batch in dataset(0, 1)]
    first = dataset(1, 3)
    loader = DataLoader(first, batch_size=None, num_workers=2)
    assert len(list(itertools.islice(loader, 5))) == 5
    with pytest.raises(UsageError, match="that of the workers") as raised:
        first.state_dict()
    assert raised.value.hint is not None and "state_at" in raised.value.hint
    ranks = []
    for rank in range(4):
        data = dataset(rank, 4)
        data.load_state_dict(first.state_at(0, step=5))
        loader = DataLoader(data, batch_size=None, num_workers=workers)
        ranks.append([batch["id"].tolist() for batch in loader])
        # The next loop reads the next epoch.
        assert sorted(numbers(loader)) != sorted(sum(ranks[-1], []))
    assert [sorted(sum(step, [])) for step in zip(*ranks)] == whole[5:]


def test_a_dataset_used_here_starts_anew_in_workers(sets: dict[int, str]) -> None:
    data = TFRecordDataset(sets[3], batch_size=50)
    next(iter(data))
    for context in ("fork", "spawn"):
        loader = DataLoader(data, batch_size=None, num_workers=2, multiprocessing_context=context)
        assert sorted(numbers(loader)) == list(range(1000))


def test_ids_of_a_loader_and_a_dataset_are_the_same(sets: dict[int, str]) -> None:
    assert numbers(TFRecordDataset(sets[16], batch_size=50, shuffle=4)) == ids(Loader(sets[16], batch_size=50, shuffle=4))
