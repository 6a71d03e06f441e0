"""Says what a scenario makes this machine execute, load, write or open. A scenario is code.

Its commands are programs, its JVM options can name programs and files (`-XX:OnOutOfMemoryError=`, `-javaagent:`,
`-Xlog:gc:file=`), and settings of Kafka, ZooKeeper and librdkafka can name classes, libraries, programs and files. All
of it runs as the user who runs the scenario, also inside the lab, whose network is its own and whose files are the
user's.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from ackproof.model.scenario import ConsumerPlan, ProducerPlan, Scenario, Value

OPEN_TO_ALL = "every user of this machine can read and write there"

# Names of settings that may load code, start a program, or read, write or ask for something outside the lab.
_LOADS = re.compile(
    r"class|interceptor|reporter|provider|plugin|engine|factory|converter|transform|jaas|kerberos|keytab|cmd|command"
    r"|script|location|path|file|librar|url|dirs?$",
    re.IGNORECASE,
)
_SECRET = re.compile(r"password|passphrase|secret", re.IGNORECASE)
_LOGINS = re.compile(r"""(?i)(?<=//)[^\s/@]+(?=@)|(?<=password=)("[^"]*"|'[^']*'|[^\s;]+)""")
_PLAIN = re.compile(r"[\w,+-]*|-?\d[\w.-]*")  # words and numbers, which name nothing


def what_it_executes(scenario: Scenario) -> list[str]:
    """Return one sentence for each command, option and setting that runs or touches something."""
    return [*_clients("producer", scenario.producers), *_clients("consumer", scenario.consumers), *_servers(scenario),
            *_openings(scenario)]  # fmt: skip


def may_load(key: str) -> bool:
    """Whether a setting of this name may load code, run a program or read a file as soon as a client is made."""
    return _LOADS.search(key) is not None


def _names_something(key: str, value: Value) -> bool:
    return may_load(key) or not (_PLAIN.fullmatch(str(value)) or _SECRET.search(key))


def _clients(kind: str, plans: Sequence[ProducerPlan | ConsumerPlan]) -> Iterator[str]:
    first = 1
    for plan in plans:
        last = first + plan.copies - 1
        who = f"{kind} {first}" if plan.copies == 1 else f"each of {kind}s {first} to {last}"
        if plan.command:
            where = "on this machine" if plan.where == "host" else "in the lab, with your files"
            yield f"{who} runs {where}: {shlex.join(plan.command)}"
        yield from _settings(who, plan.settings)
        first = last + 1


def _servers(scenario: Scenario) -> Iterator[str]:
    for scope, settings in scenario.cluster.settings.items():
        if "jvm" in settings:
            yield f"{scope} starts Java with: {settings['jvm']}"
        yield from _settings(scope, {key: value for key, value in settings.items() if key != "jvm"})


def _settings(who: str, settings: Mapping[str, Value]) -> Iterator[str]:
    for key, value in settings.items():
        if _names_something(key, value):
            yield f"{who} has a setting that may name a program, a library, a file or a host: {key}={_told(value)}"


def _told(value: Value) -> str:
    """Return a value without the passwords in it: the sentence is shown on screens and in logs of CI."""
    return _LOGINS.sub("***", str(value))


def _openings(scenario: Scenario) -> Iterator[str]:
    if any(client.where == "host" for client in scenario.clients):
        yield f"each broker has a port on 127.0.0.1 while the run lasts: {OPEN_TO_ALL}"
    if scenario.health is not None and scenario.health.webhook is not None:
        yield f"each alert is sent to {_told(scenario.health.webhook)}"
    if scenario.health is not None and scenario.health.prometheus is not None:
        yield f"measures are served on 127.0.0.1:{scenario.health.prometheus} to every user of this machine"
