"""Reads shards by what lies beside them as TensorFlow Extended does.

TensorFlow Data Validation computes statistics of the shards, which must be those of `_stats.pb`, and finds nothing wrong by
`schema.pbtxt`. tfx_bsl decodes the shards by `schema.pbtxt`, which must give the values of the table.

Arguments: the table as an Arrow IPC file; the directory of its shards; columns that are class labels, which are compared by
TensorFlow Data Validation alone. Rows are told by the column `id`. Prints what is wrong as a JSON list.
"""

import json
import sys

import numpy as np
import pyarrow as pa
import tensorflow_data_validation as tfdv
from tfx_bsl.public import tfxio


def by_name(statistics):
    (dataset,) = statistics.datasets
    return dataset, {feature.path.step[0]: feature for feature in dataset.features}


def compare(directory):
    ours, features = by_name(tfdv.load_stats_binary(f"{directory}/_stats.pb"))
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
    for statistics in (generated, tfdv.load_stats_binary(f"{directory}/_stats.pb")):
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


def decoded(directory, schema):
    """Rows by their ids, each a dict of lists, or None where the record has no such feature."""
    source = tfxio.TFExampleRecord(file_pattern=f"{directory}/*.tfrecord", schema=schema)
    options = tfxio.RecordBatchesOptions(batch_size=500, num_epochs=1, shuffle=False)
    rows = {}
    for batch in source.RecordBatches(options):
        source.TensorAdapter().ToBatchTensors(batch)
        for row in batch.to_pylist():
            rows[row["id"][0]] = row
    return rows


def features(row, kinds, prefix=""):
    """The features of a row of the table as lists, by name."""
    for name, value in row.items():
        kind = kinds[name]
        if pa.types.is_struct(kind):
            yield from features(value, {field.name: field.type for field in kind}, f"{prefix}{name}/")
        elif value is None or isinstance(value, list):
            yield prefix + name, value
        else:
            yield prefix + name, [value]


def plain(values):
    if values is None:
        return None
    return [value.encode() if isinstance(value, str) else float(np.float32(value)) if isinstance(value, float) else value for value in values]


def equal(expected, found):
    if expected is None or found is None or len(expected) != len(found):
        return expected == found
    return all(one == other or (one != one and other != other) for one, other in zip(expected, found))


def compare_rows(table, directory, labels):
    found = decoded(directory, tfdv.load_schema_text(f"{directory}/schema.pbtxt"))
    if set(found) != set(range(len(table))):
        yield f"rows {len(found)}, expected {len(table)}"
        return
    kinds = {field.name: integers(field.type) for field in table.schema}
    table = table.cast(pa.schema(kinds.items()))
    for number, row in enumerate(table.to_pylist()):
        for name, value in features(row, kinds):
            if name not in labels and not equal(plain(value), plain(found[number].get(name))):
                yield f"row {number}, {name}: {found[number].get(name)}, expected {value}"


def integers(kind):
    """Dates and times as the numbers that they are stored as."""
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_dictionary(kind):
        return kind.value_type
    return pa.int64() if pa.types.is_timestamp(kind) else kind


if __name__ == "__main__":
    source, directory, *labels = sys.argv[1:]
    with pa.memory_map(source) as file:
        table = pa.ipc.open_file(file).read_all()
    problems = [*compare(directory), *compare_rows(table, directory, labels)]
    json.dump(problems[:50], sys.stdout, indent=1)
