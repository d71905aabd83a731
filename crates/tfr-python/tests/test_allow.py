"""`allow=`: what the SQL of others may open."""

from __future__ import annotations

from pathlib import Path

import pyarrow
import pytest

import tfr_sql


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("in", "tmp", "secret"):
        (tmp_path / name).mkdir()
    for name in ("in/a.csv", "secret/s.csv"):
        (tmp_path / name).write_text("x\n1\n")
    (tmp_path / "in/link.csv").symlink_to("../secret/s.csv")
    return tmp_path


def test_allow_refuses_what_is_outside(place: Path) -> None:
    options = {"allow": [place / "in", place / "tmp"], "temp_dir": place / "tmp"}
    inside = tfr_sql.sql(f"SELECT x FROM '{place}/in/a.csv'", **options)
    assert pyarrow.table(inside).to_pydict() == {"x": [1]}
    for name in ("secret/s.csv", "in/link.csv", "in/../secret/s.csv"):
        with pytest.raises(tfr_sql.QueryError, match="not allowed"):
            pyarrow.table(tfr_sql.sql(f"SELECT x FROM '{place}/{name}'", **options))


def test_allow_lets_tables_and_vocabularies_of_the_program_in(place: Path) -> None:
    options = {"allow": [str(place)], "temp_dir": place / "tmp"}
    table = pyarrow.table({"label": ["b", "a", "b"]})
    counted = tfr_sql.sql("SELECT count(*) AS n FROM t", tables={"t": table}, **options)
    assert pyarrow.table(counted).to_pydict() == {"n": [3]}
    ranked = pyarrow.table({"label": pyarrow.DictionaryArray.from_arrays([1, 0, 1], ["a", "b"], ordered=True)})
    tfr_sql.write_tfrecord(ranked, place / "in/out", map={"label": "index"}, **options)
    assert (place / "in/out/_SUCCESS").exists()


def test_allow_of_nothing_is_refused(place: Path) -> None:
    with pytest.raises(tfr_sql.UsageError, match="allow"):
        tfr_sql.sql("SELECT 1", allow=[])
