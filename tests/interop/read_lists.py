"""Reads records of type elwc: as messages, with the classes of protobuf, and as tensors, with the module of the command.

    read_lists.py SHARDS MODULE DESCRIPTORS

Prints as JSON the context and the examples of each record, and the tensors of the first four records.
"""

import glob
import importlib.util
import json
import sys

import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


def message_class(path):
    """The class of an ExampleListWithContext, from descriptors that protobuf has compiled."""
    files = descriptor_pb2.FileDescriptorSet()
    with open(path, "rb") as descriptors:
        files.ParseFromString(descriptors.read())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tensorflow.serving.ExampleListWithContext"))


def features(example):
    """The features of an Example, by TensorFlow's class."""
    example = tf.train.Example.FromString(example.SerializeToString())
    kinds = {"bytes_list": lambda value: value.decode(), "float_list": float, "int64_list": int}
    names = sorted(example.features.feature)
    found = [(name, example.features.feature[name]) for name in names]
    kind = lambda feature: feature.WhichOneof("kind")
    return {name: [kinds[kind(feature)](value) for value in getattr(feature, kind(feature)).value] for name, feature in found}


def text(values):
    if isinstance(values, list):
        return [text(value) for value in values]
    if values != values:  # NaN, which the module has in place of nulls
        return None
    return values.decode() if isinstance(values, bytes) else values


def main(shards, module, descriptors):
    spec = importlib.util.spec_from_file_location("module", module)
    reader = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reader)
    files = sorted(glob.glob(f"{shards}/*.tfrecord"))
    records = [record.numpy() for record in tf.data.TFRecordDataset(files)]
    messages = [message_class(descriptors).FromString(record) for record in records]
    found = [[features(message.context), [features(example) for example in message.examples]] for message in messages]
    (batch,) = reader.dataset(f"{shards}/*.tfrecord", batch_size=4).take(1)
    as_list = lambda tensor: tensor.to_list() if isinstance(tensor, tf.RaggedTensor) else tensor.numpy().tolist()
    tensors = {name: text(as_list(batch[name])) for name in sorted(batch)}
    json.dump({"messages": found, "tensors": tensors}, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
