"""The second judge, of what is measured or shown: plain Python over one history, written from the definitions alone.

A history is the journal's tables, and what `run.json` says: `plan` (one row: the lines of the scenario's table `judge`
and the marks of the run), `planned_faults`, `expected` (alerts), `members_of` (groups) and `tables_of` (producers).
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from math import ceil
from typing import Any

from tests.support.oracles.reference import SECOND, Answer, Rows, fates, tp, value

MS = 1_000_000
FOR_EVER = float("inf")
AT_NIGHT = {"isr-below-minimum", "no-leader", "no-controller", "unclean-election", "rate"}
NO_LEADER_MOVES = {"start", "seek", "resize", "caught-up", "translated"}


def _line(h: Rows, name: str, otherwise: float) -> float:
    said = h["plan"][0][name]
    return otherwise if said is None else float(said)


def _when(h: Rows, fault: int, event: str) -> int | None:
    return min((row["at_ns"] for row in h["faults"] if (row["fault"], row["event"]) == (fault, event)), default=None)


def _since(begin: int, moment: int | None, unit: int) -> float | None:
    return None if moment is None else (moment - begin) / unit


def failover(h: Rows) -> Answer:
    found = set()
    for proof in [row for row in h["faults"] if row["event"] == "proved"]:
        proved, fault = proof["at_ns"], proof["fault"]
        of_clients = any(name.startswith(("producer", "consumer")) for name in proof["targets"])
        if proof["kind"] in NO_LEADER_MOVES or of_clients or proved != _when(h, fault, "proved"):
            continue
        asked = _when(h, fault, "asked")
        for end in h["ends"]:
            old, new, new_at = _epochs(h, tp(end), proved)
            errors = [
                send["done_ns"]
                for send in h["sends"]
                if send["outcome"] != "ok" and send["topic"] == end["topic"]
                if send["partition"] in (-1, end["partition"]) and send["done_ns"] is not None
                if send["done_ns"] >= (proved if asked is None else asked)
            ]
            steps = (min(errors, default=None), new_at, _first_ack(h, tp(end), new), _full_again(h, tp(end), proved))
            times = [_since(proved, step, MS) for step in steps]
            found.add((fault, proof["kind"], *tp(end), proved, old, new, *times))
    return found


def _epochs(h: Rows, place: tuple[int, int], proved: int) -> tuple[int | None, int | None, int | None]:
    """The newest that was known by then, the first newer one that was seen afterwards, and when."""
    seen = [
        (row["at_ns"], row["leader_epoch"])
        for row in h["state"]
        if tp(row) == place and row["leader_epoch"] is not None and row["leader"] is not None and row["leader"] >= 0
    ]
    old = max((epoch for at_ns, epoch in seen if at_ns <= proved), default=None)
    newer = sorted((at_ns, epoch) for at_ns, epoch in seen if old is None or epoch > old)
    return (old, newer[0][1], newer[0][0]) if newer else (old, None, None)


def _first_ack(h: Rows, place: tuple[int, int], epoch: int | None) -> int | None:
    copies = defaultdict(list)
    for row in h["log"]:
        copies[value(row)].append(row["leader_epoch"])
    acks = []
    for send in h["sends"]:
        written = copies[value(send)]
        if send["outcome"] == "ok" and tp(send) == place and len(written) == 1 and None not in (written[0], epoch):
            acks += [send["done_ns"]] if written[0] >= epoch else []
    return min(acks, default=None)


def _full_again(h: Rows, place: tuple[int, int], proved: int) -> int | None:
    """When the last of the leaders' own words that were all of a full ISR began, if others came before."""
    own = [row for row in h["state"] if tp(row) == place and row["leader"] == row["broker"]]
    told = [row for row in own if row["isr"] is not None and row["replicas"] is not None]
    told.sort(key=lambda row: (-1 if row["leader_epoch"] is None else row["leader_epoch"], row["at_ns"]))
    since = None
    while told and len(told[-1]["isr"]) >= len(told[-1]["replicas"]):
        since = told.pop()["at_ns"]
    return since if told and since is not None and since > proved else None


def ack_latency(h: Rows) -> Answer:
    line_ns = _line(h, "late_ms", 1000) * MS
    found = set()
    for basis in ("due", "sent"):
        took = sorted(max(row["done_ns"] - row[f"{basis}_ns"], 0) for row in h["sends"] if row["outcome"] == "ok")
        if took:
            ranks = [ceil(len(took) * Fraction(share)) for share in ("0.5", "0.9", "0.99", "0.999")]
            shown = [_seven_bits(took[rank - 1] // 1000) / 1000 for rank in ranks]
            too_late = len([each for each in took if each > line_ns])
            found.add((basis, len(took), *shown, took[-1] / MS, too_late))
    return found


def _seven_bits(number: int) -> int:
    digits = f"{number:b}"
    return int(digits[:7] + "0" * len(digits[7:]), 2)


def _seconds(h: Rows) -> list[dict[str, Any]]:
    """Each second of the load, from its first send to its last, and each other in which anything happened."""
    if not h["sends"]:
        return []
    first, last = min(row["sent_ns"] for row in h["sends"]), max(row["sent_ns"] for row in h["sends"])

    def counted(moments: list[int | None]) -> dict[int, int]:
        counts: dict[int, int] = defaultdict(int)
        for moment in moments:
            if moment is not None:
                counts[(moment - first) // SECOND] += 1
        return counts

    sent = counted([row["sent_ns"] for row in h["sends"]])
    acked = counted([row["done_ns"] for row in h["sends"] if row["outcome"] == "ok"])
    done = counted([row["done_ns"] for row in h["sends"]])
    read = counted([row["read_ns"] for row in h["reads"]])
    waiting, found = 0, []
    for second in sorted({*range((last - first) // SECOND + 1), *acked, *done, *read}):
        waiting += sent[second] - done[second]
        begin = first + second * SECOND
        found.append(
            {
                "shown": (second, begin, sent[second], acked[second], read[second]),
                "waiting": waiting,
                "full": second >= 0 and begin + SECOND <= last,
                "fault": _covering(h, begin),
            }
        )
    return found


def _covering(h: Rows, begin: int) -> int | None:
    """Of the faults that had begun before the second was over, and were not long over when it began, the last."""
    covering = []
    for row in h["faults"]:
        if row["event"] == "asked" and row["at_ns"] < begin + SECOND:
            healed = _when(h, row["fault"], "healed")
            if healed is None or healed + _line(h, "dip_s", 10) * SECOND > begin:
                covering.append((row["at_ns"], row["fault"]))
    return max(covering)[1] if covering else None


def rate(h: Rows) -> Answer:
    line = _line(h, "rate_line", 0)
    return {(*each["shown"], each["fault"], each["full"] and each["shown"][2] < line) for each in _seconds(h)}


def dips(h: Rows) -> Answer:
    line = _line(h, "rate_line", 0)
    found = set()
    for each in _seconds(h):
        second, _, _, acked, read = each["shown"]
        low = acked < line or each["waiting"] > line or (bool(h["members_of"]) and read < line)
        if low and line > 0 and second > 0 and each["full"]:
            found.add((*each["shown"], each["waiting"], each["fault"], each["fault"] is None))
    return found


def _alert_spans(h: Rows) -> dict[str, list[tuple[int, int | None]]]:
    """By rule: when it was raised, and cleared."""
    spans: dict[str, list[tuple[int, int | None]]] = defaultdict(list)
    for row in sorted(h["alerts"], key=lambda row: int(row["at_ns"])):
        if row["event"] == "raised":
            spans[row["rule"]].append((row["at_ns"], None))
        elif row["event"] == "cleared":
            spans[row["rule"]][-1] = (spans[row["rule"]][-1][0], row["at_ns"])
    return spans


def _windows(h: Rows) -> list[dict[str, Any]]:
    """Each expected alert with the time in which its fault explains one; those that overlap end together."""
    found = []
    for plan in h["expected"]:
        undone = plan["undone_by"]
        over = _when(h, plan["fault"], "healed") if undone is None else _when(h, undone, "proved")
        gone_by = FOR_EVER if over is None else over + round(plan["clears_within_s"] * SECOND)
        found.append({**plan, "begin": _when(h, plan["fault"], "asked"), "gone_by": gone_by})
    begun = [each for each in found if each["begin"] is not None]
    for _ in begun:  # as often as any chain of them is long
        for one in begun:
            for other in begun:
                overlap = one["begin"] <= other["gone_by"] and other["begin"] <= one["gone_by"]
                if one["rule"] == other["rule"] and overlap:
                    one["gone_by"] = max(one["gone_by"], other["gone_by"])
    return found


def alerts(h: Rows) -> Answer:
    spans, windows = _alert_spans(h), _windows(h)
    found = set()
    for each in windows:
        its = [
            (raised, cleared)
            for raised, cleared in spans[each["rule"]]
            if each["begin"] is not None and raised <= each["gone_by"]
            if cleared is None or cleared > each["begin"]
        ]
        proved = _when(h, each["fault"], "proved")
        first = min((raised for raised, _ in its), default=None)
        last = max((cleared for _, cleared in its if cleared is not None), default=None)
        result = _result(h, each, proved, its)
        found.add(_shown(each["rule"], each["fault"], result, first, last, proved))
    for rule, own in spans.items():
        for raised, cleared in own:
            explained = [
                each
                for each in windows
                if each["rule"] == rule and each["begin"] is not None and each["begin"] <= raised <= each["gone_by"]
            ]
            if not explained:
                begun = [
                    (row["at_ns"], row["fault"])
                    for row in h["faults"]
                    if row["event"] == "asked" and row["at_ns"] <= raised
                ]
                found.add(_shown(rule, max(begun)[1] if begun else None, "false", raised, cleared, None))
    return found


def _result(h: Rows, each: dict[str, Any], proved: int | None, its: list[tuple[int, int | None]]) -> str:
    watched = h["plan"][0]["load_ended_ns"]
    if not its:
        return "missed"
    if proved is not None and min(raised for raised, _ in its) > proved + round(each["within_s"] * SECOND):
        return "late"
    if all(cleared is not None and cleared <= each["gone_by"] for _, cleared in its):
        return "hit"
    if each["gone_by"] == FOR_EVER:  # nothing says by when, where the fault was never over; but for the watching
        return "hit"
    stands = any(cleared is None for _, cleared in its)
    return "unfinished" if stands and watched is not None and watched < each["gone_by"] else "stuck"


def _shown(
    rule: str, fault: int | None, result: str, raised: int | None, cleared: int | None, proved: int | None
) -> tuple[Any, ...]:
    after = None if raised is None or proved is None else _since(proved, raised, SECOND)
    stood = None if raised is None else _since(raised, cleared, SECOND)
    told = "at once" if rule in AT_NIGHT else "in the morning"
    return (rule, fault, result, raised, cleared, after, stood, told, result not in ("hit", "unfinished"))


def partition_shares(h: Rows) -> Answer:
    of_group = defaultdict(list)
    for member in h["members_of"]:
        of_group[member["group"]].append(member)
    found = set()
    for group, members in of_group.items():
        read = {m["consumer"]: [tp(row) for row in h["reads"] if row["consumer"] == m["consumer"]] for m in members}
        in_all, reading = sum(map(len, read.values())), len([places for places in read.values() if places])
        for m in members:
            own = read[m["consumer"]]
            share = len(own) / in_all if in_all else None
            wrong = m["readers"] is not None and m["readers"] != reading
            found.add((group, m["consumer"], len(own), len(set(own)), share, reading, m["readers"], wrong))
    return found


def throughput(h: Rows) -> Answer:
    tables = defaultdict(list)
    known = {row["producer"]: row for row in h["tables_of"]}
    for row in h["sends"]:
        if row["outcome"] == "ok":
            tables[known[row["producer"]]["table"], known[row["producer"]]["threads"]].append(row)
    found = set()
    for (table, threads), acked in tables.items():
        begin = min(row["sent_ns"] for row in acked)
        seconds = (max(row["done_ns"] for row in acked) - begin) / SECOND
        per_second = len(acked) / seconds if seconds > 0 else None
        found.add((table, len({row["producer"] for row in acked}), threads, len(acked), begin, seconds, per_second))
    return found


def _phases(h: Rows) -> list[tuple[str, int, int]]:
    """Each from what began it until the next thing was asked for."""
    begin, end = h["plan"][0]["load_begun_ns"], h["plan"][0]["load_ended_ns"]
    if begin is None or end is None:
        return []
    turns = []  # when it was there, whose it is and whether its end, when it was asked for, its name
    for fault in h["planned_faults"]:
        name = " ".join([fault["kind"], *fault["asked"]])
        for event, asked_for, words in (("proved", "asked", name), ("healed", "healing", f"the end of {name}")):
            there, asked = _when(h, fault["fault"], event), _when(h, fault["fault"], asked_for)
            if there is not None and not (event == "healed" and asked is None):
                turns.append((there, fault["fault"], event == "healed", there if asked is None else asked, words))
    found = [("the beginning", begin, end)]
    for there, _, _, asked, words in sorted(turns):
        name, since, _ = found[-1]
        if since < there < end:
            found[-1] = (name, since, max(asked, since))
            found.append((words, there, end))
    return found


def phases(h: Rows) -> Answer:
    fate = {row[:2]: row[2] for row in fates(h)}
    found = set()
    for number, (name, begin, end) in enumerate(_phases(h)):
        for topic in {row["topic"] for row in h["sends"]}:
            own = [row for row in h["sends"] if row["topic"] == topic]
            sent = [row for row in own if begin <= row["sent_ns"] < end]
            since = max(begin, end - 3 * SECOND)
            came = [row["outcome"] for row in own if row["done_ns"] is not None and since <= row["done_ns"] < end]
            if sent or came:
                lost = len([row for row in sent if fate[value(row)].startswith("lost_")])
                ok, fail, info = (len([row for row in sent if row["outcome"] == o]) for o in ("ok", "fail", "info"))
                at_last = "written" if "ok" in came else "refused" if "fail" in came else "unavailable"
                settled = "lost" if lost else at_last
                found.add((topic, number, name, len(sent), ok - lost, fail, info, lost, settled))
    return found


def _moments(h: Rows) -> list[tuple[int, str]]:
    marks = h["plan"][0]
    found = [] if marks["load_begun_ns"] is None else [(marks["load_begun_ns"], "start")]
    asked = sorted((row["at_ns"], row["fault"]) for row in h["faults"] if row["event"] == "asked")
    ends = [row["at_ns"] for row in h["faults"] if row["event"] in ("healed", "not healed")]
    all_over = marks["healed_ns"] if marks["healed_ns"] is not None else max(ends, default=0)
    for place, (at_ns, fault) in enumerate(asked):
        healed = [row for row in h["faults"] if (row["fault"], row["event"]) == (fault, "healed")]
        if healed and healed[0]["by"] != "done":
            healing = _when(h, fault, "healing")
            until = healed[0]["at_ns"] if healing is None else healing
        elif place + 1 < len(asked):
            until = asked[place + 1][0]
        else:
            until = max(all_over, marks["load_ended_ns"] or 0)
        found += [(at_ns, f"before {fault}"), (until, f"during {fault}")]
    found += [] if marks["drained_ns"] is None else [(marks["drained_ns"], "end")]
    return sorted(found, key=lambda moment: moment[0])  # what is at one moment stays as it is


def eligible_leaders(h: Rows) -> Answer:
    found = set()
    for place, (moment_ns, name) in enumerate(_moments(h)):
        newest: dict[tuple[int, int], dict[str, Any]] = {}
        for row in sorted(h["eligible"], key=lambda row: int(row["at_ns"])):
            if row["at_ns"] <= moment_ns:
                newest[tp(row)] = row
        for tp_, row in newest.items():
            if row["eligible"] or row["last_known"]:
                found.add((*tp_, place, name, tuple(row["eligible"]), tuple(row["last_known"])))
    return found
