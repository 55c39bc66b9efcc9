"""A file that is no weights is called what it is."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import pickle
import tarfile
import zipfile

import numpy as np
import pytest
import safetensors.numpy

from albert_tf.weight_files import impostors


def zip_of(name: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, b"content")
    return buffer.getvalue()


def tar() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("weights"))
    return buffer.getvalue()


def npy() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(3))
    return buffer.getvalue()


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 46747112\n"
PAGE = b"<!DOCTYPE html>\n<html><head><title>404</title></head></html>"
SAFETENSORS = safetensors.numpy.save({"x": np.zeros(3, np.float32)})
HDF5 = b"\x89HDF\r\n\x1a\n" + bytes(40)

CASES = [
    (b"", "is empty; expected a PyTorch file: download the file again"),
    (POINTER, "is a Git LFS pointer, not the file it points to; expected a PyTorch file: run `git lfs pull`"),
    (PAGE, "is a web page (HTML or XML), it begins '<!DOCTYPE html> <html><head>"),
    (b"\xef\xbb\xbf" + PAGE, "is a web page"),
    (b" \r\n\t" + PAGE.lower(), "is a web page"),
    ("﻿<html>".encode("utf-16-le"), "is a web page"),
    ("﻿<html>".encode("utf-16-be"), "is a web page"),
    (b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>', "is a web page (HTML or XML)"),
    (b"<!-- gone --><html></html>", "is a web page"),
    (PAGE + b" " * 5000, "is a web page"),
    (b'{"error":"Repository not found"}', 'is a JSON text, such as a server\'s error, it begins \'{"error":"Reposi'),
    (b'  [1, 2]\n"', "is a JSON text"),
    (b'{"metadata": {}, "weight_map": {}}', "is an index of shards; expected a PyTorch file: name it *.index.json"),
    (b"Invalid username or password.\n", "is a text, it begins 'Invalid username or password.'; expected a PyT"),
    ("Zugriff verweigert: ä".encode() * 100, "is a text, it begins 'Zugriff verweigert: ä"),
    (b"\n\n  \n", "is blank; expected"),
    (bytes(4096), "is nothing but zeros as far as it was looked at: a download that broke off"),
    (gzip.compress(b"x"), "is a gzip archive; expected a PyTorch file: unpack it first"),
    (bz2.compress(b"x"), "is a bzip2 archive"),
    (lzma.compress(b"x"), "is an xz archive"),
    (tar(), "is a tar archive"),
    (zip_of("readme.txt"), "is a zip archive; expected a PyTorch file: unpack it first"),
    (zip_of("x.npy"), "is a NumPy archive (.npz)"),
    (zip_of("metadata.json"), "is a Keras archive (.keras)"),
    (npy(), "is a NumPy array"),
    (b"GGUF\x03\x00\x00\x00", "is a GGUF file"),
    (b"%PDF-1.7\n%\xe2\xe3", "is a PDF document"),
    (SAFETENSORS, "is a safetensors file; expected a PyTorch file: name it by its own form"),
    (HDF5, "is an HDF5 file; expected a PyTorch file: name it by its own form"),
    (pickle.dumps({"x": 1}), "is a Python pickle; expected a PyTorch file"),
    (
        b"cos\nsystem\n(S'ls'\ntR.",
        "is a Python pickle that calls os.system; expected a PyTorch file: nothing of it was",
    ),
]


@pytest.mark.parametrize(("content", "message"), CASES, ids=[message[3:30] for _, message in CASES])
def test_what_is_no_weights_is_called_what_it_is(content: bytes, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        impostors.check("a/model.bin", content[: impostors.HEAD_SIZE], expected=impostors.PYTORCH)
    assert str(caught.value).startswith(f"a/model.bin: {message}")
    assert "\n" not in str(caught.value)


TORCH_ZIPS = ["archive/data.pkl", "pytorch_model/version", "archive/.format_version", "archive/byteorder"]


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (SAFETENSORS, impostors.SAFETENSORS),
        (HDF5, impostors.HDF5),
        (impostors.TORCH_LEGACY_START + b"\x80\x02M\xe9\x03.", impostors.PYTORCH),
        *[(zip_of(name), impostors.PYTORCH) for name in TORCH_ZIPS],
    ],
)
def test_each_form_passes_as_itself_and_nothing_else(content: bytes, kind: str) -> None:
    impostors.check("x", content, expected=kind)
    for other in {impostors.SAFETENSORS, impostors.HDF5, impostors.PYTORCH, impostors.CHECKPOINT} - {kind}:
        with pytest.raises(ValueError, match=f"^x: is {kind}; expected {other}: name it by its own form$"):
            impostors.check("x", content, expected=other)


def test_bytes_of_no_known_kind_pass() -> None:
    # A checkpoint's data file, for one, is nothing but numbers.
    numbers = np.random.default_rng(3).standard_normal(500).astype(np.float32).tobytes()
    assert impostors.recognise(numbers[: impostors.HEAD_SIZE]) is None
    assert impostors.recognise(b"\x00\x00\x00") is None
    generator = np.random.default_rng(4)
    for start in (b"\xff\xfe", b"\xfe\xff", b"\x1f\x8b", b"BZh", b"\x80\x03", b"PK", b"<", b"{"):
        # A few in ten thousand would be taken for something; these are not.
        assert impostors.recognise(start + b"\x99\x01" + generator.bytes(1000)) is None


@pytest.mark.parametrize("end", range(impostors.HEAD_SIZE - 4, impostors.HEAD_SIZE + 1))
def test_a_character_cut_at_the_end_of_the_head_is_no_other_kind(end: int) -> None:
    content = b"x" * (end - 2) + "漢字".encode() * 10
    found = impostors.recognise(content[: impostors.HEAD_SIZE])
    assert found is not None
    assert found[0].startswith("a text")
