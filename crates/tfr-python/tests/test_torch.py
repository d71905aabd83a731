from __future__ import annotations

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


def test_a_state_is_not_used_by_another_worker(sets: dict[int, str]) -> None:
    data = TFRecordDataset(sets[3], batch_size=50)
    next(iter(data))
    data.load_state_dict(data.state_dict())
    with pytest.raises(UsageError, match="the state is of reader 0 of 1"):
        list(DataLoader(data, batch_size=None, num_workers=2))


def test_a_dataset_used_here_starts_anew_in_workers(sets: dict[int, str]) -> None:
    data = TFRecordDataset(sets[3], batch_size=50)
    next(iter(data))
    for context in ("fork", "spawn"):
        loader = DataLoader(data, batch_size=None, num_workers=2, multiprocessing_context=context)
        assert sorted(numbers(loader)) == list(range(1000))


def test_ids_of_a_loader_and_a_dataset_are_the_same(sets: dict[int, str]) -> None:
    assert numbers(TFRecordDataset(sets[16], batch_size=50, shuffle=4)) == ids(Loader(sets[16], batch_size=50, shuffle=4))
