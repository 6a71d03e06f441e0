"""Judge run directories, and compare topics of a run. Each call starts a judge, with Spark, and ends it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from ackproof.host.java import find_java
from ackproof.judge.worker import Judging
from ackproof.kafka.distribution import jars
from ackproof.model.verdict import Verdict, Witness

SoFar = Callable[[int, int | None, str], None]
LiveLog = tuple[str, dict[str, str]]
"""The bootstrap servers of a cluster, and the settings of the client that reads the final log from it."""


def judge(run: str | Path, *, master: str = "local[*]") -> Verdict:
    """Judge a run directory again or for the first time, write the verdict into it, and return it.

    `master` is a Spark master or a Spark Connect server; by default Spark runs in this machine.
    """
    (verdict,) = judge_runs([Path(run)], master, None, lambda _: None, lambda *_: None)
    return verdict


def judge_runs(
    directories: Sequence[Path],
    master: str,
    live_log: LiveLog | None,
    tell: Callable[[str], None],
    so_far: SoFar,
) -> list[Verdict]:
    """Judge runs one after the other with one Spark session, and return their verdicts, which are also written."""
    with closing(Judging(master, kafka=live_log)) as worker:
        return worker.judge(directories, tell, so_far)


def fetch_connector(so_far: SoFar) -> None:
    """Fetch the jars with which Spark reads a log from Kafka."""
    jars.ensure_connector(find_java(), so_far)


def compare_topics(
    directory: Path, topic: str, other: str, most: int | None = None
) -> tuple[dict[str, int], list[Witness]]:
    """Return how many records of two topics of a run differ, by kind of difference, and at most `most` of these."""
    with closing(Judging()) as worker:
        return worker.diff(directory, topic, other, most)
