"""Writes data sets as Hugging Face's `datasets` leaves them: make.py DIR. Made with datasets 5.2.0.

`saved` and `splits` are those of `save_to_disk`, `cache` that of `load_dataset`. Each has a file of a derived data set, which is not
read.
"""

import shutil
import sys
import tempfile
from pathlib import Path

import datasets
import numpy as np
from datasets import ClassLabel, Dataset, DatasetDict, Features, Image, Sequence, Value

FEATURES = Features({
    "id": Value("int64"),
    "label": ClassLabel(names=["cat", "dog", "bird"]),
    "labels": Sequence(ClassLabel(names=["small", "large"])),
    "image": Image(),
})


def rows(ids):
    image = [np.full((2, 2, 3), number, np.uint8) for number in ids]
    labels = [[number % 2] * (number % 3) for number in ids]
    return Dataset.from_dict(
        {"id": ids, "label": [number % 3 for number in ids], "labels": labels, "image": image}, features=FEATURES
    )


def main(directory: Path):
    rows([0, 1, 2, 3, 4]).save_to_disk(directory / "saved", num_shards=2)
    DatasetDict({"train": rows([1, 2, 3]), "test": rows([7])}).save_to_disk(directory / "splits")
    for place in ["saved", "splits/train"]:
        datasets.load_from_disk(directory / place).map(lambda row: {"id": row["id"] + 1000})
    with tempfile.TemporaryDirectory() as scratch:
        for name, text in [("train", "id\n1\n2\n"), ("test", "id\n3\n")]:
            Path(scratch, f"{name}.csv").write_text(text)
        files = {name: f"{scratch}/{name}.csv" for name in ["train", "test"]}
        loaded = datasets.load_dataset("csv", data_files=files, cache_dir=f"{scratch}/cache")
        loaded["train"].map(lambda row: {"id": row["id"] + 1000})
        [found] = Path(scratch, "cache").glob("csv/*/*/*/")
        shutil.copytree(found, directory / "cache")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
