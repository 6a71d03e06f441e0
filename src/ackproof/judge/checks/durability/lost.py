"""lost: an acknowledged message is missing from the healed log. A send of unknown outcome is never called lost."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.fates import LOST
from ackproof.judge.frames import Tables


def lost(t: Tables) -> DataFrame:
    """An acknowledged send with a `lost_*` fate, and the message that stands at its offset now."""
    return t.fates.filter(F.col("fate").isin(*LOST)).select(
        "run",
        "topic",
        "partition",
        "offset",
        "producer",
        "seq",
        "fate",
        "sent_ns",
        "done_ns",
        "holder_producer",
        "holder_seq",
        "holder_epoch",
    )
