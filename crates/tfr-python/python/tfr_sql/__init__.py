"""Arrow tables as TFRecord data sets, and TFRecord data sets as Arrow tables and as batches for training."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._errors import DataError, ExistsError, MissingError, TfrError, UsageError

if TYPE_CHECKING:
    from ._inspect import Finding, Verification, manifest, schema, verify
    from ._loader import Loader
    from ._native import Decoder, Encoder
    from ._ragged import Ragged
    from ._records import RecordSource, scan_records
    from ._write_job import WriteJob, start_write

__all__ = [
    "DataError",
    "Decoder",
    "Encoder",
    "ExistsError",
    "Finding",
    "Loader",
    "MissingError",
    "Ragged",
    "RecordSource",
    "TfrError",
    "UsageError",
    "Verification",
    "WriteJob",
    "manifest",
    "scan_records",
    "schema",
    "start_write",
    "verify",
]

# Imported when they are used first: they need numpy, or the native module.
_LAZY = {
    "Decoder": "._native",
    "Encoder": "._native",
    "Finding": "._inspect",
    "Loader": "._loader",
    "Ragged": "._ragged",
    "RecordSource": "._records",
    "Verification": "._inspect",
    "WriteJob": "._write_job",
    "manifest": "._inspect",
    "scan_records": "._records",
    "schema": "._inspect",
    "start_write": "._write_job",
    "verify": "._inspect",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
