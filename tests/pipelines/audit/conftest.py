"""Data directories of either form, and copies of them to be broken."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from albert_tf.tokenizer import AlbertTokenizer
from tests.pipelines import building
from tests.pipelines.conftest import make_documents, write_corpus


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory, tokenizer: AlbertTokenizer) -> Path:
    """Folder with a data directory of either form; some tokens are unknown, some examples alike."""
    folder = tmp_path_factory.mktemp("built")
    documents = make_documents(45, seed=5)
    documents += [["An 日 bel 本 cor."], ["An bel cor dis.", "En fer gra."], ["An bel cor dis. En fer gra."]]
    corpus = write_corpus(folder / "corpus.txt", documents)
    building.build(folder / "dynamic", [corpus], tokenizer)
    building.build(folder / "static", [corpus], tokenizer, masking="static", dupe_factor=2)
    return folder


@pytest.fixture(params=["static", "dynamic"])
def data(request: pytest.FixtureRequest, built: Path, tmp_path: Path) -> Path:
    """A copy of a data directory, to be broken."""
    return Path(shutil.copytree(built / request.param, tmp_path / request.param))


@pytest.fixture
def static(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built / "static", tmp_path / "static"))


@pytest.fixture
def dynamic(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built / "dynamic", tmp_path / "dynamic"))
