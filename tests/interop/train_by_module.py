"""Trains a model of two layers for one epoch on shards, read by the module that was written for them.

Arguments: the module, the shards (a pattern), the column to predict, the columns to predict it from. Prints the loss of
every step of a tenth of the epoch, the first and the last, as JSON.
"""

import importlib.util
import json
import sys

import keras
import numpy as np
import tensorflow as tf


def main():
    path, files, label, *columns = sys.argv[1:]
    spec = importlib.util.spec_from_file_location("parse_example", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    keras.utils.set_random_seed(1)

    def inputs(features, label):
        return tf.stack([tf.cast(features[name], tf.float32) for name in columns], axis=1), label

    batches = module.dataset(files, 64, label=label, shuffle=10_000, seed=1, drop_remainder=True).map(inputs)
    normalization = keras.layers.Normalization()
    normalization.adapt(batches.map(lambda values, _: values))
    model = keras.Sequential([normalization, keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.05), "mse")
    losses = []
    # Keras reports the mean of the epoch so far.
    history = keras.callbacks.LambdaCallback(on_train_batch_end=lambda step, logs: losses.append(float(logs["loss"])))
    model.fit(batches, epochs=1, verbose=0, callbacks=[history])
    last = float(model.evaluate(batches, verbose=0))
    json.dump({"steps": len(losses), "first": losses[0], "last": last, "finite": bool(np.isfinite(losses).all())}, sys.stdout)


if __name__ == "__main__":
    main()
