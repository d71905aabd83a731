"""Decodes images with TensorFlow, and compares their shapes with what was read from their headers.

Standard input is a list of `[path, height, width, channels]` as JSON. Prints what is wrong, a line each, and how many of the
images TensorFlow decodes.
"""

import json
import sys

import tensorflow as tf


def shape(path):
    try:
        pixels = tf.io.decode_image(tf.io.read_file(path), expand_animations=False)
    except tf.errors.InvalidArgumentError:
        return None
    return pixels.shape.as_list()


def main():
    decoded = 0
    for path, *expected in json.load(sys.stdin):
        found = shape(path)
        decoded += found is not None
        if found not in (None, expected):
            print(f"{path}: {found}, but the header says {expected}")
    print(f"{decoded} decoded")


if __name__ == "__main__":
    main()
