"""Other releases of Kafka than the two defaults: an older line in both modes, and the first without ZooKeeper.

The first run fetches each release, which takes a minute. `scripts/fetch.py` fetches them too.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.real_lab import User, lab, ourselves

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def us() -> Iterator[User]:
    with ourselves() as user:
        yield user


@pytest.mark.parametrize(("version", "mode"), [("3.4.1", "zookeeper"), ("3.4.1", "kraft"), ("4.0.0", "kraft")])
def test_another_release_serves_and_its_broker_can_be_killed(us: User, version: str, mode: str) -> None:
    with lab(us, "other", "--kafka", version, "--mode", mode, "--brokers", "2", "--quorum", "1", timeout_s=500) as made:
        made.topic("create", "orders")
        assert made.status()["kafka"] == version
        made.do("kill", "leader:orders/0")
        made.do("start", _dead(made.status()))
        assert {node["state"] for node in made.status()["nodes"]} == {"running", "namespace"}


def _dead(status: dict[str, list[dict[str, str]]]) -> str:
    return next(node["name"] for node in status["nodes"] if node["state"] == "down")
