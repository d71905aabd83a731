"""Writes data sets with TensorFlow Datasets, and what it reads from them as JSON lines: make.py DIR.

Images are their encoded bytes, and bytes are in hexadecimal. Made with tensorflow-datasets 4.9.10.
"""

import json
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

F = tfds.features
LABELS = ["cat", "dog", "eel"]


def image(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 255, (3, 4, 3), dtype=np.uint8)


class Seeded(tfds.core.GeneratorBasedBuilder):
    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        return tfds.core.DatasetInfo(builder=self, features=F.FeaturesDict(self.features()))

    def _split_generators(self, _):
        return {name: self._generate_examples(rows) for name, rows in self.splits_of_rows().items()}

    def _generate_examples(self, rows):
        yield from ((row, self.example(row, np.random.default_rng(row))) for row in rows)


class Kinds(Seeded):
    """Every class of features."""

    def splits_of_rows(self):
        return {"train": range(7), "test": range(100, 103)}

    def features(self):
        return {
            "text": F.Text(), "label": F.ClassLabel(names=LABELS), "flag": np.bool_,
            "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
            "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
            "f16": np.float16, "f32": np.float32, "f64": np.float64, "raw": F.Tensor(shape=(), dtype=np.str_),
            "vector": F.Tensor(shape=(3,), dtype=np.float32), "matrix": F.Tensor(shape=(2, 3), dtype=np.int16),
            "points": F.Tensor(shape=(None, 2), dtype=np.float32), "list": F.Tensor(shape=(None,), dtype=np.int64),
            "words": F.Sequence(F.Text()), "labels": F.Sequence(F.ClassLabel(names=LABELS)),
            "image": F.Image(shape=(None, None, 3), encoding_format="png"), "box": F.BBoxFeature(), "audio": F.Audio(),
            "video": F.Video(shape=(None, 3, 4, 3)), "translation": F.Translation(["en", "de"]),
            "nested": {"a": np.int32, "b": {"c": F.Text(), "d": F.Tensor(shape=(2,), dtype=np.float32)}},
            "objects": F.Sequence({"id": np.int64, "box": F.BBoxFeature(), "name": F.Text()}),
            "ragged": F.Sequence(F.Sequence(np.int32)), "pair": F.Sequence(np.int64, length=2),
            "deep": F.Sequence({"tags": F.Sequence(F.Text()), "n": np.int32}),
            "packed": F.Tensor(shape=(2, 2), dtype=np.float32, encoding="zlib"),
            "free": F.Tensor(shape=(None, None), dtype=np.float32, encoding="bytes"),
        }

    def example(self, row, random):
        count = row % 4
        return {
            "text": f"text {row} é", "label": LABELS[row % 3], "flag": row % 2 == 0,
            "i8": -row, "i16": -300 * row, "i32": -100_000 * row, "i64": 2**62 + row,
            "u8": 200 + row % 50, "u16": 60_000 + row, "u32": 2**32 - 1 - row, "u64": 2**40 + row,
            "f16": np.float16(row + 0.5), "f32": np.float32(row / 3), "f64": np.float64(np.float32(row / 7)),
            "raw": b"\xff\x00" + bytes([row]),
            "vector": random.random(3, dtype=np.float32), "matrix": random.integers(-9, 9, (2, 3), dtype=np.int16),
            "points": random.random((count, 2), dtype=np.float32), "list": np.arange(count, dtype=np.int64),
            "words": [f"w{n}" for n in range(count)], "labels": [LABELS[n % 3] for n in range(count)],
            "image": image(row), "box": F.BBox(0.1, 0.2, 0.5, 0.75), "audio": np.arange(row, row + 4, dtype=np.int64),
            "video": np.stack([image(row), image(row + 1)]), "translation": {"en": f"hello {row}", "de": f"hallo {row}"},
            "nested": {"a": row, "b": {"c": "c" * count, "d": random.random(2, dtype=np.float32)}},
            "objects": [{"id": n, "box": F.BBox(0.0, 0.0, 1.0, 0.5), "name": f"o{n}"} for n in range(count)],
            "ragged": [[n] * n for n in range(count)], "pair": [row, -row],
            "deep": [{"tags": ["t"] * n, "n": n} for n in range(count)],
            "packed": random.random((2, 2), dtype=np.float32), "free": random.random((count, 2), dtype=np.float32),
        }


class Robot(Seeded):
    """Episodes of RLDS."""

    def splits_of_rows(self):
        return {"train": range(5)}

    def features(self):
        state = {
            "image": F.Image(shape=(3, 4, 3), encoding_format="png"),
            "state": F.Tensor(shape=(4,), dtype=np.float32), "joint": np.float64,
        }
        step = {
            "observation": state, "action": F.Tensor(shape=(2,), dtype=np.float32), "reward": np.float32,
            "is_first": np.bool_, "is_last": np.bool_, "grid": F.Tensor(shape=(2, 2), dtype=np.uint8),
            "language_instruction": F.Text(),
        }
        return {"episode_metadata": {"file_path": F.Text(), "success": np.bool_}, "steps": F.Dataset(step)}

    def example(self, row, random):
        def step(number):
            state = {
                "image": image(10 * row + number), "state": random.random(4, dtype=np.float32),
                "joint": np.float64(np.float32(number / 3)),
            }
            return {
                "observation": state, "action": random.random(2, dtype=np.float32), "reward": np.float32(number == row),
                "is_first": number == 0, "is_last": number == row, "language_instruction": f"do {row}",
                "grid": random.integers(0, 9, (2, 2), dtype=np.uint8),
            }

        metadata = {"file_path": f"/data/{row}.h5", "success": row % 2 == 0}
        return {"episode_metadata": metadata, "steps": [step(number) for number in range(row + 1)]}


def undecoded(feature):
    """How a feature is read with images as their bytes."""
    if isinstance(feature, F.FeaturesDict):
        parts = {name: undecoded(part) for name, part in feature.items()}
        return {name: part for name, part in parts.items() if part is not None} or None
    if isinstance(feature, F.Image | F.Video):
        return tfds.decode.SkipDecoding()
    return undecoded(feature.feature) if isinstance(feature, F.Dataset) else None


def plain(value, feature):
    """A value as JSON, and a sequence of dicts as a list of objects."""
    if isinstance(feature, F.FeaturesDict):
        return {name: plain(value[name], feature[name]) for name in sorted(feature)}
    if isinstance(feature, F.Dataset):
        return [plain(step, feature.feature) for step in value]
    if isinstance(feature, F.Sequence) and isinstance(value, dict):
        lists = {name: plain(value[name], F.Sequence(feature.feature[name])) for name in sorted(value)}
        return [dict(zip(lists, parts)) for parts in zip(*lists.values())]
    values = value.to_list() if isinstance(value, tf.RaggedTensor) else value.numpy()
    while isinstance(feature, F.Sequence):
        feature = feature.feature
    return scalars(values, isinstance(feature, F.Text))


def scalars(value, is_text: bool):
    if isinstance(value, list) or isinstance(value, np.ndarray) and value.ndim:
        return [scalars(item, is_text) for item in value]
    value = value.item() if isinstance(value, np.generic | np.ndarray) else value
    if isinstance(value, bytes):
        return value.decode() if is_text else value.hex()
    return value


def main(out: Path) -> None:
    for builder in (Kinds(data_dir=out), Robot(data_dir=out)):
        builder.download_and_prepare()
        features = builder.info.features
        for split in builder.info.splits:
            rows = builder.as_dataset(split=split, decoders=undecoded(features))
            lines = [json.dumps(plain(row, features), ensure_ascii=False) + "\n" for row in rows]
            (out / f"{builder.name}-{split}.jsonl").write_text("".join(lines))


main(Path(sys.argv[1]))
