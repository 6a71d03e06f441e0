"""The public result of 2019, for comparison: Kafka 2.0, one producer (crowd: ten), retries off.

Compare shapes, not digits: what is lost is the rate times the time that the old leader went on acknowledging, and both
depend on the machine and on time-outs. At that time, acknowledged minus high watermark was compared by hand.
"""

from __future__ import annotations

from dataclasses import dataclass

SOURCE = "public result, Kafka 2.0, 2019"


@dataclass(frozen=True)
class PublicResult:
    scenario: str
    shape: str
    acked: int | None
    high_watermark: int | None
    note: str = ""

    @property
    def difference(self) -> int | None:
        return None if self.acked is None or self.high_watermark is None else self.acked - self.high_watermark


PUBLIC: tuple[PublicResult, ...] = (
    PublicResult("acks0-leader-killed", "base", 100_000, 99_979),
    PublicResult("acks1-leader-killed", "base", 99_974, 99_974),
    PublicResult("acks1-leader-killed", "crowd", 846_117, 846_037),
    PublicResult("acksall-leader-killed", "crowd", 801_679, 801_683),
    PublicResult("acks1-leader-isolated", "base", 95_513, 59_925),
    PublicResult("acks1-leader-isolated", "slow", None, None, "10 lost"),
    PublicResult("acksall-leader-isolated", "base", 51_029, 51_035),
    PublicResult("acksall-leader-isolated", "crowd", 727_937, 727_937),
    PublicResult("acks1-leader-without-zookeeper", "base", 100_000, 61_791),
    PublicResult("acks1-leader-without-zookeeper", "slow", 40, 25),
    PublicResult("acksall-leader-without-zookeeper", "base", 84_634, 84_638),
)


def public_results(scenario: str) -> list[PublicResult]:
    return [result for result in PUBLIC if result.scenario == scenario]
