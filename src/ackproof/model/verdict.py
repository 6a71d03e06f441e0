"""`verdict/verdict.json`: what the judge found, compared with what the scenario expects. No Spark here.

    confirmed   every required anomaly was found, no forbidden one was, and the run is fit to be evidence
    refuted     a forbidden anomaly was found, or a required one was not: the fault had no such effect
    unknown     the run is unfit, nothing was acknowledged, or a check broke: no evidence either way, never a pass

A check may also be "not applicable", if a client does not report what it asks about. It then says nothing, and is
unknown if the scenario expects something of it.

The file says nothing about where or when the judge ran, so judging again gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from ackproof.core.run_files import require_own
from ackproof.core.safe_json import read_json
from ackproof.model.run_record import RunRecord
from ackproof.model.scenario import Expected

Result = Literal["confirmed", "refuted", "unknown"]
EXIT_CODES: dict[Result, int] = {"confirmed": 0, "refuted": 1, "unknown": 3}
WITNESSES_SHOWN = 100
OWNERS_SHOWN = 1_000
Witness = dict[str, Any]  # one row that a check returned, on its way to JSON: each check has columns of its own


class CheckResult(msgspec.Struct, frozen=True):
    name: str
    expected: Expected
    found: int | None  # witnesses; null if the check broke, had nothing to look at, or is not applicable
    result: Result | Literal["not applicable"]
    text: str  # one sentence
    witnesses: list[Witness] = []  # the first hundred; all are in verdict/<name>/*.parquet
    broke: str | None = None


class Fitness(msgspec.Struct, frozen=True):
    name: str
    fit: bool
    text: str


class FaultSummary(msgspec.Struct, frozen=True):
    kind: str
    targets: list[str]
    proved: bool
    text: str = ""


class FailoverTimes(msgspec.Struct, frozen=True, kw_only=True):
    """What one fault did to one partition. Times count from the fault's proof; null if the step never came."""

    fault: int
    kind: str
    topic: str | int
    partition: int
    proved_ns: int
    old_epoch: int | None = None
    new_epoch: int | None = None
    first_error_ms: float | None = None
    new_epoch_ms: float | None = None
    first_ack_ms: float | msgspec.UnsetType | None = msgspec.UNSET  # left out if the log has no epochs
    isr_full_ms: float | None = None


class PartitionView(msgspec.Struct, frozen=True, kw_only=True):
    """Who led one partition at one moment of the run, and which replicas were in sync."""

    topic: str | int
    partition: int
    place: int  # of the moment among the run's moments
    moment: str
    moment_ns: int
    leader: int | None = None
    leader_epoch: int | None = None
    isr: list[int] | None = None
    replicas: list[int] | None = None


class OwnedTime(msgspec.Struct, frozen=True, kw_only=True):
    """A period in which a consumer owned a partition, by its own report of assignments and revocations."""

    from_ns: int
    to_ns: int
    group: str | int
    topic: str | int
    partition: int
    consumer: str | int


class RunbookStep(msgspec.Struct, frozen=True):
    at_s: float
    took_s: float | None
    step: str
    done: bool
    text: str


class Verdict(msgspec.Struct, frozen=True):
    run: str
    scenario: str
    shape: str
    mode: str
    kafka: str
    result: Result
    sentence: str
    sent: int
    acked: int
    failed: int
    unknown: int
    # These seven are null or empty if the final log was not read to its end: then nothing can be counted.
    high_watermark: int | None
    log_start: int | None
    lost: int | None
    duplicated: int | None
    reordered: int | None
    fates: dict[str, int]
    identity: dict[str, int]  # the parts that add up to high watermark - log start
    unavailable_ms: float | None  # null if the check `unavailable` is not applicable, or has no answer
    checks: list[CheckResult]
    fitness: list[Fitness]
    faults: list[FaultSummary]
    failover: list[FailoverTimes] = []
    moves: list[PartitionView] = []
    owners: list[OwnedTime] = []  # the first thousand, in the order in which they began
    owners_left_out: int = 0  # how many later ones there are
    latency_ms: dict[str, dict[str, float]] = {}  # "due" and "sent": p50, p90, p99, p999, max
    runbook: list[RunbookStep] = []  # the steps as they were carried out


def not_judged(record: RunRecord | None, why: Fitness, name: str = "") -> Verdict:
    """The verdict on a run that could not be judged, or was not judged yet: unknown."""
    expected: dict[str, Expected] = dict(record.expect) if record else {}
    return Verdict(
        run=record.name if record else name,
        scenario=record.scenario if record else "",
        shape=record.shape if record else "",
        mode=record.mode if record else "",
        kafka=record.kafka if record else "",
        result="unknown",
        sentence=f"Unknown: {why.text[:1].lower()}{why.text[1:]}",
        sent=0,
        acked=0,
        failed=0,
        unknown=0,
        high_watermark=None,
        log_start=None,
        lost=None,
        duplicated=None,
        reordered=None,
        fates={},
        identity={},
        unavailable_ms=None,
        checks=[
            CheckResult(check, expected[check], None, "unknown", "Not judged.", broke=why.text) for check in expected
        ],
        fitness=[why],
        faults=[],
    )


def judge_check(expected: Expected, found: int | None) -> Result:
    if found is None:
        return "unknown"
    if expected == "forbidden":
        return "confirmed" if found == 0 else "refuted"
    if expected == "required":
        return "confirmed" if found > 0 else "refuted"
    return "confirmed"


def overall(fitness: Sequence[Fitness], checks: Sequence[CheckResult], acked: int) -> Result:
    """The result of the run. Fitness comes first: a run that is no evidence neither confirms nor refutes."""
    if not all(entry.fit for entry in fitness) or acked == 0 or not checks:
        return "unknown"
    results = {check.result for check in checks}
    if "refuted" in results:
        return "refuted"
    return "unknown" if "unknown" in results else "confirmed"


def read_verdict(run_directory: Path) -> Verdict:
    path = run_directory / "verdict" / "verdict.json"
    require_own(path, run_directory)
    return read_json(path, Verdict)
