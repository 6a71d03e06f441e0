"""Where the time of a judge goes, from its own process's clock and Spark's event log: lines that add up to the whole.

At a moment at which several things go on (stages run two at once, and other questions are planned beside them) the
first of `LAYERS` that does counts, so that no second is counted twice. What the stages' tasks used is summed beside it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec

from ackproof.judge import pipeline as judge_main
from ackproof.judge.engine.large import look
from ackproof.spark.session import MEMORY, Extras, Session, warm

Span = tuple[float, float]
STARTS = "Python starts and imports"
OPENS = "the journal is opened"
SPARK_STARTS = "Java and Spark start"
REHEARSES = "something else is judged first"
STAGES = "stages run"
PLANS = "none runs, a question is planned"
FOLDS = "the journal is folded"
REST = "questions are put together, answers compared and written"
SPARK_ENDS = "Spark ends"
ENDS = "Python ends"
LAYERS = (STAGES, PLANS, FOLDS)
JAVA = "Java, processor s"
_OF_TASKS = {
    "tasks run s": ("Executor Run Time", 1e3),
    "of it processor s": ("Executor CPU Time", 1e9),
    "of it collecting garbage s": ("JVM GC Time", 1e3),
    "tasks deserialised s": ("Executor Deserialize Time", 1e3),
    "of it processor s (deserialising)": ("Executor Deserialize CPU Time", 1e9),
}
THREADS = {"  its compilers": ("C1 ", "C2 "), "  its collector": ("VM Thread",), "  tasks": ("Executor task",)}


@dataclass
class Clock:
    """When each part of a peer's work began, in seconds since 1970, as Spark's log has it; and what Java used."""

    asked: float = field(default_factory=time.time)
    spark_starts: float = 0.0
    spark_started: float = 0.0
    judges: float = 0.0
    spark_ends: float = 0.0
    spark_ended: float = 0.0
    folds: list[Span] = field(default_factory=list)
    used_before: dict[str, float] = field(default_factory=dict)
    used: dict[str, float] = field(default_factory=dict)
    jobs_before: int = 0
    jobs: int = 0  # of Spark


@contextmanager
def clocked(clock: Clock, folder: Path | None, large: bool = False, memory: str = MEMORY) -> Iterator[Session]:
    """A session with its times on the clock and, where a folder is given, its event log there."""
    settings = (
        {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": folder.as_uri(),
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
        }
        if folder
        else {}
    )
    clock.spark_starts = time.time()
    with warm(large=large, extras=Extras(settings=settings, memory=memory)) as session:
        clock.spark_started = clock.judges = time.time()
        with patch.object(judge_main, "look", _timed(look, clock)):
            yield session
        clock.jobs = jobs_of(session) - clock.jobs_before
        if folder:
            clock.used = {
                name: figure - clock.used_before.get(name, 0) for name, figure in used_by_java(session).items()
            }
        clock.spark_ends = time.time()
    clock.spark_ended = time.time()


def judging_begins(clock: Clock, session: Session) -> None:
    """Note what Java had used and how many jobs had begun before the judge, to leave that out of its figures."""
    clock.used_before, clock.jobs_before = used_by_java(session), jobs_of(session)
    clock.judges, clock.folds = time.time(), []


def jobs_of(session: Session) -> int:
    """How many jobs Spark has begun, as far as it remembers: a thousand."""
    return len(session.spark.sparkContext.statusTracker().getJobIdsForGroup(None))


def _timed(function: Any, clock: Clock) -> Any:
    def timed(*given: Any, **named: Any) -> Any:
        began = time.time()
        try:
            return function(*given, **named)
        finally:
            clock.folds.append((began, time.time()))

    return timed


def used_by_java(session: Session) -> dict[str, float]:
    """Processor seconds of Java, by its threads; how long Spark compiled what it had generated, in all threads
    together; how many classes are loaded."""
    java: Any = session.spark.sparkContext._jvm
    classes = java.java.lang.management.ManagementFactory.getClassLoadingMXBean()
    generated = java.org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator
    return {
        **(_by_threads(session.jvm.process.pid) if session.jvm else {}),
        "compiling generated code s": generated.compileTime() / 1e9,
        "classes loaded": classes.getTotalLoadedClassCount(),
    }


def _by_threads(pid: int) -> dict[str, float]:
    """The rest is planning and generating code, mostly; threads that have ended are in it too."""
    process = Path(f"/proc/{pid}")
    total, found = _processor_s(process), dict.fromkeys(THREADS, 0.0)
    for thread in (process / "task").iterdir():
        with suppress(OSError):  # it ended just now
            name = (thread / "comm").read_text()
            for group, begins in THREADS.items():
                found[group] += _processor_s(thread) if name.startswith(begins) else 0.0
    return {JAVA: total, **found, "  the rest": total - sum(found.values())}


def _processor_s(of: Path) -> float:
    words = (of / "stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Log:
    """What Spark's event log tells of a session."""

    stages: list[Span]
    executions: list[Span]
    sums: dict[str, float]


def read_log(folder: Path, since: float) -> Log:
    (path,) = (path for path in folder.iterdir() if not path.name.startswith("."))
    return digest([msgspec.json.decode(line) for line in path.read_bytes().splitlines()], since)


def digest(events: Iterable[Mapping[str, Any]], since: float) -> Log:
    """Of what began from then on."""
    stages, begun, executions, jobs = [], {}, [], 0
    sums = dict.fromkeys(("tasks", *_OF_TASKS), 0.0)
    for event in events:
        kind = event["Event"].rpartition(".")[2].removeprefix("SparkListener")
        if kind == "JobStart":
            jobs += event["Submission Time"] / 1e3 >= since
        elif kind == "StageCompleted":
            info = event["Stage Info"]
            if info["Submission Time"] / 1e3 >= since:
                stages.append((info["Submission Time"] / 1e3, info["Completion Time"] / 1e3))
        elif kind == "TaskEnd" and event["Task Info"]["Launch Time"] / 1e3 >= since:
            used = event["Task Metrics"]
            sums["tasks"] += 1
            for name, (metric, unit) in _OF_TASKS.items():
                sums[name] += used[metric] / unit
        elif kind == "SQLExecutionStart":
            begun[event["executionId"]] = event["time"] / 1e3
        elif kind == "SQLExecutionEnd" and begun[event["executionId"]] >= since:
            executions.append((begun[event["executionId"]], event["time"] / 1e3))
    return Log(stages, executions, {"questions to Spark": len(executions), "jobs": jobs, "stages": len(stages), **sums})


def spent(began: float, clock: Clock, log: Log, ended: float) -> dict[str, float]:
    """Seconds of each line; together they are the whole."""
    judged = clock.judges, clock.spark_ends
    layers = dict(zip(LAYERS, shares(judged, [log.stages, log.executions, clock.folds]), strict=True))
    return {
        STARTS: clock.asked - began,
        OPENS: clock.spark_starts - clock.asked,
        SPARK_STARTS: clock.spark_started - clock.spark_starts,
        REHEARSES: clock.judges - clock.spark_started,
        **layers,
        REST: judged[1] - judged[0] - sum(layers.values()),
        SPARK_ENDS: clock.spark_ended - clock.spark_ends,
        ENDS: ended - clock.spark_ended,
    }


def shares(window: Span, layers: Sequence[Sequence[Span]]) -> list[float]:
    """How much of the window each layer covers that no layer before it does."""
    covered, found = 0.0, []
    so_far: list[Span] = []
    for layer in layers:
        so_far += [(max(low, window[0]), min(high, window[1])) for low, high in layer]
        found.append(length(so_far) - covered)
        covered += found[-1]
    return found


def length(spans: Iterable[Span]) -> float:
    """Of all of them together; what several cover counts once."""
    total, reached = 0.0, float("-inf")
    for low, high in sorted(spans):
        total += max(0.0, high - max(low, reached))
        reached = max(reached, high)
    return total
