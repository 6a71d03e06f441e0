"""Run Kafka's own tools where clients run: `ackproof kafka TOOL ARGS`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ackproof.core.cluster_guard import refuse_arguments
from ackproof.kafka.tools import invocation as tools
from ackproof.lab import client as control
from ackproof.lab import node_config as config
from ackproof.lab import requests
from ackproof.lab.directory import LabDirectory, Started


def list_tools(name: str) -> list[str]:
    jars = Path(LabDirectory.of(name).started().jars) if LabDirectory.of(name).alive() else None
    if jars is None:
        control.call(name, "status")
        return []
    return [f"{tool.name:32} {tool.summary}" for tool in tools.tools(jars)]


def run_tool(name: str, node: str, tool: str, arguments: Sequence[str], say: Callable[..., None]) -> int:
    plan = planned(name, tool, arguments)
    if isinstance(plan, tools.Verb):  # the tool starts or stops a server: that is a command of the lab
        result = control.call(name, plan.verb, nodes=list(plan.nodes))
        say(*result["said"])
        return 0
    with command(name, plan) as argv:
        return control.execute(name, node, argv)


def planned(name: str, tool: str, arguments: Sequence[str]) -> tools.Plan | tools.Verb:
    where = requests.where(name)
    jars = Path(LabDirectory.of(name).started().jars)
    plan = tools.plan(tool, arguments, jars, where.bootstrap, zookeeper=where.zookeeper)
    if isinstance(plan, tools.Plan):
        refuse_arguments(plan.argv, {own for node in requests.nodes(name) for own in (node.name, node.address)})
    return plan


@contextmanager
def command(name: str, plan: tools.Plan) -> Iterator[list[str]]:
    """The command line of a tool. Its temporary files are removed afterwards, at the latest with the lab."""
    directory = LabDirectory.of(name)
    with tempfile.TemporaryDirectory(prefix="ackproof-tool-", dir=directory.path) as folder:
        yield java_command(directory.started(), plan, Path(folder))


def java_command(started: Started, plan: tools.Plan, folder: Path) -> list[str]:
    """The command line of Java for a tool, with its temporary files in this folder."""
    logging = config.logging(started.spec.kafka, level="WARN")
    path = folder / logging.file_name
    path.write_text(logging.text)
    return [
        started.java, *config.JVM_ALWAYS, f"-Djava.io.tmpdir={folder}", logging.option.format(path=path), *plan.jvm,
        *os.environ.get("KAFKA_OPTS", "").split(), "-cp", f"{started.jars}/*", plan.main_class, *plan.argv,
    ]  # fmt: skip
