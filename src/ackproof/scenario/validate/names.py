"""Reports names of nodes, roles, clients and partitions that a scenario's lab does not have."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from ackproof.core.errors import did_you_mean
from ackproof.lab.spec import client
from ackproof.lab.targets import TRANSACTION
from ackproof.model.fault import CLIENTS
from ackproof.model.scenario import PLAIN_ROLES, ROLE_PREFIXES, SITE_ROLES, Scenario


def why_unknown(scenario: Scenario, name: str) -> str | None:
    """Return why a name is neither a node nor a role in one of the scenario's modes; None if it is one."""
    if name in PLAIN_ROLES:
        if name == "zookeeper-leader" and "kraft" in scenario.modes:
            return 'zookeeper-leader: kraft mode has none; use controller, or modes = ["zookeeper"]'
        return None
    for prefix in ROLE_PREFIXES:
        if name.startswith(prefix):
            what = name.removeprefix(prefix)
            if prefix == "coordinator:":
                return _unknown_transactions(scenario, what)
            if is_partition(scenario, what):
                return None
            topic = what.partition("/")[0]
            if "/" in what and topic not in (known := [each.name for each in scenario.topics]):
                return f"{name}: no topic {topic!r}{did_you_mean(topic, known)}"
            return f"{name}: no such partition; write it as {prefix}TOPIC/PARTITION"
    if name.startswith(CLIENTS):
        return _unknown_client(scenario, name)
    if name.startswith(("quorum:", "target:")):
        role, _, number = name.partition(":")
        count = scenario.cluster.quorum if role == "quorum" else len(scenario.faults)
        if number.isdigit() and 1 <= int(number) <= count:
            return None
        return f"{name}: {role}:1 to {role}:{count} are known"
    names = [f"kafka{number}" for number in range(1, scenario.cluster.brokers + 1)]
    names += [client(number).name for number in range(1, scenario.client_hosts + 1)]
    if scenario.cluster.second:
        names += [f"dc2.kafka{number}" for number in range(1, scenario.cluster.second + 1)] + list(SITE_ROLES)
    names += ["mirror"] if scenario.mirrors else []
    if scenario.modes == ["zookeeper"]:
        names += [f"zk{number}" for number in range(1, scenario.cluster.quorum + 1)]
    elif scenario.modes == ["kraft"]:
        names += [f"controller{number}" for number in range(1, scenario.cluster.quorum + 1)]
    if any(fnmatchcase(each, name) for each in names):
        return None
    both = " (both modes run it: say quorum for the ZooKeeper or controller nodes)" if len(scenario.modes) > 1 else ""
    roles = ", ".join((*PLAIN_ROLES, *(f"{prefix}…" for prefix in ROLE_PREFIXES)))
    hint = did_you_mean(name, [*names, *PLAIN_ROLES])
    return f"no node or role {name!r}{hint}: nodes are {', '.join(names)}; roles are {roles}{both}"


def _unknown_transactions(scenario: Scenario, what: str) -> str | None:
    """Return why a coordinator is unknown: a group may have any name, a transactional id is the producer's name."""
    plans = scenario.each_producer
    known = [f"{TRANSACTION}producer{number}" for number, plan in enumerate(plans, start=1) if plan.transactions]
    if not what.startswith(TRANSACTION) or what in known:
        return None
    return f"coordinator:{what}: no such producer; with transactions are {', '.join(known) or 'none'}"


def _unknown_client(scenario: Scenario, name: str) -> str | None:
    kind, _, number = name.partition(":")
    plans = scenario.producers if kind == "producer" else scenario.consumers
    count = sum(plan.copies for plan in plans)
    if number.isdigit() and 1 <= int(number) <= count:
        return None
    return f"{name}: there are {count} {kind}s" + (f", {kind}:1 to {kind}:{count}" if count else "")


def is_partition(scenario: Scenario, text: str) -> bool:
    match = re.fullmatch(r"(.+)/(\d+)", text)
    if match is None or match[1] not in (*(topic.name for topic in scenario.topics), *scenario.mirrors):
        return False
    return int(match[2]) < scenario.topic(match[1]).partitions
