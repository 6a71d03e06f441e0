"""Fitness: whether a run is evidence at all, asked before anything it shows.

A run is unfit if its fault was not proved, not looked at while it stood or not healed, if nothing flowed before the
fault or after it, if the final log was not read to its end, if a producer's numbers have holes, or if the figures do
not add up. Then the result is `unknown`, whatever the checks found. Every line is a sentence; a line that is fit may
carry a remark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from textwrap import shorten

import numpy as np

from ackproof.judge import interference
from ackproof.judge.fates import FATES, IN_LOG
from ackproof.judge.lab_lag import behind_ms, gaps_ms, is_behind, latest_ms, waited_ms
from ackproof.judge.run_facts import exits
from ackproof.judge.run_source import Source
from ackproof.judge.sequence_audit import Producer
from ackproof.model.faults import LEAVE_DOWN, MEND
from ackproof.model.journal_tables import TABLES
from ackproof.model.verdict import Fitness

EXPIRING = ("retention.", "cleanup.policy")  # settings of a topic; of all of a broker's, with `log.` before them
DRIFT_NS = 1_000_000_000
# The lab looks at a fault that stands about once a second. A slow machine is late at that, and yet not blind.
UNSEEN_S = 5.0
SEEN_MAX = 200  # characters of what a probe saw
# What foreign clients do: whether the run is evidence all the same, and the words for it.
ODDITIES = {
    "no event": (False, "printed a line that is no event"),
    "not ours": (False, "told of a message that it was not asked for"),
    "contradiction": (False, "contradicted itself"),
    "miscount": (False, "counted otherwise than it told"),
    "twice": (True, "told the same"),
    "unknown event": (True, "told of an event that is not known here"),
    "torn line": (True, "ended in the middle of a line"),
}


@dataclass(frozen=True)
class Evidence:
    """Everything about one run that fitness looks at."""

    source: Source
    producers: Sequence[Producer]
    fates: Mapping[str, int]
    identity: Mapping[str, int]
    irregular: Mapping[str, int]  # holes, unclosed, twice, unreserved

    def total(self, name: str) -> int:
        return sum(getattr(producer, name) for producer in self.producers)


def fitness(e: Evidence) -> list[Fitness]:
    """Every question, in a fixed order: how it ended, then what is wrong with the journal's files, then the rest."""
    lines = [*ended(e), *e.source.remarks]
    for question in QUESTIONS:
        lines.extend(question(e))
    return lines


def ended(e: Evidence) -> list[Fitness]:
    how = e.source.record.ended
    if how == "complete":
        text = "The run went to its end."
    elif how is None:
        text = "The run was killed before it ended."
    else:
        text = f"The run did not go to its end: it was {how}."
    return [Fitness("ended", how == "complete", text), *(Fitness("problem", True, p) for p in e.source.record.problems)]


def faults(e: Evidence) -> list[Fitness]:
    """Each fault that was asked for was proved, held, was looked at while it stood, and healed."""
    if not e.source.record.faults:
        return [Fitness("faults", True, "The scenario asks for no fault.")]
    lines = []
    for fault in e.source.record.faults:
        events = {row["event"] for row in e.source.small["faults"] if row["fault"] == fault.id}
        what = f"Fault {fault.id} ({fault.kind} {', '.join(fault.asked)})"
        if "asked" not in events and "proved" not in events:
            lines.append(Fitness("faults", False, f"{what} never began."))
        elif "not proved" in events or "proved" not in events:
            lines.append(Fitness("faults", False, f"{what} was not proved{_why(e, fault.id, 'not proved')}."))
        elif broken := _broken(e, fault.id):
            lines.append(Fitness("faults", False, f"{what} did not hold for all of its time: {broken}."))
        elif "not healed" in events or ("healed" not in events and fault.heals):
            why = _why(e, fault.id, "not healed")
            lines.append(Fitness("faults", False, f"{what} was not proved to be healed{why}."))
        elif (unseen_s := _unseen_s(e, fault.id)) > UNSEEN_S:
            lines.append(Fitness("faults", False, f"{what} was not looked at for {unseen_s:.1f} s while it stood."))
        else:
            healed = " and healed" if "healed" in events else ""
            lines.append(Fitness("faults", True, f"{what} was proved{healed}."))
    return lines


def others(e: Evidence) -> list[Fitness]:
    """A lab that somebody else changes meanwhile is not the one that the scenario is about."""
    words = "Somebody else changed the laboratory while the run went on"
    return [Fitness("others", False, f"{words}: {_short(what)}.") for what in e.source.record.others]


def _broken(e: Evidence, fault: int) -> str:
    """When a fault that was proved was first seen not to hold, and what was seen; empty where it always held."""
    rows = [row for row in e.source.small["faults"] if row["fault"] == fault]
    probes = [row for row in e.source.small["probes"] if row["fault"] == fault and not row["held"]]
    seen = [*probes, *(row for row in rows if row["event"] == "broken")]
    if not seen:
        return ""
    first = min(seen, key=lambda row: int(row["at_ns"]))
    proved_ns = min(row["at_ns"] for row in rows if row["event"] == "proved")
    after_s = max(0.0, (first["at_ns"] - proved_ns) / 1e9)  # the lab may look before the run has written its proof down
    what = _short(first["text"])
    return f"{after_s:.1f} s after its proof" + (f", {what}" if what else "")


def _why(e: Evidence, fault: int, event: str) -> str:
    """What the laboratory said of a fault that it could not prove; empty where it said nothing."""
    told = (row["text"] for row in e.source.small["faults"] if (row["fault"], row["event"]) == (fault, event))
    why = _short(next(told, None))
    return f": {why}" if why else ""


def _short(text: str | None) -> str:
    return shorten(text or "", SEEN_MAX, placeholder=" …").rstrip(".")


def _unseen_s(e: Evidence, fault: int) -> float:
    """The longest time for which nobody looked whether a fault still stood: from its proof to where its healing began,
    which older journals do not tell. One that is done at once does not stand."""
    rows = [row for row in e.source.small["faults"] if row["fault"] == fault and row["by"] != "done"]
    when = {row["event"]: row["at_ns"] for row in rows}
    begun, over = when["proved"], when.get("healing", when.get("healed"))
    if over is None:
        return 0.0
    looks = (row["at_ns"] for row in e.source.small["probes"] if row["fault"] == fault)
    seen = sorted([begun, *(at for at in looks if begun <= at <= over), over])
    return float(max(later - earlier for earlier, later in pairwise(seen)) / 1e9)


def traffic(e: Evidence) -> list[Fitness]:
    """Something was acknowledged, before the first fault; and sends went on after each."""
    acked = e.total("ok")
    if acked == 0:
        return [Fitness("traffic", False, "Nothing was acknowledged, so nothing could be lost.")]
    first_ok = min((p.first_ok_ns for p in e.producers if p.first_ok_ns is not None), default=None)
    last_sent = max((p.last_sent_ns for p in e.producers if p.last_sent_ns is not None), default=None)
    began: dict[int, int] = {}
    stood: dict[int, int] = {}  # from when each is known to
    at_once = {row["fault"] for row in e.source.small["faults"] if row["by"] == "done"}
    load_begun = e.source.record.marks.load_begun_ns or 0
    for row in e.source.small["faults"]:
        # One that stood before the load is what the load met, not what befell it.
        if row["event"] in ("asked", "proved") and row["kind"] not in MEND and row["at_ns"] >= load_begun:
            fault, at = row["fault"], row["at_ns"]
            began[fault] = min(at, began.get(fault, at))
            if row["event"] == "proved" and fault not in at_once:
                stood[fault] = min(at, stood.get(fault, at))
    if not began:
        return [Fitness("traffic", True, f"{acked:,} sends were acknowledged.")]
    if first_ok is None or first_ok >= min(began.values()):
        return [Fitness("traffic", False, "Nothing was acknowledged before the first fault began.")]
    # Whoever ends a producer that had more to send met the load, though nothing was sent after that.
    cut_short = _cut_short(e)
    ended = [row for row in e.source.small["faults"] if row["kind"] in LEAVE_DOWN]
    met = {row["fault"] for row in ended if cut_short & {*row["targets"]}}
    late = [
        fault
        for fault, at in sorted((began | stood).items())
        if fault not in met and (last_sent is None or last_sent <= at)
    ]
    if late:
        names = ", ".join(str(fault) for fault in late)
        return [Fitness("traffic", False, f"The load had ended before fault {names} was known to stand.")]
    return [Fitness("traffic", True, "Sends were acknowledged before the first fault and went on after each.")]


def _cut_short(e: Evidence) -> set[str]:
    """The producers that told of fewer messages than they were asked to send."""
    record, told = e.source.record, {producer.producer: producer.reported for producer in e.producers}
    return {each.name for each, plan in record.planned_producers if told.get(each.id, 0) < plan.count}


def final_log(e: Evidence) -> list[Fitness]:
    """Every partition was read to its end, with enough replicas in sync for its high watermark to mean something."""
    ends = e.source.small["ends"]
    if not ends:
        return [Fitness("final_log", False, "The final log was never read.")]
    lines = []
    every = [*ends, *e.source.small["mirror_ends"]]
    for row in every:
        name = f"{_topic(e, row['topic'])}/{row['partition']}"
        if row["log_end"] is None:
            short = len(row["isr"]) < len(row["replicas"])
            why = f"only {row['isr']} of {row['replicas']} are in sync" if short else "it did not stand still"
            text = f"Where the log of {name} ends is not known, for {why}; judge it again once that is over."
            lines.append(Fitness("final_log", False, text))
        elif not row["read_to"] == row["high_watermark"] == row["log_end"]:
            text = f"read to {row['read_to']:,}, high watermark {row['high_watermark']:,}, log end {row['log_end']:,}"
            lines.append(Fitness("final_log", False, f"{name} was not read to its end: {text}."))
        if row["log_start"] > 0 and not _may_expire(e, row["topic"]):
            text = f"begins at offset {row['log_start']:,}, though nothing in the scenario lets messages expire"
            lines.append(Fitness("final_log", False, f"{name} {text}: somebody else deleted what stood before it."))
        if len(row["isr"]) < row["min_isr"]:
            text = f"{len(row['isr'])} in sync, {row['min_isr']} needed"
            lines.append(Fitness("final_log", False, f"{name} was read while too few replicas were in sync: {text}."))
    places = {(row["topic"], row["partition"]) for row in every}
    if len(places) < len(every):
        lines.append(Fitness("final_log", False, "The final log of a partition was read twice."))
    unread = sorted(_partitions(e) - places)
    lines.extend(Fitness("final_log", False, f"The final log of {_topic(e, t)}/{p} was never read.") for t, p in unread)
    return lines or [Fitness("final_log", True, f"All {len(every):,} partition(s) were read to their end.")]


def _may_expire(e: Evidence, topic: int) -> bool:
    """By the plan, if it tells of settings: Kafka's own keep every message for days, and a run takes minutes."""
    plan = e.source.record.plan
    if topic >= len(plan.topics):
        return True
    named = [*plan.topics[topic].settings, *(key for scope in plan.cluster.settings.values() for key in scope)]
    return any(key.removeprefix("log.").startswith(EXPIRING) for key in named)


def numbers(e: Evidence) -> list[Fitness]:
    """What producers reserved is what they reported."""
    lines = []
    for name, words in (
        ("holes", "were used and never reported"),
        ("twice", "were reported twice"),
        ("unreserved", "were reported without having been reserved"),
    ):
        if count := e.irregular.get(name, 0):
            lines.append(Fitness("numbers", False, f"{count:,} of the producers' numbers {words}."))
    doomed = {name for _, name, _ in exits(e.source.record)}  # the scenario expects them to fail
    expected = {p.id for p in e.source.record.producers if p.name not in doomed}
    silent = sorted(expected - {p.producer for p in e.producers})
    if silent:
        names = ", ".join(p.name for p in e.source.record.producers if p.id in silent)
        lines.append(Fitness("numbers", False, f"Nothing is known of {names}."))
    if unclosed := e.irregular.get("unclosed", 0):
        if torn := ", ".join(_cut_off(e)):
            text = f"{torn} ended well, and numbers that it had reserved are missing: part of its journal is gone."
            lines.append(Fitness("numbers", False, text))
        words = "of the sends were reserved by a producer that never reported them: `info`, and perhaps never sent."
        lines.append(Fitness("reserved", True, f"{unclosed:,} {words}"))
    return lines or [Fitness("numbers", True, "Every number that a producer reserved and used was reported once.")]


def _cut_off(e: Evidence) -> list[str]:
    """Producers of ours that ended well, so had closed all their blocks, and yet reserved more than they reported."""
    short = {p.producer for p in e.producers if p.reserved > p.reported}
    foreign = {number for number, plan in enumerate(e.source.record.plan.each_producer) if plan.command}
    names = [p.name for p in e.source.record.producers if p.id in short - foreign]
    ends: dict[str, set[tuple[int | None, int | None]]] = {}
    for row in e.source.small["nodes"]:
        if row["event"] == "exited":
            ends.setdefault(row["node"], set()).add((row["code"], row["signal"]))
    return [name for name in names if ends.get(name) == {(0, None)}]


def outcomes(e: Evidence) -> list[Fitness]:
    """Intents = ok + fail + info, and each has one fate."""
    reported = e.total("reported")
    known = e.total("ok") + e.total("fail") + e.total("info")
    if known != reported:
        return [Fitness("outcomes", False, f"{reported - known:,} sends have none of the outcomes ok, fail, info.")]
    sends = reported + e.irregular.get("holes", 0) + e.irregular.get("unclosed", 0)
    fated = sum(count for fate, count in e.fates.items() if fate in FATES)
    if fated != sends:
        return [Fitness("outcomes", False, f"The fates do not add up: {fated:,} of {sends:,} sends have one.")]
    return [Fitness("outcomes", True, f"{sends:,} sends, each with one outcome and one fate.")]


def identity(e: Evidence) -> list[Fitness]:
    """High watermark - log start is made of what the judge found there, to the last record."""
    span = sum(row["high_watermark"] - row["log_start"] for row in e.source.small["ends"])
    found = sum(e.identity.values())
    if span != found:
        text = f"high watermark - log start is {span:,}, what was found there is {found:,}"
        return [Fitness("identity", False, f"The figures do not add up: {text}.")]
    in_log = sum(e.identity.get(name, 0) for name in IN_LOG)
    return [
        Fitness(
            "identity", True, f"High watermark - log start = {span:,}: {in_log:,} sends and {span - in_log:,} others."
        )
    ]


def _partitions(e: Evidence) -> set[tuple[int, int]]:
    """Every partition that a producer may have written to, by the plan; without one, at least one of each topic."""
    record = e.source.record
    topics = {producer.topic for producer in record.producers}
    if record.plan.topics:
        return {(t, p) for t in {*topics, *record.mirrors} for p in range(record.partitions(t))}
    seen = {row["topic"]: row["partition"] for row in e.source.small["ends"]}
    return {(t, seen.get(t, 0)) for t in topics}


def nodes(e: Evidence) -> list[Fitness]:
    """A server that dies by itself is not the fault that was asked for. A client that ends with an exit code has told
    what it had to tell; one that dies of a signal, or whoever heard it, has not."""
    lines = []
    clients = {p.name for p in e.source.record.producers} | {c.name for c in e.source.record.consumers}
    for row in e.source.small["nodes"]:
        if row["event"] != "exited" or not row["by_itself"]:
            continue
        is_server = e.source.record.is_server(row["node"])
        if not is_server and row["code"] == 0:
            continue  # a client that had done its work
        unheard = row["node"] in clients and row["signal"]
        how = f"signal {row['signal']}" if row["signal"] else f"exit code {row['code']}"
        lines.append(Fitness("nodes", not (is_server or unheard), f"{row['node']} died by itself ({how})."))
    return lines


def clients(e: Evidence) -> list[Fitness]:
    """What a foreign client printed and cannot be read for what it means may have been an acknowledgement."""
    lines = []
    rows = e.source.small["oddities"]
    for client, event in sorted({(row["client"], row["event"]) for row in rows}):
        own = [row for row in rows if (row["client"], row["event"]) == (client, event)]
        times = "once" if len(own) == 1 else f"{len(own):,} times, first"
        fit, words = ODDITIES.get(event, (False, event))
        first = min(own, key=lambda row: int(row["at_ns"]))["text"]
        lines.append(Fitness("clients", fit, f"{client} {words} {times}: {first}."))
    return lines


def clocks(e: Evidence) -> list[Fitness]:
    """All times are of one monotonic clock; the wall clock may have been set, which changes no verdict."""
    if backwards := e.total("backwards"):
        return [Fitness("clocks", False, f"{backwards:,} outcomes came before their sends: the clocks do not agree.")]
    began, end = e.source.record.began, e.source.record.ended_at
    if end is None:
        return [Fitness("clocks", True, "No outcome came before its send; the clocks were not compared at the end.")]
    if end.monotonic_ns < began.monotonic_ns:
        return [Fitness("clocks", False, "The monotonic clock went back: this run spans a restart of the machine.")]
    drift = (end.wall_ns - began.wall_ns) - (end.monotonic_ns - began.monotonic_ns)
    if abs(drift) > DRIFT_NS:
        text = f"The wall clock moved by {drift / 1e9:+.1f} s during the run; nothing judged here depends on it."
        return [Fitness("clocks", True, text)]
    return [Fitness("clocks", True, "The clocks agree.")]


def _topic(e: Evidence, topic: int) -> str:
    names = e.source.record.topics
    return names[topic] if 0 <= topic < len(names) else f"topic {topic}"


def views(e: Evidence) -> list[Fitness]:
    """How often each broker was asked for its own view during the load: what happened in between, nobody saw."""
    lines = []
    gaps = gaps_ms(e.source)
    if len(gaps):
        middle, longest = float(np.median(gaps)), float(gaps.max())
        text = f"Each broker was asked for its view every {middle:,.0f} ms, and at the longest after {longest:,.0f} ms."
        lines.append(Fitness("views", True, text))
    if is_behind(behind := behind_ms(e.source)):
        text = (
            f"The laboratory itself was late by up to {behind:,.0f} ms: nothing that depends on time is refuted, nor "
            "confirmed by what that explains."
        )
        lines.append(Fitness("views", True, text))
    return lines


def lateness(e: Evidence) -> list[Fitness]:
    """Which processes of the laboratory were late themselves, the final read too, and at their latest by how much; and
    how long Kafka's nodes waited for a processor."""
    late = {name: ms for name, ms in latest_ms(e.source).items() if is_behind(ms)}
    lines = [
        Fitness("lateness", True, f"{name} was late itself by up to {late[name]:,.0f} ms.") for name in sorted(late)
    ]
    if is_behind(waited := waited_ms(e.source)):
        text = (
            f"The nodes waited up to {waited:,.0f} ms for a processor: nothing that depends on time is refuted, nor "
            "confirmed by what that explains."
        )
        lines.append(Fitness("lateness", True, text))
    return lines


QUESTIONS: tuple[Callable[[Evidence], list[Fitness]], ...] = (
    faults,
    others,
    interference.disturbed,
    interference.joined,
    interference.topics,
    traffic,
    final_log,
    numbers,
    outcomes,
    identity,
    nodes,
    clients,
    clocks,
    views,
    lateness,
)


def log_was_read(lines: Sequence[Fitness]) -> bool:
    """Whether the final log is there, whole: if not, what it lacks is no loss, and nothing can be counted in it."""
    return all(line.fit for line in lines if line.name in ("journal", "final_log"))


def missing(source: Source, tables: Sequence[str]) -> list[str]:
    """Of the tables that a check needs, those in which this run has nothing."""
    return [name for name in tables if name in TABLES and source.rows[name] == 0]
