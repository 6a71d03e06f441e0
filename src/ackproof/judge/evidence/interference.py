"""Interference: changes from outside the run, which make it another experiment.

A node that was stopped, traced or starved; a topic that was deleted and created again; a changed setting that decides
about loss; replicas that were moved; a stranger in a consumer group: each of these has effects that look like those of
the scenario's own fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from ackproof.judge.evidence.facts import Evidence
from ackproof.judge.evidence.faults import short_text
from ackproof.judge.run_source import Source
from ackproof.model.verdict import Fitness

Row = Mapping[str, Any]
LAST_NS = 5_000_000_000  # a broker whose last answer is older than this when the last broker answers was down


class Seen(NamedTuple):
    """A change that was seen, and when."""

    topic: int
    at_ns: int
    text: str


def others(e: Evidence) -> list[Fitness]:
    """Commands by hand that changed the lab during the run: the scenario is about another lab then."""
    words = "A command that is not part of the run changed the lab"
    return [Fitness("others", False, f"{words}: {short_text(what)}.") for what in e.source.record.others]


def disturbed(e: Evidence) -> list[Fitness]:
    """Processes that an outsider stopped, traced, or gave other conditions. For a client this is a remark."""
    source = e.source
    rows = sorted(source.small["nodes"], key=lambda row: int(row["at_ns"]))
    lines = []
    for place, row in enumerate(rows):
        if row["event"] == "disturbed":
            over = (later for later in rows[place + 1 :] if (later["node"], later["event"]) == (row["node"], "goes on"))
            text = "; ".join(each["text"] for each in (row, *list(over)[:1]))
            fit = not source.record.is_server(row["node"])
            lines.append(
                Fitness("disturbed", fit, f"An outsider disturbed {row['node']} {_when(source, row)}: {text}.")
            )
    return lines


def joined(e: Evidence) -> list[Fitness]:
    """Strangers that joined a consumer group of the run: our consumers then own fewer partitions, and read less."""
    lines = []
    for row in sorted(e.source.small["nodes"], key=lambda row: int(row["at_ns"])):
        if row["event"] == "joined":
            text = f"A client from outside the run, {row['node']!r}, {row['text']}, noticed {_when(e.source, row)}."
            lines.append(Fitness("joined", False, text))
    return lines


def topics(e: Evidence) -> list[Fitness]:
    """Topics that did not stay the same, with the same settings and replicas, from their creation to the end."""
    source = e.source
    made_anew = _gone(source) | _made_anew(source)
    seen = [*_settings_changed(source), *_moved(source), *_grown(source)]
    # A topic that was deleted and created again differs in its settings and replicas anyway.
    seen = [*made_anew.values(), *(each for each in seen if each.topic not in made_anew)]
    lines: dict[str, Fitness] = {}
    for each in sorted(seen, key=lambda each: each.at_ns):  # several brokers report the same change
        when = _when(source, {"at_ns": each.at_ns})
        lines.setdefault(each.text, Fitness("topics", False, f"{each.text}, noticed {when}."))
    return list(lines.values())


def _made_anew(source: Source) -> dict[int, Seen]:
    ends = [*source.small["ends"], *source.small["mirror_ends"]]
    rows = sorted([*source.small["topics"], *ends], key=lambda row: int(row["at_ns"]))
    first: dict[int, str] = {}
    found: dict[int, Seen] = {}
    for row in rows:
        topic, own = row["topic"], row.get("topic_id")
        if own is not None and own != first.setdefault(topic, own) and topic not in found:
            text = f"The topic {_name(source, topic)} was deleted and created again during the run"
            found[topic] = Seen(topic, row["at_ns"], f"{text} (its id was {first[topic]}, then {own})")
    return found


def _gone(source: Source) -> dict[int, Seen]:
    """Topics that existed, and that no broker knows at the end. Brokers that were down at the end do not count, and a
    broker that has just started may not know a topic yet."""
    last: dict[int, list[Row]] = {}
    vanished: dict[int, list[int]] = {}
    there = set()
    for (topic, _), rows in _by_source(source, "replicas").items():
        last.setdefault(topic, []).append(rows[-1])
        lost = (now["at_ns"] for before, now in pairwise(rows) if before["replicas"] and not now["replicas"])
        vanished.setdefault(topic, []).extend(lost)
        if any(row["replicas"] for row in rows):
            there.add(topic)
    found = {}
    for topic in there:
        end_ns = max(row["at_ns"] for row in last[topic])
        if not any(row["replicas"] for row in last[topic] if row["at_ns"] > end_ns - LAST_NS):
            text = f"The topic {_name(source, topic)} was deleted during the run, and does not exist at its end"
            found[topic] = Seen(topic, max(vanished[topic], default=end_ns), text)
    return found


def _settings_changed(source: Source) -> Iterator[Seen]:
    """Settings that changed between two answers of one source. A mirror may change the settings of its own topics."""
    for (topic, _), rows in _by_source(source, "settings").items():
        for before, now in pairwise(rows):
            old, new = (_settings(row["settings"]) for row in (before, now))
            for name in sorted(old.keys() | new.keys()):
                if old.get(name) != new.get(name) and topic not in source.record.mirrors:
                    what = f"{name} of {_name(source, topic)}" if topic >= 0 else name
                    changed = f"from {_value(old.get(name))} to {_value(new.get(name))}"
                    text = f"An outsider changed {what} {changed}"
                    yield Seen(topic, now["at_ns"], text)


def _moved(source: Source) -> Iterator[Seen]:
    """Partitions whose list of replicas, or its order, changed."""
    for (topic, _), rows in _by_source(source, "replicas").items():
        for before, now in pairwise(rows):
            pairs = zip(before["replicas"], now["replicas"], strict=False)
            for partition, (old, new) in enumerate(pairs):
                if old != new:
                    place = f"{_name(source, topic)}/{partition}"
                    yield Seen(topic, now["at_ns"], f"An outsider moved {place} from replicas {old} to {new}")


def _grown(source: Source) -> Iterator[Seen]:
    """Topics with more partitions than the scenario gives them."""
    if not source.record.plan.topics:
        return
    for (topic, _), rows in _by_source(source, "replicas").items():
        planned = source.record.partitions(topic)
        for row in rows:
            if (count := len(row["replicas"])) > planned:
                text = f"The topic {_name(source, topic)} has {count} partitions, but the scenario has {planned}"
                yield Seen(topic, row["at_ns"], text)


def _by_source(source: Source, column: str) -> dict[tuple[int, str], list[Row]]:
    """The rows with a value in this column, by topic and source, in the order of time."""
    found: dict[tuple[int, str], list[Row]] = {}
    for row in sorted(source.small["topics"], key=lambda row: int(row["at_ns"])):
        if row[column] is not None:
            found.setdefault((row["topic"], row["source"]), []).append(row)
    return found


def _settings(text: str) -> dict[str, str | None]:
    return msgspec.json.decode(text, type=dict[str, str | None])


def _value(value: str | None) -> str:
    return "the default" if value is None else value


def _name(source: Source, topic: int) -> str:
    names = source.record.topics
    return names[topic] if 0 <= topic < len(names) else str(topic)


def _when(source: Source, row: Row) -> str:
    begun = source.record.marks.load_begun_ns
    if begun is None:
        return "before the load began"
    after_s = (row["at_ns"] - begun) / 1e9
    return f"{abs(after_s):.1f} s {'after' if after_s >= 0 else 'before'} the load began"
