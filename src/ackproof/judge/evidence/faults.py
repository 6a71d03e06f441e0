"""Whether each fault of the scenario took effect, held and healed, and whether the load met it."""

from __future__ import annotations

from itertools import pairwise
from textwrap import shorten

from ackproof.judge.evidence.facts import Evidence
from ackproof.model.faults import LEAVE_DOWN, MEND
from ackproof.model.verdict import Fitness

# The lab probes an active fault about once a second. A slow machine probes later than that, and yet is not blind.
UNSEEN_S = 5.0
SEEN_MAX = 200  # characters of a probe's text


def faults(e: Evidence) -> list[Fitness]:
    """Each fault was proved, held, was probed while it was active, and healed."""
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
            lines.append(Fitness("faults", False, f"{what} did not hold all the time: {broken}."))
        elif "not healed" in events or ("healed" not in events and fault.heals):
            why = _why(e, fault.id, "not healed")
            lines.append(Fitness("faults", False, f"{what} was not proved to be healed{why}."))
        elif (unseen_s := _unseen_s(e, fault.id)) > UNSEEN_S:
            lines.append(Fitness("faults", False, f"{what} was not probed for {unseen_s:.1f} s while it was active."))
        else:
            healed = " and healed" if "healed" in events else ""
            lines.append(Fitness("faults", True, f"{what} was proved{healed}."))
    return lines


def _broken(e: Evidence, fault: int) -> str:
    """When a proved fault first did not hold, and what the lab saw then; empty if the fault always held."""
    rows = [row for row in e.source.small["faults"] if row["fault"] == fault]
    probes = [row for row in e.source.small["probes"] if row["fault"] == fault and not row["held"]]
    seen = [*probes, *(row for row in rows if row["event"] == "broken")]
    if not seen:
        return ""
    first = min(seen, key=lambda row: int(row["at_ns"]))
    proved_ns = min(row["at_ns"] for row in rows if row["event"] == "proved")
    after_s = max(0.0, (first["at_ns"] - proved_ns) / 1e9)  # the lab may probe before the run has written its proof
    what = short_text(first["text"])
    return f"{after_s:.1f} s after its proof" + (f", {what}" if what else "")


def _why(e: Evidence, fault: int, event: str) -> str:
    """The reason that the lab gave for this event; empty if it gave none."""
    told = (row["text"] for row in e.source.small["faults"] if (row["fault"], row["event"]) == (fault, event))
    why = short_text(next(told, None))
    return f": {why}" if why else ""


def short_text(text: str | None) -> str:
    return shorten(text or "", SEEN_MAX, placeholder=" …").rstrip(".")


def _unseen_s(e: Evidence, fault: int) -> float:
    """The longest time without a probe of an active fault, from its proof to the start of its healing.

    Older journals do not record when healing starts. A fault that is done at once, such as a kill, is never active.
    """
    rows = [row for row in e.source.small["faults"] if row["fault"] == fault and row["by"] != "done"]
    when = {row["event"]: row["at_ns"] for row in rows}
    begun, over = when["proved"], when.get("healing", when.get("healed"))
    if over is None:
        return 0.0
    looks = (row["at_ns"] for row in e.source.small["probes"] if row["fault"] == fault)
    seen = sorted([begun, *(at for at in looks if begun <= at <= over), over])
    return float(max(later - earlier for earlier, later in pairwise(seen)) / 1e9)


def traffic(e: Evidence) -> list[Fitness]:
    """Something was acknowledged before the first fault, and sends went on after each fault."""
    acked = e.total("ok")
    if acked == 0:
        return [Fitness("traffic", False, "Nothing was acknowledged, so nothing could be lost.")]
    first_ok = min((p.first_ok_ns for p in e.producers if p.first_ok_ns is not None), default=None)
    last_sent = max((p.last_sent_ns for p in e.producers if p.last_sent_ns is not None), default=None)
    began: dict[int, int] = {}
    stood: dict[int, int] = {}  # since when each fault is known to be active
    at_once = {row["fault"] for row in e.source.small["faults"] if row["by"] == "done"}
    load_begun = e.source.record.marks.load_begun_ns or 0
    for row in e.source.small["faults"]:
        # A fault that was active before the load began need not come after an acknowledgement.
        if row["event"] in ("asked", "proved") and row["kind"] not in MEND and row["at_ns"] >= load_begun:
            fault, at = row["fault"], row["at_ns"]
            began[fault] = min(at, began.get(fault, at))
            if row["event"] == "proved" and fault not in at_once:
                stood[fault] = min(at, stood.get(fault, at))
    if not began:
        return [Fitness("traffic", True, f"{acked:,} sends were acknowledged.")]
    if first_ok is None or first_ok >= min(began.values()):
        return [Fitness("traffic", False, "Nothing was acknowledged before the first fault began.")]
    # A fault that ends a producer in the middle of its work met the load, although no send can follow it.
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
        return [Fitness("traffic", False, f"The load ended before fault {names} was known to be active.")]
    return [Fitness("traffic", True, "Sends were acknowledged before the first fault and went on after each.")]


def _cut_short(e: Evidence) -> set[str]:
    """The producers that reported fewer messages than the scenario asks them to send."""
    record, told = e.source.record, {producer.producer: producer.reported for producer in e.producers}
    return {each.name for each, plan in record.planned_producers if told.get(each.id, 0) < plan.count}
