"""Warnings that name the line of the caller of this package."""

from __future__ import annotations

import sys
import warnings
from typing import Iterable

from ._errors import MissingFilesWarning


def warn_of_missing(lines: Iterable[str]) -> None:
    """Warns of files that are missing in a directory."""
    for line in lines:
        warnings.warn(MissingFilesWarning(line), stacklevel=caller())


def caller() -> int:
    """Returns the stack level of the code that called this package, as seen from the caller of this function."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == "tfr_sql":
        frame, level = frame.f_back, level + 1
    return level
