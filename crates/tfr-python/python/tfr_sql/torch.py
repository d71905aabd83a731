"""TFRecord files for PyTorch."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

import numpy as np
import torch
from torch.utils.data import IterableDataset, get_worker_info

from ._errors import UsageError
from ._loader import Batch, Loader
from ._paths import Paths
from ._ragged import Ragged

__all__ = ["TFRecordDataset"]


class TFRecordDataset(IterableDataset[Any]):
    """Batches of TFRecord files as tensors: a dictionary of a tensor for each column.

    Batches are made here, so use `DataLoader(dataset, batch_size=None, num_workers=...)`. Each worker of the loader
    reads its own part of the rows. The arguments are those of `tfr_sql.Loader`, except for `worker`.

    * Numbers and lists of equal length share the memory of the numpy array.
    * Strings and bytes stay arrays of objects. Dates and times become int64, in the unit of the column.
    * Other lists are dictionaries of "values" and "row_splits". `torch.nested.nested_tensor_from_jagged` takes both.

    `auto_rank=True` takes the rank and the number of ranks from `torch.distributed`. `num_workers` is that of the
    `DataLoader`; it is needed for `len` only, because each worker may end with a smaller batch.

    `state_dict` and `load_state_dict` are those of this process. With workers, use `torchdata.stateful_dataloader`, which
    calls them in each worker.

    >>> from torch.utils.data import DataLoader
    >>> from tfr_sql.torch import TFRecordDataset
    >>> dataset = TFRecordDataset("shards/", batch_size=4, columns=["id"])
    >>> [batch["id"] for batch in DataLoader(dataset, batch_size=None)]
    [tensor([0, 1, 2, 3]), tensor([4, 5])]
    """

    def __init__(self, paths: Paths, *, auto_rank: bool = False, num_workers: int | None = None, **options: Any) -> None:
        super().__init__()
        if "worker" in options:
            raise UsageError("worker is not an argument of TFRecordDataset: it is the worker of the DataLoader")
        if auto_rank:
            if "rank" in options or "world_size" in options:
                raise UsageError("auto_rank=True, and rank or world_size")
            if not torch.distributed.is_initialized():
                raise UsageError(
                    "auto_rank=True, but torch.distributed is not initialized",
                    hint="Call torch.distributed.init_process_group first, or pass rank and world_size.",
                )
            options["rank"] = torch.distributed.get_rank()
            options["world_size"] = torch.distributed.get_world_size()
        self._rank = int(options.get("rank", 0)), int(options.get("world_size", 1))
        self._num_workers = num_workers
        self._loader = Loader(paths, **options)
        self._worker = (0, 1)

    def _in_worker(self) -> Loader:
        """Returns the loader of this worker."""
        info = get_worker_info()
        worker = (0, 1) if info is None else (info.id, info.num_workers)
        if self._num_workers is not None and worker[1] != max(self._num_workers, 1):
            raise UsageError(f"num_workers is {self._num_workers}, but the DataLoader has {worker[1]} workers")
        if worker != self._worker:
            self._worker = worker
            self._loader._set_reader(*self._rank, *worker)
        return self._loader

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_resumed": self._loader._resumed}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A worker starts where this dataset would, not where an iteration in the other process is.
        resumed = state.pop("_resumed")
        self.__dict__.update(state)
        self._loader._resumed = resumed

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(_tensors, self._in_worker())

    def __len__(self) -> int:
        """Returns the number of batches of all workers."""
        return self._loader._len_of_workers(*self._rank, max(self._num_workers or 0, 1))

    def set_epoch(self, epoch: int) -> None:
        """Lets the next iteration begin with this epoch, counted from 0."""
        self._loader.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Returns the position after the batch that was returned last."""
        return self._in_worker().state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Lets the next iteration continue where `state_dict` was called."""
        self._in_worker().load_state_dict(state)


def _tensors(batch: Batch) -> dict[str, Any]:
    return {name: _tensor(column) for name, column in batch.items()}


def _tensor(column: Any) -> Any:
    if isinstance(column, dict):
        return _tensors(column)
    if isinstance(column, Ragged):
        return {"values": _tensor(column.values), "row_splits": torch.from_numpy(column.row_splits)}
    if column.dtype.kind == "O":
        return column
    if column.dtype.kind in "mM":
        column = column.view(np.int64)
    return torch.from_numpy(column)
