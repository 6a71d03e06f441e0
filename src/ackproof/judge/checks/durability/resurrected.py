"""resurrected: a send that certainly failed stands in the healed log. The error that the client returned was false."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.frames import Tables


def resurrected(t: Tables) -> DataFrame:
    """A send with outcome `fail` whose message is in the final log."""
    return t.fates.filter(F.col("fate") == "resurrected").select(
        "run", "topic", "producer", "seq", "error", "sent_ns", "done_ns", "copies"
    )
