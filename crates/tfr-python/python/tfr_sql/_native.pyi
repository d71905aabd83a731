from typing import Any, Mapping, Protocol, Sequence, final

class _ArrowSchema(Protocol):
    def __arrow_c_schema__(self) -> object: ...

@final
class DataSet:
    def __new__(cls, paths: Sequence[str], *, split: str | None = None, schema: _ArrowSchema | None = None) -> DataSet: ...
    @classmethod
    def from_json(cls, json: str) -> DataSet: ...
    def __len__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, tuple[str]]: ...
    def __arrow_c_schema__(self) -> object: ...
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

@final
class Plan:
    def __new__(
        cls,
        data: DataSet,
        *,
        batch_size: int,
        columns: Sequence[str] | None = None,
        shuffle: int | None = None,
        shuffle_buffer: int | None = None,
        drop_remainder: bool = False,
        reader: int = 0,
        readers: int = 1,
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
    def rows(self) -> int: ...
    @property
    def window(self) -> int | None: ...
    def batches(self, epoch: int, step: int, *, end: int | None, prefetch: int) -> Batches: ...

@final
class Batches:
    def next(self) -> tuple[dict[str, Any], int, int] | None: ...
    def close(self) -> None: ...

def write_set(
    data: Any,
    out: str,
    *,
    shards: int | None = None,
    shard_rows: int | None = None,
    compression: str | None = None,
    shuffle: int | None = None,
    overwrite: bool = False,
) -> str: ...
