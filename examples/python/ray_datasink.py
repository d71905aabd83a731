"""A Ray Datasink that writes a data set as TFRecord shards, all or nothing.

    ray.data.read_parquet("trips/").write_datasink(TFRecordDatasink("/shared/train", shard_size="256MiB"))

Tasks stage shards, and the driver publishes them. Tasks that Ray repeats do no harm. This program writes some rows:

    python examples/python/ray_datasink.py shards/
"""

from __future__ import annotations

import sys

import pyarrow as pa
import ray
from ray.data import Datasink
from ray.data.block import BlockAccessor

import tfr_sql as tfr


class TFRecordDatasink(Datasink):
    def __init__(self, out, **options):
        self.out = out
        self.options = options
        self.job = None
        self.manifest = None

    def on_write_start(self, schema=None):
        if not isinstance(schema, pa.Schema):
            raise ValueError(f"expected an Arrow schema, found {schema}: pass the rows in Arrow blocks")
        self.schema = schema
        self.job = tfr.start_write(self.out, schema, **self.options)

    def write(self, blocks, ctx):
        tables = (BlockAccessor.for_block(block).to_arrow().cast(self.schema) for block in blocks)
        return self.job.stage(ctx.task_idx, tables)

    def on_write_complete(self, write_result):
        self.manifest = self.job.commit(write_result.write_returns)

    def on_write_failed(self, error):
        if self.job is not None:
            self.job.abort()


def main(out):
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    rows = ray.data.from_arrow([pa.table({"id": range(first, first + 250)}) for first in range(0, 1000, 250)])
    sink = TFRecordDatasink(out, shard_rows=200, mode="overwrite")
    rows.write_datasink(sink)
    totals = sink.manifest["totals"]
    print(f"{totals['rows']} rows in {totals['shards']} shards")
    ray.shutdown()


if __name__ == "__main__":
    main(sys.argv[1])
