"""A scenario in words and as a timeline, and the plan of a run of it: what `show` and `run --dry-run` print."""

from __future__ import annotations

from pathlib import Path

from ackproof.cli.ui.console import say
from ackproof.lab.spec import LabSpec
from ackproof.model.scenario import FaultPlan, Scenario
from ackproof.scenario.executes import what_it_executes

_REFUSED = {True: ": refused", False: ""}
_MUST = {"required": "must", "allowed": "may", "forbidden": "must not"}


def show_scenario(scenario: Scenario) -> None:
    """The scenario as a person would tell it, with its timeline drawn."""
    say(f"{scenario.name} (section {scenario.section}): {scenario.title}", "", scenario.summary.strip(), "")
    cluster = scenario.cluster
    say(
        f"cluster   {cluster.brokers} brokers, {cluster.quorum} ZooKeeper nodes or controllers; "
        f"modes {', '.join(scenario.modes)}"
    )
    if cluster.second:
        say(f"          a second one, dc2, of {cluster.second} brokers")
    for made, source in scenario.mirrors.items():
        say(f"mirror    {made}, from {source}")
    for topic in scenario.topics:
        settings = "".join(f", {key}={value}" for key, value in topic.settings.items())
        say(f"topic     {topic.name}: {topic.partitions} partition(s), {topic.replication} replicas{settings}")
    for producer in scenario.producers:
        rate = "as fast as it goes" if producer.rate is None else f"at {producer.rate:,.0f} a second"
        settings = "".join(f", {key}={value}" for key, value in producer.settings.items())
        say(
            f"producer  {producer.copies} with {producer.count:,} messages each, {rate}, to {producer.topic}, "
            f"acks={producer.acks}{settings}"
        )
        if producer.outbox is not None:
            say(
                f"            through an outbox, which gives up after {producer.outbox.give_up_after} failures in a row"
            )
        if producer.transactions is not None:
            plan = producer.transactions
            aborts = f", each {plan.abort_every}. aborted on purpose" if plan.abort_every else ""
            say(f"            from {plan.input}, in transactions of {plan.size} messages{aborts}")
        if producer.user is not None:
            say(f"            as {producer.user}, from host {producer.from_host}{_REFUSED[producer.refused]}")
    for consumer in scenario.consumers:
        topics = " and ".join([consumer.topic, *consumer.also])
        say(
            f"consumer  {consumer.copies} of group {consumer.group}, from {topics}, "
            f"{consumer.protocol} protocol, from the {'end' if consumer.start == 'latest' else 'start'}"
        )
    say(*(f"executes  {sentence}" for sentence in what_it_executes(scenario)))
    say("", *_timeline(scenario), "")
    for mode in scenario.modes:
        words = [f"{name} {_MUST[expected]} be found" for name, expected in scenario.expected(mode).items()]
        say(f"expected  in {mode} mode: {', '.join(words) or 'nothing in particular'}")
    say(*(f"expected  {claim.in_words()}" for claim in scenario.claims))


_WIDTH = 60


def _timeline(scenario: Scenario) -> list[str]:
    """Messages run from left to right; a fault is a bar under them."""
    total = scenario.total
    seconds = max((producer.count / producer.rate for producer in scenario.producers if producer.rate), default=0.0)

    def place(at_s: float | None, at_messages: int | None) -> int:
        share = at_messages / total if at_messages is not None else (at_s or 0) / seconds if seconds else 0
        return min(_WIDTH, round(share * _WIDTH))

    span = f" in about {seconds:,.0f} s" if seconds else ""
    lines = [f"timeline  0 {'─' * _WIDTH}▶ {total:,} messages{span}"]
    for number, fault in enumerate(scenario.faults):
        begins = place(scenario.earliest_s(number), fault.at_messages)
        ends = _WIDTH + 1 if fault.until or not fault.lasting else place(fault.until_s, fault.until_messages)
        bar = "▲" if not fault.lasting else "█" * max(1, ends - begins)
        lines.append(f"            {' ' * begins}{bar}")
        lines += [f"            {fault.step}"] if fault.step else []
        lines.append(
            f"            {fault.what()}: {fault.when()}" + (f"; healed {fault.heals()}" if fault.lasting else "")
        )
    return lines


def show_plan(scenario: Scenario, spec: LabSpec, shape: str) -> None:
    """What would be done: the timeline, the rules, the settings of every server. Nothing is started."""
    from ackproof.lab.node_config import NodeFiles, main_class, properties

    show_scenario(scenario)
    say("", f"plan      Kafka {spec.kafka}, {spec.mode} mode, shape {shape}; nothing is started")
    for number, fault in enumerate(scenario.faults, start=1):
        say(f"fault {number}   {fault.when()}: {rule(fault)}" + (f"; healed {fault.heals()}" if fault.lasting else ""))
    for node in spec.nodes:
        if node.role != "client":
            say(f"server    {node.name} at {node.address} ({main_class(node)})")
            files = NodeFiles(Path("settings") / node.name, Path("data") / node.name)
            say(*(f"            {key}={value}" for key, value in properties(spec, node, files).items()))


def rule(fault: FaultPlan) -> str:
    """What the kernel is told. Who has a role is asked when the fault begins."""
    targets = " and ".join(fault.targets)
    match fault.kind:
        case "kill":
            return f"SIGKILL to {targets}"
        case "stop":
            return f"SIGTERM to {targets}, and wait until it has ended"
        case "start":
            return f"start {targets} on its old disk"
        case "restart":
            return f"SIGTERM to {targets}, and start it again on its old disk"
        case "replace":
            return f"SIGKILL to {targets}, its disk is emptied, and it starts under its old id"
        case "add-directory":
            return f"SIGTERM to {targets}, and start it again with one more log directory"
        case "caught-up":
            return f"wait until the mirror has copied everything to {' and '.join(fault.partitions)}"
        case "translated":
            return f"ask where the group {fault.group} goes on in {' and '.join(fault.partitions)}"
        case "seek":
            return f"a consumer is sent: {fault.what()}"
        case "elect":
            kind = "any replica, in sync or not," if fault.unclean else "the preferred leader"
            return f"the cluster is asked to let {kind} lead {' and '.join(fault.partitions)}"
        case "pause":
            return f"SIGSTOP to {targets}; SIGCONT heals it"
        case "isolate" if not fault.apart_from:
            return f"nftables drops every packet between {targets} and all other nodes; clients still reach {targets}"
        case "partition":
            sides = " | ".join(" ".join(group) for group in fault.groups)
            return f"nftables drops every packet between the groups {sides}"
        case "flaky":
            return f"nftables drops {fault.loss:.0%} of all packets to and from {targets}, at random"
        case "slow":
            return f"netem delays every packet to and from {targets}, {fault.delay_ms:g} ms there and back"
        case _:
            return f"nftables {_drops(fault, targets)}"


def _drops(fault: FaultPlan, targets: str) -> str:
    other = " and ".join(fault.apart_from)
    act = "answers with a reset" if fault.reset else "drops"
    what = "every new connection" if fault.new_connections else "every packet"
    way = (
        f"from {targets} to {other}, and lets the other way pass" if fault.one_way else f"between {targets} and {other}"
    )
    return f"{act} {what} {way}" + (f", only to port {fault.port}" if fault.port else "")
