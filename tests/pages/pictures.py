#!/usr/bin/env python3
"""Makes the pictures of the guide from real runs: pictures.py TFR_SQL, with the packages pyte and pillow, and a Chromium."""

import fcntl
import html
import os
import pathlib
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios

import pyte
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs" / "pictures"

#: The text that is shown of a command, and the arguments of the run.
DRY_RUN = ["SELECT * FROM 'rides.csv'", "--out", "rides/", "--dry-run"]
SHUFFLE = ["SELECT * FROM 'events/'", "--out", "train/", "--shuffle", "--shards", "16"]
RIDES = "SELECT trip_id AS ride_id, city, distance_km, passengers, fare FROM 'examples/data/trips.parquet'"
SET = """SELECT ride_id, city, CAST(distance_km AS REAL) AS distance_km, coalesce(passengers, 1) AS passengers,
         CAST(fare AS REAL) AS fare FROM 'rides.csv'"""
EVENTS = """SELECT trip_id * 400 + n.value AS event_id, city, CAST(distance_km AS REAL) AS distance_km, passengers, zone_id
            FROM 'examples/data/trips.parquet' CROSS JOIN generate_series(1, 400) AS n(value)"""


def screen(program, arguments, directory, columns, lines, until=None):
    """Runs a command in a terminal, and returns the terminal's screen at its end, or when it shows `until`."""
    terminal = pyte.Screen(columns, lines)
    stream = pyte.ByteStream(terminal)
    process, descriptor = pty.fork()
    if process == 0:
        os.chdir(directory)
        os.environ["TERM"] = "xterm-256color"
        os.execv(program, ["tfr-sql", *arguments])
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    while True:
        try:
            output = os.read(descriptor, 512)
        except OSError:
            break
        if not output:
            break
        stream.feed(output)
        if until is not None and any(re.search(until, line) for line in terminal.display):
            break
    os.close(descriptor)
    os.waitpid(process, 0)
    return terminal


COLOURS = {"default": "#d8dee9", "brown": "#ebcb8b", "yellow": "#ebcb8b", "red": "#e06c75", "green": "#a3be8c"}
COLOURS |= {"cyan": "#88c0d0", "blue": "#81a1c1", "magenta": "#b48ead"}
WIDTH, HEIGHT, MARGIN = 8.0, 20, 14


def parts(row, columns):
    """The texts of a row between two or more blanks, each with its column, its colour and whether it is bold."""
    cells = [row[column] for column in range(columns)]
    start = 0
    for column in range(1, columns + 1):
        style = (cells[start].fg, cells[start].bold)
        gap = column + 1 < columns and cells[column].data == cells[column + 1].data == " "
        after_gap = column < columns and cells[column].data != " " and cells[column - 1].data == " " and column - start > 1
        after_gap = after_gap and cells[column - 2].data == " "
        if column == columns or (cells[column].fg, cells[column].bold) != style or gap or after_gap:
            text = "".join(cell.data for cell in cells[start:column])
            if text.strip():
                blanks = len(text) - len(text.lstrip())
                yield start + blanks, text.strip(), *style
            start = column


def draw(name, terminal, prompt):
    """Writes a screen as SVG, below the command."""
    rows = [index for index, line in enumerate(terminal.display) if line.strip()]
    height = MARGIN * 2 + HEIGHT * (max(rows) + 2)
    width = MARGIN * 2 + WIDTH * max(len(prompt), *(len(line.rstrip()) for line in terminal.display))
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}">',
        "<style>text { font: 13.3px 'DejaVu Sans Mono', Menlo, Consolas, monospace; white-space: pre }</style>",
        f'<rect width="{width:.0f}" height="{height}" rx="6" fill="#2b303b"/>',
    ]

    def text(line, column, content, colour, bold):
        x, y = MARGIN + WIDTH * column, MARGIN + HEIGHT * line + 14
        weight = ' font-weight="bold"' if bold else ""
        length = f' textLength="{WIDTH * len(content):.0f}" lengthAdjust="spacingAndGlyphs"'
        out.append(f'<text x="{x:.0f}" y="{y}" fill="{colour}"{weight}{length}>{html.escape(content)}</text>')

    text(0, 0, prompt, "#a3be8c", False)
    for index in range(max(rows) + 1):
        for column, content, colour, bold in parts(terminal.buffer[index], terminal.columns):
            text(index + 1, column, content, COLOURS.get(colour, COLOURS["default"]), bold)
    out.append("</svg>")
    (PICTURES / name).write_text("\n".join(out) + "\n", encoding="utf-8")


def shown(arguments):
    return "$ tfr-sql " + " ".join(f'"{part}"' if " " in part else part for part in arguments)


def main():
    program = os.path.abspath(sys.argv[1])
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        (directory / "examples").symlink_to(ROOT / "examples")

        def run(*arguments):
            subprocess.run([program, *arguments], cwd=directory, check=True, stderr=subprocess.DEVNULL)

        run(RIDES, "--out", "rides.csv")
        draw("dry-run.svg", screen(program, DRY_RUN, directory, 110, 24), shown(DRY_RUN))
        run(EVENTS, "--out", "events/1.csv")
        draw("progress.svg", screen(program, SHUFFLE, directory, 84, 6, until=r" [56]\d % of the input"), shown(SHUFFLE))

        run(SET, "--out", "rides/", "--shuffle", "--seed", "7")
        run("stats", "rides/", "--html", "rides.html")
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1060,740"]
        page = (directory / "rides.html").as_uri()
        subprocess.run([browser, *options, f"--screenshot={directory / 'stats.png'}", page], check=True)
        picture = Image.open(directory / "stats.png").convert("RGB")
        picture.quantize(32).save(PICTURES / "stats.png", optimize=True)


if __name__ == "__main__":
    main()
