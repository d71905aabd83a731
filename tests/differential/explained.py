"""Differences that have a reason, and errors that are refusals."""

import re

# What a query has in it, what its answers are told apart by, and why: (reason, pattern in the SQL, pattern in the difference).
REASONS = []

# Refusals by name: the beginning of an error, and why.
REFUSALS = []


def reason(sql, difference):
    """Why the answers to a query may differ."""
    for text, in_sql, in_difference in REASONS:
        if re.search(in_sql, sql) and re.search(in_difference, difference):
            return text
    return None


def kind_of_error(line):
    """An error without what is of the query: numbers, names and values."""
    for pattern, name in REFUSALS:
        if re.search(pattern, line):
            return name
    line = re.sub(r"\b[rtoc]\d+\b", "r", line)
    line = re.sub(r"\d+", "0", line)
    return line[:90]


def is_expected_error(kind):
    return any(name == kind for _, name in REFUSALS)
