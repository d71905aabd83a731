"""Writes the Parquet files of this directory byte by byte: one for each logical and converted type of the format, and
files as old and as later writers leave them, which no library writes today.

    python make_parquet.py

What pyarrow 26 and DuckDB 2.0 read of them is in crates/tfr-formats/tests/it/parquet_types.rs.
"""

import struct
from pathlib import Path

HERE = Path(__file__).parent
INT32, INT64, INT96, DOUBLE, BYTES, FIXED = 1, 2, 3, 5, 6, 7
REQUIRED, OPTIONAL, REPEATED = 0, 1, 2
DAY = 86_400 * 10**9


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def zigzag(value):
    return varint(value << 1 if value >= 0 else -value * 2 - 1)


class Struct:
    """A struct in Thrift's compact protocol."""

    def __init__(self):
        self.bytes, self.last = bytearray(), 0

    def field(self, number, kind, value=b""):
        delta = number - self.last
        self.bytes += bytes([delta << 4 | kind]) if 1 <= delta <= 15 else bytes([kind]) + zigzag(number)
        self.bytes += value
        self.last = number
        return self

    def i8(self, number, value):
        return self.field(number, 3, bytes([value]))

    def i32(self, number, value):
        return self.field(number, 5, zigzag(value))

    def i64(self, number, value):
        return self.field(number, 6, zigzag(value))

    def true(self, number):
        return self.field(number, 1)

    def binary(self, number, value):
        return self.field(number, 8, varint(len(value)) + value)

    def struct(self, number, value):
        return self.field(number, 12, value.end())

    def list(self, number, kind, items):
        size = bytes([len(items) << 4 | kind]) if len(items) < 15 else bytes([0xF0 | kind]) + varint(len(items))
        return self.field(number, 9, size + b"".join(items))

    def end(self):
        return bytes(self.bytes) + b"\0"


def union(number, member=None):
    return Struct().struct(number, member or Struct())


def element(name, physical=None, length=None, repetition=None, children=None, converted=None, scale=None,
            precision=None, logical=None):
    out = Struct()
    numbers = [(1, physical), (2, length), (3, repetition)]
    for number, value in numbers:
        if value is not None:
            out.i32(number, value)
    out.binary(4, name.encode())
    for number, value in [(5, children), (6, converted), (7, scale), (8, precision)]:
        if value is not None:
            out.i32(number, value)
    if logical is not None:
        out.struct(10, logical)
    return out.end()


def plain(physical, values):
    if physical == BYTES:
        return b"".join(struct.pack("<i", len(value)) + value for value in values)
    if physical in (INT32, INT64, DOUBLE):
        return b"".join(struct.pack({INT32: "<i", INT64: "<q", DOUBLE: "<d"}[physical], value) for value in values)
    return b"".join(values)


def column(physical, values, statistics=None, **options):
    """A required column `u`."""
    return [element("u", physical, repetition=REQUIRED, **options)], physical, values, ["u"], None, statistics


def nested(elements, physical, values, path, repetitions, definitions):
    """A column of groups; levels have one bit each, or two."""
    return elements, physical, values, path, (repetitions, definitions), None


def levels(values, highest):
    bits = highest.bit_length()
    if bits == 0:
        return b""
    packed = sum(value << (bits * index) for index, value in enumerate(values))
    groups = (len(values) + 7) // 8
    run = varint(groups << 1 | 1) + packed.to_bytes(groups * bits, "little")
    return struct.pack("<i", len(run)) + run


def write(name, *columns, rows, orders=True, created_by=b"make_parquet.py", count=None, root=None, split=False):
    """A file with a column `id` and these; `split` gives each row a row group of its own."""
    identity = ([element("id", INT64, repetition=REQUIRED)], INT64, list(range(rows)), ["id"], None, None)
    columns = [identity, *columns]
    out, groups = bytearray(b"PAR1"), []
    for start, end in [(row, row + 1) for row in range(rows)] if split else [(0, rows)]:
        chunks = []
        for _, physical, values, path, level, statistics in columns:
            values = values[start:end] if split else values
            size = len(values)
            data = plain(physical, values)
            if level is not None:
                (repetitions, highest_repetition), (definitions, highest_definition) = level
                data = levels(repetitions, highest_repetition) + levels(definitions, highest_definition) + data
                size = len(definitions)
            page = Struct().i32(1, size).i32(2, 0).i32(3, 3).i32(4, 3)
            header = Struct().i32(1, 0).i32(2, len(data)).i32(3, len(data)).struct(5, page).end()
            offset = len(out)
            out += header + data
            length = len(header) + len(data)
            meta = Struct().i32(1, physical).list(2, 5, [zigzag(0)])
            meta.list(3, 8, [varint(len(part)) + part.encode() for part in path]).i32(4, 0)
            meta.i64(5, size).i64(6, length).i64(7, length).i64(9, offset)
            if statistics is not None:
                meta.struct(12, statistics)
            chunks.append(Struct().i64(2, offset).struct(3, meta).end())
        groups.append(Struct().list(1, 12, chunks).i64(2, len(out)).i64(3, end - start).end())
    schema = [element("schema", children=len(columns), repetition=root)]
    schema += [part for elements, *_ in columns for part in elements]
    footer = Struct().i32(1, 1).list(2, 12, schema).i64(3, rows if count is None else count)
    footer.list(4, 12, groups).binary(6, created_by)
    if orders:
        leaves = len(columns)
        footer.list(7, 12, [union(1).end() for _ in range(leaves)])
    footer = footer.end()
    out += footer + struct.pack("<i", len(footer)) + b"PAR1"
    (HERE / f"{name}.parquet").write_bytes(out)


def int96(day, nanoseconds):
    return struct.pack("<qi", nanoseconds, 2_440_588 + day)


def interval(months, days, milliseconds):
    return struct.pack("<III", months, days, milliseconds)


def integer(bits, signed):
    return union(10, Struct().i8(1, bits).true(2) if signed else Struct().i8(1, bits).field(2, 2))


def time(kind, unit, utc=True):
    return union(kind, (Struct().true(1) if utc else Struct().field(1, 2)).struct(2, union(unit)))


def main():
    two = lambda name, *arguments, **options: write(name, column(*arguments, **options), rows=2)

    # Types of the format.
    two("string", BYTES, [b"a", "é".encode()], converted=0, logical=union(1))
    two("enum", BYTES, [b"A", b"B"], converted=4, logical=union(4))
    two("json", BYTES, [b"{}", b"[1]"], converted=19, logical=union(12))
    two("bson", BYTES, [b"\5\0\0\0\0"] * 2, converted=20, logical=union(13))
    two("uuid", FIXED, [bytes(range(16)), bytes(16)], length=16, logical=union(14))
    two("uuid_of_8_bytes", FIXED, [bytes(8)] * 2, length=8, logical=union(14))
    two("float16", FIXED, [b"\0\x3c", b"\0\xbc"], length=2, logical=union(15))
    two("geometry", BYTES, [b"\1\1\0\0\0" + struct.pack("<dd", 1, 2)] * 2, logical=union(17))
    two("geography", BYTES, [b"\1\1\0\0\0" + struct.pack("<dd", 1, 2)] * 2, logical=union(18))
    for bits, converted in [(8, 15), (16, 16), (32, 17)]:
        two(f"int{bits}", INT32, [-(2 ** (bits - 1)), 1], converted=converted, logical=integer(bits, True))
    two("int64", INT64, [-(2**63), 1], converted=18, logical=integer(64, True))
    two("uint8", INT32, [255, 1], converted=11, logical=integer(8, False))
    two("uint16", INT32, [65535, 1], converted=12, logical=integer(16, False))
    two("uint32", INT32, [-1, 1], converted=13, logical=integer(32, False))
    two("uint64", INT64, [-1, 1], converted=14, logical=integer(64, False))
    two("int128", FIXED, [b"\1" + bytes(15)] * 2, length=16, logical=integer(128, True))
    two("date", INT32, [-1, 19000], converted=6, logical=union(6))
    two("time_millis", INT32, [1, 86399999], converted=7, logical=time(7, 1))
    two("time_micros", INT64, [1, 86399999999], converted=8, logical=time(7, 2))
    two("time_nanos", INT64, [1, 86399999999999], logical=time(7, 3, utc=False))
    two("timestamp_millis", INT64, [1, -1], converted=9, logical=time(8, 1))
    two("timestamp_micros", INT64, [1, -1], converted=10, logical=time(8, 2))
    two("timestamp_nanos", INT64, [1, -1], logical=time(8, 3, utc=False))
    two("decimal_int32", INT32, [12345, -1], converted=5, scale=2, precision=9)
    two("decimal_int64", INT64, [12345, -1], converted=5, scale=2, precision=18)
    two("decimal_fixed", FIXED, [b"\x04\xd2", b"\xff\xff"], length=2, converted=5, scale=2, precision=4)
    two("decimal_bytes", BYTES, [b"\x30\x39", b"\xff"], converted=5, scale=2, precision=20)
    two("decimal_int32_of_12_digits", INT32, [12345, -(2**31)], converted=5, scale=2, precision=12)
    two("decimal_int64_of_25_digits", INT64, [12345, -1], converted=5, scale=2, precision=25)
    two("decimal_fixed_of_20_digits", FIXED, [b"\0\x30", b"\xff\xff"], length=2, converted=5, scale=2, precision=20)
    two("decimal_of_77_digits", FIXED, [bytes(33)] * 2, length=33, converted=5, scale=2, precision=77)
    two("decimal_without_scale", INT32, [5, 6], converted=5, precision=4)
    write("interval", column(FIXED, [interval(14, 3, 1500), interval(0, 0, 0), interval(12, 40, 86_400_000)],
                             length=12, converted=21), rows=3)
    two("interval_beyond", FIXED, [interval(1, 1, 1), interval(2**31, 0, 0)], length=12, converted=21)
    list_of = element("u", repetition=OPTIONAL, children=1, converted=3)
    item = element("array", INT32, repetition=REPEATED)
    write("list_of_two_levels", nested([list_of, item], INT32, [1, 2], ["u", "array"],
                                       ([0, 1, 0], 1), ([2, 2, 1], 2)), rows=2)
    write("list_without_annotation", nested([element("u", INT32, repetition=REPEATED)], INT32, [1, 2], ["u"],
                                            ([0, 1, 0], 1), ([1, 1, 0], 1)), rows=2)

    # What the format does not have, or did not have when this was written.
    two("later_type_of_bytes", BYTES, [b"ab", b"c"], logical=union(25))
    two("later_type_of_integers", INT32, [1, 2], logical=union(25))
    two("later_type_of_dates", INT32, [1, 2], converted=6, logical=union(25))
    two("no_such_converted_type", INT32, [1, 2], converted=77)

    # As old writers left it.
    two("null_of_parquet_cpp_1_5", INT32, [0, 0], converted=24)
    two("interval_of_parquet_mr_1_12", FIXED, [interval(14, 3, 1500)] * 2, length=12, converted=21, logical=union(11))
    write("root_with_repetition", column(INT32, [1, 2]), rows=2, root=REPEATED)
    write("without_count", column(INT32, [1, 2]), rows=2, count=0)

    # INT96.
    two("int96_nanoseconds", INT96, [int96(0, 1), int96(20000, 123456789)])
    two("int96_far", INT96, [int96(2932896, 0), int96(20000, 123456000)])
    two("int96_far_and_fine", INT96, [int96(2932896, 0), int96(20000, 1)])
    two("int96_malformed", INT96, [int96(0, 1), int96(0, DAY)])

    # Text that is none.
    write("not_utf8", column(BYTES, [b"ok", b"\xff\xfe", b"z"], converted=0), rows=3)

    # Bounds that mean nothing: without an order, and those of the format's first version for texts.
    low, high = struct.pack("<i", 50), struct.pack("<i", 60)
    bounds = Struct().i64(3, 0).binary(5, high).binary(6, low)
    write("bounds_without_order", column(INT32, [1, 2], bounds), rows=2, orders=False)
    old = Struct().binary(1, b"c").binary(2, b"b").i64(3, 0)
    write("bounds_of_signed_bytes", column(BYTES, [b"a", "é".encode()], old, converted=0), rows=2)
    uncounted = Struct().binary(5, high).binary(6, low)
    optional = [element("u", INT32, repetition=OPTIONAL)]
    write("bounds_without_null_count", (optional, INT32, [55], ["u"], (([0, 0], 0), ([1, 0], 1)), uncounted), rows=2)
    shortened = Struct().i64(3, 0).binary(5, b"b").binary(6, b"a").field(7, 2).field(8, 2)
    write("shortened_bounds", column(BYTES, [b"aaa", b"abc"], shortened, converted=0), rows=2)
    unsigned = Struct().i64(3, 0).binary(5, struct.pack("<i", -1)).binary(6, struct.pack("<i", 1))
    write("bounds_of_unsigned", column(INT32, [-1, 1], unsigned, converted=13), rows=2)


if __name__ == "__main__":
    main()
