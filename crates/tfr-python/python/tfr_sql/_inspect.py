"""What is in a data set."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Literal, overload

from . import _native
from ._errors import DataError
from ._manifest import Manifest
from ._paths import Paths, StrPath, expand, expand_records
from ._schema import Schema
from ._warnings import warn_of_missing


@dataclass(frozen=True)
class Finding:
    """A defect of a file or directory."""

    #: The file or directory.
    path: str
    #: The defect, in one line that begins with the path.
    message: str

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class Verification:
    """What `verify` found."""

    #: The number of files.
    files: int
    #: The number of intact records in them.
    records: int
    #: The length in bytes of the intact records with their frames, before compression.
    framed_bytes: int
    #: The length of the files in bytes.
    file_bytes: int
    #: The defects.
    findings: list[Finding] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether there are no defects."""
        return not self.findings


def verify(paths: Paths, *, raise_on_damage: bool = False, threads: int | None = None) -> Verification:
    """Reads files completely and reports every defect: of records, and of the set that a manifest describes.

    `raise_on_damage` raises a `DataError` with the first defect instead.

    >>> found = tfr.verify("shards/")
    >>> found.ok, found.records
    (True, 6)
    """
    __tracebackhide__ = True
    files, records, framed_bytes, file_bytes, findings = _native.verify(expand(paths), threads=threads)
    found = [Finding(os.fspath(path), message) for path, message in findings]
    if raise_on_damage and found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise DataError(f"{found[0]}{more}", file=found[0].path)
    return Verification(files, records, framed_bytes, file_bytes, found)


def manifest(path: StrPath) -> Manifest:
    """Returns the manifest of the set in a directory. `docs/manifest.md` describes its fields.

    >>> tfr.manifest("shards/")["totals"]["rows"]
    6
    """
    __tracebackhide__ = True
    return Manifest(json.loads(_native.manifest(os.fspath(path))), out=os.fspath(path))


@overload
def schema(paths: Paths) -> Schema: ...
@overload
def schema(paths: Paths, form: Literal["ddl", "pbtxt", "features.json", "python", "json"]) -> str: ...
def schema(paths: Paths, form: str = "arrow") -> Schema | str:
    """Returns the columns of a data set: as recorded in its manifest, or else as inferred from the first records.

    `pyarrow.schema` reads the result, which shows itself as a name and a type on each line. Other forms are text: "ddl" for SQL, "pbtxt" and "features.json" for TensorFlow's
    tools, "python" for a module that parses the records with TensorFlow, and "json".

    >>> pyarrow.schema(tfr.schema("shards/")).names
    ['id', 'fare', 'tags']
    """
    __tracebackhide__ = True
    expanded = expand_records(paths, "schema")
    data = _native.DataSet(expanded)
    warn_of_missing(data.missing)
    if form == "arrow":
        return Schema(data)
    return _native.describe(data, os.path.commonpath(expanded) if len(expanded) > 1 else expanded[0], form)
