"""The difference between any two topics of a run, by themselves: `ackproof diff RUN TOPIC OTHER`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

from ackproof.errors import UsageProblem, did_you_mean
from ackproof.judge.mirror_differs import differences, pairs_of
from ackproof.judge.sources import Unreadable, opened
from ackproof.judge.spark import Session, collected
from ackproof.judge.tables import read_table, together


def diff(session: Session, directory: Path, topic: str, other: str) -> list[dict[str, Any]]:
    """Each value that one lacks, has more often, or has in another order, as the final read found the two."""
    try:
        with opened(directory) as source:
            known = source.record.topics
            for name in (topic, other):
                if name not in known:
                    hint = did_you_mean(name, known)
                    raise UsageProblem(f"no topic {name!r}{hint}: this run has {', '.join(known)}")
            files = [str(path) for table in ("log", "mirrored") for path in source.files[table]]
            records = read_table(session.spark, "log", files)
            number = known.index(topic)
            original = records.filter(F.col("topic") == number)
            copy = records.filter(F.col("topic") == known.index(other)).withColumn("topic", F.lit(number))
            found = together(False, *differences(pairs_of(original, copy)))
            return [row.asDict() for row in collected(found.orderBy("partition", "offset", "mirror_offset"))]
    except Unreadable as problem:
        raise UsageProblem(f"{directory}: {problem}") from None
