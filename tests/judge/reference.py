"""A second judge, as plain as possible: dictionaries and loops over one history, written from the definitions alone.

It shares no code with the real one. Where the two disagree, one of them is wrong, or a definition is unclear.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import groupby, pairwise
from typing import Any

Rows = dict[str, list[dict[str, Any]]]
Answer = set[tuple[Any, ...]]
SECOND = 1_000_000_000


def value(row: dict[str, Any]) -> tuple[int, int]:
    return row["producer"], row["seq"]


def tp(row: dict[str, Any]) -> tuple[int, int]:
    return row["topic"], row["partition"]


def position(row: dict[str, Any]) -> tuple[int, int, int]:
    return row["topic"], row["partition"], row["offset"]


def acked_at(row: dict[str, Any]) -> tuple[int, int, int] | None:
    """Where a send was acknowledged, if it was and if anybody said where."""
    if row["outcome"] == "ok" and row["offset"] is not None and row["partition"] >= 0:
        return position(row)
    return None


def fates(h: Rows) -> Answer:
    holder = {position(row): value(row) for row in h["log"]}
    places = defaultdict(set)
    for where, who in holder.items():
        places[who].add(where)
    ends = {tp(row): row for row in h["ends"]}
    last_of_key: dict[tuple[int, int, int], int] = {}
    for send in h["sends"]:
        if send["key"] is not None:
            for topic, partition, offset in places[value(send)]:
                name = (topic, partition, send["key"])
                last_of_key[name] = max(offset, last_of_key.get(name, -1))
    found = set()
    for send in h["sends"]:
        there = places[value(send)]
        if send["outcome"] == "info":
            fate = "recovered" if there else "not_written"
        elif send["outcome"] == "fail":
            fate = "resurrected" if there else "rejected"
        else:
            fate = _acked_fate(send, there, holder, ends.get(tp(send)), last_of_key)
        found.add((*value(send), fate))
    return found


def _acked_fate(
    send: dict[str, Any],
    there: set[tuple[int, int, int]],
    holder: dict[tuple[int, int, int], tuple[int, int]],
    end: dict[str, Any] | None,
    last_of_key: dict[tuple[int, int, int], int],
) -> str:
    where = acked_at(send)
    if where is None:
        return "survived" if there else "lost_unplaced"
    if there:
        return "survived" if where in there else "survived_moved"
    if where in holder:
        return "lost_overwritten"
    if end is None:
        return "lost_hole"
    if where[2] >= end["high_watermark"]:
        return "lost_truncated"
    if where[2] < end["log_start"]:
        return "expired"
    later = last_of_key.get((*tp(send), send["key"]), -1) > where[2]
    return "expired" if end["compacted"] and later else "lost_hole"


def lost(h: Rows) -> Answer:
    return {row for row in fates(h) if row[2].startswith("lost_")}


def duplicated(h: Rows) -> Answer:
    copies = Counter(value(row) for row in h["log"] if row["producer"] >= 0)
    return {(*who, count) for who, count in copies.items() if count > 1}


def reordered(h: Rows) -> Answer:
    known = {value(row) for row in h["sends"]}
    first: dict[tuple[int, int, int], dict[int, int]] = defaultdict(dict)
    for row in sorted(h["log"], key=lambda row: int(row["offset"])):
        if value(row) in known:
            first[(row["producer"], *tp(row))].setdefault(row["seq"], row["offset"])
    found = set()
    for (producer, topic, partition), offsets in first.items():
        before: int | None = None
        for seq in sorted(offsets):
            if before is not None and offsets[seq] <= before:
                found.add((topic, partition, producer, seq))
            before = offsets[seq]
    return found


def inconsistent_offset(h: Rows) -> Answer:
    seen = defaultdict(set)
    for send in h["sends"]:
        where = acked_at(send)
        if where is not None:
            seen[where].add(value(send))
    for row in h["reads"] + h["log"]:
        seen[position(row)].add(value(row))
    return {where for where, values in seen.items() if len(values) > 1}


def offset_gap(h: Rows) -> Answer:
    there = {position(row) for row in h["log"]}
    found = set()
    for end in h["ends"]:
        if end["compacted"] or end["transactional"]:
            continue
        missing = [o for o in range(end["log_start"], end["high_watermark"]) if (*tp(end), o) not in there]
        for offset in missing:
            if offset - 1 not in missing:
                length = next(n for n in range(1, 10**6) if offset + n not in missing)
                found.add((*tp(end), offset, length))
    return found


def realtime_order(h: Rows) -> Answer:
    acked = [row for row in h["sends"] if acked_at(row) is not None and row["done_ns"] is not None]
    found = set()
    for send in acked:
        before = [row["offset"] for row in acked if tp(row) == tp(send) and row["done_ns"] < send["sent_ns"]]
        if before and send["offset"] <= max(before):
            found.add((*value(send), max(before)))
    return found


def _steps(h: Rows) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    lanes = defaultdict(list)
    for row in sorted(h["reads"], key=lambda row: int(row["poll"])):
        lanes[row["consumer"], row["assignment"], *tp(row)].append(row)
    return [pair for lane in lanes.values() for pair in pairwise(lane)]


def skipped_read(h: Rows) -> Answer:
    compacted = {tp(row) for row in h["ends"] if row["compacted"]}
    there = {position(row) for row in h["log"] + [row for row in h["reads"] if tp(row) not in compacted]}
    found = set()
    for before, row in _steps(h):
        over = [o for o in range(before["offset"] + 1, row["offset"]) if (*tp(row), o) in there]
        if over:
            found.add((row["consumer"], row["poll"], len(over)))
    return found


def repeated_read(h: Rows) -> Answer:
    return {(row["consumer"], row["poll"]) for before, row in _steps(h) if row["offset"] <= before["offset"]}


def unavailable(h: Rows) -> Answer:
    partitions = defaultdict(set)
    for end in h["ends"]:
        partitions[end["topic"]].add(end["partition"])
    last = max((max(row["sent_ns"], row["done_ns"] or 0) for row in h["sends"]), default=0)
    lanes = defaultdict(list)
    for row in h["sends"]:
        mine = partitions[row["topic"]]
        if not mine:
            continue
        partition = row["partition"]
        if partition < 0 and len(mine) == 1:
            partition = min(mine)
        if partition >= 0:
            done = row["done_ns"] if row["done_ns"] is not None else last
            lanes[row["topic"], partition].append((row["sent_ns"], done, row["outcome"]))
    found = set()
    for place, waits in lanes.items():
        acks = sorted({done for _, done, outcome in waits if outcome == "ok"})
        edges = [min(sent for sent, _, _ in waits), *acks, max(done for _, done, _ in waits)]
        for opened, closed in pairwise(edges):
            waiting = [(sent, done) for sent, done, _ in waits if sent < closed and done > opened]
            if closed - opened > SECOND and waiting:
                begin = min(max(sent, opened) for sent, _ in waiting)
                end = max(min(done, closed) for _, done in waiting)
                if end - begin > SECOND:
                    found.add((*place, begin, end))
    return found


def read_of(row: dict[str, Any]) -> tuple[Any, ...]:
    return (row["consumer"], row["read_ns"], *position(row), *value(row))


def unstable_read(h: Rows) -> Answer:
    holder = {position(row): value(row) for row in h["log"]}
    ends = {tp(row): row for row in h["ends"]}
    found = set()
    for row in h["reads"]:
        now, end = holder.get(position(row)), ends.get(tp(row))
        first_kept = 0 if end is None else end["high_watermark"] if end["compacted"] else end["log_start"]
        rightly_gone = now is None and row["offset"] < first_kept
        if now != value(row) and not rightly_gone:
            found.add(read_of(row))
    return found


def phantom(h: Rows) -> Answer:
    reserved = set()
    for block in h["blocks"]:
        reserved |= {(block["producer"], block["first_seq"] + place) for place in range(block["count"])}
    seen = [("log", row) for row in h["log"]] + [("read", row) for row in h["reads"]]
    return {(by, *position(row), *value(row)) for by, row in seen if value(row) not in reserved}


def aborted_read(h: Rows) -> Answer:
    failed = {value(row) for row in h["sends"] if row["outcome"] == "fail"}
    return {read_of(row) for row in h["reads"] if value(row) in failed}


def resurrected(h: Rows) -> Answer:
    copies = Counter(value(row) for row in h["log"])
    return {(*row[:2], copies[row[:2]]) for row in fates(h) if row[2] == "resurrected"}


def delivered_twice(h: Rows) -> Answer:
    given = defaultdict(list)
    for row in h["reads"]:
        given[row["group"], *position(row)].append(row["consumer"])
    return {(*place, len(takers), len(set(takers))) for place, takers in given.items() if len(takers) > 1}


def undelivered(h: Rows) -> Answer:
    begins: dict[tuple[int, int, int], int] = {}
    for member in h["members_of"]:
        for end in h["ends"]:
            if member["start"] == "earliest" and end["topic"] == member["topic"]:
                begins[member["group"], *tp(end)] = 0
    for row in sorted(h["groups"], key=lambda row: -int(row["at_ns"])):
        if row["event"] == "assigned" and row["position"] is not None:
            begins[row["group"], *tp(row)] = row["position"]
    given = {(row["group"], *value(row)) for row in h["reads"]}
    found = set()
    for (group, topic, partition), begin in begins.items():
        for row in h["log"]:
            ours = row["producer"] >= 0 and row["seq"] >= 0
            if tp(row) == (topic, partition) and row["offset"] >= begin and ours and (group, *value(row)) not in given:
                found.add((group, *position(row), *value(row)))
    return found


def commit_back(h: Rows) -> Answer:
    highest: dict[tuple[int, int, int], int] = {}
    found = set()
    for row in sorted(h["commits"], key=lambda row: int(row["at_ns"])):
        if row["outcome"] != "ok":
            continue
        place = (row["group"], *tp(row))
        if row["offset"] < highest.get(place, 0):
            found.add((*place, row["consumer"], row["at_ns"], highest[place], row["offset"]))
        highest[place] = max(row["offset"], highest.get(place, 0))
    return found


def watermark_fell(h: Rows) -> Answer:
    shown = defaultdict(list)
    for row in [row for row in h["state"] if row["leader"] == row["broker"]] + h["ends"]:
        if row["leader_epoch"] is not None and row["high_watermark"] is not None:
            shown[tp(row), row["leader_epoch"]].append(row["high_watermark"])
    found = set()
    for (place, epoch), marks in shown.items():
        older = [m for (other, before), theirs in shown.items() if other == place and before < epoch for m in theirs]
        if older and min(marks) < max(older):
            found.add((*place, epoch, max(older), min(marks)))
    return found


def _claimed_epoch(row: dict[str, Any]) -> int | None:
    """The epoch in which a broker says of itself that it leads; -1 where it names none."""
    if row["error"] is not None or row["leader"] != row["broker"]:
        return None
    return -1 if row["leader_epoch"] is None else int(row["leader_epoch"])


def dual_leader(h: Rows) -> Answer:
    lanes = defaultdict(list)
    for row in sorted(h["state"], key=lambda row: int(row["at_ns"])):
        lanes[(*tp(row), row["broker"])].append(row)
    claims = []
    for place, answers in lanes.items():
        for epoch, told in groupby(answers, _claimed_epoch):
            stretch = list(told)
            if epoch is not None:
                begin = min(row["at_ns"] + row["took_ns"] for row in stretch)
                claims.append((*place, epoch, begin, stretch[-1]["at_ns"]))
    found = set()
    for one in claims:
        for other in claims:
            begin, end = max(one[4], other[4]), min(one[5], other[5])
            if one[:2] == other[:2] and one[2] < other[2] and begin <= end:
                found.add((*one[:2], begin, end, one[2], one[3], other[2], other[3]))
    return found
