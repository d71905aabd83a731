"""The program of `examples/python`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("pandas")

EXAMPLE = Path(__file__).parents[3] / "examples" / "python" / "train.py"


def test_a_model_is_trained_without_tensorflow(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(EXAMPLE), str(tmp_path / "trips")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{tmp_path}/trips: 2,000 rows in 5 shards")
    found = re.search(r"mean error of (\d+) fares: ([\d.]+), of a constant guess: ([\d.]+)", done.stdout)
    assert found is not None, done.stdout
    count, error, guess = int(found[1]), float(found[2]), float(found[3])
    # About a fifth of the trips, and the fare follows from the distance.
    assert 300 < count < 500 and error < guess / 5, done.stdout
