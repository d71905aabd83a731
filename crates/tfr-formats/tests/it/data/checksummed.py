"""Makes checksummed.parquet: two plain pages with checksums, which no Rust writer emits. Needs pyarrow."""

import pyarrow as pa
import pyarrow.parquet as pq

table = pa.table({"n": pa.array([0x1122334455667788] * 4, pa.int64())})
pq.write_table(
    table,
    "checksummed.parquet",
    compression="none",
    use_dictionary=False,
    write_page_checksum=True,
    write_statistics=False,
    store_schema=False,
)
