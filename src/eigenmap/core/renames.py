"""Renames in one step that never replace, or that swap two names, where the system has them."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from pathlib import Path

NO_REPLACE, EXCHANGE = 1, 2
"""Flags of Linux's renameat2."""
_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP}
_AT_FDCWD = -100


def renameat2(source: Path, target: Path, flags: int) -> bool:
    """Rename with flags; return False if the system or file system does not support them."""
    if not sys.platform.startswith("linux"):
        return False
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    if call(_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), ctypes.c_uint(flags)) == 0:
        return True
    code = ctypes.get_errno()
    if code in _UNSUPPORTED:
        return False
    raise OSError(code, os.strerror(code), str(source), None, str(target))
