"""What must be installed for a TPU, looked up in the metadata of the installed packages: nothing of them is loaded.

By its own metadata tensorflow-tpu 2.20.0 takes every libtpu from 0.0.14 on, but with 0.0.32 or newer the process ends
with SIGABRT while TensorFlow is imported: there is nothing to catch. So the version is looked up before.
"""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Mapping, Sequence

# tensorflow-tpu -> versions of libtpu that go with it. 0.0.21 has no wheel for Python 3.13; 0.0.21.1 has.
NEEDED: Mapping[str, tuple[str, ...]] = {"2.20.0": ("0.0.21", "0.0.21.1")}


def installed_versions(names: Sequence[str], *, path: Sequence[str] | None = None) -> dict[str, str]:
    """Versions of those of the distributions `names` that are installed.

    Args:
      names: names as a package index has them, such as "tensorflow-tpu".
      path: folders to look in; None takes `sys.path`.
    """
    folders = list(sys.path if path is None else path)
    found = {}
    for name in names:
        distributions = importlib.metadata.distributions(name=name, path=folders)
        if (first := next(iter(distributions), None)) is not None:
            found[name] = first.version
    return found


def check_installed(*, is_local: bool, path: Sequence[str] | None = None) -> None:
    """Refuses an installation with which TensorFlow cannot use a TPU, or would end the process.

    Args:
      is_local: whether the TPU is one of this machine, so that TensorFlow itself must be able to drive it.
      path: as in `installed_versions`.

    Raises:
      ValueError: saying what is there, what is needed, and the command that installs it.
    """
    found = installed_versions(("tensorflow-tpu", "tensorflow", "libtpu"), path=path)
    release = found.get("tensorflow-tpu")
    if release is None:
        if is_local:
            there = f"tensorflow {found['tensorflow']} is" if "tensorflow" in found else "no TensorFlow is"
            raise ValueError(
                f"tpu=local needs the package tensorflow-tpu, but {there} installed; `make env-tpu` makes an "
                "environment with it, .venv-tpu"
            )
        return
    needed, libtpu = NEEDED.get(release, ()), found.get("libtpu")
    if needed and libtpu not in needed:
        there = "is not installed" if libtpu is None else f"{libtpu} is installed"
        advised = needed[0] if sys.version_info < (3, 13) else needed[-1]
        raise ValueError(
            f"libtpu {there}, but tensorflow-tpu {release} needs {' or '.join(needed)} (with a newer one the process "
            f"can end while TensorFlow is imported); pip install libtpu=={advised}"
        )
    if "tensorflow" in found:
        raise ValueError(
            f"tensorflow {found['tensorflow']} is installed beside tensorflow-tpu {release} and has overwritten its "
            "files; `make env-tpu` makes an environment without it, .venv-tpu"
        )
