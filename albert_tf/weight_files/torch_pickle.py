"""Reads pickles that hold tensors as data. No pickled code runs, since nothing here can run any.

Python's unpickler calls what a pickle names. This is another machine for the same opcodes: it knows those that state
dicts are written with, and where a pickle asks for a global or a call, it looks into a table of a few names. What is
not in the table is refused by its name. Numbers of bytes and of steps are bounded, so a small file cannot ask for
much memory. The meaning of the opcodes is documented in Python's `pickletools`.
"""

from __future__ import annotations

import dataclasses
import pickle
import re
import struct
from collections.abc import Callable, Mapping
from typing import Any

from albert_tf.weight_files.byte_file import ByteFile

_MAX_BYTES = 2**26  # of a pickle; that of a model with ten thousand tensors has two million
_MAX_STEPS = 1_000_000  # a tensor takes about thirty-five
_MAX_STRING = 2**20  # bytes; names of tensors have a few dozen
_MAX_LONG = 64  # bytes of a whole number; PyTorch's magic number has ten
_MAX_LINE = 512  # bytes of a global's module or name
_CHUNK = 2**16


@dataclasses.dataclass(frozen=True)
class Global:
    """A class or function that a pickle names, as its name alone."""

    name: str


# A known global's name -> what a call of it stands for; None where it is never called.
Calls = Mapping[str, Callable[[str, tuple], Any] | None]


def is_key(value: Any) -> bool:
    """Whether a mapping may have `value` for a key: a text or a small whole number.

    A tuple may be nested so deep that its hash takes all of the stack, large numbers may be chosen to have one hash.
    """
    return isinstance(value, str) or (isinstance(value, int) and abs(value) < 2**60)


class PickleReader:
    """Reads pickles that follow each other in a file.

    Attributes:
      at: byte where the next one begins.
    """

    def __init__(
        self, file: ByteFile, begin: int, end: int, *, calls: Calls, persistent: Callable[[Any], Any] | None = None
    ) -> None:
        """Makes a reader of the bytes `begin` to `end` of a file.

        Args:
          file: the file.
          begin: byte where the first pickle begins.
          end: byte behind the last one.
          calls: the globals that a pickle may name.
          persistent: gives the object for a persistent id; None if there may be none.
        """
        self.path = file.path
        self.at = begin
        self._file = file
        self._end = end
        self._window = b""
        self._window_begin = begin
        self._calls = calls
        self._persistent = persistent
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}

    def load(self) -> Any:
        """The value of the next pickle: Python's plain values, `Global`, and what calls and persistent ids stand for.

        Raises:
          ValueError: if it names other globals, is damaged or beyond all measure; the path is named.
        """
        self._stack, self._marks, self._memo = [], [], {}
        limit = self.at + _MAX_BYTES
        for _ in range(_MAX_STEPS):
            opcode = self._take(1)
            if opcode == pickle.STOP:
                return self._pop()
            step = _STEPS.get(opcode)
            if step is None:
                raise self.damaged(f"opcode {opcode!r} is none that weights are pickled with")
            step(self)
            if self.at > limit:
                break
        raise ValueError(f"{self.path}: its pickle is larger than that of any weights; it is not opened")

    def damaged(self, what: str) -> ValueError:
        """An error that says what is wrong."""
        return ValueError(f"{self.path}: damaged, or no PyTorch file: near byte {self.at} of its pickle: {what}")

    def _take(self, count: int) -> bytes:
        """The next `count` bytes."""
        if count > _MAX_STRING:
            raise self.damaged(f"a text of {count} bytes")
        if self.at + count > self._end:
            raise ValueError(f"{self.path}: cut short: its pickle does not end; download the file again")
        offset = self.at - self._window_begin
        if offset + count > len(self._window):
            self._window = self._file.read_at(self.at, min(max(count, _CHUNK), self._end - self.at))
            self._window_begin, offset = self.at, 0
        self.at += count
        return self._window[offset : offset + count]

    def _number(self, form: str) -> int:
        value: int = struct.unpack(form, self._take(struct.calcsize(form)))[0]
        return value

    def _line(self) -> str:
        content = bytearray()
        while (byte := self._take(1)) != b"\n":
            content += byte
            if len(content) > _MAX_LINE:
                raise self.damaged("a name without an end")
        return self._decode(bytes(content))

    def _decode(self, content: bytes) -> str:
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError:
            raise self.damaged("a text that is not UTF-8") from None

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _pop(self) -> Any:
        if not self._stack:
            raise self.damaged("a value is missing")
        return self._stack.pop()

    def _pop_to_mark(self) -> list[Any]:
        if not self._marks:
            raise self.damaged("a mark is missing")
        begin = self._marks.pop()
        values = self._stack[begin:]
        del self._stack[begin:]
        return values

    def _pop_tuple(self, size: int) -> None:
        if len(self._stack) < size:
            raise self.damaged("a value is missing")
        self._stack[-size:] = [tuple(self._stack[-size:])]

    def _check_protocol(self) -> None:
        if not 2 <= self._number("<B") <= 5:
            raise self.damaged("a protocol other than 2 to 5")

    def _skip_frame(self) -> None:
        self._take(8)  # a length that only helps to read ahead

    def _discard(self) -> None:
        self._pop()

    def _mark(self) -> None:
        self._marks.append(len(self._stack))

    def _text(self, form: str) -> None:
        self._push(self._decode(self._take(self._number(form))))

    def _whole_number(self) -> None:
        size = self._number("<B")
        if size > _MAX_LONG:
            raise self.damaged(f"a number of {size} bytes")
        self._push(int.from_bytes(self._take(size), "little", signed=True))

    def _recall(self, form: str) -> None:
        index = self._number(form)
        if index not in self._memo:
            raise self.damaged(f"there is no object {index}")
        self._push(self._memo[index])

    def _remember(self, index: int) -> None:
        value = self._pop()
        self._memo[index] = value
        self._push(value)

    def _global(self, module: str, name: str) -> None:
        full = f"{module}.{name}"
        if full in self._calls:
            self._push(Global(full))
            return
        shown = full if re.fullmatch(r"[\w.]{1,200}", full) else repr(full[:200])
        if module.partition(".")[0] == "torch":
            raise ValueError(
                f"{self.path}: holds {shown}, which is not read here; expected plain tensors by name: save the "
                f"model's state_dict()"
            )
        raise ValueError(
            f"{self.path}: holds code: {shown}; nothing of it was run and the file is not opened; expected tensors "
            f"alone: if you trust its source, save the model's state_dict() or take safetensors"
        )

    def _stack_global(self) -> None:
        name, module = self._pop(), self._pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise self.damaged("a global without a name")
        self._global(module, name)

    def _call(self) -> None:
        arguments, function = self._pop(), self._pop()
        call = self._calls.get(function.name) if isinstance(function, Global) else None
        if call is None or not isinstance(arguments, tuple):
            raise self.damaged("a call of something that cannot be called")
        self._push(call(self.path, arguments))

    def _build(self) -> None:
        self._pop()  # attributes of a state dict: versions of the model's parts, no weights
        if not isinstance(self._stack[-1] if self._stack else None, dict):
            raise self.damaged("attributes of something that has none")

    def _persistent_id(self) -> None:
        if self._persistent is None:
            raise self.damaged("a storage where none can be")
        self._push(self._persistent(self._pop()))

    def _append(self, values: list[Any]) -> None:
        target = self._pop()
        if not isinstance(target, list):
            raise self.damaged("an item of something that is no list")
        target.extend(values)
        self._push(target)

    def _set_items(self, values: list[Any]) -> None:
        target = self._pop()
        if not isinstance(target, dict) or len(values) % 2:
            raise self.damaged("a pair of something that is no mapping")
        for key, value in zip(values[::2], values[1::2], strict=True):
            if not is_key(key):
                raise self.damaged("a key that is neither a text nor a small number")
            target[key] = value
        self._push(target)


_STEPS: dict[bytes, Callable[[PickleReader], None]] = {
    pickle.PROTO: PickleReader._check_protocol,
    pickle.FRAME: PickleReader._skip_frame,
    pickle.MARK: PickleReader._mark,
    pickle.POP: PickleReader._discard,
    pickle.NONE: lambda reader: reader._push(None),
    pickle.NEWTRUE: lambda reader: reader._push(True),
    pickle.NEWFALSE: lambda reader: reader._push(False),
    pickle.BININT: lambda reader: reader._push(reader._number("<i")),
    pickle.BININT1: lambda reader: reader._push(reader._number("<B")),
    pickle.BININT2: lambda reader: reader._push(reader._number("<H")),
    pickle.LONG1: PickleReader._whole_number,
    pickle.BINFLOAT: lambda reader: reader._push(reader._number(">d")),
    pickle.BINUNICODE: lambda reader: reader._text("<I"),
    pickle.SHORT_BINUNICODE: lambda reader: reader._text("<B"),
    pickle.BINUNICODE8: lambda reader: reader._text("<Q"),
    pickle.BINSTRING: lambda reader: reader._text("<I"),  # Python 2's texts
    pickle.SHORT_BINSTRING: lambda reader: reader._text("<B"),
    pickle.BINBYTES: lambda reader: reader._push(reader._take(reader._number("<I"))),
    pickle.SHORT_BINBYTES: lambda reader: reader._push(reader._take(reader._number("<B"))),
    pickle.EMPTY_DICT: lambda reader: reader._push({}),
    pickle.EMPTY_LIST: lambda reader: reader._push([]),
    pickle.EMPTY_TUPLE: lambda reader: reader._push(()),
    pickle.TUPLE: lambda reader: reader._push(tuple(reader._pop_to_mark())),
    pickle.TUPLE1: lambda reader: reader._pop_tuple(1),
    pickle.TUPLE2: lambda reader: reader._pop_tuple(2),
    pickle.TUPLE3: lambda reader: reader._pop_tuple(3),
    pickle.APPEND: lambda reader: reader._append([reader._pop()]),
    pickle.APPENDS: lambda reader: reader._append(reader._pop_to_mark()),
    pickle.SETITEM: lambda reader: reader._set_items([reader._pop(), reader._pop()][::-1]),
    pickle.SETITEMS: lambda reader: reader._set_items(reader._pop_to_mark()),
    pickle.BINPUT: lambda reader: reader._remember(reader._number("<B")),
    pickle.LONG_BINPUT: lambda reader: reader._remember(reader._number("<I")),
    pickle.MEMOIZE: lambda reader: reader._remember(len(reader._memo)),
    pickle.BINGET: lambda reader: reader._recall("<B"),
    pickle.LONG_BINGET: lambda reader: reader._recall("<I"),
    pickle.GLOBAL: lambda reader: reader._global(reader._line(), reader._line()),
    pickle.STACK_GLOBAL: PickleReader._stack_global,
    pickle.REDUCE: PickleReader._call,
    pickle.BUILD: PickleReader._build,
    pickle.BINPERSID: PickleReader._persistent_id,
}
