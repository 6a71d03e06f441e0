"""A delay with a duration is ended by a fault timer, as a pause is. The delay is simulated: some kernels lack netem."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ackproof.host.own_program import own_program
from ackproof.lab.audit_log import Events
from ackproof.lab.directory import LabDirectory
from ackproof.lab.faults import network as faults
from ackproof.lab.faults.active import Lab
from ackproof.lab.faults.injection import Injection
from ackproof.lab.network import netem as network
from ackproof.lab.server import fault_timer as watchdog
from ackproof.model.faults import Slow

SLOWED = {"kafka1": ("to-kafka1", 31), "kafka3": ("to-kafka3", 33)}  # interface, and our descriptor of its namespace


@pytest.mark.proves("A4")
def test_the_watchdog_of_a_delay_takes_it_from_every_node_that_is_slow_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawned: dict[str, Any] = {}

    def spawn(name: str, argv: list[str], **how: Any) -> None:
        spawned.update(name=name, argv=argv, **how)

    standing = SimpleNamespace(
        name="f7", until=time.monotonic() + 0.01, proof=SimpleNamespace(proved="proved"), told=dict
    )
    endpoints = {
        name: SimpleNamespace(interface=interface, namespace=number) for name, (interface, number) in SLOWED.items()
    }
    lab = SimpleNamespace(
        active={},
        next_name=lambda: "f7",
        begin=lambda *_, **__: standing,
        network=SimpleNamespace(endpoints=endpoints, router_namespace=9),
        processes=SimpleNamespace(spawn=spawn),
    )
    directory = SimpleNamespace(events=tmp_path / "events.jsonl", supervisor_log=tmp_path / "log")
    monkeypatch.setattr(Injection, "named", lambda _, names: names)
    faults.slow(Injection(cast(Lab, lab), cast(LabDirectory, directory), for_s=0.01), Slow(list(SLOWED), delay_ms=100))
    assert (spawned["name"], spawned["namespace"]) == ("watchdog-f7", 9), "where the interfaces are"
    assert spawned["argv"][:4] == own_program("ackproof.lab.server.fault_timer")

    dropped: list[tuple[str, int]] = []
    monkeypatch.setattr(network, "remove_delay", lambda interface, number: dropped.append((interface, number)))
    watchdog.main(spawned["argv"][4:])
    ours = spawned["descriptors"]
    assert [(interface, ours[number]) for interface, number in dropped] == list(SLOWED.values())
    (event,) = Events(directory.events).read()
    assert (event["event"], event["fault"], event["by"]) == ("expired", "f7", "watchdog")
