"""What a table becomes as features: the mapping's rules, written down a second time.

Nothing here looks at our own code or output. `Column` says what a column must become, `rows` what each of its values
must, in plain Python; pyarrow, numpy and exact fractions do the arithmetic.
"""

import datetime
import decimal
import re
import struct
from fractions import Fraction

import numpy as np
import pyarrow as pa

ABSENT = None  # no entry in the record
KINDS = {"int64": "int64_list", "float": "float_list", "bytes": "bytes_list"}
NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
UNITS = {"seconds": "s", "millis": "ms", "micros": "us"}
FLOAT32_MAX = Fraction(2**128 - 2**104)


class Refused(Exception):
    """The mapping refuses a column, or one of its values."""

    def __init__(self, column, reason):
        super().__init__(f"column {column}{reason}")
        self.column = column


def storage(dtype):
    """The type below extension, dictionary and run-end types."""
    while True:
        if isinstance(dtype, pa.BaseExtensionType):
            dtype = dtype.storage_type
        elif pa.types.is_dictionary(dtype) or pa.types.is_run_end_encoded(dtype):
            dtype = dtype.value_type
        else:
            return dtype


def is_list(dtype):
    return (
        pa.types.is_list(dtype)
        or pa.types.is_large_list(dtype)
        or pa.types.is_fixed_size_list(dtype)
        or pa.types.is_list_view(dtype)
        or pa.types.is_large_list_view(dtype)
    )


def is_text(dtype):
    return pa.types.is_string(dtype) or pa.types.is_large_string(dtype) or pa.types.is_string_view(dtype)


def is_binary(dtype):
    return (
        pa.types.is_binary(dtype)
        or pa.types.is_large_binary(dtype)
        or pa.types.is_binary_view(dtype)
        or pa.types.is_fixed_size_binary(dtype)
    )


def is_temporal(dtype):
    return (
        pa.types.is_date(dtype) or pa.types.is_time(dtype) or pa.types.is_timestamp(dtype) or pa.types.is_duration(dtype)
    )


class Column:
    """One column of the source table and the feature it must become."""

    def __init__(self, field, choice=None):
        self.name, self.choice = field.name, choice
        dtype = storage(field.type)
        self.is_list = is_list(dtype)
        self.dtype = storage(dtype.value_type) if self.is_list else dtype
        self.kind = self._kind()
        # A list as a tensor is one value.
        self.many = self.is_list and choice != "tensor"

    def _kind(self):
        dtype, choice = self.dtype, self.choice
        if pa.types.is_null(dtype):
            return None
        if pa.types.is_boolean(dtype) or pa.types.is_integer(dtype):
            return "int64"
        if pa.types.is_floating(dtype):
            return {None: "float", "bits": "int64", "string": "bytes", "tensor": "bytes"}[choice]
        if pa.types.is_decimal(dtype):
            return {None: "float", "string": "bytes", "unscaled": "int64"}[choice]
        if is_text(dtype) or is_binary(dtype):
            return "bytes"
        if is_temporal(dtype):
            return "bytes" if choice == "string" else "int64"
        raise Refused(self.name, f": {dtype} has no feature of its own")

    def rows(self, values):
        """The feature of each value of a chunked array: a list, or ABSENT."""
        for row, value in enumerate(plain(values)):
            if value is None or self.kind is None:
                yield ABSENT
            elif not self.is_list:
                yield [self._value(value, row)]
            elif any(element is None for element in value):
                raise Refused(self.name, f", row {row}: null inside a list")
            elif not self.many:
                yield [Written(value, self)]
            else:
                yield [self._value(element, row) for element in value]

    def _value(self, value, row):
        dtype, choice = self.dtype, self.choice
        if pa.types.is_uint64(dtype) and value > 2**63 - 1:
            if choice == "wrap":
                return value - 2**64
            raise Refused(self.name, f", row {row}: {value} is beyond int64")
        if pa.types.is_boolean(dtype) or pa.types.is_integer(dtype):
            return int(value)
        if pa.types.is_float64(dtype) and choice == "bits":
            return struct.unpack("<q", struct.pack("<d", value))[0]
        if pa.types.is_floating(dtype):
            if choice is not None:
                return Written(value, self)
            with np.errstate(over="ignore", under="ignore"):
                narrowed = np.float32(value)
            if np.isinf(narrowed) and not np.isinf(value):
                raise Refused(self.name, f", row {row}: {value} is beyond float32")
            return narrowed
        if pa.types.is_decimal(dtype):
            if choice == "string":
                return Written(value, self)
            if choice == "unscaled":
                return int(value.scaleb(dtype.scale, decimal.Context(prec=100)))
            return self._nearest(Fraction(value), row)
        if is_temporal(dtype):
            if choice == "string":
                return Written(value, self)
            if choice is not None:
                return value * nanoseconds(dtype) // NANOSECONDS[UNITS[choice]]
            return value
        return value.encode() if isinstance(value, str) else value

    def _nearest(self, exact, row):
        """The float32 nearest to an exact number, ties to the even one."""
        if abs(exact) >= FLOAT32_MAX + Fraction(2**103):
            raise Refused(self.name, f", row {row}: {float(exact)} is beyond float32")
        guess = np.float32(float(exact))
        around = [guess, np.nextafter(guess, np.float32(np.inf)), np.nextafter(guess, np.float32(-np.inf))]
        finite = [value for value in around if np.isfinite(value)]
        return min(finite, key=lambda value: (abs(Fraction(float(value)) - exact), value.view(np.uint32) & 1))


class Written:
    """A value that stands in the record as text or as a tensor: compared by what it reads back as."""

    def __init__(self, value, column):
        self.value, self.column = value, column

    def __repr__(self):
        return f"{self.column.choice} of {self.value!r}"

    def is_read_from(self, found):
        value, dtype = self.value, self.column.dtype
        if self.column.choice == "tensor":
            import tensorflow as tf

            tensor = tf.io.parse_tensor(found, tf.float64).numpy()
            return tensor.shape == np.shape(value) and tensor.tobytes() == np.float64(value).tobytes()
        text = found.decode()
        if pa.types.is_decimal(dtype):
            # Every digit of the scale is there, and no exponent.
            return re.fullmatch(r"-?\d+(\.\d+)?", text) is not None and decimal.Decimal(text).compare_total(value) == 0
        if pa.types.is_floating(dtype):
            read = float(text)
            return struct.pack("<d", read) == struct.pack("<d", value) or (read != read and value != value)
        return from_iso(text) == value * nanoseconds(dtype)


ISO = re.compile(
    r"(?:(?P<date>\d{4}-\d\d-\d\d))?T?(?:(?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)(?P<f>\.\d{1,9})?)?"
    r"(?P<zone>Z|[+-]\d\d:\d\d)?"
)


def from_iso(text):
    """Nanoseconds since the epoch, or since midnight, of a date, a time or both in ISO 8601."""
    parts = ISO.fullmatch(text)
    if parts is None or not text:
        return None
    total = 0
    if parts["date"]:
        total += (datetime.date.fromisoformat(parts["date"]) - datetime.date(1970, 1, 1)).days * 86_400 * 10**9
    if parts["h"]:
        total += (int(parts["h"]) * 3600 + int(parts["m"]) * 60 + int(parts["s"])) * 10**9
        total += int((parts["f"] or ".0")[1:].ljust(9, "0"))
    if parts["zone"] and parts["zone"] != "Z":
        hours, minutes = parts["zone"][1:].split(":")
        offset = (int(hours) * 60 + int(minutes)) * 60 * 10**9
        total += offset if parts["zone"][0] == "-" else -offset
    return total


def nanoseconds(dtype):
    """How many nanoseconds one unit of a temporal type is."""
    if pa.types.is_date32(dtype):
        return 86_400 * 10**9
    return NANOSECONDS["ms" if pa.types.is_date64(dtype) else dtype.unit]


def plain(values):
    """The values of a chunked array in plain Python, temporal ones as integers in their unit."""
    for chunk in values.chunks if isinstance(values, pa.ChunkedArray) else [values]:
        yield from _plain(chunk)


def _plain(array):
    dtype = array.type
    if isinstance(dtype, pa.BaseExtensionType):
        return _plain(array.storage)
    if pa.types.is_dictionary(dtype):
        values = _plain(array.dictionary)
        return [None if index is None else values[index] for index in array.indices.to_pylist()]
    if pa.types.is_run_end_encoded(dtype):
        return _plain(pa.compute.run_end_decode(array))
    if is_list(dtype):
        elements = _plain(array.flatten())
        lengths = pa.compute.list_value_length(array).to_pylist()
        lists, start = [], 0
        for length in lengths:
            lists.append(None if length is None else elements[start : start + length])
            start += length or 0
        return lists
    if pa.types.is_date32(dtype) or pa.types.is_time32(dtype):
        array = array.cast(pa.int32())
    elif is_temporal(dtype):
        array = array.cast(pa.int64())
    return array.to_pylist()


def same(expected, found):
    """Whether a value of a record is the one expected. Every NaN is the same one."""
    if isinstance(expected, Written):
        return expected.is_read_from(found)
    if isinstance(expected, np.float32):
        found = np.float32(found)
        return found.tobytes() == expected.tobytes() or (np.isnan(found) and np.isnan(expected))
    return found == expected
