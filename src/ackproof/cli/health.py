"""`ackproof health`: a live health check of a lab that is up."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Annotated

import msgspec
import typer

from ackproof.cli.options import Name, bootstrap
from ackproof.cli.ui.console import Steps, console
from ackproof.core.errors import UsageProblem, did_you_mean
from ackproof.core.sites import named, placed
from ackproof.core.text import plain
from ackproof.host.own_program import own_program
from ackproof.lab import client as control
from ackproof.lab import requests
from ackproof.lab.directory import LabDirectory
from ackproof.lab.spec import DEFAULT_NAME


def health(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic whose rate is watched.")],
    line: Annotated[float, typer.Option(min=0.01, help="Messages a second below which an alert is raised.")] = 800.0,
    webhook: Annotated[str | None, typer.Option(help="Post each alert to this URL, as JSON.")] = None,
    prometheus: Annotated[
        int | None, typer.Option(min=1, max=65_535, help="Offer /metrics on this port of loopback.")
    ] = None,
    name: Name = DEFAULT_NAME,
) -> None:
    """Watch a lab's health live: the rate of a topic, counted by Spark, and the night rules. Ctrl-C ends it.

    Examples:

      ackproof health orders

      ackproof health orders --line 100 --webhook http://127.0.0.1:9000/alerts --prometheus 9464
    """
    from ackproof.health.alert_sinks import AlertSinks, webhook_problem
    from ackproof.health.config import health_config
    from ackproof.host.java import find_java
    from ackproof.kafka import admin as topics
    from ackproof.kafka.distribution import jars
    from ackproof.model.scenario import HealthPlan

    if webhook is not None and (sentence := webhook_problem(webhook)):
        raise UsageProblem(sentence)
    views = control.call(name, "partitions", topics=[])["topic_partitions"]
    known = sorted({view["topic"] for view in views if not view["topic"].startswith("__")})
    if topic not in known:
        raise UsageProblem(f"no topic {topic!r}{did_you_mean(topic, known)}: `ackproof topic create {topic}` makes it")
    site = placed(topic)[0]
    servers = bootstrap(name, site)
    with Steps("looking for Spark's connector").running() as steps:
        jars.ensure_connector(find_java(), steps.so_far)
    own = [own for where, own in map(placed, known) if where == site]
    least = control.inside(name, "observer", lambda: topics.minimums(servers, own))
    min_isr = {named(site, topic): count for topic, count in least.items()}
    plan = HealthPlan(topic, line, webhook, prometheus)
    nodes = requests.nodes(name)
    config = health_config(plan, nodes, servers, min_isr, LabDirectory.of(name).data)
    config = msgspec.structs.replace(config, tethered=True)
    with _shown_rate(topic) as show_rate:
        sinks = AlertSinks(webhook, prometheus, _tell, show_rate)
        try:
            raise typer.Exit(_watch(name, msgspec.json.encode(config), sinks.put))
        finally:
            sinks.close()


def _tell(said: str) -> None:
    print(f"{datetime.now():%H:%M:%S} {plain(said)}", flush=True)


@contextmanager
def _shown_rate(topic: str) -> Iterator[Callable[[float], None]]:
    """Show the rate in a line that changes. Without a terminal, show nothing."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with console(stderr=True).status(plain(f"{topic}: Spark has not counted yet")) as status:
        yield lambda rate: status.update(plain(f"{topic}: {rate:,.0f} messages a second"))


def _watch(name: str, config: bytes, put: Callable[[str], None]) -> int:
    """Pass on what the health check reports: the webhook and the endpoint are on this side. It ends when this process
    ends."""
    with tempfile.NamedTemporaryFile(prefix="health-", suffix=".json", dir=LabDirectory.of(name).path) as file:
        file.write(config)
        file.flush()
        own = own_program("ackproof.clients.health_check", file.name)
        command = own_program("ackproof", "exec", "--name", name, "observer", "--", *own)
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as watching:
            assert watching.stdin is not None  # noqa: S101  # made with pipes
            assert watching.stdout is not None  # noqa: S101
            try:
                with suppress(KeyboardInterrupt):
                    for words in watching.stdout:
                        put(words)
            finally:
                watching.stdin.close()  # the health check ends when its input ends
            return watching.wait()


def register(app: typer.Typer) -> None:
    app.command()(health)
