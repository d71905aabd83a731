"""Writes files of one table whose columns have different types: NAME/old.EXT and NAME/new.EXT.

Rows 1 to 4 are in the old file, 5 to 8 in the new one; Parquet files have two rows in a row group, so that filters prune.
Needs pyarrow and fastavro. Prints what DuckDB reads from the Parquet files with union_by_name=true, which
tests/it/drift.rs expects.
"""

import datetime
import decimal
import pathlib

import duckdb
import fastavro
import pyarrow as pa
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet as pq

HERE = pathlib.Path(__file__).parent
DAY = datetime.datetime(2024, 3, 15, 10, 20, 30)


def times(micros):
    return [DAY, None, datetime.datetime(1969, 12, 31, 23, 59, 59), DAY + datetime.timedelta(microseconds=micros)]


def numbers(values):
    return [decimal.Decimal(value) if value is not None else None for value in values]


old_struct = pa.struct([("a", pa.int32()), ("b", pa.string())])
new_struct = pa.struct([("c", pa.float64()), ("b", pa.string()), ("a", pa.int64())])
BIG = 2**40

TOPICS = {
    "struct": (
        pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}, {"a": 4, "b": None}], old_struct),
        pa.array([{"c": 0.5, "b": "z", "a": BIG}, None, {"c": None, "b": "w", "a": 7}, {"c": 1.5, "b": None, "a": None}], new_struct),
    ),
    "list": (
        pa.array([[{"a": 1, "b": "x"}], None, [], [None, {"a": 4, "b": None}]], pa.list_(old_struct)),
        pa.array([[{"c": 0.5, "b": "z", "a": BIG}], None, [], [{"c": None, "b": "w", "a": 7}]], pa.list_(new_struct)),
    ),
    "map": (
        pa.array([[("k", {"a": 1, "b": "x"})], None, [], [("l", None)]], pa.map_(pa.string(), old_struct)),
        pa.array([[("k", {"c": 0.5, "b": "z", "a": BIG})], None, [], [("l", {"c": None, "b": "w", "a": 7})]], pa.map_(pa.string(), new_struct)),
    ),
    "int": (pa.array([1, None, -3, 4], pa.int32()), pa.array([BIG, None, -BIG, 8], pa.int64())),
    "unsigned": (pa.array([1, None, 3, 2**32 - 1], pa.uint32()), pa.array([5, None, -7, 8], pa.int32())),
    "float": (pa.array([0.5, None, -1.25, 4], pa.float32()), pa.array([0.1, None, 1e300, 8], pa.float64())),
    "decimal": (
        pa.array(numbers(["1.25", None, "-9999999.99", "4"]), pa.decimal128(9, 2)),
        pa.array(numbers(["1.0625", None, "-0.0001", "8"]), pa.decimal128(18, 4)),
    ),
    "timestamp": (pa.array(times(1000), pa.timestamp("ms")), pa.array(times(1), pa.timestamp("us"))),
    "text": (pa.array(["a", None, "", "d"], pa.string()), pa.array(["e", None, "", "h"], pa.dictionary(pa.int32(), pa.string()))),
    "null": (pa.array([None] * 4, pa.null()), pa.array([[5], None, [], [8, None]], pa.list_(pa.int64()))),
}


def avro_type(data_type, name):
    if pa.types.is_struct(data_type):
        fields = [{"name": f.name, "type": avro_type(f.type, f"{name}_{f.name}")} for f in data_type]
        return ["null", {"type": "record", "name": name, "fields": fields}]
    if pa.types.is_map(data_type):
        return ["null", {"type": "map", "values": avro_type(data_type.item_type, name)}]
    if pa.types.is_list(data_type):
        return ["null", {"type": "array", "items": avro_type(data_type.value_type, name)}]
    if pa.types.is_decimal(data_type):
        return ["null", {"type": "bytes", "logicalType": "decimal", "precision": data_type.precision, "scale": data_type.scale}]
    if pa.types.is_timestamp(data_type):
        unit = {"ms": "millis", "us": "micros"}[data_type.unit]
        return ["null", {"type": "long", "logicalType": f"local-timestamp-{unit}"}]
    if pa.types.is_null(data_type):
        return "null"
    if pa.types.is_dictionary(data_type):
        return ["null", "string"]
    names = {pa.int32(): "int", pa.int64(): "long", pa.float32(): "float", pa.float64(): "double", pa.string(): "string"}
    return ["null", names[data_type]]


def avro_values(array):
    values = array.to_pylist()
    return [dict(value) if pa.types.is_map(array.type) and value is not None else value for value in values]


for topic, arrays in TOPICS.items():
    (HERE / topic).mkdir(exist_ok=True)
    for age, array in zip(("old", "new"), arrays):
        first = 1 if age == "old" else 5
        table = pa.table({"id": pa.array(range(first, first + 4), pa.int64()), "v": array})
        path = str(HERE / topic / age)
        pq.write_table(table, path + ".parquet", row_group_size=2, compression="none")
        pyarrow.feather.write_feather(table, path + ".arrow", compression="uncompressed")
        if topic not in ("unsigned", "null", "text"):
            pyarrow.orc.write_table(table, path + ".orc", compression="uncompressed")
        if topic not in ("unsigned",):
            schema = {"type": "record", "name": "row", "fields": [
                {"name": "id", "type": "long"}, {"name": "v", "type": avro_type(array.type, "v")}]}
            rows = [{"id": first + i, "v": value} for i, value in enumerate(avro_values(array))]
            with open(path + ".avro", "wb") as file:
                fastavro.writer(file, schema, rows)
    found = duckdb.sql(f"SELECT id, v FROM read_parquet('{HERE}/{topic}/*.parquet', union_by_name=true) ORDER BY id").fetchall()
    kind = duckdb.sql(f"SELECT typeof(v) FROM read_parquet('{HERE}/{topic}/*.parquet', union_by_name=true) LIMIT 1").fetchall()
    print(topic, kind, *found, sep="\n  ")

(HERE / "names").mkdir(exist_ok=True)
for value, name in ((1, "Id"), (2, "ID")):
    pyarrow.orc.write_table(pa.table({name: pa.array([value], pa.int64())}), str(HERE / "names" / f"{name}.orc"))
    schema = {"type": "record", "name": "row", "fields": [{"name": name, "type": "long"}]}
    with open(HERE / "names" / f"{name}.avro", "wb") as file:
        fastavro.writer(file, schema, [{name: value}])
