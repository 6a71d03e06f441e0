"""Commands that run scenarios, judge runs and report them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ackproof.cli.options import Json
from ackproof.cli.ui.console import say, say_aside, say_json
from ackproof.core.errors import FULL, CannotHere, UsageProblem
from ackproof.host.outputs import words_stop_nothing
from ackproof.scenario.executes import what_it_executes
from ackproof.scenario.json_schema import json_schema
from ackproof.scenario.load import load
from ackproof.scenario.source import bundled, find

if TYPE_CHECKING:
    from ackproof.api.run_request import RunRequest
    from ackproof.lab.spec import LabSpec
    from ackproof.model.verdict import Witness

_MASTER = re.compile(r"local(\[.+\])?|(spark|sc|k8s)://.+|yarn")
_ADDRESS = re.compile(r".+:[0-9]{1,5}")

DIFFERENCES_SHOWN = 20

Shape = Annotated[str, typer.Option("--shape", help="A shape of the scenario: base, slow, crowd or another.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="Change a field: producer.acks=all, faults.0.at_messages=500.")
]
Scenarios = Annotated[
    list[str], typer.Argument(help="Names of scenarios, or files that end in .toml.", autocompletion=bundled)
]


def run(
    scenarios: Scenarios,
    mode: Annotated[
        Literal["zookeeper", "kraft"], typer.Option(help="What keeps the cluster's metadata.")
    ] = "zookeeper",
    shape: Shape = "base",
    settings: Settings = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed for what a scenario leaves to chance; kept with the run.")
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Run each scenario this many times.")] = 1,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan; start nothing.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the lab up afterwards.")] = False,
    out: Annotated[Path, typer.Option(help="The directory in which each run gets its own.")] = Path("runs"),
    kafka: Annotated[str | None, typer.Option(help="Kafka's version.")] = None,
    as_json: Json = False,
    junit: Annotated[Path | None, typer.Option(help="Also write a JUnit file. It is valid after each run.")] = None,
    no_judge: Annotated[
        bool,
        typer.Option(
            "--no-judge",
            help="Do not judge; `ackproof judge RUN` does it later. Exit code 3 if a fault did not hold.",
        ),
    ] = False,
) -> None:
    """Run scenarios, judge them, and write their reports.

    Examples:

      ackproof run acks1-leader-isolated

      ackproof run acks1-leader-isolated --mode kraft --shape slow

      ackproof run my-scenario.toml --set producer.acks=all --repeat 3 --junit results.xml
    """
    from ackproof.api.run_request import request_run
    from ackproof.run.external_clients import require_programs

    requests = [
        replace(
            request_run(name, mode=mode, shape=shape, settings=settings or [], seed=seed, out=out, kafka=kafka),
            keep=keep,
            judged=not no_judge,
        )
        for name in scenarios
        for _ in range(repeat)
    ]
    specs = [request.lab("run") for request in requests]  # complains about any of them before the first begins
    executes = {request.given: request.executes for request in requests if request.executes}
    if dry_run:
        _show_plans(requests, specs, executes, as_json)
        return
    if junit is not None:
        _check_place("--junit", junit)
    for request in requests:
        require_programs(request.scenario)
    raise typer.Exit(_run_all(requests, as_json, junit, executes))


def _show_plans(
    requests: list[RunRequest], specs: list[LabSpec], executes: dict[str, Sequence[str]], as_json: bool
) -> None:
    from ackproof.cli.ui.scenario_view import show_plan

    if as_json:
        plans = {"plans": [request.scenario for request in requests]}
        say_json({**plans, **({"executes": executes} if executes else {})})
        return
    for request, spec in zip(requests, specs, strict=True):
        show_plan(request.scenario, spec, request.shape)


def _run_all(requests: list[RunRequest], as_json: bool, junit: Path | None, executes: dict[str, Sequence[str]]) -> int:
    from ackproof.cli import run_command

    results = run_command.CommandResults(as_json, junit, executes=executes)
    words_stop_nothing()
    for name, sentences in executes.items():
        say_aside(f"{name} is a program; it executes, as you:", *(f"  {sentence}" for sentence in sentences))
    try:
        for request in requests:
            run_command.run_one(request, results)
            results.write_junit()
    except BaseException:
        results.write_junit()
        results.print_json()
        raise
    results.print_json()
    return results.exit_code()


def judge(
    runs: Annotated[list[Path], typer.Argument(help="Run directories.")],
    master: Annotated[
        str,
        typer.Option(
            help="A Spark master, spark://host:7077, or Spark Connect, sc://host:port; it must read the runs."
        ),
    ] = "local[*]",
    from_kafka: Annotated[
        str | None,
        typer.Option(metavar="BOOTSTRAP", help="Read the final log from this cluster instead of the run's copy."),
    ] = None,
    kafka_settings: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Client settings for that cluster, a properties file as for Kafka's tools."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Judge runs, again or for the first time; needs no Kafka.

    Examples: ackproof judge runs/20261115-100312-acks1-leader-isolated, or
    ackproof judge runs/20261115-100312-soak --from-kafka kafka.example:9093 --kafka-settings client.properties
    """
    from ackproof.cli import run_command

    if not _MASTER.fullmatch(master):
        raise UsageProblem(f"--master {master}: write it as spark://HOST:7077, sc://HOST:PORT or local[*]")
    if wrong := [each for each in (from_kafka or "a:1").split(",") if not _ADDRESS.fullmatch(each.strip())]:
        raise UsageProblem(f"--from-kafka {wrong[0]}: write it as HOST:PORT, several with commas between them")
    _check_runs(runs)
    if from_kafka is None and kafka_settings is not None:
        raise UsageProblem("--kafka-settings needs --from-kafka BOOTSTRAP")
    if from_kafka is not None and len(runs) > 1:
        raise UsageProblem("--from-kafka reads the log of one run: give one run directory")
    kafka = None if from_kafka is None else (from_kafka, _settings(kafka_settings) if kafka_settings else {})
    try:
        code = run_command.judge_runs(runs, master, as_json, kafka)
    except KeyboardInterrupt:
        from ackproof.judge.engine.kept import NAME

        if any(path for run in runs for path in (run / NAME).rglob("*.npz")):
            print(
                "ackproof: the judge kept what it has read so far; the same command goes on from there", file=sys.stderr
            )
        raise
    raise typer.Exit(code)


def _settings(path: Path) -> dict[str, str]:
    """Read a properties file as Kafka's own tools do. No message ever contains a value."""
    from ackproof.core.java_properties import read_properties
    from ackproof.core.safe_read import LARGEST

    made = {}
    try:
        for number, name, value in read_properties(path, LARGEST):
            if not name or value is None:
                raise UsageProblem(f"{path}, line {number}: write it as NAME=VALUE")
            made[name] = value
    except OSError as error:
        raise UsageProblem(f"{path} cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise UsageProblem(f"{path}, {error}") from None
    return made


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run directories.")],
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="The file for an index page of these runs, or a directory for index.html.")
    ] = None,
) -> None:
    """Write the report of a run, or an index page over several.

    Examples: ackproof report runs/20261115-100312-acks1-leader-isolated, or ackproof report runs/*
    """
    from ackproof.report import write_index, write_report

    if len(runs) > 1:  # runs/* also names the index of the last time
        runs = [path for path in runs if _is_directory(path)] or runs
    _check_runs(runs)
    index = out / "index.html" if out is not None and _is_directory(out) else out
    if index is not None:
        _check_place("--out", index)
    try:
        pages = [write_report(path) for path in runs]
        page = (
            pages[0] if len(pages) == 1 and index is None else write_index(runs, index or runs[0].parent / "index.html")
        )
    except OSError as problem:
        if problem.errno in FULL:  # the caller has a better message for a full disk
            raise
        raise CannotHere(f"the report cannot be written ({problem}): use another place, or a copy of the run") from None
    say(f"report: {page}")
    if open_page:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())


def _check_runs(runs: list[Path]) -> None:
    for path in runs:
        if not _is_directory(path):
            raise UsageProblem(f"{path} is no run directory")
        if not any(_is_there(path / each) for each in ("run.json", "journal")):
            raise UsageProblem(f"{path} is no run directory: it has neither run.json nor a journal")


def _check_place(option: str, path: Path) -> None:
    """Check the path of a file that is written at the end, so that a mistyped path is refused before anything
    starts."""
    if not os.access(path.parent, os.W_OK | os.X_OK) or not path.parent.is_dir():
        raise UsageProblem(f"{option} {path}: {path.parent} is no directory that can be written")
    try:
        is_directory = not path.name or path.is_dir()
        is_device = path.exists() and not path.is_file()  # also behind a link, such as /dev/stdout
    except OSError as error:
        raise UsageProblem(f"{option} {path}: no file can be written there ({error.strerror})") from None
    if is_directory:
        raise UsageProblem(f"{option} {path}: name a file, not a directory")
    if is_device:
        raise UsageProblem(f"{option} {path}: name a file, not a device, a pipe or a socket")


def _is_directory(path: Path) -> bool:
    return _is_there(path) and path.is_dir()


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:
        hint = "ask its owner for the right to read it, or for a copy"
        way_out = hint if isinstance(error, PermissionError) else "give a run directory"
        raise UsageProblem(f"{path} cannot be looked at ({error.strerror}): {way_out}") from None


SECTIONS = {
    "A": "What an acknowledgement is worth",
    "B": "Clustering and failure",
    "C": "Running it",
    "D": "Consumers and brokers, as taught",
    "E": "Replication",
    "S": "It lasts",
}


def list_(as_json: Json = False) -> None:
    """List the scenarios.

    Example: ackproof list
    """
    scenarios = [load(find(name)) for name in bundled()]
    told = [
        {
            "name": scenario.name,
            "section": scenario.section,
            "modes": scenario.modes,
            "summary": scenario.title,
            "expects": scenario.expect,
        }
        for scenario in scenarios
    ]
    if as_json:
        say_json(told)
        return
    width = max(len(scenario.name) for scenario in scenarios)
    headed = ""
    for scenario in sorted(scenarios, key=lambda one: one.section):
        if scenario.section != headed:
            headed = scenario.section
            say(f"{headed}. {SECTIONS.get(headed, '')}".rstrip())
        expects = ", ".join(f"{name} {expected}" for name, expected in scenario.expect.items())
        say(f"  {scenario.name:{width}}  {scenario.title}  [{expects}]")


def show(scenario: Annotated[str, typer.Argument(autocompletion=bundled)], shape: Shape = "base") -> None:
    """Show a scenario: what happens when, and what is expected.

    Example: ackproof show acks1-leader-isolated
    """
    from ackproof.cli.ui.scenario_view import show_scenario

    show_scenario(load(find(scenario), shape))


def check(files: Annotated[list[str], typer.Argument(help="Scenario files, or names.")]) -> None:
    """Check scenario files in full, every shape of them, without starting anything, and list what they would execute.

    Example: ackproof check my-scenario.toml
    """
    from ackproof.api.scenarios import load_source

    problems: list[str] = []
    for name in files:
        try:
            source = find(name)
            each = [load_source(source, shape) for shape in source.shapes]
        except UsageProblem as problem:
            problems += list(problem.details) or [problem.message]
        else:
            say(f"{name}: good ({', '.join(source.shapes)})")
            executed = dict.fromkeys(sentence for scenario in each for sentence in what_it_executes(scenario))
            say(*(["  it is a program; it executes, as you:"] if executed else []), *(f"    {one}" for one in executed))
    if problems:
        raise UsageProblem(f"{len(problems)} problem{'s' if len(problems) > 1 else ''} found:", problems)


def schema() -> None:
    """Print the JSON Schema of scenario files, for editors.

    Example: ackproof schema > scenario.schema.json
    """
    say_json(json_schema())


def diff(
    run_directory: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
    topic: Annotated[str, typer.Argument(help="A topic of the run.")],
    other: Annotated[str, typer.Argument(help="The topic to compare with, for example its mirror.")],
    as_json: Json = False,
) -> None:
    """Compare two topics of a run, partition by partition: records that one lacks, has more often, differently or
    elsewhere.

    Example: ackproof diff runs/20261115-193738-mirror-base-kraft orders dc2:dc1.orders
    """
    from ackproof.api.judge import compare_topics

    counts, found = compare_topics(run_directory, topic, other, None if as_json else DIFFERENCES_SHOWN)
    if as_json:
        say_json([{name: value for name, value in row.items() if name not in ("run", "topic")} for row in found])
    else:
        told = ", ".join(f"{count:,} {name}" for name, count in counts.items()) or "the same records in the same order"
        say(f"{topic} and {other}: {told}")
        say(*(_difference(row) for row in found))
        more = sum(counts.values()) - len(found)
        say(*([f"… {more:,} more"] if more else []))
    if found:
        raise typer.Exit(1)


def _difference(row: Witness) -> str:
    places = ["-" if row[name] is None else f"{row[name]:,}" for name in ("offset", "mirror_offset")]
    value = f"number {row['seq']:,} of producer {row['producer'] + 1}" if row["seq"] >= 0 else "records of others"
    return (
        f"  {row['difference']:12} partition {row['partition']}: {value}, at {places[0]} and {places[1]}, "
        f"{row['copies']} and {row['mirror_copies']} times"
    )


def register(app: typer.Typer) -> None:
    app.command()(run)
    app.command()(diff)
    app.command()(judge)
    app.command()(report)
    app.command("list")(list_)
    app.command()(show)
    app.command()(check)
    app.command()(schema)
