"""Python's own data as tables: dictionaries of arrays, structured arrays, rows as dictionaries; and what is refused."""

from __future__ import annotations

import builtins
import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tfr_sql as tfr
from conftest import digest, table


def found(data: Any, out: Path, **options: Any) -> dict[str, list[Any]]:
    """Writes `data`, and returns the rows of the set."""
    tfr.write_tfrecord(data, out, mode="overwrite", **options)
    rows: dict[str, list[Any]] = tfr.read_tfrecord(out, threads=1).arrow().to_pydict()
    return rows


def test_a_dictionary_of_arrays_is_a_table(tmp_path: Path) -> None:
    data = {
        "id": np.arange(3, dtype=np.int32),
        "big endian": np.arange(3, dtype=">i8"),
        "flag": [True, False, True],
        "text": np.array(["a", None, "c"], object),
        "fixed": np.array(["x", "yy", ""]),
        "when": np.array(["2026-01-01", "NaT", "2026-01-03"], "datetime64[us]"),
        "image": np.arange(12, dtype=np.uint8).reshape(3, 2, 2),
        "masked": np.ma.MaskedArray([1, 2, 3], [False, True, False]),
        "range": range(3),
        "part": {"x": np.arange(3), "y": ["p", "q", "r"]},
    }
    rows = found(data, tmp_path / "set")
    assert rows["id"] == rows["big endian"] == rows["range"] == [0, 1, 2] and rows["flag"] == [True, False, True]
    assert rows["text"] == ["a", None, "c"] and rows["fixed"] == ["x", "yy", ""] and rows["masked"] == [1, None, 3]
    assert rows["when"] == [datetime.datetime(2026, 1, 1), None, datetime.datetime(2026, 1, 3)]
    assert rows["image"] == data["image"].tolist()  # type: ignore[attr-defined]
    assert rows["part"] == [{"x": 0, "y": "p"}, {"x": 1, "y": "q"}, {"x": 2, "y": "r"}]
    joined = tfr.sql("SELECT sum(x) AS x FROM d", tables={"d": {"x": np.arange(20_000)}})
    assert joined.arrow().to_pydict() == {"x": [199_990_000]}


def test_a_batch_of_a_loader_can_be_written_back(tmp_path: Path) -> None:
    tfr.write_tfrecord(table(100), tmp_path / "set")
    nested = pa.table({"id": range(100), "deep": [[[i], [], [i, i]][: i % 4] for i in range(100)]})
    tfr.write_tfrecord(nested, tmp_path / "nested")
    for name in ("set", "nested"):
        (batch,) = tfr.Loader(tmp_path / name, batch_size=100)
        tfr.write_tfrecord(batch, tmp_path / "again", mode="overwrite")
        assert digest(tfr.Loader(tmp_path / "again", batch_size=100)) == digest([batch])


def test_a_structured_array_is_a_table(tmp_path: Path) -> None:
    kind = [("id", "<i8"), ("x", ">f4"), ("name", "U5"), ("vector", "f4", (2,)), ("at", [("row", "i4"), ("column", "i4")])]
    rows = np.array([(1, 0.5, "a", (1, 2), (3, 4)), (2, 1.5, "b", (5, 6), (7, 8))], kind)
    expected = {
        "id": [1, 2],
        "x": [0.5, 1.5],
        "name": ["a", "b"],
        "vector": [[1, 2], [5, 6]],
        "at": [{"row": 3, "column": 4}, {"row": 7, "column": 8}],
    }
    assert found(rows, tmp_path / "set") == found(rows.view(np.recarray), tmp_path / "set") == expected


def test_dictionaries_are_rows(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"id": 1, "name": "a", "tokens": [1, 2], "image": np.arange(4).reshape(2, 2)},
        {"id": 2, "tokens": np.array([], np.int64), "image": np.arange(4).reshape(2, 2), "late": True},
    ]
    expected = {
        "id": [1, 2],
        "name": ["a", None],
        "tokens": [[1, 2], []],
        "image": [[[0, 1], [2, 3]]] * 2,
        "late": [None, True],
    }
    assert found(rows, tmp_path / "set") == found((row for row in rows), tmp_path / "set") == expected
    # The records of a set, by a generator and over several batches.
    tfr.write_tfrecord(table(20_000), tmp_path / "source")
    columns = ["id", "score", "tokens", "words", "vector"]
    source = tfr.RecordSource(tmp_path / "source", columns=columns)
    copied = found((row for row in source), tmp_path / "copy")
    assert copied["id"] == list(range(20_000)) and copied["words"] == table(20_000)["words"].to_pylist()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"a": np.arange(3), "b": [1, 2]}, "the columns have different numbers of rows: a has 3, b has 2"),
        ({"a": 3}, "column 'a': expected an array or a list, found int"),
        ({"a": "text"}, "column 'a': expected an array or a list, found str"),
        ({"a": np.array(3)}, "column 'a': expected an array with a value for each row"),
        ({"a": [1, "x"]}, "column 'a': no Arrow array"),
        ({"a": np.array([1, "x"], object)}, "column 'a': no Arrow array"),
        ({1: [1]}, "the column 1 is named by int"),
        ({}, "a dictionary without columns"),
        (np.zeros((2, 3)), "expected Arrow data, found ndarray of numpy"),
        (
            iter([{"x": np.arange(2), "s": {"y": tfr.Ragged(np.arange(2), np.array([0, 2]))}}]),
            "the dictionaries have arrays of one length",
        ),
        ([{"a": 1}, {"a": "x"}], "column 'a': rows 0 to 1"),
        ([{"a": 1}, 5], "row 1 is a int, expected a dictionary like the first"),
        (iter([{"x": np.arange(3), "y": np.arange(3)}]), "the dictionaries have arrays of one length"),
        ([{"x": tfr.Ragged(np.arange(2), np.array([0, 2])), "s": {"y": np.arange(1)}}], "the dictionaries have arrays of one length"),
        (pa.array([1, 2]), "expected a table, found Int64Array of pyarrow"),
        ({"train": pa.table({"a": [1]}), "test": pa.table({"a": [2]})}, "expected one table, found dict of 2: train, test"),
    ],
)
def test_other_data_is_refused(data: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(tfr.UsageError) as info:
        tfr.write_tfrecord(data, tmp_path / "set")
    assert f"data: {message}" in str(info.value)
    assert list(tmp_path.iterdir()) == []


def test_the_first_rows_of_an_iterator_determine_the_columns(tmp_path: Path) -> None:
    first: list[dict[str, Any]] = [{"a": 1}] * 8192
    for last, message in [
        ({"a": 1.5}, "column 'a': rows 8,192 to 8,192 have the type double, expected int64 .*truncated"),
        ({"a": "1"}, "column 'a': rows 8,192 to 8,192 have the type string, expected int64"),
        ({"b": 1}, "row 8192 has the column 'b'"),
    ]:
        with pytest.raises(tfr.UsageError, match=message) as info:
            tfr.write_tfrecord(iter([*first, last]), tmp_path / "set")
        assert "Pass a list of rows" in str(info.value.hint) and not (tmp_path / "set").exists()
    assert found(iter([*first, {"a": 2.0}, {"a": None}]), tmp_path / "set")["a"][-2:] == [2, None]
    with pytest.warns(tfr.LossWarning):
        assert found([*first, {"a": 1.5}], tmp_path / "set")["a"][-2:] == [1, 1.5]


def test_columns_that_are_no_arrow_data_are_named(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    for series in [pandas.Series([1, 2]), pandas.Series(["a"])]:
        with pytest.raises(tfr.UsageError, match="data: expected a table, found Series of pandas") as info:
            tfr.write_tfrecord(series, tmp_path / "set")
        assert "to_frame()" in str(info.value.hint)
        with pytest.raises(tfr.UsageError, match="data: expected a table, found Series of pandas"):
            tfr.start_write(tmp_path / "job", pa.schema({"a": pa.int64()})).stage(0, series)
    mixed = pandas.DataFrame({"good": [1, 2], "mixed": [1, "x"]})
    with pytest.raises(tfr.UsageError, match="data: column 'mixed': cannot be read as Arrow data: .*'x'"):
        tfr.write_tfrecord(mixed, tmp_path / "set")


def test_types_of_polars_that_arrow_lacks_are_named(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    wide = polars.DataFrame({"good": [1], "wide": polars.Series([1], dtype=polars.Int128)})
    with pytest.raises(tfr.UsageError, match="data: column 'wide': cannot be read as Arrow data"):
        tfr.write_tfrecord(wide, tmp_path / "set")


def test_schemas_are_checked() -> None:
    for call in [lambda: tfr.start_write("x", {"a": 1}), lambda: tfr.Loader("x", batch_size=1, schema=3)]:  # type: ignore[arg-type]
        with pytest.raises((tfr.UsageError, tfr.MissingError)) as info:
            call()
        assert "schema is a " in str(info.value) and "pyarrow.Schema" in str(info.value.hint)


def test_libraries_that_are_missing_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tfr.write_tfrecord(pa.table({"n": [1]}), tmp_path / "set")
    batch = next(tfr.read_tfrecord(tmp_path / "set").batches())
    query = tfr.sql("SELECT 1 AS n")
    imported = builtins.__import__
    absent = {"numpy", "pyarrow", "pandas", "polars"}

    def refuse(name: str, *arguments: Any) -> Any:
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return imported(name, *arguments)

    for name in absent:
        monkeypatch.delitem(__import__("sys").modules, name, raising=False)
    monkeypatch.setattr("tfr_sql._require.import_module", refuse)
    for call, library in [
        (batch.to_numpy, "numpy"),
        (lambda: tfr.RecordSource(tmp_path / "set"), "numpy"),
        (query.arrow, "pyarrow"),
        (lambda: iter(query), "pyarrow"),
        (query.to_pandas, "pandas"),
        (query.pl, "polars"),
        (lambda: tfr.write_tfrecord({"a": [1]}, tmp_path / "other"), "pyarrow"),
    ]:
        with pytest.raises(ImportError, match=f"needs {library}") as info:
            call()  # type: ignore[operator]
        assert isinstance(info.value, tfr.DependencyError) and info.value.hint == f"Install it: pip install {library}"
