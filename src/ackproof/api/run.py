"""Carry out one run: start its lab, send the load, inject the faults, end the lab, judge the run, write its report.

Nothing is printed. `carry_out` tells a `RunListener` what happens; the command line shows it, and `run` logs it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from ackproof.api.run_directory import make_run_directory, new_record
from ackproof.api.run_request import Mode, RunRequest, request_run
from ackproof.core.errors import Ended, Problem
from ackproof.host.java import find_java
from ackproof.judge.worker import Judging
from ackproof.kafka.distribution import jars
from ackproof.lab import client, ingredients, launch
from ackproof.lab.directory import name_of_run, remove_dead_runs
from ackproof.model.run_record import Clock, RunRecord, read_record, write_record
from ackproof.model.verdict import EXIT_CODES, Fitness, Verdict, not_judged
from ackproof.run import execution as running
from ackproof.run.external_clients import require_programs
from ackproof.scenario.executes import OPEN_TO_ALL

SoFar = Callable[[int, int | None, str], None]
Tell = Callable[[str], None]


@dataclass
class RunResult:
    """What one run has produced so far."""

    directory: Path
    exit_code: int
    verdict: Verdict | None = None
    report: Path | None = None

    def verdict_or_unknown(self) -> Verdict:
        """The verdict for a program that reads results: a run without a verdict is unknown, and never left out."""
        if self.verdict is not None:
            return self.verdict
        record = read_record(self.directory)
        why = record.problems[-1] if record.problems else f"the run was {record.ended or 'cut short'}"
        return not_judged(record, Fitness("judged", False, f"Not judged: {why}."))


class RunListener(Protocol):
    """Hears what happens while a run goes on. `counts` is called many times a second, so it must return at once."""

    def began(self, request: RunRequest, result: RunResult) -> None:
        """The run has a directory; `result` fills up while the run goes on."""

    def tell(self, said: str) -> None:
        """Something happened, in a sentence."""

    def follow(self, run: running.RunExecution) -> None:
        """The lab serves, and the load is about to begin."""

    def counts(self, now: dict[str, int]) -> None:
        """How many messages were sent and acknowledged, failed, or have an unknown outcome."""

    def so_far(self, done: int, total: int | None, what: str) -> None:
        """How far the judge is."""

    def judged(self, verdict: Verdict) -> None:
        """There is a verdict; the report is about to be written."""


class _Log:
    """Writes what happens to the logger `ackproof`."""

    def tell(self, said: str) -> None:
        logging.getLogger("ackproof").info("%s", said)

    def began(self, request: RunRequest, result: RunResult) -> None:
        self.tell(f"the run directory is {result.directory}")

    def follow(self, run: running.RunExecution) -> None:
        pass

    def counts(self, now: dict[str, int]) -> None:
        pass

    def so_far(self, done: int, total: int | None, what: str) -> None:
        pass

    def judged(self, verdict: Verdict) -> None:
        self.tell(verdict.sentence)


def run(
    scenario: str | Path,
    *,
    mode: Mode = "zookeeper",
    shape: str = "base",
    settings: Sequence[str] = (),
    seed: int | None = None,
    out: str | Path = "runs",
    kafka: str | None = None,
) -> Verdict:
    """Run a scenario in a lab of its own, judge the run, write its report, and return the verdict.

    It does what `ackproof run` does, and writes the same run directory: `out` / `verdict.run`. A refuted or unknown
    result is returned, too; a run that could not be carried out raises a `Problem`.
    """
    request = request_run(
        str(scenario), mode=mode, shape=shape, settings=settings, seed=seed, out=Path(out), kafka=kafka
    )
    require_programs(request.scenario)
    log = _Log()
    return carry_out(request, prepare(request, log.so_far), log).verdict_or_unknown()


def prepare(request: RunRequest, so_far: SoFar) -> launch.Ingredients:
    """Find or fetch everything that the run needs, and raise CannotHere if something is missing. Nothing is started."""
    clients = sum(client.copies for client in request.scenario.clients)
    found = ingredients.gather(request.lab("run"), so_far, clients)
    if request.scenario.health is not None:
        jars.ensure_connector(find_java(), so_far)
    return found


def carry_out(request: RunRequest, found: launch.Ingredients, listener: RunListener) -> RunResult:
    """Run, judge and report. A problem is raised after the run directory says what happened."""
    remove_dead_runs()
    directory = make_run_directory(request)
    spec = msgspec.structs.replace(request.lab("run"), name=name_of_run(directory.name[:15]))
    record = new_record(request, spec, directory)
    write_record(directory, record)
    result = RunResult(directory, 3)
    listener.began(request, result)
    judging: list[Judging] = []
    try:
        with ExitStack() as afterwards:
            if request.judge_starts_early and request.large:
                judging.append(_early_judge(request))
            with _recording_failure(directory, record):
                launched = launch.launch(spec, found, listener.tell, logs=(directory / "logs").resolve())
            if spec.expose:
                listener.tell(f"each broker has a port on 127.0.0.1: {OPEN_TO_ALL}")
            with _down_afterwards(launched, request.keep, listener.tell, afterwards):
                ongoing = running.RunExecution(request.scenario, record, directory.resolve(), spec.name, listener.tell)
                _run_load(request, ongoing, listener, judging)
            doubts = ongoing.doubts()
            result.exit_code = 3 if doubts else 0
            if request.judged:
                _judge(result, judging, listener)
            elif doubts:
                listener.tell(f"unfit: {', '.join(doubts)}")
    except (KeyboardInterrupt, Ended):
        if result.verdict is None:
            listener.tell("interrupted: not judged")
            _report_what_is_there(result)
        elif result.report is None:
            listener.tell(f"interrupted: judged, but not reported: ackproof report {directory}")
        raise
    except Problem as problem:
        result.exit_code = problem.exit_code
        _report_what_is_there(result)
        raise
    finally:
        for each in judging:
            each.close()
    return result


def _early_judge(request: RunRequest) -> Judging:
    return Judging(early=True, large=request.large, consumers=bool(request.scenario.consumers))


@contextmanager
def _recording_failure(directory: Path, record: RunRecord) -> Iterator[None]:
    """Write into the record why the lab did not start: nothing else of the run will."""

    def note(ended: Literal["interrupted", "failed"], why: str) -> None:
        clock = Clock(time.time_ns(), time.monotonic_ns())
        with suppress(OSError):
            write_record(directory, msgspec.structs.replace(record, ended=ended, problems=[why], ended_at=clock))

    try:
        yield
    except (KeyboardInterrupt, Ended):
        note("interrupted", "interrupted by the user")
        raise
    except Problem as problem:
        note("failed", " ".join([problem.message, *problem.details[-1:]]))  # the last line of the node's log
        raise


@contextmanager
def _down_afterwards(launched: launch.Launched, keep: bool, tell: Tell, afterwards: ExitStack) -> Iterator[None]:
    """End the lab whatever happens, unless the user wants to keep it. The judge does not wait until the lab is down."""
    name = launched.directory.name
    try:
        yield
    finally:
        if keep:
            launched.detach()
            tell(f"the lab stays up: `ackproof status --name {name}`, `ackproof down --name {name}`")
        else:
            afterwards.callback(launched.close)
            down = afterwards.enter_context(ThreadPoolExecutor(1)).submit(client.down, name)
            afterwards.callback(_tell_if_unclean, down, tell)


def _tell_if_unclean(down: Future[None], tell: Tell) -> None:
    """Tell that the lab could not be cleaned up. The verdict stands all the same."""
    try:
        down.result()
    except Exception as problem:  # noqa: BLE001  # no failure of the clean-up may cost the verdict
        tell(f"unclean: {problem}")


def _run_load(
    request: RunRequest, ongoing: running.RunExecution, listener: RunListener, judging: list[Judging]
) -> None:
    def start_judge() -> None:
        if request.judge_starts_early and not judging:
            judging.append(_early_judge(request))

    listener.follow(ongoing)
    ongoing.mark(ready_ns=time.monotonic_ns())
    if judging:
        listener.tell("the judge warms up first, because a load as large as this leaves it no processor time")
        judging[0].wait_until_rehearsed()
    running.carry_out(ongoing, listener.counts, start_judge)


def _judge(result: RunResult, judging: list[Judging], listener: RunListener) -> None:
    if not judging:
        judging.append(Judging())
    (result.verdict,) = judging[0].judge([result.directory], listener.tell, listener.so_far)
    result.exit_code = EXIT_CODES[result.verdict.result]
    listener.judged(result.verdict)
    with suppress(OSError):  # a full disk costs this time, and not the verdict
        _mark_verdict(result.directory)
    if problem := report_result(result):
        listener.tell(f"the report could not be written: {problem}")


def _mark_verdict(directory: Path) -> None:
    record = read_record(directory)
    marks = msgspec.structs.replace(record.marks, verdict_ns=time.monotonic_ns())
    write_record(directory, msgspec.structs.replace(record, marks=marks))


def report_result(result: RunResult) -> Exception | None:
    """Write the report of a judged run. Return the problem if that fails: the verdict stands all the same."""
    from ackproof.report import write_report

    try:
        result.report = write_report(result.directory)
    except Exception as problem:  # noqa: BLE001  # no failure of the report may cost the verdict
        return problem
    return None


def _report_what_is_there(result: RunResult) -> None:
    """Write a report that says "not judged". A failure here must not hide why the run ended."""
    from ackproof.report import write_report

    with suppress(Exception):
        result.report = write_report(result.directory)
