"""When a run knows that its consumers have read everything: by the log's end that each reports, never by silence."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import pytest

from ackproof.run import reading as run_reading
from ackproof.run.reading import Member, lacking, wait_until_read

PARTITIONS = {"orders": 4, "payments": 2}


def member(name: str = "consumer1", **other: object) -> Member:
    usual = {"group": "workers", "topics": frozenset({"orders"}), "foreign": False, "ready": True, "read": 100}
    return Member(name, **{**usual, "owned": 4, "read_whole": 4, **other})  # type: ignore[arg-type]


HALF, OTHER_HALF = member(owned=2, read_whole=2), member("consumer2", owned=2, read_whole=2)
FOREIGN = member(foreign=True, owned=0, read_whole=4)

CASES: dict[str, tuple[Sequence[Member], str | None]] = {
    "one that has read its topic whole": ([member()], None),
    "one that has one partition to read": ([member(read_whole=3)], "reading"),
    "one that was stopped before it was told that the load is over": ([member(read_whole=0)], "reading"),
    "two that share the topic": ([HALF, OTHER_HALF], None),
    "one of two members, while the partitions of the dead one have no owner yet": ([HALF], "unowned"),
    "one of two that waits for its group": ([HALF, member("consumer2", ready=False, owned=0, read_whole=0)], "reading"),
    "one that idles beside one that has read all": ([member(), member("consumer2", owned=0, read_whole=0)], None),
    "a group that has read all beside one that has not": ([member(), member(group="shop", read_whole=1)], "reading"),
    "one topic of two": ([member(topics=frozenset(PARTITIONS))], "unowned"),
    "two topics": ([member(topics=frozenset(PARTITIONS), owned=6, read_whole=6)], None),
    "two that both believe that all is theirs": ([member(), member("consumer2")], None),
    "no consumer that lives": ([], None),
    "a foreign one that told of every last message": ([FOREIGN], None),
    "a foreign one that did not": ([member(foreign=True, owned=0, read_whole=3)], "quiet"),
    "foreign ones that did together": (
        [member(foreign=True, owned=0, read_whole=1), member("consumer2", foreign=True, owned=0, read_whole=3)],
        None,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_the_run_still_waits_for(case: str) -> None:
    members, expected = CASES[case]
    kinds = {kind for kind, _ in lacking(members, PARTITIONS).values()}
    assert kinds == ({expected} if expected else set())


def test_each_group_that_lacks_something_is_named() -> None:
    found = lacking([member(read_whole=3), member("consumer2", group="shop", owned=2, read_whole=2)], PARTITIONS)
    assert {group: kind for group, (kind, _) in found.items()} == {"workers": "reading", "shop": "unowned"}


class Clock:
    """A clock that advances only while the program sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(time, "sleep", self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def waits(self, members: Callable[[float], Sequence[Member]]) -> tuple[dict[str, str], int]:
        """Return what the groups lacked when the wait was over, and how many seconds it took."""
        lack = wait_until_read(lambda: members(self.now), PARTITIONS)
        return lack, round(self.now)


def test_the_run_waits_for_a_consumer_that_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The consumer stops for nine seconds, and has read everything a second after it resumes."""
    lack, waited_s = Clock(monkeypatch).waits(lambda now: [member(read_whole=4 if now >= 10 else 0)])
    assert (lack, waited_s) == ({}, 10)


def test_the_run_waits_until_another_member_has_read_the_partition_of_a_dead_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def members(now: float) -> Sequence[Member]:
        return [HALF] if now < 45 else [member(read_whole=2 if now < 48 else 4)]

    assert Clock(monkeypatch).waits(members) == ({}, 48)


@pytest.mark.parametrize(
    ("still", "words"),
    [
        (member(read_whole=3), "consumer1 did not say that it had read all of its partitions"),
        (HALF, "only 2 of 4 partitions had an owner in group workers"),
        (
            member(foreign=True, read_whole=0),
            "group workers printed nothing more, though it had not printed the last message of every partition",
        ),
    ],
)
def test_every_wait_ends_and_says_what_it_waited_for(
    monkeypatch: pytest.MonkeyPatch, still: Member, words: str
) -> None:
    (lack,) = lacking([still], PARTITIONS).values()
    patience_s = run_reading.PATIENCE_S[lack[0]]
    said, waited_s = Clock(monkeypatch).waits(lambda _: [still])
    assert (said, waited_s) == ({"workers": words}, round(patience_s))


def test_the_run_waits_longer_for_a_consumer_that_reads_on_but_not_forever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lack, waited_s = Clock(monkeypatch).waits(lambda now: [member(read=round(now), read_whole=0)])
    assert lack
    assert waited_s == run_reading.LONGEST_S
