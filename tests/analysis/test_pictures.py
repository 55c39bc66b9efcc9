"""The analyses' pictures and tables: what stands in the files, on both grounds."""

from __future__ import annotations

import csv
import io
import pathlib
import re
import struct
from xml.etree import ElementTree

import pytest

from albert_tf.analysis import pictures, plots, tables
from albert_tf.analysis.compared import Compared, papers_models
from albert_tf.analysis.figures import PARTS, compute_figures
from albert_tf.analysis.layers import LayerChange, LayerChanges
from tests.modeling.small_models import make_config

OWN = Compared(name="runs/$mine$/albert_config.json", group="own", config=make_config())
ROWS = [(model, compute_figures(model)) for model in (*papers_models(), OWN)]


def change(value: float) -> LayerChange:
    return LayerChange(l2_distance=value, cosine_similarity=1 / value, degrees=10 * value, input_norm=7.0)


CHANGES = [
    LayerChanges(name="runs/small/model", num_tokens=1234, layers=(change(2.0), change(3.0), change(1.5))),
    LayerChanges(name="runs/large/model", num_tokens=1, layers=(change(4.0),)),
]


def texts(path: str) -> str:
    return "\n".join(element.text or "" for element in ElementTree.parse(path).iter() if element.tag.endswith("text"))


def check_files(paths: list[str], folder: pathlib.Path, *names: str) -> None:
    """SVG and PNG on two grounds, which differ; nothing else was left in the folder."""
    expected = {f"{name}{ending}.{kind}" for name in names for ending in ("", "_dark") for kind in ("svg", "png")}
    assert {path.name for path in folder.iterdir()} == {pathlib.Path(path).name for path in paths} == expected
    for name in names:
        light, dark = ((folder / f"{name}{ending}.svg").read_text() for ending in ("", "_dark"))
        assert "#ffffff" in light
        assert "#15181d" not in light
        assert "#15181d" in dark
        assert "#222222" not in dark
        for ending in ("", "_dark"):
            png = (folder / f"{name}{ending}.png").read_bytes()
            assert png.startswith(b"\x89PNG")
            assert min(struct.unpack(">II", png[16:24])) > 250


def test_pictures_of_parameters(tmp_path: pathlib.Path) -> None:
    paths = plots.draw_parameters(str(tmp_path), ROWS) + plots.draw_training(str(tmp_path), ROWS)
    check_files(paths, tmp_path, "parameters", "training")
    shown = texts(str(tmp_path / "parameters.svg"))
    for text in ("BERT large", "335.7M", "ALBERT xxlarge", "223.2M", "base, E=768, attention shared", "$mine$", *PARTS):
        assert text in shown, text
    training = texts(str(tmp_path / "training.svg"))
    for text in ("ALBERT base", "662.9MB", "190.1M", "optimizer", "examples of 17 to 512 tokens"):
        assert text in training, text
    assert "E=64" not in training


def test_pictures_of_own_models_alone(tmp_path: pathlib.Path) -> None:
    check_files(plots.draw_parameters(str(tmp_path), ROWS[-1:]), tmp_path, "parameters")
    assert "embedding size" not in texts(str(tmp_path / "parameters.svg"))


def test_pictures_of_layers(tmp_path: pathlib.Path) -> None:
    check_files(plots.draw_layers(str(tmp_path), CHANGES), tmp_path, "layers")
    shown = texts(str(tmp_path / "layers.svg"))
    for text in ("small/model", "large/model", "angle, degrees", "distance", "layer"):
        assert text in shown, text
    before = (tmp_path / "layers.svg").read_bytes()
    plots.draw_layers(str(tmp_path), CHANGES)
    assert (tmp_path / "layers.svg").read_bytes() == before


def test_more_models_than_colours_look_different(tmp_path: pathlib.Path) -> None:
    many = [LayerChanges(name=f"m{n}", num_tokens=1, layers=(change(1.0 + n), change(2.0 + n))) for n in range(12)]
    plots.draw_layers(str(tmp_path), many)
    lines = re.findall(
        r'style="(fill: none;[^"]*stroke: #[^"]*stroke-width: 1.5[^"]*)"', (tmp_path / "layers.svg").read_text()
    )
    assert len(set(lines)) == 12


def test_folders_in_an_object_store_are_refused() -> None:
    with pytest.raises(ValueError, match="folder of pictures must be local, got gs://bucket/x"):
        plots.draw_layers("gs://bucket/x", CHANGES)


def test_names_in_pictures() -> None:
    assert pictures.short_names(["BERT base", "runs/a/model", "runs/b/model/"]) == ["BERT base", "a/model", "b/model"]
    assert pictures.short_names(["runs/a/albert_config.json"]) == ["runs/a"]
    assert pictures.short_names(["/one/a", "two/b"]) == ["/one/a", "two/b"]
    assert pictures.short_names(["x" * 40]) == ["…" + "x" * 31]
    assert [pictures.short_count(count) for count in (95, 427_490, 11_813_810, 4.93e9)] == [
        "95",
        "427.5K",
        "11.8M",
        "4.9G",
    ]


def test_csv_of_parameters() -> None:
    read = list(csv.DictReader(io.StringIO(tables.parameter_csv(ROWS))))
    assert [row["model"] for row in read] == [model.name for model, _ in ROWS]
    base = next(row for row in read if row["model"] == "ALBERT base")
    figures = dict(zip((model.name for model, _ in ROWS), (one for _, one in ROWS), strict=True))["ALBERT base"]
    assert int(base["total"]) == figures.total == 11_813_810
    assert int(base["feed_forward"]) == figures.parameters["feed-forward"]
    assert int(base["activation_bytes"]) == figures.activation_bytes
    assert float(base["forward_operations_per_token"]) == figures.forward_operations_per_token
    assert (base["paper_millions"], base["paper_explained"]) == ("12", "encoder: 11,683,584")
    assert (read[-1]["group"], read[-1]["head"], read[-1]["paper_millions"]) == ("own", "pretraining", "")


def test_tables() -> None:
    columns, rows = tables.parameter_table(ROWS)
    base = dict(zip(columns, rows[2], strict=True))
    assert (base["model"], base["E"], base["embeddings, K"], base["all"]) == ("ALBERT base", 128, "3,906", 11_813_810)
    assert dict(zip(columns, rows[-1], strict=True))["embeddings, K"] == "0.9"
    assert len(tables.paper_table(ROWS)[1]) == 18
    columns, rows = tables.training_table(ROWS)
    base = dict(zip(columns, rows[2], strict=True))
    assert (base["S"], base["weights"], base["activations of an example"]) == (512, "47.3 MB", "473.9 MB")
    assert rows[-1][1] == 17
    notes = "\n".join(tables.parameter_notes())
    assert "4 bytes x [ L x (S x (8H + 2I) + N x S^2)" in notes
    assert "30,522" in notes


def test_table_and_csv_of_layers() -> None:
    columns, rows = tables.layer_table(CHANGES)
    assert columns[:3] == ("layer", "A: L2", "A: cosine")
    assert columns[-1] == "B: input"
    assert rows[0] == (1, "2", "0.50000", "20.00", "7", "4", "0.25000", "40.00", "7")
    assert rows[2] == (3, "1.5", "0.66667", "15.00", "7", "", "", "", "")
    assert tables.layer_notes(CHANGES)[:2] == ("A: runs/small/model, 1,234 tokens", "B: runs/large/model, 1 token")
    assert tables.layer_table(CHANGES[:1])[0][1] == "L2"
    read = list(csv.DictReader(io.StringIO(tables.layer_csv(CHANGES))))
    assert [(row["model"], row["layer"], row["degrees"], row["tokens"]) for row in read] == [
        ("runs/small/model", "1", "20.0", "1234"),
        ("runs/small/model", "2", "30.0", "1234"),
        ("runs/small/model", "3", "15.0", "1234"),
        ("runs/large/model", "1", "40.0", "1"),
    ]
