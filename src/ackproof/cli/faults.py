"""The words that break and heal: each asks the lab, which proves the effect before it answers."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ackproof.cli.options import For, Json, Name, Target, Targets, Timeout, seconds, share
from ackproof.cli.ui.console import Steps, say, say_json
from ackproof.core.cluster_guard import refuse_elsewhere
from ackproof.core.errors import UsageProblem
from ackproof.lab import client as control
from ackproof.lab.spec import DEFAULT_NAME

Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it serves.")]


def _ask(name: str, verb: str, as_json: bool, **arguments: Any) -> None:
    given = {key: value for key, value in arguments.items() if value is not None}
    refuse_elsewhere(given.get(aim) for aim in ("nodes", "groups", "left", "right"))
    with Steps(f"{verb} in lab {name}").running() as steps:
        result = control.call(name, verb, steps, **given)
    if as_json:
        say_json(result)
    else:
        say(*result["said"])


def _for(text: str | None) -> float | None:
    if text is None:
        return None
    if (value := seconds(text)) < 0.1:
        raise UsageProblem(f"{text}: too short to be proved; at least 100ms")
    return value


def kill(nodes: Targets, name: Name = DEFAULT_NAME, as_json: Json = False) -> None:
    """End nodes at once (SIGKILL), as a crash would.

    Example: ackproof kill leader:orders/0
    """
    _ask(name, "kill", as_json, nodes=nodes)


def stop(nodes: Targets, timeout: Timeout = None, name: Name = DEFAULT_NAME, as_json: Json = False) -> None:
    """Stop nodes in an orderly way (SIGTERM), and wait until they have ended.

    Example: ackproof stop kafka2
    """
    _ask(name, "stop", as_json, nodes=nodes, timeout_s=_for(timeout))


def start(
    nodes: Annotated[list[str] | None, typer.Argument(metavar="[NODES]...", help="All that are down, without.")] = None,
    wait: Wait = True,
    timeout: Timeout = None,
    name: Name = DEFAULT_NAME,
    as_json: Json = False,
) -> None:
    """Start nodes that are down, all of them without a name, and wait until they serve.

    Examples: ackproof start, or ackproof start kafka2 kafka3
    """
    _ask(name, "start", as_json, nodes=nodes or [], wait=wait, timeout_s=_for(timeout))


def restart(
    nodes: Targets,
    kill_first: Annotated[bool, typer.Option("--kill", help="End it with SIGKILL instead of SIGTERM.")] = False,
    wipe: Annotated[bool, typer.Option("--wipe", help="Start it with an empty disk, under its old id.")] = False,
    add_log_dir: Annotated[bool, typer.Option("--add-log-dir", help="With one more, empty, log directory.")] = False,
    timeout: Timeout = None,
    name: Name = DEFAULT_NAME,
    as_json: Json = False,
) -> None:
    """Stop nodes and start them again.

    Example: ackproof restart kafka1 --kill
    """
    _ask(
        name,
        "restart",
        as_json,
        nodes=nodes,
        kill=kill_first,
        wipe=wipe,
        add_log_dir=add_log_dir,
        timeout_s=_for(timeout),
    )


def pause(nodes: Targets, for_: For = None, name: Name = DEFAULT_NAME, as_json: Json = False) -> None:
    """Freeze nodes (SIGSTOP): their connections stay open and nobody answers.

    Example: ackproof pause follower:orders/0 --for 15s
    """
    _ask(name, "pause", as_json, nodes=nodes, for_s=_for(for_))


def resume(
    nodes: Annotated[
        list[str] | None, typer.Argument(metavar="[NODES]...", help="All that are paused, without.")
    ] = None,
    name: Name = DEFAULT_NAME,
    as_json: Json = False,
) -> None:
    """Let paused nodes go on, all of them without a name.

    Examples: ackproof resume, or ackproof resume kafka3
    """
    _ask(name, "resume", as_json, nodes=nodes or [])


def add(wait: Wait = True, name: Name = DEFAULT_NAME, as_json: Json = False) -> None:
    """Add one more broker, with the next number.

    Example: ackproof add
    """
    _ask(name, "add", as_json, wait=wait)


def partition(
    groups: Annotated[list[str], typer.Argument(help="Groups of nodes, each with commas and without spaces.")],
    for_: For = None,
    name: Name = DEFAULT_NAME,
    as_json: Json = False,
) -> None:
    """Split the network into groups: only nodes that share a group hear each other.

    Nodes that no group names form one more group; `client` is in every group unless it is named; a name may stand in
    several groups. Partitions add up until `join` ends them all.

    Examples:

      ackproof partition kafka3                           cut off from all others; clients still reach it

      ackproof partition kafka1,kafka2,kafka3 kafka2,kafka3,'zk*'   kafka1 has lost ZooKeeper only
    """
    _ask(name, "partition", as_json, groups=groups, for_s=_for(for_))


def join(name: Name = DEFAULT_NAME, as_json: Json = False) -> None:
    """End all partitions. Cuts and other faults stay.

    Example: ackproof join
    """
    _ask(name, "join", as_json)


def cut(
    left: Target,
    right: Target,
    one_way: Annotated[bool, typer.Option("--one-way", help="Only from the first to the second.")] = False,
    port: Annotated[int | None, typer.Option("--port", min=1, max=65535, help="Only this port, at either end.")] = None,
    new_connections: Annotated[
        bool, typer.Option("--new-connections", help="Only new connections; those that stand go on.")
    ] = False,
    reset: Annotated[bool, typer.Option("--reset", help="Answer with a reset instead of silence.")] = False,
    for_: For = None,
    name: Name = DEFAULT_NAME,
    as_json: Json = False,
) -> None:
    """Cut the links between two nodes, or between two sets of nodes.

    Examples:

      ackproof cut leader:orders/0 'zk*'                  the leader loses ZooKeeper

      ackproof cut kafka1 client --one-way --for 3s       written, but the acknowledgement is lost

      ackproof cut client kafka2 --port 9092 --reset
    """
    _ask(
        name,
        "cut",
        as_json,
        left=left,
        right=right,
        one_way=one_way,
        port=port,
        new_connections=new_connections,
        reset=reset,
        for_s=_for(for_),
    )


def flaky(
    node: Target,
    loss: Annotated[str, typer.Option("--loss", help="The share of packets that get lost, for example 5%.")],
    for_: For = None,
    name: Name = DEFAULT_NAME,
    as_json: Json = False,
) -> None:
    """Lose a share of all packets to and from a node.

    Example: ackproof flaky kafka2 --loss 5% --for 1m
    """
    _ask(name, "flaky", as_json, nodes=node, loss=share(loss), for_s=_for(for_))


def slow(
    node: Target,
    delay: Annotated[str, typer.Option("--delay", help="How much longer a round trip takes, for example 50ms.")],
    for_: For = None,
    name: Name = DEFAULT_NAME,
    as_json: Json = False,
) -> None:
    """Delay all packets to and from a node (needs netem in the kernel).

    Example: ackproof slow kafka2 --delay 50ms
    """
    delay_ms = seconds(delay) * 1000
    if not 1 <= delay_ms <= 60_000:
        raise UsageProblem(f"a delay of {delay} is out of range: from 1ms to 60s")
    _ask(name, "slow", as_json, nodes=node, delay_ms=delay_ms, for_s=_for(for_))


def heal(
    faults: Annotated[list[str] | None, typer.Argument(help="Only these faults, by the names `status` shows.")] = None,
    name: Name = DEFAULT_NAME,
    as_json: Json = False,
) -> None:
    """End faults: cuts, partitions, loss, delay and pauses. Nodes that are down stay down: `start` them.

    Examples: ackproof heal, or ackproof heal f3
    """
    _ask(name, "heal", as_json, faults=faults or [])


def reset(name: Name = DEFAULT_NAME, as_json: Json = False) -> None:
    """Give the same lab with empty disks and no faults.

    Example: ackproof reset
    """
    _ask(name, "reset", as_json)


def register(app: typer.Typer) -> None:
    for command in (kill, stop, start, restart, pause, resume, add, partition, join, cut, flaky, slow, heal, reset):
        app.command()(command)
