"""Reads `stats.pb` and `schema.pbtxt` with TensorFlow Data Validation, which computes the same statistics of the shards.

Arguments: directories of shards. Prints what is wrong as a JSON list. TensorFlow Data Validation is held back by its
requirements, so this runs in an environment of its own, of Python 3.9 to 3.11:
`uv pip install tensorflow-data-validation==1.16.1 "setuptools<70" dill`.
"""

import json
import sys

import tensorflow_data_validation as tfdv


def by_name(statistics):
    (dataset,) = statistics.datasets
    return dataset, {feature.path.step[0]: feature for feature in dataset.features}


def compare(directory):
    ours, features = by_name(tfdv.load_stats_binary(f"{directory}/stats.pb"))
    generated = tfdv.generate_statistics_from_tfrecord(f"{directory}/*.tfrecord")
    theirs, expected = by_name(generated)
    if ours.num_examples != theirs.num_examples:
        yield f"{ours.num_examples} examples, expected {theirs.num_examples}"
    if set(features) != set(expected):
        yield f"features {sorted(features)}, expected {sorted(expected)}"
    for name in set(features) & set(expected):
        for field, (value, other) in figures(features[name], expected[name]):
            if abs(value - other) > 1e-5 * max(1, abs(other)):
                yield f"{name} {field}: {value}, expected {other}"
    schema = tfdv.load_schema_text(f"{directory}/schema.pbtxt")
    for statistics in (generated, tfdv.load_stats_binary(f"{directory}/stats.pb")):
        for name, anomaly in tfdv.validate_statistics(statistics, schema).anomaly_info.items():
            yield f"{name}: {anomaly.description}"


def figures(ours, theirs):
    kind = theirs.WhichOneof("stats")
    one = getattr(ours, ours.WhichOneof("stats"))
    other = getattr(theirs, kind)
    for field in ("num_missing", "num_non_missing", "min_num_values", "max_num_values", "tot_num_values"):
        yield field, (getattr(one.common_stats, field), getattr(other.common_stats, field))
    if kind == "num_stats":
        for field in ("num_zeros", "min", "max", "mean", "std_dev"):
            yield field, (getattr(one, field), getattr(other, field))
        yield "NaNs", (one.histograms[0].num_nan, other.histograms[0].num_nan)
    elif ours.WhichOneof("stats") == "string_stats":
        yield "avg_length", (one.avg_length, other.avg_length)
        few = other.unique <= 1000
        if few:
            yield "unique", (one.unique, other.unique)
            for top, exact in zip(one.top_values, other.top_values):
                yield f"top value {exact.value}", (top.frequency, exact.frequency)


if __name__ == "__main__":
    problems = [f"{directory}: {problem}" for directory in sys.argv[1:] for problem in compare(directory)]
    json.dump(problems, sys.stdout, indent=1)
