"""Reads shard sets with TensorFlow and compares them with their source.

Standard input is a list of jobs, standard output a list of answers in the same order, both JSON. A job:

    {"name": "...", "source": "table.arrow | table.parquet | cells.jsonl", "rows": 5, "key": "id" or null,
     "choices": {"column": "bits"}, "nulls": "absent | mask", "record_type": "example | sequence-example",
     "sequences": ["column"], "int96": ["column"], "intervals": ["column"],
     "out": "directory", "exit": 0, "stderr": "what the command said"}

`rows` is the number of rows in all, or null where that is the source's; the source may hold the first of them only.
`int96` and `intervals` are the columns that a Parquet file stores as these. With `key`, rows are told by that column's values; else they stand in the source's order. An answer is
{"name", "outcome", "reason"}; the outcomes are

    converted   every record was parsed by TensorFlow's parser and by the protobuf class, and every value is right
    masked      the same, with a mask for the nulls inside lists
    type        the oracle and the command both refuse a column's type
    value       the oracle and the command both refuse a value
    failed      anything else; the reason says what
"""

import glob
import itertools
import json
import os
import sys
import traceback

import oracle


class Wrong(Exception):
    """The output is not what it must be."""


def read_table(path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    if path.endswith(".jsonl"):  # an array of cells a line
        with open(path, encoding="utf-8", newline="\n") as lines:
            rows = [json.loads(line) for line in lines if line.strip()]
        # A cell that is not there is a null.
        columns = [pa.array(cells, pa.string()) for cells in itertools.zip_longest(*rows)]
        return pa.Table.from_arrays(columns, names=[f"column_{number + 1}" for number in range(len(columns))])
    if path.endswith(".parquet"):
        return pq.read_table(path)
    with pa.memory_map(path) as file:
        return pa.ipc.open_file(file).read_all()


def check(job):
    table = in_units_read(read_table(job["source"]), job)
    rules = oracle.Rules.of(job)
    try:
        columns = [oracle.Column(field, rules) for field in table.schema]
        refuse_names(table.schema.names, [feature.name for column in columns for feature in column.features])
        for name in job["intervals"]:
            raise oracle.Refused(name, " is an interval, which pyarrow does not know")
    except oracle.Refused as refused:
        refused_by_command(job, refused, [refused.column, os.path.basename(job["name"])])
        return "type", str(refused)
    rows, refusals = [], []
    for i, column in enumerate(columns):
        try:
            rows.append(list(column.rows(table.column(i))))
        except oracle.Refused as refused:
            refusals.append(refused)
    if refusals:
        refused_by_command(job, refusals[0], [f'"{refused.column}"' for refused in refusals])
        return "value", str(refusals[0])
    rows = list(zip(*rows, strict=True))
    if not columns:
        rows = [()] * (job["rows"] if job["rows"] is not None else table.num_rows)
    if job["exit"] != 0:
        raise Wrong(f"exit code {job['exit']}: {job['stderr'].strip()}")
    compare(job, columns, rows)
    return "masked" if rules.nulls == "mask" else "converted", ""


def in_units_read(table, job):
    """INT96 has no unit of its own: the one that the manifest names is right, as long as the value is."""
    import pyarrow as pa

    if not job["int96"] or job["exit"] != 0:
        return table
    with open(os.path.join(job["out"], "_manifest.json"), encoding="utf-8") as file:
        types = {column["column"]: column["type"] for column in json.load(file)["mapping"]["columns"]}
    for i, field in enumerate(table.schema):
        if field.name in job["int96"]:
            unit = "ns" if "Timestamp(ns" in types[field.name] else "us"
            column = table.column(i).cast(in_unit(field.type, unit), safe=False)
            table = table.set_column(i, field.with_type(column.type), column)
    return table


def in_unit(dtype, unit):
    """The type with timestamps of that unit."""
    import pyarrow as pa

    if pa.types.is_timestamp(dtype):
        return pa.timestamp(unit, dtype.tz)
    if pa.types.is_list(dtype):
        return pa.list_(dtype.value_field.with_type(in_unit(dtype.value_type, unit)))
    if pa.types.is_struct(dtype):
        return pa.struct([field.with_type(in_unit(field.type, unit)) for field in oracle.fields_of(dtype)])
    return dtype


def refuse_names(names, features):
    for name in [*names, *features]:
        if not name or names.count(name) > 1 or features.count(name) > 1:
            raise oracle.Refused(name, ": its name is empty or stands twice")


def refused_by_command(job, refused, names):
    if job["exit"] != 1:
        raise Wrong(f"exit code {job['exit']}, but it must refuse: {refused}")
    if not any(name in job["stderr"] for name in names):
        raise Wrong(f"it must refuse {refused}, but it says: {job['stderr'].strip()}")
    if os.path.exists(job["out"]):
        raise Wrong("refused, but the output directory is there")


def compare(job, columns, rows):
    import tensorflow as tf

    out = job["out"]
    with open(os.path.join(out, "_manifest.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    if os.path.getsize(os.path.join(out, "_SUCCESS")) != 0:
        raise Wrong("_SUCCESS is not empty")
    listed = [os.path.join(out, shard["path"]) for shard in manifest["shards"]]
    found = sorted(glob.glob(os.path.join(glob.escape(out), "*.tfrecord*")))
    if sorted(listed) != found:
        raise Wrong(f"the manifest lists {listed}, the directory holds {found}")

    mapped = {column["column"]: column["features"] for column in manifest["mapping"]["columns"]}
    for column in columns:
        expected = [(feature.name, feature.kind, feature.many, column.in_steps) for feature in column.features]
        features = [
            (feature["name"], feature["kind"], feature["shape"] != "scalar", feature.get("in_steps", False))
            for feature in mapped[column.name]
        ]
        if sorted(features) != sorted(expected):
            raise Wrong(f"the manifest maps {column.name} to {sorted(features)}, expected {sorted(expected)}")

    compression = {".gz": "GZIP", ".deflate": "ZLIB", ".zlib": "ZLIB"}.get(os.path.splitext(found[0])[1], "")
    counts = []
    records = []
    for path in listed:
        shard = tf.data.TFRecordDataset(path, compression).batch(4096).as_numpy_iterator()
        shard = [record for batch in shard for record in batch]
        counts.append(len(shard))
        records += shard
    if counts != [shard["rows"] for shard in manifest["shards"]]:
        raise Wrong(f"the manifest says {[shard['rows'] for shard in manifest['shards']]} rows, there are {counts}")
    total = job["rows"] if job["rows"] is not None else len(rows)
    if len(records) != total:
        raise Wrong(f"{total} rows in, {len(records)} records out")

    message = tf.train.SequenceExample if job.get("record_type") == "sequence-example" else tf.train.Example
    examples = [message.FromString(record) for record in records]
    if job["key"]:
        rows = in_order_of_key(job["key"], columns, rows, examples)
    for row, (values, example) in enumerate(zip(rows, examples)):
        compare_example(row, columns, values, example)
    if message is tf.train.Example:
        compare_parsed(columns, rows, records)
    else:
        compare_sequences(columns, rows, records)


def in_order_of_key(key, columns, rows, examples):
    """The source's rows in the order of the records."""
    position = [column.name for column in columns].index(key)
    by_key = {row[position][key][0]: row for row in rows}
    if len(by_key) != len(rows):
        raise Wrong(f"{key} is no key")
    field = oracle.KINDS[columns[position].features[0].kind]
    keys = [getattr(example.features.feature[key], field).value[0] for example in examples]
    if sorted(keys) != sorted(by_key):
        raise Wrong("a row is missing, or there twice")
    return [by_key[value] for value in keys]


def compare_example(row, columns, values, example):
    wanted, steps = {}, {}
    for column, features in zip(columns, values):
        for feature in column.features:
            if feature.name in features:
                (steps if column.in_steps else wanted)[feature.name] = (feature.kind, features[feature.name])
    is_sequence = hasattr(example, "context")
    compare_features(row, wanted, (example.context if is_sequence else example.features).feature)
    if not is_sequence:
        return
    lists = example.feature_lists.feature_list
    if steps.keys() != lists.keys():
        raise Wrong(f"row {row}: feature lists {sorted(lists)}, expected {sorted(steps)}")
    for name, (kind, expected) in steps.items():
        found = lists[name].feature
        if len(found) != len(expected):
            raise Wrong(f"row {row}: feature list {name}: {len(found)} steps, expected {len(expected)}")
        for step, feature in zip(expected, found):
            compare_features(row, {name: (kind, step)}, {name: feature})


def compare_features(row, wanted, features):
    if wanted.keys() != features.keys():
        raise Wrong(f"row {row}: features {sorted(features)}, expected {sorted(wanted)}")
    for name, (kind, expected) in wanted.items():
        feature = features[name]
        if feature.WhichOneof("kind") != oracle.KINDS[kind]:
            raise Wrong(f"row {row}: feature {name}: {feature.WhichOneof('kind')}, expected {kind}")
        found = list(getattr(feature, oracle.KINDS[kind]).value)
        compare_values(row, name, expected, found)


def compare_values(row, name, expected, found):
    if len(found) != len(expected) or not all(map(oracle.same, expected, found)):
        raise Wrong(f"row {row}: feature {name}: {found!r:.200}, expected {expected!r:.200}")


DEFAULTS = {"int64": -1, "float": -1.0, "bytes": b"absent"}


def specs(columns, in_steps):
    import tensorflow as tf

    dtypes = {"int64": tf.int64, "float": tf.float32, "bytes": tf.string}
    return {
        feature.name: tf.io.RaggedFeature(dtypes[feature.kind])
        if feature.many or in_steps
        else tf.io.FixedLenFeature([], dtypes[feature.kind], DEFAULTS[feature.kind])
        for column in columns
        if column.in_steps == in_steps
        for feature in column.features
    }


def compare_parsed(columns, rows, records):
    """The same values by tf.io.parse_example, as a training job parses them; and every record parses."""
    import tensorflow as tf

    spec = specs(columns, False)
    if not spec:
        return
    for start in range(0, max(len(records), 1), 1024):
        parsed = tf.io.parse_example(tf.constant(records[start : start + 1024], tf.string), spec)
        compare_tensors(columns, rows, start, parsed, False)


def compare_sequences(columns, rows, records):
    """The same by tf.io.parse_sequence_example."""
    import tensorflow as tf

    context, steps = specs(columns, False), specs(columns, True)
    found, lists, _ = tf.io.parse_sequence_example(tf.constant(records, tf.string), context, steps)
    compare_tensors(columns, rows, 0, found, False)
    compare_tensors(columns, rows, 0, lists, True)


def compare_tensors(columns, rows, start, parsed, in_steps):
    for position, column in enumerate(columns):
        for feature in column.features if column.in_steps == in_steps else []:
            if feature.many or in_steps:
                found, absent = parsed[feature.name].to_list(), []
            else:
                found = [[value] for value in parsed[feature.name].numpy().tolist()]
                absent = [DEFAULTS[feature.kind]]
            for row, values in enumerate(rows[start : start + len(found)], start):
                expected, read = values[position].get(feature.name, absent), found[row - start]
                if not in_steps:
                    compare_values(row, feature.name, expected, read)
                elif len(expected) != len(read):
                    raise Wrong(f"row {row}: {feature.name}: {len(read)} steps, expected {len(expected)}")
                for step, inner in zip(expected, read) if in_steps else []:
                    compare_values(row, feature.name, step, inner)


def main():
    answers = []
    for job in json.load(sys.stdin):
        try:
            outcome, reason = check(job)
        except Wrong as wrong:
            outcome, reason = "failed", str(wrong)
        except Exception:
            outcome, reason = "failed", traceback.format_exc(limit=-3)
        answers.append({"name": job["name"], "outcome": outcome, "reason": reason})
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
