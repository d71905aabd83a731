"""Record batches as `tf.train.Example` records, and records as batches, in memory."""

from __future__ import annotations

from typing import Any, Sequence, Union

from . import _native
from ._arrow import ArrowArray, input_error
from ._require import require
from ._schema import ArrowSchema, check_schema


class Encoder:
    """Converts record batches to `tf.train.Example` records."""

    def __init__(self, schema: ArrowSchema) -> None:
        __tracebackhide__ = True
        self._encoder = _native.Encoder(check_schema(schema, "schema"))

    def encode(self, batch: ArrowArray) -> bytes:
        """Returns the rows of a batch as framed records: the content of a TFRecord file."""
        __tracebackhide__ = True
        try:
            return self._encoder.encode(batch)
        except (TypeError, ValueError) as error:
            raise input_error(error, batch, "batch") from None

    def serialize(self, batch: ArrowArray) -> ArrowArray:
        """Returns the rows of a batch as an Arrow array of serialized messages, without frames."""
        __tracebackhide__ = True
        try:
            return self._encoder.serialize(batch)
        except (TypeError, ValueError) as error:
            raise input_error(error, batch, "batch") from None


class Decoder:
    """Converts `tf.train.Example` records to record batches."""

    def __init__(self, schema: ArrowSchema) -> None:
        __tracebackhide__ = True
        self._decoder = _native.Decoder(check_schema(schema, "schema"))

    def parse(self, records: Union[ArrowArray, Sequence[bytes]]) -> ArrowArray:
        """Returns the columns of serialized messages without frames: an Arrow array of them, or a list, which needs pyarrow."""
        __tracebackhide__ = True
        if isinstance(records, (list, tuple)):
            records = _array_of_bytes(records)
        try:
            return self._decoder.parse(records)  # type: ignore[arg-type]
        except (TypeError, ValueError) as error:
            raise input_error(error, records, "records") from None


def _array_of_bytes(records: Sequence[Any]) -> Any:
    __tracebackhide__ = True
    pyarrow = require("pyarrow", "a list of records")
    try:
        return pyarrow.array(records, pyarrow.binary())
    except (pyarrow.ArrowException, TypeError, ValueError) as error:
        raise input_error(error, records, "records") from None
