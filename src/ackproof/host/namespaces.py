"""Calls to the kernel that Python 3.11 lacks: namespaces, mounts, and the tie of a child to its parent.

A thread can be in another network namespace than the rest of its process, and a socket stays in the namespace in which
it was made. So one supervisor can hold a socket in every node's namespace, and probe any pair of nodes.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_REC = 16384
MS_BIND = 4096
MS_PRIVATE = 1 << 18
MS_NOSUID = 2
MS_NODEV = 4

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    _checked(_libc.unshare(ctypes.c_int(flags)), "unshare")


def setns(fd: int, kind: int = 0) -> None:
    _checked(_libc.setns(ctypes.c_int(fd), ctypes.c_int(kind)), "setns")


def mount(source: str, target: str | Path, kind: str = "", flags: int = 0, options: str = "") -> None:
    result = _libc.mount(
        source.encode(), os.fsencode(target), kind.encode() or None, ctypes.c_ulong(flags), options.encode() or None
    )
    _checked(result, f"mount {target}")


def die_with_parent(signal_number: int, parent: int | None = None) -> None:
    """Send this signal to the calling process when the thread that started it ends.

    If `parent` has already ended, the signal is sent at once.
    """
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal_number), 0, 0, 0), "prctl")
    if parent is not None and os.getppid() != parent:
        os.kill(os.getpid(), signal_number)


def adopt_orphans() -> None:
    """Make the calling process, instead of the first process, the parent of its descendants' orphans."""
    _checked(_libc.prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0), "prctl")


def map_root(uid: int, gid: int) -> None:
    """Make the calling process root of the user namespace that it has just entered. `uid`, `gid`: its ids outside."""
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1")


def own_network() -> int:
    """A descriptor of the network namespace of the calling thread."""
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def new_network() -> int:
    """A new network namespace without a name. It exists while a descriptor or a process holds it."""
    home = own_network()
    try:
        unshare(CLONE_NEWNET)
        return own_network()
    finally:
        setns(home, CLONE_NEWNET)
        os.close(home)


@contextmanager
def inside(network: int) -> Iterator[None]:
    """Move the calling thread, and no other, into this network namespace."""
    home = own_network()
    try:
        setns(network, CLONE_NEWNET)
        yield
    finally:
        setns(home, CLONE_NEWNET)
        os.close(home)
