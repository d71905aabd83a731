"""Reads ArrayRecord sets with Google's reader, and TensorFlow Datasets where a set is described for it.

Arguments: pairs of directories, of the same rows as TFRecord and as ArrayRecord. Prints what was compared.
"""

import glob
import os
import struct
import sys

from array_record.python.array_record_data_source import ArrayRecordDataSource
from array_record.python.array_record_module import ArrayRecordReader


def payloads(path):
    """The records of a TFRecord file, by its layout alone."""
    with open(path, "rb") as file:
        content = file.read()
    records, at = [], 0
    while at < len(content):
        (length,) = struct.unpack_from("<Q", content, at)
        records.append(content[at + 12 : at + 12 + length])
        at += 16 + length
    return records


def expect(what, expected, found):
    if expected != found:
        sys.exit(f"{what}: expected {str(expected)[:200]}, found {str(found)[:200]}")


def shards(directory, extension):
    return sorted(glob.glob(f"{directory}/**/*{extension}", recursive=True))


def check_file(path, expected):
    reader = ArrayRecordReader(path)
    expect(f"{path}: ok", True, reader.ok())
    expect(f"{path}: number", len(expected), reader.num_records())
    if expected:
        expect(f"{path}: all", expected, reader.read_all())
        some = list(range(0, len(expected), 7))[::-1]
        expect(f"{path}: by number", [expected[at] for at in some], reader.read(some))
        expect(f"{path}: one by one", expected, [reader.read() for _ in expected])
    reader.close()


def check_tfds(directory, records):
    import tensorflow_datasets as tfds

    builder = tfds.builder_from_directory(directory)
    for split, expected in records.items():
        expect(f"{directory}: number in {split}", len(expected), builder.info.splits[split].num_examples)
        source = builder.as_data_source(split=split)
        expect(f"{directory}: length of {split}", len(expected), len(source))
        serialized = [source.data_source[at] for at in range(len(expected))]
        expect(f"{directory}: records of {split}", expected, serialized)
        rows = [source[at] for at in range(min(len(expected), 20))]
        expect(f"{directory}: columns of {split}", set(builder.info.features), set(rows[0]))


def main():
    compared = 0
    for tfrecord, array_record in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        files, theirs = shards(array_record, ".array_record"), shards(tfrecord, ".tfrecord")
        names = [os.path.relpath(path, tfrecord).removesuffix(".tfrecord") for path in theirs]
        expect("shards", names, [os.path.relpath(path, array_record).removesuffix(".array_record") for path in files])
        records, splits = [], {}
        for path, other in zip(files, theirs, strict=True):
            expected = payloads(other)
            check_file(path, expected)
            records += expected
            split = os.path.basename(path).split("-")[0]
            splits.setdefault("train" if split == "part" else split, []).extend(expected)
        source = ArrayRecordDataSource([path for path in files])
        expect("length of the source", len(records), len(source))
        expect("records of the source", records, [source[at] for at in range(len(source))])
        if os.path.exists(f"{array_record}/dataset_info.json"):
            check_tfds(array_record, splits)
        compared += len(files)
    print(f"{compared} files")


main()
