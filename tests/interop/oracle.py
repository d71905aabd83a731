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


class Rules:
    """What was said of the columns: forms, nulls, sequences. Of a part of a column, by the part's path."""

    def __init__(self, choices=None, nulls="absent", column_nulls=None, record_type="example", sequences=()):
        self.choices, self.nulls, self.column_nulls = choices or {}, nulls, column_nulls or {}
        self.record_type, self.sequences = record_type, set(sequences)

    @classmethod
    def of(cls, job):
        return cls(
            job.get("choices"),
            job.get("nulls", "absent"),
            job.get("column_nulls"),
            job.get("record_type", "example"),
            job.get("sequences", ()),
        )


class Part:
    """A part of a column's type: a leaf, a struct, a list of any length, or one of a fixed length.

    A part that has a name of its own has a path; the element of a list has the list's.
    """

    def __init__(self, field, path, rules, nulls, choice, named=True):
        if named:
            nulls = rules.column_nulls.get(path, nulls)
            choice = rules.choices.get(path, choice)
        self.path, self.nullable, self.nulls, self.choice = path, field.nullable, nulls, choice
        self.dtype = dtype = storage(field.type)
        self.parts, self.length = [], None

        def part(field, path, named):
            return Part(field, path, rules, nulls, choice, named)

        if choice == "tensor" and is_list(dtype):  # all of it is one value
            self.kind = "leaf"
            self.dtype = innermost(dtype)
        elif is_list(dtype):
            self.kind, self.parts = "list", [part(dtype.value_field, path, False)]
            if pa.types.is_fixed_size_list(dtype):
                self.kind, self.length = "fixed", dtype.list_size
        elif pa.types.is_map(dtype):
            names = ("key", "value")
            fields = (dtype.key_field, dtype.item_field)
            entries = Part.__new__(Part)
            entries.path, entries.nullable, entries.nulls, entries.choice = path, False, nulls, choice
            entries.kind, entries.dtype, entries.length = "struct", dtype, None
            entries.parts = [part(field, f"{path}/{name}", True) for field, name in zip(fields, names)]
            self.kind, self.parts = "list", [entries]
        elif pa.types.is_struct(dtype):
            self.kind = "struct"
            self.parts = [part(field, f"{path}/{field.name}", True) for field in fields_of(dtype)]
        else:
            self.kind = "leaf"

    def leaves(self):
        if self.kind == "leaf":
            return [self]
        return [leaf for part in self.parts for leaf in part.leaves()]

    def is_always_there(self):
        """Whether it leaves something in every record in which it is not null."""
        if self.nullable:
            return False
        if self.kind == "struct":
            return any(part.is_always_there() for part in self.parts)
        return self.kind != "leaf" or not pa.types.is_null(self.dtype)


class Feature:
    """A feature of a column: the values of a leaf, lengths of the lists around it, or where a part is null."""

    def __init__(self, name, key, role, chain, dims, kind, depth=None):
        self.name, self.role, self.chain, self.dims, self.kind, self.depth = name, role, chain, dims, kind, depth
        self.key = key  # what the column is called where it is read with its lengths
        self.many = bool(dims)

    @property
    def leaf(self):
        return self.chain[-1]

    @property
    def dtype(self):
        return self.leaf.dtype if self.role == "values" else pa.int64()

    @property
    def choice(self):
        return self.leaf.choice if self.role == "values" else None


class Column:
    """One column of the source table and the features it must become."""

    def __init__(self, field, rules=None):
        rules = rules or Rules()
        self.name = field.name
        self.root = Part(field, field.name, rules, rules.nulls, None)
        self.in_steps = self._is_sequence(rules)
        self.features = []
        if self.in_steps:
            self._add([self.root.parts[0]], [])
        else:
            self._add([self.root], [])

    def _is_sequence(self, rules):
        if rules.record_type != "sequence-example":
            return False
        is_list = self.root.kind == "list" and not pa.types.is_map(self.root.dtype)
        return is_list and self.root.parts[0].kind != "leaf" or self.name in rules.sequences

    def _add(self, chain, dims):
        """The features of the last part of a chain, with lists of these lengths around it; None is any length.

        A mask stands where a part may be null and no missing feature says so by itself: `is_null` of a leaf, and of a
        struct that stands in a list or has no field that is always there; `is_null_0`, `_1`, ... of inner lists.
        """
        part = chain[-1]
        in_list = bool(dims) or self.in_steps
        if part.kind == "leaf":
            self._add_leaf(chain, dims)
        elif part.kind == "list" and not any(has_feature(leaf) for leaf in part.leaves()):
            raise Refused(self.name, f": {part.dtype} has no element with a value")
        within = [*dims, part.length] if part.kind in ("list", "fixed") else dims
        for inner in part.parts:
            self._add([*chain, inner], within)
        if part.nullable and part.nulls == "mask":
            told = any(inner.is_always_there() for inner in part.parts)
            if part.kind == "leaf" and has_feature(part) or part.kind == "struct" and (in_list or not told):
                self._add_mask(chain, dims, f"{part.path}/is_null")
            elif part.kind in ("list", "fixed") and in_list:
                level = len(dims) if self.in_steps else len(dims) - 1
                self._add_mask(chain, dims, f"{part.path}/is_null_{level}")

    def _add_mask(self, chain, dims, name):
        self.features.append(Feature(name, name, "mask", chain, dims, "int64"))

    def _add_leaf(self, chain, dims):
        path, kind = chain[-1].path, kind_of(chain[-1], self.name)
        if kind is None:
            if dims:
                raise Refused(self.name, ": a list of nothing")
            return
        ragged = [depth for depth, length in enumerate(dims) if length is None and depth > 0]
        name = f"{path}/ragged_flat_values" if ragged else path
        self.features.append(Feature(name, path, "values", chain, dims, kind))
        for level, depth in enumerate(ragged):
            name = f"{path}/ragged_row_lengths_{level}"
            self.features.append(Feature(name, name, "lengths", chain, dims[:depth], "int64", depth))

    def rows(self, values):
        """The features of each value of a chunked array, by name. Of a sequence, each is a list of what steps have."""
        for row in self.nested(values):
            yield {feature.name: flat(feature, value) for feature, value in row.items() if value is not ABSENT}

    def nested(self, values):
        """As `rows`, before lists in lists are made flat; a feature that is not there is ABSENT."""
        for row, value in enumerate(plain(values)):
            yield {feature: self.feature(feature, value, row) for feature in self.features}

    def feature(self, feature, value, row):
        if not self.in_steps:
            return self._project(feature, 0, value, False, False, row)
        if value is None:
            if self.root.nulls == "error":
                raise Refused(self.name, f", row {row}: null")
            return ABSENT
        return Steps(self._project(feature, 0, step, True, False, row) for step in value)

    def _project(self, feature, at, value, in_list, under_null, row):
        """A value as the nested list of what a feature keeps of it. `under_null`: something around it is null."""
        part = feature.chain[at]
        last = at == len(feature.chain) - 1
        if last and feature.role == "mask":
            return int(value is None)
        if value is None and not under_null:
            if in_list and part.nulls != "mask":
                raise Refused(part.path, f", row {row}: null inside a list")
            if part.nulls == "error":
                raise Refused(part.path, f", row {row}: null")
        if value is None and not in_list and part.kind != "struct":
            return ABSENT
        under_null = under_null or value is None

        def within(inner, in_list):
            return self._project(feature, at + 1, inner, in_list, under_null, row)

        if part.kind == "leaf":
            if value is None:
                return {"int64": 0, "float": np.float32(0), "bytes": b""}[feature.kind]
            return convert(part, value, row)
        if part.kind == "struct":
            position = part.parts.index(feature.chain[at + 1])
            return within(None if value is None else value[position], in_list)
        if part.kind == "fixed" and value is None:
            return [within(None, True)] * part.length
        return [] if value is None else [within(element, True) for element in value]


def flat(feature, value):
    """What is in a record of a feature, given its nested list."""
    if isinstance(value, Steps):
        return [flat(feature, step) for step in value]
    if feature.role == "lengths":
        return [len(inner) for inner in flattened(value, feature.depth)]
    return flattened(value, len(feature.dims))


def flattened(value, depth):
    values = [value]
    for _ in range(depth):
        values = [inner for value in values for inner in value]
    return values


class Steps(list):
    """One value for each step of a sequence."""


def fields_of(dtype):
    return [dtype.field(i) for i in range(dtype.num_fields)]


def innermost(dtype):
    while is_list(dtype):
        dtype = storage(dtype.value_type)
    return dtype


def has_feature(leaf):
    return not pa.types.is_null(leaf.dtype)


def kind_of(leaf, column):
    dtype, choice = leaf.dtype, leaf.choice
    if pa.types.is_null(dtype):
        return None
    if choice == "tensor":
        return "bytes"
    if pa.types.is_boolean(dtype) or pa.types.is_integer(dtype):
        return "int64"
    if pa.types.is_floating(dtype):
        return {"bits": "int64", "string": "bytes"}.get(choice, "float")
    if pa.types.is_decimal(dtype):
        return {"string": "bytes", "unscaled": "int64"}.get(choice, "float")
    if is_text(dtype) or is_binary(dtype):
        return "bytes"
    if is_temporal(dtype):
        return "bytes" if choice == "string" else "int64"
    raise Refused(column, f": {dtype} has no feature of its own")


def convert(leaf, value, row):
    """A value as it stands in a feature."""
    dtype, choice = leaf.dtype, leaf.choice
    if choice == "tensor":
        if any(element is None for element in flattened_all(value)):
            raise Refused(leaf.path, f", row {row}: null inside a list")
        return Written(value, leaf)
    if pa.types.is_uint64(dtype) and value > 2**63 - 1:
        if choice == "wrap":
            return value - 2**64
        raise Refused(leaf.path, f", row {row}: {value} is beyond int64")
    if pa.types.is_boolean(dtype) or pa.types.is_integer(dtype):
        return int(value)
    if pa.types.is_float64(dtype) and choice == "bits":
        return struct.unpack("<q", struct.pack("<d", value))[0]
    if pa.types.is_floating(dtype):
        if choice == "string":
            return Written(value, leaf)
        with np.errstate(over="ignore", under="ignore"):
            narrowed = np.float32(value)
        if np.isinf(narrowed) and not np.isinf(value):
            raise Refused(leaf.path, f", row {row}: {value} is beyond float32")
        return narrowed
    if pa.types.is_decimal(dtype):
        if abs(Fraction(value)) * 10**dtype.scale >= 10**dtype.precision:
            raise Refused(leaf.path, f", row {row}: {value} has more digits than {dtype}")
        if choice == "string":
            return Written(value, leaf)
        if choice == "unscaled":
            return int(value.scaleb(dtype.scale, decimal.Context(prec=100)))
        return nearest(Fraction(value), leaf, row)
    if is_temporal(dtype):
        if choice == "string":
            return Written(value, leaf)
        if choice is not None:
            return value * nanoseconds(dtype) // NANOSECONDS[UNITS[choice]]
        return value
    return value.encode() if isinstance(value, str) else value


def flattened_all(value):
    return [leaf for inner in value for leaf in flattened_all(inner)] if isinstance(value, list) else [value]


def nearest(exact, leaf, row):
    """The float32 nearest to an exact number, ties to the even one."""
    if abs(exact) >= FLOAT32_MAX + Fraction(2**103):
        raise Refused(leaf.path, f", row {row}: {float(exact)} is beyond float32")
    guess = np.float32(float(exact))
    around = [guess, np.nextafter(guess, np.float32(np.inf)), np.nextafter(guess, np.float32(-np.inf))]
    finite = [value for value in around if np.isfinite(value)]
    return min(finite, key=lambda value: (abs(Fraction(float(value)) - exact), value.view(np.uint32) & 1))


class Written:
    """A value that stands in the record as text or as a tensor: compared by what it reads back as."""

    def __init__(self, value, leaf):
        self.value, self.leaf = value, leaf

    def __repr__(self):
        return f"{self.leaf.choice} of {self.value!r}"

    def is_read_from(self, found):
        value, dtype = self.value, self.leaf.dtype
        if self.leaf.choice == "tensor":
            import tensorflow as tf

            expected = np.asarray(value, object if is_text(dtype) or is_binary(dtype) else dtype.to_pandas_dtype())
            if expected.dtype == object:
                tensor = tf.io.parse_tensor(found, tf.string).numpy()
                texts = [text.encode() if isinstance(text, str) else text for text in expected.ravel()]
                return tensor.shape == expected.shape and list(tensor.ravel()) == texts
            tensor = tf.io.parse_tensor(found, tf.as_dtype(expected.dtype)).numpy()
            return tensor.shape == expected.shape and tensor.tobytes() == expected.tobytes()
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
    if pa.types.is_map(dtype):
        entries = list(zip(_plain(array.keys), _plain(array.items), strict=True))
        offsets = array.offsets.to_pylist()
        ranges = zip(offsets[:-1], offsets[1:], array.is_valid().to_pylist(), strict=True)
        return [entries[start:end] if valid else None for start, end, valid in ranges]
    if pa.types.is_struct(dtype):
        children = [_plain(array.field(i)) for i in range(dtype.num_fields)]
        values = list(zip(*children, strict=True)) if children else [()] * len(array)
        return [value if valid else None for value, valid in zip(values, array.is_valid().to_pylist(), strict=True)]
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
