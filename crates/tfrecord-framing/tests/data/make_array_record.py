"""Writes the fixtures of ArrayRecord with Google's writer: pip install array_record==0.8.6

three.array_record is a file. array_record.tsv lists files by what is in them, with their length and CRC-32: records whose
chunks end at every position around the end of a block.
"""

import os
import pathlib
import tempfile
import zlib

from array_record.python.array_record_module import ArrayRecordWriter

HERE = pathlib.Path(__file__).parent
PATTERN = bytes(range(256)) * 8192

# The chunk of a first record of this length ends at the end of the first block.
FULL = 65536 - 64 - 40 - 5


def write(path, records, group_size):
    writer = ArrayRecordWriter(str(path), f"group_size:{group_size},uncompressed")
    for record in records:
        writer.write(record)
    writer.close()


def record(at, length):
    return PATTERN[at : at + length]


write(HERE / "three.array_record", [b"abc", b"", b"x" * 300], 1)
lines = ["group_size\tlengths\tfile_len\tcrc32"]
cases = [(group, [FULL + more, 0, 1, 2, 130]) for group in (1, 3) for more in range(-130, 91)]
cases += [(1, []), (1, [0]), (1, [1 << 20, 0, 3]), (2, [70000, 70000, 70000]), (300, [0] * 200000), (1, [0] * 3000)]
with tempfile.TemporaryDirectory() as directory:
    path = os.path.join(directory, "file")
    for group_size, lengths in cases:
        write(path, [record(at % 256, length) for at, length in enumerate(lengths)], group_size)
        data = pathlib.Path(path).read_bytes()
        text = f"0*{len(lengths)}" if len(lengths) > 9 else ",".join(map(str, lengths))
        lines.append(f"{group_size}\t{text}\t{len(data)}\t{zlib.crc32(data):08x}")
(HERE / "array_record.tsv").write_text("\n".join(lines) + "\n")
