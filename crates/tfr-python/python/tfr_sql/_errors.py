"""The exceptions of this package."""

from __future__ import annotations

from typing import Any


class TfrError(Exception):
    """Any error of this package. `hint` says what to do about it, if that is known."""

    hint: str | None

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message}\n{self.hint}" if self.hint else message

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are pickled by their positional arguments only; worker processes must not lose the others.
        return _restore, (type(self), self.args, self.__dict__)


class DataError(TfrError):
    """A record, or a row, is damaged or does not fit its columns.

    Attributes that are not known are None.

    * `file`: the file.
    * `record`: the number of the record in the file, from 0.
    * `byte`: the byte at which the record starts; in a compressed file, after decompression.
    * `column`: the column or feature.
    * `row`: the number of the row that cannot be written, from 0.
    """

    file: str | None
    record: int | None
    byte: int | None
    column: str | None
    row: int | None

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        file: str | None = None,
        record: int | None = None,
        byte: int | None = None,
        column: str | None = None,
        row: int | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.file = file
        self.record = record
        self.byte = byte
        self.column = column
        self.row = row


class QueryError(TfrError):
    """The query is invalid, or its columns cannot be written as the options ask."""


class CommandError(TfrError):
    """The command ended without a reason: it was killed, or has crashed.

    * `exit_code`: its exit code, or the negative number of the signal that ended it.
    * `stderr`: what it has written to standard error.
    """

    exit_code: int
    stderr: str

    def __init__(self, message: str, *, hint: str | None = None, exit_code: int = 1, stderr: str = "") -> None:
        super().__init__(message, hint=hint)
        self.exit_code = exit_code
        self.stderr = stderr


class LossWarning(UserWarning):
    """The output loses information of a column: a 64-bit float becomes a 32-bit float, for example.

    If warnings are errors (`python -W error`), nothing is written.
    """


class MissingFilesWarning(UserWarning):
    """Files are missing in a directory, as the names of the others record: it may be the beginning of a copy.

    Files that are named themselves or by a pattern are read as named.
    """


class DamageWarning(UserWarning):
    """Damaged records of a file are passed over, because `damaged="skip"` says so."""


class ExistsError(TfrError, FileExistsError):
    """The target exists, and is not to be replaced."""


class MissingError(TfrError, FileNotFoundError):
    """A file or directory does not exist."""


class UsageError(TfrError, ValueError):
    """An argument is invalid, or arguments do not fit together."""


class DependencyError(TfrError, ImportError):
    """A library that the call needs is not installed."""


def _restore(kind: type[TfrError], args: tuple[Any, ...], state: dict[str, Any]) -> TfrError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error
