"""What a file is that should hold weights and does not: an error page, a pointer, an archive, weights of another form.

Downloads fail quietly: the server's error page, or Git LFS's pointer, lies on the disk under the name of the weights.
Every reader shows the first bytes of its file to `check` before it parses them.
"""

from __future__ import annotations

import re

HEAD_SIZE = 1024  # bytes; tar's mark stands at byte 257

SAFETENSORS = "a safetensors file"
PYTORCH = "a PyTorch file"
HDF5 = "an HDF5 file"
CHECKPOINT = "a TensorFlow checkpoint"

_DOWNLOAD = "download the file again"
_UNPACK = "unpack it first"
_NAMED = "name it by its own form"

# First bytes of PyTorch's form of before 1.6: a pickle of its magic number.
TORCH_LEGACY_START = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
MAX_SAFETENSORS_HEADER = 100_000_000  # bytes; the limit of the safetensors library

# First bytes -> what the file is, what to do.
_STARTS = (
    (b"version https://git-lfs", "a Git LFS pointer, not the file it points to", "run `git lfs pull`"),
    (b"version https://hawser", "a Git LFS pointer, not the file it points to", "run `git lfs pull`"),
    (b"\x89HDF\r\n\x1a\n", HDF5, _NAMED),
    (TORCH_LEGACY_START, PYTORCH, _NAMED),
    (b"\x93NUMPY", "a NumPy array", "convert the model with the program that wrote it"),
    (b"GGUF", "a GGUF file", "take the model's unquantised weights"),
    (b"\x1f\x8b\x08", "a gzip archive", _UNPACK),
    (b"BZh91AY&SY", "a bzip2 archive", _UNPACK),
    (b"\xfd7zXZ\x00", "an xz archive", _UNPACK),
    (b"\x28\xb5\x2f\xfd", "a zstd archive", _UNPACK),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", _UNPACK),
    (b"Rar!\x1a\x07", "a RAR archive", _UNPACK),
    (b"%PDF-", "a PDF document", _DOWNLOAD),
)
# Name of a zip archive's first member -> what the archive is, what to do.
_ZIPS = (
    (r"[^/]+/(data\.pkl|version|byteorder|\.\w+)", PYTORCH, _NAMED),
    (r".*\.npy", "a NumPy archive (.npz)", "convert the model with the program that wrote it"),
    (r"(metadata|config)\.json|model\.weights\.h5", "a Keras archive (.keras)", "save its weights in another form"),
    (r".*", "a zip archive", _UNPACK),
)
_PICKLE = re.compile(rb"\x80[\x02-\x05][]}(cX\x8a\x8c\x95]")
_MARKUP = re.compile(rb"<(!doctype|!--|\?xml|[a-z])", re.IGNORECASE)
_PROTOCOL_0_CALL = re.compile(r"\(*c([\w.]+)\n([\w.]+)\n")
_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


def check(path: str, head: bytes, *, expected: str) -> None:
    """Refuses a file whose first bytes show that it is something else. What is not recognised passes.

    Args:
      path: the file, for the message.
      head: its first `HEAD_SIZE` bytes, or all of them.
      expected: what it should be: `SAFETENSORS`, `PYTORCH`, `HDF5` or `CHECKPOINT`.

    Raises:
      ValueError: says what the file is, what was expected and what to do.
    """
    found = recognise(head)
    if found is not None and found[0] != expected:
        raise ValueError(f"{path}: is {found[0]}; expected {expected}: {found[1]}")


def recognise(head: bytes) -> tuple[str, str] | None:
    """What a file is, and what to do about it, by its first bytes; None if nothing is known of them."""
    if not head:
        return "empty", _DOWNLOAD
    for start, what, advice in _STARTS:
        if head.startswith(start):
            return what, advice
    if head.startswith(b"PK\x03\x04"):
        name = head[30 : 30 + int.from_bytes(head[26:28], "little")].decode("utf-8", "replace")
        return next((what, advice) for pattern, what, advice in _ZIPS if re.fullmatch(pattern, name, re.DOTALL))
    if head[257:262] == b"ustar":
        return "a tar archive", _UNPACK
    if head[8:9] == b"{" and 2 <= int.from_bytes(head[:8], "little") <= MAX_SAFETENSORS_HEADER:
        return SAFETENSORS, _NAMED
    if _PICKLE.match(head):
        return (PYTORCH if head[2:] in TORCH_LEGACY_START else "a Python pickle"), _NAMED
    if len(head) > 8 and not head.strip(b"\x00"):
        return "nothing but zeros as far as it was looked at: a download that broke off", _DOWNLOAD
    return _text(head)


def _text(head: bytes) -> tuple[str, str] | None:
    """What a text is; None if `head` is none."""
    bom, encoding = next(((bom, name) for bom, name in _BOMS if head.startswith(bom)), (b"", "utf-8"))
    cut = 3 if len(head) >= HEAD_SIZE else 0  # the last character may go on behind the head
    try:
        text = head[len(bom) : len(head) - cut].decode(encoding, "ignore" if cut and encoding != "utf-8" else "strict")
    except UnicodeDecodeError as error:
        if encoding != "utf-8" or not cut or error.start < len(head) - len(bom) - 2 * cut:
            return None
        text = head[len(bom) : len(bom) + error.start].decode(encoding)
    if any(ord(character) < 32 and character not in "\t\n\r\f" for character in text):
        return None
    text = text.strip()
    if encoding != "utf-8" and not text[:8].isascii():
        return None  # nearly any bytes are some text in UTF-16
    if not text:
        return "blank", _DOWNLOAD
    begin = " ".join(text[:80].split())
    if _MARKUP.match(text.encode()):
        return f"a web page (HTML or XML), it begins {begin!r}", _DOWNLOAD
    if text[0] in "{[":
        if '"weight_map"' in text:
            return "an index of shards", "name it *.index.json and keep it beside its shards"
        return f"a JSON text, such as a server's error, it begins {begin!r}", _DOWNLOAD
    if call := _PROTOCOL_0_CALL.match(text + "\n"):
        return f"a Python pickle that calls {call[1]}.{call[2]}", "nothing of it was run; do not trust where it is from"
    return f"a text, it begins {begin!r}", _DOWNLOAD
