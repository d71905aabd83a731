#!/usr/bin/env python3
"""The end-to-end benchmark: tests/bench/run.py [--help]. What it measures, and why so: README.md beside this file."""

import argparse
import dataclasses
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import venv

import measure

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
REQUIREMENTS = HERE / "requirements.txt"

# Twice what two conversions at once take, with all sidecars.
WARM_MEBIBYTES = 1000


def interpreter(work):
    """A Python with what makes the tables and takes the floors, made once for these requirements."""
    home = work / "venv"
    python, installed = home / "bin/python", home / "installed.txt"
    wanted = REQUIREMENTS.read_text()
    if not installed.exists() or installed.read_text() != wanted:
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "-r", REQUIREMENTS], check=True)
        installed.write_text(wanted)
    return python


def remove(*paths):
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


class Bench:
    def __init__(self, arguments):
        self.command = arguments.command.resolve()
        self.repeat = arguments.repeat
        self.peers = arguments.peers
        self.work = arguments.work.resolve()
        self.work.mkdir(parents=True, exist_ok=True)
        self.python = interpreter(self.work)
        self.rows = []

    def table(self, name):
        tables = self.work / "tables"
        subprocess.run([self.python, HERE / "tables.py", tables, name], check=True)
        return tables / (name if name == "small" else f"{name}.parquet")

    def in_turns(self, table, jobs):
        """Measures jobs that are compared; None for one that cannot be run here."""
        figures = measure.in_turns(jobs, self.repeat)
        for job, figure in figures.items():
            if isinstance(figure, Exception):
                print(f"{table} | {job} | not measured: {figure}", file=sys.stderr)
                figures[job] = None
                continue
            self.figures(table, job, figure)
        return figures

    def figures(self, table, job, figure):
        self.rows.append({"table": table, "job": job, **dataclasses.asdict(figure)})
        print(f"| {table} | {job} | {figure.wall:.2f} | {figure.cpu:.2f} | {figure.rss:.0f} |", flush=True)

    def take(self, table, job, command, before=lambda: None, environment=None):
        """Measures a job by itself."""
        return self.in_turns(table, {job: measure.Job(command, before, environment)})[job]

    def job(self, query, *options, out=None):
        target = ["--out", out] if out else []
        before = (lambda: remove(out)) if out else (lambda: None)
        return measure.Job([self.command, "-q", query, *target, *options], before)

    def query(self, table, job, query, *options, out=None):
        return self.in_turns(table, {job: self.job(query, *options, out=out)})[job]

    def ratio(self, table, name, value, floor):
        if value is None or floor is None or None in floor:
            return
        ratio = value.cpu / sum(part.cpu for part in floor)
        self.rows.append({"table": table, "ratio": name, "value": ratio})
        print(f"| {table} | **{name}** | | **{ratio:.3f}** | |", flush=True)

    def added(self, table, name, value, none):
        """What something adds to a job that ran at the same time, in percent, and where that lies in 95 of 100 such series."""
        percent = [100 * (ratio - 1) for ratio in measure.ratios(value, none)]
        median, interval = statistics.median(percent), measure.interval(percent)
        self.rows.append({"table": table, "added": name, "value": median, "interval": interval})
        within = f" ({interval[0]:+.1f} to {interval[1]:+.1f})" if interval else ""
        print(f"| {table} | **{name}** | | **{median:+.1f} %**{within} | |", flush=True)

    def to_shards(self, table, query, shards):
        """Writing shards, and what no tool can do without: decoding the table, copying the shards, summing them."""
        copy, beside = self.work / "copy", self.work / f"{table}.turn"
        # What is copied and summed while its turn comes.
        subprocess.run([self.command, "-q", query, "--out", shards, "--mode", "overwrite"], check=True)
        files = sorted(shards.glob("*.tfrecord"))
        # They went past the page cache, and are copied and read from it.
        subprocess.run(["cat", *files], check=True, stdout=subprocess.DEVNULL)
        write = [self.command, "-q", query, "--out", beside]
        synced = ["sh", "-c", 'cp -r "$1" "$2" && sync "$2"/*', "sh", shards, copy]

        def clear():
            remove(copy, beside)

        def warm():
            """What a page of memory costs that was not used lately is the machine's, and none of it goes to the floor."""
            clear()
            subprocess.run(["cp", "-r", shards, copy], check=True)
            clear()

        jobs = {
            "to shards, 1 thread": measure.Job([*write, "--threads", "1"], clear),
            "to shards, 2 threads": measure.Job([*write, "--threads", "2"], clear),
            "decode the Parquet, no sink": self.job(f"EXPLAIN ANALYZE {query}"),
            "cp of the shards": measure.Job(["cp", "-r", shards, copy], warm),
            "cp of the shards, synced": measure.Job(synced, warm),
            "CRC-32C of the shards": measure.Job([self.python, HERE / "crc.py", *files]),
        }
        figures = self.in_turns(table, jobs)
        clear()
        return figures.values()

    def at_once(self, table, query, one, two):
        """What two threads gain, and what two processes of one thread each do, which share nothing but the machine."""
        outs = [self.work / f"{table}.{copy}" for copy in ("first", "second")]
        script = '"$@" --out "$FIRST" & first=$!; "$@" --out "$SECOND"; second=$?; wait $first && exit $second'
        command = ["sh", "-c", script, "sh", self.command, "-q", query, "--threads", "1"]
        environment = {"FIRST": str(outs[0]), "SECOND": str(outs[1])}
        both = self.take(table, "to shards, twice at once", command, lambda: remove(*outs), environment)
        remove(*outs)
        if one and two and both:
            print(f"| {table} | **2 threads over 1, wall** | **{one.wall / two.wall:.2f}** | | |", flush=True)
            most = 2 * one.wall / both.wall
            print(f"| {table} | **2 processes at once over 1, wall** | **{most:.2f}** | | |", flush=True)

    def convert(self, table):
        """Both ways of one table."""
        path, shards, back = self.table(table), self.work / f"{table}.shards", self.work / f"{table}.back.parquet"
        every, module = f"SELECT * FROM '{shards}'", self.work / f"{table}.py"
        query = f"SELECT * FROM '{path}'"
        one, two, decode, cp, synced, crc = self.to_shards(table, query, shards)
        self.ratio(table, "to shards / (decode + cp), 1 thread", one, [decode, cp])
        self.ratio(table, "to shards / (decode + cp), 2 threads", two, [decode, cp])
        self.ratio(table, "to shards / (decode + cp, synced), 2 threads", two, [decode, synced])
        self.at_once(table, query, one, two)

        read = self.query(table, "shards to Arrow, all columns", f"EXPLAIN ANALYZE {every}")
        self.ratio(table, "shards to Arrow / CRC-32C", read, [crc])
        self.query(table, "shards to Parquet", every, out=back)
        remove(back)
        first = f"(SELECT * FROM '{shards}')"
        self.query(table, "count", f"SELECT count(*) FROM {first}")
        self.query(table, "one column", f"EXPLAIN ANALYZE SELECT {self.column(table)} FROM '{shards}'")

        self.read_by_peers(table, shards, module, read)
        zipped = self.work / f"{table}.gzip"
        compressed = self.query(table, "to shards, gzip", query, "--compression", "gzip", out=zipped)
        files = sorted(shards.glob("*.tfrecord"))
        gzip = self.take(table, "gzip -6 of the shards", ["sh", "-c", 'cat "$@" | gzip -6 >/dev/null', "sh", *files])
        self.ratio(table, "to shards, gzip / (gzip -6 + to shards)", compressed, [gzip, two])
        remove(zipped)
        self.write_by_peers(table, path, two)
        remove(shards)

    @staticmethod
    def column(table):
        return "label" if table == "ctr" else "l_quantity"

    def read_by_peers(self, table, shards, module, ours):
        if self.peers is None:
            return
        text = subprocess.run([self.command, "schema", shards, "--as", "python"], check=True, capture_output=True)
        module.write_bytes(text.stdout)
        quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
        script = HERE / "peers/tf_data.py"
        parsed = self.take(table, "tf.data + parse_example", [self.peers, script, shards, module], environment=quiet)
        if parsed and ours:
            print(f"| {table} | **tf.data + parse_example / ours, CPU** | | **{parsed.cpu / ours.cpu:.1f}** | |", flush=True)
        self.take(table, "tf.data, records counted", [self.peers, script, shards, "count"], environment=quiet)

    def write_by_peers(self, table, path, ours):
        if self.peers is None:
            return
        out = self.work / f"{table}.peer"
        for job, script, needs in [
            ("tfx_bsl + TFRecordWriter", "tfx_bsl_write.py", "tfx_bsl"),
            ("Spark + spark-tfrecord", "spark_write.py", "pyspark"),
        ]:
            there = subprocess.run([self.peers, "-c", f"import {needs}"], capture_output=True).returncode == 0
            if not there or (needs == "pyspark" and "SPARK_TFRECORD_JAR" not in os.environ):
                print(f"{table} | {job} | not installed", file=sys.stderr)
                continue
            theirs = self.take(table, job, [self.peers, HERE / "peers" / script, path, out], lambda: remove(out))
            if theirs and ours:
                print(f"| {table} | **{job} / ours, CPU** | | **{theirs.cpu / ours.cpu:.1f}** | |", flush=True)
            remove(out)

    def shuffle(self):
        """A global shuffle of more than fits into the memory that it may use: of all columns, and of few distinct rows."""
        files, out = self.table("small"), self.work / "small.shards"
        shuffle = ("--shuffle", "--seed", "7", "--memory-limit", "512MiB")
        for name, columns in {"small": "*", "small, few distinct rows": "kind, label"}.items():
            query = f"SELECT {columns} FROM '{files}'"
            jobs = {
                "to shards": self.job(query, out=out),
                "to shards, shuffled in 512 MiB": self.job(query, *shuffle, out=out),
            }
            plain, shuffled = self.in_turns(name, jobs).values()
            if plain and shuffled:
                print(f"| {name} | **shuffled / plain, wall** | **{shuffled.wall / plain.wall:.2f}** | | |", flush=True)
            self.ratio(name, "shuffled / plain", shuffled, [plain])
        remove(out)

    def sidecars(self):
        """What is written beside the shards, in the same pass; nothing adds nothing, or the measure is wrong."""
        path, outs = self.table("lineitem_ml"), [self.work / f"sidecars.{name}" for name in ("without", "with")]

        def before():
            remove(*outs)
            measure.warm(WARM_MEBIBYTES)

        def convert(threads, out, *options, before=lambda: None):
            command = [self.command, "-q", f"SELECT * FROM '{path}'", "--out", out, "--threads", str(threads), *options]
            return measure.Job(command, before)

        every = "tfds,tfmd,parse-fn,stats,index"
        emits = {"nothing": [], "tfds": ["--emit", "tfds"], "index": ["--emit", "index"], "all": ["--emit", every]}
        for threads, on in {1: "1 thread", 2: "2 threads"}.items():
            for name, emit in emits.items():
                jobs = {
                    "without": convert(threads, outs[0], before=before),
                    "with": convert(threads, outs[1], *emit),
                }
                figures = measure.at_once(jobs, self.repeat, threads)
                self.figures("lineitem_ml", f"to shards, {on}, beside one with {name}", figures["without"])
                self.figures("lineitem_ml", f"to shards, {on}, with {name}", figures["with"])
                self.added("lineitem_ml", f"{name} adds, {on}", figures["with"], figures["without"])
        remove(*outs)

    def growth(self):
        """The same work on more of everything: it should cost in proportion to the bytes."""
        for scale in (1, 3, 10):
            self.grow("scale factor", scale, f"lineitem_ml@{scale}")
        for shards in (4, 64, 1024):
            self.grow("shards", shards, "lineitem_ml@1", "--shards", str(shards))
        for columns in (16, 400, 2000):
            self.grow("columns", columns, f"wide@{columns}")

    def grow(self, axis, size, table, *options):
        """One point of the chart: what it costs to make the shards, and how many bytes they are."""
        path, out = self.table(table), self.work / "growth.shards"
        figures = self.query(table, f"to shards, {axis} {size}", f"SELECT * FROM '{path}'", *options, out=out)
        if figures:
            size_of = sum(shard.stat().st_size for shard in out.rglob("*.tfrecord"))
            self.rows[-1] |= {"axis": axis, "size": size, "bytes": size_of}
            per_gb = figures.cpu * 1e9 / size_of
            print(f"| {table} | **CPU s a GB of shards, {axis} {size}** | | **{per_gb:.2f}** | |", flush=True)
        remove(out)

    def start(self):
        self.query("none", "SELECT 1", "SELECT 1")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["start", "lineitem_ml", "ctr", "shuffle"],
                        help="start, lineitem_ml, ctr, shuffle, sidecars, growth [default: all but the last two]")
    parser.add_argument("--command", type=pathlib.Path, default=REPOSITORY / "target/release/tfr-sql",
                        help="the program to measure [default: target/release/tfr-sql]")
    parser.add_argument("--work", type=pathlib.Path, default=REPOSITORY / "target/bench",
                        help="where tables and shards go: about 20 GB, for growth 32 [default: target/bench]")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each job, of which the median is taken [default: 3]")
    parser.add_argument("--peers", type=pathlib.Path, help="a Python with tensorflow, and maybe tfx_bsl and pyspark")
    arguments = parser.parse_args()
    bench = Bench(arguments)
    print("| table | job | wall s | CPU s | peak MiB |\n|---|---|--:|--:|--:|", flush=True)
    parts = {"start": bench.start, "shuffle": bench.shuffle, "sidecars": bench.sidecars, "growth": bench.growth}
    for part in arguments.parts:
        parts.get(part, lambda name=part: bench.convert(name))()
    (bench.work / "figures.json").write_text(json.dumps(bench.rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
