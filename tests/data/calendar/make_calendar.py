"""Makes the files in this directory, and writes down what Spark reads from them.

Run with pyspark 3.5 and pyarrow: python make_calendar.py

- `raw_ZONE.parquet`: days and microseconds as they would be stored, under the keys of a Spark that wrote the hybrid
  calendar in a time zone. pyarrow writes them, as Spark cannot be asked to store the days that its calendar lacks.
- `spark_ZONE.*`: written by Spark with its legacy rebase (Parquet, with INT96 or not) or its defaults (ORC).
- `unmarked.parquet`, `spark2.parquet`: without keys of any writer, and with those of Spark 2.4.6, which has no time zone.
- `expected.tsv`: file, row, column, what Spark reads: days since 1970, microseconds since 1970, or the text of a local
  timestamp.
"""

import datetime
import os
import shutil
import subprocess
import sys
import tempfile

import pyarrow as pa
import pyarrow.parquet as pq

HERE = os.path.dirname(os.path.abspath(__file__))
ZONES = ["UTC", "America/Los_Angeles", "Asia/Tokyo", "Asia/Kolkata", "Europe/Paris"]
DAY = 86_400_000_000

# How pyarrow begins the name that it gives itself, and another one of the same length.
ARROW = b"parquet-cpp-arrow version"
JAVA = b"parquet-mr version 1.8.1 "

# Days of the hybrid calendar around each of its differences to the other one, leap days of the Julian calendar, the start of the
# Gregorian one, and days before the first year and since.
DAYS = [
    -800_000, -719_893, -719_528, -719_165, -719_164, -719_163, -719_162, -682_946, -682_945, -646_421, -646_420,
    -609_895, -536_845, -500_320, -463_795, -390_746, -390_745, -354_221, -354_220, -354_219, -317_695, -244_645,
    -208_120, -171_596, -171_595, -171_594, -141_429, -141_428, -141_427, -141_426, -100_000, -25_568, -25_567, -25_566,
    0, 19_723,
]  # fmt: skip
TIMES = [0, 86_399_999_999]

LOCAL = [
    "0001-01-01 00:00:00", "0001-01-01 23:59:59.999999", "1000-02-28 12:00:00", "1000-03-01 00:00:00",
    "1500-03-01 12:00:00", "1582-10-04 23:59:59", "1582-10-10 10:00:00", "1582-10-15 00:00:00", "1883-11-18 11:59:00",
    "1899-12-31 23:59:59", "1900-01-01 00:00:00", "2024-01-01 00:00:00",
]  # fmt: skip


def slug(zone):
    return zone.replace("/", "_").lower()


def raw(zone):
    days, micros = zip(*[(day, day * DAY + time) for day in DAYS for time in TIMES])
    local = pa.array(micros, pa.int64())
    dates = pa.array(days, pa.int32()).cast(pa.date32())
    nested = pa.array([[{"d": day, "t": {"k": value}}] for day, value in zip(days, micros)],
                      pa.list_(pa.struct([("d", pa.int32()), ("t", pa.map_(pa.string(), pa.int64()))])))
    target = pa.list_(pa.struct([("d", pa.date32()), ("t", pa.map_(pa.string(), pa.timestamp("us", "UTC")))]))
    return pa.table({
        "id": pa.array(range(len(micros)), pa.int32()),
        "d": dates,
        "us": local.cast(pa.timestamp("us", "UTC")),
        "ms": pa.array([value // 1000 for value in micros], pa.int64()).cast(pa.timestamp("ms", "UTC")),
        "ntz": local.cast(pa.timestamp("us")),
        "n": cast_nested(nested, target),
    })  # fmt: skip


def cast_nested(array, target):
    fields = array.values
    maps = fields.field("t")
    item = target.value_type
    values = maps.items.cast(item.field("t").type.item_type)
    maps = pa.MapArray.from_arrays(maps.offsets, maps.keys, values)
    structs = pa.StructArray.from_arrays([fields.field("d").cast(pa.date32()), maps], fields=[item.field("d"), item.field("t")])
    return pa.ListArray.from_arrays(array.offsets, structs)


def write(table, name, keys, writer=None):
    path = os.path.join(HERE, name)
    with pq.ParquetWriter(path, table.schema, store_schema=False, compression="zstd") as file:
        for start in range(0, table.num_rows, 50):
            file.write_table(table.slice(start, 50))
        file.add_key_value_metadata(keys)
    if writer:
        with open(path, "r+b") as file:
            content = file.read()
            assert content.count(ARROW) == 1 and len(writer) == len(ARROW)
            file.seek(0)
            file.write(content.replace(ARROW, writer))


def session(zone):
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.extraJavaOptions", f"-Duser.timezone={zone}")
        .config("spark.sql.session.timeZone", zone)
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def spark_writes(zone):
    spark = session(zone)
    rows = ", ".join(f"({i}, timestamp'{text}', timestamp_ntz'{text}')" for i, text in enumerate(LOCAL))
    table = spark.sql(
        f"SELECT id, to_date(t) d, t ts, ntz, array(struct(to_date(t) d, map('k', t) m)) n FROM VALUES {rows} v(id, t, ntz)"
    ).coalesce(1)
    conf = spark.conf.set
    for key in ["datetimeRebaseModeInWrite", "int96RebaseModeInWrite"]:
        conf(f"spark.sql.parquet.{key}", "LEGACY")
        conf(f"spark.sql.parquet.{key.replace('Write', 'Read')}", "LEGACY")
    name = slug(zone)
    for kind, unit in [("micros", "TIMESTAMP_MICROS"), ("millis", "TIMESTAMP_MILLIS"), ("int96", "INT96")]:
        conf("spark.sql.parquet.outputTimestampType", unit)
        save(table.write.option("compression", "zstd"), "parquet", f"spark_{name}_{kind}.parquet")
    save(table.write.option("compression", "zstd"), "orc", f"spark_{name}.orc")


def save(writer, kind, name):
    with tempfile.TemporaryDirectory() as directory:
        writer.mode("overwrite").format(kind).save(directory)
        (part,) = [file for file in os.listdir(directory) if file.startswith("part-")]
        shutil.move(os.path.join(directory, part), os.path.join(HERE, name))


def spark_reads(zone):
    spark = session(zone)
    for key in ["datetimeRebaseModeInRead", "int96RebaseModeInRead"]:
        spark.conf.set(f"spark.sql.parquet.{key}", "LEGACY")
    name = slug(zone)
    files = [f"raw_{name}.parquet", *[f"spark_{name}_{kind}.parquet" for kind in ["micros", "millis", "int96"]],
             f"spark_{name}.orc"]  # fmt: skip
    for file in files:
        table = spark.read.format("orc" if file.endswith(".orc") else "parquet").load(os.path.join(HERE, file))
        columns = ["unix_date(d) d", "unix_date(n[0].d) nd"]
        local = "date_format({}, \"y-MM-dd'T'HH:mm:ss.SSSSSS\")"
        if file.endswith(".orc"):
            columns += [local.format("ts") + " ts", local.format("n[0].m['k']") + " nt", local.format("ntz") + " ntz"]
        elif file.startswith("spark_"):
            columns += ["unix_micros(ts) ts", "unix_micros(n[0].m['k']) nt", local.format("ntz") + " ntz"]
        else:
            columns += ["unix_micros(us) us", "unix_micros(ms) ms", "unix_micros(n[0].t['k']) nt"]
        for row in table.selectExpr("id", *columns).orderBy("id").collect():
            for column, value in row.asDict().items():
                if column != "id":
                    print(file, row["id"], column, value, sep="\t")


def main():
    if len(sys.argv) > 1:
        {"write": spark_writes, "read": spark_reads}[sys.argv[1]](sys.argv[2])
        return
    for zone in ZONES:
        keys = {"org.apache.spark.version": "3.5.6", "org.apache.spark.legacyDateTime": "",
                "org.apache.spark.legacyINT96": "", "org.apache.spark.timeZone": zone}  # fmt: skip
        write(raw(zone), f"raw_{slug(zone)}.parquet", keys)
    write(raw("UTC"), "unmarked.parquet", {}, JAVA)
    write(raw("UTC"), "spark2.parquet", {"org.apache.spark.version": "2.4.6"})
    # One process for each time zone, as that of the virtual machine cannot change.
    expected = []
    for zone in ZONES:
        subprocess.run([sys.executable, __file__, "write", zone], check=True)
        read = subprocess.run([sys.executable, __file__, "read", zone], check=True, stdout=subprocess.PIPE, text=True)
        expected += [line for line in read.stdout.splitlines() if line.count("\t") == 3]
    with open(os.path.join(HERE, "expected.tsv"), "w") as file:
        file.write("\n".join(sorted(expected)) + "\n")


if __name__ == "__main__":
    main()
