"""Paths as users pass them."""

from __future__ import annotations

import glob
import os
from typing import Sequence, Union

from ._errors import MissingError

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
