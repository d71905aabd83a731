"""Puts the package, the native module and the command into one wheel: wheel.py MODULE COMMAND PLATFORM OUT.

PLATFORM is a platform tag, such as manylinux2014_x86_64. maturin would build the module alone, with other features than
the command has, and so compile the Arrow crates twice; here, cargo builds both at once. The same files give the same
bytes: entries are sorted, and their time is SOURCE_DATE_EPOCH. SBOM and LICENCES, if
set, are paths of files that say what is in the binaries.
"""

import base64
import hashlib
import os
import struct
import sys
import time
import tomllib
import zipfile
from pathlib import Path

import deflate
from pyproject_metadata import StandardMetadata

CRATE = Path(__file__).resolve().parent
ROOT = CRATE.parent.parent
#: The module uses the stable interface of CPython, from this version on (the feature of pyo3 in Cargo.toml).
PYTHON = "cp310-abi3"


def metadata() -> StandardMetadata:
    pyproject = tomllib.loads((CRATE / "pyproject.toml").read_text())
    project = pyproject["project"]
    project["version"] = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    project["dynamic"].remove("version")
    return StandardMetadata.from_pyproject(pyproject, CRATE)


def files(module: Path, command: Path, platform: str) -> tuple[str, dict[str, bytes]]:
    """The name of the wheel, and its files but for RECORD."""
    project = metadata()
    name = f"{project.name.replace('-', '_')}-{project.version}"
    package = {
        f"tfr_sql/{path.relative_to(CRATE / 'python/tfr_sql')}": path.read_bytes()
        for path in (CRATE / "python/tfr_sql").rglob("*")
        if path.suffix in {".py", ".pyi", ".typed"}
    }
    wheel = f"Wheel-Version: 1.0\nGenerator: tfr-sql\nRoot-Is-Purelib: false\nTag: {PYTHON}-{platform}\n"
    about = {
        "METADATA": str(project.as_rfc822()).encode(),
        "WHEEL": wheel.encode(),
        "licenses/LICENSE": (ROOT / "LICENSE").read_bytes(),
    }
    for variable, entry in {"SBOM": "sboms/tfr-sql.cdx.json", "LICENCES": "licenses/THIRD-PARTY-LICENCES.txt"}.items():
        if path := os.environ.get(variable):
            about[entry] = Path(path).read_bytes()
    binaries = {"tfr_sql/_native.abi3.so": module.read_bytes(), f"{name}.data/scripts/tfr-sql": command.read_bytes()}
    dist_info = {f"{name}.dist-info/{entry}": content for entry, content in about.items()}
    return f"{name}-{PYTHON}-{platform}.whl", package | binaries | dist_info


def record(contents: dict[str, bytes], dist_info: str) -> bytes:
    """The list of files with checksums that pip compares."""
    def line(name: str, content: bytes) -> str:
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        return f"{name},sha256={digest},{len(content)}\n"

    return ("".join(line(*entry) for entry in sorted(contents.items())) + f"{dist_info}/RECORD,,\n").encode()


def zipped(entries: list[tuple[str, bytes]], when: tuple[int, ...]) -> bytes:
    """A zip file of entries, by libdeflate: its best level makes 3 % less than that of zlib, in half the time.

    `zipfile` takes no other compressor. The layout is that of PKWARE's APPNOTE, 4.3; what is written is read back by `zipfile`.
    """
    year, month, day, hour, minute, second = when
    stamp = struct.pack("<HH", hour << 11 | minute << 5 | second // 2, (year - 1980) << 9 | month << 5 | day)
    version, unix, flags, deflated = 20, 3 << 8, 0, 8
    files, directory = bytearray(), bytearray()
    for name, content in entries:
        packed = bytes(deflate.deflate_compress(content, 12))
        encoded = name.encode("ascii")
        sizes = struct.pack("<IIIHH", deflate.crc32(content), len(packed), len(content), len(encoded), 0)
        both = struct.pack("<HHH", version, flags, deflated) + stamp + sizes
        mode = 0o100755 if name.endswith((".so", "/scripts/tfr-sql")) else 0o100644
        about = struct.pack("<HHHII", 0, 0, 0, mode << 16, len(files))
        directory += b"PK\1\2" + struct.pack("<H", unix | version) + both + about + encoded
        files += b"PK\3\4" + both + encoded + packed
    end = struct.pack("<HHHHIIH", 0, 0, len(entries), len(entries), len(directory), len(files), 0)
    return bytes(files + directory) + b"PK\5\6" + end


def main(module: str, command: str, platform: str, out: str) -> None:
    name, contents = files(Path(module), Path(command), platform)
    dist_info = "-".join(name.split("-")[:2]) + ".dist-info"
    # A zip file has no earlier times than 1980. RECORD is the last entry, as the format recommends for dist-info.
    when = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), 315_532_800))[:6]
    ordered = sorted(contents.items(), key=lambda entry: (".dist-info/" in entry[0], entry[0]))
    entries = [*ordered, (f"{dist_info}/RECORD", record(contents, dist_info))]
    Path(out).mkdir(parents=True, exist_ok=True)
    path = Path(out) / name
    path.write_bytes(zipped(entries, when))
    with zipfile.ZipFile(path) as archive:
        if (damaged := archive.testzip()) or archive.namelist() != [entry for entry, _ in entries]:
            sys.exit(f"{path}: not the files that were packed: {damaged}")
    print(path)


main(*sys.argv[1:])
