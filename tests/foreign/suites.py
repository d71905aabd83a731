"""Reads the test suites of other engines: sqllogictest files (SQLite, DuckDB, DataFusion) and SQL files (PostgreSQL)."""

import dataclasses
import os
import re

# The name by which a file addresses us in `skipif` and `onlyif`.
OUR_NAME = "postgresql"

# Extensions of DuckDB whose features our judge has.
KNOWN_EXTENSIONS = ("parquet", "json", "icu", "core_functions", "vector_size", "no_alternative_verify", "noforcestorage", "64bit", "notwindows")


@dataclasses.dataclass
class Item:
    """A statement or a query of a file."""

    sql: str
    line: int
    is_query: bool
    # The lines of the answer, or None if the file does not state them (a hash, an error, a SQL file).
    expected: list | None = None
    columns: int = 0


def files(directory, suite):
    """The files of a suite, in the order of their names."""
    ending = ".sql" if suite == "postgres" else (".test", ".slt", ".part")
    found = []
    for folder, _, names in os.walk(directory):
        found += [os.path.join(folder, name) for name in names if name.endswith(ending)]
    return sorted(found)


def items(path):
    """The items of a file, in order."""
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    return sql_items(text) if path.endswith(".sql") else logictest_items(text)


# The pieces of SQL text in which a semicolon or a name means nothing.
QUOTED = re.compile(
    r"""(?P<quoted>'(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/ | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$)""", re.X | re.S
)
ESCAPED = re.compile(r"""(?<![\w"'])[eE]'(?:[^'\\]|''|\\.)*'""", re.S)


def pieces(sql):
    """The text in pieces: (text, whether it is quoted or a comment)."""
    place = 0
    while place < len(sql):
        quoted, escaped = QUOTED.search(sql, place), ESCAPED.search(sql, place)
        found = min((found for found in (quoted, escaped) if found), key=lambda found: found.start(), default=None)
        if found is None:
            yield sql[place:], False
            return
        if found.start() > place:
            yield sql[place : found.start()], False
        yield found[0], True
        place = found.end()


def lower(sql):
    """The statement with unquoted names in lower case: they keep their case here, on purpose."""
    return "".join(piece if quoted else piece.lower() for piece, quoted in pieces(sql))


def is_ordered(sql):
    """Whether the outermost query has ORDER BY."""
    bare = "".join("''" if quoted else piece for piece, quoted in pieces(sql))
    while True:
        shorter = re.sub(r"\([^()]*\)", " ", bare)
        if shorter == bare:
            return re.search(r"(?i)\border\s+by\b", bare) is not None
        bare = shorter


def is_query(sql):
    bare = "".join(piece for piece, quoted in pieces(sql) if not (quoted and piece.startswith(("--", "/*")))).lstrip(" \t\n(")
    return re.match(r"(?i)(select|values|with|from)\b", bare) is not None and not re.search(r"(?i)\b(insert|update|delete|merge)\s+(into|from|\w+\s+set)\b", bare)


def sql_items(text):
    """The statements of a file for psql. Its own commands are left out, with the data that follow COPY ... FROM STDIN."""
    text = re.sub(r"(?ims)^copy [^;]*?from stdin[^;]*;.*?^\\\.$", "", text)
    text = re.sub(r"(?m)\\(gset|gexec|g|crosstabview|gx|gdesc)\b.*$", ";", text)
    text = re.sub(r"(?m)^\s*\\.*$", "", text)
    found, statement, line, start = [], "", 1, 1
    for piece, quoted in pieces(text):
        parts = [piece] if quoted else re.split("(;)", piece)
        for part in parts:
            if part == ";" and not quoted:
                if statement.strip():
                    found.append(Item(statement.strip(), start, is_query(statement)))
                statement, start = "", line
            else:
                statement += part
            line += part.count("\n")
    return found


def logictest_items(text):
    return list(records(text.splitlines(), 0, {}))


def records(lines, first, variables):
    """The records of lines, loops unrolled."""
    place = 0
    skipped = False
    while place < len(lines):
        line = lines[place].strip()
        place += 1
        words = line.split()
        if not words or line.startswith("#"):
            continue
        if words[0] in ("loop", "foreach", "concurrentloop", "concurrentforeach"):
            depth, end = 1, place
            while end < len(lines) and depth:
                head = lines[end].split()[:1]
                depth += head in (["loop"], ["foreach"], ["concurrentloop"], ["concurrentforeach"])
                depth -= head == ["endloop"]
                end += 1
            body = lines[place : end - 1]
            values = range(int(words[2]), int(words[3])) if words[0].endswith("loop") else words[2:]
            for value in list(values)[:20]:
                yield from records(body, first + place, variables | {words[1]: str(value)})
            place = end
            continue
        if words[0] == "halt" or words[0] in ("load", "restart", "mode") and words[1:2] != ["unskip"]:
            return
        if words[0] == "require" and (len(words) < 2 or words[1] not in KNOWN_EXTENSIONS):
            return
        if words[0] == "skipif":
            skipped |= words[1] == OUR_NAME
            continue
        if words[0] == "onlyif":
            skipped |= words[1] != OUR_NAME
            continue
        if words[0] not in ("statement", "query"):
            skipped = False
            continue
        number = first + place
        sql, expected = [], None
        while place < len(lines) and lines[place].strip() and lines[place].strip() != "----":
            sql.append(lines[place])
            place += 1
        if place < len(lines) and lines[place].strip() == "----":
            place += 1
            expected = []
            while place < len(lines) and lines[place].strip():
                expected.append(lines[place])
                place += 1
            if any("hashing to" in line or line.startswith("<") for line in expected):
                expected = None
        if skipped:
            skipped = False
            continue
        text = "\n".join(sql)
        for name, value in variables.items():
            text = text.replace("${" + name + "}", value)
        query = words[0] == "query" and words[1:2] != ["error"]
        columns = len(words[1]) if query and len(words) > 1 else 0
        if words[0] == "statement" and words[1:2] == ["error"] and is_query(text):
            continue
        yield Item(text.strip().rstrip(";"), number, query and is_query(text), expected, columns)
