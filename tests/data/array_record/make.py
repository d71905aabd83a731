"""Writes the files of this directory with array_record 0.8.6: `pip install array_record==0.8.6`, then `python make.py`.

An ArrayRecord file has at least 128 KiB, nearly all of them zero, so the files are compressed with gzip. `*.records` are
the records of the files in `FILES`: for each its length in 4 bytes, little-endian, and its bytes.
"""

import gzip
import pathlib
import struct
import tempfile

from array_record.python.array_record_module import ArrayRecordWriter

HERE = pathlib.Path(__file__).parent


def varint(number):
    out = b""
    while number >= 0x80:
        out, number = out + bytes([number & 0x7F | 0x80]), number >> 7
    return out + bytes([number])


def field(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


def feature(name, kind, content):
    return field(1, field(1, name.encode()) + field(2, field(kind, field(1, content))))


def example(row):
    """A `tf.train.Example` with the row's number, a name and a score."""
    name = f"name of row {row}".encode()
    return field(
        1,
        feature("id", 3, varint(row))
        + feature("name", 1, name)
        + feature("score", 2, struct.pack("<f", row / 4)),
    )


def pattern(length):
    return bytes(i * i // 7 % 251 for i in range(length))


RECORDS = {
    "none": [],
    "examples": [example(row) for row in range(300)],
    # Chunks of more than a block, of less than nothing, and around the length of a block.
    "blocks": [pattern(n) for n in (0, 70_000, 1, 65_000, 65_536, 200_000, 0, 3)],
    # No records of any length: more records than bytes, so that their chunk is padded.
    "nothing": [b""] * 500,
}

FILES = {
    "empty": ("none", "group_size:1,uncompressed"),
    "plain-1": ("examples", "group_size:1,uncompressed"),
    "plain-3": ("examples", "group_size:3,uncompressed"),
    "plain-128": ("examples", "group_size:128,uncompressed"),
    "zstd-1": ("examples", "group_size:1"),
    "zstd-3": ("examples", "group_size:3,zstd:9"),
    "zstd-128": ("examples", "group_size:128,zstd"),
    "brotli-3": ("examples", "group_size:3,brotli"),
    "brotli-128": ("examples", "group_size:128,brotli:6"),
    "snappy-3": ("examples", "group_size:3,snappy"),
    "snappy-128": ("examples", "group_size:128,snappy"),
    "padded-128": ("examples", "group_size:128,uncompressed,pad_to_block_boundary:true"),
    "transposed-3": ("examples", "group_size:3,transpose:true"),
    "blocks-plain-1": ("blocks", "group_size:1,uncompressed"),
    "blocks-plain-3": ("blocks", "group_size:3,uncompressed"),
    "blocks-zstd-1": ("blocks", "group_size:1,zstd"),
    "blocks-brotli-3": ("blocks", "group_size:3,brotli"),
    "blocks-snappy-3": ("blocks", "group_size:3,snappy"),
    "nothing-plain-128": ("nothing", "group_size:128,uncompressed"),
    "nothing-zstd-500": ("nothing", "group_size:500,zstd"),
}


def pack(name, content):
    (HERE / f"{name}.gz").write_bytes(gzip.compress(content, 9, mtime=0))


for name, records in RECORDS.items():
    pack(f"{name}.records", b"".join(struct.pack("<I", len(record)) + record for record in records))
for name, (records, options) in FILES.items():
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/{name}"
        writer = ArrayRecordWriter(path, options)
        for record in RECORDS[records]:
            writer.write(record)
        writer.close()
        pack(f"{name}.array_record", pathlib.Path(path).read_bytes())
