"""Prints the licence texts of everything that is linked into the command and the Python module: licences.py TRIPLE.

Each text is printed once, below the packages that contain it. A package without a text has its licence's name and its authors.
"""

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from sbom import ROOT, packages

NAMES = ("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE")
RULE = "=" * 100


def texts(directory: Path, names: tuple[str, ...] = NAMES) -> list[str]:
    """The licence texts of a package, also those of the C sources in it."""
    found = sorted(path for path in directory.rglob("*") if path.name.upper().startswith(names) and path.is_file())
    return [text for path in found if (text := path.read_text(errors="replace").strip())]


def main(triple: str) -> None:
    metadata = ["cargo", "metadata", "--quiet", "--locked", "--format-version", "1", "--filter-platform", triple]
    known = json.loads(subprocess.run(metadata, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)["packages"]
    described = {(package["name"], package["version"]): package for package in known}
    users: dict[str, list[str]] = defaultdict(list)
    for name, version, licence in packages(triple):
        package = described[name, version]
        if not package["source"]:
            continue
        directory = Path(package["manifest_path"]).parent
        stated = texts(directory)
        if not stated and not licence:
            sys.exit(f"{name} {version} has neither a licence text nor the name of a licence")
        by = f" by {', '.join(package['authors'])}" if package["authors"] else ""
        for text in stated or [f"The package contains no licence text. Its licence is {licence}."]:
            users[text].append(f"{name} {version}{by}" if not stated else f"{name} {version}")
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    for text in texts(Path(sysroot) / "share/doc/rust", ("COPYRIGHT-LIBRARY",)):
        users[text].append("the standard library of Rust")
    print("tfr-sql contains the packages below, under these licences. Its own licence is in LICENSE.")
    for text, of in sorted(users.items(), key=lambda user: user[1]):
        print(f"\n{RULE}\n{', '.join(dict.fromkeys(of))}\n{RULE}\n\n{text}")


main(*sys.argv[1:])
