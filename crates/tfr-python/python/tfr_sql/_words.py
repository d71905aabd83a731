"""Messages of the command in the words of this package: `--mode overwrite` becomes `mode="overwrite"`."""

from __future__ import annotations

import re
from ._options import DESCRIBE, QUERY, RESHARD, SALVAGE, WRITING

#: The Python argument of each option of the command, and its kind.
_ARGUMENTS: dict[str, tuple[str, str]] = {
    name.replace("_", "-"): (name, kind)
    for options in (QUERY, WRITING, RESHARD, SALVAGE, DESCRIBE)
    for name, kind in options.items()
}
_ARGUMENTS |= {"out": ("out", "path"), "table": ("tables", "table")}

#: Words that are the value of the option before them. Other words continue the sentence.
VALUES = frozenset(
    "absent append bytes drop elwc empty error example gzip ignore index mask none overwrite overwrite-partitions parse-fn "
    "sequence-example shards snapshot stats tfds tfmd unset zlib".split()
)

#: Command lines, which stay as they are.
_COMMAND_LINE = re.compile(r"\b(?:tfr-sql|aws) [a-z]+ [^;,\n]*")

_QUOTED = re.compile(r"'--(?P<name>[a-z][a-z0-9-]*)(?:[ =](?P<value>[^']*))?'")
_PLAIN = re.compile(
    r"(?<![\w-])--(?P<name>[a-z][a-z0-9-]*)"
    r"(?:[ =](?P<value>'[^']*'|\"[^\"]*\"|<[^>]*>|[A-Z_]+(?:=[A-Z_]+)?(?![\w.])|[0-9][\w.]*|\w+=[^\s,;)]+|[^\s,;:)'\"]+))?"
)


def in_python(text: str) -> str:
    """Returns a message with Python arguments in place of the options of the command."""
    if "--" not in text:
        return text
    kept = _COMMAND_LINE.search(text)
    if kept:
        return in_python(text[: kept.start()]) + kept[0] + in_python(text[kept.end() :])
    return _PLAIN.sub(_plain, _QUOTED.sub(_quoted, text))


def _quoted(match: re.Match[str]) -> str:
    """Returns the argument for an option in quotes, perhaps with a placeholder: '--shards <N>'."""
    name, value = match["name"], match["value"]
    if name not in _ARGUMENTS:
        return match[0]
    argument, kind = _ARGUMENTS[name]
    return f"{argument}=" if value is None or value.startswith("<") else _assigned(argument, kind, value)


def _plain(match: re.Match[str]) -> str:
    name, value = match["name"], match["value"]
    if name not in _ARGUMENTS or (name == "table" and value is not None and value.endswith("'")):
        # A table in quotes has keys, which Python's tables have not.
        return match[0]
    argument, kind = _ARGUMENTS[name]
    if value is None:
        return f"{argument}=True" if kind == "flag" else f"{argument}="
    end = ""
    if value.endswith("."):
        value, end = value[:-1], "."
    if kind != "flag" and (kind == "path" or _is_value(value)):
        return _assigned(argument, kind, value) + end
    return f"{argument}{'=True' if kind == 'flag' else '='} {value}{end}"


def _is_value(word: str) -> bool:
    return word in VALUES or not re.fullmatch(r"[a-z][a-z'-]*", word)


def _assigned(argument: str, kind: str, value: str) -> str:
    value = value[1:-1] if value[:1] in "'\"" else value
    if kind == "table":
        return f'{argument}={{"{value.partition("=")[0]}": data}}'
    separator = ": " if kind == "repeat" else "="
    key, found, rest = value.partition(separator)
    if found and kind != "path":
        return f"{argument}={{{_literal(key)}: {_literal(rest)}}}"
    return f"{argument}={_literal(value, quote_placeholder=False)}"


def _literal(value: str, quote_placeholder: bool = True) -> str:
    is_placeholder = re.fullmatch(r"[A-Z_]+", value) is not None
    if value.isdigit() or value == "…" or (is_placeholder and (not quote_placeholder or value == "N")):
        return value
    return f'"{value}"'
