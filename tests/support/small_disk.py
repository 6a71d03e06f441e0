"""A disk that is soon full: a small one in memory, which only this process and its children see."""

from __future__ import annotations

import os
from pathlib import Path

from ackproof.host import namespaces as kernel


def mount_small_disk(folder: Path, kilobytes: int) -> None:
    uid, gid = os.getuid(), os.getgid()
    try:
        kernel.unshare(kernel.CLONE_NEWNS)
    except PermissionError:
        kernel.unshare(kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS)
        kernel.map_root(uid, gid)
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("tmpfs", folder, "tmpfs", 0, f"size={kilobytes}k")
