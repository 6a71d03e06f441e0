"""If the lab itself was late, or Kafka's nodes waited for a processor, no check that depends on time is refuted.

Nor is one confirmed by what the lag explains. All other checks are judged as usual.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import pytest

from ackproof.model.run_record import Marks
from ackproof.model.scenario import Expected
from ackproof.model.verdict import Verdict
from tests.support.asking import verdicts_of
from tests.support.histories import History, at

Told = Callable[[str, object], None]

ON_TIME = [(when, 5.0) for when in range(0, 5_000, 125)]
LATE = [look for look in ON_TIME if not 2_000 < look[0] < 3_500]
LATE_AT_FIRST = [(-500.0, 5.0), *((when, took) for when, took in ON_TIME if when >= 1_375)]
LATE_AT_LAST = [*((when, took) for when, took in ON_TIME if when <= 3_500), (6_000.0, 5.0)]
WAITED = [(when, 1_500.0 if when == 2_000 else took) for when, took in LATE]  # for a broker that was slow


def run(
    check: str,
    looks: Iterable[tuple[float, float]],
    behind: float | None = None,
    paused: str = "",
    expected: Expected = "forbidden",
    line: float = 1_000.0,
    until: float = 90.0,
) -> History:
    """Twenty messages; the last was lost, the one before acknowledged after two seconds. The producer was late itself
    by so much; if it is the one that a fault froze, by that."""
    history = History(expect={check: expected}, settings={"unavailable_ms": line, "late_ms": line})
    history.fault(
        ("asked", 5.0), ("proved", 6.0), ("healed", until), kind="pause" if paused else "isolate", became=paused
    )
    for seq in range(20):
        history.send(seq, seq, sent=seq, done=2_100 if seq == 18 else seq + 1)
        if seq != 19:
            history.log(seq, seq)
    history.block(0, 20, 20, behind=behind)
    for when, took in looks:
        history.state(when, 1, leader=1, epoch=0, took=took)
    history.marks = Marks(load_begun_ns=at(0), load_ended_ns=at(5_000))
    return history.end(19)


def shared_out_anew(looks: Iterable[tuple[float, float]]) -> History:
    """Return a run in which an undisturbed member of a group loses its partition and gets it again."""
    history = run("rebalances", looks)
    for when, kind in ((0, "assigned"), (1_500, "revoked"), (1_600, "assigned")):
        history.group(when, kind, consumer=0, group=0, partition=0)
    return history


CASES: dict[str, tuple[History, str]] = {
    "a group that is shared out anew, seen by a laboratory on time": (shared_out_anew(ON_TIME), "refuted"),
    "a group that is shared out anew, and the laboratory late too": (shared_out_anew(LATE), "unknown"),
    "late acknowledgements, seen by a laboratory on time": (run("ack_latency", ON_TIME), "refuted"),
    "late acknowledgements, and the laboratory late too": (run("ack_latency", LATE), "unknown"),
    "late acknowledgements of brokers that took their time": (run("ack_latency", WAITED), "refuted"),
    "a wait, seen by a laboratory on time": (run("unavailable", ON_TIME), "refuted"),
    "a wait, and the laboratory late too": (run("unavailable", LATE), "unknown"),
    "a loss, and the laboratory late too": (run("lost", LATE), "refuted"),
    "a loss, and the producer late itself": (run("lost", ON_TIME, 1_375), "refuted"),
    "late acknowledgements, and the producer late itself": (run("ack_latency", ON_TIME, 1_375), "unknown"),
    "late acknowledgements, the producer late itself, seen by nobody else": (run("ack_latency", [], 1_375), "unknown"),
    "late acknowledgements, the producer hardly late": (run("ack_latency", ON_TIME, 999), "refuted"),
    "late acknowledgements of a producer that a fault froze": (
        run("ack_latency", ON_TIME, 1_375, "producer0"),
        "refuted",
    ),
    "late acknowledgements, another than the producer was frozen": (
        run("ack_latency", ON_TIME, 1_375, "kafka1"),
        "unknown",
    ),
    "late acknowledgements, and a consumer late": (
        run("ack_latency", ON_TIME).late("consumer1", 1_375),
        "unknown",
    ),
    "late acknowledgements, and a consumer late while a fault froze it": (
        run("ack_latency", ON_TIME, paused="consumer1", until=3_100).late("consumer1", 1_375),
        "refuted",
    ),
    "late acknowledgements, and a consumer late long after a fault froze it": (
        run("ack_latency", ON_TIME, paused="consumer1").late("consumer1", 1_375),
        "unknown",
    ),
    "late acknowledgements, and a consumer late for longer than a fault froze it": (
        run("ack_latency", ON_TIME, paused="consumer1").late("consumer1", 1_460, when=1_464),
        "unknown",
    ),
    "late acknowledgements, and a consumer late before a fault froze it and until it went on": (
        run("ack_latency", ON_TIME, paused="consumer1", until=3_001).late("consumer1", 2_996),
        "refuted",
    ),
    "a wait, and the producer late itself": (run("unavailable", ON_TIME, 1_375), "unknown"),
    "a wait, the producer hardly late": (run("unavailable", ON_TIME, 999), "refuted"),
    "a wait, the laboratory late at first": (run("unavailable", LATE_AT_FIRST), "unknown"),
    "a wait, nobody looked before": (run("unavailable", LATE_AT_FIRST[1:]), "unknown"),
    "a wait, the laboratory late at last": (run("unavailable", LATE_AT_LAST), "unknown"),
    "a wait, nobody looked again": (run("unavailable", LATE_AT_LAST[:-1]), "unknown"),
    "a wait that is required, on time": (run("unavailable", ON_TIME, expected="required"), "confirmed"),
    "a wait that is required, and the laboratory late too": (run("unavailable", LATE, expected="required"), "unknown"),
    "a wait that is required, longer than the laboratory was late": (
        run("unavailable", LATE, expected="required", line=700),
        "confirmed",
    ),
    "a wait that is required, hardly longer than it was late": (
        run("unavailable", LATE, expected="required", line=710),
        "unknown",
    ),
    "late acknowledgements, the producer late by less than a second and more than the line": (
        run("ack_latency", ON_TIME, 300, line=200),
        "unknown",
    ),
    "late acknowledgements, the producer late by less than the line": (
        run("ack_latency", ON_TIME, 150, line=200),
        "refuted",
    ),
    "late acknowledgements, and a node waited for a processor": (
        run("ack_latency", ON_TIME).waited((1_000, 700), (2_000, 675)),
        "unknown",
    ),
    "late acknowledgements, and one node waited for a processor after the other": (
        run("ack_latency", ON_TIME).waited((1_000, 700)).waited((2_000, 675), node="zk1"),
        "unknown",
    ),
    "late acknowledgements, and the nodes waited from before the load to beyond it": (
        run("ack_latency", ON_TIME).waited((-900, 1_000), (400, 1_000), (4_600, 700), (5_300, 975), (6_300, 1_000)),
        "unknown",
    ),
    "late acknowledgements, and the nodes hardly waited": (
        run("ack_latency", ON_TIME).waited((1_000, 500), (2_000, 499)),
        "refuted",
    ),
    "late acknowledgements, and the nodes waited now and then": (
        run("ack_latency", ON_TIME).waited((1_000, 700), (4_000, 675)),
        "refuted",
    ),
    "late acknowledgements, and the nodes waited before the load and after it": (
        run("ack_latency", ON_TIME).waited((-900, 1_000), (100, 1_000), (900, 800), (5_400, 1_000), (6_400, 1_000)),
        "refuted",
    ),
    "a wait, and the nodes waited for a processor": (
        run("unavailable", ON_TIME).waited((1_000, 700), (2_000, 675)),
        "unknown",
    ),
    "a loss, and the nodes waited for a processor": (
        run("lost", ON_TIME).waited((1_000, 700), (2_000, 675)),
        "refuted",
    ),
    "a wait that is required, longer than the nodes waited": (
        run("unavailable", ON_TIME, expected="required", line=700).waited((1_000, 700), (2_000, 675)),
        "confirmed",
    ),
    "a wait that is required, hardly longer than the nodes waited": (
        run("unavailable", ON_TIME, expected="required", line=710).waited((1_000, 700), (2_000, 675)),
        "unknown",
    ),
    "late acknowledgements, and the nodes waited for less than a second and more than the line": (
        run("ack_latency", ON_TIME, line=200).waited((2_000, 300)),
        "unknown",
    ),
}


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Verdict]:
    return verdicts_of(CASES, tmp_path_factory.mktemp("runs"))


@pytest.mark.proves("D3")
@pytest.mark.parametrize("case", CASES)
def test_checks_that_depend_on_time_are_unknown_if_the_lab_was_late(
    verdicts: dict[str, Verdict], case: str, record_property: Told
) -> None:
    verdict, expected = verdicts[case], CASES[case][1]
    (check,) = [check for check in verdict.checks if check.name in CASES[case][0].expect]
    assert check.result == expected, check.text
    assert verdict.result == expected, verdict.sentence
    was_late = re.search(r"the lab itself was late by up to (1,375|300) ms", check.text)
    waited = re.search(r"the nodes waited up to (1,375|300) ms for a processor", check.text)
    assert (was_late is not None or waited is not None) == (expected == "unknown")
    assert (waited is not None) == ("waited" in case and expected == "unknown")
    record_property("figure", f"{len(CASES)} runs of a laboratory on time and of one that was late, judged as they are")
