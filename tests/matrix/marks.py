"""The files of the matrix: calls, rules of our own, and the marks of signatures.

`calls.tsv`: kind, function, call, types, and what PostgreSQL and DuckDB call it. `$1` is the first argument. Types are tuples with
`; ` between them; each argument of the first tuple is replaced by every other type, unless the types begin with `=`. `*` means all
pairs, `refused` a function that no session has, `internal` one that only rules of `tfr-engine` call, and `unions` one of unions,
which neither judge has as columns: the tests of Avro ask them. A judge's column is empty if its call is the same, and `-` if it has none.

`own.tsv`: regular expressions for the function, the call and the types, and the rule in one sentence. `duckdb` in a fifth column
means that the rule holds only where DuckDB has the same answers.

`signatures.tsv` is written by UPDATE_MATRIX=1: call, mark, types.
"""

import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
KINDS = ("scalar", "operator", "cast", "aggregate", "window")


def lines(name):
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        for line in file:
            line = line.rstrip("\n")
            if line and not line.startswith("#"):
                yield line.split("\t")


class Call:
    def __init__(self, kind, function, text, types="", postgresql="", duckdb=""):
        assert kind in KINDS, kind
        self.kind, self.function, self.text = kind, function, text
        self.paired = types.startswith("*")
        self.varied = not types.startswith("=")
        # `internal`: rules insert it, and no query calls it.
        self.refused, self.internal, self.of_unions = types == "refused", types == "internal", types == "unions"
        tuples = [part.strip() for part in types.lstrip("*= ").split(";")]
        self.bases = [tuple(name.strip() for name in part.split(",") if name.strip()) for part in tuples]
        if self.paired and self.bases == [()]:
            self.bases = [("int64", "int64")]
        self.spellings = {"postgresql": postgresql, "duckdb": duckdb}

    def expression(self, arguments):
        return insert(self.text, arguments)

    def spelling(self, judge):
        text = self.spellings[judge]
        return None if text == "-" else insert(text or self.text, "abcde")


def insert(text, arguments):
    return re.sub(r"\$(\d)", lambda place: arguments[int(place[1]) - 1], text)


def read_calls():
    calls = [Call(*line) for line in lines("calls.tsv")]
    texts = [call.text for call in calls]
    twice = {text for text in texts if texts.count(text) > 1}
    assert not twice, f"calls.tsv has these calls twice: {twice}"
    return calls


class Rules:
    def __init__(self):
        self.rules = []
        for function, call, types, sentence, *confirmed in lines("own.tsv"):
            self.rules.append((re.compile(function), re.compile(call), re.compile(types), sentence, bool(confirmed)))

    def of(self, signature, confirmed=True):
        """The rule of a signature, or None. `confirmed`: DuckDB has the same answers."""
        types = ", ".join(signature.types)
        for function, call, pattern, sentence, needs_duckdb in self.rules:
            if needs_duckdb and not confirmed:
                continue
            if function.fullmatch(signature.call.function) and call.fullmatch(signature.call.text) and pattern.fullmatch(types):
                return sentence
        return None


class Mark:
    """postgresql, duckdb, own, refused or open; how far doubles may differ; for rules of our own a checksum of the answers, or
    `duckdb` if DuckDB has the same rule."""

    def __init__(self, name, distance=0, digest=None):
        self.name, self.distance, self.digest = name, distance, digest

    def __eq__(self, other):
        return isinstance(other, Mark) and str(self) == str(other) and self.digest == other.digest

    def __hash__(self):
        return hash(str(self))

    def __str__(self):
        return f"{self.name}~{self.distance}" if self.distance else self.name


def read_signatures():
    found = {}
    if not os.path.exists(os.path.join(HERE, "signatures.tsv")):
        return found
    for call, mark, types in lines("signatures.tsv"):
        name, _, distance = mark.partition("~")
        for part in types.split("; "):
            part, _, digest = part.partition("#")
            names = tuple(name for name in part.split(", ") if name)
            found[(call, names)] = Mark(name, int(distance or 0), digest or None)
    return found


def write_signatures(calls, found):
    with open(os.path.join(HERE, "signatures.tsv"), "w", encoding="utf-8") as file:
        file.write("# Written by UPDATE_MATRIX=1, see marks.py: call, mark, types. `~1`: doubles may be one floating point number apart.\n")
        for call in calls:
            of_mark = {}
            for (text, types), (_, mark) in found.items():
                if text == call.text:
                    of_mark.setdefault(str(mark), []).append(", ".join(types) + (f"#{mark.digest}" if mark.digest else ""))
            for mark, types in of_mark.items():
                file.write(f"{call.text}\t{mark}\t{'; '.join(types)}\n")
