"""Values for rows that have none: scalars of numpy, dates and times."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tfr_sql as tfr

UTC = dt.timezone.utc

COLUMNS: dict[str, tuple[Any, list[tuple[Any, Any]]]] = {
    "int": (pa.int16(), [(np.int64(3), 3), (np.uint8(3), 3)]),
    "flag": (pa.bool_(), [(np.bool_(True), True)]),
    "float": (pa.float32(), [(np.float32(0.1), np.float32(0.1)), (np.float64(0.5), 0.5)]),
    "text": (pa.string(), [(np.str_("a"), "a")]),
    "bytes": (pa.binary(), [(np.bytes_(b"a"), b"a")]),
    "day": (
        pa.date32(),
        [
            (dt.date(2026, 1, 2), "2026-01-02"),
            (np.datetime64("2026-01-02"), "2026-01-02"),
            (dt.datetime(2026, 1, 2), "2026-01-02"),
            (dt.date(1960, 1, 2), "1960-01-02"),
        ],
    ),
    "when": (
        pa.timestamp("us"),
        [
            (dt.datetime(2026, 1, 2, 3, 4, 5, 6), "2026-01-02T03:04:05.000006"),
            (dt.date(2026, 1, 2), "2026-01-02"),
            (np.datetime64("2026-01-02T03:04", "m"), "2026-01-02T03:04"),
        ],
    ),
    "zoned": (
        pa.timestamp("ms", "Europe/Berlin"),
        [(dt.datetime(2026, 1, 2, 3, tzinfo=dt.timezone(dt.timedelta(hours=2))), "2026-01-02T01:00")],
    ),
    "time": (pa.time64("us"), [(dt.time(1, 2, 3, 4), np.timedelta64(3_723_000_004, "us"))]),
    "took": (pa.duration("ms"), [(dt.timedelta(seconds=2), np.timedelta64(2, "s")), (np.timedelta64(2, "s"), np.timedelta64(2, "s"))]),
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("fill") / "set"
    tfr.write_tfrecord(pa.table({name: pa.array([None], kind) for name, (kind, _) in COLUMNS.items()}), out)
    return out


@pytest.mark.parametrize("column", COLUMNS)
def test_missing_values_are_filled_with_scalars_of_numpy_dates_and_times(column: str, path: Path) -> None:
    for value, expected in COLUMNS[column][1]:
        (batch,) = tfr.Loader(path, batch_size=1, columns=[column], fill={column: value})
        found = batch[column]
        if isinstance(expected, str) and found.dtype.kind == "M":  # type: ignore[union-attr]
            expected = np.datetime64(expected)
        assert found[0] == expected, (value, found)  # type: ignore[index]
        row = tfr.RecordSource(path, columns=[column], fill={column: value})[0]
        assert row[column] == expected
        rows = next(tfr.read_tfrecord(path, columns=[column]).batches())
        assert rows.to_numpy(fill={column: value})[column][0] == expected


@pytest.mark.parametrize(
    ("fill", "message"),
    [
        ({"int": dt.date(2026, 1, 2)}, "fill: column 'int' is of type int16, found the date 2026-01-02"),
        ({"text": dt.date(2026, 1, 2)}, "fill: column 'text' is of type string, found the date 2026-01-02"),
        ({"day": dt.timedelta(1)}, "fill: column 'day' is of type date32"),
        ({"took": dt.date(2026, 1, 2)}, "fill: column 'took' is of type duration"),
        ({"day": dt.datetime(2026, 1, 2, 3)}, "fill: column 'day' is of type date32.*, which does not hold the datetime"),
        ({"when": np.datetime64("NaT")}, "fill: column 'when': NaT is no value"),
        ({"when": np.datetime64(1, "ns")}, "fill: column 'when' is of type timestamp.*, which does not hold"),
        ({"int": np.float32(1.5)}, "fill: .*column \"int\""),
        ({"nope": np.int64(1)}, "fill names the column \"nope\", which is not read"),
        ({"nope": dt.date(2026, 1, 2)}, "fill"),
        ({"int": [1]}, "fill: column \"int\": expected .*, found list"),
    ],
)
def test_values_of_another_kind_are_refused(fill: Any, message: str, path: Path) -> None:
    with pytest.raises(tfr.UsageError, match=message):
        tfr.Loader(path, batch_size=1, fill=fill)


def test_the_scalars_of_pandas_are_taken(path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    fill = {"when": pandas.Timestamp("2026-01-02"), "took": pandas.Timedelta("2s"), "int": 0, "flag": False}
    (batch,) = tfr.Loader(path, batch_size=1, fill=fill, columns=["when", "took"] + ["int", "flag"])
    assert batch["when"][0] == np.datetime64("2026-01-02") and batch["took"][0] == np.timedelta64(2, "s")  # type: ignore[index]


def test_a_missing_date_in_a_tensor_is_the_smallest_integer(path: Path) -> None:
    pytest.importorskip("torch")
    from tfr_sql.torch import TFRecordDataset

    (batch,) = TFRecordDataset(path, batch_size=1, columns=["day"])
    assert batch["day"].tolist() == [-9223372036854775808]
    (batch,) = TFRecordDataset(path, batch_size=1, columns=["day"], fill={"day": dt.date(1970, 1, 2)})
    assert batch["day"].tolist() == [1]
