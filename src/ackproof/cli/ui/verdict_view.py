"""The verdict for a terminal: the sentence, the key numbers with expectation and result, and what contradicts it.

Every piece of data goes through `core.text.plain` into a `Text`, which is never parsed as markup. Colour never carries
information alone, so a pipe, NO_COLOR or a colour-blind reader loses nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ackproof.cli.ui.console import table
from ackproof.core.text import plain
from ackproof.report.measure_tables import Measured, measured
from ackproof.report.phrases import HEADLINE, RESULTS, expected_besides, is_fit

if TYPE_CHECKING:
    from rich.table import Table

    from ackproof.model.verdict import CheckResult, Verdict

_STYLES = {"confirmed": "green", "refuted": "red", "unknown": "yellow"}
MOMENTS_SHOWN = 8  # the page has them all
PARTITIONS_SHOWN = 12


def terminal_summary(verdict: Verdict) -> list[Any]:
    """Return the parts of the summary, for rich to print."""
    from rich.text import Text

    sign, word = RESULTS[verdict.result]
    head = f"{verdict.scenario} ({verdict.shape}, {verdict.mode}, Kafka {verdict.kafka})"
    parts: list[Any] = [
        Text.assemble((f"{sign} {word.upper()}", f"bold {_STYLES[verdict.result]}"), f"  {plain(head)}"),
        Text(plain(verdict.sentence)),
        _numbers(verdict),
    ]
    if len({move.moment for move in verdict.moves}) > 2:
        parts.append(_moves(verdict))
    if verdict.runbook:
        parts.append(_runbook(verdict))
    parts += [_measure(each) for each in measured(verdict)]
    fit = is_fit(verdict)
    for entry in verdict.fitness:
        if not entry.fit:
            parts.append(Text(f"unfit: {plain(entry.name)}: {plain(entry.text)}", style="yellow"))
        elif entry.name == "reserved":  # without this remark, the number of messages sent would look exact
            parts.append(Text(plain(entry.text)))
    for check in verdict.checks:
        if fit and check.result in ("refuted", "unknown") and check.name not in HEADLINE:
            parts.append(Text(_told(check), style=_STYLES[check.result]))
    if untold := [check.name for check in verdict.checks if check.result == "not applicable"]:
        parts.append(Text(f"{RESULTS['not applicable'][0]} not applicable: {plain(', '.join(untold))}"))
    for fault in verdict.faults:
        if not fault.proved:
            parts.append(
                Text(f"fault not proved: {plain(fault.kind)} {plain(' '.join(fault.targets))}", style="yellow")
            )
    return parts


def _numbers(verdict: Verdict) -> Table:
    from rich.text import Text

    checks = {check.name: check for check in verdict.checks}
    fit = is_fit(verdict)
    made = table("", "found", "expected", "result", right=("found",))
    made.add_row("sent", f"{verdict.sent:,}", "", "")
    made.add_row("acknowledged", f"{verdict.acked:,}", "", "")
    made.add_row("high watermark", _count(verdict.high_watermark), "", "")
    counts = {"lost": verdict.lost, "duplicated": verdict.duplicated, "reordered": verdict.reordered}
    for name, count in counts.items():
        check = checks.get(name)
        if check is None:
            made.add_row(name, _count(count), "", "not checked")
        else:
            told = check.result if fit else "unknown"
            result = Text(f"{RESULTS[told][0]} {told if fit else 'no evidence'}", style=_STYLES[told])
            made.add_row(name, "?" if check.found is None else _count(count), check.expected, result)
    for check in expected_besides(verdict) if fit else []:
        result = Text(f"{RESULTS[check.result][0]} {check.result}", style=_STYLES[check.result])
        made.add_row(plain(check.name), _count(check.found), check.expected, result)
    return made


def _moves(verdict: Verdict) -> Table:
    """Show the leader and the in-sync replicas of the first partitions, at each moment that changed something."""
    rows: dict[str, dict[str, str]] = {}
    for move in verdict.moves:
        in_sync = " ".join(str(broker) for broker in sorted(move.isr or ()))
        leader = "none" if move.leader in (None, -1) else str(move.leader)
        rows.setdefault(f"{move.topic}/{move.partition}", {})[move.moment] = f"{leader} [{in_sync}]"
    every = list(dict.fromkeys(move.moment for move in sorted(verdict.moves, key=lambda move: move.place)))
    looks = {moment: [cells.get(moment) for cells in rows.values()] for moment in every}
    moments = [
        moment
        for before, moment in zip([None, *every], every, strict=False)
        if moment == every[-1] or before is None or looks[moment] != looks[before]
    ]
    if len(moments) > MOMENTS_SHOWN:
        moments = [*moments[: MOMENTS_SHOWN - 1], moments[-1]]
    made = table("leader [in sync]", *moments)
    for name, cells in list(rows.items())[:PARTITIONS_SHOWN]:
        made.add_row(plain(name), *(plain(cells.get(moment, "?")) for moment in moments))
    if len(rows) > PARTITIONS_SHOWN:
        made.add_row(f"… {len(rows) - PARTITIONS_SHOWN} more", *("" for _ in moments))
    return made


def _runbook(verdict: Verdict) -> Table:
    made = table("at", "took", "runbook", "", right=("at", "took"))
    for step in verdict.runbook:
        took = "" if step.took_s is None else f"{step.took_s:.1f} s"
        made.add_row(f"{step.at_s:.1f} s", took, plain(step.step), "done" if step.done else "not done")
    return made


def _measure(measure: Measured) -> Table:
    right = [heading for heading, number in zip(measure.headings, measure.numbers, strict=True) if number]
    made = table(*measure.headings, right=right)
    for row in measure.rows:
        made.add_row(*map(plain, row))
    return made


def _count(found: int | None) -> str:
    return "?" if found is None else f"{found:,}"


def _told(check: CheckResult) -> str:
    silent = "nothing to look at" if check.result == "confirmed" else "no answer"
    found = silent if check.found is None else f"{check.found:,} found"
    sign = RESULTS[check.result][0]
    return f"{sign} {plain(check.name)}: {found}, {check.expected}: {plain(check.broke or check.text)}"
