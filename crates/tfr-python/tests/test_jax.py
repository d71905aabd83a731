from __future__ import annotations

import json
from typing import Any

import pytest

from conftest import digest, ids
from tfr_sql import Loader, UsageError

grain = pytest.importorskip("grain")

from tfr_sql.jax import TFRecordIterDataset, TFRecordSource  # noqa: E402


def test_an_iter_dataset_has_the_batches_of_a_loader(sets: dict[int, str]) -> None:
    data: Any = TFRecordIterDataset(sets[3], batch_size=50, shuffle=1)
    assert digest(data) == digest(Loader(sets[3], batch_size=50, shuffle=1))
    sizes = list(data.map(lambda batch: len(batch["id"])))
    assert sizes == [50] * 20


def test_an_iter_dataset_resumes(sets: dict[int, str]) -> None:
    data: Any = TFRecordIterDataset(sets[3], batch_size=50, shuffle=1)
    batches = iter(data)
    for _ in range(7):
        next(batches)
    state = json.loads(json.dumps(batches.get_state()))
    rest = digest(batches)
    other = iter(data)
    next(other)
    other.set_state(state)
    assert digest(other) == rest


def test_slices_read_each_row_once(sets: dict[int, str]) -> None:
    read = []
    for worker in range(3):
        data = TFRecordIterDataset(sets[16], batch_size=50, shuffle=1)
        data.set_slice(slice(worker, None, 3))
        read += ids(data)
    assert sorted(read) == list(range(1000))
    with pytest.raises(UsageError, match="mp_prefetch"):
        TFRecordIterDataset(sets[16], batch_size=50, num_workers=2)


def test_a_source_in_a_pipeline(sets: dict[int, str]) -> None:
    source = TFRecordSource(sets[3], columns=["id", "vector"])
    data = grain.MapDataset.source(source).shuffle(seed=1).map(lambda row: row["id"]).batch(100)
    assert sorted(int(i) for batch in data for i in batch) == list(range(1000))
