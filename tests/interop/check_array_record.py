"""Reads ArrayRecord sets with Google's reader, with grain if it is installed, and with TensorFlow Datasets where a set is
described for it.

Arguments: pairs of directories, of the same rows as TFRecord and as ArrayRecord; or --pairs and a file with a pair on each
line, between tabs. Prints what was compared. TensorFlow Datasets decodes no row in which a struct that contains lists, or a
list of structs, has no features: with --pairs it must only find these.
"""

import glob
import os
import struct
import sys

from array_record.python.array_record_data_source import ArrayRecordDataSource
from array_record.python.array_record_module import ArrayRecordReader

try:
    import grain
except ImportError:
    grain = None


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


def check_tfds(directory, records, undecoded_is_fine):
    import tensorflow_datasets as tfds

    builder = tfds.builder_from_directory(directory)
    for split, expected in records.items():
        if not expected:
            # TensorFlow Datasets has no source of no records.
            continue
        expect(f"{directory}: number in {split}", len(expected), builder.info.splits[split].num_examples)
        source = builder.as_data_source(split=split)
        expect(f"{directory}: length of {split}", len(expected), len(source))
        serialized = [source.data_source[at] for at in range(len(expected))]
        expect(f"{directory}: records of {split}", expected, serialized)
        try:
            rows = [source[at] for at in range(min(len(expected), 20))]
        except ValueError as error:
            if not undecoded_is_fine or "NoneType" not in str(error):
                raise
            return str(error)
        expect(f"{directory}: columns of {split}", set(builder.info.features), set(rows[0]))
    return None


def pairs():
    if sys.argv[1] == "--pairs":
        with open(sys.argv[2], encoding="utf-8") as lines:
            return [line.rstrip("\n").split("\t") for line in lines]
    return zip(sys.argv[1::2], sys.argv[2::2], strict=True)


def main():
    compared, of_records, by_grain, by_tfds = 0, 0, 0, 0
    for tfrecord, array_record in pairs():
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
        if grain:
            source = grain.MapDataset.source(grain.sources.ArrayRecordDataSource(files))
            expect("records of grain", records, list(source))
            by_grain += 1
        if os.path.exists(f"{array_record}/dataset_info.json"):
            undecoded = check_tfds(array_record, splits, sys.argv[1] == "--pairs")
            if undecoded:
                print(f"the records of {array_record} are not decoded by TensorFlow Datasets: {undecoded[:200]}")
            by_tfds += any(splits.values())
        compared += len(files)
        of_records += len(records)
    print(f"{of_records} records, {by_grain} sets by grain, {by_tfds} by TensorFlow Datasets")
    print(f"{compared} files")


main()
