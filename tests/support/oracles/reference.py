"""A second judge, as plain as possible: dictionaries and loops over one history, written from the definitions alone.

It shares no code with the real one. Where the two disagree, one of them is wrong, or a definition is unclear.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import groupby, pairwise, zip_longest
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
    """Where a send was acknowledged, if it was and if its offset is known."""
    if row["outcome"] == "ok" and row["offset"] is not None and row["partition"] >= 0:
        return position(row)
    return None


def unreported(h: Rows) -> set[tuple[int, int]]:
    """Numbers that were reserved and never reported: of a block that was never closed, all may have been used."""
    sizes: dict[tuple[int, int], int] = {}
    for block in sorted(h.get("blocks", []), key=lambda row: row["used"] is not None):
        sizes[block["producer"], block["first_seq"]] = block["count"] if block["used"] is None else block["used"]
    used = {(producer, first + place) for (producer, first), size in sizes.items() for place in range(size)}
    return used - {value(row) for row in h["sends"]}


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
    found = {(*who, "recovered" if places[who] else "not_written") for who in unreported(h)}
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
    known = {value(row) for row in h["sends"]} | unreported(h)
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


def poll_skip(h: Rows) -> Answer:
    compacted = {tp(row) for row in h["ends"] if row["compacted"]}
    open_ones = _of_transactions(h, but="committed")
    seen = [row for row in h["reads"] if tp(row) not in compacted and value(row) not in open_ones]
    there = {position(row) for row in h["log"] + seen}
    found = set()
    for before, row in _steps(h):
        over = [o for o in range(before["offset"] + 1, row["offset"]) if (*tp(row), o) in there]
        if over:
            found.add((row["consumer"], row["poll"], len(over)))
    return found


def nonmonotonic_poll(h: Rows) -> Answer:
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
    asked_for = _of_transactions(h, but="committed")
    careful = _careful(h)
    return {
        read_of(row)
        for row in h["reads"]
        if value(row) in failed and (row["consumer"] in careful or value(row) not in asked_for)
    }


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


def commit_regression(h: Rows) -> Answer:
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


def watermark_regression(h: Rows) -> Answer:
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


def stale_leader_ack(h: Rows) -> Answer:
    records = {position(row): row for row in h["log"]}
    copies = Counter(value(row) for row in h["log"])
    ends = {tp(row): row for row in h["ends"]}
    fate = {row[:2]: row[2] for row in fates(h)}
    found = set()
    for send in h["sends"]:
        where, end = acked_at(send), ends.get(tp(send))
        if where is None:
            continue
        stands = records.get(where)
        older_than: set[int | None] = set()
        if stands is not None and value(stands) == value(send):
            if copies[value(send)] == 1 and stands["leader_epoch"] is not None:
                older_than = {stands["leader_epoch"] + 1}
        elif stands is not None:
            older_than = {stands["leader_epoch"]}
        elif end is not None and where[2] >= end["high_watermark"] and not copies[value(send)]:
            older_than = {end["leader_epoch"], *_never_reached(h, send)}
        views = [row for row in h["state"] if tp(row) == tp(send) and row["leader_epoch"] is not None]
        known = []
        for epoch in older_than - {None}:
            seen = [row["at_ns"] + row["took_ns"] for row in views if row["leader_epoch"] >= epoch]
            if seen and min(seen) < send["done_ns"]:
                known.append((epoch, min(seen)))
        if known:
            found.add((*value(send), fate[value(send)], *min(known)))
    return found


def _never_reached(h: Rows, send: dict[str, Any]) -> set[int]:
    """Epochs whose leader, by its own word, was asked after the ack and never had a log that went past its offset."""
    told = defaultdict(list)
    for row in h["state"]:
        if tp(row) == tp(send) and row["leader"] == row["broker"] and None not in (row["leader_epoch"], row["log_end"]):
            told[row["leader_epoch"]].append(row)
    return {
        epoch
        for epoch, views in told.items()
        if any(row["at_ns"] >= send["done_ns"] for row in views)
        and all(row["log_end"] <= send["offset"] for row in views)
    }


def _load(h: Rows) -> tuple[int, int] | None:
    """From the first send to the last send or outcome."""
    sent = [row["sent_ns"] for row in h["sends"]]
    done = [row["done_ns"] for row in h["sends"] if row["done_ns"] is not None]
    return (min(sent), max(sent + done)) if sent else None


Time = tuple[int, int, int]  # from, to, consumer


def _owned(h: Rows) -> dict[tuple[int, int, int], list[Time]]:
    """By group and tp. Each time ends with the next word about it, with its consumer's death, or with the load."""
    load = _load(h)
    deaths = defaultdict(list)
    for row in h["nodes"]:
        deaths[row["node"]].append(row["at_ns"])
    names = {member["consumer"]: member["name"] for member in h["members_of"]}
    accounts = defaultdict(list)
    for row in sorted(h["groups"], key=lambda row: int(row["at_ns"])):
        accounts[row["consumer"], row["group"], *tp(row)].append(row)
    found = defaultdict(list)
    for (consumer, *place), told in accounts.items():
        for row, following in zip_longest(told, told[1:]):
            begin = row["at_ns"]
            ends = [death for death in deaths[names[consumer]] if death > begin]
            if following is not None:
                ends.append(following["at_ns"])
            elif load is not None:
                ends.append(load[1])
            if row["event"] == "assigned" and ends and min(ends) > begin:
                found[place[0], place[1], place[2]].append((begin, min(ends), consumer))
    return found


def dual_ownership(h: Rows) -> Answer:
    found = set()
    for place, times in _owned(h).items():
        for one in times:
            for other in times:
                begin, end = max(one[0], other[0]), min(one[1], other[1])
                if one[2] < other[2] and begin < end:
                    found.add((*place, one[2], other[2], begin, end))
    return found


def ownership_gap(h: Rows) -> Answer:
    """From its first owner on; of what had none at all, the load. Without a load, up to its last owner."""
    load, owned = _load(h), _owned(h)
    found = set()
    for place, times in owned.items():
        first, last = min(begin for begin, _, _ in times), max(end for _, end, _ in times)
        free = [(first, last) if load is None else (max(first, load[0]), load[1])]
        for begin, end, _ in times:
            pieces = [piece for low, high in free for piece in ((low, min(high, begin)), (max(low, end), high))]
            free = [(low, high) for low, high in pieces if low < high]
        found |= {(*place, low, high) for low, high in free}
    for member in h["members_of"]:
        for known in h["ends"]:
            place = (member["group"], *tp(known))
            if known["topic"] == member["topic"] and place not in owned and load is not None and load[0] < load[1]:
                found.add((*place, *load))
    return found


def rebalances(h: Rows) -> Answer:
    load = _load(h)
    idle: Counter[int] = Counter()
    for group, _, _, begin, end in ownership_gap(h):
        idle[group] += end - begin
    found = set()
    for group in {row["group"] for row in h["groups"]}:
        words = sorted(row["at_ns"] for row in h["groups"] if row["group"] == group)
        anew = [word for before, word in pairwise(words) if word - before > SECOND]
        during = [word for word in anew if load is not None and load[0] <= word <= load[1]]
        found.add((group, len(during), idle[group] / SECOND, bool(during)))
    return found


def _transactions(h: Rows) -> list[dict[str, Any]]:
    """Each with its numbers, its outcome (null if unknown), and when its commit was asked for."""
    told = defaultdict(list)
    for row in sorted(h["transactions"], key=lambda row: int(row["at_ns"])):
        told[row["producer"], row["transaction"]].append(row)
    return [
        {
            "producer": producer,
            "transaction": number,
            "outcome": next((e["event"] for e in events if e["event"] in ("committed", "aborted", "unknown")), None),
            "asked": next((e["at_ns"] for e in events if e["event"] == "committing"), None),
            "values": [(producer, seq) for seq in range(events[0]["first_seq"], events[-1]["last_seq"] + 1)],
        }
        for (producer, number), events in told.items()
    ]


def _of_transactions(h: Rows, but: str) -> set[tuple[int, int]]:
    """The values of transactions of every outcome but one."""
    return {who for each in _transactions(h) if each["outcome"] != but for who in each["values"]}


def _careful(h: Rows) -> set[int]:
    """Consumers that ask for committed messages only."""
    return {member["consumer"] for member in h["members_of"] if member["isolation"] == "read_committed"}


def torn_transaction(h: Rows) -> Answer:
    fate = {row[:2]: row[2] for row in fates(h)}
    writes = {row["producer"]: row["topic"] for row in h.get("writers", [])}
    topics = {who: writes[who[0]] for who in unreported(h)} | {value(row): row["topic"] for row in h["sends"]}
    found = set()
    for each in _transactions(h):
        sent = [who for who in each["values"] if who in fate]
        gone = [who for who in sent if fate[who].startswith("lost_") or fate[who] in ("not_written", "rejected")]
        if gone and len(gone) < len(sent):
            topic = min(topics[who] for who in sent)
            counts = (len(sent) - len(gone), len(gone), min(gone)[1])
            found.add((each["producer"], each["transaction"], topic, each["outcome"], *counts))
    return found


def uncommitted_read(h: Rows) -> Answer:
    careful = _careful(h)
    found = set()
    for each in _transactions(h):
        for row in h["reads"]:
            early = each["asked"] is None or row["read_ns"] < each["asked"]
            not_yet_or_never = early or each["outcome"] == "aborted"
            if value(row) in each["values"] and row["consumer"] in careful and not_yet_or_never:
                found.add((*read_of(row), each["transaction"], each["outcome"], each["asked"]))
    return found


def hanging_transaction(h: Rows) -> Answer:
    if not h["transactions"]:
        return set()
    limit_ms = max(row["timeout_ms"] for row in h["transactions"]) + 10_000
    writers = defaultdict(set)
    for each in _transactions(h):
        for send in h["sends"]:
            if value(send) in each["values"] and send["offset"] is not None:
                writers[position(send)].add((each["producer"], each["transaction"]))
    lanes = defaultdict(list)
    for row in sorted(h["stable"], key=lambda row: int(row["at_ns"])):
        lanes[tp(row)].append(row)
    found = set()
    for place, told in lanes.items():
        for held, words in groupby(told, lambda row: (row["last_stable"], row["last_stable"] < row["high_watermark"])):
            times = [row["at_ns"] for row in words]
            ms = (times[-1] - times[0]) / 1e6
            if held[1] and ms > limit_ms:
                for writer in writers[*place, held[0]] or {(None, None)}:
                    found.add((*place, held[0], *writer, times[0], times[-1], ms, limit_ms))
    return found
