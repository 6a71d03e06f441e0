"""Whether every process did its part: servers that died, clients that cannot be believed, clocks, and lateness."""

from __future__ import annotations

import numpy as np

from ackproof.judge.evidence.facts import Evidence
from ackproof.judge.lab_lag import behind_ms, gaps_ms, is_behind, latest_ms, waited_ms
from ackproof.model.verdict import Fitness

DRIFT_NS = 1_000_000_000
# The oddities of external clients: whether the run is still evidence, and the words for the oddity.
ODDITIES = {
    "no event": (False, "printed a line that is not an event"),
    "not ours": (False, "reported a message that it was not asked to send or read"),
    "contradiction": (False, "contradicted itself"),
    "miscount": (False, "reported a count that differs from its own events"),
    "twice": (True, "repeated an event"),
    "unknown event": (True, "printed an event of an unknown kind"),
    "torn line": (True, "ended in the middle of a line"),
}
NOT_DECIDED = "a check that depends on time is not refuted, nor confirmed by a delay that this explains"


def nodes(e: Evidence) -> list[Fitness]:
    """The processes that died by themselves. A server must not: its death is not the fault that the scenario asks for.

    A client that ends with an exit code has reported everything. A client that dies of a signal has not; the same holds
    for the process that listens to an external client.
    """
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
    """The odd lines that external clients printed. A line that cannot be read may have been an acknowledgement."""
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
    """All times come from one monotonic clock. Setting the wall clock changes no verdict, and is a remark."""
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


def views(e: Evidence) -> list[Fitness]:
    """How often the observer asked each broker for its view during the load, and whether the lab was late."""
    lines = []
    gaps = gaps_ms(e.source)
    if len(gaps):
        middle, longest = float(np.median(gaps)), float(gaps.max())
        text = f"Each broker was asked for its view every {middle:,.0f} ms; the longest gap was {longest:,.0f} ms."
        lines.append(Fitness("views", True, text))
    if is_behind(behind := behind_ms(e.source)):
        text = f"The lab itself was late by up to {behind:,.0f} ms: {NOT_DECIDED}."
        lines.append(Fitness("views", True, text))
    return lines


def lateness(e: Evidence) -> list[Fitness]:
    """By how much each process of the lab was late at most, the final read too; and how long nodes waited for a CPU."""
    late = {name: ms for name, ms in latest_ms(e.source).items() if is_behind(ms)}
    lines = [Fitness("lateness", True, f"{name} was late by up to {late[name]:,.0f} ms.") for name in sorted(late)]
    if is_behind(waited := waited_ms(e.source)):
        text = f"The nodes waited up to {waited:,.0f} ms for a processor: {NOT_DECIDED}."
        lines.append(Fitness("lateness", True, text))
    return lines
