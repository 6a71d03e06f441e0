"""unexplained: a message was missing from the mirror when the producers moved, but later ones had been copied."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.checks.mirror.unreplicated import unreplicated
from ackproof.judge.frames import Tables


def unexplained(t: Tables) -> DataFrame:
    """The witnesses of `unreplicated` that the mirror's lag does not explain."""
    return unreplicated(t).filter(~F.col("explained"))
