"""Batches as a tf.data.Dataset, if TensorFlow is installed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from conftest import write
from tfr_sql import Loader, UsageError, write_tfrecord

tensorflow = pytest.importorskip("tensorflow")

from tfr_sql.tf import dataset  # noqa: E402


def test_tensors_have_the_values_of_the_loader(sets: dict[int, str]) -> None:
    made = dataset(sets[3], batch_size=64, shuffle=3)
    assert int(made.cardinality()) == len(Loader(sets[3], batch_size=64)) == 16
    assert made.element_spec["vector"].shape.as_list() == [None, 3]
    expected = Loader(sets[3], batch_size=64, shuffle=3)
    for _ in range(2):
        # The second iteration is the next epoch.
        for found, want in zip(made, expected, strict=True):
            assert found["id"].numpy().tolist() == want["id"].tolist()
            assert np.array_equal(found["score"].numpy(), want["score"], equal_nan=True)
            assert found["name"].numpy().tolist() == [(name or "").encode() for name in want["name"]]
            assert found["image"].numpy().tolist() == want["image"].tolist()
            assert found["when"].numpy().tolist() == want["when"].view(np.int64).tolist()
            assert found["tokens"].to_list() == want["tokens"].to_list()
            assert found["words"].to_list() == [[word.encode() for word in row] for row in want["words"].to_list()]
            assert found["vector"].numpy().tolist() == want["vector"].tolist()


def test_padded_and_nested_lists(tmp_path: Path) -> None:
    rows = pa.table({"a": [[1], [1, 2], []], "b": [[1], [], [2]], "c": [[[1, 2]], [], [[3], [4, 5]]]})
    write_tfrecord(rows, tmp_path / "set")
    made = dataset(tmp_path / "set", batch_size=2, columns=["a", "b"], ragged="pad", pad_to={"b": 2})
    assert [made.element_spec[name].shape.as_list() for name in "ab"] == [[None, None], [None, 2]]
    assert [batch["a"].numpy().tolist() for batch in made] == [[[1, 0], [1, 2]], [[]]]
    nested = dataset(tmp_path / "set", batch_size=3, columns=["c"])
    assert [batch["c"].to_list() for batch in nested] == [[[[1, 2]], [], [[3], [4, 5]]]]


def test_a_model_is_trained(tmp_path: Path) -> None:
    x = np.linspace(-1, 1, 512, dtype=np.float32)
    write_tfrecord(pa.table({"x": x, "y": 3 * x + 1}), tmp_path / "set", shards=2)
    batches = dataset(tmp_path / "set", batch_size=32, shuffle=1).map(lambda batch: (batch["x"][:, None], batch["y"]))
    model = tensorflow.keras.Sequential([tensorflow.keras.layers.Dense(1)])
    model.compile(optimizer=tensorflow.keras.optimizers.SGD(0.1), loss="mse")
    model.fit(batches, epochs=10, verbose=0)
    weight, bias = (float(np.ravel(values)[0]) for values in model.get_weights())
    assert abs(weight - 3) < 0.05 and abs(bias - 1) < 0.05


def test_a_set_without_rows_has_no_types(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no batch"):
        dataset(write(tmp_path / "set", 0), batch_size=1)
