"""Find the process that holds a TCP port: the kernel lists the inode of each socket, and each process its descriptors.

A socket that is bound, but neither listens nor is connected, is in no list. Only root sees the descriptors of others.
"""

from __future__ import annotations

import pwd
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
LISTENS = "0A"


def holder_of(port: int) -> str:
    """The holder of a port, in words."""
    held = [socket for table in ("net/tcp", "net/tcp6") for socket in _sockets(PROC / table) if socket[0] == port]
    if not held:
        return "held by a process that does not listen there"
    _, _, user, inode = min(held, key=lambda socket: socket[1] != LISTENS)
    for folder in sorted(PROC.glob("[0-9]*"), key=lambda folder: int(folder.name)):
        with suppress(OSError):  # another user's process, or one that has ended meanwhile
            if any(str(each.readlink()) == f"socket:[{inode}]" for each in (folder / "fd").iterdir()):
                return f"held by {(folder / 'comm').read_text(errors='replace').strip()} (pid {folder.name})"
    return f"held by a process of {_name(user)} that cannot be seen from here"


def _sockets(table: Path) -> list[tuple[int, str, int, int]]:
    """The port, state, user and inode of each socket. One in TIME_WAIT has no process any more."""
    rows = []
    with suppress(OSError):  # a kernel without IPv6
        for line in table.read_text().splitlines()[1:]:
            words = line.split()
            port, state, user, inode = int(words[1].rpartition(":")[2], 16), words[3], int(words[7]), int(words[9])
            if inode:
                rows.append((port, state, user, inode))
    return rows


def _name(user: int) -> str:
    try:
        return f"user {pwd.getpwuid(user).pw_name}"
    except KeyError:
        return f"user {user}"
