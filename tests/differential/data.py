"""Random tables, and the values of columns and literals."""

import datetime
import decimal
import math

import pyarrow

KINDS = {
    "int": pyarrow.int64(),
    "small": pyarrow.int32(),
    "float": pyarrow.float64(),
    "text": pyarrow.string(),
    "bool": pyarrow.bool_(),
    "date": pyarrow.date32(),
    "time": pyarrow.timestamp("us"),
    "zoned": pyarrow.timestamp("us", "UTC"),
    "decimal": pyarrow.decimal128(9, 2),
    "wide": pyarrow.decimal128(38, 10),
    "category": pyarrow.dictionary(pyarrow.int32(), pyarrow.string()),
    "bytes": pyarrow.binary(),
    "list": pyarrow.list_(pyarrow.int64()),
    "far": pyarrow.timestamp("us"),
}

# Kinds that only some forms of queries know: they are columns, and never the kind of a computed value.
STORED_ONLY = ("wide", "category", "bytes", "list", "far")

# Kinds that no column of a file has: intervals, and differences of timestamps.
COMPUTED = ["interval", "span"]

NUMBERS = ("int", "small", "float", "decimal", "wide")

TIMES = ["2024-01-31 00:00:00", "2024-02-29 12:30:00", "2024-03-31 01:59:59.5", "1999-12-31 23:59:59", "1969-12-31 23:59:59.25"]

FAR_TIMES = ["0001-01-01 00:00:00", "1582-10-10 12:00:00", "1677-09-20 00:00:00.5", "2262-04-12 00:00:00", "9999-12-31 23:59:59.999999"]

WIDE = ["0.0000000000", "12345678901234567890.1234567891", "-9999999999999999999999999999.9999999999", "0.0000000001", "1.5000000000", "123456789.9900000000"]

BYTES = [b"", b"a", b"\xc3\xa9", b"\xff\xfe", b"ab\x00c", b"a"]

LISTS = [[], [None], [1], [1, None], [1, 2], [2, 1], [1, 2, None, 1], [3, 3]]

ZONES = ["UTC", "America/New_York", "Asia/Kolkata", "Europe/Berlin"]

INTERVALS = ["1 month", "-1 month", "3 days", "1 year", "36 hours", "-90 seconds", "1 month 3 days 2 hours"]

# Of few lengths, in many ways.
LENGTHS = ["1 month", "30 days", "31 days", "720 hours", "29 days 24 hours", "1 month 1 day", "1 month -1 day", "1 year", "12 months", "360 days", "-1 month", "-30 days", "0 days", "1 day", "86400 seconds", "90.5 seconds"]

TEXTS = ["", "a", "A", "ab", "b", "a%b", "a_b", "  a", "é", "É", "10", "9", "a\\b"]

PATTERNS = ["%", "a%", "%b", "_", "a_b", "%a%", "", "A%", "É", "a\\%b", "%\\_%", "_%", "%%"]


def cell(random, kind):
    """A value of a column: few distinct ones, and those that SQL is strange about."""
    if random.random() < 0.2:
        return None
    if kind in ("int", "small"):
        return random.choice([0, 1, 1, 2, 2, 3, -1, 5, 10, 100])
    if kind == "float":
        return random.choice([0.0, -0.0, 1.0, 1.5, -2.25, 2.0, math.nan, -math.nan, math.inf, -math.inf, 10.0])
    if kind == "text":
        return random.choice(TEXTS)
    if kind == "bool":
        return random.choice([True, False])
    if kind == "category":
        return random.choice(TEXTS)
    if kind == "bytes":
        return random.choice(BYTES)
    if kind == "list":
        return random.choice(LISTS)
    if kind == "wide":
        return decimal.Decimal(random.choice(WIDE))
    if kind == "far":
        return datetime.datetime.fromisoformat(random.choice(FAR_TIMES + TIMES))
    if kind == "date":
        return datetime.datetime.fromisoformat(random.choice(TIMES)).date()
    if kind == "time":
        return datetime.datetime.fromisoformat(random.choice(TIMES))
    if kind == "zoned":
        return datetime.datetime.fromisoformat(random.choice(TIMES)).replace(tzinfo=datetime.timezone.utc)
    return decimal.Decimal(random.choice(["0.00", "1.00", "1.50", "-2.25", "10.00", "2.00"]))


def table(random, rows):
    """A table of random columns; `u` is another number in each row."""
    columns = [("u", "int", list(range(rows))), ("k", "int", [cell(random, "int") for _ in range(rows)])]
    for number, kind in enumerate(random.choices(list(KINDS), weights=[5, 2, 4, 5, 3, 2, 2, 1, 2, 1, 1, 1, 1, 1], k=random.randint(1, 6))):
        columns.append((f"{kind[0]}{number}", kind, [cell(random, kind) for _ in range(rows)]))
    # Columns without NULLs are another path in the engine: the schema says so.
    fields, arrays = [], []
    for name, kind, values in columns:
        nullable = name != "u"
        if nullable and random.random() < 0.15:
            values = [value if value is not None else default(kind) for value in values]
            nullable = False
        fields.append(pyarrow.field(name, KINDS[kind], nullable))
        arrays.append(pyarrow.array(values, KINDS[kind]))
    return pyarrow.Table.from_arrays(arrays, schema=pyarrow.schema(fields)), [(name, kind) for name, kind, _ in columns]


def default(kind):
    values = {"text": "", "bool": False, "float": 0.0, "decimal": decimal.Decimal("0.00")}
    stamp = datetime.datetime(2024, 1, 31)
    values |= {"category": "", "bytes": b"", "list": [], "wide": decimal.Decimal(0), "far": stamp}
    values |= {"date": stamp.date(), "time": stamp, "zoned": stamp.replace(tzinfo=datetime.timezone.utc)}
    return values.get(kind, 0)
