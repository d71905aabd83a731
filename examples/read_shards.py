"""Reads shards made from examples/data/trips.parquet with tf.data, as a training job does.

    python examples/read_shards.py shards/
"""

import os
import sys

import tensorflow as tf

# A scalar that may be null needs a default. A list of any length is a ragged feature.
FEATURES = {
    "trip_id": tf.io.FixedLenFeature([], tf.int64),
    "city": tf.io.FixedLenFeature([], tf.string),
    "passengers": tf.io.FixedLenFeature([], tf.int64, default_value=1),
    "distance_km": tf.io.FixedLenFeature([], tf.float32),
    "fare": tf.io.FixedLenFeature([], tf.float32),
    "tip": tf.io.FixedLenFeature([], tf.float32, default_value=0.0),
    "stops": tf.io.RaggedFeature(tf.int64),
}


def dataset(directory, batch_size=256):
    shards = tf.data.Dataset.list_files(os.path.join(directory, "*.tfrecord"), shuffle=True, seed=1)
    records = shards.interleave(tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE)
    return records.batch(batch_size).map(lambda batch: tf.io.parse_example(batch, FEATURES)).prefetch(tf.data.AUTOTUNE)


def main():
    trips, stops, fares = 0, 0, 0.0
    for batch in dataset(sys.argv[1]):
        trips += int(tf.size(batch["trip_id"]))
        stops += int(tf.size(batch["stops"].flat_values))
        fares += float(tf.reduce_sum(batch["fare"]))
    print(f"{trips} trips, {stops} stops, {fares:.0f} in fares")


if __name__ == "__main__":
    main()
