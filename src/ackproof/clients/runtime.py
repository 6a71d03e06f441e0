"""What the clients share: how they are told what to do, and how they say how far they are."""

from __future__ import annotations

import mmap
import struct
import sys
import time
from pathlib import Path
from typing import Any, TypeVar

import msgspec

LIFE = 1_000_000  # assignments, polls and reads of one life of a consumer, at most
GROUP_WORDS = {"assigned": "is given", "revoked": "gives back", "lost": "has lost"}
T = TypeVar("T")


def read_config(kind: type[T]) -> T:
    return msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=kind)


class Login(msgspec.Struct, frozen=True):
    """Who a client says it is. The password is the lab's own, and goes with the lab: no run keeps it."""

    user: str
    passwords: str  # the lab's file of them


def login_settings(login: Login | None) -> dict[str, Any]:
    if login is None:
        return {}
    passwords = msgspec.json.decode(Path(login.passwords).read_bytes(), type=dict[str, str])
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": login.user,
        "sasl.password": passwords[login.user],
    }


class LogEnd(msgspec.Struct, frozen=True):
    """How far a partition goes once the load is over, by the topic's number."""

    topic: int
    partition: int
    log_start: int
    high_watermark: int


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that no reader ever finds a part of it: write another, then rename it."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_bytes(content)
    temporary.rename(path)


class Progress:
    """A few counters in a shared page: written by one client, read by whoever wants to know, at no cost to either."""

    # Of a consumer: how many partitions it owns, and of how many it knows, after the load, that it has read them whole.
    FIELDS = ("ready", "sent", "acked", "failed", "unknown", "done", "owned", "read_whole")
    _FORM = struct.Struct("<" + "q" * len(FIELDS))

    def __init__(self, path: Path, create: bool = False) -> None:
        # Never shorter than it should be, not even for a moment: whoever reads the page of a client that is started
        # again would be killed by the kernel.
        if create and not path.exists():
            new = path.with_name(f".{path.name}.new")
            new.write_bytes(bytes(self._FORM.size))
            new.rename(path)
        with path.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), self._FORM.size)
        if create:
            self.write(*(0 for _ in self.FIELDS))

    def write(self, *values: int) -> None:
        """The fields in their order; those that are left out are nothing."""
        self._FORM.pack_into(self._page, 0, *values, *(0,) * (len(self.FIELDS) - len(values)))

    def read(self) -> dict[str, int]:
        return dict(zip(self.FIELDS, self._FORM.unpack_from(self._page), strict=True))


def wait_for_go(path: Path, deadline_s: float) -> int:
    """When the load begins, on the monotonic clock: the same moment for all producers."""
    deadline = time.monotonic() + deadline_s
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"nobody said when to begin within {deadline_s:.0f} s")
        time.sleep(0.002)
    return int(path.read_text())
