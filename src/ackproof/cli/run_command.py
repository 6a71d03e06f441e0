"""`run` and `judge` for a terminal: carry out each run, print its verdict, and collect the results of the command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ackproof.api import judge
from ackproof.api.run import RunResult, carry_out, prepare, report_result
from ackproof.api.run_request import RunRequest
from ackproof.cli.ui.console import Steps, console, say, say_json, say_problem
from ackproof.cli.ui.run_view import RunView
from ackproof.core.errors import BUG_EXIT_CODE, CannotHere, Problem
from ackproof.host.outputs import verdict_stands
from ackproof.model.verdict import EXIT_CODES, Verdict


@dataclass
class CommandResults:
    """The results of all runs of one command: the JSON document, the JUnit file, and the exit code."""

    as_json: bool
    junit: Path | None = None
    runs: list[RunResult] = field(default_factory=list)
    executes: dict[str, Sequence[str]] = field(default_factory=dict)  # by scenarios that are not bundled
    junit_failed: bool = False  # a script would take an older file for this command's

    def write_junit(self) -> None:
        """Write the JUnit file. This is done after each run, so that the file is always valid."""
        from ackproof.report import write_junit

        if self.junit is None:
            return
        try:
            write_junit([each.verdict_or_unknown() for each in self.runs], self.junit)
            self.junit_failed = False
        except OSError as problem:
            self.junit_failed = True
            say_problem(CannotHere(f"{self.junit} could not be written ({problem.strerror})"))

    def print_json(self) -> None:
        if self.as_json:
            from ackproof.report import run_json

            executes = {"executes": self.executes} if self.executes else {}
            say_json({"runs": [run_json(each.verdict_or_unknown(), each.report) for each in self.runs], **executes})

    def exit_code(self) -> int:
        """Return the exit code of the worst run."""
        codes = {each.exit_code for each in self.runs} | ({CannotHere.exit_code} if self.junit_failed else set())
        return next((code for code in (BUG_EXIT_CODE, 1, 4, 3) if code in codes), max(codes, default=0))


class _RunOnScreen(RunView):
    """Shows one run, and adds its result to those of the command."""

    def __init__(self, request: RunRequest, results: CommandResults) -> None:
        super().__init__(request.scenario, results.as_json)
        self._results = results
        self.result: RunResult | None = None

    def began(self, request: RunRequest, result: RunResult) -> None:
        self.result = result
        self._results.runs.append(result)
        super().began(request, result)

    def judged(self, verdict: Verdict) -> None:
        verdict_stands()
        self.close()
        if not self._results.as_json:
            print_verdict(verdict)


def run_one(request: RunRequest, results: CommandResults) -> None:
    """Carry out one run. A problem becomes its exit code once it has a directory; only an interrupt ends the others."""
    with Steps("looking for Java and Kafka").running() as steps:
        found = prepare(request, steps.so_far)
    view = _RunOnScreen(request, results)
    try:
        carry_out(request, found, view)
    except Problem as problem:
        view.close()
        if view.result is None:
            raise
        say_problem(problem)
    finally:
        view.close()
        if view.result is not None and not results.as_json:
            _print_places(view.result)


def print_verdict(verdict: Verdict) -> None:
    from ackproof.cli.ui.verdict_view import terminal_summary

    screen = console()
    for part in terminal_summary(verdict):
        screen.print(part)


def _print_places(result: RunResult) -> None:
    say(f"run: {result.directory}", *([f"report: {result.report}"] if result.report else []))
    if result.verdict is None and (result.directory / "journal" / "sends").is_dir():
        say(f"not judged: ackproof judge {result.directory}")


def judge_runs(directories: Sequence[Path], master: str, as_json: bool, live_log: judge.LiveLog | None = None) -> int:
    """Judge runs, write their reports, and return the exit code."""
    if live_log is not None:
        with Steps("connector").running() as steps:
            judge.fetch_connector(steps.so_far)
    with Steps("judging").running() as steps:
        verdicts = judge.judge_runs(directories, master, live_log, steps, steps.so_far)
        verdict_stands()
    results = CommandResults(as_json)
    for directory, verdict in zip(directories, verdicts, strict=True):
        result = RunResult(directory, EXIT_CODES[verdict.result], verdict)
        if problem := report_result(result):
            earlier = "; report.html is an earlier one" if (directory / "report.html").exists() else ""
            say_problem(CannotHere(f"the report could not be written: {problem}{earlier}"))
        results.runs.append(result)
        if not as_json:
            print_verdict(verdict)
            say(*([f"report: {result.report}"] if result.report else []))
    results.print_json()
    return results.exit_code()
