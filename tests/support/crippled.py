"""Run ackproof on a machine that lacks something. The lack is real, and in namespaces, so that no other process has it.

python tests/support/crippled.py '{"refuses": ["nftables"]}' up --brokers 1
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import struct
import sys
from pathlib import Path
from socket import AF_NETLINK
from typing import Any

from ackproof.host import java
from ackproof.host import namespaces as kernel

NETLINK_NETFILTER, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP = 12, 38, 22
LOAD, EQUAL, ANSWER, ALLOWED, ERROR = 0x20, 0x15, 0x06, 0x7FFF0000, 0x00050000
UNSHARE, SOCKET = {"x86_64": (272, 41), "aarch64": (97, 198)}[os.uname().machine]
REFUSED = {  # with a filter of system calls, as in a container
    "namespaces": [(LOAD, 0, 0, 0), (EQUAL, 0, 1, UNSHARE), (ANSWER, 0, 0, ERROR | errno.EPERM)],
    "nftables": [
        (LOAD, 0, 0, 0),
        (EQUAL, 0, 5, SOCKET),  # the number of the call, then its arguments, eight bytes each
        (LOAD, 0, 0, 16),
        (EQUAL, 0, 3, AF_NETLINK),
        (LOAD, 0, 0, 32),
        (EQUAL, 0, 1, NETLINK_NETFILTER),
        (ANSWER, 0, 0, ERROR | errno.EPROTONOSUPPORT),
    ],
}


def cripple(lacks: dict[str, Any]) -> None:
    uid, gid = os.getuid(), os.getgid()
    kernel.unshare(kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{lacks.get('as', 0)} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{lacks.get('as', 0)} {gid} 1")
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    for source, place, kind, flags, options in lacks.get("mounts", []):
        kernel.mount(source, place, kind, flags, options)
    for home in list(java._homes()) if "java" in lacks else []:
        if java._at(home):
            kernel.mount("tmpfs", home.resolve(), "tmpfs")
    for file, value in lacks.get("switches", {}).items():
        Path(file).write_text(value)
    if "full" in lacks:
        fill(Path(lacks["full"]) / "full")
    for refused in lacks.get("refuses", []):
        refuse(refused)


def fill(path: Path) -> None:
    try:
        with path.open("wb", buffering=0) as full:
            while full.write(bytes(2**16)):
                pass
    except OSError:
        pass


def refuse(what: str) -> None:
    steps = [*REFUSED[what], (ANSWER, 0, 0, ALLOWED)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    given = ctypes.create_string_buffer(struct.pack("HP", len(steps), ctypes.addressof(program)))
    call = ctypes.CDLL(None, use_errno=True).prctl
    if call(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or call(PR_SET_SECCOMP, 2, given, 0, 0):
        sys.exit("unshare: no filter of system calls here")


if __name__ == "__main__":
    cripple(json.loads(sys.argv[1]))
    os.execv(sys.executable, [sys.executable, "-P", "-m", "ackproof", *sys.argv[2:]])  # noqa: S606
