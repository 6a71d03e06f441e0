"""Prints a scenario in words and as a timeline, and the plan of a run: `show` and `run --dry-run`."""

from __future__ import annotations

from pathlib import Path

from ackproof.cli.ui.console import say
from ackproof.lab.spec import LabSpec
from ackproof.model.fault import AnyFault, LastingFault
from ackproof.model.scenario import Scenario
from ackproof.scenario.executes import what_it_executes

_REFUSED = {True: ": refused", False: ""}
_MUST = {"required": "must", "allowed": "may", "forbidden": "must not"}


def show_scenario(scenario: Scenario) -> None:
    """Print the scenario in words, with its timeline."""
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
        rate = "as fast as possible" if producer.rate is None else f"at {producer.rate:,.0f} a second"
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
            aborts = f", one in {plan.abort_every} aborted on purpose" if plan.abort_every else ""
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
    """Draw the timeline: messages run from left to right, a fault is a bar below them."""
    total = scenario.total
    seconds = max((producer.count / producer.rate for producer in scenario.producers if producer.rate), default=0.0)

    def place(at_s: float | None, at_messages: int | None) -> int:
        share = at_messages / total if at_messages is not None else (at_s or 0) / seconds if seconds else 0
        return min(_WIDTH, round(share * _WIDTH))

    span = f" in about {seconds:,.0f} s" if seconds else ""
    lines = [f"timeline  0 {'─' * _WIDTH}▶ {total:,} messages{span}"]
    for number, fault in enumerate(scenario.faults):
        begins = place(scenario.earliest_s(number), fault.at_messages)
        bar = "▲"
        if isinstance(fault, LastingFault):
            ends = _WIDTH + 1 if fault.until else place(fault.until_s, fault.until_messages)
            bar = "█" * max(1, ends - begins)
        lines.append(f"            {' ' * begins}{bar}")
        lines += [f"            {fault.step}"] if fault.step else []
        lines.append(f"            {fault.what()}: {fault.when()}{_healed(fault)}")
    return lines


def _healed(fault: AnyFault) -> str:
    return f"; healed {fault.heals()}" if fault.lasting else ""


def show_plan(scenario: Scenario, spec: LabSpec, shape: str) -> None:
    """Print what a run would do: the timeline, the rules, the settings of every server. Nothing is started."""
    from ackproof.lab.node_config import NodeFiles, main_class, properties

    show_scenario(scenario)
    say("", f"plan      Kafka {spec.kafka}, {spec.mode} mode, shape {shape}; nothing is started")
    for number, fault in enumerate(scenario.faults, start=1):
        say(
            f"fault {number}   {fault.when()}: {fault.effect()}"
            + (f"; healed {fault.heals()}" if fault.lasting else "")
        )
    for node in spec.nodes:
        if node.role != "client":
            say(f"server    {node.name} at {node.address} ({main_class(node)})")
            files = NodeFiles(Path("settings") / node.name, Path("data") / node.name)
            say(*(f"            {key}={value}" for key, value in properties(spec, node, files).items()))
