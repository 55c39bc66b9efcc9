"""PyTorch files made to harm: no code runs, no small file takes much memory or time, each is refused in one line."""

from __future__ import annotations

import os
import pathlib
import pickle
import struct
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from albert_tf.weight_files.torch_file import TorchFile
from tests.weight_files.torch_writer import (
    Call,
    Name,
    Persistent,
    Raw,
    old_form,
    opcodes,
    pickle_of,
    storage,
    tensor,
    zip_form,
)

FLOATS = storage("Float", "5", 35)
X = tensor(FLOATS, 0, (5, 7), (7, 1))
DATA = bytes(140)
LIMIT = 200 * 2**20  # bytes; a million opcodes, each with a small mapping


class Watch:
    """Keeps what Python tells of code and processes that start while it is on."""

    def __init__(self) -> None:
        self.on = False
        self.seen: list[str] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple) -> None:
        if self.on and event.startswith(("os.system", "os.exec", "os.posix_spawn", "subprocess", "exec", "pickle")):
            self.seen.append(event)


WATCH: list[Watch] = []  # hooks stay for the life of the process: one is enough


@pytest.fixture
def watch() -> Iterator[Watch]:
    if not WATCH:
        WATCH.append(Watch())
    WATCH[0].seen = []
    WATCH[0].on = True
    yield WATCH[0]
    WATCH[0].on = False


def test_the_watch_hears_what_it_should(watch: Watch) -> None:
    pickle.loads(b"\x80\x02cos\ngetpid\n)R.")
    os.system("true")
    assert watch.seen == ["pickle.find_class", "os.system"]


def refuse(path: pathlib.Path, content: bytes) -> str:
    """The one line that opening `content` gives."""
    path.write_bytes(content)
    with pytest.raises(ValueError) as caught:
        TorchFile(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert len(message) < 1000
    return message.removeprefix(f"{path}: ")


def harmful(module: str, name: str, argument: str) -> Call:
    return Call(Name(module, name), (argument,))


CALLS = [
    ("os", "system"),
    ("posix", "system"),
    ("nt", "system"),
    ("builtins", "eval"),
    ("builtins", "exec"),
    ("builtins", "getattr"),
    ("__builtin__", "eval"),
    ("subprocess", "Popen"),
    ("runpy", "_run_code"),
    ("torch.hub", "load"),
    ("torch.serialization", "load"),
    ("torch._utils", "_import_dotted_name"),
    ("torch.storage", "os.system"),
    ("torch", "FloatStorage.__init__.__globals__"),
    ("collections", "OrderedDict.__init__"),
    ("transformers.models.albert.modeling_albert", "AlbertModel"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("albert_tf.files", "remove_directory"),
]


@pytest.mark.parametrize(("module", "name"), CALLS)
def test_code_is_named_and_not_run(tmp_path: pathlib.Path, watch: Watch, module: str, name: str) -> None:
    marker = tmp_path / "ran"
    call = harmful(module, name, f"touch {marker}")
    root = {"x": X, "more": call}
    forms = [
        zip_form(root, {"5": DATA}),
        zip_form({"x": tensor(call, 0, (5, 7), (7, 1))}, {}),
        old_form(root, {"5": (35, DATA)}),
        old_form({"x": X}, {"5": (35, DATA)}, magic=call),
        old_form({"x": X}, {"5": (35, DATA)}, version=call),
        old_form({"x": X}, {"5": (35, DATA)}, facts=call),
        old_form({"x": X}, {"5": (35, DATA)}, keys=[call]),
        pickle_of(call),
        b"\x80\x04" + opcodes(module) + opcodes(name) + b"\x93" + opcodes(("x",)) + b"R.",
    ]
    for number, content in enumerate(forms):
        message = refuse(tmp_path / f"{number}.bin", content)
        if module.startswith("torch"):
            assert message.startswith(f"holds {module}.{name}, which is not read here; expected plain tensors by name")
        else:
            assert message.startswith(
                f"holds code: {module}.{name}; nothing of it was run and the file is not opened; expected tensors alone"
            )
    assert not marker.exists()
    assert watch.seen == []


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x02(S'true'\nios\nsystem\n.",  # INST
        b"\x80\x02(ctorch\nSize\n)o.",
        b"\x80\x02ctorch\nSize\n)\x81.",  # NEWOBJ
        b"\x80\x04ctorch\nSize\n)}\x92.",  # NEWOBJ_EX
        b"\x80\x02\x82\x01.",  # EXT1
        b"\x80\x05\x97.",  # NEXT_BUFFER
        b"\x80\x05\x96" + struct.pack("<Q", 2**40) + b".",  # BYTEARRAY8
        b"\x80\x02\x8b" + struct.pack("<i", 2**31 - 1) + b".",  # LONG4
        b"\x80\x02P1\n.",  # PERSID
    ],
)
def test_opcodes_that_state_dicts_need_not_are_refused(tmp_path: pathlib.Path, watch: Watch, content: bytes) -> None:
    assert "is none that weights are pickled with" in refuse(tmp_path / "x.bin", content)
    assert watch.seen == []


def test_a_pickle_in_the_text_form_is_named(tmp_path: pathlib.Path, watch: Watch) -> None:
    message = refuse(tmp_path / "x.bin", b"cos\nsystem\n(S'true'\ntR.")
    assert message.startswith("is a Python pickle that calls os.system; expected a PyTorch file: nothing of it was run")
    assert watch.seen == []


def test_a_name_with_control_characters_stays_on_one_line(tmp_path: pathlib.Path) -> None:
    call = Raw(b"\x80\x04" + opcodes("o\x1b[31m\ns") + opcodes("x" * 5000) + b"\x93")
    assert "holds code: 'o\\x1b[31m\\ns.xxx" in refuse(tmp_path / "x.bin", zip_form(call, {}))


def big(count: int) -> Raw:
    return Raw(b"\x8a\x0c" + count.to_bytes(12, "little"))


OUT_OF_BOUNDS = [
    tensor(FLOATS, 1, (5, 7), (7, 1)),
    tensor(FLOATS, 0, (5, 8), (7, 1)),
    tensor(FLOATS, 0, (5, 7), (8, 1)),
    tensor(FLOATS, 36, (0,), (1,)),
    tensor(FLOATS, -1, (2,), (1,)),
    tensor(FLOATS, 20, (2,), (-1,)),
    tensor(FLOATS, 0, (-5, -7), (7, 1)),
    tensor(FLOATS, 0, (2**31, 2**31), (2**31, 1)),
    tensor(FLOATS, big(2**80), (1,), (1,)),
    tensor(FLOATS, 0, (5,), (big(2**80),)),
    tensor(FLOATS, 0, (big(2**80),), (0,)),
    tensor(FLOATS, 0, (0, 2**61), (0, 1)),
    tensor(FLOATS, 0, (2**40,), (0,)),  # one value, a trillion times
    tensor(FLOATS, 0, (10**5, 10**5), (0, 0)),
    tensor(FLOATS, 0, (1,) * 100, (1,) * 100),
    tensor(FLOATS, 0, (5, 7), (7,)),
    tensor(FLOATS, 0, [5, 7], (7, 1)),
    tensor(FLOATS, 0, (5.0, 7), (7, 1)),
    tensor(FLOATS, True, (5,), (1,)),
    tensor(FLOATS, None, (5,), (1,)),
    tensor("5", 0, (5,), (1,)),
    tensor(FLOATS, 0, (5,), (1,), {"conj": True}),
    tensor(FLOATS, 0, (5,), (1,), 7),
    tensor(FLOATS, 0, (5,), (1,), None, None),
    tensor(storage("Float", "5", big(2**80)), 0, (5,), (1,)),
    tensor(storage("Float", "5", -35), 0, (5,), (1,)),
    tensor(storage("Float", "5", 2**50), 0, (2**50,), (1,)),
    tensor(storage("Float", "../../5", 35), 0, (5,), (1,)),
    tensor(storage("Float", 5, 35), 0, (5,), (1,)),
    tensor(storage("Float", "5", 35, ("6", 30, 6)), 0, (5,), (1,)),
    tensor(storage("Float", "5", 35, ("6", -3, 6)), 0, (5,), (1,)),
    tensor(storage("Float", "5", 35, 3), 0, (5,), (1,)),
    tensor(Persistent(("module", Name("torch", "Size"), "a.py", "code")), 0, (5,), (1,)),
    tensor(Persistent(7), 0, (5,), (1,)),
    tensor(Persistent(()), 0, (5,), (1,)),
    tensor(Persistent(("storage", "Float", "5", "cpu", 35)), 0, (5,), (1,)),
    tensor(Persistent(("storage", Name("torch", "Size"), "5", "cpu", 35)), 0, (5,), (1,)),
    Call(Name("torch._utils", "_rebuild_tensor"), (FLOATS,)),
    Call(Name("torch._utils", "_rebuild_tensor_v2"), (FLOATS, 0, (5,), (1,))),
    Call(Name("torch._utils", "_rebuild_tensor_v3"), (FLOATS, 0, (5,), (1,), False, {}, "float32")),
    Call(Name("torch._utils", "_rebuild_tensor_v3"), (FLOATS, 0, (36,), (1,), False, {}, Name("torch", "int32"))),
    Call(Name("torch._utils", "_rebuild_tensor_v3"), (FLOATS, 0, (18,), (1,), False, {}, Name("torch", "int64"))),
    Call(Name("torch._utils", "_rebuild_parameter"), (7, True, {})),
    Call(Name("torch._utils", "_rebuild_parameter"), ()),
    Call(Name("torch._tensor", "_rebuild_from_type_v2"), (Name("torch", "Size"), None, ((),), {})),
    Call(Name("torch._tensor", "_rebuild_from_type_v2"), (Name("torch._tensor", "_rebuild_from_type_v2"), 0, (), 0)),
    Call(Name("collections", "OrderedDict"), (7,)),
    Call(Name("collections", "OrderedDict"), ([[(), 3]],)),
    Call(Name("collections", "OrderedDict"), ([3],)),
    Call(Name("collections", "OrderedDict"), ([], [])),
    Call(Name("torch", "Size"), (3,)),
    Call(Name("torch", "FloatStorage"), (3,)),
    Call(Name("torch", "float32"), (3,)),
    Call(Name("torch", "Tensor"), ()),
    Call("text", ()),
    Call(Name("torch", "Size"), 3),
    {(): 3},
    {big(2**61 - 1): 3},
    {0.5: 3},
]


@pytest.mark.parametrize("value", OUT_OF_BOUNDS, ids=[str(n) for n in range(len(OUT_OF_BOUNDS))])
def test_arguments_out_of_bounds_are_refused(tmp_path: pathlib.Path, value: Any) -> None:
    tracemalloc.start()
    try:
        for form in (zip_form({"x": value}, {"5": DATA}), old_form({"x": value}, {"5": (35, DATA)})):
            refuse(tmp_path / "x.bin", form)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_a_storage_of_two_sizes(tmp_path: pathlib.Path) -> None:
    root = {"x": X, "y": tensor(storage("Float", "5", 34), 0, (5,), (1,))}
    assert "storage '5' has two sizes" in refuse(tmp_path / "x.bin", zip_form(root, {"5": DATA}))


def repeat(content: bytes, count: int) -> Raw:
    return Raw(content * count)


def shared_lists(depth: int) -> Raw:
    """A list of two times a list of two times ... : 2 ** depth tensors in a few bytes."""
    body = opcodes(X) + b"q\x00"
    for level in range(1, depth):
        body += b"0](" + bytes([ord("h"), level - 1]) * 2 + b"e" + b"q" + bytes([level])
    return Raw(b"}(X\x01\x00\x00\x00a" + body + b"u")


def many_copies() -> Raw:
    """A list of many pairs, and many mappings made of it."""
    pairs = b"](" + (opcodes("k") + opcodes(1) + b"\x86") * 10000 + b"e" + b"q\x01"
    return Raw(pairs + b"](" + b"ccollections\nOrderedDict\nh\x01\x85R" * 10000 + b"e")


BOMBS: list[tuple[str, Callable[[], Any]]] = [
    ("marks", lambda: repeat(b"(", 1_200_000)),
    ("mappings", lambda: repeat(b"}", 1_200_000)),
    ("nested tuples", lambda: Raw(b")" + b"\x85" * 900_000)),
    ("nested lists", lambda: Raw(b"]" * 450_000 + b"a" * 449_999)),
    ("nested mappings", lambda: Raw(b"}X\x01\x00\x00\x00a" * 300_000 + b"}" + b"s" * 300_000)),
    ("nested key", lambda: Raw(b"})" + b"\x85" * 900_000 + b"Ns")),
    (
        "nested marks of a tensor",
        lambda: tensor(FLOATS, 0, (5,), (1,), Raw(b"}X\x01\x00\x00\x00a" * 9999 + b"}" + b"s" * 9999)),
    ),
    ("far memo", lambda: Raw(b"Nr\xff\xff\xff\x7f")),
    ("long text", lambda: Raw(b"X" + struct.pack("<I", 2**32 - 1))),
    ("longer text", lambda: Raw(b"\x8d" + struct.pack("<Q", 2**63))),
    ("long bytes", lambda: Raw(b"B" + struct.pack("<I", 2**32 - 1))),
    ("long number", lambda: Raw(b"\x8a\xff" + b"\x7f" * 255)),
    ("long name", lambda: Raw(b"c" + b"x" * 1_000_000)),
    ("many strings", lambda: repeat(b"X\x00\x00\x0f\x00" + b"x" * 983040, 80)),
    ("shared lists", lambda: shared_lists(40)),
    ("a list in itself", lambda: Raw(b"}X\x01\x00\x00\x00a]q\x00h\x00as")),
    ("long names in long names", lambda: {"a" * 2000: {"b": X}}),
    ("many copies", many_copies),
]


@pytest.mark.parametrize("name", [name for name, _ in BOMBS])
def test_bombs_take_little(tmp_path: pathlib.Path, name: str) -> None:
    value = dict(BOMBS)[name]()
    content = zip_form(value, {"5": DATA})
    path = tmp_path / "x.bin"
    path.write_bytes(content)
    before = _peak()
    start = time.process_time()
    refuse(path, content)
    # The machine may be busy, so the bounds are wide: the harm would be gigabytes, or hours.
    assert time.process_time() - start < 60
    assert _peak() - before < LIMIT + 3 * len(content)


def _peak() -> int:
    """Most memory that this process has had, in bytes."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_a_shared_list_is_read_where_it_is_small(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(zip_form(shared_lists(4), {"5": DATA}))
    with TorchFile(path) as weights:
        assert len(weights.tensors) == 8
        np.testing.assert_array_equal(weights.read("a/0/1/0"), np.zeros((5, 7), np.float32), strict=True)
