"""Records one by one."""

from __future__ import annotations

from typing import Any, Iterator, Literal, Sequence, SupportsIndex

from . import _native
from ._errors import UsageError
from ._fill import Fill, native_fill
from ._paths import Paths, StrPath, access, expand_records
from ._require import require
from ._schema import check_schema
from ._warnings import skips_damaged, warn_of_damage, warn_of_missing


class RecordScan(Iterator[bytes]):
    """The records of files in order: the iterator that `scan_records` returns."""

    def __init__(self, scanner: _native.Scanner) -> None:
        self._scanner = scanner
        self._records = _records(scanner)

    @property
    def damaged(self) -> int:
        """The number of damaged records that `damaged="skip"` has passed over so far. Adjacent ones may count as one."""
        return self._scanner.damage[0]

    def __iter__(self) -> Iterator[bytes]:
        return self._records

    def __next__(self) -> bytes:
        __tracebackhide__ = True
        return next(self._records)


def scan_records(
    paths: Paths, *, start: int = 0, crc: bool = True, damaged: Literal["error", "skip"] = "error"
) -> RecordScan:
    """Returns an iterator over the records of files, in order, as the bytes that were written. Files may be compressed.

    `start` is the number of the first record, counted from 0 over all files. Records before it are skipped by a manifest,
    or by their lengths; compressed files without a manifest are read from their start.

    Damage is a `DataError`, after the records before it. `crc=False` does not check the checksums. `damaged="skip"` passes
    over damaged records and returns what follows: `start` counts intact records then, a `DamageWarning` for each damaged
    file comes after the last record, and `.damaged` is the number of damaged records.

    >>> [len(record) for record in tfr.scan_records("shards/", start=4)]
    [48, 53]
    """
    __tracebackhide__ = True
    if isinstance(start, bool) or not isinstance(start, int) or not 0 <= start < 2**64:
        raise UsageError(f"start is {start!r}, expected the number of a record")
    files, skips = expand_records(paths, "scan_records"), skips_damaged(damaged)
    scanner = _native.Scanner(files, start=start, crc=crc, skips_damaged=skips)
    warn_of_missing(scanner.missing)
    return RecordScan(scanner)


def _records(scanner: _native.Scanner) -> Iterator[bytes]:
    __tracebackhide__ = True
    while records := scanner.next():
        yield from records
    warn_of_damage(scanner.damage[1])


class RecordSource:
    """The records of ArrayRecord and of uncompressed TFRecord files by number: a sequence of dictionaries.

    An ArrayRecord file has an index at its end. The bounds of records of TFRecord are those of an index next to a file
    (`_part-00000.tfrecord.idx`), if it fits the file. Otherwise the lengths of all records are read once, for which files of a bucket
    are fetched as a whole. Values are as in `Loader`, without the dimension of the batch:
    a number is a numpy scalar, a list is an array.

    >>> records = tfr.RecordSource("shards/", columns=["id"])
    >>> len(records), int(records[5]["id"])
    (6, 5)
    """

    def __init__(
        self,
        paths: Paths,
        *,
        columns: Sequence[str] | None = None,
        split: str | None = None,
        schema: Any = None,
        fill: Fill | None = None,
        crc: bool = True,
        cache: StrPath | None = None,
        cache_size: int | str | None = None,
        allow: Sequence[StrPath] | None = None,
    ) -> None:
        __tracebackhide__ = True
        require("numpy", "RecordSource")
        if isinstance(columns, str):
            raise UsageError(f"columns is the string {columns!r}, expected a list of names")
        self._data = _native.DataSet(
            expand_records(paths, "RecordSource", urls=True, limited=allow is not None),
            split=split,
            schema=check_schema(schema, "schema"),
            **access(cache, cache_size, allow),
        )
        warn_of_missing(self._data.missing)
        self._options: dict[str, Any] = {
            "columns": None if columns is None else list(columns),
            "fill": native_fill(fill, self._data),
            "crc": crc,
        }
        self._records = _native.Records(self._data, **self._options)

    def __len__(self) -> int:
        return len(self._data)

    @property
    def fingerprint(self) -> str:
        """What identifies the records: 32 hexadecimal digits, the same in every process.

        It is made of the paths within the set, the lengths, the numbers of records and the checksums of the files, as the
        manifest records them. So a set has it in every directory, and one with another record has another. Without a
        manifest, it is made of names, lengths and numbers of records.

        >>> source = tfr.RecordSource("shards/")
        >>> source.fingerprint == tfr.RecordSource("shards/", columns=["id"]).fingerprint
        True
        """
        return self._data.fingerprint

    def __getitem__(self, number: SupportsIndex) -> dict[str, Any]:
        __tracebackhide__ = True
        return self.__getitems__([number])[0]

    def __getitems__(self, numbers: Sequence[SupportsIndex]) -> list[dict[str, Any]]:
        """Returns several records at once, which is faster."""
        __tracebackhide__ = True
        count = len(self)
        wanted = [number.__index__() for number in numbers]
        for number in wanted:
            if not -count <= number < count:
                raise IndexError(f"record {number} of {count}")
        if not wanted:
            return []
        columns = self._records.get([number % count for number in wanted])
        return [{name: _row(column, row) for name, column in columns.items()} for row in range(len(wanted))]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[number] for number in range(len(self)))

    def __repr__(self) -> str:
        # The same in every process, for the checkpoints of grain.
        return f"{type(self).__name__}(records={len(self)}, fingerprint={self.fingerprint})"

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        del state["_records"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._records = _native.Records(self._data, **self._options)


def _row(column: Any, row: int) -> Any:
    if isinstance(column, dict):
        return {name: _row(values, row) for name, values in column.items()}
    return column[row]
