"""The tables of the benchmark, the same bytes in every run: tables.py DIRECTORY NAME...

  lineitem_ml[@SCALE]  TPC-H lineitem, decimals as float64 and dates as int32: 16 columns, 6,001,215 rows a scale factor
  ctr                  a click log: label, 13 nullable ints, 26 nullable strings, a list of 0 to 50 ids, an embedding of 64
                       floats, a float64; 1,000,000 rows
  small                5 columns, about 130 framed bytes a row; 30,000,000 rows in 7 files
  wide@COLUMNS         40,000,000 / COLUMNS rows of float64 and int64 columns, in turn
"""

import pathlib
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROW_GROUP = 131_072


def write(path, schema, tables):
    """Writes a file that is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    with pq.ParquetWriter(unfinished, schema, compression="snappy") as writer:
        for table in tables:
            writer.write_table(table, row_group_size=ROW_GROUP)
    unfinished.rename(path)


def as_features(table):
    """The columns in the types that training code uses."""

    def convert(column):
        if pa.types.is_decimal(column.type):
            return column.cast(pa.float64())
        if pa.types.is_date32(column.type):
            return column.cast(pa.int32())
        return column.cast(pa.string()) if pa.types.is_string_view(column.type) else column

    return pa.table({name: convert(table[name]) for name in table.column_names})


def lineitem_ml(path, scale):
    generated = path.parent / f"tpch-{scale}"
    generator = pathlib.Path(sys.executable).with_name("tpchgen-cli")
    subprocess.run(
        [generator, "parquet", "-s", str(scale), "--tables=lineitem", "--output-dir", generated], check=True
    )
    file = pq.ParquetFile(generated / "lineitem.parquet")
    batches = (as_features(pa.Table.from_batches([batch])) for batch in file.iter_batches(batch_size=ROW_GROUP))
    first = next(batches)

    def tables():
        yield first
        yield from batches

    write(path, first.schema, tables())
    (generated / "lineitem.parquet").unlink()
    generated.rmdir()


def ctr_part(random, rows):
    columns = {"label": random.integers(0, 2, rows).astype(np.int32)}
    for index in range(13):
        values = random.integers(0, 1 << random.integers(4, 20), rows)
        columns[f"i{index + 1}"] = pa.array(values, mask=random.random(rows) < 0.1)
    for index in range(26):
        words = np.array([f"{word:08x}" for word in random.integers(0, 1 << 32, 1 << random.integers(4, 14))])
        values = words[random.integers(0, len(words), rows)]
        columns[f"c{index + 1}"] = pa.array(values, mask=random.random(rows) < 0.05)
    lengths = random.integers(0, 51, rows)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    columns["ids"] = pa.ListArray.from_arrays(offsets, random.integers(0, 1 << 30, offsets[-1]))
    embedding = random.standard_normal(rows * 64, dtype=np.float32)
    columns["embedding"] = pa.FixedSizeListArray.from_arrays(embedding, 64).cast(pa.list_(pa.float32()))
    columns["weight"] = random.random(rows)
    return pa.table(columns)


def ctr(path, rows=1_000_000):
    random = np.random.default_rng(1)
    parts = (ctr_part(random, ROW_GROUP) for _ in range(rows // ROW_GROUP))
    first = next(parts)

    def tables():
        yield first
        yield from parts
        yield ctr_part(random, rows % ROW_GROUP)

    write(path, first.schema, tables())


def small(path, rows=30_000_000, files=7):
    random = np.random.default_rng(2)
    kinds = np.array(["alpha", "beta", "gamma", "delta"])
    bounds = [rows * file // files for file in range(files + 1)]

    def part(start, end):
        count = end - start
        return pa.table(
            {
                "id": np.arange(start, end),
                "user": random.integers(0, 1 << 40, count),
                "label": random.integers(0, 2, count).astype(np.int32),
                "price": random.random(count, dtype=np.float32),
                "kind": kinds[random.integers(0, 4, count)],
            }
        )

    for file, (start, end) in enumerate(zip(bounds, bounds[1:])):
        target = path / f"part-{file}.parquet"
        if not target.exists():
            steps = range(start, end, ROW_GROUP)
            write(target, part(0, 1).schema, (part(step, min(step + ROW_GROUP, end)) for step in steps))


def wide(path, columns):
    random = np.random.default_rng(3)
    rows = 40_000_000 // columns

    def part(count):
        make = (random.random, lambda size: random.integers(0, 1 << 20, size))
        return pa.table({f"f{column:04d}": make[column % 2](count) for column in range(columns)})

    steps = range(0, rows, 4096)
    write(path, part(1).schema, (part(min(4096, rows - step)) for step in steps))


def main(directory, names):
    for name in names:
        kind, _, size = name.partition("@")
        path = pathlib.Path(directory) / (name if kind == "small" else f"{name}.parquet")
        if kind == "small":
            small(path)
        elif path.exists():
            continue
        elif kind == "lineitem_ml":
            lineitem_ml(path, int(size or 1))
        elif kind == "ctr":
            ctr(path)
        elif kind == "wide":
            wide(path, int(size))
        else:
            sys.exit(f"unknown table {name!r}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
