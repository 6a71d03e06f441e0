"""Misplaced: a log that a broker put into another directory than one of those that held the fewest.

What a broker holds is looked at before and after topics are created. Whoever always takes a directory with the fewest
ends with none of those that he chose holding more than one above the fewest; and who does not, does not.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ackproof.judge.tables import Tables


def misplaced(t: Tables) -> DataFrame:
    """A directory that was given logs, and holds more than one above what another of its broker's holds."""
    of_directory = Window.partitionBy("run", "broker", "directory").orderBy("step")
    of_broker = Window.partitionBy("run", "broker", "step")
    no_names = F.array().cast("array<string>")
    return (
        t.places.withColumn("before", F.coalesce(F.lag("partitions").over(of_directory), no_names))
        .withColumn("held", F.size("partitions"))
        .withColumn("fewest", F.min("held").over(of_broker))
        .withColumn("given", F.array_except("partitions", "before"))
        # The first look is at what was there before anything was asked.
        .filter((F.col("step") > 0) & (F.size("given") > 0) & (F.col("held") > F.col("fewest") + 1))
        .select("run", "broker", "step", "directory", "held", "fewest", "given")
    )
