"""unpublished: a message of a producer's outbox is missing from the healed log.

Writing a message into the outbox promises that it will be sent, acknowledged or not. So this check looks at all
messages of the outbox, while `lost` looks at acknowledged messages only.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.fates import IN_LOG
from ackproof.judge.frames import Tables


def unpublished(t: Tables) -> DataFrame:
    """A send of a producer with an outbox that is not in the final log, and did not expire there."""
    with_outbox = t.producers.filter(F.col("outbox")).select("run", "producer")
    return (
        t.fates.join(t.small_side(with_outbox), on=["run", "producer"], how="left_semi")
        .filter(~F.col("fate").isin(*IN_LOG, "expired"))
        .select("run", "topic", "producer", "seq", "fate", "outcome", "error", "sent_ns")
    )
