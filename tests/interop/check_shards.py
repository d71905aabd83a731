"""Reads shard sets with TensorFlow and compares them with their source.

Standard input is a list of jobs, standard output a list of answers in the same order, both JSON. A job:

    {"name": "...", "source": "table.arrow | table.parquet | cells.jsonl", "rows": 5, "key": "id" or null,
     "choices": {"column": "bits"}, "int96": ["column"], "intervals": ["column"],
     "out": "directory", "exit": 0, "stderr": "what the command said"}

`rows` is the number of rows in all, or null where that is the source's; the source may hold the first of them only.
`int96` and `intervals` are the columns that a Parquet file stores as these. With `key`, rows are told by that column's values; else they stand in the source's order. An answer is
{"name", "outcome", "reason"}; the outcomes are

    converted   every record was parsed by tf.io.parse_example and by the protobuf class, and every value is right
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
    try:
        columns = [oracle.Column(field, job["choices"].get(field.name)) for field in table.schema]
        refuse_names(table.schema.names)
        for name in job["intervals"]:
            raise oracle.Refused(name, " is an interval, which pyarrow does not know")
    except oracle.Refused as refused:
        refused_by_command(job, refused, [refused.column, os.path.basename(job["name"])])
        return "type", str(refused)
    try:
        rows = list(zip(*(column.rows(table.column(i)) for i, column in enumerate(columns)), strict=True))
    except oracle.Refused as refused:
        refused_by_command(job, refused, [refused.column])
        return "value", str(refused)
    if not columns:
        rows = [()] * (job["rows"] if job["rows"] is not None else table.num_rows)
    if job["exit"] != 0:
        raise Wrong(f"exit code {job['exit']}: {job['stderr'].strip()}")
    compare(job, columns, rows)
    return "converted", ""


def in_units_read(table, job):
    """INT96 has no unit of its own: the one that the manifest names is right, as long as the value is."""
    import pyarrow as pa

    if not job["int96"] or job["exit"] != 0:
        return table
    with open(os.path.join(job["out"], "_manifest.json"), encoding="utf-8") as file:
        types = {column["column"]: column["type"] for column in json.load(file)["mapping"]["columns"]}
    for i, field in enumerate(table.schema):
        if field.name in job["int96"] and pa.types.is_timestamp(field.type):
            unit = "ns" if types[field.name].startswith("Timestamp(ns") else "us"
            table = table.set_column(i, field.name, table.column(i).cast(pa.timestamp(unit, field.type.tz), safe=False))
    return table


def refuse_names(names):
    for name in names:
        if not name or names.count(name) > 1:
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
        expected = [(column.name, column.kind, column.many)] if column.kind else []
        features = [(feature["name"], feature["kind"], feature["shape"] != "scalar") for feature in mapped[column.name]]
        if features != expected:
            raise Wrong(f"the manifest maps {column.name} to {features}, expected {expected}")

    compression = {".gz": "GZIP", ".zlib": "ZLIB"}.get(os.path.splitext(found[0])[1], "")
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

    examples = [tf.train.Example.FromString(record) for record in records]
    if job["key"]:
        rows = in_order_of_key(job["key"], columns, rows, examples)
    for row, (values, example) in enumerate(zip(rows, examples)):
        compare_example(row, columns, values, example.features.feature)
    compare_parsed(columns, rows, records)


def in_order_of_key(key, columns, rows, examples):
    """The source's rows in the order of the records."""
    position = [column.name for column in columns].index(key)
    by_key = {row[position][0]: row for row in rows}
    if len(by_key) != len(rows):
        raise Wrong(f"{key} is no key")
    field = oracle.KINDS[columns[position].kind]
    keys = [getattr(example.features.feature[key], field).value[0] for example in examples]
    if sorted(keys) != sorted(by_key):
        raise Wrong("a row is missing, or there twice")
    return [by_key[value] for value in keys]


def compare_example(row, columns, values, features):
    wanted = {column.name: (column.kind, value) for column, value in zip(columns, values) if value is not oracle.ABSENT}
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


def compare_parsed(columns, rows, records):
    """The same values by tf.io.parse_example, as a training job parses them; and every record parses."""
    import tensorflow as tf

    dtypes = {"int64": tf.int64, "float": tf.float32, "bytes": tf.string}
    defaults = {"int64": -1, "float": -1.0, "bytes": b"absent"}
    spec = {
        column.name: tf.io.RaggedFeature(dtypes[column.kind])
        if column.many
        else tf.io.FixedLenFeature([], dtypes[column.kind], defaults[column.kind])
        for column in columns
        if column.kind
    }
    if not spec:
        return
    for start in range(0, max(len(records), 1), 1024):
        parsed = tf.io.parse_example(tf.constant(records[start : start + 1024], tf.string), spec)
        for position, column in enumerate(columns):
            if not column.kind:
                continue
            if column.many:
                found = parsed[column.name].to_list()
            else:
                found = [[value] for value in parsed[column.name].numpy().tolist()]
            absent = [] if column.many else [defaults[column.kind]]
            for row, values in enumerate(rows[start : start + len(found)], start):
                expected = absent if values[position] is oracle.ABSENT else values[position]
                compare_values(row, column.name, expected, found[row - start])


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
