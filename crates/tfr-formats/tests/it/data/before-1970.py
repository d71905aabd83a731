"""Writes before-1970.orc: timestamps with a fraction below zero, as Arrow's C++ library has them."""

import random

import pyarrow
import pyarrow.orc

random.seed(1970)
values = [0, -1, -1000, -1_000_000, -999_999_999, -1_000_000_000, -1_500_000_000, -1_500_000_001, 1, 1_500_000_000, None]
values += [-random.randrange(1, 6 * 10**18) for _ in range(600)]
values += [-1000 * random.randrange(1, 10**6) for _ in range(600)]
values += [-5_000_000_007 - 10 * n for n in range(600)]
ns = pyarrow.timestamp("ns")
table = pyarrow.table(
    {
        "i": pyarrow.array(values, pyarrow.int64()),
        "local": pyarrow.array(values, ns),
        "instant": pyarrow.array(values, pyarrow.timestamp("ns", "UTC")),
        "list": pyarrow.array([[value, 0] for value in values], pyarrow.list_(ns)),
    }
)
pyarrow.orc.write_table(table, "before-1970.orc", compression="zlib")
