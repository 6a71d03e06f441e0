"""Whether the final log was read to its end, and whether the numbers of messages add up."""

from __future__ import annotations

from ackproof.judge.evidence.facts import Evidence
from ackproof.judge.fates import FATES, IN_LOG
from ackproof.judge.run_facts import exits
from ackproof.model.verdict import Fitness

EXPIRING = ("retention.", "cleanup.policy")  # settings of a topic; the broker's defaults for all have `log.` in front


def final_log(e: Evidence) -> list[Fitness]:
    """Every partition was read to its end, with enough in-sync replicas for its high watermark to mean something."""
    ends = e.source.small["ends"]
    if not ends:
        return [Fitness("final_log", False, "The final log was never read.")]
    lines = []
    every = [*ends, *e.source.small["mirror_ends"]]
    for row in every:
        name = f"{e.topic_name(row['topic'])}/{row['partition']}"
        if row["log_end"] is None:
            short = len(row["isr"]) < len(row["replicas"])
            why = f"only {row['isr']} of {row['replicas']} are in sync" if short else "it did not stand still"
            text = f"The end of the log of {name} is unknown, because {why}; judge it again when that is over."
            lines.append(Fitness("final_log", False, text))
        elif not row["read_to"] == row["high_watermark"] == row["log_end"]:
            text = f"read to {row['read_to']:,}, high watermark {row['high_watermark']:,}, log end {row['log_end']:,}"
            lines.append(Fitness("final_log", False, f"{name} was not read to its end: {text}."))
        if row["log_start"] > 0 and not _may_expire(e, row["topic"]):
            text = f"begins at offset {row['log_start']:,}, but nothing in the scenario lets messages expire"
            why = "a client from outside the run deleted the records before it"
            lines.append(Fitness("final_log", False, f"{name} {text}: {why}."))
        if len(row["isr"]) < row["min_isr"]:
            text = f"{len(row['isr'])} in sync, {row['min_isr']} needed"
            lines.append(Fitness("final_log", False, f"{name} was read while too few replicas were in sync: {text}."))
    places = {(row["topic"], row["partition"]) for row in every}
    if len(places) < len(every):
        lines.append(Fitness("final_log", False, "The final log of a partition was read twice."))
    for topic, partition in sorted(_partitions(e) - places):
        text = f"The final log of {e.topic_name(topic)}/{partition} was never read."
        lines.append(Fitness("final_log", False, text))
    return lines or [Fitness("final_log", True, f"All {len(every):,} partition(s) were read to their end.")]


def _may_expire(e: Evidence, topic: int) -> bool:
    """Whether the scenario sets retention or compaction. By default Kafka keeps every message for days, and a run takes
    minutes. A plan without the topic allows everything."""
    plan = e.source.record.plan
    if topic >= len(plan.topics):
        return True
    named = [*plan.topics[topic].settings, *(key for scope in plan.cluster.settings.values() for key in scope)]
    return any(key.removeprefix("log.").startswith(EXPIRING) for key in named)


def _partitions(e: Evidence) -> set[tuple[int, int]]:
    """Every partition that a producer may have written to, by the plan; without a plan, one partition of each topic."""
    record = e.source.record
    topics = {producer.topic for producer in record.producers}
    if record.plan.topics:
        return {(t, p) for t in {*topics, *record.mirrors} for p in range(record.partitions(t))}
    seen = {row["topic"]: row["partition"] for row in e.source.small["ends"]}
    return {(t, seen.get(t, 0)) for t in topics}


def numbers(e: Evidence) -> list[Fitness]:
    """The message numbers that producers reserved and used are those that they reported."""
    lines = []
    for name, words in (
        ("holes", "were used and never reported"),
        ("twice", "were reported twice"),
        ("unreserved", "were reported but never reserved"),
    ):
        if count := e.irregular.get(name, 0):
            lines.append(Fitness("numbers", False, f"{count:,} of the producers' message numbers {words}."))
    doomed = {name for _, name, _ in exits(e.source.record)}  # the scenario expects them to fail
    expected = {p.id for p in e.source.record.producers if p.name not in doomed}
    silent = sorted(expected - {p.producer for p in e.producers})
    if silent:
        names = ", ".join(p.name for p in e.source.record.producers if p.id in silent)
        lines.append(Fitness("numbers", False, f"The journal has nothing from {names}."))
    if unclosed := e.irregular.get("unclosed", 0):
        if torn := ", ".join(_cut_off(e)):
            text = (
                f"{torn} ended normally, but message numbers that it reserved are missing: part of its journal is gone."
            )
            lines.append(Fitness("numbers", False, text))
        words = "sends were reserved and never reported: their outcome is `info`, and they may never have been sent."
        lines.append(Fitness("reserved", True, f"{unclosed:,} {words}"))
    return lines or [
        Fitness("numbers", True, "Every message number that a producer reserved and used was reported once.")
    ]


def _cut_off(e: Evidence) -> list[str]:
    """The producers that lost a part of their journal: they exited normally, and reserved more than they reported.

    A producer of ours closes all its blocks before it exits. An external client is no such producer.
    """
    short = {p.producer for p in e.producers if p.reserved > p.reported}
    foreign = {number for number, plan in enumerate(e.source.record.plan.each_producer) if plan.command}
    names = [p.name for p in e.source.record.producers if p.id in short - foreign]
    ends: dict[str, set[tuple[int | None, int | None]]] = {}
    for row in e.source.small["nodes"]:
        if row["event"] == "exited":
            ends.setdefault(row["node"], set()).add((row["code"], row["signal"]))
    return [name for name in names if ends.get(name) == {(0, None)}]


def outcomes(e: Evidence) -> list[Fitness]:
    """The sends are ok + fail + info, and each has one fate."""
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
    """High watermark - log start equals what the judge found there, to the last record."""
    span = sum(row["high_watermark"] - row["log_start"] for row in e.source.small["ends"])
    found = sum(e.identity.values())
    if span != found:
        text = f"high watermark - log start is {span:,}, but the judge found {found:,} there"
        return [Fitness("identity", False, f"The figures do not add up: {text}.")]
    in_log = sum(e.identity.get(name, 0) for name in IN_LOG)
    text = f"High watermark - log start = {span:,}: {in_log:,} sends and {span - in_log:,} other offsets."
    return [Fitness("identity", True, text)]
