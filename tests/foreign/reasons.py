"""Why an answer differs from the judges': each reason is a sentence of docs/sql.md or docs/functions.md."""

import re

# Queries without one answer.
VARIES = re.compile(
    r"(?i)\b(random|setseed|gen_random_uuid|uuid\w*|nextval|currval|lastval|now|today|current_\w+|localtime\w*|version|"
    r"clock_timestamp|statement_timestamp|transaction_timestamp|timeofday|pg_\w+|txid\w*|tablesample|using\s+sample|"
    r"information_schema|duckdb_\w+|sqlite_master|pragma\w*|read_\w+|query_table|arrow_typeof|typeof|explain)\b"
)

# PostgreSQL's own tests load these from files; the columns follow from the number of the row.
_NUMBERED = """
CREATE TABLE {name} AS SELECT (i * 7919) % {rows} AS unique1, i AS unique2, i % 2 AS two, i % 4 AS four, i % 10 AS ten,
  i % 20 AS twenty, i % 100 AS hundred, i % 1000 AS thousand, i % 2000 AS twothousand, i % 5000 AS fivethous, i AS tenthous,
  2 * (i % 100) + 1 AS odd, 2 * (i % 100) AS even, chr(65 + i % 26) || 'AAAAA' AS stringu1,
  chr(65 + (i / 26) % 26) || 'BBBBB' AS stringu2, (ARRAY['AAAAxx', 'HHHHxx', 'OOOOxx', 'VVVVxx'])[i % 4 + 1] AS string4
  FROM generate_series(0, {rows} - 1) i
"""

POSTGRES_TABLES = [
    "CREATE TABLE char_tbl(f1 char(4)); INSERT INTO char_tbl VALUES ('a'), ('ab'), ('abcd'), ('abcd    ')",
    "CREATE TABLE float8_tbl(f1 float8); INSERT INTO float8_tbl VALUES ('0.0'), ('-34.84'), ('-1004.30'), "
    "('-1.2345678901234e+200'), ('-1.2345678901234e-200')",
    "CREATE TABLE int2_tbl(f1 int2); INSERT INTO int2_tbl VALUES (0), (1234), (-1234), (32767), (-32767)",
    "CREATE TABLE int4_tbl(f1 int4); INSERT INTO int4_tbl VALUES (0), (123456), (-123456), (2147483647), (-2147483647)",
    "CREATE TABLE int8_tbl(q1 int8, q2 int8); INSERT INTO int8_tbl VALUES (123, 456), (123, 4567890123456789), "
    "(4567890123456789, 123), (4567890123456789, 4567890123456789), (4567890123456789, -4567890123456789)",
    "CREATE TABLE text_tbl(f1 text); INSERT INTO text_tbl VALUES ('doh!'), ('hi de ho neighbor')",
    "CREATE TABLE varchar_tbl(f1 varchar(4)); INSERT INTO varchar_tbl VALUES ('a'), ('ab'), ('abcd'), ('abcd    ')",
    _NUMBERED.format(name="onek", rows=1000),
    "CREATE TABLE onek2 AS SELECT * FROM onek",
    _NUMBERED.format(name="tenk1", rows=1000),
    "CREATE TABLE tenk2 AS SELECT * FROM tenk1",
]

# A pattern of the query, a pattern of the answers, and the sentence.
REASONS = [
    (r"(?i)::\s*(int|bigint|smallint)|as\s+(int|bigint|smallint)", r"", "`CAST(1.7 AS BIGINT)` is 1."),
    (r"(?i)::bytea|as\s+bytea|::blob|as\s+blob", r"", "A cast of a text to BINARY returns the bytes of its UTF-8 form, as in Spark."),
    (r"(?i)\bencode\('", r"", "A text literal is a text, also where an argument may be bytes:"),
    (r"(?i)::numeric|::decimal\b|as\s+(numeric|decimal)\b", r"0{5}'|[eE]\+|inf", "`DECIMAL` and `NUMERIC` without digits are `DECIMAL(38, 10)`."),
    (r"\d{19} / \d", r"", "| `a / b` of decimals | Spark's scale, but at least 16:"),
    (r"(?i)make_date\((0|-)", r"", "Years before 1 are counted as in ISO 8601:"),
    (r"(?i)(array|list)_(distinct|union|intersect|except|sort)", r"DuckDB: \[\[?\(?\('l'", "`array_distinct` and other functions of sets keep the first of equal items, in their order."),
    (r"(?i)(array_agg|string_agg)\(\s*distinct", r"", "`array_agg(DISTINCT x)` without `ORDER BY` returns its items in any order."),
    (r"(?i)(array|list)_(has|contains)\(", r"\(\)", "| `x = ANY(list)`, `array_has`, `array_contains` | NULL if no item is `x` and `x` or an item is NULL;"),
    (r"(?i)\bgenerate_series\(", r"PostgreSQL: \[\[\('[nt]'.*(\n.*)*ours: \[\[\('l'", "`generate_series` and `range` return a list, as in DuckDB:"),
    (r"(?i)[+-]\d\d(:?\d\d)?'|[A-Z]{3}'|Z'", r"\('t'", "A text with a time zone that is cast to TIMESTAMP is the time in UTC, as in DuckDB."),
    (r"(?i)1e[23]\d\d", r"(?i)inf|nan", "Arithmetic and functions of floating point numbers return what IEEE 754 says, and never an error:"),
    (r"(?i)\bcorr\(", r"", "`corr` is NULL where one of its arguments is the same in all rows."),
    (r"(?i)regexp_\w+\(.*\|", r"", "Of several alternatives the first that matches counts, not the longest:"),
    (r"<<|to_hex\(-", r"", "An integer literal is a BIGINT:"),
    (r"(?i)\.\d{7,9}\b|nanosecond", r"", "Literals of timestamps, times and intervals keep nanoseconds."),
    (r"(?i)to_(char|date|timestamp)\((.|\n)*%[YmdH]", r"", "`to_char`, `to_date` and `to_timestamp` take formats such as `%Y-%m-%d`"),
    (r"(?i)interval '\d*\.\d+' month", r"", "`INTERVAL '0.5' MONTH` is 15 days"),
    (r"(?i)date_trunc\('\w+', time '", r"\('i'(.|\n)*\('c'", "`date_trunc` of a TIME is a TIME."),
    (r"(?i)\bx'[0-9a-f]+'", r"", "`X'6162'` is BINARY, as in Spark."),
    (r"(?i)like (r\.a|'\\)", r"", "`\\` escapes the next character in `LIKE`, as in PostgreSQL."),
    (r"(?s)\[.*\{.*\}.*\{.*\}.*\]", r"", "In a list of structs with the same fields in another order, all have the order of the last one."),
    (r"\bs\.r\b", r"\d\.\d{12,}", "A REAL has the fewest digits that identify it"),
    (r"(?i)cardinality\(\[\[", r"", "`cardinality` counts the items of nested lists, as in PostgreSQL."),
    (r"(?i)regexp_\w+\((.|\n)*chr\(10\)", r"", "| `.` in a regular expression | matches a newline too"),
]


def unknown(pages):
    """The reasons that are no sentence of the pages."""
    text = " ".join(pages.split())
    return [sentence for _, _, sentence in REASONS if sentence not in text]


def of(sql, answers):
    """The reason for which answers differ, or None."""
    for query, answer, sentence in REASONS:
        if re.search(query, sql) and re.search(answer, answers):
            return sentence
    return None


def kind(error):
    """An error without what is of the query: numbers, names and values."""
    lines = [line for line in error.splitlines() if line.strip()]
    line = lines[-1] if lines else error
    line = re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`", "'x'", line)
    line = re.sub(r"\d+", "0", line)
    return line[:90]
