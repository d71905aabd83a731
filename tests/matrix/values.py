"""The types of the matrix and their edge values.

A type has its name in signatures.tsv, its Arrow type, the types of the judges (None: the judge has none), and values. A value is
a text that PostgreSQL reads as that type, or None. Names with a colon are sets of values of a type for a role: `text:zone`.
"""

import datetime
import decimal
import itertools
import math

import pyarrow

MICROS = datetime.timedelta(microseconds=1)
EPOCH = datetime.datetime(1970, 1, 1)

NINES = "9" * 38


class Type:
    def __init__(self, arrow, ours, postgresql, duckdb, values, read, literal=None):
        # `ours` is the type's name for CAST or arrow_cast.
        self.arrow, self.ours, self.postgresql, self.duckdb = arrow, ours, postgresql, duckdb
        self.values, self.read, self.literal = values, read, literal

    def array(self, values):
        return pyarrow.array([None if value is None else self.read(value) for value in values], self.arrow)


def integers(bits, signed, others=(0, 1, 2, 3, 10)):
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    values = [None, *others, *([-1, -7, low] if signed else []), high]
    return [None if value is None else str(value) for value in values]


def whole(arrow, ours, postgresql, duckdb, bits, signed):
    return Type(arrow, ours, postgresql, duckdb, integers(bits, signed), int)


FLOATS = [None, "0.0", "-0.0", "1.0", "-1.0", "0.5", "1.5", "2.5", "-2.5", "0.1", "NaN", "Infinity", "-Infinity"]


def decimals(precision, scale, *values):
    arrow = pyarrow.decimal128(precision, scale)
    name = f"DECIMAL({precision}, {scale})"
    return Type(arrow, name, f"numeric({precision}, {scale})", name, [None, *values], decimal.Decimal)


def stamp(text):
    return datetime.datetime.fromisoformat(text)


def ticks(scale, text):
    return (stamp(text) - EPOCH) // MICROS * scale // 1_000_000


STAMPS = [
    None,
    "0001-01-01 00:00:00",
    "1582-10-10 12:00:00",
    "1969-12-31 23:59:59.5",
    "2024-02-29 12:34:56.789123",
    "2024-03-31 02:30:00",
    "2024-10-27 02:30:00",
    "9999-12-31 23:59:59.999999",
]


def times(unit, ours, values, scale, zone=None, postgresql="timestamp", duckdb="TIMESTAMP"):
    return Type(pyarrow.timestamp(unit, zone), ours, postgresql, duckdb, values, lambda text: ticks(scale, text))


INTERVALS = [None, "0 seconds", "1 month", "-1 month 1 day", "1 year 2 months", "3 days", "36 hours", "-0.5 seconds"]

TEXTS = [None, "", "a", "abc", "ABC", "héllo wörld", "ß", "😀b", "  a b ", "a,b,,c", "12", "-1.50", "2024-02-29", "NaN", "true", "a%b\\_", "x\ny"]

BYTES = [None, b"", b"a", b"abc", "é".encode(), b"\xff\x00\xfe"]


def roles(base, **sets):
    for name, values in sets.items():
        kind = TYPES[base]
        TYPES[f"{base}:{name}"] = Type(kind.arrow, kind.ours, kind.postgresql, kind.duckdb, values, kind.read)


def listed(item, *values):
    return Type(
        pyarrow.list_(TYPES[item].arrow),
        None,
        f"{TYPES[item].postgresql}[]",
        f"{TYPES[item].duckdb}[]",
        [None, *values],
        lambda items: [None if value is None else TYPES[item].read(value) for value in items],
    )


def binary(value):
    return value


TYPES = {
    "boolean": Type(pyarrow.bool_(), "BOOLEAN", "boolean", "BOOLEAN", [None, "true", "false"], lambda text: text == "true"),
    "int8": whole(pyarrow.int8(), "TINYINT", "smallint", "TINYINT", 8, True),
    "int16": whole(pyarrow.int16(), "SMALLINT", "smallint", "SMALLINT", 16, True),
    "int32": whole(pyarrow.int32(), "INT", "integer", "INTEGER", 32, True),
    "int64": whole(pyarrow.int64(), "BIGINT", "bigint", "BIGINT", 64, True),
    "uint8": whole(pyarrow.uint8(), "TINYINT UNSIGNED", "smallint", "UTINYINT", 8, False),
    "uint32": whole(pyarrow.uint32(), "INT UNSIGNED", "bigint", "UINTEGER", 32, False),
    "uint64": whole(pyarrow.uint64(), "BIGINT UNSIGNED", "numeric(20, 0)", "UBIGINT", 64, False),
    "float32": Type(pyarrow.float32(), "REAL", "real", "FLOAT", [*FLOATS, "3.4028235e38", "1e-45"], float),
    "float64": Type(pyarrow.float64(), "DOUBLE", "double precision", "DOUBLE", [*FLOATS, "1.7976931348623157e308", "5e-324", "9007199254740993", "-1234.5678"], float),
    "decimal9": decimals(9, 2, "0.00", "0.05", "-0.05", "1.50", "2.50", "-2.50", "1234567.89", "9999999.99", "-9999999.99"),
    "decimal18": decimals(18, 6, "0.000000", "0.000001", "-1.500000", "999999999999.999999", "-999999999999.999999"),
    "decimal38": decimals(38, 10, "0.0000000000", "0.0000000001", "1.5000000000", "-2.5000000000", NINES[:28] + "." + NINES[:10]),
    "decimal38_0": decimals(38, 0, "0", "1", "-7", "12345678901234567890123456789", NINES, "-" + NINES),
    "text": Type(pyarrow.string(), "VARCHAR", "text", "VARCHAR", TEXTS, str),
    "binary": Type(pyarrow.binary(), "BYTEA", "bytea", "BLOB", BYTES, binary),
    "date": Type(pyarrow.date32(), "DATE", "date", "DATE", [None, "0001-01-01", "1582-10-04", "1582-10-15", "1969-12-31", "1970-01-01", "2024-01-31", "2024-02-29", "2024-12-30", "9999-12-31"], datetime.date.fromisoformat),
    "time": Type(pyarrow.time64("us"), "TIME", "time", "TIME", [None, "00:00:00", "10:20:30.998", "23:59:59.999999"], datetime.time.fromisoformat),
    "timestamp": times("us", "TIMESTAMP(6)", STAMPS, 1_000_000),
    "timestamp_s": times("s", "TIMESTAMP(0)", [None if text is None else text.split(".")[0] for text in STAMPS], 1),
    "timestamp_ms": times("ms", "TIMESTAMP(3)", [None if text is None else text[:23] for text in STAMPS], 1000),
    "timestamp_ns": times("ns", "TIMESTAMP", [None, "1677-09-22 00:00:00", *STAMPS[3:7], "2262-04-11 23:47:16"], 1_000_000_000),
    "timestamptz": times("us", "TIMESTAMPTZ", STAMPS, 1_000_000, "UTC", "timestamptz", "TIMESTAMPTZ"),
    # A file has no intervals: the column is a text, and queries cast it.
    "interval": Type(pyarrow.string(), "INTERVAL", "interval", "INTERVAL", INTERVALS, str),
}
TYPES |= {
    "int64[]": listed("int64", [], ["1"], ["1", "2", "3"], ["3", "1", "2", "1"], [None], ["1", None, "3"], ["9223372036854775807", "-9223372036854775808"]),
    "float64[]": listed("float64", [], ["1.5", "NaN"], ["0.0", "-0.0"], ["Infinity", None], ["3.0", "4.0"], ["1.0", "2.0"]),
    "text[]": listed("text", [], ["a"], ["b", "a", None, ""], ["é", "a", "a"], [None, None]),
}
TYPES["int64[][]"] = Type(pyarrow.list_(TYPES["int64[]"].arrow), None, None, "BIGINT[][]", [None, [], [["1", "2"], ["3"]], [[]], [None, ["1", None]], [["1", "2"], ["1", "2"]]], lambda rows: [None if row is None else TYPES["int64[]"].read(row) for row in rows])
TYPES["struct"] = Type(pyarrow.struct([("x", pyarrow.int64()), ("y", pyarrow.string())]), None, None, "STRUCT(x BIGINT, y VARCHAR)", [None, ("1", "a"), ("2", None), (None, None), ("1", "é")], lambda pair: {"x": None if pair[0] is None else int(pair[0]), "y": pair[1]})
TYPES["map"] = Type(pyarrow.map_(pyarrow.string(), pyarrow.int64()), None, None, "MAP(VARCHAR, BIGINT)", [None, (), (("a", "1"),), (("b", "2"), ("a", None))], lambda entries: [(key, None if value is None else int(value)) for key, value in entries])

roles(
    "text",
    zone=["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "+05:30"],
    unit=["microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year"],
    part=["microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year", "dow", "doy", "isodow", "isoyear", "epoch"],
    pattern=[None, "", "a", "a%", "%b", "_", "a_b", "%", "é", "h%d", "a\\%b", "%\n%"],
    regex=["", "a", "^a", "b$", ".", ".*", "a|b", "[a-z]+", "(a)(b)?", "l{2}", "\\d+", "x.y", "^$", "w(ö)r"],
    flags=["", "i", "g"],
    short=[None, "", "a", "é", "ab", ","],
    stamp=[None, "2024-02-29", "2024-02-29 12:34:56", "2024-02-29T12:34:56.789123", "1969-12-31 23:59:59.5", "0001-01-01", "9999-12-31 23:59:59", "2023-02-29", "nonsense", "", " 2024-02-29 "],
    zoned=[None, "2024-02-29 12:34:56Z", "2024-02-29 12:34:56+02:00", "2024-03-31 02:30:00Z", "nonsense"],
    time=[None, "00:00:00", "12:34:56", "12:34:56.789", "24:00:00", "25:00:00", "12:34", "x"],
    number=[None, "0", "-0", "12", "-1.50", "1e3", "NaN", "inf", "Infinity", "99999999999999999999", " 7 ", "0x10", "1_000", "", "x", "1.", ".5"],
    interval=INTERVALS + ["x", ""],
    boolean=[None, "true", "TRUE", "t", "yes", "on", "1", "false", "f", "no", "off", "0", "", "x"],
    hex=[None, "", "61", "C3a9", "zz", "abc"],
    json=[None, "", "1", '"s"', "null", "[]", "[1.50, null]", '{"a": 1}', '{"a": "x\\u00e9\\n\\""}', '{"a": null}', '{"a": 1e400, "a": 2.50}', ' { "a" : [ 7 , {"b" : true} ] } ', '{"A": 1}', '{"a": ""}', '{"a": 1', '{"a": 1} x', "{'a': 1}", "NaN", '{"a": 12345678901234567890}'],
    base64=[None, "", "YQ==", "YWI=", "YWJj", "w6k=", "!!"],
)
roles("int32", small=[None, "-2", "-1", "0", "1", "2", "3", "5"])
roles("int64", small=[None, "-2", "-1", "0", "1", "2", "3", "5"], seconds=[None, "0", "-1", "1705314030", "-62135596800", "253402300799", "9223372036854775807"], char=[None, "-1", "0", "65", "233", "128512", "55296", "1114112"], year=[None, "0", "1", "1582", "2024", "9999", "10000"], month=["0", "1", "2", "12", "13"], day=["0", "1", "29", "30", "31", "32"], shift=[None, "0", "1", "31", "63", "64", "-1"])
roles("float64", moving=["1.0", "0.1", None, "1e16", "1.0", "NaN", "2.0", "3.0", "Infinity", "1.5", "-Infinity", "0.25", "-1e16", "7.0", "-0.0"], seconds=[None, "0.0", "-0.5", "1705314030.25", "NaN", "Infinity", "1e19"], fraction=["0.0", "0.25", "0.5", "1.0"], small=[None, "-2.5", "0.0", "0.5", "1.0", "2.0", "709.0"])
roles("interval", step=["15 minutes", "1 day", "1 hour", "7 days"])
roles("decimal9", small=[None, "-2.00", "0.00", "0.50", "1.00", "2.00"])


def base(name):
    return name.split(":")[0]


def literal(name, value):
    """The value as a literal of this project."""
    kind = TYPES[name]
    if value is None:
        return f"arrow_cast(NULL, '{arrow_name(kind.arrow)}')" if base(name) != "interval" else "CAST(NULL AS INTERVAL)"
    of_base = base(name)
    if of_base == "text":
        return quoted(value)
    if of_base == "binary":
        return f"X'{value.hex()}'"
    if of_base.endswith("[]"):
        items = ", ".join(literal(of_base[:-2], item) for item in value)
        return f"arrow_cast([{items}], '{arrow_name(kind.arrow)}')"
    if of_base == "struct":
        return f"named_struct('x', {literal('int64', value[0])}, 'y', {literal('text', value[1])})"
    if of_base == "map":
        keys = ", ".join(quoted(key) for key, _ in value)
        items = ", ".join(literal("int64", item) for _, item in value)
        return f"map([{keys}], [{items}])"
    if of_base == "timestamptz":
        value += "Z"
    return f"CAST({quoted(value)} AS {kind.ours})"


def arrow_name(arrow):
    """An Arrow type as arrow_cast names it."""
    if pyarrow.types.is_list(arrow):
        return f"List({arrow_name(arrow.value_type)})"
    if pyarrow.types.is_struct(arrow):
        return "Struct(" + ", ".join(f'"{field.name}": {arrow_name(field.type)}' for field in arrow) + ")"
    if pyarrow.types.is_map(arrow):
        return f'Map("entries": Struct("key": non-null {arrow_name(arrow.key_type)}, "value": {arrow_name(arrow.item_type)}), unsorted)'
    if pyarrow.types.is_decimal(arrow):
        return f"Decimal128({arrow.precision}, {arrow.scale})"
    if pyarrow.types.is_timestamp(arrow):
        unit = {"s": "Second", "ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"}[arrow.unit]
        return f"Timestamp({unit}, {'None' if arrow.tz is None else 'Some(' + chr(34) + arrow.tz + chr(34) + ')'})"
    names = {pyarrow.bool_(): "Boolean", pyarrow.float32(): "Float32", pyarrow.float64(): "Float64", pyarrow.string(): "Utf8", pyarrow.binary(): "Binary", pyarrow.date32(): "Date32", pyarrow.time64("us"): "Time64(Microsecond)"}
    return names.get(arrow) or str(arrow).replace("uint", "UInt").replace("int", "Int") if arrow in names or "int" in str(arrow) else str(arrow)


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


# Rows of a table of several arguments: all combinations where there are few, and a spread of them otherwise.
MOST_ROWS = 110


def rows(names):
    """The rows of arguments of these types."""
    sets = [TYPES[name].values for name in names]
    total = math.prod(len(values) for values in sets)
    if total <= MOST_ROWS:
        return list(itertools.product(*sets))
    # A step without common divisor visits combinations of all values.
    step = next(step for step in range(total // MOST_ROWS + 1, total) if math.gcd(step, total) == 1)
    chosen = sorted({number * step % total for number in range(MOST_ROWS)})
    found = []
    for number in chosen:
        row = []
        for values in sets:
            number, place = divmod(number, len(values))
            row.append(values[place])
        found.append(tuple(row))
    return found


def groups(names):
    """Rows for aggregates: `g` numbers the group, each row alone, neighbours, those without NULL and special floats, and all."""
    all_rows = rows(names)
    all_rows = all_rows[:: max(1, len(all_rows) // 24)][:24]
    tame = [row for row in all_rows if not any(value in (None, "NaN", "Infinity", "-Infinity") for value in row)]
    middle = [row for row in tame if not any(isinstance(value, str) and (value.startswith("9999999") or "e308" in value or len(value) > 17 and value.lstrip("-").isdigit()) for value in row)]
    found = [[row] for row in all_rows]
    found += [list(pair) for pair in zip(all_rows, all_rows[1:])]
    found += [all_rows, tame, tame + tame, middle, middle[1:4]]
    return [(number, row) for number, group in enumerate(found) for row in group]
