"""The demo's corpus: English that is on every machine with Python, nothing downloaded.

Sources are the language reference in `pydoc_data` and the docstrings of the standard library and of installed
packages. Files are read with `ast`; no package is imported. One docstring of four sentences or more is a document; the
shorter ones of a file form one document together, in their order.

Near-duplicate sentences are left out. The held-out part is split by package, so that it shares no author and no file
with the training text, and no held-out sentence of five words or more occurs in the training text, be it inside a
longer sentence or across two.
"""

from __future__ import annotations

import ast
import concurrent.futures
import importlib.metadata
import importlib.util
import multiprocessing
import os
import sysconfig
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from demo.cleaning import sentences_of
from demo.duplicates import Document, HeldOutSentences, NearDuplicates, without_held_out, without_near_duplicates

TRAINING_PACKAGES = (
    "tensorflow",
    "apache_beam",
    "numpy",
    "keras",
    "matplotlib",
    "tensorflow_text",
    "h5py",
    "absl",
    "grpc",
)
HELD_OUT_PACKAGES = ("keras_hub", "tensorboard")
STANDARD_LIBRARY = "python"

_OWN_DOCUMENT_SENTENCES = 4

_SKIPPED_FOLDERS = frozenset(
    {"__pycache__", "test", "tests", "testing", "site-packages", "dist-packages", "idlelib", "lib2to3", "include"}
    | {"_api", "_vendor"}  # lists of names, and copies of other packages
)
_SKIPPED_ENDINGS = ("_pb2.py", "_pb2_grpc.py", "_test.py")
_FILES_PER_TASK = 24


@dataclass(frozen=True, kw_only=True)
class Source:
    """One package on this machine: its name, its version, and the folder with its files."""

    name: str
    version: str
    folder: str


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Documents of both parts, and what was left out.

    Attributes:
      training: documents, each a list of sentences.
      held_out: documents of other packages.
      near_duplicates: sentences left out because they repeat another one of the same part.
      overlapping: training sentences left out because a held-out sentence occurs in them.
      characters: characters kept for each package.
    """

    training: list[Document]
    held_out: list[Document]
    near_duplicates: int
    overlapping: int
    characters: dict[str, int]


def find_sources(names: Iterable[str]) -> list[Source]:
    """Those of the named packages that are installed, in the order of `names`. "python" is the standard library."""
    sources = []
    for name in names:
        if name == STANDARD_LIBRARY:
            version, folder = sysconfig.get_python_version(), sysconfig.get_paths()["stdlib"]
        else:
            spec = importlib.util.find_spec(name)
            if spec is None or not spec.submodule_search_locations:
                continue
            folder = next(iter(spec.submodule_search_locations))
            version = _version(name)
        sources.append(Source(name=name, version=version, folder=folder))
    return sources


def _version(package: str) -> str:
    """Version of an import package; that of the distribution of the same name, or "unknown"."""
    for distribution in (package, {"absl": "absl-py", "grpc": "grpcio"}.get(package, package)):
        try:
            return importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "unknown"


def python_files(folder: str) -> list[str]:
    """Paths of the Python files below a folder that are worth reading, in a fixed order."""
    paths = []
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(set(folders) - _SKIPPED_FOLDERS)
        paths += [
            os.path.join(parent, name)
            for name in sorted(files)
            if name.endswith(".py") and not name.endswith(_SKIPPED_ENDINGS) and not name.startswith("test_")
        ]
    return paths


def docstrings(source: str) -> list[str]:
    """Docstrings of a module's source text, and the pages of a `topics` table; none where it does not parse."""
    if '"""' not in source and "'''" not in source and "topics" not in source:
        return []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in other people's strings
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return []
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                found.append(text)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            target = node.targets[0]
            if isinstance(target, ast.Name) and target.id == "topics":  # pydoc_data/topics.py
                found += [
                    page.value
                    for page in node.value.values
                    if isinstance(page, ast.Constant) and isinstance(page.value, str)
                ]
    return found


def documents_of_file(source: str) -> list[Document]:
    """Documents of one module's source text: long docstrings each, the short ones together."""
    documents = []
    short: Document = []
    for text in docstrings(source):
        sentences = sentences_of(text)
        if len(sentences) >= _OWN_DOCUMENT_SENTENCES:
            documents.append(sentences)
        else:
            short += sentences
    return [*documents, short] if short else documents


def _documents_of_files(paths: Sequence[str]) -> list[Document]:
    documents = []
    for path in paths:
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                source = file.read()
        except OSError:  # a dangling link, a file only its owner may read: other people's folders
            continue
        documents += documents_of_file(source)
    return documents


def build_corpus(*, processes: int, advance: Callable[[int, int], None] = lambda done, total: None) -> Corpus:
    """Reads, cleans and splits all sources.

    Args:
      processes: worker processes that parse files.
      advance: told the number of files read and of all files.

    Raises:
      ValueError: if no package of the held-out part is installed.
    """
    parts = {
        "held-out": find_sources(HELD_OUT_PACKAGES),
        "training": find_sources((STANDARD_LIBRARY, *TRAINING_PACKAGES)),
    }
    if not parts["held-out"]:
        raise ValueError(
            f"no package of the held-out text is installed, expected one of {', '.join(HELD_OUT_PACKAGES)}"
        )
    sources = [source for part in parts.values() for source in part]
    raw = _read(sources, processes, advance)

    characters = {}
    cleaned: dict[str, list[Document]] = {}
    repeated = 0
    for part, members in parts.items():
        seen = NearDuplicates()
        cleaned[part] = []
        for source in members:
            documents = list(without_near_duplicates(raw[source.name], seen))
            repeated += sum(map(len, raw[source.name])) - sum(map(len, documents))
            characters[source.name] = sum(len(sentence) for document in documents for sentence in document)
            cleaned[part] += documents
    training, overlapping = without_held_out(cleaned["training"], HeldOutSentences(cleaned["held-out"]))
    return Corpus(
        training=training,
        held_out=cleaned["held-out"],
        near_duplicates=repeated,
        overlapping=overlapping,
        characters=characters,
    )


def _read(sources: Sequence[Source], processes: int, advance: Callable[[int, int], None]) -> dict[str, list[Document]]:
    """Documents of each source, in the order of its files, read by `processes` workers."""
    tasks = []
    for source in sources:
        paths = python_files(source.folder)
        tasks += [
            (source.name, paths[start : start + _FILES_PER_TASK]) for start in range(0, len(paths), _FILES_PER_TASK)
        ]
    total = sum(len(paths) for _, paths in tasks)
    done = 0
    documents: dict[str, list[Document]] = {source.name: [] for source in sources}
    # spawn: a forked child of a process with threads may hang, and these children import next to nothing.
    with concurrent.futures.ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        results = pool.map(_documents_of_files, [paths for _, paths in tasks])
        for (name, paths), found in zip(tasks, results, strict=True):
            documents[name] += found
            done += len(paths)
            advance(done, total)
    return documents


def to_text(documents: Iterable[Document]) -> str:
    """One sentence a line, a blank line between documents."""
    return "\n\n".join("\n".join(document) for document in documents) + "\n"


def from_text(text: str) -> list[Document]:
    """Inverse of `to_text`."""
    return [block.splitlines() for block in text.strip().split("\n\n") if block]
