"""`produce` and `consume`: try a cluster by hand."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
import typer

from ackproof.cli.options import Name, bootstrap, pairs, seconds, tell_trail
from ackproof.host.own_program import own_program
from ackproof.lab import client as control
from ackproof.lab.spec import DEFAULT_NAME

Topic = Annotated[str, typer.Argument(metavar="TOPIC")]
Settings = Annotated[list[str] | None, typer.Option("--set", help="KEY=VALUE, any of librdkafka's settings.")]


def produce(
    topic: Topic,
    values: Annotated[list[str] | None, typer.Argument(metavar="[VALUE]...", help="What to send.")] = None,
    count: Annotated[int, typer.Option(min=1, help="Without values: how many numbered messages to send.")] = 1,
    acks: Annotated[Literal["0", "1", "all"], typer.Option(help="Which acknowledgements to wait for.")] = "all",
    keys: Annotated[int | None, typer.Option(min=1, help="How many different keys to use. Default: no key.")] = None,
    rate: Annotated[float | None, typer.Option(min=0.01, help="Messages a second.")] = None,
    settings: Settings = None,
    name: Name = DEFAULT_NAME,
) -> None:
    """Send messages to a topic, and see what becomes of each.

    Examples:

      ackproof produce orders one two three

      ackproof produce orders --count 100 --rate 1 --acks 1
    """
    from ackproof.clients.interactive import Produce

    asked = pairs(settings, "linger.ms=5")
    told = values or [f"message {number}" for number in range(1, count + 1)]
    config = Produce(bootstrap(name), topic, told, acks, keys, rate, {**asked})
    _execute(name, "produce", config)


def consume(
    topic: Topic,
    group: Annotated[str, typer.Option(help="The consumer group.")] = "readers",
    member: Annotated[str, typer.Option("--as", help="The client id.")] = "consumer",
    start: Annotated[
        Literal["earliest", "latest"], typer.Option("--from", help="Where a group without committed offsets begins.")
    ] = "earliest",
    protocol: Annotated[
        Literal["eager", "cooperative", "consumer"], typer.Option(help="How the group shares partitions.")
    ] = "eager",
    count: Annotated[int | None, typer.Option(min=1, help="End after this many messages.")] = None,
    duration: Annotated[str | None, typer.Option("--for", help="End after this time, for example 30s.")] = None,
    settings: Settings = None,
    name: Name = DEFAULT_NAME,
) -> None:
    """Read a topic in a consumer group, and see which partitions are assigned and revoked. Ctrl-C ends it.

    Example: ackproof consume orders --group workers --as first
    """
    from ackproof.clients.interactive import Consume

    asked = pairs(settings, "fetch.wait.max.ms=50")
    for_s = None if duration is None else seconds(duration)
    config = Consume(
        bootstrap(name),
        topic,
        group,
        member,
        start,
        protocol,
        count,
        for_s,
        {**asked},
    )
    _execute(name, "consume", config)


def _execute(name: str, what: str, config: msgspec.Struct) -> None:
    tell_trail(name, what)
    argv = own_program("ackproof.clients.interactive", what, msgspec.json.encode(config).decode())
    raise typer.Exit(control.execute(name, "client", argv))


def register(app: typer.Typer) -> None:
    app.command()(produce)
    app.command()(consume)
