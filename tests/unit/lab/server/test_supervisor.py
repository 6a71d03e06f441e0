"""The tie between a lab and its maker: who goes away without letting go takes the lab along."""

from __future__ import annotations

import os
import socket
from contextlib import closing

import pytest

from ackproof.lab.server.supervisor import Tether


class Exited(Exception):
    pass


@pytest.fixture(autouse=True)
def _exits(monkeypatch: pytest.MonkeyPatch) -> None:
    def exits(code: int) -> None:
        raise Exited(code)

    monkeypatch.setattr(os, "_exit", exits)


@pytest.mark.proves("A1")
@pytest.mark.parametrize("unread", [True, False])
def test_a_maker_that_is_gone_ends_its_lab_whether_it_had_read_everything_or_not(unread: bool) -> None:
    ours, theirs = socket.socketpair()
    tether = Tether(theirs.detach())
    if unread:  # then the kernel tells of its end by an error
        tether.tell(progress="network made")
    ours.close()
    with closing(tether._socket), pytest.raises(Exited):
        tether.hold()


def test_near_miss_a_maker_that_lets_go_and_is_gone_leaves_its_lab_alone() -> None:
    ours, theirs = socket.socketpair()
    tether = Tether(theirs.detach())
    ours.sendall(b"detach\n")
    ours.close()
    tether.hold()
