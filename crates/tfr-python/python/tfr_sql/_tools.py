"""The tools of the command."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping

from ._command import Command, Progress, arguments_of
from ._manifest import Manifest
from ._options import DESCRIBE, RESHARD, SALVAGE
from ._paths import Paths, StrPath, expand
from ._query import _written
from ._stats import Stats

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import DescribeOptions, ReshardOptions, SalvageOptions


def _run(tool: str, operands: Iterable[str], arguments: Iterable[str], progress: Any = False) -> str:
    __tracebackhide__ = True
    return Command([tool, *arguments, *operands], progress=progress).output()


def head(paths: Paths, n: int = 10) -> list[dict[str, Any]]:
    """Returns the first records: a list of values for each feature.

    >>> tfr.head("shards/", 1)
    [{'fare': [0.5], 'id': [0], 'tags': ['a']}]
    """
    __tracebackhide__ = True
    return [json.loads(line) for line in _run("head", expand(paths), [f"-n{n}"]).splitlines()]


def stats(path: StrPath) -> Stats:
    """Returns statistics of the features of TFRecord files. `print(stats(path))` is what `tfr-sql stats` prints.

    >>> fare = tfr.stats("shards/")["fare"]
    >>> fare["min"], fare["max"], fare["mean"]
    (0.5, 4.5, 2.5)
    """
    __tracebackhide__ = True
    with tempfile.TemporaryDirectory(prefix="tfr-sql-") as directory:
        page, proto = Path(directory, "stats.html"), Path(directory, "stats.pb")
        report = json.loads(_run("stats", [os.fspath(path)], [f"--html={page}", f"--proto={proto}", "--report=json"]))
        return Stats(report, proto.read_bytes(), page.read_text(encoding="utf-8"))


def describe(path: StrPath, *, out: StrPath | None = None, **options: Unpack[DescribeOptions]) -> list[Path]:
    """Writes sidecar files for the TFRecord files of a directory, whatever tool wrote them: `emit=["tfds", "stats"]`.

    Writes them to the directory `out` if there is one. Returns their paths.

    >>> [path.name for path in tfr.describe("shards/", emit=["tfmd"], out="described/")]
    ['schema.pbtxt']
    """
    __tracebackhide__ = True
    arguments = [] if out is None else [f"--out={os.fspath(out)}"]
    arguments += arguments_of(options, DESCRIBE, "describe")
    return [Path(line) for line in _run("describe", [os.fspath(path)], arguments).split("\n") if line]


def reshard(
    paths: Paths,
    out: StrPath,
    *,
    progress: bool | Callable[[Progress], object] = False,
    **options: Unpack[ReshardOptions],
) -> Manifest:
    """Moves the records of TFRecord files to other shards, unchanged. Returns the manifest of the new set.

    >>> len(tfr.reshard("shards/", "one/", shards=1).files)
    1
    """
    __tracebackhide__ = True
    target = os.fspath(out)
    __tracebackhide__ = True
    arguments = [f"--out={target}", "--report=json", *arguments_of(options, RESHARD, "reshard")]
    return _written(target, json.loads(_run("reshard", expand(paths), arguments, progress)))


def salvage(
    paths: Paths,
    out: StrPath,
    *,
    progress: bool | Callable[[Progress], object] = False,
    **options: Unpack[SalvageOptions],
) -> Mapping[str, Any]:
    """Saves the intact records of damaged files. Returns the report: `rows`, `findings` and others.

    >>> report = tfr.salvage("damaged.tfrecord", "saved/")
    >>> report["rows"], len(report["findings"])
    (2, 1)
    """
    __tracebackhide__ = True
    arguments = [f"--out={os.fspath(out)}", "--report=json", *arguments_of(options, SALVAGE, "salvage")]
    report: dict[str, Any] = json.loads(_run("salvage", expand(paths), arguments, progress))
    return report
