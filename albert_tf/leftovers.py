"""What processes that were killed left unfinished: temporary files and folders of `albert_tf.files`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection

from absl import logging

from albert_tf.files import MARK, is_remote, remove_directory


def remove_leftovers(folder: str | os.PathLike[str], names: Collection[str]) -> None:
    """Removes what processes that were killed left of files and folders of these names in a local folder, unfinished.

    What a process that is alive works on stays; so does all in a remote folder, of whose processes nothing is known.
    """
    if is_remote(folder) or not os.path.isdir(folder):
        return
    for name in os.listdir(folder):
        mark = MARK.search(name)
        if mark is None or mark.end() < len(name) or name[: mark.start()] not in names or _is_alive(int(mark[1])):
            continue
        path = os.path.join(folder, name)
        if os.path.isdir(path):
            remove_directory(path)
        else:
            with contextlib.suppress(OSError):
                os.remove(path)
        logging.info("%s: was left unfinished by a process that was killed; removed", path)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
