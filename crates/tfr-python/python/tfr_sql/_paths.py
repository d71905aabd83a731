"""Paths as users pass them."""

from __future__ import annotations

import glob
import os
import re
from typing import Any, Sequence, Union

from . import _native
from ._errors import MissingError, UsageError

StrPath = Union[str, "os.PathLike[str]"]
Paths = Union[StrPath, Sequence[StrPath]]


def expand(paths: Paths) -> list[str]:
    """Returns the paths as a list. A path that does not exist may be a pattern; its matches are sorted."""
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    expanded: list[str] = []
    for path in (os.fspath(path) for path in paths):
        if glob.has_magic(path) and not os.path.exists(path):
            matches = sorted(glob.glob(path, recursive=True))
            if not matches:
                raise MissingError(f"{path}: no file matches")
            expanded.extend(matches)
        else:
            expanded.append(path)
    return expanded


#: The size of the cache, if none is given.
_CACHE_SIZE = "10GB"

#: The units of sizes in bytes.
_UNITS = {
    **{unit: 1000**power for power, unit in enumerate(["B", "KB", "MB", "GB", "TB"])},
    **{unit: 1024**power for power, unit in enumerate(["KiB", "MiB", "GiB", "TiB"], 1)},
}


def access(cache: StrPath | None, cache_size: int | str | None, allow: Sequence[StrPath] | None) -> dict[str, Any]:
    """Returns what may be opened, and where parts of remote files are kept, as arguments of `DataSet`."""
    __tracebackhide__ = True
    if isinstance(allow, (str, os.PathLike)):
        raise UsageError(f"allow is the string {_native.shown(os.fspath(allow))!r}, expected a list of paths and URLs")
    entries = None if allow is None else [os.fspath(entry) for entry in allow]
    if entries == []:
        raise UsageError("allow is empty, expected the paths and URLs that may be opened")
    size = _size_of(_CACHE_SIZE if cache_size is None else cache_size)
    return {"allow": entries, "cache": _cache_directory() if cache is None else os.fspath(cache), "cache_size": size}


def _cache_directory() -> str:
    """Returns the directory of this package below that of the user for caches, by the XDG rules; "" if there is none."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    home = home if os.path.isabs(home) else os.path.expanduser("~/.cache")
    return os.path.join(home, "tfr_sql") if os.path.isabs(home) else ""


def _size_of(size: int | str) -> int:
    __tracebackhide__ = True
    problem = UsageError(f"cache_size is {size!r}, expected a number of bytes, or text such as '10GB' or '512MiB'")
    if isinstance(size, bool) or not isinstance(size, (int, str)):
        raise problem
    if isinstance(size, str):
        match = re.fullmatch(r"(\d+(?:\.\d+)?) ?(\w+)", size.strip())
        unit = next((unit for unit in _UNITS if match and unit.lower() == match[2].lower()), None)
        if match is None or unit is None:
            raise problem
        size = int(float(match[1]) * _UNITS[unit])
    if not 0 <= size < 2**63:
        raise problem
    return size


#: How files of other formats begin.
_MAGIC = {b"PAR1": "Parquet", b"ARROW1": "Arrow IPC", b"ORC": "ORC", b"Obj\x01": "Avro"}

#: Formats of text, which only the names of files tell.
_TEXT = {".csv": "CSV", ".tsv": "TSV", ".json": "JSON", ".jsonl": "JSON"}


def _is_url(path: str) -> bool:
    return re.match(r"[a-zA-Z][a-zA-Z0-9+.-]+://", path) is not None


def expand_records(paths: Paths, reader: str, *, urls: bool = False, limited: bool = False) -> list[str]:
    """Returns the paths of TFRecord files as a list, as `expand` does. Refuses files of other formats.

    `reader` is the name of the function or class that reads the files. It gets URLs as they are, or `urls` are refused. If the
    caller has not yet checked that the files may be opened (`limited`), none is.
    """
    __tracebackhide__ = True
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    expanded: list[str] = []
    for path in [os.fspath(path) for path in given]:
        if not _is_url(path):
            expanded.extend(expand(path))
        elif urls:
            expanded.append(path)
        else:
            raise UsageError(
                f"{_native.shown(path)}: {reader} reads local files, found a URL",
                hint="Copy the shards to a local directory first, or read them with a query: "
                f"tfr_sql.read_tfrecord({_native.shown(path)!r}).batches().",
            )
    for path in [path for path in expanded[:1] if not (limited or _is_url(path))]:
        format_name = _other_format(path)
        if format_name is not None:
            raise UsageError(
                f"{path}: {reader} reads TFRecord files, found a file of {format_name}",
                hint="Write its rows as TFRecord files first: "
                f"tfr_sql.sql(\"SELECT * FROM '{path}'\").write(\"shards/\").",
            )
    return expanded


def _other_format(path: str) -> str | None:
    """Returns the format of a file that is not TFRecord."""
    if not os.path.isfile(path):
        return None
    stem, suffix = os.path.splitext(path.lower())
    text = _TEXT.get(os.path.splitext(stem)[1] if suffix in (".gz", ".zst", ".bz2", ".xz") else suffix)
    try:
        with open(path, "rb") as file:
            start = file.read(12)
    except OSError:
        # Reported by the reader.
        return None
    if text is not None and b"\0" not in start:
        return text
    return next((name for magic, name in _MAGIC.items() if start.startswith(magic)), None)
