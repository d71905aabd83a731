"""TFRecord files for JAX, by grain."""

from __future__ import annotations

import copy
from typing import Any

import grain  # type: ignore[import-untyped]

from ._errors import UsageError
from ._loader import Batch, Loader
from ._mix import Mix
from ._paths import Paths
from ._records import RecordSource

__all__ = ["MixIterDataset", "TFRecordIterDataset", "TFRecordSource"]


class TFRecordIterDataset(grain.IterDataset[Batch]):  # type: ignore[misc]
    """Batches of TFRecord files as a dataset of grain. Elements are dictionaries of numpy arrays.

    The arguments are those of `tfr_sql.Loader`, except for `worker` and `num_workers`: the processes of `mp_prefetch` make
    whole batches in turn.

    >>> from tfr_sql.jax import TFRecordIterDataset
    >>> [batch["id"] for batch in TFRecordIterDataset("shards/", batch_size=4, columns=["id"])]
    [array([0, 1, 2, 3]), array([4, 5])]
    """

    def __init__(self, paths: Paths, **options: Any) -> None:
        super().__init__()
        for name in ("worker", "num_workers"):
            if name in options:
                raise UsageError(f"{name} is not an argument of TFRecordIterDataset: it is that of mp_prefetch")
        self._rank = int(options.get("rank", 0)), int(options.get("world_size", 1))
        self._loader = Loader(paths, **options)

    def __iter__(self) -> grain.DatasetIterator[Batch]:
        return _Iterator(copy.copy(self._loader))

    def set_slice(self, sl: slice, sequential_slice: bool = False) -> None:
        """Restricts the dataset to one of the processes of `mp_prefetch`."""
        del sequential_slice
        self._loader._set_reader(*self._rank, sl.start or 0, sl.step or 1)


class MixIterDataset(grain.IterDataset[Batch]):  # type: ignore[misc]
    """The batches of a `tfr_sql.Mix` as a dataset of grain, without end.

    With `mp_prefetch`, each process mixes its own part of the batches of each set: the shares stay, the order is another one.
    """

    def __init__(self, mix: Mix) -> None:
        super().__init__()
        self._mix = mix

    def __iter__(self) -> grain.DatasetIterator[Batch]:
        return _Iterator(copy.copy(self._mix))

    def set_slice(self, sl: slice, sequential_slice: bool = False) -> None:
        """Restricts the dataset to one of the processes of `mp_prefetch`."""
        del sequential_slice
        self._mix._set_worker(sl.start or 0, sl.step or 1)


class _Iterator(grain.DatasetIterator[Batch]):  # type: ignore[misc]
    def __init__(self, loader: Loader | Mix) -> None:
        super().__init__()
        self._loader = loader
        self._batches = iter(loader)

    def __next__(self) -> Batch:
        return next(self._batches)

    def get_state(self) -> dict[str, Any]:
        return self._loader.state_dict()

    def set_state(self, state: dict[str, Any]) -> None:
        self._loader.load_state_dict(state)
        self._batches = iter(self._loader)


class TFRecordSource(RecordSource):
    """Records by number, as a data source of grain: `grain.MapDataset.source(TFRecordSource(paths))`."""
