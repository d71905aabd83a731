"""Values of all engines in one form, and whether two are the same.

A value is None, ERROR, or a tuple that begins with its kind. Exact numbers are fractions, so scales do not count. Timestamps are
microseconds, times and parts of intervals nanoseconds.
"""

import datetime
import hashlib
import math
import struct
import sys
from fractions import Fraction

import pyarrow

ERROR = ("error",)

# PostgreSQL has exact numbers of any length.
sys.set_int_max_str_digits(0)


def floating(value, width):
    return ("float", value, width)


def number(text):
    """An exact number, or NaN and the infinities of PostgreSQL's numeric."""
    if text in ("NaN", "Infinity", "-Infinity"):
        return floating(float(text), 64)
    return ("number", Fraction(text))


def ours(value):
    """A value as the test's process writes it."""
    if value is None:
        return None
    kind = value[0]
    if kind == "bool":
        return ("bool", value[1] == "true")
    if kind in ("f32", "f64"):
        return floating(float(value[1]), int(kind[1:]))
    if kind == "number":
        return number(value[1])
    if kind in ("date", "time"):
        return (kind, Fraction(value[1]))
    if kind in ("timestamp", "zoned"):
        return (kind, Fraction(int(value[1]), 1000))
    if kind == "interval":
        return ("interval", value[1], value[2], int(value[3]))
    if kind in ("list", "map"):
        return (kind, tuple(ours(item) for item in value[1]))
    if kind == "struct":
        return (kind, tuple(value[1]), tuple(ours(item) for item in value[2]))
    return tuple(value)


# PostgreSQL: texts and the numbers of types.

SCALARS = {16: "bool", 20: "number", 21: "number", 23: "number", 26: "number", 1700: "number", 700: "f32", 701: "f64", 25: "text", 1043: "text", 18: "text", 19: "text", 1042: "text", 705: "text", 17: "bytes", 1082: "date", 1083: "time", 1114: "timestamp", 1184: "zoned", 1186: "interval", 2205: "text", 2206: "text", 114: "text", 3802: "text"}

LISTS = {1016: 20, 1005: 21, 1007: 23, 1231: 1700, 1021: 700, 1022: 701, 1009: 25, 1015: 1043, 1000: 16, 1001: 17, 1182: 1082, 1183: 1083, 1115: 1114, 1185: 1184, 1187: 1186}


def postgresql(text, type_number):
    if text is None:
        return None
    if type_number in LISTS:
        return items(text, LISTS[type_number])
    kind = SCALARS.get(type_number, "other")
    if kind == "bool":
        return ("bool", text == "t")
    if kind == "number":
        return number(text)
    if kind in ("f32", "f64"):
        return floating(float(text), int(kind[1:]))
    if kind == "bytes":
        return ("bytes", text.removeprefix("\\x"))
    if kind in ("date", "timestamp", "zoned"):
        return moment(kind, text)
    if kind == "time":
        return ("time", clock(text) * 1000)
    if kind == "interval":
        return interval(text)
    return (kind, text)


def items(text, type_number):
    """A list as PostgreSQL writes it: {1,NULL,"a b"}."""
    if "]=" in text:
        return ("other", text)
    position = 0

    def read():
        nonlocal position
        if text[position] == "{":
            position += 1
            found = []
            while text[position] != "}":
                found.append(read())
                if text[position] == ",":
                    position += 1
            position += 1
            return ("list", tuple(found))
        if text[position] == '"':
            position += 1
            word = ""
            while text[position] != '"':
                position += text[position] == "\\"
                word += text[position]
                position += 1
            position += 1
            return postgresql(word, type_number)
        begin = position
        while text[position] not in ",}":
            position += 1
        word = text[begin:position]
        return None if word == "NULL" else postgresql(word, type_number)

    return read()


def days(year, month, day):
    """Days since 1970-01-01 in the Gregorian calendar, of any year."""
    shifted = year + 400 * 30
    # A year that Python has, with the same calendar.
    like = shifted % 400 + 2000
    return (datetime.date(like, month, day) - datetime.date(1970, 1, 1)).days + (year - like) // 400 * 146097


def moment(kind, text):
    if "infinity" in text:
        return (kind, text)
    before_christ = text.endswith(" BC")
    text = text.removesuffix(" BC")
    date, _, rest = text.partition(" ")
    year, month, day = (int(part) for part in date.split("-"))
    day_number = days(1 - year if before_christ else year, month, day)
    if kind == "date":
        return (kind, Fraction(day_number))
    offset = 0
    for sign in "+-":
        if sign in rest:
            rest, _, zone = rest.partition(sign)
            parts = [int(part) for part in zone.split(":")]
            seconds = sum(part * 60 ** (2 - place) for place, part in enumerate(parts))
            offset = seconds if sign == "+" else -seconds
    return (kind, day_number * 86_400_000_000 + clock(rest) - offset * 1_000_000)


def clock(text):
    """Microseconds of a time of day, or of a length that may have a sign."""
    sign = -1 if text.startswith("-") else 1
    hours, minutes, *seconds = text.lstrip("+-").split(":")
    return sign * (int(hours) * 3_600_000_000 + int(minutes) * 60_000_000 + Fraction(seconds[0] if seconds else 0) * 1_000_000)


def interval(text):
    """An interval in PostgreSQL's own style: 1 year 2 mons -3 days 04:05:06.7."""
    months = found_days = 0
    nanoseconds = Fraction(0)
    words = text.split()
    while words:
        word = words.pop(0)
        if ":" in word:
            nanoseconds += clock(word) * 1000
            continue
        unit = words.pop(0)
        if unit.startswith("year"):
            months += int(word) * 12
        elif unit.startswith("mon"):
            months += int(word)
        elif unit.startswith("day"):
            found_days += int(word)
    return ("interval", months, found_days, int(nanoseconds))


def arrow(value):
    """A value of DuckDB, as a scalar of Arrow."""
    if not value.is_valid:
        return None
    kind = value.type
    types = pyarrow.types
    if types.is_boolean(kind):
        return ("bool", value.as_py())
    if types.is_integer(kind) or types.is_decimal(kind):
        return ("number", Fraction(value.as_py()))
    if types.is_float32(kind) or types.is_float64(kind):
        return floating(value.as_py(), kind.bit_width)
    if types.is_string(kind) or types.is_large_string(kind) or kind == pyarrow.string_view():
        return ("text", value.as_py())
    if types.is_binary(kind) or types.is_large_binary(kind) or kind == pyarrow.binary_view():
        return ("bytes", value.as_py().hex())
    if types.is_date32(kind):
        return ("date", Fraction(value.value))
    if types.is_time(kind):
        return ("time", Fraction(value.value) * (1000 if kind.unit == "us" else 1))
    if types.is_timestamp(kind):
        per_tick = {"s": 1_000_000, "ms": 1000, "us": 1, "ns": Fraction(1, 1000)}[kind.unit]
        if value.value in (2**63 - 1, -(2**63 - 1)):
            return ("timestamp", "infinity" if value.value > 0 else "-infinity")
        return ("zoned" if kind.tz else "timestamp", Fraction(value.value) * per_tick)
    if types.is_interval(kind):
        return ("interval", *value.as_py())
    if types.is_duration(kind):
        return ("interval", 0, 0, value.value * 1000)
    if types.is_map(kind):
        entries = [value.values[place] for place in range(len(value.values))]
        return ("map", tuple(arrow(entry) for entry in entries))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return ("list", tuple(arrow(value.values[place]) for place in range(len(value.values))))
    if types.is_struct(kind):
        names = [field.name for field in kind]
        return ("struct", tuple(names), tuple(arrow(value[place]) for place in range(len(names))))
    return ("other", str(value))


def steps(one, other, width):
    """How many floating point numbers lie between two of them."""
    if math.isnan(one) or math.isnan(other):
        return 0 if math.isnan(one) and math.isnan(other) else math.inf
    if width == 32:
        try:
            one, other = (struct.unpack("f", struct.pack("f", value))[0] for value in (one, other))
        except OverflowError:
            return math.inf

    def place(value):
        packed = struct.unpack("i" if width == 32 else "q", struct.pack("f" if width == 32 else "d", value))[0]
        return packed if packed >= 0 else -(2 ** (width - 1)) - packed

    if math.isinf(one) != math.isinf(other):
        return math.inf
    # -0 and 0 are two bit patterns, and no steps apart in value.
    if one == other == 0:
        return 0 if math.copysign(1, one) == math.copysign(1, other) else math.inf
    return abs(place(one) - place(other))


def same(judged, found, ulps=0):
    if judged is None or found is None:
        return judged is None and found is None
    kinds = (judged[0], found[0])
    if kinds == ("float", "float"):
        return steps(judged[1], found[1], min(judged[2], found[2])) <= ulps
    if set(kinds) == {"float", "number"}:
        exact, approximate = (judged, found) if kinds[0] == "number" else (found, judged)
        try:
            nearest = float(exact[1])
        except OverflowError:
            return False
        return steps(abs(nearest) if nearest == 0 else nearest, abs(approximate[1]) if approximate[1] == 0 else approximate[1], approximate[2]) <= ulps
    if kinds[0] != kinds[1]:
        return False
    if kinds[0] in ("list", "map"):
        return len(judged[1]) == len(found[1]) and all(same(one, other, ulps) for one, other in zip(judged[1], found[1]))
    if kinds[0] == "struct":
        return len(judged[2]) == len(found[2]) and all(same(one, other, ulps) for one, other in zip(judged[2], found[2]))
    return judged == found


def unsigned_zeros(value):
    """A value whose zeros have no sign: SQL compares them as equal, so an aggregate may return either."""
    if value and value[0] == "float" and value[1] == 0:
        return floating(0.0, value[2])
    if value and value[0] == "list":
        return ("list", tuple(unsigned_zeros(item) for item in value[1]))
    return value


def digest(answers):
    """A short checksum of answers, for rules that no judge has."""
    text = repr([(number, shown(value)) for number, value in sorted(answers.items())])
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def shown(value):
    """A value for messages."""
    if value is None:
        return "NULL"
    kind = value[0]
    if kind == "error":
        return "error"
    if kind == "float":
        return f"{value[1]!r}{'f' if value[2] == 32 else ''}"
    if kind == "number":
        exact = value[1]
        return str(exact.numerator) if exact.denominator == 1 else decimal_text(exact)
    if kind in ("list", "map"):
        return ("[" if kind == "list" else "map[") + ", ".join(map(shown, value[1])) + "]"
    if kind == "struct":
        return "{" + ", ".join(f"{name}: {shown(item)}" for name, item in zip(value[1], value[2])) + "}"
    if kind in ("timestamp", "zoned") and isinstance(value[1], Fraction):
        seconds, micros = divmod(value[1], 1_000_000)
        day, second = divmod(int(seconds), 86_400)
        try:
            date = datetime.date(1970, 1, 1) + datetime.timedelta(days=day)
        except OverflowError:
            date = f"day {day}"
        return f"{date} {second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.{float(micros):06g}{'Z' if kind == 'zoned' else ''}"
    if kind == "date" and isinstance(value[1], Fraction):
        try:
            return str(datetime.date(1970, 1, 1) + datetime.timedelta(days=int(value[1])))
        except OverflowError:
            return f"day {value[1]}"
    if kind in ("text", "bytes"):
        return f"{kind} {value[1]!r}"
    return " ".join(str(part) for part in value)


def decimal_text(exact):
    """A fraction whose denominator is a power of ten, in full."""
    scale = 0
    while exact.denominator != 1 and scale < 120:
        exact *= 10
        scale += 1
    sign = "-" if exact < 0 else ""
    digits = str(abs(int(exact))).rjust(scale + 1, "0")
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}"
