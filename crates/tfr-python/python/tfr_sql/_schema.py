"""Columns of Arrow data, read without another library."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Protocol

from ._errors import UsageError


class ArrowSchema(Protocol):
    """Columns that `pyarrow.schema`, polars and others read."""

    def __arrow_c_schema__(self) -> object: ...


class _CSchema(ctypes.Structure):
    """`struct ArrowSchema` of the Arrow C data interface."""


_CSchema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_void_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(_CSchema))),
    ("dictionary", ctypes.POINTER(_CSchema)),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]

_pointer_of_capsule = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of_capsule.restype = ctypes.c_void_p
_pointer_of_capsule.argtypes = [ctypes.py_object, ctypes.c_char_p]

#: Formats of types without parameters and their names in pyarrow.
_NAMES = {
    "n": "null", "b": "bool", "c": "int8", "C": "uint8", "s": "int16", "S": "uint16", "i": "int32", "I": "uint32",
    "l": "int64", "L": "uint64", "e": "halffloat", "f": "float", "g": "double", "z": "binary", "Z": "large_binary",
    "vz": "binary_view", "u": "string", "U": "large_string", "vu": "string_view", "tdD": "date32[day]",
    "tdm": "date64[ms]", "tts": "time32[s]", "ttm": "time32[ms]", "ttu": "time64[us]", "ttn": "time64[ns]",
    "tDs": "duration[s]", "tDm": "duration[ms]", "tDu": "duration[us]", "tDn": "duration[ns]",
    "tiM": "month_interval", "tiD": "day_time_interval", "tin": "month_day_nano_interval",
}  # fmt: skip

_UNITS = {"s": "s", "m": "ms", "u": "us", "n": "ns"}

_LISTS = {"+l": "list", "+L": "large_list", "+vl": "list_view", "+vL": "large_list_view"}


@dataclass(frozen=True)
class Field:
    """A column."""

    name: str
    #: The type as pyarrow shows it.
    type: str
    #: The type in the format of the Arrow C data interface.
    format: str


def fields_of(data: ArrowSchema) -> list[Field]:
    """Returns the columns of anything with `__arrow_c_schema__`."""
    capsule = data.__arrow_c_schema__()
    schema = _CSchema.from_address(_pointer_of_capsule(capsule, b"arrow_schema"))
    return [_field(child) for child in _children(schema)]


def _children(schema: Any) -> list[Any]:
    return [schema.children[child].contents for child in range(schema.n_children)]


def _field(schema: Any) -> Field:
    return Field((schema.name or b"").decode(), _type(schema), schema.format.decode())


def _type(schema: Any) -> str:
    if schema.dictionary:
        return f"dictionary<values={_type(schema.dictionary.contents)}>"
    kind: str = schema.format.decode()
    children = _children(schema)
    prefix, _, parameters = kind.partition(":")
    if kind in _NAMES:
        return _NAMES[kind]
    if prefix.startswith("ts"):
        zone = f", tz={parameters}" if parameters else ""
        return f"timestamp[{_UNITS.get(prefix[2:], '?')}{zone}]"
    if prefix == "d":
        return f"decimal({', '.join(parameters.split(',')[:2])})"
    if prefix == "w":
        return f"fixed_size_binary[{parameters}]"
    if prefix == "+w":
        return f"fixed_size_list<{_type(children[0])}>[{parameters}]"
    if prefix in _LISTS:
        return f"{_LISTS[prefix]}<{_type(children[0])}>"
    if prefix == "+m":
        return f"map<{', '.join(_type(child) for child in _children(children[0]))}>"
    if prefix == "+s":
        return f"struct<{', '.join(f'{field.name}: {field.type}' for field in map(_field, children))}>"
    return kind


class Schema:
    """The columns of a data set or of a query. `pyarrow.schema`, polars and others read it."""

    def __init__(self, source: ArrowSchema) -> None:
        self._source = source

    def __arrow_c_schema__(self) -> object:
        return self._source.__arrow_c_schema__()

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [field.name for field in fields_of(self)]

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return "\n".join(f"{field.name}: {field.type}" for field in fields_of(self)) or "no columns"


def check_schema(schema: Any, argument: str) -> Any:
    """Refuses an argument that has no Arrow schema."""
    if schema is None or hasattr(schema, "__arrow_c_schema__"):
        return schema
    raise UsageError(
        f"{argument} is a {type(schema).__name__}, expected a schema of Arrow",
        hint="Pass a pyarrow.Schema, the schema of a table, or tfr_sql.schema(paths).",
    )
