"""Makes bad_checksum.parquet: four row groups of one page each, one bit of the last page changed afterwards."""

import os

import pyarrow as pa
import pyarrow.parquet as pq

path = os.path.join(os.path.dirname(__file__), "bad_checksum.parquet")
rows = 400
table = pa.table({"number": pa.array(range(rows), pa.int64())})
pq.write_table(
    table,
    path,
    compression="none",
    use_dictionary=False,
    row_group_size=rows // 4,
    write_page_checksum=True,
    write_statistics=False,
    store_schema=False,
)
with open(path, "r+b") as file:
    content = file.read()
    last = content.rindex((rows - 1).to_bytes(8, "little"))
    file.seek(last)
    file.write((rows - 2).to_bytes(8, "little"))

pq.read_table(path)  # without checksums the damage goes unseen
try:
    pq.read_table(path, page_checksum_verification=True)
except OSError as error:
    print(error)
else:
    raise SystemExit("the damage is not found")
