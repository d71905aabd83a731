"""Paths as users pass them."""

from __future__ import annotations

import glob
import os
import re
from typing import Sequence, Union

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


#: How files of other formats begin.
_MAGIC = {b"PAR1": "Parquet", b"ARROW1": "Arrow IPC", b"ORC": "ORC", b"Obj\x01": "Avro"}

#: Formats of text, which only the names of files tell.
_TEXT = {".csv": "CSV", ".tsv": "TSV", ".json": "JSON", ".jsonl": "JSON"}


def expand_records(paths: Paths, reader: str) -> list[str]:
    """Returns the paths of TFRecord files as a list, as `expand` does. Refuses URLs, and files of other formats.

    `reader` is the name of the function or class that reads the files.
    """
    __tracebackhide__ = True
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    for path in [os.fspath(path) for path in given]:
        if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]+://", path):
            raise UsageError(
                f"{path}: {reader} reads local files, found a URL",
                hint="Copy the shards to a local directory first, or read them with a query: "
                f"tfr_sql.read_tfrecord({path!r}).batches().",
            )
    expanded = expand(given)
    for path in expanded[:1]:
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
