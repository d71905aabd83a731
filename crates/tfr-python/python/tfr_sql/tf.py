"""TFRecord files for tf.data."""

from __future__ import annotations

import copy
from typing import Any, Iterator

import numpy as np
import tensorflow as tf  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ._errors import UsageError
from ._loader import Loader
from ._paths import Paths
from ._ragged import Ragged

__all__ = ["dataset"]


def dataset(paths: Paths, **options: Any) -> Any:
    """Returns the batches of TFRecord files as a `tf.data.Dataset`: a dictionary of a tensor for each column.

    The arguments are those of `tfr_sql.Loader`. Each iteration reads the next epoch.

    * Strings and bytes are `tf.string`; a missing one is empty. Dates and times are int64, in the unit of the column;
      a missing one is the smallest int64 unless `fill` has a value for it.
    * Lists of any length are a `tf.RaggedTensor`; lists of structs a dictionary of them.

    >>> from tfr_sql.tf import dataset
    >>> [batch["id"].numpy() for batch in dataset("shards/", batch_size=4, columns=["id"])]
    [array([0, 1, 2, 3]), array([4, 5])]
    """
    loader = Loader(paths, **options)
    first = next(iter(copy.copy(loader)), None)
    if first is None:
        raise UsageError("no batch, which would show the types of the tensors")
    # The width of a padded list is that of the batch.
    is_padded = options.get("ragged") == "pad"
    widths = options.get("pad_to") or {}
    signature = {name: _spec(_tensor(column), is_padded and name not in widths) for name, column in first.items()}

    def batches() -> Iterator[dict[str, Any]]:
        for batch in loader:
            yield {name: _tensor(column) for name, column in batch.items()}

    made = tf.data.Dataset.from_generator(batches, output_signature=signature)
    return made if options.get("epochs", 1) is None else made.apply(tf.data.experimental.assert_cardinality(len(loader)))


def _tensor(column: Any) -> Any:
    if isinstance(column, dict):
        return {name: _tensor(values) for name, values in column.items()}
    if isinstance(column, Ragged):
        return _ragged(_tensor(column.values), column.row_splits)
    if column.dtype.kind == "O":
        column = np.array(["" if value is None else value for value in column.flat], object).reshape(column.shape)
        return tf.constant(column, tf.string)
    if column.dtype.kind in "mM":
        column = column.view(np.int64)
    return tf.constant(column)


def _ragged(values: Any, row_splits: Any) -> Any:
    if isinstance(values, dict):
        return {name: _ragged(column, row_splits) for name, column in values.items()}
    return tf.RaggedTensor.from_row_splits(values, row_splits, validate=False)


def _spec(tensor: Any, is_padded: bool) -> Any:
    if isinstance(tensor, dict):
        return {name: _spec(values, is_padded) for name, values in tensor.items()}
    if isinstance(tensor, tf.RaggedTensor):
        inner = tensor.flat_values.shape[1:]
        shape = [None] * (tensor.ragged_rank + 1) + list(inner)
        return tf.RaggedTensorSpec(shape, tensor.dtype, tensor.ragged_rank, tensor.row_splits.dtype)
    inner = [None] * (tensor.shape.rank - 1) if is_padded else list(tensor.shape[1:])
    return tf.TensorSpec([None, *inner], tensor.dtype)
