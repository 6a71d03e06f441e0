"""What all clients share: their configuration, their login, and the page on which they report their progress."""

from __future__ import annotations

import mmap
import struct
import sys
import time
from pathlib import Path
from typing import TypeVar

import msgspec

LIFE = 1_000_000  # the most assignments, polls and reads between two starts of a consumer
GROUP_WORDS = {"assigned": "is assigned", "revoked": "gives back", "lost": "has lost"}
T = TypeVar("T")


def read_config(kind: type[T]) -> T:
    return msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=kind)


class Login(msgspec.Struct, frozen=True):
    """The user as whom a client logs in. The password belongs to the lab and disappears with it: no run keeps it."""

    user: str
    passwords: str  # the lab's file of passwords


def login_settings(login: Login | None) -> dict[str, str]:
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
    """Where a partition ends after the load. `topic` is the topic's number."""

    topic: int
    partition: int
    log_start: int
    high_watermark: int


def write_whole(path: Path, content: bytes) -> None:
    """Write a file under another name and rename it, so that no reader finds a part of it."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_bytes(content)
    temporary.rename(path)


class Progress:
    """A few counters in a page of shared memory: one client writes them, and any process can read them cheaply."""

    # `owned` and `read_whole` are a consumer's: how many partitions it owns and, after the load, has read to the end.
    FIELDS = ("ready", "sent", "acked", "failed", "unknown", "done", "owned", "read_whole")
    _FORM = struct.Struct("<" + "q" * len(FIELDS))

    def __init__(self, path: Path, create: bool = False) -> None:
        # The file never gets shorter, not even for a moment: when a client restarts, a reader still has its page
        # mapped, and the kernel would kill that reader.
        if create and not path.exists():
            new = path.with_name(f".{path.name}.new")
            new.write_bytes(bytes(self._FORM.size))
            new.rename(path)
        with path.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), self._FORM.size)
        if create:
            self.write(*(0 for _ in self.FIELDS))

    def write(self, *values: int) -> None:
        """Write the fields in their order; omitted ones are 0."""
        self._FORM.pack_into(self._page, 0, *values, *(0,) * (len(self.FIELDS) - len(values)))

    def read(self) -> dict[str, int]:
        return dict(zip(self.FIELDS, self._FORM.unpack_from(self._page), strict=True))


def wait_for_go(path: Path, deadline_s: float) -> int:
    """Wait for the file that holds the time at which the load begins. All producers begin at the same moment."""
    deadline = time.monotonic() + deadline_s
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the run did not begin the load within {deadline_s:.0f} s")
        time.sleep(0.002)
    return int(path.read_text())
