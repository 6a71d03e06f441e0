"""not_exactly_once: an input message of a transactional producer that was not processed exactly once.

The producer commits what it read and what it wrote together, or not at all. So each record of the input has one answer
among the committed messages of the output: the answer's key is the number of the input message. An input message with
two copies in its log has two answers. An answer with an unknown key, because its producer died before it could report
the key, answers no known message.

If retention removed records from the output, an answer may be missing rightly; if it removed records from the input, a
question may. Then too few answers, or too many, prove nothing.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ackproof.judge.frames import VALUE, Tables

_INPUT = ["run", "producer", "key"]


def not_exactly_once(t: Tables) -> DataFrame:
    """An input message, by its number, with more or fewer answers in the final log than it has records."""
    processors = t.producers.filter(F.col("input").isNotNull()).select("run", "producer", F.col("input").alias("topic"))
    records = (
        t.log.select("run", "topic", F.col("seq").alias("key"))
        .join(t.small_side(processors), on=["run", "topic"], how="inner")
        .groupBy(*_INPUT)
        .agg(F.count("*").alias("records"))
    )
    answers = (
        t.sends.select(*VALUE, "key")
        .join(t.small_side(processors.drop("topic")), on=["run", "producer"], how="left_semi")
        .join(t.log.select(*VALUE), on=list(VALUE), how="inner")
        .groupBy(*_INPUT)
        .agg(F.count("*").alias("answers"), F.min("seq").alias("seq"))
    )
    cut = t.small_side(t.ends.filter(F.col("log_start") > 0).select("run", "topic").distinct())
    questions_gone = _of(processors.join(cut, on=["run", "topic"], how="left_semi"), "questions_gone")
    answers_gone = _of(t.sends.join(cut, on=["run", "topic"], how="left_semi"), "answers_gone")
    none = F.lit(0)
    too_few = (F.col("answers") < F.col("records")) & F.col("answers_gone").isNull()
    too_many = (F.col("answers") > F.col("records")) & F.col("questions_gone").isNull()
    return (
        records.join(answers, on=_INPUT, how="full")
        .join(t.small_side(questions_gone), on=["run", "producer"], how="left")
        .join(t.small_side(answers_gone), on=["run", "producer"], how="left")
        .withColumn("records", F.coalesce("records", none))
        .withColumn("answers", F.coalesce("answers", none))
        .filter(too_few | too_many)
        .select(*_INPUT, "records", "answers", "seq")
    )


def _of(frame: DataFrame, what: str) -> DataFrame:
    return frame.select("run", "producer").distinct().withColumn(what, F.lit(True))
