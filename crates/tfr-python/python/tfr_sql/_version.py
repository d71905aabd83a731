"""The version of this package."""

from __future__ import annotations

import subprocess
from functools import lru_cache
from importlib import metadata

from ._command import find_command
from ._errors import TfrError


#: If neither the distribution nor the command is found.
_UNKNOWN = "0+unknown"


@lru_cache(maxsize=1)
def version() -> str:
    """Returns the version of the installed distribution, or else that of the command."""
    try:
        return metadata.version("tfr-sql")
    except metadata.PackageNotFoundError:
        pass
    try:
        # "tfr-sql 0.2.0"
        printed = subprocess.run([find_command(), "-V"], capture_output=True, text=True, check=True).stdout
    except (TfrError, OSError, subprocess.CalledProcessError):
        return _UNKNOWN
    return (printed.split() or [""])[-1] or _UNKNOWN
