"""One command as a whole process: wall and CPU seconds, peak memory."""

import dataclasses
import os
import shlex
import statistics
import subprocess
import time


@dataclasses.dataclass
class Figures:
    wall: float  # seconds
    cpu: float  # seconds, user and system, of the process and what it started
    user: float  # of these, those that were not spent in the kernel
    rss: float  # MiB, at its peak


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


def median(command, repeat, before=lambda: None, environment=None):
    """The medians over some runs; `before` makes way for each."""
    runs = []
    for _ in range(repeat):
        before()
        runs.append(once([str(part) for part in command], environment or {}))
    return Figures(*(statistics.median(getattr(run, field) for run in runs) for field in ("wall", "cpu", "user", "rss")))
