"""Arrow tables as TFRecord data sets, and TFRecord data sets as Arrow tables and as batches for training."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._errors import DataError, ExistsError, MissingError, TfrError, UsageError

if TYPE_CHECKING:
    from ._loader import Loader
    from ._ragged import Ragged

__all__ = ["DataError", "ExistsError", "Loader", "MissingError", "Ragged", "TfrError", "UsageError"]

# Imported when they are used first: they need numpy, or the native module.
_LAZY = {"Loader": "._loader", "Ragged": "._ragged"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
