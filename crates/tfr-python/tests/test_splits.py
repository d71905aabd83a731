"""Splits: exact numbers of rows, those of a column, and those of a DatasetDict; and the order of categories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tfr_sql as tfr
from conftest import ids


def by_split(out: Path, column: str = "n") -> dict[str, list[Any]]:
    """The values in each split that the manifest lists."""
    splits = [split["name"] for split in tfr.manifest(out)["splits"]]
    return {split: tfr.read_tfrecord(out, split=split, threads=1).arrow()[column].to_pylist() for split in splits}


def test_integers_are_exact_numbers_of_rows(tmp_path: Path) -> None:
    rows = pa.table({"id": range(1000)})
    tfr.write_tfrecord(rows, tmp_path / "a", split={"train": 800, "test": 200}, shuffle=7)
    tfr.write_tfrecord(rows.take(list(range(999, -1, -1))), tmp_path / "b", split={"train": "rest", "test": 200}, shuffle=7, shards=3)
    train = ids(tfr.Loader(tmp_path / "a", batch_size=100, split="train"))
    test = ids(tfr.Loader(tmp_path / "a", batch_size=100, split="test"))
    assert (len(train), len(test), sorted(train + test)) == (800, 200, list(range(1000)))
    # Rows and seed alone decide, not the order of the input.
    assert (train, test) == tuple(ids(tfr.Loader(tmp_path / "b", batch_size=100, split=split)) for split in ("train", "test"))
    assert train != sorted(train)
    for options, problem in [
        ({"split": {"train": 800, "test": 100}, "shuffle": 7}, "expected 900 rows, found 1000"),
        ({"split": {"train": "rest", "test": 1000}, "shuffle": 7}, "expected more than 1000 rows, found 1000"),
        ({"split": {"train": 800, "test": 200}}, "not shuffled"),
    ]:
        with pytest.raises(tfr.TfrError, match=problem):
            tfr.write_tfrecord(rows, tmp_path / "c", **options)  # type: ignore[arg-type]
        assert not (tmp_path / "c").exists()
    assert tfr.write_tfrecord(rows, tmp_path / "d", split={"all": 1})["splits"] == [{"name": "all", "fraction": 1.0}]


def test_a_dataset_dict_becomes_splits(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    label = datasets.Features({"n": datasets.Value("int64"), "label": datasets.ClassLabel(names=["dog", "cat"])})

    def rows(numbers: range) -> Any:
        return datasets.Dataset.from_dict({"n": list(numbers), "label": [n % 3 - 1 for n in numbers]}, features=label)

    data = datasets.DatasetDict({"train": rows(range(20_000)), "test": rows(range(20_000, 20_005))})
    manifest = tfr.write_tfrecord(data, tmp_path / "set")
    assert by_split(tmp_path / "set") == {"test": list(range(20_000, 20_005)), "train": list(range(20_000))}
    assert manifest["split_column"] == "split" and manifest.rows == 20_005
    assert by_split(tmp_path / "set", "label")["test"] == [n % 3 - 1 for n in range(20_000, 20_005)]

    streams = datasets.IterableDatasetDict({name: split.to_iterable_dataset() for name, split in data.items()})
    tfr.write_tfrecord(streams, tmp_path / "names", map={"label": "index"})
    names = by_split(tmp_path / "names", "label")["test"]
    assert names == [[None, "dog", "cat"][n % 3] for n in range(20_000, 20_005)]
    shards = [path for path in tfr.manifest(tmp_path / "names").files if "/test-" in path]
    assert in_records(shards, "label") == [[None, 0, 1][n % 3] for n in range(20_000, 20_005)]
    tfr.write_tfrecord(data["test"], tmp_path / "one", map={"label": "index"})
    assert tfr.read_tfrecord(tmp_path / "one", threads=1).arrow()["label"].to_pylist() == names

    other = rows(range(3)).cast_column("label", datasets.ClassLabel(names=["cat", "dog"]))
    for broken, options, problem in [
        (datasets.DatasetDict({**data, "empty": rows(range(0))}), {}, "the split 'empty' has no rows"),
        (datasets.DatasetDict({**data, "a-b": data["test"]}), {}, "'a-b' cannot name a split"),
        (datasets.DatasetDict({**data, "other": other}), {}, "the labels of column 'label' have other names"),
        (datasets.DatasetDict({**data, "more": datasets.Dataset.from_dict({"n": ["a"]})}), {}, "column 'n' is int64 in the split"),
        (data, {"split": {"a": 1}}, "split= makes others"),
    ]:
        with pytest.raises(tfr.UsageError, match=problem):
            tfr.write_tfrecord(broken, tmp_path / "refused", **options)
        assert not (tmp_path / "refused").exists()
    with pytest.raises(tfr.UsageError, match="expected one table, found DatasetDict"):
        tfr.sql("SELECT * FROM d", tables={"d": data}).arrow()


def in_records(paths: Any, column: str) -> list[Any]:
    return [row.get(column, [None])[0] for row in tfr.head(paths, 100)]


def ranks(data: Any, out: Path, **options: Any) -> list[int]:
    tfr.write_tfrecord(data, out, map={"c": "index"}, mode="overwrite", **options)
    assert tfr.read_tfrecord(out, threads=1).arrow()["c"].to_pylist() == ["mid", "low", "high", "low"]
    return in_records(out, "c")


def test_ranks_follow_the_order_of_categories(tmp_path: Path) -> None:
    names = ["low", "mid", "high", 'n"o\\ne\x7f \u00fc\n']
    values = ["mid", "low", "high", "low"]
    codes = pa.array([1, 0, 2, 0], pa.int8())
    ordered = pa.DictionaryArray.from_arrays(codes, pa.array(names), ordered=True)
    assert ranks(pa.table({"c": ordered}), tmp_path / "set") == [1, 0, 2, 0]
    # Without an order of their own, values are sorted.
    unordered = pa.DictionaryArray.from_arrays(codes, pa.array(names))
    assert ranks(pa.table({"c": unordered}), tmp_path / "set") == ranks(pa.table({"c": values}), tmp_path / "set") == [2, 1, 0, 1]
    chunks = pa.chunked_array([ordered, pa.DictionaryArray.from_arrays(codes, pa.array(names[::-1]), ordered=True)])
    with pytest.raises(tfr.UsageError, match="differs between its chunks"):
        ranks(pa.table({"c": chunks}), tmp_path / "set")
    (tmp_path / "map.toml").write_text("")
    with pytest.raises(tfr.UsageError, match="there is a map_file="):
        ranks(pa.table({"c": ordered}), tmp_path / "set", map_file=tmp_path / "map.toml")
    for texts in ["c: index", ["C: index, null=absent"], '"c": index']:
        tfr.write_tfrecord(pa.table({"c": ordered}), tmp_path / "set", map=texts, mode="overwrite")
        assert in_records(tmp_path / "set", "c") == [1, 0, 2, 0]


def test_ranks_are_the_codes_of_pandas_and_polars(tmp_path: Path) -> None:
    names, values = ["low", "mid", "high", "none"], ["mid", "low", "high", "low"]
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"c": pandas.Categorical(values, names, ordered=True)})
    assert ranks(frame, tmp_path / "set") == frame["c"].cat.codes.tolist() == [1, 0, 2, 0]
    polars = pytest.importorskip("polars")
    enum = polars.DataFrame({"c": polars.Series(values, dtype=polars.Enum(names))})
    assert ranks(enum, tmp_path / "set") == ranks(enum.lazy(), tmp_path / "set") == [1, 0, 2, 0]
