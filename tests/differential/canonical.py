"""Values of both engines in one form, and whether two answers are the same."""

import datetime
import decimal
import math

EPOCH = datetime.datetime(1970, 1, 1)


def judged(value):
    """A value that DuckDB gave."""
    if value is None:
        return ("",)
    if isinstance(value, bool):
        return ("b", value)
    if isinstance(value, (int, decimal.Decimal)):
        return number(value)
    if isinstance(value, float):
        return number(value)
    if isinstance(value, str):
        return ("s", value)
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            return ("z", microseconds(value.astimezone(datetime.timezone.utc).replace(tzinfo=None)))
        return ("t", microseconds(value))
    if isinstance(value, datetime.date):
        # PostgreSQL and DuckDB give a timestamp where we give a date, and the other way round; midnight is the same.
        return ("t", microseconds(datetime.datetime(value.year, value.month, value.day)))
    if isinstance(value, datetime.timedelta):
        return ("i", value // datetime.timedelta(microseconds=1))
    if isinstance(value, bytes):
        return ("x", value.hex())
    if isinstance(value, (list, tuple)):
        return ("l", tuple(judged(item) for item in value))
    return ("?", str(value))


def tagged(value):
    """A value that PostgreSQL gave: a tag and a value, or an empty tuple for NULL."""
    if value == ():
        return ("",)
    if value[0] == "n":
        return number(value[1])
    if value[0] == "l":
        return ("l", tuple(map(tagged, value[1])))
    return value


def ours(value):
    """A value that the test's process gave: null, or a tag and a text."""
    if value is None:
        return ("",)
    if isinstance(value, list):
        return ("l", tuple(ours(item) for item in value))
    tag, text = value[0], value[1:]
    if tag == "b":
        return ("b", text == "true")
    if tag == "n":
        return number(decimal.Decimal(text))
    if tag == "f":
        return number(float(text))
    if tag in "tzi":
        return (tag, int(text))
    return (tag, text)


def microseconds(value):
    return (value - EPOCH) // datetime.timedelta(microseconds=1)


def number(value):
    """Numbers of all types are alike when their values are. Zeros have no sign: SQL compares them as equal, so a group of both
    may be shown as either."""
    if isinstance(value, float):
        if math.isnan(value):
            return ("n", "nan")
        if math.isinf(value):
            return ("n", "inf" if value > 0 else "-inf")
        if value == int(value) and abs(value) < 2**53:
            return ("n", int(value))
        return ("n", value)
    if value == value.to_integral_value() if isinstance(value, decimal.Decimal) else True:
        return ("n", int(value))
    return ("n", float(value))


def close(one, other):
    """Whether two values are the same, as exactly as a sum of doubles in any order can be."""
    if one == other:
        return True
    if one[0] != other[0]:
        return False
    if one[0] == "l":
        return len(one[1]) == len(other[1]) and all(map(close, one[1], other[1]))
    if one[0] != "n" or isinstance(one[1], str) or isinstance(other[1], str):
        return False
    if isinstance(one[1], int) and isinstance(other[1], int):
        return False
    return math.isclose(one[1], other[1], rel_tol=1e-9, abs_tol=1e-9)


def key(row):
    def of(value):
        if value[0] == "n" and not isinstance(value[1], str):
            return ("n", "", float(f"{value[1]:.8g}"))
        if value[0] == "l":
            return ("l", str([of(item) for item in value[1]]), 0.0)
        return (value[0], str(value[1:]), 0.0)

    return [of(value) for value in row]


def difference(expected, found, ordered):
    """What differs between two answers; None if nothing does."""
    if len(expected) != len(found):
        return f"{len(found)} rows instead of {len(expected)}"
    if not ordered:
        expected, found = sorted(expected, key=key), sorted(found, key=key)
    for one, other in zip(expected, found):
        if len(one) != len(other):
            return f"{len(other)} columns instead of {len(one)}"
        if not all(map(close, one, other)):
            return f"{other} instead of {one}"
    return None
