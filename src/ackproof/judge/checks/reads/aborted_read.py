"""aborted_read: a consumer was given a message whose send had certainly failed.

A consumer with `read_uncommitted` is rightly given messages of transactions that are aborted later.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.frames import READ_COMMITTED, VALUE, Tables


def aborted_read(t: Tables) -> DataFrame:
    """A live read of a message whose outcome is `fail`."""
    failed = t.sends.filter(F.col("outcome") == "fail").select(*VALUE, "error")
    given = t.reads.join(failed, on=list(VALUE), how="inner")
    if t.uncommitted is not None:
        asking = t.consumers.filter(F.col("isolation") != READ_COMMITTED).select("run", "consumer")
        asked_for = t.uncommitted.join(t.small_side(asking), on=["run"], how="inner")
        given = given.join(asked_for, on=[*VALUE, "consumer"], how="left_anti")
    return given.select("run", "topic", "partition", "offset", "consumer", "producer", "seq", "read_ns", "error")
