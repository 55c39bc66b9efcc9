"""Reading and the split by package, on files made here."""

from __future__ import annotations

import pathlib

import pytest

from demo import corpus

MODULE = '''
"""The first sentence of the module. A second sentence of the module."""
import not_installed_anywhere
raise SystemExit("must not be imported")

class A:
    r"""One sentence about the class. Another sentence about the class.

    A third sentence about the class. The fourth sentence about the class."""

    async def f(self):
        """The method has a single sentence."""
'''


def test_long_docstrings_stand_alone_and_short_ones_form_one_document() -> None:
    documents = corpus.documents_of_file(MODULE)
    assert documents == [
        [
            "One sentence about the class.",
            "Another sentence about the class.",
            "A third sentence about the class.",
            "The fourth sentence about the class.",
        ],
        [
            "The first sentence of the module.",
            "A second sentence of the module.",
            "The method has a single sentence.",
        ],
    ]


def test_topics_table_gives_a_page_each() -> None:
    source = "topics = {'a': 'The page of the letter a.', 'b': 'x' 'y', 'c': 3}\nother = {'d': 'no page at all'}\n"
    assert corpus.docstrings(source) == ["The page of the letter a.", "xy"]


@pytest.mark.parametrize("source", ['"""Broken."""\ndef f(:', "'''\0'''", "x = 1"])
def test_files_without_readable_docstrings_give_nothing(source: str) -> None:
    assert corpus.docstrings(source) == []


def test_python_files_skip_tests_and_generated_code(tmp_path: pathlib.Path) -> None:
    for name in ("b.py", "a.py", "c_pb2.py", "d_test.py", "test_e.py", "f.txt", "tests/g.py", "sub/h.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    found = [str(pathlib.Path(path).relative_to(tmp_path)) for path in corpus.python_files(str(tmp_path))]
    assert found == ["a.py", "b.py", "sub/h.py"]


def test_text_and_documents_are_inverse() -> None:
    documents = [["A b c.", "D e."], ["F g h i.", "J.", "K."]]
    assert corpus.to_text(documents) == "A b c.\nD e.\n\nF g h i.\nJ.\nK.\n"
    assert corpus.from_text(corpus.to_text(documents)) == documents


@pytest.fixture
def two_packages(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A standard library and one held-out package that hold one docstring each, in place of the installed ones."""
    texts = {
        "room_a": "Only the first package says this. This sentence stands in both of the packages. "
        "The first package says more of it. This is the last line.",
        "room_b": "The second package is held out. This sentence stands in both of the packages. "
        "The second package ends here.",
    }
    for name, text in texts.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f'"""{text}"""\nraise SystemExit\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(corpus, "TRAINING_PACKAGES", ("room_of_nobody",))
    monkeypatch.setattr(corpus, "HELD_OUT_PACKAGES", ("room_b",))
    monkeypatch.setattr(corpus.sysconfig, "get_paths", lambda: {"stdlib": str(tmp_path / "room_a")})


@pytest.mark.usefixtures("two_packages")
def test_build_corpus_splits_by_package() -> None:
    counts = []
    built = corpus.build_corpus(processes=1, advance=lambda done, total: counts.append((done, total)))
    assert built.training == [
        ["Only the first package says this.", "The first package says more of it.", "This is the last line."]
    ]
    assert built.held_out == [
        [
            "The second package is held out.",
            "This sentence stands in both of the packages.",
            "The second package ends here.",
        ]
    ]
    assert (built.near_duplicates, built.overlapping) == (0, 1)
    assert built.characters == {"python": 134, "room_b": 105}
    assert counts == [(1, 2), (2, 2)]


@pytest.mark.usefixtures("two_packages")
def test_build_corpus_needs_a_held_out_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "HELD_OUT_PACKAGES", ("room_of_nobody",))
    with pytest.raises(ValueError, match=r"no package of the held-out text is installed.*room_of_nobody"):
        corpus.build_corpus(processes=1)


def test_sources_are_installed_packages_with_their_versions() -> None:
    names = ["python", "numpy", "no_such_package_here"]
    found = corpus.find_sources(names)
    assert [source.name for source in found] == ["python", "numpy"]
    assert corpus.python_files(found[1].folder)[0].endswith("numpy/__config__.py")
