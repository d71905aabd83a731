"""Prints what the command and the Python module are built from, as a CycloneDX document: sbom.py TRIPLE."""

import json
import subprocess
import sys
from pathlib import Path

#: What separates the fields of a line of `cargo tree`; no licence expression contains it.
SEPARATOR = "\t"


def packages(triple: str) -> list[list[str]]:
    """Name, version and licence of each package that is linked."""
    tree = subprocess.run(
        ["cargo", "tree", "--quiet", "--locked", "-p", "tfr-sql", "-p", "tfr-python", "--target", triple, "-e", "normal",
         "--prefix", "none", "--format", SEPARATOR.join(["{p}", "{l}", ""])],
        cwd=Path(__file__).resolve().parent.parent, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    lines = {line.split(SEPARATOR)[0].split(" (")[0] + SEPARATOR + line.split(SEPARATOR)[1]
             for line in tree.stdout.splitlines() if line.strip()}  # fmt: skip
    return [[*line.split(SEPARATOR)[0].split(" v"), line.split(SEPARATOR)[1]] for line in sorted(lines)]


def component(name: str, version: str, licence: str) -> dict[str, object]:
    licences = {"licenses": [{"expression": licence.replace("/", " OR ")}]} if licence else {}
    return {"type": "library", "name": name, "version": version, "purl": f"pkg:cargo/{name}@{version}"} | licences


def main(triple: str) -> None:
    # The tools themselves are what the document describes, not what it lists.
    ours = {"tfr-sql", "tfr-python"}
    found = packages(triple)
    version = next(version for name, version, _ in found if name == "tfr-sql")
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "tfr-sql", "version": version}},
        "components": [component(*package) for package in found if package[0] not in ours],
    }
    json.dump(document, sys.stdout, indent=1)
    print()


main(*sys.argv[1:])
