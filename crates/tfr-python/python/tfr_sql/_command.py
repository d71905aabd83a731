"""Finds the command `tfr-sql` and runs it in a process of its own.

Data goes to the command through pipes, one for each table. Messages come back as JSON lines on a pipe, rows or reports
on standard output.
"""

from __future__ import annotations

import atexit
import errno
import json
import logging
import os
import queue
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import warnings
import weakref
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Callable, Iterable, Iterator, Mapping, NoReturn, Sequence

from ._errors import CommandError, DataError, ExistsError, LossWarning, MissingError, QueryError, TfrError, UsageError
from ._warnings import caller
from ._words import in_python

if TYPE_CHECKING:
    from ._arrow import Stream

log = logging.getLogger("tfr_sql")

#: The environment variable with the path of the command.
VARIABLE = "TFR_SQL_BIN"

#: Seconds that the program waits for a stopped command. Later, a thread does.
_MOMENT = 0.25

#: Seconds that a stopped command may take to clean up.
_PATIENCE = 10.0

#: Seconds that the end of the interpreter waits for threads that read tables.
_PATIENCE_FOR_FEEDERS = 1.0

#: The size of pipes in bytes, where the system allows it (F_SETPIPE_SZ).
_PIPE_SIZE = 1 << 20


def find_command() -> str:
    """Returns the path of the command: that in `TFR_SQL_BIN`, next to this interpreter, or in the PATH."""
    named = os.environ.get(VARIABLE)
    if named:
        if not os.access(named, os.X_OK):
            raise MissingError(f"{VARIABLE}: {named} is no program")
        return named
    directories = [sysconfig.get_path("scripts"), str(Path(sys.executable).parent), os.path.join(sys.prefix, "bin")]
    for directory in directories:
        found = shutil.which("tfr-sql", path=directory)
        if found:
            return found
    found = shutil.which("tfr-sql")
    if found:
        return found
    raise MissingError(
        "the command tfr-sql was not found", hint=f"Install the wheel of tfr-sql, or set {VARIABLE} to the path of the command."
    )


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    #: The finished fraction of the work, from 0 to 1, if its size is known.
    share: float | None
    #: The rows written, or read if none have been written, if they are counted.
    rows: int | None
    #: Rows, speed and remaining time, for a person.
    message: str



class Command:
    """A running command.

    `tables` are the Arrow streams of the tables, by their names. They are read on threads, or on the thread that calls
    `finish` if `feed_here` is set and there is one table. Ctrl-C is then raised in the table's own iterator. It must not
    wait outside of Python, where no Ctrl-C is seen. `is_copy` says that the command writes the rows of the tables, all
    of them and no others. `remote` names tables that an object of another library located in an object store.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        tables: Mapping[str, Stream] | None = None,
        progress: Any = False,
        refuse_loss: bool = False,
        feed_here: bool = False,
        is_copy: bool = False,
        map_file: str | None = None,
        remote: Sequence[str] = (),
    ) -> None:
        __tracebackhide__ = True
        program = find_command()
        self._refuse_loss = refuse_loss
        self._remote = list(remote)
        self._failures: list[BaseException] = []
        self._done = False
        self._error: dict[str, Any] | None = None
        self._show: _Progress | None = None
        self._stderr: IO[bytes] = tempfile.TemporaryFile()
        messages, messages_in = os.pipe()
        pipes: dict[str, tuple[int, int]] = {}
        mapping = None if map_file is None else _file_of(map_file, _value_of("--temp-dir", arguments))
        try:
            pipes = {name: os.pipe() for name in tables or {}}
            command = [program, *arguments, f"--messages=fd:{messages_in}"]
            command += ["--progress=always" if progress else "--progress=never"]
            for name, (read, write) in pipes.items():
                _enlarge(write)
                command.append(f"--table={name}=/dev/fd/{read},format=arrow")
                if _value_of("--allow", arguments) is not None:
                    command.append(f"--allow=/dev/fd/{read}")
            if mapping is not None:
                command.append(f"--map-file=/dev/fd/{mapping.fileno()}")
            files = [] if mapping is None else [mapping.fileno()]
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                pass_fds=[messages_in, *files, *(read for read, _ in pipes.values())],
            )
        except BaseException as error:
            self._stderr.close()
            for descriptor in (messages, *(write for _, write in pipes.values())):
                os.close(descriptor)
            if isinstance(error, OSError) and error.errno == errno.E2BIG:
                hint = "Pass directories or patterns, or fewer files."
                raise UsageError("the query, or the list of paths, is too long for a command line", hint=hint) from None
            raise
        finally:
            for descriptor in (messages_in, *(read for read, _ in pipes.values())):
                os.close(descriptor)
            if mapping is not None:
                mapping.close()
        if progress:
            self._show = _Progress(progress, list((tables or {}).values()), is_copy)
        self._stop = weakref.finalize(self, _stop, self.process, self._stderr, os.getpid())
        self._messages: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        threading.Thread(target=_read_messages, args=(messages, self._messages), daemon=True).start()
        # What is read here is read where errors and Ctrl-C are at home.
        self._here: list[tuple[int, Iterable[bytes]]] = []
        self._feeders: list[threading.Thread] = []
        for name, source in (tables or {}).items():
            descriptor = pipes[name][1]
            if feed_here and len(pipes) == 1:
                self._here.append((descriptor, source))
            else:
                feeder = threading.Thread(target=_feed, args=(descriptor, source, self._failures), daemon=True)
                feeder.start()
                self._feeders.append(feeder)
                _feeders[feeder] = self._stop

    def output(self) -> str:
        """Waits for the end and returns what was printed. Raises the error of a command that failed."""
        __tracebackhide__ = True
        printed: list[bytes] = []
        stdout = self.process.stdout
        assert stdout is not None
        reader = threading.Thread(target=_read_all, args=(stdout, printed), daemon=True)
        reader.start()
        try:
            self.finish()
            reader.join()
        finally:
            stdout.close()
        return b"".join(printed).decode()

    def finish(self) -> None:
        """Waits for the end. Raises the error of a command that failed, or of a table that could not be read."""
        __tracebackhide__ = True
        if self._done:
            return
        try:
            while self._here:
                _feed(*self._here.pop(), self._failures, self._handle_waiting)
            while (message := self._messages.get()) is not None:
                self._handle(message)
            code = self.process.wait()
        except BaseException:
            self.cancel()
            raise
        self._done = True
        self._stop.detach()
        self._close(is_complete=code == 0)
        # A producer that is still at work is not needed: the command has ended without its rows.
        for feeder in self._feeders:
            feeder.join(timeout=None if code == 0 else 1.0)
        stderr = self._read_stderr()
        if self._failures:
            raise self._failures[0]
        if code != 0:
            self._raise(code, stderr)
        for line in stderr.splitlines():
            log.warning("%s", line)

    def cancel(self) -> None:
        """Stops the command, which leaves nothing behind."""
        self._done = True
        self._stop()
        self._close()
        while self._here:
            os.close(self._here.pop()[0])

    def _close(self, is_complete: bool = False) -> None:
        if self._show is not None:
            self._show.close(is_complete)

    def _read_stderr(self) -> str:
        self._stderr.seek(0)
        text = self._stderr.read().decode(errors="replace")
        self._stderr.close()
        return text

    def _handle_waiting(self) -> None:
        """Handles the messages that have arrived."""
        while True:
            try:
                message = self._messages.get_nowait()
            except queue.Empty:
                return
            if message is None:
                self._messages.put(None)
                return
            self._handle(message)

    def _handle(self, message: dict[str, Any]) -> None:
        text = in_python(str(message.get("message", "")))
        event = message.get("event")
        if event == "progress" and self._show is not None:
            self._show(Progress(message.get("share"), message.get("rows"), text))
        elif event == "note":
            log.info("%s", text)
        elif event == "warning" and message.get("kind") == "loss":
            warnings.warn(LossWarning(text), stacklevel=caller())
        elif event == "warning":
            log.warning("%s", text)
        elif event == "error":
            self._error = message

    def _raise(self, code: int, stderr: str) -> NoReturn:
        __tracebackhide__ = True
        if self._error is None:
            if code == 128 + signal.SIGINT:
                raise KeyboardInterrupt
            ended = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
            if code == 128 + signal.SIGTERM:
                ended = "was terminated"
            hint = "It may have been killed for want of memory: pass memory_limit=." if code == -signal.SIGKILL else None
            raise CommandError(f"the command tfr-sql {ended}", hint=hint, exit_code=code, stderr=stderr)
        error = dict(self._error)
        if self._remote and error.get("kind") in ("io", "missing"):
            names = ", ".join(self._remote)
            own = f"{names}: read by location, with the credentials of the environment; the object's own credentials are not used"
            error["hint"] = f"{error['hint']}; {own}" if error.get("hint") else own
        raise _exception(error, self._refuse_loss)


def _exception(error: Mapping[str, Any], refuse_loss: bool) -> Exception:
    """Returns the exception for an error message."""
    causes = "".join(f"\n  {cause}" for cause in error.get("causes", ()))
    text, kind = in_python(f"{error['message']}{causes}"), error.get("kind")
    hint = in_python(error["hint"]) if error.get("hint") else None
    if kind == "loss" and refuse_loss:
        return LossWarning(text)
    if kind == "data":
        places = {name: error.get(name) for name in ("file", "record", "byte", "column", "row")}
        return DataError(text, hint=hint, **places)
    classes: dict[Any, type[TfrError]] = {
        "usage": UsageError,
        "query": QueryError,
        "loss": QueryError,
        "exists": ExistsError,
        "missing": MissingError,
    }
    return classes.get(kind, TfrError)(text, hint=hint)


def losses_are_errors() -> bool:
    """Whether a `LossWarning` would be raised here, as with `python -W error`."""
    level = caller()
    with warnings.catch_warnings(record=True):
        try:
            warnings.warn(LossWarning("?"), stacklevel=level)
        except LossWarning:
            return True
    return False


def _stop(process: subprocess.Popen[bytes], stderr: IO[bytes], owner: int) -> None:
    """Asks a process to clean up and end. Does not wait long: Ctrl-C must be prompt."""
    stderr.close()
    # A fork has a copy of the object, but the process is not its own.
    if os.getpid() != owner:
        return
    if process.poll() is None:
        # Not SIGINT: a terminal has sent that to the command, too, and a second one would end it before it has cleaned up.
        process.terminate()
        try:
            process.wait(_MOMENT)
        except subprocess.TimeoutExpired:
            if threading.main_thread().is_alive():
                # No daemon: the interpreter waits for it at its end.
                threading.Thread(target=_end, args=(process,), name="tfr-sql").start()
                return
    _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Waits for a process that was asked to end. If it takes too long, ends it at once."""
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    # Not before: a thread that reads from it would have to be waited for.
    if process.stdout is not None:
        process.stdout.close()


#: The threads that read tables, each with what ends the command that it writes to.
_feeders: weakref.WeakKeyDictionary[threading.Thread, Callable[[], object]] = weakref.WeakKeyDictionary()


@atexit.register
def _end_feeders() -> None:
    """Ends the threads that read tables, before the interpreter does.

    It unwinds a thread that still runs then, and the frames of the native module release objects of an interpreter that is
    gone. A thread ends with its next batch once the command has ended. One that waits for its table longer is left.
    """
    for stop in list(_feeders.values()):
        stop()
    latest = time.monotonic() + _PATIENCE_FOR_FEEDERS
    for feeder in list(_feeders):
        feeder.join(max(0.0, latest - time.monotonic()))


def _feed(
    descriptor: int, source: Iterable[bytes], failures: list[BaseException], between: Callable[[], None] | None = None
) -> None:
    """Writes a stream to a pipe. Without the end of the stream, the command knows that it has failed."""
    __tracebackhide__ = True
    try:
        for messages in source:
            _write(descriptor, messages)
            if between is not None:
                between()
    except BrokenPipeError:
        # The command has ended, and says why; or it needs no more rows.
        pass
    except BaseException as error:
        if between is not None and not isinstance(error, Exception):
            raise
        failures.append(error)
    finally:
        os.close(descriptor)


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _read_messages(descriptor: int, messages: queue.SimpleQueue[dict[str, Any] | None]) -> None:
    """Reads messages up to the end of the process."""
    with open(descriptor, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                message = json.loads(line)
            except ValueError:
                # The last line of a process that was killed.
                continue
            messages.put(message)
    messages.put(None)


def _read_all(stream: IO[bytes], printed: list[bytes]) -> None:
    try:
        for part in iter(lambda: stream.read1(1 << 16), b""):  # type: ignore[attr-defined]
            printed.append(part)
    except ValueError:
        # Closed by `cancel`.
        pass


def _enlarge(pipe: int) -> None:
    try:
        import fcntl

        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)  # type: ignore[attr-defined,unused-ignore]
    except (ImportError, AttributeError, OSError):
        # Another system, or too many large pipes.
        pass


class _Progress:
    """Shows progress by a function, or by tqdm if it is installed."""

    def __init__(self, option: Any, tables: Sequence[Stream], is_copy: bool) -> None:
        self._tables = tables
        self._is_copy = is_copy
        self._most_rows = 0
        self._call: Callable[[Progress], object] | None = option if callable(option) else None
        self._bar: Any = None
        if self._call is None:
            try:
                from tqdm.auto import tqdm  # type: ignore[import-untyped,import-not-found,unused-ignore]
            except ImportError:
                return
            self._bar = tqdm(total=100, unit="%", bar_format="{l_bar}{bar}| {postfix}")

    def __call__(self, progress: Progress) -> None:
        if progress.share is None:
            progress = replace(progress, share=self._share_of_tables(progress.rows or 0))
        if self._call is not None:
            self._call(progress)
        elif self._bar is not None:
            self._bar.set_postfix_str(progress.message, refresh=False)
            self._bar.n = round((progress.share or 0) * 100)
            self._bar.refresh()

    def _share_of_tables(self, rows: int) -> float | None:
        """Returns the finished fraction of tables whose lengths are known. The command does not know them.

        Rows that are sorted first are counted twice, as the command counts those of files: when they are read, and from 0
        again when they are written.
        """
        totals = [table.total for table in self._tables if table.total is not None]
        total = sum(totals)
        if len(totals) < len(self._tables) or total == 0:
            return None
        taken = rows if self._is_copy else sum(table.taken for table in self._tables)
        self._most_rows = max(self._most_rows, rows)
        if taken >= total and rows < self._most_rows:
            return rows / self._most_rows
        return min(taken / total, 1.0)

    def close(self, is_complete: bool) -> None:
        if self._bar is not None:
            if is_complete:
                self._bar.n = 100
                self._bar.refresh()
            self._bar.close()
            self._bar = None


def _value_of(option: str, arguments: Sequence[str]) -> str | None:
    """Returns the first value of an option, if it is among the arguments."""
    return next((found.partition("=")[2] for found in arguments if found.startswith(f"{option}=")), None)


def _file_of(text: str, directory: str | None) -> IO[bytes]:
    """Returns a file without a name that has this text. It is where the command may open files."""
    file = tempfile.TemporaryFile(dir=directory)
    file.write(text.encode())
    file.flush()
    file.seek(0)
    return file


def arguments_of(options: Mapping[str, Any], known: Mapping[str, str], function: str) -> list[str]:
    """Returns the arguments for keyword options. `known` has the kind of every option.

    A flag is true or false. A list is joined with commas, or repeats an option of the kind `repeat`. A dictionary is
    `key=value,...`, or `key: value` for each entry of an option of the kind `repeat`.
    """
    __tracebackhide__ = True
    arguments: list[str] = []
    for name, value in options.items():
        kind = known.get(name)
        if kind is None:
            similar = ", ".join(sorted(known))
            raise UsageError(f"{function}: no option {name!r}", hint=f"The options are {similar}.")
        if value is None:
            continue
        flag = "--" + name.replace("_", "-")
        if kind == "flag":
            if not isinstance(value, bool):
                raise UsageError(f"{function}: {name}={value!r}, expected True or False")
            arguments += [flag] if value else []
        elif isinstance(value, bool):
            raise UsageError(f"{function}: {name}={value!r}, expected a value")
        else:
            texts = [f"{flag}={text}" for text in _texts(value, kind)]
            if name == "allow" and not texts:
                # Without an entry, the command would open everything.
                raise UsageError(f"{function}: allow={value!r}, expected a path or a URL")
            arguments += texts
    return arguments


def _texts(value: Any, kind: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        separator = ": " if kind == "repeat" else "="
        entries = [f"{key}{separator}{entry}" for key, entry in value.items()]
    elif isinstance(value, (list, tuple, set, frozenset)):
        entries = [os.fspath(entry) if isinstance(entry, os.PathLike) else str(entry) for entry in value]
    else:
        entries = [os.fspath(value) if isinstance(value, os.PathLike) else str(value)]
    return iter(entries if kind == "repeat" else [",".join(entries)])
