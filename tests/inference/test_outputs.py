"""JSON lines and arrays: what stands in them, and that a file is whole or not there."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest

from albert_tf.inference import outputs


def test_json_lines_in_a_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "new folder" / "a.jsonl"
    with outputs.json_lines(str(path)) as write:
        write({"text": "é 中"})
        write({"b": [1.5, None]})
        assert not path.exists()
    assert path.read_text(encoding="utf-8") == '{"text": "é 中"}\n{"b": [1.5, null]}\n'


def test_nothing_is_left_of_a_failure(tmp_path: pathlib.Path) -> None:
    def write_and_fail() -> None:
        with outputs.json_lines(str(tmp_path / "a.jsonl")) as write:
            write({"a": 1})
            write({"a": float("nan")})

    with pytest.raises(ValueError, match="numbers that are not finite"):
        write_and_fail()
    assert list(tmp_path.iterdir()) == []


def test_json_lines_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    with outputs.json_lines(None) as write:
        write({"text": "é\n中"})
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [{"text": "é\n中"}]


@pytest.mark.parametrize("count", [0, 1, 1234])
def test_rows_become_an_array(tmp_path: pathlib.Path, count: int) -> None:
    values = np.random.default_rng(3).standard_normal((count, 7)).astype(np.float32)
    with outputs.npy_rows(str(tmp_path / "a.npy"), 7) as write:
        for row in values:
            write(row)
    found = np.load(tmp_path / "a.npy")
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, values)


def test_rounded_numbers_are_the_same_float32() -> None:
    values = np.random.default_rng(3).standard_normal(1000).astype(np.float32) * np.float32(1e-3)
    assert [np.float32(outputs.rounded(value)) for value in values.tolist()] == values.tolist()
