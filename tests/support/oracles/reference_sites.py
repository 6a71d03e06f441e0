"""What the second judge says of receivers, of mirrors, and of clients that move between sites: dictionaries and loops
over one history, written from the definitions alone. It shares no code with the real judge.

What `run.json` tells is in tables of its own: `topics`, `mirrors`, `receivers` and `marks`, which has one row.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import Any

from tests.support.oracles.reference import Answer, Rows, fates, position, tp, value

Row = dict[str, Any]
NOBODY = (-1, -1)  # of a record that is none of ours no value could be read
RECENT = 3_000_000_000


def duplicate_accepted(h: Rows) -> Answer:
    taken = defaultdict(list)
    for row in h["received"]:
        if row["accepted"] and value(row) != NOBODY:
            taken[row["consumer"], *value(row)].append(position(row))
    found = set()
    for (consumer, *who), places in taken.items():
        if len(places) > 1:
            *_, last_offset = max(places)
            found.add((consumer, *min(places), last_offset, *who, len(places)))
    return found


def wrongly_dropped(h: Rows) -> Answer:
    found = set()
    for receiver in h["receivers"]:
        own = [row for row in h["received"] if row["consumer"] == receiver["consumer"]]
        taken = {value(row) for row in own if row["accepted"]}
        met = Counter(value(row) for row in own)
        first: dict[tuple[int, int], tuple[int, int, int]] = {}
        for row in sorted(h["log"], key=position):
            if row["topic"] == receiver["topic"] and value(row) != NOBODY:
                first.setdefault(value(row), position(row))
        found |= {(receiver["consumer"], *place, *who, met[who]) for who, place in first.items() if who not in taken}
    return found


def receivers(h: Rows) -> Answer:
    copies: dict[int, int] = defaultdict(int)
    for consumer, *_, times in duplicate_accepted(h):
        copies[consumer] += times - 1
    drops = Counter(row[0] for row in wrongly_dropped(h))
    found = set()
    for receiver in h["receivers"]:
        who = receiver["consumer"]
        given = [row["accepted"] for row in h["received"] if row["consumer"] == who]
        wrong = _against(receiver["copies"], copies[who]) or _against(receiver["drops"], drops[who])
        counted = (len(given), sum(given), copies[who], drops[who])
        expected = (receiver["copies"], receiver["drops"])
        costs = [row for row in h["costs"] if row["consumer"] == who]
        found.add((who, receiver["topic"], receiver["strategy"], *counted, *expected, wrong, *_spent(costs)))
    return found


def _against(expected: str, times: int) -> bool:
    return times == 0 if expected == "required" else times > 0 if expected == "forbidden" else False


def _spent(costs: list[Row]) -> tuple[Any, ...]:
    if not costs:
        return (None,) * 5
    messages = sum(row["messages"] for row in costs)
    each = [sum(row[name] for row in costs) / (messages * 1000) if messages else None for name in _TIMES]
    memory = [row["memory_bytes"] for row in costs]
    return (*each, max(memory), max(memory) - min(memory), max(row["disk_bytes"] for row in costs))


_TIMES = ("handling_ns", "deciding_ns")
Places = dict[tuple[int, int], list[int]]  # where each value stands in a partition, the first place first


def _places(rows: list[Row]) -> Places:
    places = defaultdict(list)
    for row in sorted(rows, key=position):
        places[value(row)].append(row["offset"])
    return dict(places)


def _mirrored(h: Rows) -> Iterator[tuple[int, int, int, list[Row], list[Row]]]:
    """Each partition of which a topic or its mirror holds anything, and the records of both."""
    for pair in h["mirrors"]:
        own = [row for row in h["log"] if row["topic"] == pair["topic"]]
        copied = [row for row in h["mirrored"] if row["topic"] == pair["mirror"]]
        for partition in sorted({row["partition"] for row in own + copied}):
            of_both = [[row for row in rows if row["partition"] == partition] for rows in (own, copied)]
            yield pair["topic"], pair["mirror"], partition, of_both[0], of_both[1]


def mirror_differs(h: Rows) -> Answer:
    became = {row[:2]: row[2] for row in fates(h)}
    retention_took = {(*tp(row), *value(row)) for row in h["sends"] if became[value(row)] == "expired"}
    found: Answer = set()
    for topic, _, partition, records, copies in _mirrored(h):
        own, there = _places(records), _places(copies)
        for who in own.keys() | there.keys():
            if (topic, partition, *who) in retention_took:
                continue
            times, times_there = len(own.get(who, [])), len(there.get(who, []))
            held, held_there = ([row["digest"] for row in rows if value(row) == who] for rows in (records, copies))
            if times_there < times:
                difference = "missing"
            elif times_there > times:
                difference = "extra"
            elif None not in held + held_there and sum(held) != sum(held_there):
                difference = "changed"
            else:
                continue
            first, first_there = own.get(who, [None])[0], there.get(who, [None])[0]
            found.add((topic, partition, difference, *who, first, first_there, None, times, times_there))
        in_both = [who for who in there if who in own and who != NOBODY]
        for before, who in pairwise(in_both):
            if own[who][0] <= own[before][0]:
                places = (own[who][0], there[who][0], own[before][0])
                found.add((topic, partition, "out of order", *who, *places, len(own[who]), len(there[who])))
    return found


def mirror_layout(h: Rows) -> Answer:
    found = set()
    for topic, mirror, partition, records, copies in _mirrored(h):
        own, there = _places(records), _places(copies)
        shifts = [there[who][0] - own[who][0] for who in own.keys() & there.keys() - {NOBODY}]
        found.add(
            (topic, partition, mirror, len(records), len(copies), min(shifts, default=None), max(shifts, default=None))
        )
    return found


def offset_translation(h: Rows) -> Answer:
    held = {(topic, partition): both for topic, _, partition, *both in _mirrored(h)}
    found = set()
    for row in h["translated"]:
        reads = [
            read["read_ns"] for read in h["reads"] if (read["group"], read["topic"]) == (row["group"], row["mirror"])
        ]
        if reads and row["at_ns"] >= min(reads):
            continue
        again = missed = 0
        if row["offset"] is not None and row["mirror_offset"] is not None:
            own, there = (_places(rows) for rows in held.get(tp(row), ([], [])))
            for who in own.keys() & there.keys():
                given = [offset < row["offset"] for offset in own[who]]
                given_there = [offset < row["mirror_offset"] for offset in there[who]]
                again += all(given) and not all(given_there)
                missed += not any(given) and all(given_there)
        places = (row["at_ns"], row["offset"], row["mirror"], row["mirror_offset"])
        found.add((row["group"], *tp(row), *places, again, missed, missed > 0))
    return found


def _site(h: Rows, topic: int) -> str:
    (name,) = (row["name"] for row in h["topics"] if row["topic"] == topic)
    return "dc2" if name.startswith("dc2:") else "dc1"


Stint = tuple[str, list[tuple[int, Row]]]  # a site, and when it was acknowledged or read there


def _stints(h: Rows, rows: list[Row], when: str) -> list[Stint]:
    in_time = sorted(((row[when], _site(h, row["topic"]), row) for row in rows), key=lambda each: each[:2])
    return [(site, [(at, row) for at, _, row in own]) for site, own in groupby(in_time, lambda each: each[1])]


def _acks(h: Rows) -> list[Row]:
    return [row for row in h["sends"] if row["outcome"] == "ok" and row["done_ns"] is not None]


def site_gap(h: Rows) -> Answer:
    found: Answer = set()
    for (site, before), (other, after) in pairwise(_stints(h, _acks(h), "done_ns")):
        gap = (before[-1][0], after[0][0])
        found.add(("writes", None, site, other, *gap, (gap[1] - gap[0]) / 1e6, None))
    for group in {row["group"] for row in h["reads"]}:
        known: set[tuple[int, int]] = set()
        stints = _stints(h, [row for row in h["reads"] if row["group"] == group], "read_ns")
        for (site, before), (other, after) in pairwise(stints):
            known |= {value(row) for _, row in before} - {NOBODY}
            again = sum(value(row) in known for _, row in after)
            gap = (before[-1][0], after[0][0])
            found.add(("reads", group, site, other, *gap, (gap[1] - gap[0]) / 1e6, again))
    return found


def unreplicated(h: Rows) -> Answer:
    mirror_of = {row["topic"]: row["mirror"] for row in h["mirrors"]}
    held = {(topic, partition): [_places(rows) for rows in both] for topic, _, partition, *both in _mirrored(h)}
    found = set()
    for (site, _), (_, after) in pairwise(_stints(h, _acks(h), "done_ns")):
        moved = after[0][0]
        for send in _acks(h):
            here = _site(h, send["topic"]) == site and send["topic"] in mirror_of
            if not here or send["offset"] is None or send["done_ns"] > moved:
                continue
            end = _end(h, mirror_of[send["topic"]], send["partition"], moved)
            own, there = held.get(tp(send), [{}, {}])
            copied = [own[who][0] for who, places in there.items() if who in own and places[0] < end]
            copied_to = max(copied, default=-1)
            place = there.get(value(send), [None])[0]
            if place is None or place >= end:
                times = (send["done_ns"], moved)
                found.add((*position(send), *value(send), *times, copied_to, place, send["offset"] > copied_to))
    return found


def _end(h: Rows, mirror: int, partition: int, moment: int) -> int:
    """How far a mirror was: by the last earlier report of the leader of the newest epoch."""
    words = [
        row
        for row in h["state"]
        if tp(row) == (mirror, partition) and row["leader"] == row["broker"] and row["log_end"] is not None
        if row["at_ns"] + row["took_ns"] <= moment
    ]
    newest = max(
        words, key=lambda row: (-1 if row["leader_epoch"] is None else row["leader_epoch"], row["at_ns"]), default=None
    )
    return 0 if newest is None else int(newest["log_end"])


def unexplained(h: Rows) -> Answer:
    return {row for row in unreplicated(h) if not row[-1]}


def _moments(h: Rows) -> list[tuple[str, int]]:
    """The start of the load; before each fault, and before it ends or the next one begins; the end."""
    (marks,) = h["marks"]
    told: dict[int, dict[str, Row]] = defaultdict(dict)
    for row in h["faults"]:
        told[row["fault"]][row["event"]] = row
    begun = {fault: events["asked"]["at_ns"] for fault, events in told.items()}
    ends = [row["at_ns"] for row in h["faults"] if row["event"] in ("healed", "not healed")]
    over = max(marks["healed_ns"] or max(ends, default=0), marks["load_ended_ns"])
    found = [("start", marks["load_begun_ns"])]
    for fault in sorted(begun, key=lambda fault: begun[fault]):
        found.append((f"before {fault}", begun[fault]))
        events = told[fault]
        if "healed" in events and events["healed"]["by"] != "done":
            ends_at = events.get("healing", events["healed"])["at_ns"]
        else:
            ends_at = min((when for when in begun.values() if when > begun[fault]), default=over)
        found.append((f"during {fault}", ends_at))
    found.append(("end", marks["drained_ns"]))
    return sorted([(name, when) for name, when in found if when is not None], key=lambda moment: moment[1])


def leadership_history(h: Rows) -> Answer:
    answers = [
        row
        for row in h["state"]
        if row["topic"] >= 0 and row["leader_epoch"] is not None and row["error"] in (None, "LEADER_NOT_AVAILABLE")
    ]
    found = set()
    for place, (name, when) in enumerate(_moments(h)):
        recent = [row for row in answers if when - RECENT < row["at_ns"] <= when]
        for partition in {tp(row) for row in recent}:
            views = [row for row in recent if tp(row) == partition]
            views = [row for row in views if row["leader_epoch"] == max(other["leader_epoch"] for other in views)]
            views = [row for row in views if row["leader"] == row["broker"]] or views
            view = max(views, key=lambda row: int(row["at_ns"]))
            replicas = (None if view[name] is None else tuple(view[name]) for name in ("isr", "replicas"))
            found.add((*partition, place, name, when, view["leader"], view["leader_epoch"], *replicas))
    return found
