"""Writes legacy-bounds.parquet: min and max in the deprecated fields alone, in the order of signed bytes."""

import struct

import pyarrow
import pyarrow.parquet

NAME = "legacy-bounds.parquet"
pyarrow.parquet.write_table(pyarrow.table({"s": ["a", "é", "b"]}), NAME, compression="none", use_dictionary=False)
with open(NAME, "rb") as file:
    content = file.read()
(length,) = struct.unpack("<I", content[-8:-4])
body, footer = content[: -8 - length], content[-8 - length : -8]
# Thrift's compact protocol: max_value (5), min_value (6) and the field 7 become max (1), min (2) and the field 7.
found = b"\x28\x02" + "é".encode() + b"\x18\x01a\x11"
assert footer.count(found) == 1
footer = footer.replace(found, b"\x08\x02\x01b\x18\x02" + "é".encode() + b"\x51")
with open(NAME, "wb") as file:
    file.write(body + footer + struct.pack("<I", len(footer)) + b"PAR1")
