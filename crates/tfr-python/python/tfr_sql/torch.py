"""TFRecord files for PyTorch."""

from __future__ import annotations

from typing import Any, Dict, Iterator, Mapping

import numpy as np
import torch
from torch.utils.data import IterableDataset, get_worker_info
from torch.utils.data._utils.collate import default_collate_fn_map

from ._epochs import EpochCounter, Worker
from ._errors import UsageError
from ._loader import Batch, Loader
from ._mix import Mix
from ._paths import Paths
from ._ragged import Ragged

__all__ = ["MixDataset", "TFRecordDataset"]


class TFRecordDataset(IterableDataset[Any]):
    """Batches of TFRecord files as tensors: a dictionary of a tensor for each column.

    Batches are made here, so use `DataLoader(dataset, batch_size=None)`; PyTorch's own collation is refused. With
    `num_workers`, the workers of the loader make whole batches in turn, and the `DataLoader` returns the same batches as
    without. The arguments are those of `tfr_sql.Loader`, except for `worker`. `threads` decodes records in this process, at
    a fraction of the cost of workers.

    * Numbers and lists of equal length share the memory of the numpy array.
    * Strings and bytes stay arrays of objects.
    * Dates and times become int64, in the unit of the column. A missing one is -9223372036854775808, the smallest int64,
      since tensors have no NaT. `fill={"when": datetime.date(1970, 1, 1)}` gives it another value.
    * Other lists are dictionaries of "values" and "row_splits". `torch.nested.nested_tensor_from_jagged` takes both.

    Each loop over the `DataLoader` reads the next epoch, with workers too, also if the loop before was left early.
    `set_epoch` says which, before the loop.

    `auto_rank=True` takes the rank and the number of ranks from `torch.distributed`. `num_workers` is that of the
    `DataLoader`, which is checked then.

    `load_state_dict` before a loop lets it continue there, with any number of ranks and workers. `state_dict` is the
    position of this process. It does not see how far its workers are: `state_at(epoch, step)` is the state after so many
    batches of an epoch, or `torchdata.stateful_dataloader` calls `state_dict` in each worker.

    >>> from torch.utils.data import DataLoader
    >>> from tfr_sql.torch import TFRecordDataset
    >>> dataset = TFRecordDataset("shards/", batch_size=4, columns=["id"])
    >>> [batch["id"] for batch in DataLoader(dataset, batch_size=None)]
    [tensor([0, 1, 2, 3]), tensor([4, 5])]
    """

    def __init__(self, paths: Paths, *, auto_rank: bool = False, num_workers: int | None = None, **options: Any) -> None:
        __tracebackhide__ = True
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
        self._epochs = EpochCounter()

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
        loader, worker = self._in_worker(), _worker()
        at = (loader._epoch, loader._step) if loader._resumed else None
        epoch, step = self._epochs.begin(worker, loader._end_of, at)
        if not loader._resumed:
            loader._go_to(epoch, step)
        batches = iter(loader)
        return map(_tensors, batches if loader._epochs else self._endless(batches, worker, epoch))

    def _endless(self, batches: Iterator[Batch], worker: Worker | None, begun: int) -> Iterator[Batch]:
        for batch in batches:
            # The position is that after one more step of each worker, which may be in the next epoch.
            is_in_next = self._loader._step < self._worker[1]
            epoch = self._loader._epoch - 1 if is_in_next else self._loader._epoch
            if epoch > begun:
                self._epochs.has_begun(worker, epoch)
                begun = epoch
            yield batch

    def __len__(self) -> int:
        """Returns the number of batches of all workers."""
        return self._loader._len_of_rank()

    def set_epoch(self, epoch: int) -> None:
        """Lets the next iteration begin with this epoch, counted from 0: with workers too, if it is called before the loop."""
        self._loader.set_epoch(epoch)
        self._share_position()

    def _share_position(self) -> None:
        """Lets all workers of the next iteration begin with the position of the loader."""
        if get_worker_info() is None:
            self._epochs.set(self._loader._epoch, self._loader._step)
            self._loader._resumed = False

    def state_dict(self) -> dict[str, Any]:
        """Returns the position after the batch that was returned last, by this process."""
        loader = self._in_worker()
        if get_worker_info() is None and self._epochs.has_workers():
            raise UsageError(
                "the position is that of the workers, which this process does not see",
                hint="Use state_at(epoch, step) with the number of batches that the loop has returned, or StatefulDataLoader.",
            )
        return loader.state_dict()

    def state_at(self, epoch: int, step: int = 0) -> dict[str, Any]:
        """Returns the state before a step of an epoch, both counted from 0: after as many batches of the epoch."""
        return self._loader.state_at(epoch, step)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Lets the next iteration continue where `state_dict` was called, with any number of ranks and workers."""
        self._in_worker().load_state_dict(state)
        self._share_position()


class MixDataset(IterableDataset[Any]):
    """The batches of a `tfr_sql.Mix` as tensors, as those of `TFRecordDataset`, for `DataLoader(dataset, batch_size=None)`.

    A mix has no end, so a loop takes as many batches as it needs, and the next loop continues. With `num_workers`, each
    worker of the `DataLoader` mixes its own part of the batches of each set: the shares stay, the order is another one.
    Only `persistent_workers=True` or `StatefulDataLoader` let a second loop continue then; without them it is refused.

    `state_dict` and `load_state_dict` are those of this process. With workers, use `torchdata.stateful_dataloader`, which
    calls them in each worker.
    """

    def __init__(self, mix: Mix) -> None:
        super().__init__()
        self._mix = mix
        self._worker = (0, 1)
        self._loops = EpochCounter()
        self._continues = False

    def _in_worker(self) -> Mix:
        """Returns the mix of this worker."""
        info = get_worker_info()
        worker = (0, 1) if info is None else (info.id, info.num_workers)
        if worker != self._worker:
            self._worker = worker
            self._mix._set_worker(*worker)
        return self._mix

    def __iter__(self) -> Iterator[dict[str, Any]]:
        mix, worker = self._in_worker(), _worker()
        if worker is not None:
            loop, _ = self._loops.begin(worker, lambda loop: loop + 1)
            if loop > 0 and not self._continues:
                raise UsageError(
                    "another loop with workers would begin the mix again",
                    hint="Use persistent_workers=True, one loop, or StatefulDataLoader.",
                )
            self._continues = True
        return map(_tensors, mix)

    def state_dict(self) -> dict[str, Any]:
        """Returns the position after the batch that was returned last, by this process."""
        return self._in_worker().state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues where `state_dict` was called."""
        self._in_worker().load_state_dict(state)
        self._continues = get_worker_info() is not None


class _Tensors(Dict[str, Any]):
    """A batch, which PyTorch does not collate with others."""


def _refuse_collation(batch: Any, *, collate_fn_map: Any = None) -> Any:
    del batch, collate_fn_map
    raise UsageError(
        "the DataLoader would make batches of batches: batch_size is an argument of TFRecordDataset",
        hint="Use DataLoader(dataset, batch_size=None), or pass a collate_fn.",
    )


default_collate_fn_map[_Tensors] = _refuse_collation


def _worker() -> Worker | None:
    """Returns the worker that this process is."""
    info = get_worker_info()
    return None if info is None else Worker(info.id, info.seed - info.id)


def _tensors(batch: Batch) -> _Tensors:
    return _Tensors((name, _tensor(column)) for name, column in batch.items())


def _tensor(column: Any) -> Any:
    if isinstance(column, dict):
        return {name: _tensor(values) for name, values in column.items()}
    if isinstance(column, Ragged):
        return {"values": _tensor(column.values), "row_splits": torch.from_numpy(column.row_splits)}
    if column.dtype.kind == "O":
        return column
    if column.dtype.kind in "mM":
        column = column.view(np.int64)
    return torch.from_numpy(column)
