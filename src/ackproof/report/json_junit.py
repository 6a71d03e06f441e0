"""Output for scripts: the JSON document of a run, and JUnit for CI.

The JSON has exactly the documented fields, so that no script depends on others; the caller wraps the runs as `{"runs":
[...]}`. The JUnit file is rewritten whole after each scenario, so it is always valid: a refuted run is a failure, an
unknown one an error, never a pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from ackproof.core.text import plain
from ackproof.model.verdict import CheckResult, Verdict
from ackproof.report.phrases import is_fit
from ackproof.report.render import write_whole


def run_json(verdict: Verdict, report_path: Path | str | None) -> dict[str, Any]:
    """Return the JSON document of a run. The counts of a run that was not judged are null, and not 0."""
    counted = not any(line.name == "judged" and not line.fit for line in verdict.fitness)
    return {
        "run": verdict.run,
        "scenario": verdict.scenario,
        "mode": verdict.mode,
        "kafka": verdict.kafka,
        "result": verdict.result,
        "sentence": verdict.sentence,
        "sent": verdict.sent if counted else None,
        "acked": verdict.acked if counted else None,
        "failed": verdict.failed if counted else None,
        "unknown": verdict.unknown if counted else None,
        "high_watermark": verdict.high_watermark,
        "lost": verdict.lost,
        "duplicated": verdict.duplicated,
        "reordered": verdict.reordered,
        "fates": dict(verdict.fates),
        "checks": [
            {"name": check.name, "expected": check.expected, "found": check.found, "result": _told(verdict, check)}
            for check in verdict.checks
        ],
        "unavailable_ms": verdict.unavailable_ms,
        "faults": [
            {"kind": fault.kind, "targets": list(fault.targets), "proved": fault.proved} for fault in verdict.faults
        ],
        "report": None if report_path is None else str(report_path),
    }


def _told(verdict: Verdict, check: CheckResult) -> str:
    return check.result if is_fit(verdict) or check.result == "not applicable" else "unknown"


def write_junit(verdicts: Sequence[Verdict], path: Path) -> Path:
    results = [verdict.result for verdict in verdicts]
    counts = {
        "tests": str(len(results)),
        "failures": str(results.count("refuted")),
        "errors": str(results.count("unknown")),
        "skipped": "0",
    }
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(suites, "testsuite", {"name": "ackproof", **counts})
    for verdict in verdicts:
        _case(suite, verdict)
    ElementTree.indent(suites)
    return write_whole(path, ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True) + b"\n")


def _case(suite: ElementTree.Element, verdict: Verdict) -> None:
    name = _xml(f"{verdict.scenario} {verdict.shape} {verdict.mode} {verdict.run}")
    case = ElementTree.SubElement(suite, "testcase", {"classname": f"ackproof.{_xml(verdict.mode)}", "name": name})
    if verdict.result != "confirmed":
        kind = "failure" if verdict.result == "refuted" else "error"
        problem = ElementTree.SubElement(case, kind, {"type": verdict.result, "message": _xml(verdict.sentence)})
        problem.text = _xml("\n".join(_against(verdict)))
    told = ElementTree.SubElement(case, "system-out")
    numbers = ("sent", "acked", "failed", "unknown", "high_watermark", "lost", "duplicated", "reordered")
    told.text = "\n".join(f"{number.replace('_', ' ')}: {getattr(verdict, number)}" for number in numbers)


def _against(verdict: Verdict) -> list[str]:
    """Return why the run is not a pass: unfit lines, and checks that are refuted or unknown."""
    lines = [f"unfit: {entry.name}: {entry.text}" for entry in verdict.fitness if not entry.fit]
    return lines + [
        f"{check.name}: {check.expected}, {check.found if check.found is not None else 'no answer'}: "
        f"{check.broke or check.text}"
        for check in verdict.checks
        if check.result in ("refuted", "unknown")
    ]


def _xml(text: str) -> str:
    """Replace everything that cannot be printed: terminals may obey it, and XML cannot hold all of it."""
    return "\n".join(plain(line) for line in text.split("\n"))
