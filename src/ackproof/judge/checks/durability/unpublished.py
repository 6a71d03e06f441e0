"""Unpublished: a message that stood in a producer's outbox, and does not stand in the healed log.

Whoever writes a message into an outbox has promised it, acknowledged or not: so this looks at all of them, where `lost`
looks at what was acknowledged.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.fates import IN_LOG
from ackproof.judge.frames import Tables


def unpublished(t: Tables) -> DataFrame:
    """A send of a producer with an outbox that the final log does not hold, and that did not rightly expire."""
    with_outbox = t.producers.filter(F.col("outbox")).select("run", "producer")
    return (
        t.fates.join(t.small_side(with_outbox), on=["run", "producer"], how="left_semi")
        .filter(~F.col("fate").isin(*IN_LOG, "expired"))
        .select("run", "topic", "producer", "seq", "fate", "outcome", "error", "sent_ns")
    )
