"""The difference between any two topics of a run, for `ackproof diff RUN TOPIC OTHER`."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import functions as F

from ackproof.core.errors import NotProved, UsageProblem, did_you_mean
from ackproof.judge.checks.mirror.mirror_differs import differences, pairs_of
from ackproof.judge.frames import read_table, union
from ackproof.judge.run_source import Source, Unreadable, opened
from ackproof.model.verdict import Witness
from ackproof.spark.session import Session, collected


def diff(
    session: Session, directory: Path, topic: str, other: str, most: int | None = None
) -> tuple[dict[str, int], list[Witness]]:
    """The number of differences by kind, and the first `most` of them (all, if None).

    A message may be missing from one topic, have more copies there, differ in content, or stand in another order. The
    two topics are compared as the final read found them.
    """
    try:
        with opened(directory) as source:
            known = source.record.topics
            for name in (topic, other):
                if name not in known:
                    hint = did_you_mean(name, known)
                    raise UsageProblem(f"no topic {name!r}{hint}: this run has {', '.join(known)}")
            number, other_number = known.index(topic), known.index(other)
            if problem := _unread(source, number, other_number):
                raise NotProved(f"{directory}: {topic} and {other} cannot be compared: {problem}")
            files = [str(path) for table in ("log", "mirrored") for path in source.files[table]]
            records = read_table(session.spark, "log", files)
            original = records.filter(F.col("topic") == number)
            copy = records.filter(F.col("topic") == other_number).withColumn("topic", F.lit(number))
            found = union(False, *differences(pairs_of(original, copy))).cache()
            counts = {row["difference"]: row["count"] for row in collected(found.groupBy("difference").count())}
            ordered = found.orderBy("partition", "offset", "mirror_offset")
            rows = collected(ordered if most is None else ordered.limit(most))
            return dict(sorted(counts.items())), [row.asDict() for row in rows]
    except Unreadable as problem:
        raise UsageProblem(f"{directory}: {problem}") from None


def _unread(source: Source, *topics: int) -> str | None:
    """Why the final read does not show all that these topics hold; None if it does."""
    if damaged := [remark.text for remark in source.remarks if not remark.fit]:
        return damaged[0]
    ends = {(row["topic"], row["partition"]): row for name in ("ends", "mirror_ends") for row in source.small[name]}
    for topic in topics:
        for partition in range(source.record.partitions(topic)):
            end = ends.get((topic, partition))
            if end is None or not end["read_to"] == end["high_watermark"] == end["log_end"]:
                return f"the final read did not reach the end of {source.record.topics[topic]}/{partition}."
    return None
