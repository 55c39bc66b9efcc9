"""Files with bytes flipped, cut out or put in: each is read or refused with its path, and nothing else happens."""

from __future__ import annotations

import json
import pathlib
import struct
import time
import tracemalloc
from collections.abc import Callable, Iterator

import ml_dtypes
import numpy as np
import pytest

from albert_tf.weight_files.safetensors_file import SafetensorsFile, write_safetensors
from albert_tf.weight_files.torch_file import TorchFile
from albert_tf.weight_files.weight_file import WeightFile

FIXTURES = pathlib.Path(__file__).parent / "fixtures"
# Four times the 16 MiB that a view of repeated values may have.
MOST_BYTES = 2**26
MOST_SECONDS = 60  # of processor, for all copies; honest ones take about two
COPIES = 200


def safetensors_bytes(folder: pathlib.Path) -> bytes:
    generator = np.random.default_rng(1)
    tensors = {
        "encoder/kernel": generator.standard_normal((3, 5)).astype(np.float32),
        "encoder/bias": generator.standard_normal(7).astype(ml_dtypes.bfloat16),
        "flag": np.array([True, False]),
    }
    write_safetensors(folder / "made.safetensors", tensors, {"format": "pt"})
    return (folder / "made.safetensors").read_bytes()


def damaged(content: bytes, count: int, seed: int) -> Iterator[bytes]:
    """`count` damaged copies of `content`."""
    generator = np.random.default_rng(seed)
    for _ in range(count):
        copy = bytearray(content)
        for _ in range(generator.integers(1, 4)):
            at = int(generator.integers(len(copy))) if copy else 0
            match generator.integers(6):
                case 0:
                    copy[at : at + 1] = generator.bytes(1)
                case 1:
                    copy[at:] = b""
                case 2:
                    copy[at : at + int(generator.integers(1, 40))] = b""
                case 3:
                    copy[at:at] = generator.bytes(int(generator.integers(1, 9)))
                case 4:  # the numbers that sizes are made of
                    number = int(generator.choice([0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1]))
                    copy[at : at + 8] = struct.pack("<Q", number)[: int(generator.choice([1, 4, 8]))]
                case _ if copy:
                    copy[at] ^= 1 << int(generator.integers(8))
        yield bytes(copy)


def read_or_refuse(open_file: Callable[[pathlib.Path], WeightFile], path: pathlib.Path) -> str:
    """ "" if all of the file was read, else the one line that refuses it."""
    try:
        with open_file(path) as weights:
            for name, info in weights.tensors.items():
                value = weights.read(name)
                assert (value.shape, value.dtype.name) == (info.shape, info.dtype)
        return ""
    except (ValueError, FileNotFoundError) as error:
        message = str(error)
    assert str(path.parent) in message
    assert "\n" not in message
    return message


CASES: list[tuple[str, Callable[[pathlib.Path], WeightFile]]] = [
    ("safetensors", SafetensorsFile),
    ("module.zip.bin", TorchFile),
    ("module.old.bin", TorchFile),
    ("module.protocol4.zip.bin", TorchFile),
    ("views.zip.bin", TorchFile),
    ("views.old.bin", TorchFile),
    ("training.old.bin", TorchFile),
    ("dtypes.old.bin", TorchFile),
]


@pytest.mark.parametrize(("source", "open_file"), CASES)
def test_damage_is_refused_or_read(
    tmp_path: pathlib.Path, source: str, open_file: Callable[[pathlib.Path], WeightFile]
) -> None:
    content = safetensors_bytes(tmp_path) if source == "safetensors" else (FIXTURES / source).read_bytes()
    path = tmp_path / "x.bin"
    outcomes = []
    tracemalloc.start()
    start = time.process_time()
    try:
        for copy in damaged(content, COPIES, seed=len(source)):
            path.write_bytes(copy)
            outcomes.append(read_or_refuse(open_file, path))
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
        assert time.process_time() - start < MOST_SECONDS
    finally:
        tracemalloc.stop()
    # Else the damage would be too small or too large to say anything.
    assert 5 < outcomes.count("") < COPIES / 2
    assert len(set(outcomes)) > 20


@pytest.mark.parametrize(("source", "open_file"), CASES[:3])
def test_every_cut_is_refused(
    tmp_path: pathlib.Path, source: str, open_file: Callable[[pathlib.Path], WeightFile]
) -> None:
    content = safetensors_bytes(tmp_path) if source == "safetensors" else (FIXTURES / source).read_bytes()
    path = tmp_path / "x.bin"
    for size in [*range(0, len(content), 7), len(content) - 1]:
        path.write_bytes(content[:size])
        assert read_or_refuse(open_file, path) != "", size


def test_damaged_indexes_are_refused_or_read(tmp_path: pathlib.Path) -> None:
    safetensors_bytes(tmp_path)
    names = ["encoder/kernel", "encoder/bias", "flag"]
    content = json.dumps({"metadata": {}, "weight_map": dict.fromkeys(names, "made.safetensors")}).encode()
    path = tmp_path / "x.index.json"
    path.write_bytes(content)
    assert read_or_refuse(SafetensorsFile, path) == ""
    outcomes = []
    for copy in damaged(content, COPIES, seed=2):
        path.write_bytes(copy)
        outcomes.append(read_or_refuse(SafetensorsFile, path))
    assert outcomes.count("") < 20
    assert len(set(outcomes)) > 20
