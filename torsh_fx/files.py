"""Writing a file whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from typing import Any


def write_whole(path: Any, data: bytes) -> None:
    """Put ``data`` in the place of the file at ``path``.

    It is written to a file beside it, and is on the disk before that takes its name: whoever
    looks, at any time, also after a crash, finds the old file or the new one.  A process that is
    killed while it writes leaves a hidden ``.NAME.*.tmp`` behind.

    Raises:
        OSError: Python's own, such as FileNotFoundError for a folder that there is not.
    """
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    beside = os.path.join(folder, f".{name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        with open(beside, "xb") as file:
            with contextlib.suppress(FileNotFoundError):
                os.chmod(beside, stat.S_IMODE(os.stat(target).st_mode))
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise
    if os.name == "posix":  # the name, too, must survive a crash
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
