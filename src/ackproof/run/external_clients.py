"""Foreign clients as a run sees them: whether their programs are here, what their commands become, and the host."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Any

from ackproof.clients.external.event_log import ExternalClientConfig
from ackproof.core.errors import CannotHere
from ackproof.kafka.tools import invocation as tools
from ackproof.lab.directory import LabDirectory
from ackproof.lab.kafka_tools import java_command
from ackproof.model.external_clients import KAFKA_TOOL, PLACEHOLDER
from ackproof.model.run_record import ConsumerRecord, ProducerRecord, RunRecord
from ackproof.model.scenario import ConsumerPlan, ProducerPlan, Scenario

MARK = "ACKPROOF_CLIENT"
ACKS = {"0": "0", "1": "1", "all": "-1"}  # as every client understands it


def require_programs(scenario: Scenario) -> None:
    """Before anything is started: every program that the scenario's commands begin with, or that it says it needs."""
    commands = [plan.command for plan in scenario.clients if plan.command]
    firsts = [filled(command, {"examples": examples()})[0] for command in commands]
    for program in (*scenario.needs, *(first for first in firsts if not first.startswith(KAFKA_TOOL))):
        if shutil.which(program) is None:
            raise CannotHere(
                f"{scenario.name} needs the program {program}, and there is none here: install it, "
                "so that it is found on your PATH, and run the scenario again"
            )


def filled(command: list[str], values: Mapping[str, Any]) -> list[str]:
    """The command with its placeholders filled in; braces around anything else are the command's own."""
    return [PLACEHOLDER.sub(lambda match: str(values.get(match[1], match[0])), word) for word in command]


def examples() -> str:
    return str(resources.files("ackproof.clients.external") / "examples")


class Foreign:
    """What a foreign client's listener is told."""

    def __init__(self, scenario: Scenario, record: RunRecord, directory: Path, lab: str) -> None:
        self._brokers = scenario.cluster.brokers
        self._record = record
        self._directory = directory
        self._lab = lab
        self.producers = [number for number, plan in enumerate(scenario.each_producer) if plan.command]

    def producer(self, plan: ProducerPlan, client: ProducerRecord, bootstrap: str) -> ExternalClientConfig:
        rate = -1 if plan.rate is None else int(plan.rate) if plan.rate.is_integer() else plan.rate
        words = {"count": plan.count, "rate": rate, "acks": ACKS[plan.acks], "producer": client.id + 1}
        own = {"kind": "producer", "count": plan.count, "go": str(self._directory / "clients" / "go")}
        return self._config(plan, client, 1, self._command(plan, client.name, bootstrap, words), own)

    def consumer(self, plan: ConsumerPlan, client: ConsumerRecord, bootstrap: str, life: int) -> ExternalClientConfig:
        words = {"group": plan.group, "start": plan.start, "consumer": client.id + 1}
        over = str(self._directory / "clients" / "over")
        own = {"kind": "consumer", "group_id": client.group, "life": life, "over": over}
        return self._config(plan, client, life, self._command(plan, client.name, bootstrap, words), own)

    def _config(
        self,
        plan: ProducerPlan | ConsumerPlan,
        client: ProducerRecord | ConsumerRecord,
        life: int,
        command: list[str],
        own: dict[str, Any],
    ) -> ExternalClientConfig:
        return ExternalClientConfig(
            run=self._record.run,
            directory=str(self._directory),
            id=client.id,
            name=client.name,
            journal=client.name if life == 1 else f"{client.name}-{life}",
            topic=plan.topic,
            topic_id=client.topic,
            command=command,
            folder=str(Path.cwd()),
            progress=str(self._directory / "clients" / f"{client.name}.progress"),
            external=self.producers,
            parent=os.getpid() if plan.where == "host" else None,
            **own,
        )

    def _command(
        self, plan: ProducerPlan | ConsumerPlan, name: str, bootstrap: str, words: dict[str, Any]
    ) -> list[str]:
        started = LabDirectory.of(self._lab).started()
        if plan.where == "host":
            ports = [started.exposed[f"kafka{number}"] for number in range(1, self._brokers + 1)]
            bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports)
        given = {"bootstrap": bootstrap, "topic": plan.topic, "examples": examples(), **words}
        first, *rest = filled(plan.command, given)
        if not first.startswith(KAFKA_TOOL):
            return [first, *rest]
        tool = tools.plan(first, rest, Path(started.jars), bootstrap)
        if isinstance(tool, tools.Verb):
            raise CannotHere(f"{first} is a server's, and no client")
        folder = self._directory / "clients" / f"{name}.tool"
        folder.mkdir(exist_ok=True)
        return java_command(started, tool, folder)


class HostProcesses:
    """Listeners of clients that run on the host: children of the run, and gone with it.

    A listener ends all that its client started. One that is killed cannot: so each has a mark in its environment, which
    whatever it leaves behind has too."""

    def __init__(self) -> None:
        self._marks: dict[str, str] = {}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._asked: set[str] = set()
        self._told: set[str] = set()

    def spawn(self, name: str, argv: Sequence[str], output: Path) -> None:
        self._marks[name] = f"{MARK}={os.getpid()}-{time.monotonic_ns()}"
        with output.open("ab") as log:
            self._running[name] = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, MARK: self._marks[name].partition("=")[2]},
                start_new_session=True,  # Ctrl-C is ours to hear; we end them
            )

    def __contains__(self, name: str) -> bool:
        return name in self._running

    def exits(self) -> dict[str, list[int | None]]:
        """How each that has ended did: exit code, signal."""
        codes = {name: process.poll() for name, process in self._running.items()}
        for name, code in codes.items():
            if code is not None and code < 0:
                self._end_what_is_left(name)
        return {name: [code, None] if code >= 0 else [None, -code] for name, code in codes.items() if code is not None}

    def newly_ended(self) -> Iterator[dict[str, Any]]:
        """Those that the journal does not know of yet."""
        for name, (code, number) in self.exits().items():
            if name not in self._told:
                self._told.add(name)
                yield {"node": name, "code": code, "signal": number, "by_itself": name not in self._asked}

    def signal(self, name: str, number: str) -> None:
        self._asked.add(name)
        self._running[name].send_signal(signal.Signals[number])
        if number == "SIGKILL":
            self._running[name].wait()
            self._end_what_is_left(name)

    def _end_what_is_left(self, name: str) -> None:
        for environment in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if self._marks[name].encode() in environment.read_bytes().split(b"\0"):
                    os.kill(int(environment.parent.name), signal.SIGKILL)
