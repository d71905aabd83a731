#!/usr/bin/env python3
"""Draws what `run.py growth` measured: chart.py FIGURES.json CHART.svg"""

import json
import pathlib
import sys

WIDTH, HEIGHT, LEFT, TOP, GAP = 200, 150, 44, 34, 56
BAR = 36


def panels(rows):
    """By axis, its sizes with CPU seconds a GB of shards, all and those outside the kernel, and peak MiB."""
    points = {}
    for row in rows:
        if "axis" in row:
            point = (row["size"], row["cpu"] * 1e9 / row["bytes"], row["user"] * 1e9 / row["bytes"], row["rss"])
            points.setdefault(row["axis"], []).append(point)
    return points


def panel(axis, points, most, left):
    bottom = TOP + HEIGHT
    yield f'<text x="{left + WIDTH / 2}" y="{TOP - 14}" class="title">{axis}</text>'
    yield f'<path d="M{left} {bottom}h{WIDTH}" class="axis"/>'
    step = WIDTH / len(points)
    for index, (size, cost, user, rss) in enumerate(points):
        middle, height = left + step * (index + 0.5), HEIGHT * cost / most
        for kind, part in (("kernel", height), ("ours", HEIGHT * user / most)):
            place = f'x="{middle - BAR / 2:.1f}" y="{bottom - part:.1f}" width="{BAR}" height="{part:.1f}"'
            yield f'<rect {place} class="{kind}"/>'
        yield f'<text x="{middle:.1f}" y="{bottom - HEIGHT * user / most + 14:.1f}" class="inside">{user:.2f}</text>'
        yield f'<text x="{middle:.1f}" y="{bottom - height - 5:.1f}">{cost:.2f}</text>'
        yield f'<text x="{middle:.1f}" y="{bottom + 16}">{size}</text>'
        yield f'<text x="{middle:.1f}" y="{bottom + 32}" class="small">{rss:.0f} MiB</text>'


def chart(rows):
    points = panels(rows)
    most = max(cost for of_axis in points.values() for _, cost, *_ in of_axis)
    width, height = LEFT + len(points) * (WIDTH + GAP), TOP + HEIGHT + 62
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">'
    yield "<style>text{font-size:12px;text-anchor:middle;fill:#333}.title{font-weight:bold}.small{font-size:10px;fill:#777}"
    yield ".inside{fill:#fff}.ours{fill:#4878a8}.kernel{fill:#b8cce0}.axis{stroke:#999;fill:none}</style>"
    yield f'<rect width="{width}" height="{height}" style="fill:#fff"/>'
    for index, (axis, of_axis) in enumerate(points.items()):
        yield from panel(axis, of_axis, most, LEFT + index * (WIDTH + GAP))
    caption = "CPU seconds a GB of shards, light: the kernel's; below each, its size and peak memory"
    yield f'<text x="{width / 2}" y="{height - 10}">{caption}</text>'
    yield "</svg>"


if __name__ == "__main__":
    figures, out = map(pathlib.Path, sys.argv[1:])
    out.write_text("\n".join(chart(json.loads(figures.read_text()))) + "\n")
