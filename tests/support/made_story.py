"""The made-up story that `make_run` writes: what differs from run to run, and when each thing happened."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ackproof.model.run_record import Clock

S = 1_000_000_000
RUN = 1_794_737_000_000_000  # microseconds since 1970: 2026-11-15 10:03:20 UTC
BEGAN = Clock(wall_ns=RUN * 1000, monotonic_ns=5_000 * S)
LOAD = BEGAN.monotonic_ns + 20 * S
OLD, NEW, THIRD = 2, 1, 3
NODES = {1: "kafka1", 2: "kafka2", 3: "kafka3"}


@dataclass(frozen=True)
class Shape:
    """The facts that differ between made-up runs."""

    name: str = "base"
    scenario: str = "acks1-leader-isolated"
    title: str = "acks=1, and the leader is cut off from all other nodes while clients still reach it"
    shape: str = "base"
    mode: str = "zookeeper"
    acks: str = "1"
    producers: int = 1
    count: int = 100_000
    rate: float = 4_000.0
    fault_at: int = 30_000
    loses: bool = True
    consumers: bool = False
    fit: bool = True
    judged: bool = True
    sealed: bool = True
    ended: Any = "complete"
    topic: str = "orders"
    check_text: str = ""
    log_lines: tuple[str, ...] = ()
    latency_spike_ms: float = 412.0
    argv: tuple[str, ...] = ("./ackproof", "run", "acks1-leader-isolated", "--seed", "7")
    expect: dict[str, Any] = field(default_factory=lambda: {"lost": "required"})


SMALL: dict[str, Any] = {"count": 2_000, "rate": 200.0, "fault_at": 600}
SHAPES = {
    "base": Shape(),
    "small": Shape("small", **SMALL),
    "unknown": Shape("unknown", fit=False, loses=False, **SMALL),
    "interrupted": Shape("interrupted", judged=False, sealed=False, ended="interrupted", **SMALL),
    "no-loss": Shape(
        "no-loss", scenario="acksall-leader-isolated", acks="all", loses=False, expect={"lost": "forbidden"}, **SMALL
    ),
    "refuted": Shape("refuted", loses=False, **SMALL),
    "crash": Shape(
        "crash",
        scenario="acks1-leader-killed",
        title="acks=1, and the leader is killed",
        loses=False,
        expect={},
        **SMALL,
    ),
    "crowd": Shape("crowd", shape="crowd", producers=10, count=100_000, rate=2_000.0, fault_at=300_000, consumers=True),
}


class Times:
    """The moments of the story, in monotonic nanoseconds, and the offset at which replication ended."""

    def __init__(self, shape: Shape) -> None:
        self.length_s = shape.count / shape.rate
        total_rate = shape.rate * shape.producers
        self.total = shape.count * shape.producers
        self.asked = LOAD + int(shape.fault_at / total_rate * S)
        self.proved = self.asked + S * 15 // 100
        self.elected = min(self.proved + S * 65 // 10, LOAD + int(self.length_s * 0.9 * S))
        self.load_ended = LOAD + int(self.length_s * S)
        self.healed = self.load_ended + S * 6 // 10
        self.truncated = self.healed + S * 4 // 10
        self.isr_full = self.truncated + S * 3 // 10
        self.drained = self.isr_full + S * 15 // 10
        self.mark = int((self.proved - LOAD) / S * total_rate) - 12 if shape.loses else self.total
