"""alerts: whether the health check raised each expected alert in time, and no other alert.

hit         raised in time, and cleared in time after the fault was over
unfinished  raised in time, and not yet due to clear when the health check ended: the result is unknown
missed      never raised
late        raised, but later than expected
stuck       raised in time, and not cleared in time
false       raised outside of the time that any fault explains
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ackproof.judge.frames import Tables
from ackproof.model.alert_rules import ALERT_RULES

_EXPECTED = ("run", "rule", "fault", "from_ns", "proved_ns", "raise_by_ns", "clear_by_ns", "watched_ns")
_GOOD = ("hit", "unfinished")
_WAKES = [rule.name for rule in ALERT_RULES if rule.wakes]


def alerts(t: Tables) -> DataFrame:
    """One row for each expected alert and for each unexpected one; `bad` if it should not be so."""
    both = t.awaited.join(t.small_side(_spans(t)), on=["run", "rule"], how="left").withColumn("its", _its_own())
    told = (
        both.groupBy(*_EXPECTED)
        .agg(
            F.min(F.when(F.col("its"), F.col("raised_ns"))).alias("raised_ns"),
            F.max(F.when(F.col("its"), F.col("cleared_ns"))).alias("cleared_ns"),
            F.coalesce(F.bool_or(F.col("its") & F.col("cleared_ns").isNull()), F.lit(False)).alias("stands"),
        )
        .withColumn("result", _result())
    )
    return t.union(_shown(told), _shown(_false(t)))


def _spans(t: Tables) -> DataFrame:
    """The period of each alert, from when it was raised until it was cleared."""
    in_order = Window.partitionBy("run", "rule").orderBy("at_ns")
    return (
        t.alerts.filter(F.col("event").isin("raised", "cleared"))
        .withColumn("cleared_ns", F.lead("at_ns").over(in_order))
        .filter(F.col("event") == "raised")
        .select("run", "rule", F.col("at_ns").alias("raised_ns"), "cleared_ns")
    )


def _its_own() -> Column:
    """Whether the alert was active after the fault began, and raised before the fault's effects had to be gone."""
    stood = F.col("cleared_ns").isNull() | (F.col("cleared_ns") > F.col("from_ns"))
    return F.coalesce(F.col("from_ns").isNotNull() & stood & _before_its_end(), F.lit(False))


def _before_its_end() -> Column:
    return F.col("clear_by_ns").isNull() | (F.col("raised_ns") <= F.col("clear_by_ns"))


def _result() -> Column:
    too_long = F.col("stands") | (F.col("cleared_ns") > F.col("clear_by_ns"))
    return (
        F.when(F.col("raised_ns").isNull(), "missed")
        .when(F.col("raised_ns") > F.col("raise_by_ns"), "late")
        .when(F.col("stands") & (F.col("clear_by_ns") > F.col("watched_ns")), "unfinished")
        .when(F.col("clear_by_ns").isNotNull() & too_long, "stuck")
        .otherwise("hit")
    )


def _false(t: Tables) -> DataFrame:
    """Alerts that no fault explains, each with the fault that began last before it, as a hint."""
    windows = t.awaited.select("run", "rule", "from_ns", "clear_by_ns")
    explained = (
        _spans(t)
        .join(t.small_side(windows), on=["run", "rule"], how="inner")
        .filter((F.col("raised_ns") >= F.col("from_ns")) & _before_its_end())
        .select("run", "rule", "raised_ns")
    )
    asked = t.faults.filter(F.col("event") == "asked").select("run", "fault", F.col("at_ns").alias("from_ns"))
    begun = F.when(F.col("from_ns") <= F.col("raised_ns"), F.struct("from_ns", "fault"))
    return (
        _spans(t)
        .join(t.small_side(explained), on=["run", "rule", "raised_ns"], how="left_anti")
        .join(t.small_side(asked), on=["run"], how="left")
        .groupBy("run", "rule", "raised_ns", "cleared_ns")
        .agg(F.max(begun)["fault"].alias("fault"))
        .withColumn("proved_ns", F.lit(None).cast("long"))
        .withColumn("result", F.lit("false"))
    )


def _shown(frame: DataFrame) -> DataFrame:
    after_s = ((F.col("raised_ns") - F.col("proved_ns")) / 1e9).alias("after_s")
    stood_s = ((F.col("cleared_ns") - F.col("raised_ns")) / 1e9).alias("stood_s")
    bad = (~F.col("result").isin(*_GOOD)).alias("bad")
    told = F.when(F.col("rule").isin(*_WAKES), "at once").otherwise("in the morning").alias("told")
    return frame.select("run", "rule", "fault", "result", "raised_ns", "cleared_ns", after_s, stood_s, told, bad)
