"""A data source for Spark 4 that writes a DataFrame as TFRecord shards, all or nothing.

    spark.dataSource.register(TFRecordDataSource)
    df.write.format("tfrecord").mode("overwrite").option("shard_size", "256MiB").save("/shared/train")

Tasks stage shards, and the driver publishes them. Retried and speculative tasks do no harm. This program writes some
rows:

    python examples/python/spark_data_source.py shards/
"""

from __future__ import annotations

import inspect
import os
import sys
from dataclasses import dataclass

from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema

import tfr_sql as tfr

# Those of tfr.start_write that are texts. Spark passes all options as texts.
OPTIONS = ("shard_size", "compression", "prefix", "null", "record_type", "separator")


class TFRecordDataSource(DataSource):
    @classmethod
    def name(cls):
        return "tfrecord"

    def writer(self, schema, overwrite):
        options = {name: self.options[name] for name in OPTIONS if name in self.options}
        if "shard_rows" in self.options:
            options["shard_rows"] = int(self.options["shard_rows"])
        mode = "overwrite" if overwrite else "append"
        return TFRecordWriter(self.options["path"], arrow_schema(schema), mode=mode, **options)


def arrow_schema(schema):
    # Newer releases of Spark ask for the time zone, older ones use UTC.
    has_zone = "timezone" in inspect.signature(to_arrow_schema).parameters
    return to_arrow_schema(schema, timezone="UTC") if has_zone else to_arrow_schema(schema)


@dataclass
class Report(WriterCommitMessage):
    report: bytes


class TFRecordWriter(DataSourceArrowWriter):
    def __init__(self, path, schema, **options):
        self.schema = schema
        self.job = tfr.start_write(path, schema, **options)

    def write(self, iterator):
        # In the executors. Batches have the time zone of the session, the schema has UTC.
        batches = (batch.cast(self.schema) for batch in iterator)
        return Report(self.job.stage(TaskContext.get().partitionId(), batches))

    def commit(self, messages):
        self.job.commit([message and message.report for message in messages], tasks=len(messages))

    def abort(self, messages):
        self.job.abort()


def main(out):
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master("local[2]").appName("tfrecord").getOrCreate()
    spark.dataSource.register(TFRecordDataSource)
    rows = spark.range(0, 1000, numPartitions=4).selectExpr("id", "concat('trip ', id) AS name", "id / 10 AS fare")
    rows.write.format("tfrecord").mode("overwrite").option("shard_rows", 200).save(out)
    spark.stop()
    totals = tfr.manifest(out)["totals"]
    print(f"{totals['rows']} rows in {totals['shards']} shards")


if __name__ == "__main__":
    main(sys.argv[1])
