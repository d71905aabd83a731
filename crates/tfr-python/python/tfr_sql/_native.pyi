from pathlib import Path
from typing import Any, Mapping, Protocol, Sequence, final

__all__ = [
    "BatchReader",
    "Batches",
    "DataSet",
    "Decoder",
    "Encoder",
    "Plan",
    "RecordBatch",
    "Records",
    "RowReader",
    "Scanner",
    "TaskWriter",
    "WriteJob",
    "StreamEncoder",
    "describe",
    "manifest",
    "shown",
    "verify",
]

class _ArrowSchema(Protocol):
    def __arrow_c_schema__(self) -> object: ...

class _ArrowArray(Protocol):
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

@final
class DataSet:
    def __new__(
        cls,
        paths: Sequence[str],
        *,
        split: str | None = None,
        schema: _ArrowSchema | None = None,
        skips_damaged: bool = False,
        allow: Sequence[str] | None = None,
        cache: str = ...,
        cache_size: int = 0,
    ) -> DataSet: ...
    @classmethod
    def from_json(cls, json: str) -> DataSet: ...
    def __len__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, tuple[str]]: ...
    def __arrow_c_schema__(self) -> object: ...
    @property
    def missing(self) -> list[str]: ...
    @property
    def damage(self) -> tuple[int, list[str]]: ...
    @property
    def files(self) -> list[str]: ...
    @property
    def rows(self) -> list[int]: ...
    @property
    def columns(self) -> list[str]: ...
    @property
    def inferred(self) -> bool: ...
    @property
    def checksum(self) -> int: ...
    @property
    def fingerprint(self) -> str: ...

@final
class Plan:
    def __new__(
        cls,
        data: DataSet,
        *,
        global_batch: int,
        columns: Sequence[str] | None = None,
        shuffle: int | None = None,
        shuffle_buffer: int | None = None,
        drop_remainder: bool = False,
        rank: int = 0,
        world_size: int = 1,
        worker: int = 0,
        num_workers: int = 1,
        equal: str = "none",
        ragged: str = "splits",
        pad_to: Mapping[str, int] | None = None,
        fill: dict[str, bool | int | float | str | bytes] | None = None,
        threads: int = 1,
        crc: bool = True,
    ) -> Plan: ...
    @property
    def steps(self) -> int: ...
    @property
    def all_steps(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def window(self) -> tuple[int, int] | None: ...
    def batches(self, epoch: int, step: int, *, end: int | None, prefetch: int) -> Batches: ...

@final
class Batches:
    def next(self) -> tuple[dict[str, Any], int, int] | None: ...
    def close(self) -> None: ...

@final
class Scanner:
    def __new__(
        cls, paths: Sequence[str], *, start: int = 0, crc: bool = True, skips_damaged: bool = False
    ) -> Scanner: ...
    @property
    def missing(self) -> list[str]: ...
    @property
    def damage(self) -> tuple[int, list[str]]: ...
    def next(self) -> list[bytes]: ...

@final
class Records:
    def __new__(
        cls,
        data: DataSet,
        *,
        columns: Sequence[str] | None = None,
        fill: dict[str, bool | int | float | str | bytes] | None = None,
        crc: bool = True,
    ) -> Records: ...
    def __len__(self) -> int: ...
    def get(self, numbers: Sequence[int]) -> dict[str, Any]: ...

@final
class RecordBatch:
    """Rows of a query."""

    def __len__(self) -> int: ...
    @property
    def num_rows(self) -> int: ...
    @property
    def column_names(self) -> list[str]: ...
    def to_numpy(self, *, fill: dict[str, bool | int | float | str | bytes] | None = None) -> dict[str, Any]:
        """Returns the columns as numpy arrays, or as `Ragged` if their rows have any length.

        `fill` has values for nulls of columns that have no numpy value for them.
        """
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

@final
class BatchReader:
    def __new__(cls, data: Any) -> BatchReader: ...
    def __arrow_c_schema__(self) -> object: ...
    def next(self) -> RecordBatch | None: ...

@final
class StreamEncoder:
    def __new__(cls, schema: _ArrowSchema) -> StreamEncoder: ...
    def write(self, batch: _ArrowArray) -> bytes: ...
    def finish(self) -> bytes: ...

@final
class RowReader:
    def __new__(cls, path: str, command: Any) -> RowReader: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def next(self) -> RecordBatch | None: ...

@final
class Encoder:
    """Converts record batches to `tf.train.Example` records."""

    def __new__(cls, schema: _ArrowSchema) -> Encoder: ...
    def encode(self, batch: _ArrowArray) -> bytes:
        """Returns the rows of a batch as framed records: the content of a TFRecord file."""
    def serialize(self, batch: _ArrowArray) -> _ArrowArray:
        """Returns the rows of a batch as an Arrow array of serialized messages, without frames."""

@final
class Decoder:
    """Converts `tf.train.Example` records to record batches."""

    def __new__(cls, schema: _ArrowSchema) -> Decoder: ...
    def parse(self, records: _ArrowArray) -> _ArrowArray:
        """Returns the columns of an Arrow array of serialized messages, without frames."""

@final
class WriteJob:
    @classmethod
    def start(
        cls,
        out: str,
        schema: _ArrowSchema,
        *,
        shard_rows: int | None = None,
        shard_size: str | None = None,
        compression: str | None = None,
        level: int | None = None,
        prefix: str = "part",
        mode: str = "error",
        mapping: Mapping[str, str] | None = None,
        null: str | None = None,
        record_type: str | None = None,
        sequence: Sequence[str] = ...,
        separator: str | None = None,
        strict: bool = False,
        index: bool = False,
        record_format: str = "tfrecord",
        group_size: int | None = None,
    ) -> WriteJob: ...
    @classmethod
    def from_json(cls, json: str) -> WriteJob: ...
    def __reduce__(self) -> tuple[Any, tuple[str]]: ...
    @property
    def out(self) -> Path: ...
    @property
    def run(self) -> str: ...
    def task(self, task: int, *, threads: int = 1) -> TaskWriter: ...
    def commit(self, messages: Sequence[bytes], *, tasks: int | None = None) -> str: ...
    def abort(self) -> None: ...

@final
class TaskWriter:
    def write(self, data: Any) -> None: ...
    def finish(self) -> bytes: ...
    def close(self) -> None: ...

def verify(
    paths: Sequence[str], *, threads: int | None = None
) -> tuple[int, int, int, int, list[tuple[Path, str]]]: ...
def manifest(path: str) -> str: ...
def shown(location: str) -> str: ...
def describe(data: DataSet, location: str, form: str) -> str: ...
