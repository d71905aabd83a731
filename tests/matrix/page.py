"""Prints docs/functions.md from the marks, and compares it."""

import os

import marks

PAGE = os.path.join(marks.HERE, "..", "..", "docs", "functions.md")
KNOWN = os.path.join(marks.HERE, "..", "..", "crates", "tfr-engine", "src", "known_functions.txt")

BEGIN, END = "<!-- functions -->\n", "<!-- end -->\n"

TITLES = {"scalar": "Functions", "operator": "Operators", "cast": "Casts", "aggregate": "Aggregates", "window": "Window functions"}

UNIONS = "the value of a member of an Arrow union, or the name of the member; no judge has unions as columns"

NAMES = {"postgresql": "PostgreSQL", "duckdb": "DuckDB", "own": "own rule", "refused": "refused", "open": "open"}


def cell(text):
    return text.replace("|", "\\|").replace("\n", " ")


def code(text):
    return f"`{cell(text)}`" if text else ""


def call_text(text):
    """A call with letters in the place of its arguments."""
    return marks.insert(text, ["x", "y", "z", "w"])


def types_text(tuples):
    """Tuples of types that differ in one place only are one."""
    shown = []
    for types in tuples:
        text = ", ".join(dict.fromkeys([", ".join(name.split(":")[0] for name in types)]))
        if text not in shown:
            shown.append(text)
    return "; ".join(f"({text})" if "," in text else text for text in shown)


def tables(calls, found, functions, rules):
    by_call = {}
    for (text, types), (signature, mark) in found.items():
        by_call.setdefault(text, []).append((signature, mark))
    counts = {}
    for _, mark in found.values():
        counts[NAMES[mark.name]] = counts.get(NAMES[mark.name], 0) + 1
    lines = ["| mark | signatures |", "|---|---|"]
    lines += [f"| {name} | {counts.get(name, 0)} |" for name in ("PostgreSQL", "DuckDB", "own rule", "refused")]
    for kind, title in TITLES.items():
        lines += ["", f"### {title}", "", "| call | mark | arguments |", "|---|---|---|"]
        for call in calls:
            if call.kind != kind or call.internal:
                continue
            if call.refused:
                lines.append(f"| {code(call.text)} | refused | |")
                continue
            if call.of_unions:
                lines.append(f"| {code(call.text)} | own rule: {UNIONS} | a union |")
                continue
            of_mark = {}
            for signature, mark in by_call.get(call.text, []):
                rule = rules.of(signature, mark.digest == "duckdb") if mark.name == "own" else None
                name = NAMES[mark.name]
                if mark.distance:
                    name += f", to {mark.distance} ulp"
                of_mark.setdefault((name, rule), []).append(signature.types)
            for (name, rule), tuples in of_mark.items():
                mark = f"own rule: {rule}" if rule else name
                lines.append(f"| {code(call_text(call.text))} | {cell(mark)} | {types_text(tuples)} |")
    lines += ["", "### Other names", "", "| function | other names |", "|---|---|"]
    refused = {call.function for call in calls if call.refused or call.internal}
    others = {name: aliases for names in functions.values() for name, aliases in names.items() if aliases and name not in refused}
    lines += [f"| {code(name)} | {', '.join(code(alias) for alias in aliases)} |" for name, aliases in sorted(others.items())]
    return "\n".join(lines) + "\n"


def check(calls, found, functions, rules):
    """What is wrong with the page and the list of known functions; UPDATE_PAGES and UPDATE_MATRIX write them."""
    wrong = []
    with open(PAGE, encoding="utf-8") as file:
        before, rest = file.read().split(BEGIN)
    printed, after = rest.split(END)
    table = tables(calls, found, functions, rules)
    if os.environ.get("UPDATE_PAGES") == "1":
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(before + BEGIN + table + END + after)
    elif printed != table:
        wrong.append("docs/functions.md is not what UPDATE_PAGES=1 prints")
    names = sorted({(call.kind, call.function) for call in calls if call.kind in functions and not call.refused and not call.internal})
    known = "".join(f"{kind} {name}\n" for kind, name in names)
    if os.environ.get("UPDATE_MATRIX") == "1":
        with open(KNOWN, "w", encoding="utf-8") as file:
            file.write(known)
    else:
        with open(KNOWN, encoding="utf-8") as file:
            if file.read() != known:
                wrong.append("crates/tfr-engine/src/known_functions.txt is not what UPDATE_MATRIX=1 writes: the test must be built again then")
    return wrong
