"""exit_codes: a producer whose processes did not end with the exit codes that the scenario expects."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.frames import Tables


def exit_codes(t: Tables) -> DataFrame:
    """A producer whose exit codes, in the order of its processes, differ from the expected ones."""
    found = (
        t.nodes.filter(F.col("event") == "exited")
        .groupBy("run", "node")
        .agg(F.sort_array(F.collect_list(F.struct("at_ns", "code"))).alias("ends"))
        .select("run", "node", F.transform("ends", lambda end: F.coalesce(end["code"], F.lit(-1))).alias("found"))
    )
    return (
        t.exits.join(found, on=["run", "node"], how="left")
        .filter(~F.col("expected").eqNullSafe(F.col("found")))
        .select("run", "node", "expected", "found")
    )
