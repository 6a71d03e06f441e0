"""A lab with exposed ports leaves everything on the host as it was, to the last byte, while it is up and afterwards."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

import pytest

from tests.support.furnished_host import on_a_host, standing
from tests.support.real_lab import lab, ourselves

SECONDS_MAX = 240
pytestmark = [pytest.mark.cluster, pytest.mark.timeout(SECONDS_MAX + 30)]


@pytest.mark.proves("A7")
@pytest.mark.skipif(os.getuid() != 0, reason="only root can furnish a host")
def test_an_exposed_lab_leaves_the_host_as_it_was_while_it_is_up_and_afterwards(
    record_property: Callable[[str, object], None],
) -> None:
    def up_and_down() -> list[str]:
        with ourselves() as user, lab(user, "guest", "--brokers", "1", "--quorum", "1", "--expose") as guest:
            host, _, port = guest.status()["exposed"].rpartition(":")
            socket.create_connection((host, int(port)), timeout=5).close()
            guest.do("cut", "client", "kafka1")
            guest.do("pause", "kafka1")
            return standing()

    before, after, meanwhile = on_a_host(up_and_down, SECONDS_MAX)
    assert meanwhile == before
    assert after == before
    record_property("figure", f"{len(before)} things of others equal to the last byte while a lab was up, and after")
