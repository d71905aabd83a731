"""Makes unaligned.arrows: a stream whose `variadicBufferCounts` are at a multiple of 4 bytes, but not of 8.

pyarrow reads it. Needs pyarrow and flatbuffers.
"""

import struct

import flatbuffers
import pyarrow

VALUES = ["short", None, "a text that is longer than a view", "another text that is longer than a view"]


def message(buffers: list[tuple[int, int]], nodes: list[tuple[int, int]], counts: list[int], body: int) -> bytes:
    """The metadata of a record batch, by the field numbers of Arrow's Message.fbs."""
    for padding in range(2):
        builder = flatbuffers.Builder(1024)
        if padding:
            builder.PrependInt32(0)
        # With an alignment of 4, as if the numbers had 32 bits.
        builder.StartVector(8, len(counts), 4)
        for count in reversed(counts):
            builder.head -= 8
            builder.Bytes[builder.head : builder.head + 8] = struct.pack("<q", count)
        counts_at = builder.EndVector()
        pairs = []
        for values in (buffers, nodes):
            builder.StartVector(16, len(values), 8)
            for first, second in reversed(values):
                builder.Prep(8, 16)
                builder.PrependInt64(second)
                builder.PrependInt64(first)
            pairs.append(builder.EndVector())
        builder.StartObject(5)
        builder.PrependInt64Slot(0, len(VALUES), 0)
        builder.PrependUOffsetTRelativeSlot(1, pairs[1], 0)
        builder.PrependUOffsetTRelativeSlot(2, pairs[0], 0)
        builder.PrependUOffsetTRelativeSlot(4, counts_at, 0)
        batch = builder.EndObject()
        builder.StartObject(5)
        builder.PrependInt16Slot(0, 4, 0)  # V5
        builder.PrependUint8Slot(1, 3, 0)  # RecordBatch
        builder.PrependUOffsetTRelativeSlot(2, batch, 0)
        builder.PrependInt64Slot(3, body, 0)
        builder.Finish(builder.EndObject())
        metadata = bytes(builder.Output())
        numbers = struct.pack(f"<i{len(counts)}q", len(counts), *counts)
        if (metadata.index(numbers) + 4) % 8 == 4:
            return metadata
    raise AssertionError("the numbers are aligned")


def framed(metadata: bytes, body: bytes) -> bytes:
    metadata += bytes(-len(metadata) % 8)
    return struct.pack("<Ii", 0xFFFFFFFF, len(metadata)) + metadata + body


def main() -> None:
    column = pyarrow.array(VALUES, pyarrow.string_view())
    buffers = [buffer.to_pybytes() if buffer else b"" for buffer in column.buffers()]
    body, places = b"", []
    for buffer in buffers:
        places.append((len(body), len(buffer)))
        body += buffer + bytes(-len(buffer) % 8)
    schema = pyarrow.schema([("s", pyarrow.string_view())]).serialize().to_pybytes()
    metadata = message(places, [(len(VALUES), column.null_count)], [len(buffers) - 2], len(body))
    stream = schema + framed(metadata, body) + struct.pack("<Ii", 0xFFFFFFFF, 0)
    with open("unaligned.arrows", "wb") as file:
        file.write(stream)
    assert pyarrow.ipc.open_stream(stream).read_all().to_pydict() == {"s": VALUES}


main()
