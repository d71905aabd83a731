"""Where this project's SQL and the judges' differ with a reason, and what this project refuses."""

import re

# `/` of two integers is an integer, as in PostgreSQL and Spark; DuckDB has `//` for it.
INTEGER_DIVISION = "{{ / || // }}"

# A cast of a number to an integer cuts its decimals off, as in Spark and Hive. PostgreSQL and DuckDB round.
TRUNCATION = ("CAST({{||trunc(||trunc(}}", "{{||)||)}} AS BIGINT)")

# Not written here, but left out of queries or made alike, since there is no one answer:
#
# * NULLS FIRST and NULLS LAST are always written: DuckDB's default is LAST, ours and PostgreSQL's is FIRST for DESC.
# * A zero has no sign when answers are compared: of 0 and -0 in a group, either may be shown.
# * Sums and averages of doubles depend on the order of the rows in their last digits.
# * A date and the timestamp of its midnight are the same. DATE '2024-01-31' + INTERVAL '1 month' is a date here, a timestamp in
#   PostgreSQL and DuckDB. With a time of day in the interval it is a timestamp here, too.
# * extract, date_trunc and casts of a timestamp with time zone take its local time: here that of its own zone, in PostgreSQL and
#   DuckDB that of the session. A second AT TIME ZONE is written for DuckDB.
# * An interval is its length in answers: of equal ones in a group, any may be shown.
# * Doubles as text, averages of decimals and the names of columns are not asked for.
# * Division by zero is an error of ours and of PostgreSQL, and NULL in DuckDB.

# Refusals: a pattern in an error, and the name under which they are counted.
REFUSALS = [
    (r"a subquery in the ON of an outer join cannot use columns", "a subquery in the ON of an outer join"),
    (r"This issue was likely caused by a bug in DataFusion", "an internal error of the engine"),
    (r"(min|max) of lists is not supported", "the least or greatest list"),
    (r"retract_batch", "an aggregate without an inverse over a sliding window"),
    (r"ParserError\(\"Expected: \), found", "a nested subquery that the parser refuses"),
    (r"Resources exhausted|Not enough memory", "more memory than the limit"),
    (r"Window expressions should not contain a mixed of outer references", "a window over columns of the query around"),
    (r"this correlated subquery needs the rows of the query around", "a correlated subquery over rows that may differ"),
    (r"a subquery cannot refer to \S+ from where it is", "a subquery that refers to columns below a group"),
    (r"grouping sets in a subquery cannot refer to columns of the query around", "grouping sets that refer to the query around"),
    (r"ANY or ALL as a value cannot be computed over", "ANY or ALL as a value, over a LIMIT or window"),
    (r"Schema contains duplicate unqualified field name", "two aggregates that differ by a cast alone"),
    (r"Projections require unique expression names but the expression .* and \"(CAST\(|__key_\d+ AS)", "two keys of groups that differ by a cast alone"),
    (r"a RANGE of an interval, a difference of timestamps or a BINARY value", "a window in a range of intervals"),
    (r"Cannot cast Timestamp.*converted value exceeds", "a time that nanoseconds cannot hold, beside others"),
    (r"(FULL|RIGHT) JOIN with USING or NATURAL", "a join by name whose key would be lost"),
    (r"an aggregate in a subquery over .* alone", "an aggregate that belongs to the query around"),
    (r"is used twice, and its rows may differ each time", "varying rows that are used twice"),
    (r"ORDER BY of a derived table in a subquery", "an ordered derived table in a correlated subquery"),
    (r"the name \S+ without a table, in or below a subquery", "a name beside NATURAL JOIN in a subquery"),
    (r"the name \S+ in an expression of ORDER BY is that of", "a name in ORDER BY of two columns"),
    (r"Conflicting ordering requirements", "aggregates with two orders"),
    (r"Projections require unique expression names but the expression \"__common_expr", "a common part of two expressions (engine)"),
    (r"Unary operator '-' only supports signed", "minus of a number without sign, such as rank()"),
    (r"attempt to (add|subtract|multiply) with overflow", "the engine computes what is under NULLs (checked in dev builds only)"),
    (r"SanityCheckPlan", "an order that the engine's own check of plans misses"),
    (r"Physical input schema should be the same", "the engine's plans do not agree"),
    (r"Input field name .* does not match", "the engine's plans do not agree"),
    (r"Expects PARTITION BY expression to be ordered", "an order that the engine's windows miss"),
    (r"Projections require unique expression names", "two expressions that differ by a cast or a table alone"),
    (r"Cannot infer common argument type for comparison operation Int64 .?.? ?(Interval|Duration)", "a number of days compared with an interval"),
]


# What the three read differently is written `{{ours||DuckDB's}}` or `{{ours||DuckDB's||PostgreSQL's}}`; without the last,
# PostgreSQL reads ours.
_SPELLINGS = re.compile(r"\{\{(.*?)\|\|(.*?)(?:\|\|(.*?))?\}\}")


def ours(sql):
    return _SPELLINGS.sub(lambda found: found[1], sql)


def judges(sql):
    return _SPELLINGS.sub(lambda found: found[2], sql)


def postgres(sql):
    return _SPELLINGS.sub(lambda found: found[1] if found[3] is None else found[3], sql)


def kind_of_error(line):
    """A refusal's name, or an error without what is of the query: numbers, names and values."""
    for pattern, name in REFUSALS:
        if re.search(pattern, line):
            return name
    line = re.sub(r"\b[rtoc]\d+\b", "r", line)
    line = re.sub(r"\d+", "0", line)
    return line[:90]


def is_refusal(kind):
    return any(name == kind for _, name in REFUSALS)


# Where PostgreSQL differs from DuckDB and from us with a reason: a pattern of the query, and the reason.
KNOWN = [
    (r"coalesce\(((?!r\d+\.)[^,])*,.*(GROUPING SETS|ROLLUP|CUBE)", "a constant key within an expression is not NULL in the sets without it"),
]

# Where DuckDB alone judges, and differs with a reason: a pattern of the query and the difference, and the reason.
KNOWN_OF_DUCKDB = [(r"(?s)\b(var|stddev)_\w+\(.*\n.*nan", "the variance of one infinity is 0 in DuckDB, NaN in PostgreSQL")]


def is_known(sql, difference, known=KNOWN):
    """Whether a difference from PostgreSQL has a reason. DuckDB judges such a query alone."""
    return any(re.search(pattern, sql + "\n" + difference) for pattern, _ in known)
