"""Messages that a group lacks because of the lab are unknown; messages that its consumers passed over are refuted."""

from __future__ import annotations

import pytest

from ackproof.model.run_record import Marks
from ackproof.model.scenario import Expected
from ackproof.model.verdict import Verdict
from tests.support.asking import verdicts_of
from tests.support.histories import History, at

TEN = range(10)
GAP = tuple(each for each in TEN if each != 3)


def run(check: str = "undelivered", expected: Expected = "forbidden", partitions: int = 1) -> History:
    """Return a run with ten messages in each partition, all of them in the log."""
    history = History(expect={check: expected})
    for partition in range(partitions):
        for seq in TEN:
            number = seq + 10 * partition
            history.send(number, seq, partition=partition, sent=number).log(seq, number, partition=partition)
        history.group(0, "assigned", partition=partition)
    history.marks = Marks(load_begun_ns=at(0), load_ended_ns=at(5_000))
    return history


def reads(history: History, *offsets: int, partition: int = 0, consumer: int = 0, group: int = 0) -> History:
    for offset in offsets:
        history.read(offset, offset + 10 * partition, partition=partition, consumer=consumer, group=group)
    return history


def watched(history: History, *behind: float, consumer: int = 0) -> History:
    """Return a run whose processes each report how late they were."""
    return history.late("observer").late(f"consumer{consumer + 1}", *behind, when=30_000)


def first_five() -> History:
    return reads(run(), *range(5))


def killed(history: History, consumer: int = 0) -> History:
    return watched(history, consumer=consumer).ended_when_told(consumer, signal=9)


def ended(history: History, *behind: float, consumer: int = 0) -> History:
    return watched(history, *behind, consumer=consumer).ended_when_told(consumer)


def by_a_fault(history: History, *kinds: str, became: str = "consumer1") -> History:
    for number, kind in enumerate(kinds):
        history.fault(("asked", 3.0 + number), ("proved", 3.5 + number), ("healed", 9.0), kind=kind, became=became)
    return history


def paused(history: History, end: float, became: str = "consumer1") -> History:
    """Return a run whose scenario pauses the consumer from the third millisecond on."""
    events = [("asked", 3.0), ("proved", 3.5), ("healing", end - 5), ("healed", end)]
    history.fault(*events, kind="pause", became=became)
    for when in range(4, round(end), 1_000):
        history.rows["probes"].append({"fault": 1, "at_ns": at(when), "held": True, "text": "it is stopped"})
    return history


def late_and_one_lacks(noticed: float = 7_005) -> History:
    """Return a run whose consumer was 7 s late."""
    history = reads(run(), *GAP).stood(10, 10).late("observer").late("consumer1", 7_000, when=noticed - 1)
    return history.ended_when_told(0)


def unowned(history: History, group: int = 0) -> History:
    history.unread = {group: "only 1 of 2 partitions had an owner in group group"}
    return ended(history).stood(10, 10)


def foreign_died(code: int, *, by_itself: bool = True) -> History:
    """Return a run whose external consumer read one of two partitions and printed nothing about the other."""
    history = reads(run(partitions=2), *TEN).stood(10)
    return foreign(watched(history).ended_when_told(0, code=code, by_itself=by_itself))


def overtaken(expected: Expected, *behind: float) -> History:
    """Return a run in which key 7 moved to partition 1, and the consumer read its later message first."""
    history = History(expect={"key_reordered": expected}, producers=[{"keys": 1}])
    history.send(0, 0, key=7).log(0, 0).send(1, 0, key=7, partition=1).log(0, 1, partition=1)
    history.read(0, 1, partition=1, when=50).read(0, 0, when=80)
    history.marks = Marks(load_begun_ns=at(0), load_ended_ns=at(5_000))
    return ended(history.stood(1, 1).stood(1, 1, partition=1), *behind)


def two_consumers() -> History:
    """Return a run whose second consumer reads all of partition 1, and whose first one reads half of its own."""
    history = reads(run(partitions=2), *range(5)).group(1, "assigned", 1, partition=1)
    return ended(reads(history, *TEN, partition=1, consumer=1).stood(10, 10, consumer=1, partition=1), consumer=1)


def foreign(history: History) -> History:
    history.consumers = [{"copies": 1, "command": ["their-consumer"]}]
    return history


def two_groups(late: int) -> History:
    """Return a run whose first group passed over a message; a consumer of the given group was late."""
    history = reads(run(), *(each for each in TEN if each != 3)).stood(10, 10)
    reads(history.group(0, "assigned", 1, group=1), *TEN, consumer=1, group=1).stood(10, 10, consumer=1, group=1)
    for consumer in range(2):
        ended(history, *([7_000] if consumer == late else []), consumer=consumer)
    return history


def owned_twice(*behind: float, when: float = 30_000) -> History:
    history = reads(run("dual_ownership"), *TEN).group(1, "assigned", 1).stood(10, 10)
    history.late("consumer1", *behind, when=when)
    return ended(ended(history), consumer=1)


CASES: dict[str, tuple[History, str, str]] = {
    "read to the end, and one lacking: Kafka did not deliver it": (
        ended(reads(run(), *GAP)).stood(10, 10),
        "refuted",
        "",
    ),
    "stopped short": (
        ended(first_five()).stood(5, 10),
        "unknown",
        "its consumers stopped at offset 5 in orders/0, and the log ends at 10",
    ),
    "stopped short, and one lacking before that": (ended(reads(run(), 0, 1, 2, 4)).stood(5, 10), "refuted", ""),
    "stopped short in one partition, and one lacking in another": (
        ended(reads(reads(run(partitions=2), *range(5)), *GAP, partition=1)).stood(5, 10).stood(10, 10, partition=1),
        "refuted",
        "",
    ),
    "not known where it stood": (
        ended(first_five()).stood(None, 10),
        "unknown",
        "the consumers of its group recorded no position in orders/0",
    ),
    "killed, for it did not end": (
        killed(first_five()),
        "unknown",
        "consumer1 did not stop when the lab asked it to, and was killed",
    ),
    "not known how it ended": (watched(first_five()), "unknown", "consumer1 did not stop when the lab asked it to"),
    "killed, and all given before": (killed(reads(run(), *TEN)), "confirmed", ""),
    "killed, and another took over and read to the end, and one lacks": (
        ended(killed(reads(run(), *GAP)).group(1, "assigned", 1).stood(10, 10, consumer=1), consumer=1),
        "refuted",
        "",
    ),
    "killed, and another took over and stopped short": (
        ended(killed(first_five()).group(1, "assigned", 1).stood(5, 10, consumer=1), consumer=1),
        "unknown",
        "consumer1 did not stop when the lab asked it to, and was killed, and 1 more",
    ),
    "one of two killed": (killed(two_consumers()), "unknown", "consumer1 did not stop"),
    "killed by the scenario, and nobody took over": (
        by_a_fault(killed(first_five()), "kill"),
        "refuted",
        "",
    ),
    "stopped by the scenario, and nobody took over": (
        by_a_fault(ended(first_five()).stood(5, 10), "stop"),
        "refuted",
        "",
    ),
    "killed by the scenario and started again, and killed in the end": (
        by_a_fault(killed(first_five()), "kill", "start"),
        "unknown",
        "consumer1 did not stop",
    ),
    "another killed by the scenario": (by_a_fault(killed(first_five()), "kill", became="consumer2"), "unknown", ""),
    "late, and one lacking": (
        ended(reads(run(), *GAP), 7_000).stood(10, 10),
        "unknown",
        "consumer1 was late by up to 7,000 ms",
    ),
    "hardly late, and one lacking": (ended(reads(run(), *GAP), 999).stood(10, 10), "refuted", ""),
    "late, and all given": (ended(reads(run(), *TEN), 7_000).stood(10, 10), "confirmed", ""),
    "paused by the scenario, and one lacking": (paused(late_and_one_lacks(), 7_010), "refuted", ""),
    "paused by the scenario, and late for less than a second beside that": (
        paused(late_and_one_lacks(), 6_006),
        "refuted",
        "",
    ),
    "paused by the scenario, and late for a second beside that": (
        paused(late_and_one_lacks(), 6_005),
        "unknown",
        "consumer1 was late by up to 1,000 ms",
    ),
    "paused by the scenario, and stopped by somebody else later": (
        paused(late_and_one_lacks(noticed=20_000), 7_010),
        "unknown",
        "consumer1 was late by up to 7,000 ms",
    ),
    "another consumer paused by the scenario": (
        paused(late_and_one_lacks(), 7_010, became="consumer2"),
        "unknown",
        "consumer1 was late by up to 7,000 ms",
    ),
    "an open transaction withheld the rest: the consumer read as far as the leader let it": (
        ended(first_five()).stood(5, 5),
        "refuted",
        "",
    ),
    "an open transaction withheld the rest, and the consumer stopped short of that": (
        ended(reads(run(), *range(4))).stood(4, 5),
        "unknown",
        "its consumers stopped at offset 4 in orders/0",
    ),
    "an open transaction withheld the rest of one partition, and the consumer stopped short in another": (
        ended(reads(reads(run(partitions=2), *range(5)), *range(5), partition=1)).stood(5, 5).stood(5, 10, partition=1),
        "refuted",
        "",
    ),
    "a partition had no owner when the run no longer waited": (
        unowned(reads(run(partitions=2), *TEN)),
        "unknown",
        "only 1 of 2 partitions had an owner in group group",
    ),
    "a partition had no owner, and one lacking in another, below where the consumer stood": (
        unowned(reads(run(partitions=2), *GAP)),
        "refuted",
        "",
    ),
    "a partition of another group had no owner": (unowned(reads(run(partitions=2), *TEN), group=1), "refuted", ""),
    "one lacking, and a consumer of another group late": (two_groups(late=1), "refuted", ""),
    "one lacking, and a consumer of that group late": (two_groups(late=0), "unknown", ""),
    "a foreign one that was quiet before the end": (
        foreign(ended(first_five()).stood(5)),
        "unknown",
        "its consumers stopped at offset 5 in orders/0",
    ),
    "a foreign one that told of nothing in one partition": (
        foreign(ended(reads(run(partitions=2), *TEN)).stood(10)),
        "unknown",
        "consumer1 never printed a message of orders/1",
    ),
    "a foreign one that told of the last, and one lacking": (
        foreign(ended(reads(run(), *GAP)).stood(10)),
        "refuted",
        "",
    ),
    "a foreign one that ended by itself": (
        foreign(watched(first_five()).ended_when_told(0, by_itself=True)),
        "refuted",
        "",
    ),
    "a foreign one that somebody killed": (
        foreign_died(137),
        "unknown",
        "consumer1 died of signal 9, which no fault of the scenario sent",
    ),
    "a foreign one that ended with an exit code that is no signal": (foreign_died(1), "refuted", ""),
    "a foreign one that ended with the highest exit code": (foreign_died(255), "refuted", ""),
    "a foreign one that a fault killed": (by_a_fault(foreign_died(137), "kill"), "refuted", ""),
    "a foreign one that did not end when it was told to": (
        foreign_died(137, by_itself=False),
        "unknown",
        "consumer1 did not stop when the lab asked it to, and was killed",
    ),
    "a foreign one that SIGTERM ended, as the laboratory asked, and one lacking": (
        foreign(watched(reads(run(), *GAP).stood(10)).ended_when_told(0, code=143)),
        "refuted",
        "",
    ),
    "overtaken as required, by a consumer on time": (overtaken("required"), "confirmed", ""),
    "overtaken as required, by a consumer that was late": (overtaken("required", 1_375), "confirmed", ""),
    "overtaken though forbidden, by a consumer on time": (overtaken("forbidden"), "refuted", ""),
    "overtaken though forbidden, by a consumer that was late": (
        overtaken("forbidden", 1_375),
        "unknown",
        "consumer1 was late by up to 1,375 ms",
    ),
    "of before consumers told where they stood": (first_five(), "refuted", ""),
    "required, and found below where it stood": (
        ended(reads(run(expected="required"), 0, 1, 2, 4)).stood(5, 10),
        "confirmed",
        "",
    ),
    "required, and found only beyond": (ended(reads(run(expected="required"), *range(5))).stood(5, 10), "unknown", ""),
    "the final read was stopped, and read to the end, and one was lost": (
        run("lost").send(10, 10, sent=10).end(11).late("final-read", 40_000, when=60_000),
        "refuted",
        "",
    ),
    "two owners, on time": (owned_twice(), "refuted", ""),
    "two owners, and one of them so late that its group may have taken it for dead": (
        owned_twice(22_500),
        "unknown",
        "consumer1 was late",
    ),
    "two owners, and one of them late, but not as late as that": (owned_twice(22_499), "refuted", ""),
    "two owners, and one of them late before the load": (owned_twice(60_000, when=-1), "refuted", ""),
    "two owners, and one of them stopped short": (
        ended(ended(reads(run("dual_ownership"), *TEN).group(1, "assigned", 1).stood(5, 10)), consumer=1),
        "refuted",
        "",
    ),
}


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Verdict]:
    cases = {name: (history, expected) for name, (history, expected, _) in CASES.items()}
    return verdicts_of(cases, tmp_path_factory.mktemp("runs"))


@pytest.mark.proves("D3")
@pytest.mark.parametrize("case", CASES)
def test_a_missing_message_refutes_only_if_a_consumer_of_the_group_passed_it(
    verdicts: dict[str, Verdict], case: str
) -> None:
    verdict, (history, expected, why) = verdicts[case], CASES[case]
    (check,) = [check for check in verdict.checks if check.name in history.expect]
    assert check.result == expected, check.text
    assert verdict.result == expected, verdict.sentence
    assert (f"but {why}" in check.text) if why else True
    assert ("; but " in check.text) == (expected == "unknown")


def test_each_process_that_was_late_is_named(verdicts: dict[str, Verdict]) -> None:
    def named(case: str) -> list[str]:
        return [line.text for line in verdicts[case].fitness if line.name == "lateness"]

    assert named("late, and all given") == ["consumer1 was late by up to 7,000 ms."]
    assert named("hardly late, and one lacking") == []
    assert named("paused by the scenario, and one lacking") == []
    final_read = "the final read was stopped, and read to the end, and one was lost"
    assert named(final_read) == ["final-read was late by up to 40,000 ms."]
