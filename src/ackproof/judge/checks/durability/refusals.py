"""refusals: a message of a producer that may not write, if it was not clearly refused.

Clearly refused means three things: the send certainly failed, its error names a missing permission, and the healed log
does not hold the message. A producer that never tried to write proves nothing, and is a witness too.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.frames import Tables

FOR_WANT_OF_PERMISSION = ("TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED")


def refusals(t: Tables) -> DataFrame:
    """A send of a refused producer with another fate or another error; or such a producer without a send."""
    refused = t.producers.filter(F.col("refused")).select("run", "producer", F.col("topic").alias("planned_topic"))
    clearly = (F.col("fate") == "rejected") & F.col("error").isin(*FOR_WANT_OF_PERMISSION)
    tried = t.fates.select("run", "producer", "topic", "seq", "fate", "outcome", "error")
    return (
        t.small_side(refused)
        .join(tried, on=["run", "producer"], how="left")
        .filter(~F.coalesce(clearly, F.lit(False)))
        .withColumn("topic", F.coalesce("topic", "planned_topic"))
        .select("run", "topic", "producer", "seq", "fate", "outcome", "error")
    )
