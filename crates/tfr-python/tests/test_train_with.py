"""The programs of docs/train-with.md run, in a directory with the sets that the page writes."""

from __future__ import annotations

import glob
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tfr_sql as tfr
from conftest import Example, ids, table, write
from tfr_sql._command import find_command

REPOSITORY = Path(__file__).resolve().parents[3]
TEXT = (REPOSITORY / "docs" / "train-with.md").read_text(encoding="utf-8")

#: The programs, by the names in their first lines.
PROGRAMS = {
    block[1]: block[0] for block in re.findall(r"^```python\n(# (\w+)\.py.*?\n.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a directory with the sets of the page."""
    directory = tmp_path_factory.mktemp("train-with")
    (directory / "examples").symlink_to(REPOSITORY / "examples")
    path = os.pathsep.join([str(Path(find_command()).parent), os.environ["PATH"]])
    for commands in re.findall(r"^```sh\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL):
        subprocess.run(["sh", "-ec", commands], check=True, cwd=directory, env={**os.environ, "PATH": path})
    return directory


def need(library: str) -> None:
    """Skips a test without a library. It is not imported here: Keras would need a backend."""
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")


def output(directory: Path, name: str, more: str = "", replaced: dict[str, str] | None = None) -> str:
    """Returns what a program prints, with `more` at its end."""
    code = PROGRAMS[name] + more
    for library in ("torch", "grain", "jax", "keras"):
        if re.search(rf"^(import|from) {library}\b", code, re.MULTILINE):
            need(library)
    for old, new in (replaced or {}).items():
        assert old in code
        code = code.replace(old, new)
    program = directory / f"{name}.py"
    program.write_text(code, encoding="utf-8")
    found = re.match(r"# \w+\.py, for: torchrun (.*)", code)
    arguments = ["-m", "torch.distributed.run", *found[1].split()] if found else [program.name]
    variables = {**os.environ, "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, *arguments], cwd=directory, env=variables, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def error_and_guess(directory: Path, printed: str) -> tuple[float, float]:
    """Returns the mean error that a program prints, and that of the mean fare."""
    found = re.search(r"^mean error of (\d+) fares: ([\d.]+)$", printed, re.MULTILINE)
    assert found is not None, printed
    [val] = tfr.Loader(str(directory / "trips"), split="val", batch_size=10_000)
    fares = 10 * np.asarray(val["fare"])
    assert int(found[1]) == len(fares)
    return float(found[2]), float(np.abs(fares - fares.mean()).mean())


@pytest.mark.parametrize("name", ["ddp", "jax_grain"])
def test_a_program_trains_a_model(directory: Path, name: str) -> None:
    error, guess = error_and_guess(directory, output(directory, name))
    # The fare follows from the distance.
    assert error < guess / 4, (error, guess)


@pytest.mark.parametrize("name", ["keras_fit", "keras_loader"])
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_keras_trains_a_model_without_tensorflow(directory: Path, name: str, backend: str) -> None:
    need(backend)
    # TensorFlow cannot be imported, even if it is installed.
    without = {"import os\n": 'import os, sys\n\nsys.modules["tensorflow"] = None\n'}
    more = "\nprint(keras.backend.backend())\n"
    if name == "keras_fit":
        # In threads, and in processes that are forked, which JAX warns of.
        options = "workers=2" if backend == "jax" else "workers=2, use_multiprocessing=True"
        more += f"assert abs(model.evaluate(Trips('val', 64, {options}), verbose=0)[1] - error) < 1e-4\nprint('ok')\n"
    printed = output(directory, name, more, without | {'"jax"     # or "torch"': f'"{backend}"'})
    assert printed.splitlines()[1:] == ([backend, "ok"] if name == "keras_fit" else [backend])
    error, guess = error_and_guess(directory, printed)
    assert error < guess / 4, (error, guess)


def test_a_sampler_gives_each_rank_its_part(directory: Path) -> None:
    printed = output(directory, "sampler")
    found = re.findall(r"rank (\d), epoch (\d): (\d+) rows, fares of all ranks (\d+)", printed)
    rows = len(tfr.RecordSource(str(directory / "trips"), split="train"))
    assert sorted((rank, epoch, int(count)) for rank, epoch, count, _ in found) == [
        (rank, epoch, rows // 2) for rank in "01" for epoch in "01"
    ]
    train = tfr.Loader(str(directory / "trips"), split="train", batch_size=10_000, columns=["fare"])
    total = sum(10 * float(batch["fare"].sum()) for batch in train)
    # With an odd number of rows, one is left out.
    assert all(abs(int(fares) - total) < 200 for *_, fares in found), (found, total)


def test_a_loader_of_grain_continues_after_a_checkpoint(directory: Path) -> None:
    rows = 2 * len(tfr.RecordSource(str(directory / "trips"), split="train"))
    count = re.fullmatch(r"(\d+) batches after the checkpoint\n", output(directory, "grain_loader"))
    assert count is not None and rows // 64 - 5 <= int(count[1]) <= rows // 64 - 2


def test_torchtitan_reads_a_source(directory: Path) -> None:
    pytest.importorskip("torchtitan.components.data", reason="torchtitan of August 2026 or later is not installed")
    more = """

class Tokenizer:
    bos_id = eos_id = 1

    def encode(self, text, add_bos=False, add_eos=False):
        return [1] * add_bos + list(text.encode()) + [1] * add_eos


def batches():
    return dataloader.build(
        dp_world_size=2, dp_rank=1, tokenizer=Tokenizer(), max_context_length=64, num_tokens_per_batch=256
    )


read = batches()
for _ in range(3):
    next(iter(read))
state = read.state_dict()
expected = [repr(next(iter(read))) for _ in range(4)]
again = batches()
again.load_state_dict(state)
assert [repr(next(iter(again))) for _ in range(4)] == expected and len(set(expected)) == 4
row = texts.source.build(dataset_iteration_policy=None)[0]
print(row["text"])
"""
    printed = output(directory, "titan", more)
    assert printed.startswith("A trip of ")



def test_maxtext_parses_the_records(directory: Path) -> None:
    grain = pytest.importorskip("grain")
    paths = sorted(glob.glob(str(directory / "texts" / "*.array_record")))
    expected = [row["text"] for row in tfr.RecordSource(str(directory / "texts"))]
    found = []
    for record in grain.MapDataset.source(grain.sources.ArrayRecordDataSource(paths)):
        # As MaxText's ParseFeatures and NormalizeFeatures do.
        features = Example.FromString(record).features.feature
        found.append(features["text"].bytes_list.value[0].decode())
    assert found == expected and len(paths) == 8
    count = re.match(r"(\d+) records, the first of \d+ bytes\n", output(directory, "maxtext_source"))
    assert count is not None and int(count[1]) == len(expected)


def test_every_program_is_tested() -> None:
    assert sorted(PROGRAMS) == [
        "ddp", "grain_loader", "jax_grain", "keras_fit", "keras_loader", "maxtext_source", "sampler", "titan"
    ]  # fmt: skip
    assert len(PROGRAMS) == TEXT.count("```python\n")


@pytest.mark.parametrize(("world", "context"), [(1, None), (3, None), (2, "fork"), (2, "spawn")])
def test_distributed_sampler_reads_each_row_once(tmp_path: Path, world: int, context: str | None) -> None:
    torch = pytest.importorskip("torch")
    source = tfr.RecordSource(write(tmp_path / "set", 301, 2, record_format="array_record"), columns=["id", "vector"])
    read: dict[int, list[int]] = {}
    # Processes that are spawned import PyTorch, which takes seconds.
    epochs = [0, 1] if context is None else [0]
    for epoch in epochs:
        for rank in range(world):
            sampler = torch.utils.data.DistributedSampler(source, num_replicas=world, rank=rank, seed=3)
            sampler.set_epoch(epoch)
            workers = 0 if context is None else 2
            loader = torch.utils.data.DataLoader(
                source, batch_size=16, sampler=sampler, num_workers=workers, multiprocessing_context=context
            )
            batches = list(loader)
            assert all(batch["vector"].shape == (len(batch["id"]), 3) for batch in batches)
            read.setdefault(epoch, []).extend(ids(batches))
        # The sampler repeats rows so that ranks are equal.
        assert sorted(set(read[epoch])) == list(range(301)) and len(read[epoch]) == -(-301 // world) * world
    assert len(epochs) == 1 or read[0] != read[1]


@pytest.mark.parametrize("workers", [0, 2])
def test_loader_of_grain_reads_each_row_once(tmp_path: Path, workers: int) -> None:
    pytest.importorskip("grain")
    # Of a number that the shards do not divide, grain leaves rows out.
    write(tmp_path / "set", 300, 2)
    program = f"""
import grain
from absl import app
from tfr_sql.jax import TFRecordSource

def main(_):
    source = TFRecordSource({str(tmp_path / "set")!r}, columns=["id"])
    read = []
    for index in range(2):
        shards = grain.sharding.ShardOptions(index, 2)
        sampler = grain.samplers.IndexSampler(len(source), shard_options=shards, shuffle=True, seed=1, num_epochs=1)
        loader = grain.DataLoader(data_source=source, sampler=sampler, worker_count={workers})
        read += [int(row["id"]) for row in loader]
    print(sorted(read) == list(range(300)), read != sorted(read))

if __name__ == "__main__":
    app.run(main)
"""
    script = tmp_path / "read.py"
    script.write_text(program, encoding="utf-8")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert done.stdout == "True True\n", done.stderr[-4000:]
