"""Reads shards of images with TensorFlow, and decodes every one of them.

    check_images.py MODULE SHARDS    MODULE is what `tfr-sql schema SHARDS --as python` printed

Prints a line of JSON for each record, sorted: its features, the bytes of the image replaced by the shape of what both
`tf.io.decode_image` and the op for its format make of it.
"""

import glob
import importlib.util
import json
import sys

import tensorflow as tf


def decoded(image):
    """Height, width and depth of an image, as it is encoded."""
    if tf.io.is_jpeg(image):
        pixels = [tf.io.decode_jpeg(image)]
    else:
        pixels = [tf.io.decode_png(image)]
    pixels.append(tf.io.decode_image(image, expand_animations=False))
    shapes = {tuple(found.shape.as_list()) for found in pixels}
    (shape,) = shapes
    return list(shape)


def readable(value):
    if value.dtype != tf.string:
        return value.numpy().item()
    value = value.numpy()
    return {"decoded": decoded(value)} if len(value) > 100 else value.decode()


def main():
    module, shards = sys.argv[1:]
    spec = importlib.util.spec_from_file_location("parse_images", module)
    reader = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reader)
    files = sorted(glob.glob(f"{shards}/*-of-*"))
    rows = []
    for batch in tf.data.TFRecordDataset(files).batch(2).map(reader.parse):
        count = len(next(iter(batch.values())))
        rows += [{name: readable(column[row]) for name, column in batch.items()} for row in range(count)]
    for row in sorted(json.dumps(row, sort_keys=True) for row in rows):
        print(row)


if __name__ == "__main__":
    main()
