"""Datasets of Hugging Face: their splits, and the names of their labels."""

from __future__ import annotations

import re
from typing import Any, Iterator, Mapping

from ._errors import UsageError
from ._require import require

#: The rows of a batch.
_ROWS = 8192

#: The name of a split that may be the beginning of the names of files.
_SPLIT = re.compile(r"[^\W_]\w*")


def is_dataset(data: Any) -> bool:
    """Whether this is a Dataset or an IterableDataset."""
    return type(data).__module__.partition(".")[0] == "datasets" and hasattr(data, "with_format")


def is_dataset_dict(data: Any) -> bool:
    """Whether this is a DatasetDict or an IterableDatasetDict."""
    return isinstance(data, Mapping) and type(data).__module__.partition(".")[0] == "datasets"


def batches_of(dataset: Any) -> Iterator[Any]:
    """Yields the rows of a dataset, as tables of pyarrow."""
    if hasattr(dataset, "__len__") and len(dataset) == 0:
        yield dataset.features.arrow_schema.empty_table()
        return
    yield from dataset.with_format("arrow").iter(batch_size=_ROWS)


def labels_of(data: Any) -> dict[str, list[str]]:
    """Returns the names of the labels of each column of the type ClassLabel."""
    if is_dataset_dict(data):
        data = next(iter(data.values()), None)
    features = getattr(data, "features", None) or {}
    return {column: list(feature.names) for column, feature in features.items() if type(feature).__name__ == "ClassLabel"}


class Rows:
    """The rows of a dataset with the names of some labels, or of all datasets of a DatasetDict with a column of their names.

    `labels` are the names of the labels of the columns that are to have them.
    """

    def __init__(self, data: Any, labels: Mapping[str, list[str]], name: str) -> None:
        __tracebackhide__ = True
        self._name = name
        self._labels = labels
        self._splits: dict[str | None, Any] = dict(data) if is_dataset_dict(data) else {None: data}
        #: The column of the names of the splits. None if there are none.
        self.split_column: str | None = None
        if is_dataset_dict(data):
            self._check_splits()
            self.split_column = self._free_name()
        counts = [len(split) if hasattr(split, "__len__") else None for split in self._splits.values()]
        #: The number of rows, if it is known.
        self.num_rows = None if None in counts else sum(count for count in counts if count is not None)

    def _check_splits(self) -> None:
        __tracebackhide__ = True
        if not self._splits:
            raise UsageError(f"{self._name}: a DatasetDict without splits")
        for split, rows in self._splits.items():
            if not isinstance(split, str) or not _SPLIT.fullmatch(split):
                hint = "Rename it: letters, digits and underscores, with a letter or a digit first."
                raise UsageError(f"{self._name}: {split!r} cannot name a split of files", hint=hint)
            if hasattr(rows, "__len__") and len(rows) == 0:
                raise UsageError(f"{self._name}: the split {split!r} has no rows", hint="Leave it out.")
        first, *others = self._splits
        for split in others:
            one, other = labels_of(self._splits[first]), labels_of(self._splits[split])
            column = next((column for column in one.keys() & other.keys() if one[column] != other[column]), None)
            if column is not None:
                raise UsageError(
                    f"{self._name}: the labels of column {column!r} have other names in the split {split!r} than in {first!r}",
                    hint="Give the column the same ClassLabel in all splits, with cast_column.",
                )

    def _free_name(self) -> str:
        """Returns a name that is no column."""
        taken = {str(column).lower() for rows in self._splits.values() for column in getattr(rows, "column_names", None) or []}
        name = "split"
        while name in taken:
            name += "_"
        return name

    def __iter__(self) -> Iterator[Any]:
        pyarrow = require("pyarrow", "writing a dataset of Hugging Face")
        schema = None
        for split, rows in self._splits.items():
            number = 0
            for table in batches_of(rows):
                number += table.num_rows
                for column, names in self._labels.items():
                    table = self._with_names(table, column, names, split)
                if schema is None:
                    schema = table.schema.remove_metadata()
                table = self._checked(table, schema, split)
                if self.split_column is not None:
                    table = table.append_column(self.split_column, pyarrow.array([split] * table.num_rows, pyarrow.string()))
                yield table
            if split is not None and number == 0:
                raise UsageError(f"{self._name}: the split {split!r} has no rows", hint="Leave it out.")

    def _checked(self, table: Any, schema: Any, split: str | None) -> Any:
        """Returns the table with the columns of the first one, in their order."""
        if split is None or table.schema.remove_metadata() == schema:
            return table
        if set(table.column_names) == set(schema.names):
            table = table.select(schema.names)
        if table.schema.remove_metadata() != schema:
            first = next(iter(self._splits))
            columns = {field.name: field.type for field in schema}
            found = {field.name: field.type for field in table.schema}
            other = next(name for name in [*columns, *found] if columns.get(name) != found.get(name))
            raise UsageError(
                f"{self._name}: column {other!r} is {columns.get(other, 'not')} in the split {first!r}, "
                f"and {found.get(other, 'not')} in {split!r}",
                hint="Give all splits the same columns, or write each to a directory of its own.",
            )
        return table

    def _with_names(self, table: Any, column: str, names: list[str], split: str | None) -> Any:
        """Returns the table with the names of a column's labels in place of their numbers. A negative number is no label."""
        pyarrow = require("pyarrow", "writing a dataset of Hugging Face")
        numbers = table.column(column).combine_chunks()
        is_label = pyarrow.compute.greater_equal(numbers, 0)
        numbers = pyarrow.compute.if_else(is_label, numbers, pyarrow.scalar(None, numbers.type))
        most = pyarrow.compute.max(numbers).as_py()
        if most is not None and most >= len(names):
            of_split = "" if split is None else f" of the split {split!r}"
            raise UsageError(f"{self._name}: column {column!r}{of_split}: the label {most} has no name: there are {len(names)}")
        values = pyarrow.DictionaryArray.from_arrays(numbers, pyarrow.array(names, pyarrow.string()))
        return table.set_column(table.column_names.index(column), column, values)
