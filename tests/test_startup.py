"""TensorFlow's start-up lines: held back in a command, shown when the import fails."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import importlib.util, sys
from albert_tf.startup import quieten_tensorflow
sys.path.insert(0, {folder!r})
quieten_tensorflow()
quieten_tensorflow()
assert importlib.util.find_spec("tensorflow").name == "tensorflow"  # a mere look must not end the quiet
import tensorflow
print("name", tensorflow.__name__, tensorflow.__spec__.name, tensorflow.VALUE)
print("after", file=sys.stderr)
"""


CONFIG = """
class config:
    @staticmethod
    def list_physical_devices():
        os.write(2, b"no GPU")
"""


def start(tmp_path, source):
    """Imports a `tensorflow` that is `source` in a process of its own."""
    (tmp_path / "tensorflow.py").write_text(source)
    program = PROGRAM.format(folder=str(tmp_path))
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)


def test_lines_written_while_importing_are_held_back(tmp_path):
    done = start(
        tmp_path, 'import os, sys\nos.write(2, b"noise")\nprint("noise", file=sys.stderr)\nVALUE = 7\n' + CONFIG
    )
    assert done.stdout == "name tensorflow tensorflow 7\n"
    assert done.stderr == "after\n"


def test_lines_are_shown_when_the_import_fails(tmp_path):
    done = start(tmp_path, 'import os\nos.write(2, b"the reason\\n")\nraise ImportError("broken")\n')
    assert done.returncode == 1
    assert done.stderr.startswith("the reason\n")
    assert "ImportError: broken" in done.stderr


# Prints whether the C library can do so, and how many pages 20 blocks, one after the other, have asked for.
PAGES = """
import ctypes, resource
from albert_tf import startup
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = libc.memset.argtypes = None
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        block = ctypes.c_void_p(libc.malloc(ctypes.c_size_t({size})))
        libc.memset(block, 1, ctypes.c_size_t({size}))
        libc.free(block)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(startup.keep_freed_memory({arguments}), faults())
"""


def page_faults(size: int, arguments: str) -> int:
    if platform.libc_ver()[0] != "glibc":
        pytest.skip("only glibc has mallopt")
    program = PAGES.format(size=size, arguments=arguments)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    is_set, faults = done.stdout.split()
    assert is_set == "True"
    return int(faults)


def test_freed_memory_is_kept():
    """A block that is freed is not given back, so that its pages need not be asked for again."""
    # 80 MiB, beyond glibc's largest limit for a block that is mapped on its own, are 20,480 pages: once, not 20 times
    assert page_faults(80 << 20, "") < 2 * 20_480


def test_little_memory_is_kept_where_it_matters_more_than_time():
    # 1,536 pages each time; at least 500 where the system gives huge ones
    assert page_faults(6 << 20, "little=True") > 19 * 500
    assert page_faults(6 << 20, "") < 2 * 1536
    assert page_faults(1 << 20, "little=True") < 2 * 256  # too small to matter


def test_operations_run_one_by_one():
    program = """
from albert_tf import startup
startup.run_one_by_one()
import tensorflow as tf
print(tf.config.threading.get_inter_op_parallelism_threads(), tf.reduce_sum(tf.ones([3])).numpy())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "1 3.0\n"
