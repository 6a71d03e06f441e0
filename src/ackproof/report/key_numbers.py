"""The table of the few numbers that everybody asks for, and the bar of fates below it."""

from __future__ import annotations

from dataclasses import dataclass

from ackproof.model.verdict import CheckResult, Verdict
from ackproof.report.phrases import FateRow, expected_besides, fate_rows
from ackproof.report.run_reader import Run
from ackproof.report.svg import percent
from ackproof.report.time_series import Traffic

_HEADLINE_MEANINGS = {
    "lost": "acknowledged, and not in the healed log",
    "duplicated": "in the log more than once",
    "reordered": "in the log in another order than sent",
}
_NARROWEST = 0.004  # of the bar: a part of it that is still visible
_ROOM_FOR_WORDS = 0.12  # of the bar


@dataclass(frozen=True)
class KeyNumber:
    name: str
    count: int | None
    text: str
    check: CheckResult | None = None
    checked: bool = True  # False where the number has a check, and the scenario does not ask it


@dataclass(frozen=True)
class BarPart:
    fate: FateRow
    left: str
    width: str
    wide: bool  # so wide that its name fits


def key_numbers(verdict: Verdict) -> list[KeyNumber]:
    checks = {check.name: check for check in verdict.checks}
    counts = {"lost": verdict.lost, "duplicated": verdict.duplicated, "reordered": verdict.reordered}
    if verdict.high_watermark is None:
        mark = "the final log was not read to its end"
    else:
        mark = f"acknowledged minus high watermark = {verdict.acked - verdict.high_watermark:,}"
    return [
        KeyNumber("acknowledged", verdict.acked, f"of {verdict.sent:,} sent"),
        KeyNumber("high watermark", verdict.high_watermark, mark),
        *(
            KeyNumber(name, counts[name], text, checks.get(name), name in checks)
            for name, text in _HEADLINE_MEANINGS.items()
        ),
        *(
            KeyNumber(check.name.replace("_", " "), check.found, check.text, check)
            for check in expected_besides(verdict)
        ),
    ]


def counted_numbers(run: Run, traffic: Traffic) -> list[KeyNumber]:
    """What the report can count without a judge, for a run that nobody has judged."""
    counts = traffic.counts
    rows = [
        KeyNumber("sent", counts["sent"], "messages given to a client"),
        KeyNumber("acknowledged", counts["ok"], "as the clients were told"),
        KeyNumber("failed", counts["fail"], "certainly not written"),
        KeyNumber("unknown", counts["info"], "the client cannot know"),
    ]
    if marks := run.table("ends", ("high_watermark",))["high_watermark"].to_pylist():
        rows.append(KeyNumber("high watermark", sum(marks), "over all partitions"))
    return rows


def fate_bar(verdict: Verdict) -> list[BarPart]:
    """The fates side by side as parts of one bar. The smallest is still wide enough to be seen."""
    fates = fate_rows(verdict.fates)
    total = sum(fate.count for fate in fates) or 1
    widths = [max(fate.count / total, _NARROWEST) for fate in fates]
    scale, left, parts = sum(widths), 0.0, []
    for fate, width in zip(fates, widths, strict=True):
        parts.append(BarPart(fate, percent(left / scale), percent(width / scale), width / scale > _ROOM_FOR_WORDS))
        left += width
    return parts
