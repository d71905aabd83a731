"""Libraries that only some functions need."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ._errors import DependencyError


def require(library: str, what: str) -> Any:
    """Imports a library, or raises an error that says what needs it."""
    __tracebackhide__ = True
    try:
        return import_module(library)
    except ModuleNotFoundError as error:
        if error.name != library:
            raise
        raise DependencyError(f"{what} needs {library}", hint=f"Install it: pip install {library}") from None
