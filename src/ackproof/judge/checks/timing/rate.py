"""Rate: what happened in each second of the load: sent, acknowledged, read.

Where the scenario draws a line, a full second with fewer sends than that is marked.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.frames import Tables
from ackproof.judge.load_seconds import seconds


def rate(t: Tables) -> DataFrame:
    """One row a second, with `below` where fewer were sent than the line that the scenario draws."""
    below = F.col("full") & (F.col("sent") < F.col("rate_line"))
    return seconds(t).select("run", "second", "at_ns", "sent", "acked", "read", "fault", below.alias("below"))
