"""Unexplained: left behind at a move of the writers, though the mirror had copied later messages of the partition."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.checks.mirror.unreplicated import unreplicated
from ackproof.judge.frames import Tables


def unexplained(t: Tables) -> DataFrame:
    """Those left behind that the mirror's lag does not explain."""
    return unreplicated(t).filter(~F.col("explained"))
