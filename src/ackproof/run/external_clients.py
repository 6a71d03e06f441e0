"""External clients of a run: whether their programs are installed, and what the scenario's commands become."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

import msgspec

from ackproof.clients.external.event_log import ExternalClientConfig
from ackproof.core.errors import CannotHere
from ackproof.kafka.tools import invocation as tools
from ackproof.lab.directory import LabDirectory
from ackproof.lab.kafka_tools import java_command
from ackproof.model.external_clients import KAFKA_TOOL, PLACEHOLDER
from ackproof.model.run_record import ConsumerRecord, ProducerRecord, RunRecord
from ackproof.model.scenario import ConsumerPlan, ProducerPlan, Scenario, Value
from ackproof.run.client_files import ClientFiles

ACKS = {"0": "0", "1": "1", "all": "-1"}  # as every client spells it


def require_programs(scenario: Scenario) -> None:
    """Raise CannotHere if a program is missing that the scenario's commands start, or that it says it needs."""
    commands = [plan.command for plan in scenario.clients if plan.command]
    firsts = [filled(command, {"examples": examples()})[0] for command in commands]
    for program in (*scenario.needs, *(first for first in firsts if not first.startswith(KAFKA_TOOL))):
        if shutil.which(program) is None:
            raise CannotHere(
                f"{scenario.name} needs the program {program}, and there is none here: install it, "
                "so that it is found on your PATH, and run the scenario again"
            )


def filled(command: list[str], values: Mapping[str, Value]) -> list[str]:
    """The command with its placeholders filled in. Other words in braces stay as they are."""
    return [PLACEHOLDER.sub(lambda match: str(values.get(match[1], match[0])), word) for word in command]


def examples() -> str:
    return str(resources.files("ackproof.clients.external") / "examples")


class ExternalClients:
    """The configurations of the listeners, which start external clients and read their output."""

    def __init__(self, scenario: Scenario, record: RunRecord, files: ClientFiles, lab: str) -> None:
        self._brokers = scenario.cluster.brokers
        self._record = record
        self._files = files
        self._lab = lab
        self.producers = [number for number, plan in enumerate(scenario.each_producer) if plan.command]

    def producer(self, plan: ProducerPlan, client: ProducerRecord, bootstrap: str) -> ExternalClientConfig:
        rate = -1 if plan.rate is None else int(plan.rate) if plan.rate.is_integer() else plan.rate
        words: dict[str, Value] = {
            "count": plan.count,
            "rate": rate,
            "acks": ACKS[plan.acks],
            "producer": client.id + 1,
        }
        config = self._config(plan, client, 1, self._command(plan, client.name, bootstrap, words))
        return msgspec.structs.replace(config, count=plan.count, go=str(self._files.go()))

    def consumer(self, plan: ConsumerPlan, client: ConsumerRecord, bootstrap: str, life: int) -> ExternalClientConfig:
        words: dict[str, Value] = {"group": plan.group, "start": plan.start, "consumer": client.id + 1}
        config = self._config(plan, client, life, self._command(plan, client.name, bootstrap, words))
        return msgspec.structs.replace(config, group_id=client.group, life=life, over=str(self._files.over))

    def _config(
        self,
        plan: ProducerPlan | ConsumerPlan,
        client: ProducerRecord | ConsumerRecord,
        life: int,
        command: list[str],
    ) -> ExternalClientConfig:
        return ExternalClientConfig(
            run=self._record.run,
            directory=str(self._files.directory),
            kind="producer" if isinstance(plan, ProducerPlan) else "consumer",
            id=client.id,
            name=client.name,
            journal=client.name if life == 1 else f"{client.name}-{life}",
            topic=plan.topic,
            topic_id=client.topic,
            command=command,
            folder=str(Path.cwd()),
            progress=str(self._files.progress(client.name)),
            external=self.producers,
            parent=os.getpid() if plan.where == "host" else None,
        )

    def _command(
        self, plan: ProducerPlan | ConsumerPlan, name: str, bootstrap: str, words: Mapping[str, Value]
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
            raise CannotHere(f"{first} starts a server, not a client")
        folder = self._files.folder / f"{name}.tool"
        folder.mkdir(exist_ok=True)
        return java_command(started, tool, folder)
