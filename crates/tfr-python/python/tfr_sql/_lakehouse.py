"""Tables of deltalake and pyiceberg, which the command reads by their location and version.

Their own exports are not used: deltalake gives other rows than Spark for some tables, without an error, and pyiceberg
refuses tables that the command reads.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname


@dataclass(frozen=True)
class Located:
    """Where a table is, and which version of it."""

    #: A path or a URL.
    location: str
    #: The other keys of `--table`.
    keys: tuple[str, ...]

    @property
    def is_remote(self) -> bool:
        """Whether it is in an object store, which needs credentials."""
        return "://" in self.location


def located(data: Any) -> Located | None:
    """Returns the location and the version of a table; None if `data` is another object."""
    library, kind = type(data).__module__.partition(".")[0], type(data).__name__
    if library == "deltalake" and kind == "DeltaTable":
        return Located(_path_of_url(data.table_uri), ("format=delta", f"version={data.version()}"))
    if library == "pyiceberg" and kind in {"Table", "StaticTable"}:
        return Located(_literal_path(data.metadata_location), ("format=iceberg",))
    return None


def _path_of_url(uri: str) -> str:
    return url2pathname(urlsplit(uri).path) if uri.startswith("file:") else uri


def _literal_path(location: str) -> str:
    # A location of Iceberg is not encoded: `%` and `#` are characters of the path. Java writes file:/x.
    return re.sub(r"^file:(//)?(?=/(?!/))", "", location)
