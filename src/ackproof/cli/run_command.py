"""From a scenario to a printed verdict: names the run, starts its lab, carries it out, has it judged and reported."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

from ackproof.cli.ui.console import Steps, console, say, say_json, say_problem
from ackproof.cli.ui.run_view import Live
from ackproof.core.errors import BUG_EXIT_CODE, CannotHere, Ended, Problem
from ackproof.core.text import plain
from ackproof.host import outputs
from ackproof.host.java import find_java
from ackproof.judge.worker import Judging
from ackproof.kafka.distribution import jars
from ackproof.kafka.distribution.jars import DEFAULT_KRAFT, DEFAULT_ZOOKEEPER
from ackproof.lab import client as control
from ackproof.lab import launch
from ackproof.lab.directory import name_of_run, take_away_dead_runs
from ackproof.lab.spec import LabSpec, Setting, check
from ackproof.model.run_record import (
    Clock,
    ConsumerRecord,
    FaultRecord,
    ProducerRecord,
    RunRecord,
    read_record,
    write_record,
)
from ackproof.model.scenario import Scenario
from ackproof.model.verdict import EXIT_CODES, Fitness, Verdict, not_judged
from ackproof.run import execution as running
from ackproof.scenario.executes import OPEN_TO_ALL

LARGE_LOAD = 500_000  # messages


@dataclass(frozen=True)
class Asked:
    """One run as asked for."""

    given: str  # the scenario's name, or its file
    scenario: Scenario
    mode: Literal["zookeeper", "kraft"]
    shape: str
    seed: int
    out: Path
    keep: bool
    judged: bool
    kafka: str | None
    settings: list[str]

    @property
    def version(self) -> str:
        return self.kafka or (DEFAULT_ZOOKEEPER if self.mode == "zookeeper" else DEFAULT_KRAFT)

    def lab(self, name: str) -> LabSpec:
        cluster = self.scenario.cluster
        settings = [
            Setting(scope, key, str(value).lower() if isinstance(value, bool) else str(value))
            for scope, key, value in self.scenario.settings(self.mode)
        ]
        return check(
            LabSpec(
                kafka=self.version,
                name=name,
                mode=self.mode,
                brokers=cluster.brokers,
                quorum=cluster.quorum,
                racks=tuple(cluster.racks),
                log_dirs=cluster.log_dirs,
                settings=tuple(settings),
                users=tuple(cluster.access.users) if cluster.access else (),
                clients=self.scenario.client_hosts,
                expose=any(client.where == "host" for client in self.scenario.clients),
                second=cluster.second,
                mirror=cluster.mirror,
            )
        )

    @property
    def large(self) -> bool:
        return self.scenario.total >= LARGE_LOAD

    @property
    def early(self) -> bool:
        """Whether the judge starts with the load. A health check has a Spark of its own: two are too many."""
        return self.judged and self.scenario.health is None

    def judging(self) -> Judging:
        return Judging(early=True, large=self.large, consumers=bool(self.scenario.consumers))

    def again(self) -> list[str]:
        """The command that runs it again."""
        words = [
            "ackproof",
            "run",
            self.given,
            "--mode",
            self.mode,
            "--shape",
            self.shape,
            "--seed",
            str(self.seed),
        ]
        words += ["--kafka", self.kafka] if self.kafka else []
        return words + [word for setting in self.settings for word in ("--set", setting)]


@dataclass
class Done:
    """What one run came to."""

    directory: Path
    exit_code: int
    verdict: Verdict | None = None
    report: Path | None = None

    def told(self) -> Verdict:
        """For whoever reads results by program: a run without a verdict is unknown, never left out."""
        if self.verdict is not None:
            return self.verdict
        record = read_record(self.directory)
        why = record.problems[-1] if record.problems else f"the run was {record.ended or 'cut short'}"
        return not_judged(record, Fitness("judged", False, f"Not judged: {why}."))


def run_one(asked: Asked, outcome: Outcome) -> None:
    """A problem becomes this run's exit code, once it has a directory; only an interrupt ends the others too."""
    from ackproof.cli.lab import gather

    quiet = outcome.as_json
    spec = asked.lab("run")
    with Steps("looking for Java and Kafka").running() as steps:
        ingredients = gather(
            spec, steps, sum(client.copies for client in asked.scenario.clients)
        )  # complains before anything is made
        if asked.scenario.health is not None:
            jars.ensure_connector(find_java(), steps.so_far)
    take_away_dead_runs()
    directory = _new_directory(asked)
    live = Live(asked.scenario, quiet)
    live.title(f"{asked.scenario.name} ({asked.mode}, {asked.shape}): {asked.scenario.title}")
    spec = msgspec.structs.replace(spec, name=name_of_run(directory.name[:15]))
    record = _record(asked, spec, directory)
    write_record(directory, record)
    done = Done(directory, 3)
    outcome.runs.append(done)
    judging: list[Judging] = []
    try:
        with ExitStack() as afterwards:
            if asked.early and asked.large:
                judging.append(asked.judging())
            with _noted_if_it_fails(directory, record):
                launched = launch.launch(spec, ingredients, live.tell, logs=(directory / "logs").resolve())
            if spec.expose:
                live.tell(f"each broker has a port on 127.0.0.1: {OPEN_TO_ALL}")
            with _tied(launched, asked.keep, live.tell, afterwards):
                ongoing = running.Ongoing(asked.scenario, record, directory.resolve(), spec.name, live.tell)
                _lab_part(asked, ongoing, live, judging)
            doubts = ongoing.doubts()
            done.exit_code = 3 if doubts else 0
            if doubts and not asked.judged:
                live.tell(f"unfit: {', '.join(doubts)}")
            if asked.judged:
                verdict = _judge_part(done, judging, live)
                live.close()
                if not quiet:
                    _print(verdict)
                with suppress(OSError):  # a disk that is full takes nothing from the verdict
                    _mark_verdict(directory)
                _report_part(done, live)
    except (KeyboardInterrupt, Ended):
        if done.verdict is None:
            live.tell("interrupted: not judged")
            _partial_report(done)
        elif done.report is None:
            live.tell(f"interrupted: judged, but not reported: ackproof report {directory}")
        if not quiet:
            _tell_where(done, asked)
        raise
    except Problem as problem:
        live.close()
        say_problem(problem)
        done.exit_code = problem.exit_code
        _partial_report(done)
    finally:
        live.close()
        for each in judging:
            each.close()
    if not quiet:
        _tell_where(done, asked)


@contextmanager
def _noted_if_it_fails(directory: Path, record: RunRecord) -> Iterator[None]:
    """A lab that does not come up ends the run before anybody else writes its record."""

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
        note("failed", " ".join([problem.message, *problem.details[-1:]]))  # how its log ends
        raise


def _mark_verdict(directory: Path) -> None:
    record = read_record(directory)
    marks = msgspec.structs.replace(record.marks, verdict_ns=time.monotonic_ns())
    write_record(directory, msgspec.structs.replace(record, marks=marks))


@contextmanager
def _tied(launched: launch.Launched, keep: bool, tell: Callable[[str], None], afterwards: ExitStack) -> Iterator[None]:
    """Whatever becomes of the lab's part, the lab stays only if that is wanted. The judge need not wait for it to go
    down: that is for afterwards."""
    name = launched.directory.name
    try:
        yield
    finally:
        if keep:
            launched.detach()
            tell(f"the lab stays up: `ackproof status --name {name}`, `ackproof down --name {name}`")
        else:
            down = afterwards.enter_context(ThreadPoolExecutor(1)).submit(control.down, name)
            afterwards.callback(_tell_if_unclean, down, tell)


def _lab_part(asked: Asked, ongoing: running.Ongoing, live: Live, judging: list[Judging]) -> None:
    def rehearse() -> None:
        if asked.early and not judging:
            judging.append(asked.judging())

    live.follow(ongoing)
    ongoing.mark(ready_ns=time.monotonic_ns())
    if judging:
        live.tell("the judge rehearses first, for a load as large as this leaves it no time")
        judging[0].wait_until_rehearsed()
    running.carry_out(ongoing, live.counts, rehearse)


def _tell_if_unclean(down: Future[None], tell: Callable[[str], None]) -> None:
    """A clean-up that fails takes nothing from the verdict."""
    try:
        down.result()
    except Exception as problem:  # noqa: BLE001  # whatever it dies of, the verdict stands
        tell(f"unclean: {problem}")


def _judge_part(done: Done, judging: list[Judging], live: Live) -> Verdict:
    if not judging:
        judging.append(Judging())
    (done.verdict,) = judging[0].judge([done.directory], live.tell, live.so_far)
    outputs.verdict_stands()
    done.exit_code = EXIT_CODES[done.verdict.result]
    return done.verdict


def _report_part(done: Done, live: Live) -> None:
    from ackproof.report import write_report

    try:
        done.report = write_report(done.directory)
    except Exception as problem:  # noqa: BLE001  whatever a report dies of, the verdict stands
        live.tell(f"the report could not be written: {problem}")


def _partial_report(done: Done) -> None:
    """A report that says "not judged"; a writer that fails must not hide what happened."""
    from ackproof.report import write_report

    with suppress(Exception):
        done.report = write_report(done.directory)


def _print(verdict: Verdict) -> None:
    from ackproof.cli.ui.verdict_view import terminal_summary

    screen = console()
    for part in terminal_summary(verdict):
        screen.print(part)


def _tell_where(done: Done, asked: Asked) -> None:
    lines = [f"run: {done.directory}"] + ([f"report: {done.report}"] if done.report else [])
    if done.verdict is None and (done.directory / "journal" / "sends").is_dir():
        lines.append(f"not judged: ackproof judge {done.directory}")
    for line in lines:
        print(plain(line), file=sys.stdout)


def _new_directory(asked: Asked) -> Path:
    """Time-ordered, and never one that is there already."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    name = f"{stamp}-{asked.scenario.name}-{asked.shape}-{asked.mode}"
    for suffix in ("", *(f"-{number}" for number in range(2, 1000))):
        directory = asked.out / (name + suffix)
        try:
            directory.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as problem:
            raise CannotHere(
                f"{directory} cannot be made ({problem.strerror}): use --out for another place"
            ) from problem
        (directory / "logs").mkdir()
        return directory
    raise CannotHere(f"{asked.out} already holds a thousand runs of this second")


def _record(asked: Asked, spec: LabSpec, directory: Path) -> RunRecord:
    scenario = asked.scenario
    topics = [*(topic.name for topic in scenario.topics), *scenario.mirrors]
    groups = sorted({consumer.group for consumer in scenario.consumers})
    return RunRecord(
        run=time.time_ns() // 1000,
        name=directory.name,
        scenario=scenario.name,
        section=scenario.section,
        title=scenario.title,
        shape=asked.shape,
        mode=asked.mode,
        kafka=asked.version,
        seed=asked.seed,
        argv=asked.again(),
        versions=running.versions(asked.version),
        expect=scenario.expected(asked.mode),
        topics=topics,
        groups=groups,
        producers=[
            ProducerRecord(number, f"producer{number + 1}", topics.index(plan.topic), plan.acks, plan.count, plan.rate,
                           dict(plan.settings))
            for number, plan in enumerate(scenario.each_producer)
        ],
        consumers=[
            ConsumerRecord(number, f"consumer{number + 1}", topics.index(plan.topic), groups.index(plan.group),
                           dict(plan.settings), plan.start)
            for number, plan in enumerate(scenario.each_consumer)
        ],
        faults=[
            FaultRecord(number, plan.kind, plan.asked, plan.apart_from, plan.when(), plan.heals(), plan.step)
            for number, plan in enumerate(scenario.faults, start=1)
        ],
        nodes={node.kafka_id: node.name for node in spec.nodes if node.role in ("broker", "controller")},
        began=Clock(time.time_ns(), time.monotonic_ns()),
        plan=msgspec.to_builtins(scenario),
        mirrors={topics.index(made): topics.index(source) for made, source in scenario.mirrors.items()},
    )  # fmt: skip


# -- several runs ----------------------------------------------------------------------------------------------------


@dataclass
class Outcome:
    """All runs of one command: the JSON document, the JUnit file, and the exit code of the worst."""

    as_json: bool
    junit: Path | None
    runs: list[Done] = field(default_factory=list)
    executes: dict[str, list[str]] = field(default_factory=dict)  # by scenarios that are not bundled
    untold: bool = False  # the JUnit file that was asked for could not be written

    def write_junit(self) -> None:
        """After each run, so that the file is valid whenever somebody looks."""
        from ackproof.report import write_junit

        if self.junit is None:
            return
        try:
            write_junit([each.told() for each in self.runs], self.junit)
            self.untold = False
        except OSError as problem:
            self.untold = True
            say_problem(CannotHere(f"{self.junit} could not be written ({problem.strerror})"))

    def tell(self) -> None:
        if self.as_json:
            from ackproof.report import run_json

            executes = {"executes": self.executes} if self.executes else {}
            say_json({"runs": [run_json(each.told(), each.report) for each in self.runs], **executes})

    def exit_code(self) -> int:
        codes = {each.exit_code for each in self.runs} | ({CannotHere.exit_code} if self.untold else set())
        return next((code for code in (BUG_EXIT_CODE, 1, 4, 3) if code in codes), max(codes, default=0))


def judge_runs(
    directories: list[Path], master: str, as_json: bool, kafka: tuple[str, dict[str, str]] | None = None
) -> None:
    import typer

    from ackproof.report import write_report

    if kafka is not None:
        with Steps("connector").running() as steps:
            jars.ensure_connector(find_java(), steps.so_far)
    judging = Judging(master, kafka=kafka)
    try:
        with Steps("judging").running() as steps:
            verdicts = judging.judge(directories, steps, steps.so_far)
            outputs.verdict_stands()
    finally:
        judging.close()
    outcome = Outcome(as_json, None)
    for directory, verdict in zip(directories, verdicts, strict=True):
        done = Done(directory, EXIT_CODES[verdict.result], verdict)
        try:
            done.report = write_report(directory)
        except Exception as problem:  # noqa: BLE001  whatever a report dies of, the verdict stands
            earlier = "; the page that stands there is an earlier one" if (directory / "report.html").exists() else ""
            say_problem(CannotHere(f"the report could not be written: {problem}{earlier}"))
        outcome.runs.append(done)
        if not as_json:
            _print(verdict)
            say(*([f"report: {done.report}"] if done.report else []))
    outcome.tell()
    raise typer.Exit(outcome.exit_code())
