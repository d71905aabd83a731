"""Prints what the command and the Python module are built from, as a CycloneDX document: sbom.py TRIPLE."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def packages(triple: str) -> list[tuple[str, str, str]]:
    """Name, version and licence of each package that is linked."""
    tree = ["cargo", "tree", "--quiet", "--locked", "-p", "tfr-sql", "-p", "tfr-python", "--target", triple]
    # No licence contains a tab.
    shape = ["-e", "normal", "--prefix", "none", "--format", "{p}\t{l}\t"]
    lines = subprocess.run([*tree, *shape], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    found = set()
    for package, licence, _ in (line.split("\t") for line in lines if line):
        # Behind the version stands where a package of ours is.
        name, version = package.split()[:2]
        found.add((name, version.removeprefix("v"), licence))
    return sorted(found)


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


if __name__ == "__main__":
    main(*sys.argv[1:])
