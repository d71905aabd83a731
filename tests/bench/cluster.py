#!/usr/bin/env python3
"""A cluster of two executors on two processors, against two processes that share nothing but the machine.

    tests/bench/cluster.py [--command PATH] [--work DIR] [--repeat N]

Each executor has one thread and one processor of its own; so has each of the two processes, which write one half of the table
each. Scheduler and command run wherever there is room. Rounds alternate, and medians are given. The sets of the cluster are
compared, byte for byte, with those that one process writes.
"""

import argparse
import filecmp
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import run
import measure

HERE = pathlib.Path(__file__).resolve().parent
FILES, PARTITIONS = 24, 8
WAYS = {"plain": [], "--shuffle": ["--shuffle", "--seed", "7"]}


def on(processor):
    return lambda: os.sched_setaffinity(0, [processor])


def start(command, processor=None):
    """Starts a process of the cluster, and returns it with its first line."""
    pin = on(processor) if processor is not None else None
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=pin)
    return process, process.stderr.readline().strip()


class Bench:
    def __init__(self, arguments):
        self.command, self.work = arguments.command.resolve(), arguments.work.resolve()
        self.parts = self.work / "parts"
        self.processors = sorted(os.sched_getaffinity(0))[:2]

    def split(self):
        """Divides the table into files, so that partitions are of one size."""
        if len(list(self.parts.glob("*/*.parquet"))) == FILES:
            return
        subprocess.run([run.interpreter(self.work), HERE / "tables.py", self.work / "tables", "lineitem_ml"], check=True)
        table = self.work / "tables/lineitem_ml.parquet"
        for file in range(FILES):
            half = self.parts / ("first" if file < FILES // 2 else "second")
            half.mkdir(parents=True, exist_ok=True)
            low, high = (6_000_000 * number // FILES for number in (file, file + 1))
            query = f"SELECT * FROM '{table}' WHERE l_orderkey > {low} AND l_orderkey <= {high}"
            out = half / f"{file:02}.parquet"
            subprocess.run([self.command, query, "--out", out, "--mode", "overwrite", "--quiet"], check=True)

    def write(self, half, out, options):
        query = f"SELECT * FROM '{self.parts}/{half}/*.parquet'"
        return [self.command, query, "--out", out, "--quiet", *options]

    def halves(self, out, options):
        """Seconds that two processes take for one half of the table each."""
        started = time.monotonic()
        options = ["--partitions", str(PARTITIONS // 2), "--threads", "1", *options]
        halves = [
            subprocess.Popen(self.write(half, out / half, options), preexec_fn=on(processor))
            for half, processor in zip(("first", "second"), self.processors)
        ]
        if any([process.wait() for process in halves]):
            raise measure.Failed("a process failed")
        return time.monotonic() - started

    def cluster(self, out, options, address):
        """Seconds that the cluster takes for the table."""
        options = ["--partitions", str(PARTITIONS), "--cluster", address, *options]
        return measure.once([str(part) for part in self.write("*", out, options)], {}).wall

    def check(self, out, options):
        """Compares the set of the cluster with that of one process."""
        alone = out.with_name("alone")
        subprocess.run(self.write("*", alone, ["--partitions", str(PARTITIONS), *options]), check=True)
        names = sorted(path.name for path in alone.glob("*.tfrecord"))
        assert names == sorted(path.name for path in out.glob("*.tfrecord"))
        equal, _, _ = filecmp.cmpfiles(alone, out, names, shallow=False)
        assert len(equal) == len(names), "other bytes"
        return sum((out / name).stat().st_size for name in names), len(names)

    def measure(self, address, repeat):
        print("| | two processes, s | cluster, s | ratio | lowest and highest |\n|---|--:|--:|--:|---|", flush=True)
        for way, options in WAYS.items():
            apart, together = [], []
            for number in range(repeat):
                with tempfile.TemporaryDirectory(dir=self.work) as out:
                    out = pathlib.Path(out)
                    apart.append(self.halves(out, options))
                    together.append(self.cluster(out / "set", options, address))
                    if number == 0:
                        size, shards = self.check(out / "set", options)
            ratios = [one / other for one, other in zip(apart, together)]
            print(
                f"| {way}, {size / 1e9:.1f} GB in {shards} shards | {statistics.median(apart):.2f} | "
                f"{statistics.median(together):.2f} | {statistics.median(ratios):.2f} | "
                f"{min(ratios):.2f} {max(ratios):.2f} |",
                flush=True,
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    built = run.REPOSITORY / "crates/tfr-cluster/target/release/tfr-sql"
    parser.add_argument("--command", type=pathlib.Path, default=built, help="with --cluster, built for release")
    parser.add_argument("--work", type=pathlib.Path, default=run.REPOSITORY / "target/bench")
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    bench = Bench(arguments)
    if len(bench.processors) < 2:
        sys.exit("two processors are needed")
    bench.split()
    scheduler, line = start([bench.command, "scheduler", "--bind", "127.0.0.1:0"])
    address = line.split()[-1]
    with tempfile.TemporaryDirectory(dir=bench.work) as exchanged:
        options = ["--scheduler", address, "--port", "0", "--task-port", "0", "--threads", "1"]
        executors = [
            start([bench.command, "executor", *options, "--temp-dir", exchanged], processor)[0]
            for processor in bench.processors
        ]
        try:
            bench.measure(address, arguments.repeat)
        finally:
            for process in [*executors, scheduler]:
                process.terminate()
                process.wait()


if __name__ == "__main__":
    main()
