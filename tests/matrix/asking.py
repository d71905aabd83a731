"""Asks this project: which signatures it accepts, and their answers over tables and over literals."""

import json
import os
import re
import sys

import pyarrow
import pyarrow.parquet

import typed
import values

# Expressions in one query. If it fails, halves are asked.
WIDTH = 24
# Queries in one request.
REQUEST = 256
# Rows that are asked as literals.
LITERALS = 6

LETTERS = "abcde"

NUMBERS = ["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64", "float32", "float64", "decimal9", "decimal18", "decimal38", "decimal38_0"]
TIMES = ["date", "time", "timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamptz", "interval"]

# One type of each kind.
KINDS = ["boolean", "int64", "uint64", "float64", "decimal9", "text", "binary", "date", "time", "timestamp", "timestamptz", "interval", "int64[]"]
NESTED = ["int64[]", "float64[]", "text[]", "int64[][]", "struct", "map"]

# Pairs for operators, in addition to all pairs of kinds.
PAIRS = [("int32", "int64"), ("int32", "int32"), ("float32", "float64"), ("float32", "float32"), ("decimal9", "decimal38"), ("decimal38", "decimal38"), ("decimal38_0", "int64"), ("timestamp_ns", "timestamp"), ("timestamp_s", "timestamp"), ("timestamp_ns", "timestamp_ns"), ("date", "timestamp_ns"), ("text[]", "text[]"), ("float64[]", "float64[]"), ("struct", "struct")]


def related(name):
    """The types that replace a type: one of each kind, and all that are like it."""
    for family in (NUMBERS, TIMES, NESTED):
        if name in family:
            return dict.fromkeys(KINDS + family)
    return dict.fromkeys([*KINDS, "struct", "map"])


class Process:
    """The process of the test."""

    def __init__(self, directory):
        self.directory = directory
        self.opened = set()

    def ask(self, request):
        print(json.dumps(request), flush=True)
        line = sys.stdin.readline()
        if not line:
            sys.exit("the test ended")
        return json.loads(line)

    def functions(self):
        return self.ask({"functions": True})

    def open(self, tables):
        paths = {}
        for table in tables:
            if table.name not in self.opened:
                paths[table.name] = os.path.join(self.directory, f"{table.name}.parquet")
                pyarrow.parquet.write_table(table.table(table.types), paths[table.name])
                self.opened.add(table.name)
        if paths:
            self.ask({"tables": paths})

    def all(self, what, queries):
        found = []
        for place in range(0, len(queries), REQUEST):
            found += self.ask({what: queries[place : place + REQUEST]})
        return found


class Table:
    """The rows of a tuple of types; for aggregates in groups."""

    numbers_of_names = {}

    def __init__(self, types, grouped):
        self.types, self.grouped = types, grouped
        number = self.numbers_of_names.setdefault((types, grouped), len(self.numbers_of_names))
        self.name = f"t{number}"
        self.rows = values.groups(types) if grouped else [(None, row) for row in values.rows(types)]

    def numbered(self):
        return self.rows

    def numbers(self):
        return sorted({group for group, _ in self.rows}) if self.grouped else range(len(self.rows))

    def arguments(self, number):
        rows = [row for group, row in self.rows if group == number] if self.grouped else [self.rows[number][1]]
        shown = [", ".join("NULL" if value is None else repr(value) for value in row) for row in rows[:6]]
        return "(" + "; ".join(shown) + (f"; {len(rows)} rows" if len(rows) > 6 else "") + ")"

    def table(self, types):
        columns = {"i": pyarrow.array(range(len(self.rows)), pyarrow.int64())}
        if self.grouped:
            columns["g"] = pyarrow.array([group for group, _ in self.rows], pyarrow.int64())
        for place, (letter, name) in enumerate(zip(LETTERS, types)):
            columns[letter] = values.TYPES[name].array([row[place] for _, row in self.rows])
        return pyarrow.table(columns)

    def queries(self, kind):
        return Queries(self, kind)


class Queries:
    """The queries of expressions over a table."""

    def __init__(self, table, kind, ours=False):
        self.source, self.is_window, self.grouped = table.name, kind == "window", table.grouped
        self.name, self.key = table.name, "g" if table.grouped else "i"
        self.tail = " GROUP BY g" if table.grouped else ""
        intervals = [letter for letter, name in zip(LETTERS, table.types) if values.base(name) == "interval"]
        if ours and intervals:
            cells = [f"CAST({letter} AS INTERVAL) AS {letter}" if letter in intervals else letter for letter in LETTERS[: len(table.types)]]
            columns = ["i", *(["g"] if table.grouped else []), *cells]
            self.source = f"(SELECT {', '.join(columns)} FROM {table.name}) AS t"

    def whole(self, expressions, condition=""):
        columns = ", ".join(f"{expression} AS c{place}" for place, expression in enumerate(expressions))
        return f"SELECT {self.key}, {columns} FROM {self.source}{condition}{self.tail}"

    def each(self, expression):
        """A query whose rows are partitions."""
        return self.whole([expression]).replace(f"FROM {self.name}", f"FROM {self.name}_rows", 1)

    def one(self, expression, number):
        return self.whole([expression], f" WHERE {self.key} = {number}")


class Signature:
    def __init__(self, call, types, table):
        self.call, self.types, self.table = call, types, table
        self.key = (call.text, types)

    def __str__(self):
        return f"{self.call.text} of ({', '.join(self.types)})"

    def expression(self):
        return self.call.expression(LETTERS)


def candidates(call):
    """The tuples of types that a call is tried with: the first ones are those of calls.tsv."""
    if call.refused or call.internal or call.of_unions:
        return []
    found = dict.fromkeys(call.bases)
    if call.paired:
        found |= dict.fromkeys((one, other) for one in KINDS for other in KINDS) | dict.fromkeys(PAIRS)
    elif call.varied:
        # The first tuple alone is varied.
        first = call.bases[0]
        for place in range(len(first)):
            found |= dict.fromkeys((*first[:place], name, *first[place + 1 :]) for name in related(values.base(first[place])) if name != values.base(first[place]))
    return list(found)


def accepted(process, calls):
    """The signatures that are planned, and the calls of calls.tsv that are refused with their messages."""
    tables, tried = {}, []
    for call in calls:
        for types in candidates(call):
            key = (types, call.kind == "aggregate")
            if key not in tables:
                tables[key] = Table(*key)
            tried.append(Signature(call, types, tables[key]))
    process.open(tables.values())
    queries = [Queries(signature.table, signature.call.kind, True).whole([signature.expression()]) for signature in tried]
    found, refused = [], []
    for signature, answer in zip(tried, process.all("plan", queries)):
        if "error" not in answer:
            found.append(signature)
        elif signature.types in signature.call.bases:
            refused.append((signature.call, signature.types, answer["error"]))
    return found, refused


def answers(process, signatures):
    """The answers of signatures, by number of row or group."""
    found = {signature: {} for signature in signatures}
    by_table = {}
    for signature in signatures:
        by_table.setdefault((signature.table, signature.call.kind), []).append(signature)
    pending = []
    for (table, kind), members in by_table.items():
        pending += [(Queries(table, kind, True), members[place : place + WIDTH]) for place in range(0, len(members), WIDTH)]
    alone = []
    for (queries, members), answer in zip(pending, process.all("rows", [queries.whole([member.expression() for member in members]) for queries, members in pending])):
        if "rows" in answer:
            for row in answer["rows"]:
                for member, value in zip(members, row[1:]):
                    found[member][int(row[0][1])] = typed.ours(value)
        else:
            alone += [(queries, member) for member in members]
    in_groups = [(queries, member) for queries, member in alone if queries.grouped or queries.is_window]
    alone = [(queries, member) for queries, member in alone if not (queries.grouped or queries.is_window)]
    single = []
    for (queries, member), answer in zip(alone, process.all("each", [queries.each(member.expression()) for queries, member in alone])):
        numbers = list(member.table.numbers())
        if len(answer.get("each", [])) == len(numbers):
            assert all("error" in row or int(row[0][1]) == number for number, row in zip(numbers, answer["each"])), queries.each(member.expression())
            found[member] = {number: typed.ERROR if "error" in row else typed.ours(row[1]) for number, row in zip(numbers, answer["each"])}
        else:
            # It panics, or it cannot be planned.
            single.append((queries, member, numbers))
    for (queries, member), answer in zip(in_groups, process.all("rows", [queries.whole([member.expression()]) for queries, member in in_groups])):
        if "rows" in answer:
            found[member] = {int(row[0][1]): typed.ours(row[1]) for row in answer["rows"]}
        elif queries.is_window:
            found[member] = {number: typed.ERROR for number in member.table.numbers()}
        else:
            single.append((queries, member, list(member.table.numbers())))
    by_rows(process, single, found)
    return found


def by_rows(process, pending, found):
    """Answers where some rows are errors: halves of the rows, down to single ones."""
    while pending:
        asked = process.all("rows", [queries.whole([member.expression()], among(queries.key, numbers)) for queries, member, numbers in pending])
        smaller = []
        for (queries, member, numbers), answer in zip(pending, asked):
            if "rows" in answer:
                found[member] |= {int(row[0][1]): typed.ours(row[1]) for row in answer["rows"]}
            elif len(numbers) == 1:
                found[member][numbers[0]] = typed.ERROR
            else:
                # Many rows are errors, or few: eight parts find both soon.
                size = max(1, len(numbers) // 8)
                smaller += [(queries, member, numbers[place : place + size]) for place in range(0, len(numbers), size)]
        pending = smaller


def among(key, numbers):
    if len(numbers) == 1:
        return f" WHERE {key} = {numbers[0]}"
    return f" WHERE {key} BETWEEN {numbers[0]} AND {numbers[-1]}"


def literals(process, signatures, answers):
    """The answers over literals that differ from those over columns."""
    asked = []
    for signature in signatures:
        if signature.call.kind in ("scalar", "operator", "cast") and signature.types:
            rows = signature.table.rows
            # An empty map has no literal.
            numbers = [number for number, value in answers[signature].items() if value != typed.ERROR and () not in rows[number][1]]
            step = max(1, len(numbers) // LITERALS)
            if numbers:
                asked.append((signature, numbers[::step][:LITERALS]))

    def expression(signature, number):
        row = signature.table.rows[number][1]
        return signature.call.expression([values.literal(name, value) for name, value in zip(signature.types, row)])

    queries = ["SELECT " + ", ".join(f"{expression(signature, number)} AS c{place}" for place, number in enumerate(numbers)) for signature, numbers in asked]
    found = {signature: {} for signature in signatures}
    single = []
    for (signature, numbers), answer in zip(asked, process.all("rows", queries)):
        if "rows" not in answer:
            single += [(signature, number) for number in numbers]
            continue
        differ(found, signature, numbers, answer["rows"][0], answers)
    for (signature, number), answer in zip(single, process.all("rows", [f"SELECT {expression(signature, number)} AS c" for signature, number in single])):
        if "rows" in answer:
            differ(found, signature, [number], answer["rows"][0], answers)
        else:
            found[signature][number] = ("error", re.sub(r"\s+", " ", answer["error"])[:300])
    return found


def differ(found, signature, numbers, row, answers):
    for number, value in zip(numbers, row):
        value = typed.ours(value)
        if not typed.same(answers[signature][number], value):
            found[signature][number] = value
