"""Resurrected: a send that had certainly failed stands in the healed log. `fail` would be a lie."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.frames import Tables


def resurrected(t: Tables) -> DataFrame:
    """A send with outcome `fail` that is in the final log."""
    return t.fates.filter(F.col("fate") == "resurrected").select(
        "run", "topic", "producer", "seq", "error", "sent_ns", "done_ns", "copies"
    )
