"""What a group lacks by the laboratory's own doing is unknown; what its consumers went past and lacked is refuted."""

from __future__ import annotations

import pytest
from asking import verdicts_of
from histories import History, at

from ackproof.record import Expected, Marks
from ackproof.verdict import Verdict

TEN = range(10)


def run(check: str = "undelivered", expected: Expected = "forbidden", partitions: int = 1) -> History:
    """Ten messages in each partition, all of them in the log."""
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
    """A run of today: each process tells how late it was."""
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


def two_consumers() -> History:
    """The second has partition 1 and reads all of it; the first reads half of its own."""
    history = reads(run(partitions=2), *range(5)).group(1, "assigned", 1, partition=1)
    return ended(reads(history, *TEN, partition=1, consumer=1).stood(10, 10, consumer=1, partition=1), consumer=1)


def foreign(history: History) -> History:
    history.consumers = [{"copies": 1, "command": ["their-consumer"]}]
    return history


def two_groups(late: int) -> History:
    """The first group lacks a message that it went past; a consumer of the group given was late."""
    history = reads(run(), *(each for each in TEN if each != 3)).stood(10, 10)
    reads(history.group(0, "assigned", 1, group=1), *TEN, consumer=1, group=1).stood(10, 10, consumer=1, group=1)
    for consumer in range(2):
        ended(history, *([7_000] if consumer == late else []), consumer=consumer)
    return history


def owned_twice(*behind: float, when: float = 30_000) -> History:
    history = reads(run("two_owners"), *TEN).group(1, "assigned", 1).stood(10, 10)
    history.late("consumer1", *behind, when=when)
    return ended(ended(history), consumer=1)


GAP = tuple(each for each in TEN if each != 3)

CASES: dict[str, tuple[History, str, str]] = {
    "read to the end, and one lacking: Kafka did not deliver it": (
        ended(reads(run(), *GAP)).stood(10, 10),
        "refuted",
        "",
    ),
    "stopped short": (
        ended(first_five()).stood(5, 10),
        "unknown",
        "its consumers stood at 5 in orders/0, where the log goes to 10",
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
        "nobody knows where its consumers stood in orders/0",
    ),
    "killed, for it did not end": (
        killed(first_five()),
        "unknown",
        "consumer1 did not end when it was told to, and was killed",
    ),
    "not known how it ended": (watched(first_five()), "unknown", "consumer1 did not end when it was told to"),
    "killed, and all given before": (killed(reads(run(), *TEN)), "confirmed", ""),
    "killed, and another took over and read to the end, and one lacks": (
        ended(killed(reads(run(), *GAP)).group(1, "assigned", 1).stood(10, 10, consumer=1), consumer=1),
        "refuted",
        "",
    ),
    "killed, and another took over and stopped short": (
        ended(killed(first_five()).group(1, "assigned", 1).stood(5, 10, consumer=1), consumer=1),
        "unknown",
        "consumer1 did not end when it was told to, and was killed, and 1 more",
    ),
    "one of two killed": (killed(two_consumers()), "unknown", "consumer1 did not end"),
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
        "consumer1 did not end",
    ),
    "another killed by the scenario": (by_a_fault(killed(first_five()), "kill", became="consumer2"), "unknown", ""),
    "late, and one lacking": (
        ended(reads(run(), *GAP), 7_000).stood(10, 10),
        "unknown",
        "consumer1 was late itself by up to 7,000 ms",
    ),
    "hardly late, and one lacking": (ended(reads(run(), *GAP), 999).stood(10, 10), "refuted", ""),
    "late, and all given": (ended(reads(run(), *TEN), 7_000).stood(10, 10), "confirmed", ""),
    "paused by the scenario, and one lacking": (
        by_a_fault(ended(reads(run(), *GAP), 7_000).stood(10, 10), "pause"),
        "refuted",
        "",
    ),
    "one lacking, and a consumer of another group late": (two_groups(late=1), "refuted", ""),
    "one lacking, and a consumer of that group late": (two_groups(late=0), "unknown", ""),
    "a foreign one that was quiet before the end": (
        foreign(ended(first_five()).stood(5)),
        "unknown",
        "its consumers stood at 5 in orders/0",
    ),
    "a foreign one that told of nothing in one partition": (
        foreign(ended(reads(run(partitions=2), *TEN)).stood(10)),
        "unknown",
        "consumer1 told of no last message in orders/1",
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
        "consumer1 was late itself",
    ),
    "two owners, and one of them late, but not as late as that": (owned_twice(22_499), "refuted", ""),
    "two owners, and one of them late before the load": (owned_twice(60_000, when=-1), "refuted", ""),
    "two owners, and one of them stopped short": (
        ended(ended(reads(run("two_owners"), *TEN).group(1, "assigned", 1).stood(5, 10)), consumer=1),
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
def test_what_a_group_lacks_is_told_of_kafka_only_where_its_consumers_came_to_it(
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

    assert named("late, and all given") == ["consumer1 was late itself by up to 7,000 ms."]
    assert named("hardly late, and one lacking") == []
    assert named("paused by the scenario, and one lacking") == []
    final_read = "the final read was stopped, and read to the end, and one was lost"
    assert named(final_read) == ["final-read was late itself by up to 40,000 ms."]
