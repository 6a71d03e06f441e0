"""Compare the message numbers that producers reserved with those that they reported.

A producer reserves a block of numbers on disk before it uses any, and records at the end of the block how many it used.
A number that was used and never reported is a hole in the journal. A number of a block that was never closed may or may
not have been sent: its producer died, and that is no hole.

Both sides are first reduced to a count and an XOR of hashes for each producer. If these are equal, as in nearly every
run, no single number is compared.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from ackproof.spark.session import collected

_PRODUCER = ["run", "producer"]
_VALUE = ["run", "producer", "seq"]


@dataclass(frozen=True)
class Producer:
    """What one producer reported, and whether that is exactly what it reserved."""

    run: int
    producer: int
    reported: int
    reserved: int
    ok: int
    fail: int
    info: int
    backwards: int  # outcomes that came before their sends
    first_ok_ns: int | None
    first_sent_ns: int | None
    last_sent_ns: int | None
    last_done_ns: int | None
    first_seq: int | None
    last_seq: int | None
    equal: bool

    @property
    def unbroken(self) -> bool:
        """Whether it reported exactly what it reserved, from its first number to its last without a hole."""
        whole = self.first_seq is not None and self.last_seq is not None
        return self.equal and whole and (self.last_seq or 0) - (self.first_seq or 0) + 1 == self.reported


def producers_of(sends: DataFrame, blocks: DataFrame) -> list[Producer]:
    """One row for each producer of each run: a few rows, however many sends there are."""
    reported = sends.groupBy(*_PRODUCER).agg(
        F.count("*").alias("reported"),
        F.bit_xor(F.xxhash64("seq")).alias("reported_fold"),
        *(F.count_if(F.col("outcome") == name).alias(name) for name in ("ok", "fail", "info")),
        F.count_if(F.col("done_ns") < F.col("sent_ns")).alias("backwards"),
        F.min(F.when(F.col("outcome") == "ok", F.col("done_ns"))).alias("first_ok_ns"),
        F.min("sent_ns").alias("first_sent_ns"),
        F.max("sent_ns").alias("last_sent_ns"),
        F.max("done_ns").alias("last_done_ns"),
        F.min("seq").alias("first_seq"),
        F.max("seq").alias("last_seq"),
    )
    reserved = (
        numbers(blocks)
        .groupBy(*_PRODUCER)
        .agg(F.count("*").alias("reserved"), F.bit_xor(F.xxhash64("seq")).alias("reserved_fold"))
    )
    rows = collected(reported.join(reserved, on=_PRODUCER, how="full").orderBy(*_PRODUCER))
    return [_producer(row) for row in rows]


def _producer(row: Row) -> Producer:
    found = row.asDict()
    counts = {name: found[name] or 0 for name in ("reported", "reserved", "ok", "fail", "info", "backwards")}
    others = ("first_ok_ns", "first_sent_ns", "last_sent_ns", "last_done_ns", "first_seq", "last_seq")
    bounds = {name: found[name] for name in others}
    equal = counts["reported"] == counts["reserved"] and found["reported_fold"] == found["reserved_fold"]
    return Producer(run=found["run"], producer=found["producer"], equal=equal, **counts, **bounds)


def numbers(blocks: DataFrame) -> DataFrame:
    """Every number that may have been used; `closed` if its producer closed the block."""
    size = F.coalesce(F.col("used"), F.col("count"))
    last = F.col("first_seq") + size - 1
    return (
        blocks.groupBy(*_PRODUCER, "first_seq")
        .agg(F.max("count").alias("count"), F.max("used").alias("used"))
        .filter(size > 0)
        .select(
            *_PRODUCER,
            F.col("used").isNotNull().alias("closed"),
            F.explode(F.sequence(F.col("first_seq"), last)).alias("seq"),
        )
    )


def unreported(sends: DataFrame, blocks: DataFrame, differing: DataFrame) -> DataFrame:
    """Numbers that may have been used and were never reported, of the producers whose hashes differ."""
    asked = F.broadcast(differing)
    used = numbers(blocks.join(asked, on=_PRODUCER, how="left_semi"))
    return used.join(sends.select(*_VALUE), on=_VALUE, how="left_anti").select(*_VALUE, "closed")


def unreported_counts(missing: DataFrame) -> DataFrame:
    """For each run: unreported numbers of closed blocks, and numbers of blocks that were never closed."""
    return (
        missing.groupBy("run")
        .agg(F.count_if(F.col("closed")).alias("holes"), F.count_if(~F.col("closed")).alias("unclosed"))
        .select("run", "holes", "unclosed")
    )


def irregular(sends: DataFrame, blocks: DataFrame, differing: DataFrame) -> DataFrame:
    """For each run: numbers reported twice, and numbers reported but never reserved."""
    asked = F.broadcast(differing)
    reported = sends.join(asked, on=_PRODUCER, how="left_semi").groupBy(*_VALUE).agg(F.count("*").alias("times"))
    reserved = numbers(blocks).select(*_VALUE, F.lit(True).alias("reserved")).distinct()
    return (
        reported.join(reserved, on=_VALUE, how="left")
        .groupBy("run")
        .agg(
            F.count_if(F.col("times") > 1).alias("twice"),
            F.count_if(F.col("reserved").isNull()).alias("unreserved"),
        )
        .select("run", "twice", "unreserved")
    )
