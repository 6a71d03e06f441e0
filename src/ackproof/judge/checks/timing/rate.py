"""rate: how many messages were sent, acknowledged and read in each second of the load.

If the scenario sets `rate_line`, the check marks each full second with fewer sends than that.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.frames import Tables
from ackproof.judge.load_seconds import seconds


def rate(t: Tables) -> DataFrame:
    """One row for each second; `below` if fewer messages were sent than `rate_line`."""
    below = F.col("full") & (F.col("sent") < F.col("rate_line"))
    return seconds(t).select("run", "second", "at_ns", "sent", "acked", "read", "fault", below.alias("below"))
