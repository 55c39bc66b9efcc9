"""How commands start TensorFlow: quietly, and with memory kept between training steps.

TensorFlow's native library writes lines such as "Could not find cuda drivers" straight to file descriptor 2 while it is
imported, whatever the log level. They are held back there, and shown if the import fails.
"""

from __future__ import annotations

import contextlib
import ctypes
import glob
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterator
from types import ModuleType
from typing import Any


def quieten_tensorflow() -> None:
    """Leaves out those of TensorFlow's start-up lines that would look like errors of ours. Set variables stay."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if "tensorflow" not in sys.modules and not any(isinstance(f, _QuietFinder) for f in sys.meta_path):
        sys.meta_path.insert(0, _QuietFinder())


def silence_tensorflow() -> None:
    """Leaves out TensorFlow's errors, too, where one line of ours will say what they do in ten; before its import."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"


# Parameters of glibc's mallopt(3), by their numbers in malloc.h; sizes in bytes.
_MALLOC_LIMITS = {
    -1: (1 << 31) - 1,  # M_TRIM_THRESHOLD: free memory above which it is given back
    -2: 128 << 20,  # M_TOP_PAD: asked for beyond what is needed
    -4: 0,  # M_MMAP_MAX: how many large blocks may be mapped on their own, to be unmapped when they are freed
}
# Blocks of 4 MB and more are mapped after all. What stands at the end of the heap must be little, too: glibc cuts large
# blocks from there before it maps one, and leaves gaps as large as they.
_FOR_LITTLE_MEMORY = {-1: 4 << 20, -2: 1 << 20, -4: 65536, -3: 4 << 20}


def keep_freed_memory(*, little: bool = False) -> bool:
    """Makes the C library keep freed memory for the next training step; whether it is one that can (glibc).

    By default it gives large blocks back to the system, and TensorFlow asks for the same ones in every step on a CPU:
    two fifths of the processor time went into that, and into the page faults that follow. The most memory that a run
    holds grows by a tenth.

    Args:
      little: whether memory matters more than time: then blocks of 4 MB and more are given back. In the heap each
        would need a gap as large as itself. A step at base width takes a quarter more processor time.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    limits = _FOR_LITTLE_MEMORY if little else _MALLOC_LIMITS
    return all(mallopt(parameter, value) == 1 for parameter, value in limits.items())


def prepare_training(*, remat: bool, strategy: str) -> None:
    """Starts a training run's memory as its flags --remat and --strategy want it; before TensorFlow runs anything."""
    keep_freed_memory(little=remat)
    if remat and strategy in ("auto", "cpu"):  # devices and workers wait for each other
        run_one_by_one()


def run_one_by_one() -> None:
    """Makes TensorFlow run one operation after the other, each on all cores; to be called before it runs any.

    Two at a time are hardly faster on a CPU, and what they hold together adds to the most memory of a step: of a step
    of many layers nearly surely somewhere.
    """
    import tensorflow as tf

    tf.config.threading.set_inter_op_parallelism_threads(1)


class _QuietFinder(importlib.abc.MetaPathFinder):
    """Finds `tensorflow` as the other finders do, and gives it a loader that is quiet."""

    def __init__(self) -> None:
        self._is_searching = False

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if fullname != "tensorflow" or self._is_searching:
            return None
        self._is_searching = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._is_searching = False
        if spec is not None and spec.loader is not None:
            spec.loader = _QuietLoader(spec.loader)
        return spec


class _QuietLoader(importlib.abc.Loader):
    """Runs another loader with file descriptor 2 held back."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        with held_back():
            self._loader.exec_module(module)
            # Without a GPU the first look for one says "failed call to cuInit: UNKNOWN ERROR": let it be now.
            # /dev/dxg is the GPU under WSL 2, whose errors are worth seeing.
            if not glob.glob("/dev/nvidia*") and not os.path.exists("/dev/dxg"):
                module.config.list_physical_devices()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Keeps what is written to file descriptor 2 in the block; writes it out if the block fails."""
    sys.stderr.flush()
    try:
        original = os.dup(2)
    except OSError:  # the caller closed standard error
        yield
        return
    with tempfile.TemporaryFile() as kept:
        os.dup2(kept.fileno(), 2)
        try:
            yield
        except BaseException:
            os.dup2(original, 2)
            kept.seek(0)
            os.write(2, kept.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(original, 2)
            os.close(original)
