"""The rows of queries as objects of other libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tfr_sql as tfr
from conftest import table


def query(rows: int = 3) -> tfr.Query:
    return tfr.sql("SELECT id, name, tokens FROM t ORDER BY id", tables={"t": table(rows)})


def test_a_query_becomes_a_table_of_pyarrow() -> None:
    expected = table(3).select(["id", "name", "tokens"])
    assert query().arrow().equals(expected)
    empty = tfr.sql("SELECT id, name FROM t WHERE id < 0", tables={"t": table(3)}).arrow()
    assert empty.num_rows == 0 and empty.schema.equals(expected.schema.remove(2))


def test_a_loop_over_a_query_yields_batches_of_pyarrow() -> None:
    batches = list(query(20_000))
    assert len(batches) > 1 and all(isinstance(batch, pa.RecordBatch) for batch in batches)
    assert pa.Table.from_batches(batches).equals(table(20_000).select(["id", "name", "tokens"]))


def test_a_query_becomes_a_frame_of_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    for frame in [query().to_pandas(), query().df()]:
        assert isinstance(frame, pandas.DataFrame) and frame["id"].tolist() == [0, 1, 2]
        assert list(frame.columns) == ["id", "name", "tokens"]
    # pandas would make a frame of objects of the batches.
    with pytest.raises(tfr.UsageError, match="a query is no array") as info:
        pandas.DataFrame(query())
    assert "to_pandas()" in str(info.value.hint)


def test_a_query_becomes_a_frame_of_polars() -> None:
    polars = pytest.importorskip("polars")
    frame = query(20_000).pl()
    assert isinstance(frame, polars.DataFrame) and frame["id"].to_list() == list(range(20_000))
    assert polars.DataFrame(query()).equals(query().pl())
    assert tfr.sql("SELECT 1 AS n WHERE false").pl().schema == {"n": polars.Int64}


@pytest.mark.parametrize("take", ["arrow", "to_pandas", "df", "pl", "__iter__", "batches"])
def test_their_errors_are_those_of_this_package(take: str) -> None:
    library = {"to_pandas": "pandas", "df": "pandas", "pl": "polars"}.get(take)
    if library is not None:
        pytest.importorskip(library)
    divided: Any = tfr.sql("SELECT 1 / (n - 5000) AS x FROM t", tables={"t": {"n": np.arange(10_000)}})
    with pytest.raises(tfr.QueryError, match="division by zero"):
        rows = getattr(divided, take)()
        list(rows)
