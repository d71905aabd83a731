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
    (r"(?i)::\s*(int|bigint|smallint)|as\s+(int|bigint|smallint)", r"", "A cast of a number to an integer cuts its decimals off, as in Spark and Hive."),
    (r"(?i)::bytea|as\s+bytea|::blob|as\s+blob", r"", "A cast of text to BINARY gives the bytes of its UTF-8 form, as in Spark."),
]


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
