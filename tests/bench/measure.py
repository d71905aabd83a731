"""One command as a whole process: wall and CPU seconds, peak memory."""

import dataclasses
import math
import mmap
import os
import pathlib
import random
import shlex
import statistics
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor


@dataclasses.dataclass
class Figures:
    wall: float  # seconds
    cpu: float  # seconds, user and system, of the process and what it started
    user: float  # of these, those that were not spent in the kernel
    rss: float  # MiB, at its peak


@dataclasses.dataclass
class Medians(Figures):
    """Of some runs."""

    runs: list[Figures]  # in the order of their turns


class Failed(Exception):
    pass


def once(command, environment):
    start = time.monotonic()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**os.environ, **environment}
    )
    # All of it: a full pipe would stop the process.
    errors = process.stderr.read().decode(errors="replace")
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise Failed(f"{shlex.join(map(str, command))}: exit {process.returncode}\n{errors}")
    return Figures(wall, usage.ru_utime + usage.ru_stime, usage.ru_utime, usage.ru_maxrss / 1024)


def warm(mebibytes):
    """Uses so much memory and gives it back, for a job that starts at once.

    A virtual machine may hand free memory to its host after a second or two, and getting a huge page of 2 MiB back takes
    milliseconds of the kernel's time. Which job pays for that is chance, and it may be more than what jobs differ by. It has
    to be done by this process: if another one ends between, its job finds other pages. Linux counts the peak of a process
    from that of the one which starts it, so this one's is set back.
    """
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with mmap.mmap(-1, mebibytes << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
            memory.madvise(mmap.MADV_HUGEPAGE)
            for page in range(0, len(memory), 2 << 20):
                memory[page] = 1
        pathlib.Path("/proc/self/clear_refs").write_text("5")


class Job:
    def __init__(self, command, before=lambda: None, environment=None):
        self.command = [str(part) for part in command]
        self.before = before  # makes way for each run
        self.environment = environment or {}


def in_turns(jobs, repeat):
    """The medians over some runs of each job, by name; a `Failed` where it cannot be run here.

    The jobs take turns, each time in another order: what memory and disk cost may change from one minute to the next, and
    a ratio of two jobs should be of the same minutes.
    """
    runs, failed = {name: [] for name in jobs}, {}
    order, random_order = list(jobs), random.Random(repeat)
    for _ in range(repeat):
        random_order.shuffle(order)
        for name in order:
            if name in failed:
                continue
            jobs[name].before()
            try:
                runs[name].append(once(jobs[name].command, jobs[name].environment))
            except (Failed, FileNotFoundError) as error:
                failed[name] = error
    return {name: failed.get(name) or median(runs[name]) for name in jobs}


def at_once(jobs, repeat, processors):
    """The medians over some runs of jobs that run at the same time, all on the first so many processors; by name.

    What else a machine does changes from one second to the next, and how fast it is does: two runs of the same job differ by
    several percent. Jobs that share the processors get the same part of each moment, and differ by about one. Each waits for
    the others, and has to do with less of the cache than alone.
    """

    def pin():
        if hasattr(os, "sched_setaffinity"):
            # Of this thread, and so of the jobs that it starts.
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:processors])

    runs, order, random_order = {name: [] for name in jobs}, list(jobs), random.Random(repeat)
    with ThreadPoolExecutor(len(jobs), initializer=pin) as threads:
        for _ in range(repeat):
            random_order.shuffle(order)
            for job in jobs.values():
                job.before()
            started = {name: threads.submit(once, jobs[name].command, jobs[name].environment) for name in order}
            for name, run in started.items():
                runs[name].append(run.result())
    return {name: median(figures) for name, figures in runs.items()}


def median(runs):
    fields = dataclasses.fields(Figures)
    return Medians(*(statistics.median(getattr(run, field.name) for run in runs) for field in fields), runs=runs)


def ratios(value, floor):
    """Of the CPU time of two jobs that ran at once: the ratio each time."""
    return [run.cpu / beside.cpu for run, beside in zip(value.runs, floor.runs)]


def interval(values):
    """Where the median of ever more such values would be, 95 times in a hundred; None for fewer than six.

    As many of n values are below it as a coin falls on one side in n throws, however they are distributed.
    """
    beyond, probability, ordered = 0, 0.5 ** len(values), sorted(values)
    while probability <= 0.025:
        beyond += 1
        probability += math.comb(len(values), beyond) / 2 ** len(values)
    return (ordered[beyond - 1], ordered[-beyond]) if beyond else None
