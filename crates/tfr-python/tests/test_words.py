"""Messages of the command in the words of Python."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

import tfr_sql as tfr
import tfr_sql._options as options
from tfr_sql._words import VALUES, in_python


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("or replace the existing files with --mode overwrite", 'or replace the existing files with mode="overwrite"'),
        ("register it with --table NAME=PATH", 'register it with tables={"NAME": data}'),
        ("invalid value 'many' for '--shards <N>': expected", "invalid value 'many' for shards=: expected"),
        ("unexpected value '3' for '--strict' found", "unexpected value '3' for strict= found"),
        ("without splits give one number: --shards 16", "without splits give one number: shards=16"),
        ("specify their number with --shards NAME=N", 'specify their number with shards={"NAME": N}'),
        ("--shards train=… needs --split", 'shards={"train": …} needs split='),
        ("keep it exact with --map 'my column: bits' (or string)", 'keep it exact with map={"my column": "bits"} (or string)'),
        ("leave out --partition-by, or --emit without tfds", "leave out partition_by=, or emit= without tfds"),
        ("raise --memory-limit, or lower --threads so that", "raise memory_limit=, or lower threads= so that"),
        ("run with --threads 1 to count", "run with threads=1 to count"),
        ("--shuffle undoes the ORDER BY", "shuffle=True undoes the ORDER BY"),
        ("or run without --strict.", "or run without strict=True."),
        ("cannot be used with '--out x.parquet', a", 'cannot be used with out="x.parquet", a'),
        ("for shards give a directory: --out /a/b/; tables", 'for shards give a directory: out="/a/b/"; tables'),
        ("--level needs --compression gzip or --compression zlib", 'level= needs compression="gzip" or compression="zlib"'),
        # What Python does not have, commands, and text that is no option.
        ("give a directory: --scratch DIR", "give a directory: --scratch DIR"),
        ("append, and then run tfr-sql describe a/b --emit stats", "append, and then run tfr-sql describe a/b --emit stats"),
        ("give it a type: --table 't=x.csv,types=a INT'", "give it a type: --table 't=x.csv,types=a INT'"),
        ("no file a--mode/x--shards", "no file a--mode/x--shards"),
    ],
)
def test_options_become_arguments(text: str, expected: str) -> None:
    assert in_python(text) == expected


def test_the_values_of_options_are_known() -> None:
    source = Path(str(options.__file__)).read_text()
    listed = re.findall(r"#: .*?: ([a-z-]+(?:, [a-z-]+)*(?:,? or [a-z-]+)?)(?:, …)?(?: \[|\n|;)", source)
    words = {word for choices in listed for word in re.split(", | or ", choices) if " or " in choices or "," in choices}
    assert {"overwrite", "gzip", "mask", "sequence-example", "tfds"} <= words
    # Some of them are not values of options of a function that writes.
    assert words - VALUES <= {"all", "auto", "verify", "skip", "cat", "dog", "true", "false"}


def test_errors_have_the_words_of_python(tmp_path: Path) -> None:
    rows = pa.table({"n": [1], "x": [0.1]}).select(["n"])
    tfr.write_tfrecord(rows, tmp_path / "set")
    with pytest.raises(tfr.ExistsError) as exists:
        tfr.write_tfrecord(rows, tmp_path / "set")
    assert 'mode="overwrite"' in str(exists.value.hint)
    with pytest.raises(tfr.QueryError) as missing:
        tfr.sql("SELECT * FROM nope").arrow()
    assert 'tables={"NAME": data}' in str(missing.value.hint)
    for option, value in {"shards": "many", "mode": "replace", "compression": "lzo", "level": 3}.items():
        with pytest.raises(tfr.UsageError, match=f"{option}=") as invalid:
            tfr.write_tfrecord(rows, tmp_path / "other", **{option: value})  # type: ignore[arg-type]
        assert "--" not in str(invalid.value)
    intervals = pa.table({"i": pa.array([(1, 1, 1)], pa.month_day_nano_interval())})
    with pytest.raises(tfr.QueryError) as unwritable:
        tfr.write_tfrecord(intervals, tmp_path / "other")
    assert 'map={"i": "string"}' in str(unwritable.value.hint)
