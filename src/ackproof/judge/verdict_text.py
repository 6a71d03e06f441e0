"""The judge's words: one sentence for the run, and one for each check. This module only writes text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ackproof.model.checks.kind import CheckKind
from ackproof.model.faults import FAULTS
from ackproof.model.run_record import RunRecord
from ackproof.model.scenario import Expected
from ackproof.model.verdict import CheckResult, FaultSummary, Fitness, Result


def check_text(check: CheckKind, expected: Expected, found: int) -> str:
    """ "70,012 acknowledged message(s) missing from the healed log; required." """
    count = "no" if found == 0 else f"{found:,}"
    words = check.witness.replace("(s)", "" if found == 1 else "s")
    return f"{count} {words}; {expected}.".capitalize()


def sentence(
    record: RunRecord,
    result: Result,
    fitness: Sequence[Fitness],
    checks: Sequence[CheckResult],
    faults: Sequence[FaultSummary],
    fates: Mapping[str, int],
    acked: int,
) -> str:
    """One sentence that a colleague understands without knowing the scenario."""
    if result == "unknown":
        return f"Unknown: {_lower(_why_unknown(fitness, checks, acked))}"
    found = {check.name: check for check in checks}
    story = _story(record, faults, found["lost"].found or 0, acked)
    expected = _expected(found["lost"])
    rest = [part for part in (_others(found), _left_behind(found), _unknowns(fates)) if part]
    wrong = [check for check in checks if check.result == "refuted"]
    if wrong:
        rest = [*(_wrong(check) for check in wrong), *rest]
    text = "; ".join([story + expected, *rest])
    return f"{result.capitalize()}: {text}."


def _why_unknown(fitness: Sequence[Fitness], checks: Sequence[CheckResult], acked: int) -> str:
    unfit = [entry.text for entry in fitness if not entry.fit]
    if unfit:
        more = f" ({len(unfit) - 1} more reason{'s' if len(unfit) > 2 else ''})" if len(unfit) > 1 else ""
        return unfit[0].rstrip(".") + more + "."
    if acked == 0:
        return "nothing was acknowledged, so nothing could be lost."
    undecided = [check for check in checks if check.result == "unknown"]
    if undecided:
        names = ", ".join(check.name for check in undecided)
        return f"no answer from {names}: {undecided[0].broke or undecided[0].text}"
    return "no check was made."


def _story(record: RunRecord, faults: Sequence[FaultSummary], lost: int, acked: int) -> str:
    acks = sorted({producer.acks for producer in record.producers})
    count = f"{lost:,}" if lost else "none"
    settings = f"with acks={'/'.join(acks)} " if acks else ""
    return f"{settings}{_fault(record, faults)} cost {count} of {acked:,} acknowledged messages"


def _fault(record: RunRecord, faults: Sequence[FaultSummary]) -> str:
    """ "isolating the leader kafka2 and 2 more faults": the first fault, and how many others there were."""
    broken = [(asked, became) for asked, became in zip(record.faults, faults, strict=True) if _doing(asked.kind)]
    if not broken:
        return "the run"
    if record.plan.drawn:
        return f"{len(broken)} faults, drawn by seed {record.seed},"
    asked, became = broken[0]
    roles = [f"the {name.split(':')[0]}" for name in asked.asked if ":" in name]
    who = [*roles, ", ".join(became.targets)]
    apart = f" from {', '.join(asked.apart_from)}" if asked.apart_from else ""
    more = "" if len(broken) == 1 else f" and {len(broken) - 1} more fault{'s' if len(broken) > 2 else ''}"
    return f"{_doing(asked.kind)} {' '.join(part for part in who if part)}{apart}{more}"


def _doing(kind: str) -> str | None:
    """Return "isolating" and the like; None for a step that breaks nothing."""
    return FAULTS[kind].about.doing if kind in FAULTS else None


def _expected(lost: CheckResult) -> str:
    if lost.result == "refuted":
        return ""
    return {"required": ", as expected", "forbidden": ", as expected", "allowed": ""}[lost.expected]


def _wrong(check: CheckResult) -> str:
    if check.expected == "required":
        return f"{check.name} was required and none was found: the fault had no such effect"
    return f"{check.name} is forbidden and was found {check.found:,} time{'' if check.found == 1 else 's'}"


def _others(found: Mapping[str, CheckResult]) -> str:
    counts = [
        f"{found[name].found:,} {name}" for name in ("duplicated", "reordered") if name in found and found[name].found
    ]
    return " and ".join(counts) if counts else "none duplicated or reordered"


def _left_behind(found: Mapping[str, CheckResult]) -> str:
    count = found["unreplicated"].found if "unreplicated" in found else 0
    return f"{count:,} missing from the mirror when the producers moved" if count else ""


def _unknowns(fates: Mapping[str, int]) -> str:
    written, not_written = fates.get("recovered", 0), fates.get("not_written", 0)
    if not written + not_written:
        return ""
    return f"{written + not_written:,} of unknown outcome, {written:,} of them written"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
