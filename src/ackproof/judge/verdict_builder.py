"""Build the verdict: compare what the checks found with what the scenario expects, and write the result to disk."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec

from ackproof.core.errors import naming
from ackproof.core.safe_json import json_text
from ackproof.judge.check_runner import Witnesses, collect, count_other, count_where, longest_ms, rows
from ackproof.judge.doubts import doubts, in_doubt, of_check
from ackproof.judge.evidence.facts import Evidence
from ackproof.judge.evidence.fitness import fitness, log_was_read, missing
from ackproof.judge.fates import FATES, IN_LOG, LOST
from ackproof.judge.frames import line_of
from ackproof.judge.lab_lag import BEHIND_MS, behind_ms, is_behind, waited_ms
from ackproof.judge.run_source import Source, cleared
from ackproof.judge.runbook import runbook
from ackproof.judge.sequence_audit import Producer
from ackproof.judge.strangers import CHECKS_OF_PRESENCE, WHY, without_number
from ackproof.judge.verdict_text import check_text, sentence
from ackproof.model.checks import CHECKS
from ackproof.model.checks.kind import CheckKind
from ackproof.model.run_record import RunRecord
from ackproof.model.verdict import (
    OWNERS_SHOWN,
    CheckResult,
    FailoverTimes,
    FaultSummary,
    OwnedTime,
    PartitionView,
    Result,
    Verdict,
    Witness,
    judge_check,
    overall,
)


@dataclass(frozen=True)
class Findings:
    """What one job found in all of its runs: a folder of rows, and the checks that broke."""

    folder: Path
    producers: Sequence[Producer]
    broken: Mapping[str, str]


def verdict_of(source: Source, findings: Findings, into: Path | None) -> Verdict:
    """The verdict on one run. The witnesses of every check go to files below `into`."""
    record, run = source.record, source.record.run
    counted = rows(findings.folder, "_fates", run)
    fates = {fate: sum(row["sends"] for row in counted if row["fate"] == fate) for fate in FATES}
    identity = _identity(source, findings, counted, fates)
    evidence = Evidence(
        source,
        [producer for producer in findings.producers if producer.run == run],
        fates,
        identity,
        _irregular(findings.folder, run),
    )
    lines = fitness(evidence)
    was_read = log_was_read(lines)
    untold = source.not_applicable
    found: dict[str, Witnesses] = {}
    for name, check in CHECKS.items():
        if name not in findings.broken and name not in untold and (was_read or "ends" not in check.needs):
            found[name] = collect(findings.folder, name, run, into and into / name, check.counted_column)
    checks = _checks(source, found, findings)
    acked = evidence.total("ok")
    faults = _faults(source)
    result = overall(lines, checks, acked)
    ends = source.small["ends"]
    owners = collect(findings.folder, "_owners", run, None, None, OWNERS_SHOWN)
    return Verdict(
        run=record.name,
        scenario=record.scenario,
        shape=record.shape,
        mode=record.mode,
        kafka=record.kafka,
        result=result,
        sentence=sentence(record, result, lines, checks, faults, fates, acked),
        sent=sum(fates.values()),
        acked=acked,
        failed=evidence.total("fail"),
        unknown=fates["recovered"] + fates["not_written"],
        high_watermark=sum(row["high_watermark"] for row in ends) if was_read else None,
        log_start=sum(row["log_start"] for row in ends) if was_read else None,
        lost=sum(fates[fate] for fate in LOST) if was_read else None,
        duplicated=_count(found, "duplicated"),
        reordered=_count(found, "reordered"),
        fates=fates if was_read else {},
        identity=identity if was_read else {},
        unavailable_ms=None if "unavailable" in (*untold, *findings.broken) else _unavailable_ms(findings, run),
        checks=checks,
        fitness=lines,
        faults=faults,
        failover=[msgspec.convert(_shown(source, row), FailoverTimes) for row in _rows(findings, "failover", run)],
        moves=[msgspec.convert(_shown(source, row), PartitionView) for row in _moves(findings, run)],
        owners=[msgspec.convert(_shown(source, row), OwnedTime) for row in owners.first],
        owners_left_out=owners.rows - len(owners.first),
        latency_ms={} if "ack_latency" in untold else _latency(findings, run),
        runbook=runbook(record, source.small["faults"]),
    )


def _checks(source: Source, found: Mapping[str, Witnesses], findings: Findings) -> list[CheckResult]:
    record, untold = source.record, source.not_applicable
    checks = [
        _not_applicable(record, name, untold[name])
        if name in untold
        else _check(source, name, check, found.get(name), findings)
        for name, check in CHECKS.items()
    ]
    return checks + _unasked(record)


def _check(source: Source, name: str, check: CheckKind, found: Witnesses | None, findings: Findings) -> CheckResult:
    broken = findings.broken
    applies = check.applies_to(source.record)
    expected = source.record.expect.get(name, check.default if applies else "allowed")
    if not applies:
        text = f"Nothing to look at: the scenario gives {name} nothing to compare; {expected}."
        return CheckResult(name, expected, None, "confirmed" if expected == "allowed" else "unknown", text)
    if name in broken:
        return CheckResult(name, expected, None, "unknown", f"The check {name} broke.", broke=broken[name])
    if found is None:
        text = f"The final log was not read to its end, so {name} cannot be judged; {expected}."
        return CheckResult(name, expected, None, "unknown", text)
    witnesses = [_shown(source, row) for row in found.first]
    absent = missing(source, check.needs)
    if absent and expected != "allowed":
        text = f"The journal has no {', '.join(absent)}, so {name} cannot be judged; {expected}."
        return CheckResult(name, expected, None, "unknown", text, witnesses)
    if absent:
        text = f"Nothing to look at: the journal has no {', '.join(absent)}; {expected}."
        return CheckResult(name, expected, None, "confirmed", text, witnesses)
    text = check_text(check, expected, found.marked)
    result = judge_check(expected, found.marked)
    if why := _strangers(source, name, check, result, findings) or _doubt(source, name, check, result, findings):
        text = f"{text.rstrip('.')}; but {why}."
        return CheckResult(name, expected, found.marked, "unknown", text, witnesses)
    depends = check.depends_on_time and (result == "refuted" or expected == "required")
    if depends and (why := _slow(source, name, check, result, findings)):
        text = f"{text.rstrip('.')}; but {why}."
        return CheckResult(name, expected, found.marked, "unknown", text, witnesses)
    asks = check.inconclusive_when if result == "confirmed" and expected != "allowed" else None
    if undecided := count_where(findings.folder, name, source.record.run, *asks) if asks else 0:
        text = (
            f"{text.rstrip('.')}; but {undecided} had not cleared when the health check ended, and still had time to."
        )
        return CheckResult(name, expected, found.marked, "unknown", text, witnesses)
    return CheckResult(name, expected, found.marked, result, text, witnesses)


def _strangers(source: Source, name: str, check: CheckKind, result: Result, findings: Findings) -> str:
    """Why a stranger may have caused what was found.

    Empty if some witness cannot come from a stranger, or if the result does not depend on it.
    """
    record = source.record
    expected = record.expect.get(name, check.default)
    depends = expected != "allowed" and result == ("confirmed" if expected == "required" else "refuted")
    if name not in CHECKS_OF_PRESENCE or not depends:
        return ""
    return "" if count_other(findings.folder, name, record.run, check.counted_column, without_number) else WHY


def _doubt(source: Source, name: str, check: CheckKind, result: Result, findings: Findings) -> str:
    """Why the lab may be the reason for what consumers were given, or were not.

    Empty if some witness is beyond doubt, or if the result does not depend on it. A check that needs consumers `in
    time` asks about order: a late consumer only falls behind, and the order in which Kafka then delivers is real. So if
    such a check is required and found something, that stands.
    """
    record = source.record
    rests_on_found = record.expect.get(name, check.default) == "required" and check.needs_consumers != "in time"
    if check.needs_consumers is None or not (result == "refuted" or rests_on_found):
        return ""
    found = of_check(doubts(source), check.needs_consumers)
    in_doubt_here = partial(in_doubt, found=found, record=record, needs=check.needs_consumers)
    if not found or count_other(findings.folder, name, record.run, check.counted_column, in_doubt_here):
        return ""
    first, *more = [why for group in sorted(found) for why in found[group].why]
    return f"{first}, and {len(more)} more" if more else first


def _slow(source: Source, name: str, check: CheckKind, result: Result, findings: Findings) -> str:
    """How late the lab was, or how long the nodes waited for a processor, if that could explain the result; else
    nothing.

    It could explain a refuted expectation. It could also explain a required witness, unless some witness lasted longer
    than the delay explains.
    """
    line = line_of(source.record, check.threshold) if check.threshold else 0.0
    behind, waited = behind_ms(source), waited_ms(source)
    for ms, why in (
        (behind, f"the lab itself was late by up to {behind:,.0f} ms"),
        (waited, f"the nodes waited up to {waited:,.0f} ms for a processor"),
    ):
        explained = result == "refuted" or longest_ms(findings.folder, name, source.record.run) <= ms + line
        if explained and is_behind(ms, line or BEHIND_MS):
            return why
    return ""


def _not_applicable(record: RunRecord, name: str, why: str) -> CheckResult:
    """The result of a check that is not applicable; unknown, never a pass, if the scenario expects something of it."""
    expected = record.expect.get(name, "allowed")
    result: Literal["unknown", "not applicable"] = "not applicable" if expected == "allowed" else "unknown"
    return CheckResult(name, expected, None, result, f"Not applicable: {why}; {expected}.")


def _unasked(record: RunRecord) -> list[CheckResult]:
    """Checks that the scenario expects something of, and that this judge does not have: unknown, never a pass."""
    return [
        CheckResult(name, expected, None, "unknown", f"This judge has no check named {name}.")
        for name, expected in sorted(record.expect.items())
        if name not in CHECKS and expected != "allowed"
    ]


def _identity(
    source: Source, findings: Findings, counted: Sequence[Witness], fates: Mapping[str, int]
) -> dict[str, int]:
    """The parts of high watermark - log start. Holes count as markers in transactional and compacted topics."""
    run = source.record.run
    odd_topics = {
        (row["topic"], row["partition"]) for row in source.small["ends"] if row["transactional"] or row["compacted"]
    }
    odd_span = sum(
        row["high_watermark"] - row["log_start"]
        for row in source.small["ends"]
        if (row["topic"], row["partition"]) in odd_topics
    )
    in_odd = sum(
        row["records"]
        for row in rows(findings.folder, "_records", run)
        if (row["topic"], row["partition"]) in odd_topics
    )
    phantoms = 0 if "phantom" in findings.broken else count_where(findings.folder, "phantom", run, "by", "log")
    gaps = sum(row["missing"] for row in _rows(findings, "offset_gap", run))
    return {
        **{fate: fates[fate] for fate in IN_LOG},
        "extra_copies": sum(row["extra_copies"] for row in counted),
        "phantoms": phantoms,
        "markers": odd_span - in_odd,
        "gaps": gaps,
    }


def _irregular(folder: Path, run: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in ("_unreported", "_irregular"):
        for row in rows(folder, name, run):
            found |= {column: count for column, count in row.items() if column != "run"}
    return found


def _faults(source: Source) -> list[FaultSummary]:
    """Each fault of the scenario with the nodes that it hit, and its proof in words."""
    summaries = []
    for fault in source.record.faults:
        events = sorted(
            (row for row in source.small["faults"] if row["fault"] == fault.id), key=lambda row: int(row["at_ns"])
        )
        proved = [row for row in events if row["event"] == "proved"]
        targets = (proved or events or [{"targets": []}])[-1]["targets"]
        text = next((row["text"] for row in [*reversed(proved), *reversed(events)] if row["text"]), "") or ""
        summaries.append(FaultSummary(fault.kind, list(targets), bool(proved), text))
    return summaries


def _count(found: Mapping[str, Witnesses], name: str) -> int | None:
    return found[name].rows if name in found else None


def _rows(findings: Findings, name: str, run: int) -> list[Witness]:
    return [] if name in findings.broken else rows(findings.folder, name, run)


def _moves(findings: Findings, run: int) -> list[Witness]:
    order = ("topic", "partition", "place")
    return sorted(_rows(findings, "leadership_history", run), key=lambda row: tuple(int(row[name]) for name in order))


def _unavailable_ms(findings: Findings, run: int) -> float:
    """The time in which at least one partition was unavailable. Waits at the same time count once."""
    total, end = 0, -1
    for row in sorted(_rows(findings, "unavailable", run), key=lambda row: int(row["from_ns"])):
        total += max(0, row["to_ns"] - max(row["from_ns"], end))
        end = max(end, row["to_ns"])
    return total / 1e6


def _latency(findings: Findings, run: int) -> dict[str, dict[str, float]]:
    return {
        row["basis"]: {name.removesuffix("_ms"): row[name] for name in row if name.endswith("_ms")}
        for row in _rows(findings, "ack_latency", run)
    }


def _shown(source: Source, row: Mapping[str, Any]) -> Witness:
    """A witness as a person reads it: with names, and without the run.

    If the log has no epochs, the first acknowledgement of a new epoch is unknown, and its key is left out: null would
    say that there was none.
    """
    record, left_out = source.record, ("run",) if source.has_epochs else ("run", "first_ack_ms")
    shown = {name: value for name, value in row.items() if name not in left_out}
    consumers = [consumer.name for consumer in record.consumers]
    names = {"topic": record.topics, "mirror": record.topics, "group": record.groups} | dict.fromkeys(
        ("consumer", "one_consumer", "other_consumer"), consumers
    )
    for column, known in names.items():
        number = shown.get(column)
        if isinstance(number, int) and 0 <= number < len(known):
            shown[column] = known[number]
    return shown


def write_verdict(home: Path | None, verdict: Verdict, witnesses: Path | None) -> Verdict:
    """Fill a new `verdict/` beside the old one, sync it and swap it in. Without a home, write nothing."""
    if home is None:
        return verdict
    new = witnesses or cleared(home / ".verdict-new")
    try:
        new.mkdir(exist_ok=True)
        new.chmod(0o755)
        with naming(new / "verdict.json"), (new / "verdict.json").open("wb") as out:
            out.write(json_text(verdict) + b"\n")
            out.flush()
            os.fsync(out.fileno())
        _take_its_place(new, home / "verdict", cleared(home / ".verdict-old"))
    except BaseException:
        cleared(new)
        raise
    return verdict


def _take_its_place(new: Path, place: Path, old: Path) -> None:
    """Replace `place` by `new`. The old content is removed only after the new one is in place."""
    if place.is_symlink() or place.exists():
        place.rename(old)
    try:
        new.rename(place)
    except OSError:
        if old.is_symlink() or old.exists():
            old.rename(place)
        raise
    cleared(old)
