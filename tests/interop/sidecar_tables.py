"""Writes the tables of which `check_sidecars.py` reads the shards: flat.arrow and nested.arrow.

Argument: a directory. The values are the same every time.
"""

import os
import sys

import numpy as np
import pyarrow as pa

ROWS = 7000


def flat(random):
    def sometimes(values, share, kind):
        nulls = random.random(ROWS) < share
        return pa.array([None if null else value for value, null in zip(values, nulls, strict=True)], kind)

    normal = random.normal(100, 15, ROWS)
    lengths = random.integers(0, 6, ROWS)
    words = [[f"word{i}" for i in random.integers(0, 50, n)] for n in lengths]
    columns = {
        "id": pa.array(np.arange(ROWS), pa.int64()),
        "tiny": pa.array(random.integers(-128, 128, ROWS), pa.int8()),
        "wide": pa.array(random.integers(0, 2**40, ROWS), pa.uint64()),
        "flag": pa.array(random.random(ROWS) < 0.3),
        "half": pa.array(normal.astype(np.float16)),
        "ratio": sometimes(normal.astype(np.float32), 0.1, pa.float32()),
        "price": pa.array(np.where(random.random(ROWS) < 0.01, np.nan, np.exp(normal / 20))),
        "skewed": sometimes([int(n) for n in random.zipf(1.6, ROWS).clip(max=10**6)], 0.2, pa.int32()),
        "name": pa.array([f"customer {i * 7919 % 100003}" for i in range(ROWS)]),
        "city": sometimes([f"city <{i}> é" for i in random.integers(0, 10, ROWS)], 0.05, pa.string()),
        "label": pa.array(np.array(["cat", "dog", "hare"])[random.integers(0, 3, ROWS)]).dictionary_encode(),
        "raw": pa.array([bytes(random.integers(0, 256, n, np.uint8)) for n in lengths], pa.binary()),
        "words": pa.array(words, pa.list_(pa.string())),
        "numbers": sometimes([list(range(n)) for n in lengths], 0.1, pa.list_(pa.int32())),
        "always3": pa.array([[1.5, float(i), -2.0] for i in range(ROWS)], pa.list_(pa.float64())),
        "vector": pa.array([[float(i), 0, 1, 2] for i in range(ROWS)], pa.list_(pa.float32(), 4)),
        "day": pa.array(random.integers(0, 20000, ROWS), pa.int32()).cast(pa.date32()),
        "at": pa.array(random.integers(0, 10**15, ROWS), pa.int64()).cast(pa.timestamp("us", "UTC")),
        "point": pa.array([{"x": i % 100, "y": i / 7} for i in range(ROWS)], pa.struct([("x", pa.int32()), ("y", pa.float64())])),
    }
    return pa.table(columns)


def nested(random):
    count = 300
    tag = pa.struct([("x", pa.int16()), ("tags", pa.list_(pa.string()))])
    points = [[{"x": i, "tags": ["t"] * (i % 3)} for i in range(n)] for n in random.integers(0, 4, count)]
    columns = {
        "id": pa.array(range(count), pa.int64()),
        "points": pa.array(points, pa.list_(tag)),
        "grid": pa.array([[list(range(i)) for i in range(n)] for n in random.integers(0, 4, count)], pa.list_(pa.list_(pa.int64()))),
        "cube": pa.array([[[[0.5] * i] * 2 for i in range(n)] for n in random.integers(0, 3, count)], pa.list_(pa.list_(pa.list_(pa.float32())))),
        "pairs": pa.array([[[i, -i] for i in range(n)] for n in random.integers(0, 3, count)], pa.list_(pa.list_(pa.int32(), 2))),
        "scores": pa.array([[(f"k{i}", i / 2) for i in range(n)] for n in random.integers(0, 3, count)], pa.map_(pa.string(), pa.float32())),
        "deep": pa.array([{"in": {"flag": i % 2 == 0, "text": f"é{i}"}} for i in range(count)], pa.struct([("in", pa.struct([("flag", pa.bool_()), ("text", pa.string())]))])),
        "kinds": pa.array([["b", "a"][: i % 3] for i in range(count)], pa.list_(pa.string())),
    }
    return pa.table(columns)


if __name__ == "__main__":
    (directory,) = sys.argv[1:]
    random = np.random.default_rng(8)
    for name, table in (("flat", flat(random)), ("nested", nested(random))):
        with pa.ipc.new_file(os.path.join(directory, f"{name}.arrow"), table.schema) as writer:
            writer.write_table(table)
