"""What the tests share: rows, and independent writers and parsers of TFRecord files."""

from __future__ import annotations

import hashlib
import struct
from typing import Any, Iterable, Iterator

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tfr_sql import Ragged, write_tfrecord


def _example_class() -> Any:
    """Builds tf.train.Example from its definition, without TensorFlow."""
    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="tensorflow", syntax="proto3")
    field = descriptor_pb2.FieldDescriptorProto
    for name, kind in [("BytesList", field.TYPE_BYTES), ("FloatList", field.TYPE_FLOAT), ("Int64List", field.TYPE_INT64)]:
        message = file.message_type.add(name=name)
        message.field.add(name="value", number=1, type=kind, label=field.LABEL_REPEATED)
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, (name, kind) in enumerate([("bytes_list", "BytesList"), ("float_list", "FloatList"), ("int64_list", "Int64List")], 1):
        feature.field.add(
            name=name, number=number, type=field.TYPE_MESSAGE, type_name=f".tensorflow.{kind}", label=field.LABEL_OPTIONAL, oneof_index=0
        )
    features = file.message_type.add(name="Features")
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=field.TYPE_MESSAGE, type_name=".tensorflow.Feature", label=field.LABEL_OPTIONAL)
    features.field.add(
        name="feature", number=1, type=field.TYPE_MESSAGE, type_name=".tensorflow.Features.FeatureEntry", label=field.LABEL_REPEATED
    )
    example = file.message_type.add(name="Example")
    example.field.add(name="features", number=1, type=field.TYPE_MESSAGE, type_name=".tensorflow.Features", label=field.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tensorflow.Example"))


Example = _example_class()


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _crc_table()


def masked_crc(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def frame(payload: bytes) -> bytes:
    length = struct.pack("<Q", len(payload))
    return length + struct.pack("<I", masked_crc(length)) + payload + struct.pack("<I", masked_crc(payload))


def unframe(file: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(file):
        (length,) = struct.unpack_from("<Q", file, at)
        yield file[at + 12 : at + 12 + length]
        at += 16 + length


def example(**features: list[Any]) -> bytes:
    """Serializes a tf.train.Example; the kind of a feature is that of its first value."""
    message = Example()
    for name, values in features.items():
        feature = message.features.feature[name]
        if isinstance(values[0], int):
            feature.int64_list.value.extend(values)
        elif isinstance(values[0], float):
            feature.float_list.value.extend(values)
        else:
            feature.bytes_list.value.extend(values)
    return bytes(message.SerializeToString())


def table(rows: int, first: int = 0) -> pa.Table:
    """Rows with all that a loader distinguishes. Every row has another `id`."""
    ids = range(first, first + rows)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "small": pa.array([i % 100 for i in ids], pa.int8()),
            "flag": pa.array([i % 3 == 0 for i in ids]),
            "score": pa.array([None if i % 7 == 0 else i / 2 for i in ids], pa.float32()),
            "name": pa.array([None if i % 5 == 0 else f"näme {i}" for i in ids]),
            "image": pa.array([bytes([i % 256]) * (i % 4) for i in ids], pa.binary()),
            "when": pa.array([None if i % 11 == 0 else i * 1000 for i in ids], pa.timestamp("us")),
            "tokens": pa.array([None if i % 13 == 0 else [i] * (i % 6) for i in ids], pa.list_(pa.int32())),
            "words": pa.array([[f"w{i}"] * (i % 3) for i in ids], pa.list_(pa.string())),
            "vector": pa.array([[i, i + 0.5, i + 0.25] for i in ids], pa.list_(pa.float32(), 3)),
        }
    )


def write(out: Any, rows: int, shards: int = 1, **options: Any) -> str:
    write_tfrecord(table(rows), out, shards=shards, **options)
    return str(out)


@pytest.fixture(scope="session")
def sets(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """Sets of 1,000 rows, by their number of shards."""
    root = tmp_path_factory.mktemp("sets")
    return {shards: write(root / str(shards), 1000, shards) for shards in (1, 3, 16)}


def digest(batches: Iterable[dict[str, Any]]) -> str:
    """Returns the SHA-256 of batches, with their names, types, shapes and values."""
    sha = hashlib.sha256()

    def update(value: Any) -> None:
        if isinstance(value, dict):
            for name, column in value.items():
                sha.update(repr(name).encode())
                update(column)
        elif isinstance(value, Ragged):
            update(value.values)
            update(value.row_splits)
        else:
            sha.update(repr((value.dtype.str, value.shape)).encode())
            sha.update(repr(value.tolist()).encode() if value.dtype.kind == "O" else np.ascontiguousarray(value).tobytes())

    for batch in batches:
        update(batch)
        sha.update(b"|")
    return sha.hexdigest()


def ids(batches: Iterable[dict[str, Any]]) -> list[int]:
    return [int(i) for batch in batches for i in batch["id"]]
