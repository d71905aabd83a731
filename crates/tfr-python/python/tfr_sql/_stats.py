"""Statistics of the features of records."""

from __future__ import annotations

import html
from typing import Any, Iterator, Mapping

#: Figures that may be NaN or infinite, which JSON writes as text.
_NUMBERS = ("min", "max", "mean", "std_dev", "median", "mean_bytes")


class Stats(Mapping[str, "dict[str, Any]"]):
    """Statistics of the features of records: a dictionary of figures for each feature.

    `schemas/report.schema.json` describes the figures: `missing`, `min`, `mean`, `distinct`, `frequent` and others. Those
    that a feature does not have are left out. `str(stats)` is what `tfr-sql stats` prints.
    """

    #: The number of records.
    records: int
    #: The number of files.
    files: int

    def __init__(self, report: dict[str, Any], proto: bytes, page: str) -> None:
        """Use `tfr_sql.stats` instead."""
        self.records, self.files = report["records"], report["files"]
        self._features = {feature["name"]: _figures(feature) for feature in report["features"]}
        self._text, self._proto, self._page = report["text"], proto, page

    def __getitem__(self, feature: str) -> dict[str, Any]:
        return self._features[feature]

    def __iter__(self) -> Iterator[str]:
        return iter(self._features)

    def __len__(self) -> int:
        return len(self._features)

    def __str__(self) -> str:
        return str(self._text)

    __repr__ = __str__

    def to_proto(self) -> bytes:
        """Returns a serialized `DatasetFeatureStatisticsList`, which TensorFlow Data Validation reads as `stats.pb`."""
        return self._proto

    def to_html(self) -> str:
        """Returns a page with histograms."""
        return self._page

    def _repr_html_(self) -> str:
        # The page has a style of its own.
        return f'<iframe srcdoc="{html.escape(self._page)}" style="width: 100%; height: 40em; border: 0"></iframe>'


def _figures(feature: dict[str, Any]) -> dict[str, Any]:
    figures = {name: value for name, value in feature.items() if name != "name"}
    for name in _NUMBERS:
        if isinstance(figures.get(name), str):
            figures[name] = float(figures[name])
    if feature["kind"] == "float":
        figures["frequent"] = [{**one, "value": float(one["value"])} for one in feature.get("frequent", [])]
    return figures
