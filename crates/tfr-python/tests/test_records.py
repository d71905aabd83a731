from __future__ import annotations

import gzip
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from conftest import Example, example, frame, table, unframe, write
from tfr_sql import DataError, Decoder, Encoder, RecordSource, UsageError, manifest, scan_records, schema, write_tfrecord


def test_records_by_number(sets: dict[int, str]) -> None:
    source = RecordSource(sets[16])
    assert len(source) == 1000
    by_id = {int(row["id"]): row for row in source}
    assert sorted(by_id) == list(range(1000))
    for want in table(1000).to_pylist():
        row = by_id[want["id"]]
        assert row["name"] == want["name"]
        assert row["vector"].tolist() == want["vector"]
        assert row["tokens"].tolist() == (want["tokens"] or [])
    numbers = [999, 0, 500, 0, -1]
    assert [row["id"] for row in source.__getitems__(numbers)] == [source[number]["id"] for number in numbers]
    assert source.__getitems__([]) == []
    for wrong in (1000, -1001):
        with pytest.raises(IndexError):
            source[wrong]


def test_a_source_is_picklable_and_has_a_stable_text(sets: dict[int, str]) -> None:
    source = RecordSource(sets[3], columns=["id", "name"])
    copy = pickle.loads(pickle.dumps(source))
    assert copy[7] == source[7] and list(copy[7]) == ["id", "name"]
    assert repr(copy) == repr(source)


def test_an_index_is_used_if_it_fits(tmp_path: Path) -> None:
    frames = [frame(example(id=[i], pad=[b"x" * i])) for i in range(20)]
    path = tmp_path / "a.tfrecord"
    path.write_bytes(b"".join(frames))
    lines, at = [], 0
    for part in frames:
        lines.append(f"{at} {len(part)}\n")
        at += len(part)
    index = tmp_path / "a.tfrecord.idx"
    for text in ["".join(lines), "".join(lines[:-1]), "no index"]:
        index.write_text(text)
        assert [row["id"] for row in RecordSource(path)] == list(range(20))
    # An index that fits the file in its length only is used: the records then have no valid frames.
    index.write_text("".join([f"0 {len(frames[0]) + 1}\n", f"{len(frames[0]) + 1} {len(frames[1]) - 1}\n", *lines[2:]]))
    with pytest.raises(DataError):
        RecordSource(path)[1]


def test_errors_of_records_by_number(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    good = frame(example(id=[1]))
    content = bytearray(good * 9)
    content[5 * len(good) + 14] ^= 1
    path.write_bytes(content)
    columns = pa.schema([("id", pa.int64())])
    source = RecordSource(path, schema=columns)
    with pytest.raises(DataError) as raised:
        source.__getitems__([1, 5, 2])
    assert (raised.value.file, raised.value.record, raised.value.byte) == (str(path), 5, 5 * len(good))
    packed = tmp_path / "a.tfrecord.gz"
    packed.write_bytes(gzip.compress(good))
    with pytest.raises(UsageError, match="random access"):
        RecordSource(packed)


def test_encoder_and_decoder() -> None:
    batch = table(100).to_batches()[0]
    encoder = Encoder(batch.schema)
    payloads = list(unframe(encoder.encode(batch)))
    records = pa.array(encoder.serialize(batch))
    assert records.to_pylist() == payloads
    assert list(Example.FromString(payloads[4]).features.feature["id"].int64_list.value) == [4]
    back = pa.record_batch(Decoder(batch.schema).parse(records))
    assert back.to_pylist() == batch.to_pylist()
    with pytest.raises(DataError) as raised:
        Decoder(batch.schema).parse(pa.array([payloads[0], b"\xff"]))
    assert raised.value.record == 1


def test_encoder_refuses_columns_of_other_names() -> None:
    encoder = Encoder(pa.schema([("a", pa.int64()), ("b", pa.int64())]))
    for names in (["b", "a"], ["a", "c"], ["a"]):
        batch = pa.record_batch([pa.array([1])] * len(names), names=names)
        for call in (encoder.encode, encoder.serialize):
            with pytest.raises(UsageError, match="expected the columns .*, found") as raised:
                call(batch)
            assert str(names[-1]) in str(raised.value)


def test_struct_fields_of_other_names_are_refused(tmp_path: Path) -> None:
    def batch(first: str, second: str, as_list: bool) -> Any:
        row = {first: 1, second: 2}
        fields = pa.struct([(first, pa.int64()), (second, pa.int64())])
        return pa.record_batch({"s": pa.array([[row]], pa.list_(fields)) if as_list else pa.array([row], fields)})

    for as_list in (False, True):
        expected = batch("a", "b", as_list)
        for names in (("b", "a"), ("x", "y")):
            found = batch(*names, as_list)
            for call in (Encoder(expected.schema).encode, Encoder(expected.schema).serialize):
                with pytest.raises(UsageError, match="expected .*, found"):
                    call(found)
            with pytest.raises(UsageError, match="expected .*, found"):
                write_tfrecord([expected, found], tmp_path / "out")


def test_decoder_refuses_records_that_are_not_bytes() -> None:
    decoder = Decoder(pa.schema([("n", pa.int64())]))
    for records in (pa.array([1, 2]), pa.array([1.5]), pa.array([[b"x"]])):
        with pytest.raises(DataError, match="expected binary records, found"):
            decoder.parse(records)


def test_an_encoder_names_the_column_and_row() -> None:
    columns = pa.schema([("n", pa.uint64())])
    with pytest.raises(DataError) as raised:
        Encoder(columns).encode(pa.record_batch([pa.array([1, 2**63], pa.uint64())], schema=columns))
    assert (raised.value.column, raised.value.row) == ("n", 1)
    with pytest.raises(UsageError):
        Encoder(pa.schema([("n", pa.month_day_nano_interval())]))


def test_manifest_and_schema(tmp_path: Path) -> None:
    out = write(tmp_path / "set", 30, 2)
    assert manifest(out)["totals"]["rows"] == 30
    assert manifest(out) == json.loads((tmp_path / "set" / "_manifest.json").read_text())
    assert pa.schema(schema(out)) == table(30).schema
    assert "feature {" in schema(out, "pbtxt")
    with pytest.raises(UsageError, match="xml"):
        schema(out, "xml")  # type: ignore[call-overload]


def test_numbers_are_scalars(sets: dict[int, str]) -> None:
    row = RecordSource(sets[1])[3]
    assert isinstance(row["id"], np.int64) and isinstance(row["when"], np.datetime64)


def test_messages_may_be_a_list_and_other_data_is_refused() -> None:
    batch = pa.record_batch({"n": [1, 2]})
    encoder, decoder = Encoder(batch.schema), Decoder(batch.schema)
    payloads = pa.array(encoder.serialize(batch)).to_pylist()
    assert pa.record_batch(decoder.parse(payloads)).equals(batch)
    refused: list[Any] = [lambda: decoder.parse([1]), lambda: decoder.parse(5)]  # type: ignore[list-item,arg-type]
    refused += [lambda: encoder.encode({"n": [1]}), lambda: encoder.serialize(batch.to_pydict())]  # type: ignore[arg-type]
    for call in refused:
        with pytest.raises(UsageError, match="expected Arrow data, found (list|int|dict)"):
            call()
    with pytest.raises(UsageError, match="batch: cannot be read as Arrow data: .*__arrow_c_array__"):
        encoder.encode(pa.Table.from_batches([batch]))
    with pytest.raises(UsageError, match="schema is a dict, expected a schema of Arrow"):
        Encoder({"n": "int64"})  # type: ignore[arg-type]
