"""The tools of the command."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping

from ._command import Command, Progress, arguments_of
from ._manifest import Manifest
from ._options import DESCRIBE, RESHARD, SALVAGE
from ._paths import Paths, StrPath, expand
from ._query import _written

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import DescribeOptions, ReshardOptions, SalvageOptions


def _run(tool: str, operands: Iterable[str], arguments: Iterable[str], progress: Any = False) -> str:
    return Command([tool, *arguments, *operands], progress=progress).output()


def head(paths: Paths, n: int = 10) -> list[dict[str, Any]]:
    """Returns the first records: a list of values for each feature."""
    return [json.loads(line) for line in _run("head", expand(paths), [f"-n{n}"]).splitlines()]


def stats(path: StrPath) -> str:
    """Returns statistics of the features as text, as `tfr-sql stats` prints them."""
    return _run("stats", [os.fspath(path)], [])


def describe(path: StrPath, **options: Unpack[DescribeOptions]) -> None:
    """Writes sidecar files for TFRecord files in a directory, whatever tool wrote them: `emit=["tfds", "stats"]`."""
    _run("describe", [os.fspath(path)], arguments_of(options, DESCRIBE, "describe"))


def reshard(
    paths: Paths,
    out: StrPath,
    *,
    progress: bool | Callable[[Progress], object] = False,
    **options: Unpack[ReshardOptions],
) -> Manifest:
    """Moves the records of TFRecord files to other shards, unchanged. Returns the manifest of the new set."""
    target = os.fspath(out)
    arguments = [f"--out={target}", "--report=json", *arguments_of(options, RESHARD, "reshard")]
    return _written(target, json.loads(_run("reshard", expand(paths), arguments, progress)))


def salvage(
    paths: Paths,
    out: StrPath,
    *,
    progress: bool | Callable[[Progress], object] = False,
    **options: Unpack[SalvageOptions],
) -> Mapping[str, Any]:
    """Saves the intact records of damaged files. Returns the report: `rows`, `findings` and others."""
    arguments = [f"--out={os.fspath(out)}", "--report=json", *arguments_of(options, SALVAGE, "salvage")]
    report: dict[str, Any] = json.loads(_run("salvage", expand(paths), arguments, progress))
    return report
