"""Asks every signature of this project's SQL over edge values, and compares with PostgreSQL and DuckDB.

    matrix.py DIRECTORY

Runs under the test `matrix`, which answers requests: a JSON object a line on standard output, the answer a line on standard
input. Everything else goes to standard error. The exit code is 1 if a function has no call in `calls.tsv`, or if a signature is
not as `signatures.tsv` has it. `MATRIX=all` evaluates all signatures, not a sample. `UPDATE_MATRIX=1` writes that file in place of comparing it; a signature with the mark `open` still
fails. `MATRIX_REPORT=FILE` gets the answers to every signature that is open or whose mark does not fit.
"""

import collections
import os
import re
import sys
import time
import zlib

import asking
import judges
import marks
import page
import typed

# How far doubles may differ, in floating point numbers between them: the least that fits is part of the mark.
DISTANCES = (0, 1, 2, 4, 16)


def say(text):
    print(text, file=sys.stderr, flush=True)


# Types that PostgreSQL has only wider: DuckDB decides where they overflow.
NARROW = {"int8", "uint8", "uint32", "uint64"}


class Judged:
    """What a judge says of a signature."""

    def __init__(self, judge, signature, answers):
        self.answers, self.distance, self.differing = None, None, []
        spelling = signature.call.spelling(judge.name)
        if spelling is None:
            return
        try:
            self.answers = judges.ask(judge, signature.table.name, signature.types, signature.table, spelling, signature.table.queries(signature.call.kind))
        except judges.Refused:
            return
        if signature.call.function == "TRY_CAST":
            # PostgreSQL has only CAST, which fails where this is NULL.
            self.answers = {number: None if value == typed.ERROR else value for number, value in self.answers.items()}
        if signature.call.kind in ("aggregate", "window"):
            answers = {number: typed.unsigned_zeros(value) for number, value in answers.items()}
            self.answers = {number: typed.unsigned_zeros(value) for number, value in self.answers.items()}
        self.differing = [number for number, value in answers.items() if not typed.same(self.answers.get(number), value)]
        for distance in DISTANCES:
            if all(typed.same(self.answers.get(number), answers[number], distance) for number in self.differing):
                self.distance = distance
                break

    def agrees(self):
        return self.distance is not None


def decide(signature, ours, literals, engines, rules, before):
    """The mark of a signature, the answers of the judges that were asked, and the rule. `before` saves questions."""
    asked = {}
    rule = rules.of(signature)
    if before and before.name == "own" and rule:
        if before.digest == typed.digest(ours):
            return before, asked, rule
        if before.digest == "duckdb" and not literals and Judged(engines[1], signature, ours).distance == before.distance:
            return before, asked, rule
    if before and before.name == "duckdb" and not literals and Judged(engines[1], signature, ours).distance == before.distance:
        return before, asked, None
    if refuses(signature, ours):
        return marks.Mark("refused"), asked, None
    if literals:
        rule = rules.of(signature, False)
        return (marks.Mark("own", digest=typed.digest(ours)) if rule else marks.Mark("open")), asked, rule
    for judge in engines:
        asked[judge.name] = judged = Judged(judge, signature, ours)
        if judged.agrees():
            return marks.Mark(judge.name, judged.distance), asked, None
        if judged.answers is not None and judge.name == "postgresql" and not NARROW.intersection(signature.types):
            # Where PostgreSQL has an answer, that of DuckDB is only reported.
            asked["duckdb"] = Judged(engines[1], signature, ours)
            break
    confirmed = asked.get("duckdb")
    if rule and confirmed and confirmed.agrees():
        return marks.Mark("own", confirmed.distance, "duckdb"), asked, rule
    rule = rules.of(signature, False)
    if rule:
        return marks.Mark("own", digest=typed.digest(ours)), asked, rule
    return marks.Mark("open"), asked, None


def refuses(signature, ours):
    """Whether each row is an error, but for those with a NULL."""
    table = signature.table
    if typed.ERROR not in ours.values():
        return False
    return all(value == typed.ERROR or value is None and (table.grouped or None in table.rows[number][1]) for number, value in ours.items())


def example(signature, ours, literals, asked):
    """The rows of a signature whose answers differ."""
    lines = [f"{signature}"]
    for number, value in literals.items():
        lines.append(f"    {signature.table.arguments(number)}: literals {typed.shown(value)}, columns {typed.shown(ours[number])}")
    for name, judged in asked.items():
        if judged.answers is None:
            lines.append(f"    {name}: has none")
        elif judged.agrees():
            lines.append(f"    {name}: the same")
        else:
            lines.append(f"    {name}: {len(judged.differing)} of {len(ours)} rows differ")
            for number in judged.differing[:5]:
                lines.append(f"        {signature.table.arguments(number)}: {typed.shown(ours[number])} instead of {typed.shown(judged.answers.get(number))}")
    if not any(judged.answers is not None for judged in asked.values()):
        for number in list(ours)[:8]:
            lines.append(f"        {signature.table.arguments(number)}: {typed.shown(ours[number])}")
    return "\n".join(lines)


def sample(signatures, recorded):
    """Returns one signature of each call, those that are not recorded, and a third of the others, by their texts."""
    chosen, calls = [], set()
    for signature in signatures:
        is_first = signature.call.text not in calls
        calls.add(signature.call.text)
        if is_first or signature.key not in recorded or zlib.crc32(repr(signature.key).encode()) % 3 == 0:
            chosen.append(signature)
    return chosen


def main():
    began = time.monotonic()
    process = asking.Process(sys.argv[1])
    only = re.compile(os.environ.get("MATRIX_ONLY", ""))
    calls = [call for call in marks.read_calls() if only.search(call.text)]
    rules, recorded = marks.Rules(), marks.read_signatures()
    updating = os.environ.get("UPDATE_MATRIX") == "1"
    failures, report = [], []

    functions = process.functions()
    known = {(call.kind, call.function) for call in marks.read_calls()}
    for kind, names in functions.items():
        failures += [f"no call of the {kind} function {name} in calls.tsv" for name in names if (kind, name) not in known]

    signatures, refused = asking.accepted(process, calls)
    say(f"{len(signatures)} signatures of {len(calls)} calls are accepted ({time.monotonic() - began:.0f} s)")
    found = {signature.key: (signature, recorded[signature.key]) for signature in signatures if signature.key in recorded}
    if not updating and not only.pattern and os.environ.get("MATRIX") != "all":
        signatures = sample(signatures, recorded)
        say(f"{len(signatures)} are asked; MATRIX=all asks all of them")
    answers = asking.answers(process, signatures)
    say(f"answered ({time.monotonic() - began:.0f} s)")
    literals = asking.literals(process, signatures, answers)
    say(f"asked with literals ({time.monotonic() - began:.0f} s)")

    postgresql, duckdb = judges.PostgreSQL(os.path.join(sys.argv[1], "postgresql")), judges.DuckDB()
    for signature in signatures:
        before = recorded.get(signature.key)
        mark, asked, _ = decide(signature, answers[signature], literals[signature], (postgresql, duckdb), rules, None if updating else before)
        found[signature.key] = (signature, mark)
        if mark.name == "open" or (not updating and before != mark):
            text = example(signature, answers[signature], literals[signature], asked)
            report.append(f"{mark} (recorded: {before})\n{text}")
            failures.append(f"{signature}: {mark}, recorded as {before}")
    for call, types, message in refused:
        found[(call.text, types)] = (asking.Signature(call, types, None), marks.Mark("refused"))
        if not updating and recorded.get((call.text, types)) != marks.Mark("refused"):
            failures.append(f"{call.text} of {', '.join(types)} is refused: {message}")
            report.append(f"refused {call.text} of {', '.join(types)}: {message}")
    if not only.pattern:
        if updating:
            marks.write_signatures(calls, found)
        failures += [f"{call} of {', '.join(types)} is accepted no more" for call, types in recorded if (call, types) not in found and not updating]
        failures += page.check(calls, found, functions, rules)
    counts = collections.Counter(mark.name for _, mark in found.values())
    say(", ".join(f"{count} {name}" for name, count in counts.most_common()) + f" ({time.monotonic() - began:.0f} s)")
    if "MATRIX_REPORT" in os.environ:
        with open(os.environ["MATRIX_REPORT"], "w") as file:
            file.write("\n".join(report) + "\n")
    for failure in failures[:200]:
        say(failure)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
