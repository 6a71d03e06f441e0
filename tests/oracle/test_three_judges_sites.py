"""The same three judges of receivers, of mirrors, and of clients that move between sites: histories of their own, in
which mirrors pass over, repeat, exchange and change records, and every witness of each is a witness of the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from ackproof.model.run_record import Marks, RunRecord
from tests.support.histories import History, at
from tests.support.oracles import reference_sites, sql_sites
from tests.support.oracles.reference import Rows
from tests.support.oracles.three_judges import Judges, some_of
from tests.support.proving import size

pytestmark = pytest.mark.timeout(size(400, 3 * 3600))  # the first of them judges all histories
HISTORIES = size(300, 20_000)
AT_LARGE = size(40, 500)  # as many are judged as large journals are, too
JOURNAL = (
    *("sends", "log", "ends", "mirrored", "translated", "state", "reads"),
    *("received", "costs", "faults"),
)
TOPICS = ("orders", "dc2:dc1.orders", "dc2:orders", "dc2.orders", "other")
OWN, MIRRORS, OTHER = (0, 2), {1: 0, 3: 2}, 4
LATEST = 12  # moments, each half a second after the one before
NOBODY = (-1, -1)
BIG = 2**63 - 1
Value = tuple[int, int]


@dataclass
class Moved(History):
    """A history whose consumers read several topics."""

    consumed: list[int] = field(default_factory=list)  # by each consumer with a plan

    def record(self, name: str = "a-run") -> RunRecord:
        record = super().record(name)
        topics = dict(enumerate(self.consumed))
        consumers = [msgspec.structs.replace(each, topic=topics.get(each.id, 0)) for each in record.consumers]
        return msgspec.structs.replace(record, consumers=consumers)


def made(run: int) -> Moved:
    """Few values, few offsets, few moments, so that everything collides with everything."""
    lots = Random(run)  # noqa: S311 - the same histories every time
    history = Moved(run=run, topics=TOPICS, mirrors=dict(lots.choice([MIRRORS, MIRRORS, MIRRORS, MIRRORS, {1: 0}, {}])))
    everything: list[tuple[int, int, int, Value]] = []
    digests = lots.random() < 0.7
    for topic in (*OWN, OTHER):
        for partition in (0, 1):
            records = _hold(history, lots, topic, partition, digests)
            everything += [(topic, partition, offset, who) for offset, who in enumerate(records)]
    _send(history, lots, everything)
    _receive(history, lots, everything)
    _read(history, lots)
    _observe(history, lots)
    _translate(history, lots)
    _break(history, lots)
    return history


def _moment(lots: Random, first: int = 0, last: int = LATEST) -> float:
    return 500.0 * lots.randint(first, last)


def _hold(history: History, lots: Random, topic: int, partition: int, digests: bool) -> list[Value]:
    """What was written to a partition, of which retention, or compaction, may have taken some; and to its mirror."""
    records: list[Value] = []
    for _ in range(lots.randint(0, 5)):
        own = lots.choice([topic, topic, topic, 0]), lots.randint(0, 5)
        records.append(lots.choice([own, own, own, own, lots.choice([NOBODY, *records])]))
    digest = {who: lots.choice([5, 6, BIG, -BIG]) if digests else None for who in [*records, NOBODY]}
    compacted = lots.random() < 0.2
    kept = lots.choice([0, 0, 0, 1, 2])
    for offset, (producer, seq) in enumerate(records):
        if offset >= kept and not (compacted and lots.random() < 0.3):
            place = {"topic": topic, "partition": partition}
            history.log(offset, seq, producer=producer, digest=digest[producer, seq], **place)
    history.end(len(records), topic=topic, partition=partition, log_start=kept, compacted=compacted)
    for mirror in [mirror for mirror, source in history.mirrors.items() if source == topic]:
        _copy(history, lots, mirror, partition, [(who, digest[who]) for who in records])
    return records


def _copy(history: History, lots: Random, mirror: int, partition: int, records: list[tuple[Value, int | None]]) -> None:
    copies = list(records)
    for _ in range(lots.choice([0, 0, 0, 0, 1, 2, 3])):
        place = lots.randint(0, len(copies))
        what = lots.choice(["pass over", "pass over", "exchange", "repeat", "begin anew", "change", "invent"])
        match what:
            case "pass over":
                copies[place : place + 1] = []
            case "exchange":
                copies[place : place + 2] = copies[place : place + 2][::-1]
            case "repeat":
                copies[place:place] = copies[place : place + 1]
            case "begin anew":
                copies += copies[place:]
            case "change":
                copies[place : place + 1] = [(who, held and 7) for who, held in copies[place : place + 1]]
            case "invent":
                copies.insert(place, ((0, lots.randint(0, 7)), copies[0][1] if copies else None))
    offset = lots.choice([0, 0, 0, 2])
    for (producer, seq), held in copies:
        history.copied(offset, seq, producer=producer, topic=mirror, partition=partition, digest=held)
        offset += lots.choice([1, 1, 1, 1, 2])


def _send(history: History, lots: Random, everything: list[tuple[int, int, int, Value]]) -> None:
    """Each value once, some of them at another place than theirs, some with another outcome; and a few more."""
    lots.shuffle(everything)
    places = {who: place for *place, who in everything if who != NOBODY}
    for topic in (*OWN, OTHER):
        places.setdefault((topic, 6), [topic, lots.randint(0, 1), lots.randint(0, 5)])
    in_turn = lots.random() < 0.7  # dc1 first, then dc2
    for (producer, seq), (topic, partition, offset) in places.items():
        if lots.random() < 0.1:
            continue
        outcome = lots.choice(["ok", "ok", "ok", "ok", "ok", "info", "fail"])
        placed = outcome == "ok" and lots.random() < 0.95
        half = LATEST // 2
        first, last = (0, LATEST) if not in_turn else (half, LATEST) if topic == 2 else (0, half)
        done = _moment(lots, first, last)
        history.send(
            seq,
            lots.choice([offset, offset, offset, lots.randint(0, 5)]) if placed else None,
            producer=producer,
            outcome=outcome,
            topic=topic,
            partition=partition if placed else lots.choice([partition, -1]),
            key=lots.choice([None, 0, 1]),
            sent=done - 1,
            done=done,
            never_done=outcome == "info" and lots.random() < 0.5,
        )


def _receive(history: Moved, lots: Random, everything: list[tuple[int, int, int, Value]]) -> None:
    words = ["required", "allowed", "forbidden", "forbidden"]
    for consumer in range(lots.randint(0, 3)):
        topic = lots.choice([0, 0, 2, 4])
        history.consumed.append(topic)
        if lots.random() < 0.1:
            history.receivers.append({"copies": 1})  # a consumer without a receiver
            continue
        history.receiver(lots.choice(["ids", "nothing"]), lots.choice(words), lots.choice(words))
        careful = lots.random() < 0.5
        taken: set[Value] = set()
        for _, partition, offset, (producer, seq) in [row for row in everything if row[0] == topic]:
            for _ in range(lots.choice([1, 1, 1, 1, 0, 2]) if not careful else 1):
                new = (producer, seq) not in taken
                accepted = new if careful else lots.choice([new, True, False])
                place = {"topic": topic, "partition": partition, "consumer": consumer}
                history.received(offset, seq, producer=producer, accepted=accepted, **place)
                taken.add((producer, seq))
        for _ in range(lots.randint(0, 3)):
            row = {"consumer": consumer, "at_ns": at(_moment(lots)), "messages": lots.choice([0, 0, 1, 3])}
            row |= {"deciding_ns": lots.randint(0, 5_000), "handling_ns": lots.randint(5_000, 10_000)}
            row |= {"memory_bytes": lots.randint(1, 3), "disk_bytes": lots.randint(1, 3)}
            history.rows["costs"].append(row)


def _read(history: History, lots: Random) -> None:
    """Two groups; one consumer of each at either site."""
    for _ in range(lots.choice([0, 2, 4, 8])):
        group, site = lots.randint(0, 1), lots.randint(0, 1)
        producer, seq = lots.choice([(0, 0), (0, 1), (0, 2), (2, 0), NOBODY])
        topic = lots.choice([(0, 3), (1, 2)][site])
        place = {"topic": topic, "partition": lots.randint(0, 1), "consumer": 3 + 2 * group + site, "group": group}
        history.read(lots.randint(0, 4), seq, producer=producer, when=_moment(lots), **place)


def _observe(history: History, lots: Random) -> None:
    """Of a partition somebody is asked at each of some moments."""
    if lots.random() < 0.05:
        return
    for topic in range(4):
        for partition in (0, 1):
            for when in lots.sample(range(LATEST + 1), lots.choice([0, 2, 4, 6])):
                broker = lots.randint(1, 2)
                error = lots.choice([None, None, None, None, None, None, "LEADER_NOT_AVAILABLE", "REQUEST_TIMED_OUT"])
                history.state(
                    500.0 * when,
                    broker,
                    leader=lots.choice([None, 3 - broker, broker, broker, broker]) if error is None else None,
                    epoch=lots.choice([None, 0, 1, 1, 1, 2]),
                    isr=lots.choice([None, (), (1,), (1, 2)]),
                    took=lots.choice([0, 0, 0, 0.001, 500, 501]),
                    topic=topic if lots.random() < 0.95 else -1,
                    partition=partition,
                    error=error,
                )
                view = history.rows["state"][-1]
                view["replicas"] = lots.choice([None, [1, 2], [2, 1]])
                view["log_end"] = lots.choice([None, *range(9)])


def _translate(history: History, lots: Random) -> None:
    for mirror, topic in history.mirrors.items():
        for group in (0, 1):
            for when in lots.sample(range(LATEST + 1), lots.choice([0, 0, 1, 2])):
                own = lots.choice([None, *range(6)])
                there = lots.choice([own, own, None, *range(8)])
                row = {"at_ns": at(500.0 * when), "group": group, "topic": topic, "partition": lots.randint(0, 1)}
                history.rows["translated"].append({**row, "mirror": mirror, "mirror_offset": there, "offset": own})


def _break(history: History, lots: Random) -> None:
    """Faults, each asked for at a moment of its own; most are healed, or done at once."""
    for asked in sorted(lots.sample(range(LATEST + 1), lots.choice([0, 1, 2, 3]))):
        healed = lots.randint(asked, LATEST)
        healing = [("healing", 500.0 * lots.randint(asked, healed))] if lots.random() < 0.6 else []
        ends = lots.choice([[], [*healing, ("healed", 500.0 * healed)], [*healing, ("not healed", 500.0 * healed)]])
        history.fault(("asked", 500.0 * asked), ("proved", 500.0 * asked), *ends)
        if not healing and lots.random() < 0.5:
            for row in history.rows["faults"]:
                if row["fault"] == len(history.faults):
                    row["by"] = "done"
    marks: dict[str, int | None] = {
        "load_begun_ns": at(_moment(lots, 0, 2)) if lots.random() < 0.9 else None,
        "load_ended_ns": at(_moment(lots, 6)),
        "healed_ns": at(_moment(lots, 6)) if lots.random() < 0.5 else None,
        "drained_ns": at(_moment(lots, 10)) if lots.random() < 0.9 else None,
    }
    history.marks = Marks(**marks)


def told(history: Moved) -> Rows:
    """What `run.json` tells."""
    plans = zip(history.consumed, history.receivers, strict=True)
    return {
        "topics": [{"topic": number, "name": name} for number, name in enumerate(history.topics)],
        "mirrors": [{"topic": source, "mirror": mirror} for mirror, source in history.mirrors.items()],
        "receivers": [
            {"consumer": number, "topic": topic, **plan["receiver"]}
            for number, (topic, plan) in enumerate(plans)
            if "receiver" in plan
        ],
        "marks": [msgspec.structs.asdict(history.marks)],
    }


TOLD = {
    "topics": {"topic": pa.int32(), "name": pa.string()},
    "mirrors": {"topic": pa.int32(), "mirror": pa.int32()},
    "receivers": {
        **dict.fromkeys(("consumer", "topic"), pa.int32()),
        **dict.fromkeys(("strategy", "copies", "drops"), pa.string()),
    },
    "marks": dict.fromkeys(Marks.__struct_fields__, pa.int64()),
}
_LEFT_BEHIND = (
    *("topic", "partition", "offset", "producer", "seq"),
    *("done_ns", "moved_ns", "copied_to", "mirror_offset", "explained"),
)
COLUMNS = {
    "duplicate_accepted": (
        *("consumer", "topic", "partition", "first_offset", "last_offset"),
        *("producer", "seq", "times"),
    ),
    "wrongly_dropped": ("consumer", "topic", "partition", "offset", "producer", "seq", "dropped"),
    "receivers": (
        *("consumer", "topic", "strategy", "messages", "accepted", "duplicate_accepted", "wrongly_dropped"),
        *("copies_expected", "drops_expected", "wrong"),
        *("us_each", "deciding_us_each", "memory_bytes", "grown_bytes", "disk_bytes"),
    ),
    "mirror_differs": (
        *("topic", "partition", "difference", "producer", "seq"),
        *("offset", "mirror_offset", "previous_offset", "copies", "mirror_copies"),
    ),
    "mirror_layout": ("topic", "partition", "mirror", "records", "mirror_records", "least_shift", "most_shift"),
    "offset_translation": (
        *("group", "topic", "partition", "at_ns", "offset", "mirror", "mirror_offset"),
        *("again", "missed", "ahead"),
    ),
    "unreplicated": _LEFT_BEHIND,
    "unexplained": _LEFT_BEHIND,
    "site_gap": ("what", "group", "from_site", "to_site", "from_ns", "to_ns", "ms", "again"),
    "leadership_history": (
        *("topic", "partition", "place", "moment", "moment_ns"),
        *("leader", "leader_epoch", "isr", "replicas"),
    ),
}
Told = Callable[[str, object], None]
JUDGES = Judges(
    COLUMNS,
    plain=reference_sites,
    sql=sql_sites,
    made=made,
    journal=JOURNAL,
    planned=told,
    schemas=TOLD,
    histories=HISTORIES,
    at_large=AT_LARGE,
)


def test_the_histories_have_whatever_these_checks_tell_apart() -> None:
    def words(check: str, column: str) -> set[Any]:
        place = COLUMNS[check].index(column)
        return {witness[place] for found in JUDGES.by_hand(check).values() for witness in found}

    assert words("mirror_differs", "difference") == {"missing", "extra", "changed", "out of order"}
    assert words("offset_translation", "again") >= {0, 1, 2}
    assert words("site_gap", "again") >= {None, 0, 1, 2}
    assert words("unreplicated", "explained") == {True, False}
    assert words("leadership_history", "moment") >= {"start", "before 1", "during 1", "before 2", "during 2", "end"}


@pytest.mark.proves("C3")
@pytest.mark.parametrize("check", COLUMNS)
def test_all_judges_find_the_same(check: str, record_property: Told) -> None:
    hits = JUDGES.hits(check, JUDGES.agreed(check))
    assert len(hits) >= HISTORIES // 20, "the histories hardly ever have this anomaly: they prove little"
    assert HISTORIES - len(hits) >= HISTORIES // 100, "the histories hardly ever lack this anomaly: they prove little"
    what = f"{len(COLUMNS)} checks of receivers and sites"
    record_property("figure", f"{HISTORIES:,} more histories judged alike by all three, for {what}")


@pytest.mark.proves("C3")
@pytest.mark.parametrize("check", some_of(COLUMNS))
def test_what_is_judged_as_large_is_judged_alike(check: str, record_property: Told) -> None:
    JUDGES.assert_agreed_at_large(check)
    record_property("figure", f"{AT_LARGE:,} of these judged alike in the way of large journals")
