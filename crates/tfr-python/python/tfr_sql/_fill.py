"""Values for rows that have none, as the native module reads them."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any, Mapping, Union

from ._errors import UsageError
from ._schema import ArrowSchema, Field, fields_of

if TYPE_CHECKING:
    import numpy as np

FillValue = Union[bool, int, float, str, bytes, datetime.date, datetime.time, datetime.timedelta, "np.generic[Any]"]
Fill = Mapping[str, FillValue]

#: The units of numpy for those at the end of a format of the Arrow C data interface.
_UNITS = {"D": "D", "s": "s", "m": "ms", "u": "us", "n": "ns"}


def native_fill(fill: Fill | None, schema: ArrowSchema) -> dict[str, Any]:
    """Returns the values as plain numbers, text and bytes. Dates and times are numbers in the unit of their column."""
    __tracebackhide__ = True
    given = dict(fill or {})
    if all(type(value) in (bool, int, float, str, bytes) for value in given.values()):
        return given
    fields = {field.name: field for field in fields_of(schema)}
    for name, value in given.items():
        given[name] = _native(value, fields.get(name), name)
    return given


def _native(value: Any, field: Field | None, name: str) -> Any:
    __tracebackhide__ = True
    import numpy as np

    dates = (np.datetime64, datetime.date)
    durations = (np.timedelta64, datetime.timedelta)
    if field is not None and isinstance(value, (*dates, *durations, datetime.time)):
        column = field.format.partition(":")[0]
        if column.startswith(("td", "ts")) and isinstance(value, dates):
            return _number(_point(value), f"datetime64[{_UNITS[column[-1]]}]", value, field)
        if column.startswith("tD") and isinstance(value, durations):
            return _number(_duration(value), f"timedelta64[{_UNITS[column[-1]]}]", value, field)
        if column.startswith("tt") and isinstance(value, (*durations, datetime.time)):
            return _number(_duration(value), f"timedelta64[{_UNITS[column[-1]]}]", value, field)
        raise UsageError(f"fill: column {name!r} is of type {field.type}, found {_shown(value)}")
    return value.item() if isinstance(value, np.generic) else value


def _number(value: Any, dtype: str, given: Any, field: Field) -> int:
    """Returns a point in time, or a duration, as a number in the unit of a column. Refuses to round it."""
    __tracebackhide__ = True
    import numpy as np

    converted = value.astype(dtype)
    if np.isnat(value):
        raise UsageError(f"fill: column {field.name!r}: NaT is no value", hint="A missing date or time is NaT without fill=.")
    if converted.astype(value.dtype) != value:
        raise UsageError(f"fill: column {field.name!r} is of type {field.type}, which does not hold {_shown(given)}")
    return int(converted.astype(np.int64))


def _point(value: Any) -> Any:
    import numpy as np

    if hasattr(value, "to_datetime64"):  # pandas, with nanoseconds
        return value.to_datetime64()
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        value = value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    return np.datetime64(value)


def _duration(value: Any) -> Any:
    import numpy as np

    if hasattr(value, "to_timedelta64"):
        return value.to_timedelta64()
    if isinstance(value, datetime.time):
        value = datetime.timedelta(
            hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond
        )
    return np.timedelta64(value)


def _shown(value: Any) -> str:
    return f"the {type(value).__name__} {value}"
