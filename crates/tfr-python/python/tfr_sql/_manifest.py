"""What was written, and what would be."""

from __future__ import annotations

import html
import os
from typing import Any, Iterable, Iterator, Sequence

#: Shards that a table shows. The others are counted.
_SHOWN = 20


class Manifest(dict[str, Any]):
    """A shard set: its manifest as a dictionary, which `docs/manifest.md` describes.

    What was written elsewhere than in a local directory has the totals of the run only. `report` is the report of the run
    that wrote it, or None if the manifest was read.
    """

    out: str
    report: dict[str, Any] | None

    def __init__(self, fields: dict[str, Any], *, out: str, report: dict[str, Any] | None = None) -> None:
        super().__init__(fields)
        self.out = out
        self.report = report

    @property
    def rows(self) -> int:
        """The number of rows of the set."""
        return int(self["totals"]["rows"])

    @property
    def file_bytes(self) -> int:
        """The length of all files in bytes."""
        return int(self["totals"]["file_bytes"])

    @property
    def files(self) -> list[str]:
        """The paths of the shards."""
        return [os.path.join(self.out, shard["path"]) for shard in self.get("shards", [])]

    def _summary(self) -> str:
        totals = self["totals"]
        count = totals.get("shards", totals.get("files", 0))
        of = "shard" if "shards" in totals else "file"
        return f"{self.out}: {self.rows:,} rows in {count:,} {of}{'' if count == 1 else 's'}, {_size(self.file_bytes)}"

    def _table(self) -> Iterator[tuple[str, str, str]]:
        for shard in self.get("shards", [])[:_SHOWN]:
            yield shard["path"], f"{shard['rows']:,}", _size(shard["file_bytes"])

    def _more(self) -> str:
        more = len(self.get("shards", [])) - _SHOWN
        return f"and {more:,} more" if more > 0 else ""

    def __repr__(self) -> str:
        return "\n".join(filter(None, [self._summary(), *_aligned(self._table()), self._more()]))

    def _repr_html_(self) -> str:
        return _html(self._summary(), ("shard", "rows", "size"), self._table(), self._more())

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (dict(self), self.out, self.report)


def _restore(fields: dict[str, Any], out: str, report: dict[str, Any] | None) -> Manifest:
    return Manifest(fields, out=out, report=report)


class Plan:
    """What a write would do: `str(plan)` is what `tfr-sql --dry-run` prints."""

    #: A dictionary for each column, as in the manifest: `column`, `type`, `features`, `class`, `nulls`.
    columns: list[dict[str, Any]]
    #: The number of rows, if it is known, and whether that is exact.
    rows: int | None
    rows_are_exact: bool
    #: Bounds of the bytes of records before compression, if they are known.
    least_bytes: int | None
    most_bytes: int | None
    #: The shards, as text.
    shards: str

    def __init__(self, report: dict[str, Any]) -> None:
        self._text = str(report["text"])
        self.columns = report["mapping"]["columns"]
        self.rows, self.rows_are_exact = report.get("rows"), bool(report.get("rows_are_exact"))
        self.least_bytes, self.most_bytes = report.get("least_bytes"), report.get("most_bytes")
        self.shards = "\n".join(report["shards"])

    @property
    def losses(self) -> dict[str, str]:
        """The columns that lose information, and what they lose."""
        return {column["column"]: column["form"] for column in self.columns if column["class"] == "narrowed"}

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self._text)}</pre>"


def _size(length: int) -> str:
    size = float(length)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{length} B" if unit == "B" else f"{size:.1f} {unit}"


def _aligned(rows: Iterable[Sequence[str]]) -> list[str]:
    table = list(rows)
    widths = [max(map(len, column)) for column in zip(*table)]
    first = [(row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))) for row in table]
    return ["  " + "  ".join(row) for row in first]


def _html(caption: str, names: Sequence[str], rows: Iterable[Sequence[str]], more: str) -> str:
    head = "".join(f"<th>{name}</th>" for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    foot = f"<p>{more}</p>" if more else ""
    return f"<table><caption>{html.escape(caption)}</caption><tr>{head}</tr>{body}</table>{foot}"
