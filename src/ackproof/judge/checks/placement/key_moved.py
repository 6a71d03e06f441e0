"""key_moved: a producer wrote the messages of a key to more than one partition, as happens when a topic grows.

Kafka keeps order within a partition only. After the move, a reader cannot know whether a message of this key comes
after those in the old partition.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ackproof.judge.frames import Tables


def key_moved(t: Tables) -> DataFrame:
    """A move of a key from one partition to another: the last message before it, and the first after it."""
    in_order = Window.partitionBy("run", "producer", "topic", "key").orderBy("seq")
    before = [F.lag(name).over(in_order).alias(f"{name}_before") for name in ("seq", "partition", "offset")]
    return (
        t.sends.filter((F.col("outcome") == "ok") & F.col("key").isNotNull() & (F.col("partition") >= 0))
        .select("run", "producer", "topic", "key", "seq", "partition", "offset", *before)
        .filter(F.col("partition") != F.col("partition_before"))
    )
