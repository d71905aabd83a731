"""Warnings that name the line of the caller of this package."""

from __future__ import annotations

import sys
import warnings
from typing import Iterable

from ._errors import DamageWarning, MissingFilesWarning, UsageError


def warn_of_missing(lines: Iterable[str]) -> None:
    """Warns of files that are missing in a directory."""
    for line in lines:
        warnings.warn(MissingFilesWarning(line), stacklevel=caller())


def warn_of_damage(lines: Iterable[str]) -> None:
    """Warns of damaged records that are passed over."""
    for line in lines:
        warnings.warn(DamageWarning(line), stacklevel=caller())


def skips_damaged(damaged: object) -> bool:
    """Returns whether damaged records are passed over, by the argument `damaged`."""
    if damaged not in ("error", "skip"):
        raise UsageError(f"damaged is {damaged!r}, expected 'error' or 'skip'")
    return damaged == "skip"


def caller() -> int:
    """Returns the stack level of the code that called this package, as seen from the caller of this function."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == "tfr_sql":
        frame, level = frame.f_back, level + 1
    return level
