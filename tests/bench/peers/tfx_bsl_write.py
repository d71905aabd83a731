"""Parquet to one file by tfx_bsl's encoder and TensorFlow's writer: tfx_bsl_write.py TABLE OUT"""

import sys

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import tensorflow as tf
from tfx_bsl.coders.example_coder import RecordBatchToExamplesEncoder


def as_list(column):
    """The encoder takes lists only, of the three kinds of a feature."""
    kind = column.type.value_type if pa.types.is_list(column.type) else column.type
    if pa.types.is_integer(kind):
        value_type = pa.int64()
    elif pa.types.is_floating(kind):
        value_type = pa.float32()
    else:
        value_type = pa.binary()
    if pa.types.is_list(column.type):
        return column.cast(pa.list_(value_type))
    values = column.cast(value_type)
    lengths = values.is_valid().cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])
    return pa.ListArray.from_arrays(offsets, values.drop_null())


encoder = RecordBatchToExamplesEncoder()
with tf.io.TFRecordWriter(sys.argv[2]) as writer:
    for batch in pq.ParquetFile(sys.argv[1]).iter_batches(batch_size=4096):
        lists = pa.RecordBatch.from_arrays([as_list(column) for column in batch.columns], batch.schema.names)
        for record in encoder.encode(lists):
            writer.write(record)
