"""Commands that start, show and end a lab, and that work inside it."""

from __future__ import annotations

import time
from functools import partial
from typing import Annotated, Any, Literal

import typer

from ackproof.cli.options import Json, Name, Target, bootstrap, pairs, tell_trail
from ackproof.cli.ui.console import Steps, console, say, say_json
from ackproof.cli.ui.lab_status import read_partitions, read_status
from ackproof.cli.ui.status_tables import partitions_table, status_parts
from ackproof.core.cluster_guard import refuse_elsewhere
from ackproof.core.errors import UsageProblem
from ackproof.core.sites import Mirror, placed
from ackproof.lab import client as control
from ackproof.lab import launch
from ackproof.lab.directory import LabDirectory
from ackproof.lab.spec import CLIENT, DEFAULT_NAME, LabSpec, Setting, check
from ackproof.scenario.executes import OPEN_TO_ALL

PASS_ON = {"ignore_unknown_options": True, "allow_interspersed_args": False}


def up(
    name: Name = DEFAULT_NAME,
    mode: Annotated[
        Literal["zookeeper", "kraft"], typer.Option(help="What keeps the cluster's metadata.")
    ] = "zookeeper",
    kafka: Annotated[str | None, typer.Option(help="Kafka's version; 3.9.2 with ZooKeeper, 4.3.1 with KRaft.")] = None,
    brokers: Annotated[int, typer.Option(help="How many brokers, 1 to 9.")] = 3,
    quorum: Annotated[int, typer.Option(help="How many ZooKeeper nodes or controllers: 1, 3 or 5.")] = 3,
    racks: Annotated[
        str | None, typer.Option(help="Racks, with commas; the brokers are placed in them in turn.")
    ] = None,
    log_dirs: Annotated[int, typer.Option(help="How many log directories each broker has.")] = 1,
    second: Annotated[int, typer.Option(help="How many brokers a second cluster, dc2, has.")] = 0,
    mirror: Annotated[Mirror, typer.Option(help="MirrorMaker 2, from dc1 to dc2 or also back.")] = "none",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="SCOPE.KEY=VALUE. Scope: broker, zookeeper, controller or a node. Key jvm: Java options."
        ),
    ] = None,
    expose: Annotated[
        bool,
        typer.Option("--expose", help=f"Offer each broker on this host's loopback, where {OPEN_TO_ALL}."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Start a cluster in the background: each node in its own network namespace.

    Examples:

      ackproof up

      ackproof up --mode kraft --brokers 5 --racks a,b --expose

      ackproof up --set broker.min.insync.replicas=2 --set kafka2.jvm=-Xmx512m
    """
    from ackproof.kafka.distribution.jars import DEFAULT_KRAFT, DEFAULT_ZOOKEEPER

    spec = check(
        LabSpec(
            kafka=kafka or (DEFAULT_ZOOKEEPER if mode == "zookeeper" else DEFAULT_KRAFT),
            name=name,
            mode=mode,
            brokers=brokers,
            quorum=quorum,
            racks=tuple(rack for rack in (racks or "").split(",") if rack),
            log_dirs=log_dirs,
            settings=tuple(Setting.parse(text) for text in settings or []),
            expose=expose,
            second=second,
            mirror=mirror,
        )
    )
    if LabDirectory.of(name).alive():
        raise UsageProblem(f"a lab named {name!r} is up already: `ackproof down --name {name}`, or use another --name")
    _tell_up(name, _start(spec), as_json)


def _start(spec: LabSpec) -> float:
    """Start a lab in the background, and return how many seconds that took."""
    from ackproof.lab.ingredients import gather

    begun = time.monotonic()
    with Steps(f"starting lab {spec.name}").running() as steps:
        launch.launch(spec, gather(spec, steps.so_far), steps).detach()
    return time.monotonic() - begun


def _tell_up(name: str, took_s: float, as_json: bool) -> None:
    if as_json:
        say_json(control.status(name))
        return
    started = LabDirectory.of(name).started()
    spec = started.spec
    nodes = ", ".join(node.name for node in spec.nodes if node.role != CLIENT.role)
    brokers = spec.broker_nodes
    bootstrap = ",".join(f"{node.name}:{node.port}" for node in brokers)
    exposed = ",".join(f"127.0.0.1:{started.exposed[node.name]}" for node in brokers if node.name in started.exposed)
    option = "" if name == DEFAULT_NAME else f" --name {name}"
    say(
        f"lab {name} is up after {took_s:.1f} s: Kafka {spec.kafka} ({spec.mode}): {nodes}",
        f"bootstrap inside: {bootstrap}",
        *([f"on this host: {exposed}; {OPEN_TO_ALL}"] if exposed else []),
        f"try: ackproof topic create orders{option} · ackproof status{option} "
        f"· ackproof kill {brokers[-1].name}{option} · ackproof down{option}",
    )


def down(name: Name = DEFAULT_NAME) -> None:
    """End a lab and remove everything that belongs to it.

    Example: ackproof down
    """
    control.down(name)
    say(f"lab {name} is down")


def status(name: Name = DEFAULT_NAME, as_json: Json = False) -> None:
    """Show nodes, leaders, in-sync replicas and faults, and which node reaches which, measured at this moment.

    Example: ackproof status --json
    """
    told = control.status(name)
    if as_json:
        say_json(told)
        return
    screen = console()
    for part in status_parts(read_status(told)):
        screen.print(part)


def doctor(as_json: Json = False) -> None:
    """Check whether this machine can run a lab, and say what to do if it cannot.

    Example: ackproof doctor
    """
    from ackproof.lab.preflight import examine

    findings = examine()
    if as_json:
        say_json(findings)
    else:
        for finding in findings:
            say(f"{finding.status:5} {finding.name}: {finding.found}")
            if finding.way_out and finding.status != "ok":
                say(f"      → {finding.way_out}")
    if any(finding.status == "fail" for finding in findings):
        raise typer.Exit(4)


def logs(
    node: Target,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Follow the log until Ctrl-C.")] = False,
    lines: Annotated[int, typer.Option("-n", "--lines", min=0, help="How many lines from the end.")] = 200,
    name: Name = DEFAULT_NAME,
) -> None:
    """Show a node's log.

    Example: ackproof logs -f kafka1
    """
    from ackproof.cli.ui.follow import tail

    directory = LabDirectory.to_read(name)
    path = directory.log(node)
    if "/" in node or not path.exists():
        resolved = control.call(name, "resolve", target=node)["nodes"]
        if len(resolved) > 1:
            raise UsageProblem(f"{node} is {len(resolved)} nodes ({', '.join(resolved)}): name one")
        path = directory.log(resolved[0])
    if not path.exists():
        raise UsageProblem(f"{node} has no log: it is a namespace for your programs")
    tail(path, lines, follow)


def events(
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Follow the events until Ctrl-C.")] = False,
    name: Name = DEFAULT_NAME,
    as_json: Json = False,
) -> None:
    """Show the audit trail: who requested what, what came of it, when it was proved, and when it was healed.

    Example: ackproof events
    """
    from ackproof.cli.ui.follow import follow_events, told, worth_telling
    from ackproof.lab.audit_log import Events

    directory = LabDirectory.to_read(name)
    if not directory.path.exists():
        control.call(name, "status")  # raises a problem that names the labs that are up
    trail = Events(directory.events)
    if as_json:
        say_json(trail.read())
    elif follow:
        follow_events(trail)
    else:
        say(*(told(event) for event in trail.read() if worth_telling(event)))


def watch(
    name: Name = DEFAULT_NAME,
    every: Annotated[float, typer.Option("--every", min=0.2, help="Seconds between two updates.")] = 1.0,
) -> None:
    """Watch a lab live: nodes, cut links, leaders, in-sync replicas, high watermarks, group members.

    Example: ackproof watch
    """
    from ackproof.cli.ui.lab_watch import watch_lab

    watch_lab(name, every)


def exec_(
    node: Annotated[str, typer.Argument(metavar="NODE", help="A node, a role, client, or observer.")],
    command: Annotated[list[str] | None, typer.Argument(metavar="-- PROGRAM [ARGS]...", help="What to run.")] = None,
    name: Name = DEFAULT_NAME,
) -> None:
    """Run a program in the network of a node: `client` is for clients; `observer` is never hit by a fault.

    Example: ackproof exec client -- python3 my_consumer.py
    """
    if not command:
        raise UsageProblem("name the program to run, for example: ackproof exec kafka1 -- cat /etc/hosts")
    refuse_elsewhere(node)
    raise typer.Exit(control.execute(name, node, command))


def kafka(
    tool: Annotated[
        str | None, typer.Argument(metavar="TOOL", help="A tool of Kafka's bin folder, such as topics.")
    ] = None,
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="ARGS", help="Arguments, passed on unchanged.")
    ] = None,
    name: Name = DEFAULT_NAME,
    node: Annotated[str, typer.Option("--on", help="Where to run it.")] = "client",
) -> None:
    """Run one of Kafka's tools inside the lab, with the bootstrap server filled in. Without a tool, list them.

    The options --name and --on come before the tool; everything after the tool is passed on to it.

    Examples:

      ackproof kafka topics --list

      ackproof kafka --name other console-producer --topic orders
    """
    from ackproof.lab.kafka_tools import list_tools, run_tool

    refuse_elsewhere(node)
    if tool is None:
        say(*list_tools(name))
        return
    if not {"--list", "--describe", "--help"} & set(arguments or []):  # it may change something
        tell_trail(name, "kafka")
    raise typer.Exit(run_tool(name, node, tool, arguments or [], say))


# -- topics ----------------------------------------------------------------------------------------------------------

topic = typer.Typer(
    help="Create, describe and resize topics, and read their watermarks.", no_args_is_help=True, rich_markup_mode=None
)


@topic.command("create")
def topic_create(
    names: Annotated[list[str], typer.Argument(help="Topics.")],
    partitions: Annotated[int, typer.Option("--partitions", "-p", min=1)] = 1,
    replication: Annotated[
        int | None, typer.Option("--replication", "-r", min=1, help="Default: 3, or all brokers.")
    ] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="A setting of the topic, as KEY=VALUE.")] = None,
    name: Name = DEFAULT_NAME,
) -> None:
    """Create topics.

    Example: ackproof topic create orders -p 4 --set min.insync.replicas=2
    """
    from ackproof.kafka import admin as topics

    config = pairs(settings, "min.insync.replicas=2")
    for each in names:
        site, own = placed(each)
        tell_trail(name, "topic create")
        make = partial(topics.create, bootstrap(name, site), [own], partitions, replication, config)
        say(*control.inside(name, "observer", make))


@topic.command("resize")
def topic_resize(
    topic_name: Annotated[str, typer.Argument(metavar="TOPIC")],
    partitions: Annotated[int, typer.Argument(min=1)],
    name: Name = DEFAULT_NAME,
) -> None:
    """Give a topic more partitions. Kafka cannot take any away.

    Example: ackproof topic resize orders 8
    """
    from ackproof.kafka import admin as topics

    servers = bootstrap(name)
    tell_trail(name, "topic resize")
    say(*control.inside(name, "observer", lambda: topics.resize(servers, topic_name, partitions)))


@topic.command("list", hidden=True)  # what people type first
@topic.command("describe")
def topic_describe(
    names: Annotated[list[str] | None, typer.Argument(help="Topics. Default: all.")] = None,
    name: Name = DEFAULT_NAME,
    as_json: Json = False,
) -> None:
    """Show leaders, replicas and in-sync replicas of each partition.

    Example: ackproof topic describe orders
    """
    _show_partitions(name, names, as_json, offsets=False)


@topic.command("watermarks")
def topic_watermarks(
    names: Annotated[list[str] | None, typer.Argument(help="Topics. Default: all.")] = None,
    name: Name = DEFAULT_NAME,
    as_json: Json = False,
) -> None:
    """Show the high watermark, and the end of the log on each replica, as each broker reports its own.

    Example: ackproof topic watermarks orders
    """
    _show_partitions(name, names, as_json, offsets=True)


def _show_partitions(name: str, topics: list[str] | None, as_json: bool, offsets: bool) -> None:
    views = _views(name, topics)
    if as_json:
        say_json(views)
    elif views:
        shown = views if offsets else [{**view, "high_watermark": None, "log_end": {}} for view in views]
        console().print(partitions_table(read_partitions(shown)))
    else:
        say("there is no topic yet: ackproof topic create orders")


def _views(name: str, topics: list[str] | None) -> list[dict[str, Any]]:
    views: list[dict[str, Any]] = control.call(name, "partitions", topics=topics or [])["topic_partitions"]
    return views if topics else [view for view in views if not _internal(placed(view["topic"])[1])]


def _internal(topic: str) -> bool:
    """Whether a topic belongs to Kafka itself or to the mirror."""
    return topic.startswith("__") or topic.endswith((".internal", "heartbeats"))


def register(app: typer.Typer) -> None:
    for command in (up, status, down, doctor, logs, events, watch):
        app.command()(command)
    app.command("exec", context_settings={"ignore_unknown_options": True, "allow_extra_args": True})(exec_)
    app.command("kafka", context_settings={**PASS_ON, "allow_extra_args": True})(kafka)
    app.add_typer(topic, name="topic")
