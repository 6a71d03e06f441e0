"""The second judge's answers about what a scenario plans: keys, seeks, directories, outboxes, claims, replicas.

Dictionaries and loops over one history, from the definitions alone, as in `reference`. Beside the journal's tables a
history holds what its `run.json` says: `producers_of`, `topics_of`, `brokers_of`, `mode_of`, `claims_of`, `marks_of`.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

from tests.support.oracles.reference import SECOND, Rows, fates, tp, value

Found = list[tuple[Any, ...]]


# -- keys ------------------------------------------------------------------------------------------------------------


def key_moved(h: Rows) -> Found:
    written = defaultdict(list)
    for send in sorted(h["sends"], key=value):
        if send["outcome"] == "ok" and send["key"] is not None and send["partition"] >= 0:
            written[send["producer"], send["topic"], send["key"]].append(send)
    return [
        (*name, one["seq"], one["partition"], one["offset"], two["seq"], two["partition"], two["offset"])
        for name, sends in written.items()
        for one, two in pairwise(sends)
        if one["partition"] != two["partition"]
    ]


def key_reordered(h: Rows) -> Found:
    first: dict[tuple[int, int, int], int] = {}
    for read in h["reads"]:
        name = (read["group"], *value(read))
        first[name] = min(read["read_ns"], first.get(name, read["read_ns"]))
    keyed = {value(send): send for send in h["sends"] if send["key"] is not None}
    found = []
    for (group, producer, seq), read_ns in first.items():
        send = keyed.get((producer, seq))
        if send is None:
            continue
        sent_later = [
            other_ns
            for (other_group, *other), other_ns in first.items()
            if other_group == group and other[0] == producer and other[1] > seq
            for later in [keyed.get((other[0], other[1]))]
            if later is not None and (later["topic"], later["key"]) == (send["topic"], send["key"])
        ]
        if sent_later and min(sent_later) < read_ns:
            late = (read_ns - min(sent_later)) / 1e6
            place = (send["topic"], send["key"], producer, seq, send["partition"])
            found.append((group, *place, read_ns, min(sent_later), late))
    return found


# -- places ----------------------------------------------------------------------------------------------------------


def log_dir_placement(h: Rows) -> Found:
    looks: dict[int, dict[int, dict[int, list[str]]]] = defaultdict(lambda: defaultdict(dict))
    for row in h["places"]:
        looks[row["broker"]][row["step"]][row["directory"]] = row["partitions"]
    found = []
    for broker, steps in looks.items():
        for one, two in pairwise(sorted(steps)):
            old, new = steps[one], steps[two]
            given = sorted(name for each in new for name in new[each] if name not in old.get(each, []))
            if not given:
                continue
            before = tuple(len(old.get(each, [])) for each in sorted(new))
            after = tuple(len(new[each]) for each in sorted(new))
            heap = list(before)
            heapq.heapify(heap)
            for _ in given:
                heapq.heappush(heap, heapq.heappop(heap) + 1)
            rule = tuple(sorted(heap, reverse=True))
            wrong = Counter(rule) != Counter(after)
            found.append((broker, two, before, after, rule, tuple(given), wrong))
    return found


def seek_mismatch(h: Rows) -> Found:
    told = ("topic", "partition", "fault", "by", "asked", "policy", "landed", "landed_ms", "before_ms", "log_start")
    return [tuple(s[name] for name in (*told, "log_end", "error")) for s in h["seeks"] if not _right(s)]


def _right(s: dict[str, Any]) -> bool:
    waits: bool = s["error"] is None and (s["landed"] is None or s["landed"] >= s["log_end"])
    by_policy: bool
    if s["policy"] == "earliest":
        by_policy = s["landed"] is not None and s["log_start"] <= s["landed"] <= s["log_start_after"]
    else:
        by_policy = waits if s["policy"] == "latest" else s["error"] == "_AUTO_OFFSET_RESET"
    if s["by"] == "offset":
        there: bool = s["landed"] == s["asked"]
        if s["log_start_after"] <= s["asked"] < s["log_end"]:
            return there
        gone = s["asked"] < s["log_start"] or s["asked"] >= s["log_end_after"]
        return by_policy if gone else there or by_policy
    if s["answer"] is None:
        return waits
    young = s["landed_ms"] is not None and s["landed_ms"] >= s["asked"]
    first = s["before_ms"] is None or s["before_ms"] < s["asked"]
    there = s["landed"] == s["answer"] and young and first
    taken = s["answer"] < s["log_start_after"] and s["landed"] != s["answer"]  # by retention, meanwhile
    return there or (taken and by_policy)


def membership_gap(h: Rows) -> Found:
    found = []
    everybody = {broker for row in h["members"] for broker in row["brokers"]}
    for source in {row["source"] for row in h["members"]}:
        answers = sorted((row["at_ns"], row["brokers"]) for row in h["members"] if row["source"] == source)
        for broker in everybody:
            known, gone_ns = False, None
            for at_ns, brokers in answers:
                if broker in brokers:
                    if gone_ns is not None:
                        found.append((source, broker, gone_ns, at_ns))
                    known, gone_ns = True, None
                elif known and gone_ns is None:
                    gone_ns = at_ns
            if gone_ns is not None:
                found.append((source, broker, gone_ns, None))
    return found


# -- producers -------------------------------------------------------------------------------------------------------


def unpublished(h: Rows) -> Found:
    promised = {row["producer"] for row in h["producers_of"] if row["outbox"]}
    fate_of = {(producer, seq): fate for producer, seq, fate in fates(h)}
    return [
        (s["topic"], *value(s), fate_of[value(s)], s["outcome"], s["error"], s["sent_ns"])
        for s in h["sends"]
        if s["producer"] in promised and (fate_of[value(s)].startswith("lost") or _never_there(fate_of[value(s)]))
    ]


def _never_there(fate: str) -> bool:
    return fate in ("not_written", "rejected")


def exit_codes(h: Rows) -> Found:
    found = []
    for producer in h["producers_of"]:
        lives = sorted((row["at_ns"], row["code"]) for row in h["nodes"] if row["node"] == producer["name"])
        codes = [-1 if code is None else code for _, code in lives]
        if producer["exits"] and codes != producer["exits"]:
            found.append((producer["name"], tuple(producer["exits"]), tuple(codes) if codes else None))
    return found


def refusals(h: Rows) -> Found:
    fate_of = {(producer, seq): fate for producer, seq, fate in fates(h)}
    found: Found = []
    for producer in (row for row in h["producers_of"] if row["refused"]):
        own = [send for send in h["sends"] if send["producer"] == producer["producer"]]
        if not own:
            found.append((producer["topic"], producer["producer"], None, None, None, None))
        for s in own:
            no_permission = s["error"] in ("TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED")
            if s["outcome"] != "fail" or not no_permission or fate_of[value(s)] == "resurrected":
                found.append((s["topic"], *value(s), fate_of[value(s)], s["outcome"], s["error"]))
    return found


def not_exactly_once(h: Rows) -> Found:
    found = []
    for producer in (row for row in h["producers_of"] if row["input"] is not None):
        (topic,) = [row["topic"] for row in h["topics_of"] if row["name"] == producer["input"]]
        records = Counter(row["seq"] for row in h["log"] if row["topic"] == topic)
        answers: dict[int | None, list[int]] = defaultdict(list)
        stands = Counter(value(row) for row in h["log"])
        for send in h["sends"]:
            if send["producer"] == producer["producer"]:
                answers[send["key"]] += [send["seq"]] * stands[value(send)]
        wrote = {send["topic"] for send in h["sends"] if send["producer"] == producer["producer"]}
        cut = {row["topic"] for row in h["ends"] if row["log_start"] > 0}
        for key in {*records, *answers}:
            too_few, too_many = records[key] > len(answers[key]), records[key] < len(answers[key])
            if (too_few and not wrote & cut) or (too_many and topic not in cut):
                first = min(answers[key], default=None)
                found.append((producer["producer"], key, records[key], len(answers[key]), first))
    return found


# -- claims ----------------------------------------------------------------------------------------------------------


def claims(h: Rows) -> Found:
    when, ids = _moments(h), {row["name"]: row["broker"] for row in h["brokers_of"]}
    hit = {row["fault"]: row["targets"] for row in h["faults"] if row["event"] == "proved"}
    topics = {row["name"]: row["topic"] for row in h["topics_of"]}
    found = []
    for claim in h["claims_of"]:
        name, _, number = claim["partitions"].rpartition("/")
        read = {row["partition"] for row in h["ends"] + h["mirror_ends"] if row["topic"] == topics[name]}
        brokers = {
            what: {ids[node] for each in claim[what] for node in _meant(each, hit) if node in ids}
            for what in ("leader", "not_leader", "isr", "isr_without")
        }
        for partition in (read or {None}) if number == "*" else {int(number)}:
            view = _view(h, topics[name], partition, when.get(claim["at"]))
            earlier = _view(h, topics[name], partition, when.get(claim["same_leader_as"]))
            acks = _acked(h, topics[name], partition, when.get(claim["at"]))
            if not _holds(claim, brokers, view, earlier, acks):
                seen = (view["leader"], _tuple(view["isr"]), _tuple(view["replicas"]))
                found.append((claim["claim"], topics[name], partition, claim["at"], *seen, acks or None))
    return found


def _meant(name: str, hit: dict[int, list[str]]) -> list[str]:
    word, _, number = name.partition(":")
    return hit.get(int(number), []) if word == "target" else [name]


def _tuple(values: list[int] | None) -> tuple[int, ...] | None:
    return None if values is None else tuple(values)


def _moments(h: Rows) -> dict[str, int]:
    """A fault that lasts is looked at just before it ends, one that does not just before the next one begins."""
    (marks,) = h["marks_of"]
    found = {"start": marks["load_begun_ns"], "end": marks["drained_ns"]}
    told: dict[int, dict[str, dict[str, Any]]] = defaultdict(dict)
    for row in h["faults"]:
        told[row["fault"]][row["event"]] = row
    begun = {fault: events["asked"]["at_ns"] for fault, events in told.items() if "asked" in events}
    over = [events[end]["at_ns"] for events in told.values() for end in ("healed", "not healed") if end in events]
    all_over = marks["healed_ns"] if marks["healed_ns"] is not None else max(over, default=None)
    for fault, at_ns in begun.items():
        found[f"before {fault}"] = at_ns
        events = told[fault]
        if "healed" in events and events["healed"]["by"] != "done":
            found[f"during {fault}"] = events.get("healing", events["healed"])["at_ns"]
        else:
            later = [other for other in begun.values() if other > at_ns]
            known = [moment for moment in (all_over, marks["load_ended_ns"]) if moment is not None]
            found[f"during {fault}"] = min(later) if later else max(known, default=None)
    return {name: moment for name, moment in found.items() if moment is not None}


NOTHING: dict[str, Any] = {"leader": None, "isr": None, "replicas": None}


def _view(h: Rows, topic: int, partition: int | None, moment: int | None) -> dict[str, Any]:
    best: tuple[Any, ...] | None = None
    view = NOTHING
    for row in h["state"]:
        if moment is None or tp(row) != (topic, partition) or not moment - 3 * SECOND < row["at_ns"] <= moment:
            continue
        if row["leader_epoch"] is None or row["error"] not in (None, "LEADER_NOT_AVAILABLE"):
            continue
        rank = (row["leader_epoch"], row["leader"] == row["broker"], row["at_ns"])
        if best is None or rank > best:
            best, view = rank, row
    return view


def _acked(h: Rows, topic: int, partition: int | None, moment: int | None) -> int:
    return sum(
        moment is not None
        and send["outcome"] == "ok"
        and tp(send) == (topic, partition)
        and send["done_ns"] is not None
        and moment - 2 * SECOND < send["done_ns"] <= moment
        for send in h["sends"]
    )


def _holds(
    claim: dict[str, Any], brokers: dict[str, set[int]], view: dict[str, Any], earlier: dict[str, Any], acks: int
) -> bool:
    if view["isr"] is None:
        return False
    leader = view["leader"] if view["leader"] is not None and view["leader"] >= 0 else None
    in_sync, replicas = set(view["isr"]), view["replicas"]
    wrong = [
        claim["leader"] and leader not in brokers["leader"],
        claim["not_leader"] and leader in brokers["not_leader"],
        claim["isr"] and in_sync != brokers["isr"],
        claim["isr_without"] and in_sync & brokers["isr_without"],
        claim["isr_full"] and (replicas is None or len(in_sync) < len(replicas)),
        claim["preferred"] and (leader is None or not replicas or leader != replicas[0]),
        claim["no_leader"] and leader is not None,
        claim["same_leader_as"] is not None and (leader is None or leader != earlier["leader"]),
        claim["acked"] is not None and claim["acked"] != (acks > 0),
    ]
    return not any(wrong)


# -- replicas --------------------------------------------------------------------------------------------------------


def allocation(h: Rows) -> Found:
    rack_of = {row["broker"]: row["rack"] or "" for row in h["brokers_of"]}
    mode = h["mode_of"][0]["mode"]
    found: Found = []
    for topic in h["topics_of"]:
        if topic["name"].startswith("dc2:"):
            continue
        placed: dict[int, list[int]] = {}
        for row in sorted(h["state"], key=lambda row: int(row["at_ns"])):
            grown = topic["partitions"] is not None and row["partition"] >= topic["partitions"]
            if row["topic"] == topic["topic"] and row["replicas"] is not None and not grown:
                placed.setdefault(row["partition"], row["replicas"])
        if not placed:
            continue
        whole = set(placed) == set(range(len(placed)))
        sequence = [placed[partition] for partition in sorted(placed)]
        draw = _draw(sequence, rack_of) if mode == "zookeeper" and whole else None
        made = _rule(*draw, len(sequence), len(sequence[0]), rack_of) if draw else None
        for partition, replicas in sorted(placed.items()):
            beside = tuple(made[partition]) if made else None
            found.append((topic["topic"], partition, tuple(replicas), beside, *(draw or (None, None)), False, None))
            for problem in _problems(replicas, rack_of, mode):
                seen = (topic["topic"], partition, tuple(replicas))
                found.append((*seen, None, None, None, True, problem))
        if whole:
            together = [_uneven(sequence, rack_of, mode)]
            if mode == "zookeeper" and draw is None:
                together.append("no start and no shift explain this sequence")
            found += [(topic["topic"], -1, None, None, None, None, True, words) for words in together if words]
    return found


def _draw(sequence: list[list[int]], rack_of: dict[int, str]) -> tuple[int, int] | None:
    for start in range(len(rack_of)):
        for shift in range(len(rack_of)):
            if _rule(start, shift, len(sequence), len(sequence[0]), rack_of) == sequence:
                return start, shift
    return None


def _rule(start: int, shift: int, partitions: int, replication: int, rack_of: dict[int, str]) -> list[list[int]]:
    """Kafka's words: brokers alternate by rack; a replica goes to no rack, and to no broker, that has one already while
    others have none; and the distance to the first replica grows by one each time that all brokers were first."""
    racks = {rack: sorted(b for b in rack_of if rack_of[b] == rack) for rack in sorted(set(rack_of.values()))}
    ring: list[int] = []
    while len(ring) < len(rack_of):
        ring += [own.pop(0) for own in racks.values() if own]
    size, assignment = len(ring), []
    for partition in range(partitions):
        first = (start + partition) % size
        replicas, tries = [ring[first]], 0
        while len(replicas) < replication:
            distance = ((shift + partition // size) * len(racks) + tries) % (size - 1)
            broker = ring[(first + 1 + distance) % size]
            tries += 1
            has_rack = {rack_of[each] for each in replicas}
            if rack_of[broker] in has_rack and len(has_rack) < len(racks):
                continue
            if broker in replicas and len(set(replicas)) < size:
                continue
            replicas.append(broker)
        assignment.append(replicas)
    return assignment


def _problems(replicas: list[int], rack_of: dict[int, str], mode: str) -> list[str]:
    found = []
    racks = set(rack_of.values())
    if max(Counter(replicas).values()) > 1:
        found.append("a broker holds it twice")
    if len({rack_of[broker] for broker in replicas}) < min(len(racks), len(replicas)):
        found.append("its replicas are in fewer racks than they could be")
    for place, (one, two) in enumerate(pairwise(replicas), start=1):
        others = [broker for broker in rack_of if broker not in replicas[:place] and rack_of[broker] != rack_of[one]]
        if mode == "kraft" and rack_of[one] == rack_of[two] and others:
            found.append("two neighbours among its replicas are in one rack")
            break
    return found


def _uneven(sequence: list[list[int]], rack_of: dict[int, str], mode: str) -> str | None:
    """KRaft goes round the racks, where there are several; of different sizes they need not be even."""
    racks = Counter(rack_of.values())
    by_rack = mode == "kraft" and len(racks) > 1
    if by_rack and min(racks.values()) != max(racks.values()):
        return None
    turns: list[Any] = [rack_of[replicas[0]] if by_rack else replicas[0] for replicas in sequence]
    firsts = {each: turns.count(each) for each in (sorted(racks) if by_rack else sorted(rack_of))}
    if max(firsts.values()) - min(firsts.values()) <= 1:
        return None
    told = ", ".join(f"{each}: {count}" for each, count in firsts.items())
    return f"first replicas are not even over the {'racks' if by_rack else 'brokers'} ({told})"
