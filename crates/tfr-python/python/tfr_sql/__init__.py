"""Arrow tables as TFRecord data sets, and TFRecord data sets as Arrow tables and as batches for training."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._errors import (
    CommandError,
    DamageWarning,
    DataError,
    DependencyError,
    ExistsError,
    LossWarning,
    MissingError,
    MissingFilesWarning,
    QueryError,
    TfrError,
    UsageError,
)

if TYPE_CHECKING:
    __version__: str

    from ._batch import RecordBatch
    from ._codec import Decoder, Encoder
    from ._command import Progress
    from ._inspect import Finding, Verification, manifest, schema, verify
    from ._loader import Loader
    from ._manifest import Manifest, Plan
    from ._mix import Mix
    from ._query import Query, read_tfrecord, sql, write_tfrecord
    from ._ragged import Ragged
    from ._records import RecordScan, RecordSource, scan_records
    from ._stats import Stats
    from ._write_job import WriteJob, start_write
    from ._tools import describe, head, reshard, salvage, stats

__all__ = [
    "CommandError",
    "DamageWarning",
    "DataError",
    "Decoder",
    "DependencyError",
    "Encoder",
    "ExistsError",
    "Finding",
    "Loader",
    "LossWarning",
    "Manifest",
    "MissingError",
    "MissingFilesWarning",
    "Mix",
    "Plan",
    "Progress",
    "Query",
    "QueryError",
    "Ragged",
    "RecordBatch",
    "RecordScan",
    "RecordSource",
    "Stats",
    "TfrError",
    "UsageError",
    "Verification",
    "WriteJob",
    "describe",
    "head",
    "manifest",
    "read_tfrecord",
    "reshard",
    "salvage",
    "scan_records",
    "schema",
    "sql",
    "start_write",
    "stats",
    "verify",
    "write_tfrecord",
]

# Imported when they are used first: they need numpy, or the native module.
_LAZY = {
    "Decoder": "._codec",
    "Encoder": "._codec",
    "Finding": "._inspect",
    "Loader": "._loader",
    "Manifest": "._manifest",
    "Mix": "._mix",
    "Plan": "._manifest",
    "Progress": "._command",
    "Query": "._query",
    "Ragged": "._ragged",
    "RecordBatch": "._batch",
    "RecordScan": "._records",
    "RecordSource": "._records",
    "Stats": "._stats",
    "Verification": "._inspect",
    "WriteJob": "._write_job",
    "describe": "._tools",
    "head": "._tools",
    "manifest": "._inspect",
    "read_tfrecord": "._query",
    "reshard": "._tools",
    "salvage": "._tools",
    "scan_records": "._records",
    "schema": "._inspect",
    "sql": "._query",
    "start_write": "._write_job",
    "stats": "._tools",
    "verify": "._inspect",
    "write_tfrecord": "._query",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("._version", __name__).version()
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(_LAZY[name], __name__), name)
    except ModuleNotFoundError as error:
        if error.name != "numpy":
            raise
    raise DependencyError(f"{name} needs numpy", hint="Install it: pip install numpy")


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__")), "__version__"})
