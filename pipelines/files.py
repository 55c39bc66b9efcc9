"""Files of the pipeline, by name and pattern, on the local disk and on every file system that Beam knows (`gs://`...)."""

from __future__ import annotations

import glob
import importlib
import logging
import os
import sys
from collections.abc import Iterable, Iterator
from typing import IO, NamedTuple

from albert_tf import folder_kinds
from albert_tf.files import is_remote, naming
from albert_tf.tokenizer import AlbertTokenizer
from albert_tf.tokenizer_base import Tokenizer
from albert_tf.tokenizer_files import CONFIG_FILE, choose_vocabulary_file, make_tokenizer
from pipelines import blocks, decompression, readers

MODEL_FILE = AlbertTokenizer.vocabulary_file


class InputFile(NamedTuple):
    """One file to read."""

    path: str
    size: int  # bytes on disk
    modified: float  # seconds since 1970; 0 where the file system does not tell


def load_beam(*, verbose: bool = False) -> None:
    """Imports Beam; keeps its warnings and its workers' tracebacks off the terminal, unless `verbose`.

    Takes a second or two, so it comes after everything that can be checked without it.
    """
    if "apache_beam" in sys.modules:
        return
    if not verbose:
        logging.getLogger("apache_beam").setLevel(logging.CRITICAL + 1)
    root = logging.getLogger()
    level = root.level
    root.setLevel(level if verbose else logging.ERROR)  # while importing it warns through the root logger
    try:
        importlib.import_module("apache_beam")
    finally:
        root.setLevel(level)


def find_files(patterns: Iterable[str]) -> list[InputFile]:
    """Files that match the names or glob patterns, each once, sorted by path.

    A folder stands for all files in it and below, but for hidden ones; links to folders are not followed.

    Raises:
      ValueError: if a pattern matches nothing, or a folder without files.
    """
    found: dict[str, InputFile] = {}
    for pattern in patterns:
        matches = _remote_matches(pattern) if is_remote(pattern) else _local_matches(pattern)
        if not matches:
            raise ValueError(f"{pattern}: no such file")
        found.update(matches)
    for path in found:
        try:
            path.encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError(f"{path!a}: the name of this file is not UTF-8; rename it") from None
    return [file for _, file in sorted(found.items())]


def _local_matches(pattern: str) -> dict[str, InputFile]:
    if os.path.isdir(pattern):
        paths = list(_files_below(pattern))
        if not paths:
            raise ValueError(f"{pattern}: a folder without files")
    else:
        paths = [pattern] if os.path.exists(pattern) else glob.glob(pattern, recursive=True)
    files = {path: _local_file(path) for path in map(os.path.abspath, paths) if os.path.isfile(path)}
    if paths and not files:
        if os.path.isdir(paths[0]):
            raise ValueError(f"{pattern}: matches folders only; name the files in them, as in 'texts/*.txt'")
        kind = "a link to a file that is not there" if os.path.islink(paths[0]) else "no regular file"
        raise ValueError(f"{pattern}: is {kind}")
    return files


def _local_file(path: str) -> InputFile:
    status = os.stat(path)
    return InputFile(path, status.st_size, status.st_mtime)


def _files_below(folder: str) -> Iterator[str]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = os.path.join(parent, name)
            if not name.startswith(".") and os.path.isfile(path):
                yield path


def _remote_matches(pattern: str) -> dict[str, InputFile]:
    load_beam()
    from apache_beam.io import filesystems

    if pattern.endswith("/"):
        pattern += "**"
    try:
        (result,) = filesystems.FileSystems.match([pattern])
    except ValueError as error:  # "Unable to get filesystem from specified path, please use the correct path ..."
        raise ValueError(f"{pattern}: {error}") from error
    return {
        found.path: InputFile(found.path, found.size_in_bytes, found.last_updated_in_seconds or 0.0)
        for found in result.metadata_list
    }


def read_lines(path: str) -> Iterator[bytes]:
    """Lines of the file with their ends, decompressed as its name's ending says (.gz, .bz2, .zst).

    Raises:
      InputError: if compressed data is damaged or cut off, or a line is longer than `blocks.LONGEST_DOCUMENT`.
      OSError: if the file cannot be read.
    """
    begun: list[bytes] = []  # of a line that goes on in the next chunk
    length = line_number = 0
    with naming(path), open_to_read(path) as stream:
        for chunk in decompression.read_chunks(stream, path):
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                yield b"".join((*begun, line, b"\n"))
                begun, length = [], 0
            line_number += len(lines)
            if rest:
                begun.append(rest)
                length += len(rest)
            if length > blocks.LONGEST_DOCUMENT:
                raise readers.InputError(
                    f"{path}: line {line_number + 1} is longer than {blocks.LONGEST_DOCUMENT >> 20} MB; text with line "
                    "ends is expected"
                )
    if begun:
        yield b"".join(begun)


def read_bytes(path: str) -> bytes:
    """Content of the file as it is on disk.

    Raises:
      OSError: if it cannot be read.
    """
    with open_to_read(path) as stream:
        return stream.read()


def open_to_read(path: str) -> IO[bytes]:
    """The file as it is on disk, compressed or not."""
    if not is_remote(path):
        return open(path, "rb")
    load_beam()
    from apache_beam.io import filesystem, filesystems

    return filesystems.FileSystems.open(path, compression_type=filesystem.CompressionTypes.UNCOMPRESSED)


def list_names(folder: str) -> list[str]:
    """Names of the files in a folder."""
    if not is_remote(folder):
        return sorted(os.listdir(folder))
    load_beam()
    from apache_beam.io import filesystems

    (result,) = filesystems.FileSystems.match([f"{folder.rstrip('/')}/*"])
    return sorted(metadata.path.rpartition("/")[2] for metadata in result.metadata_list)


def remove(paths: list[str]) -> None:
    """Removes files."""
    local = [path for path in paths if not is_remote(path)]
    for path in local:
        os.remove(path)
    if len(local) < len(paths):
        load_beam()
        from apache_beam.io import filesystems

        filesystems.FileSystems.delete([path for path in paths if is_remote(path)])


def read_tokenizer(path: str) -> Tokenizer:
    """Tokenizer from a folder with a vocabulary and `tokenizer_config.json`, or from a vocabulary's file alone.

    The vocabulary is a SentencePiece model (`spiece.model` in a folder) or a list of WordPiece's pieces (`vocab.txt`).
    A file alone is taken with the settings of the published models: lower case.

    Raises:
      ValueError: if the vocabulary or its config is unfit, or the folder holds both kinds; names the file.
      OSError: if a file cannot be read.
    """
    if not os.path.isfile(path):
        folder_kinds.check(path, CONFIG_FILE, f"{folder_kinds.TOKENIZER}, or a vocabulary's file")
    if not (os.path.isdir(path) or (is_remote(path) and path.endswith("/"))):
        return make_tokenizer(path, read_bytes(path))
    config_path = join(path, CONFIG_FILE)
    config = read_bytes(config_path)
    vocabulary_path = join(path, choose_vocabulary_file(list_names(path), path))
    return make_tokenizer(vocabulary_path, read_bytes(vocabulary_path), config_path, config)


def join(folder: str, name: str) -> str:
    """Path of `name` in `folder`, with the separator that folders with a scheme use."""
    return f"{folder.rstrip('/')}/{name}" if is_remote(folder) else os.path.join(folder, name)
