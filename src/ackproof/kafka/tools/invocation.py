"""Kafka's command line tools without its shell scripts: which class to start, with which arguments.

A plan is made from data (`catalogue`) and from the jars at hand, and starts nothing. It fills in what a person inside a
lab would have to look up, the bootstrap server or ZooKeeper's connect string, and leaves everything else as given; an
argument that already names the cluster is never changed. For a tool that this Kafka lacks, it names the replacement.
"""

from __future__ import annotations

import difflib
import re
import zipfile
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal

import msgspec

from ackproof.core.errors import CannotHere, UsageProblem
from ackproof.kafka.tools.catalogue import DROPPED, TOOLS, TROGDOR, VERBS, Tool

__all__ = ["Listed", "Plan", "Verb", "plan", "tools"]

HELP = {"--help", "-h", "--version"}
ADDRESS = re.compile(r"[\w.-]+:\d+(,[\w.-]+:\d+)*(/\S*)?")
LISTING = "`ackproof kafka` lists the tools"
# From this release on the producer's benchmark has an option for it, and the old way is deprecated.
PRODUCER_OPTION_SINCE = (4, 2)
# Where Kafka's tools live, and so where to look first.
LIKELY_JARS = (
    "kafka-tools-*.jar",
    "kafka_2*.jar",
    "connect-*.jar",
    "kafka-shell-*.jar",
    "trogdor-*.jar",
    "zookeeper-*.jar",
)
JDK = ("java.", "javax.", "jdk.", "sun.", "com.sun.")


class Plan(msgspec.Struct, frozen=True):
    """`java`, these options, the class, these arguments."""

    main_class: str
    argv: tuple[str, ...]
    jvm: tuple[str, ...] = ()


class Verb(msgspec.Struct, frozen=True):
    """A command of the lab, on these nodes, in place of a tool."""

    verb: Literal["start", "stop"]
    nodes: tuple[str, ...]


class Listed(msgspec.Struct, frozen=True):
    name: str
    summary: str


def plan(tool: str, args: Sequence[str], jars: Path, bootstrap: str, zookeeper: str | None = None) -> Plan | Verb:
    """How to run a tool of the Kafka whose jars are in this directory.

    `bootstrap` and `zookeeper` are filled in if `args` do not have them. `zookeeper` is None in a lab without it.
    """
    name = _plain(tool)
    if name in VERBS:
        return _verb(name, args)
    if name == "run-class":
        return _run_class(args, jars)
    if name == "trogdor":
        return _trogdor(args, jars)
    if name not in TOOLS:
        raise _unknown(tool, name)
    found = TOOLS[name]
    main_class = next((each for each in found.classes if _has(jars, each)), None)
    if main_class is None:
        raise _absent(name, found, jars)
    _refuse_old_options(name, found, args, jars)
    argv = _filled(name, found, args, _release(jars), bootstrap, zookeeper)
    return Plan(main_class, tuple(argv), (f"-Xmx{found.heap_mb}m",))


def tools(jars: Path) -> list[Listed]:
    """The tools that this Kafka has, by name."""
    listed = [
        Listed(name, tool.summary) for name, tool in TOOLS.items() if any(_has(jars, each) for each in tool.classes)
    ]
    listed += [Listed(name, f"as `ackproof {verb} NODE`") for name, verb in VERBS.items() if _serves(name, jars)]
    listed.append(Listed("run-class", "any class of the jars"))
    if _has(jars, TROGDOR["agent"]):
        listed.append(Listed("trogdor", "Kafka's own fault injection and load: agent, coordinator, client"))
    return sorted(listed, key=lambda each: each.name)


def _plain(tool: str) -> str:
    """`bin/kafka-topics.sh`, `kafka-topics` and `topics` are the same tool."""
    return re.sub(r"\.(sh|bat)$", "", tool.rpartition("/")[2]).removeprefix("kafka-")


def _verb(name: str, args: Sequence[str]) -> Verb:
    verb = VERBS[name]
    nodes = [each for each in args if each != "-daemon"]
    if not nodes or any(each.startswith("-") or each.endswith(".properties") for each in nodes):
        example = "zk1" if name.startswith("zookeeper") else "kafka1"
        raise UsageProblem(
            f"use `ackproof {verb} NODE` in place of {name}: the lab keeps the configuration of each node, "
            f"as in `ackproof {verb} {example}`."
        )
    return Verb(verb, tuple(nodes))


def _run_class(args: Sequence[str], jars: Path) -> Plan:
    if not args:
        raise UsageProblem("run-class needs a class, as in `ackproof kafka run-class kafka.tools.StorageTool --help`.")
    name, *rest = args
    if not name.startswith(JDK) and not _has(jars, name):
        raise UsageProblem(f"No jar of Kafka {_version(jars)} holds the class {name}{_moved_to(name)}.")
    return Plan(name, tuple(rest), ("-Xmx256m",))


def _moved_to(name: str) -> str:
    simple = name.rpartition(".")[2]
    for tool, entry in TOOLS.items():
        if any(each.rpartition(".")[2] == simple for each in entry.classes):
            return f"; it is the tool {tool}: `ackproof kafka {tool}`"
    return ""


def _trogdor(args: Sequence[str], jars: Path) -> Plan:
    if not args or args[0] not in TROGDOR:
        raise UsageProblem(f"trogdor needs one of {', '.join(TROGDOR)}, as in `ackproof kafka trogdor client --help`.")
    program, *rest = args
    if not _has(jars, TROGDOR[program]):
        raise UsageProblem(f"trogdor is not among the jars of Kafka {_version(jars)}; {LISTING}.")
    return Plan(TROGDOR[program], tuple(rest), ("-Xmx256m",))


def _unknown(tool: str, name: str) -> UsageProblem:
    if name in DROPPED:
        return UsageProblem(f"Kafka no longer has {tool}: {DROPPED[name]}.")
    known = [*TOOLS, *VERBS, *DROPPED, "run-class", "trogdor"]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    return UsageProblem(f"Kafka has no tool {tool}; {hint}{LISTING}.")


def _absent(name: str, tool: Tool, jars: Path) -> UsageProblem:
    if tool.instead is not None:
        return UsageProblem(f"Kafka {_version(jars)} has no {name}: {tool.instead}.")
    if tool.since is not None and _release(jars) < _numbers(tool.since):
        return UsageProblem(
            f"{name} came with Kafka {tool.since}, and this is {_version(jars)}: "
            f"start a lab with `--kafka` and a newer version, or see what there is: {LISTING}."
        )
    return UsageProblem(f"{name} is not among the jars of Kafka {_version(jars)}; {LISTING}.")


def _refuse_old_options(name: str, tool: Tool, args: Sequence[str], jars: Path) -> None:
    """Refuse options from old recipes, which the tool would only call unrecognized."""
    given = set(_options(args))
    release = _release(jars)
    example = f"leave it out, the lab fills in the bootstrap server: `ackproof kafka {name} ...`"
    if "--zookeeper" in given and tool.bootstrap == "server" and ("--zookeeper" not in tool.also or release >= (4, 0)):
        raise UsageProblem(f"Kafka's tools ask the brokers, no longer ZooKeeper, so --zookeeper is gone; {example}.")
    if "--broker-list" in given and "--broker-list" in tool.also and release >= (4, 0):
        raise UsageProblem(f"Kafka 4.0 dropped --broker-list from {name}; {example}, or say --bootstrap-server.")


def _filled(
    name: str, tool: Tool, args: Sequence[str], release: tuple[int, ...], bootstrap: str, zookeeper: str | None
) -> list[str]:
    """The arguments with the address of the cluster, unless they have one."""
    given = set(_options(args))
    told = given & {"--bootstrap-server", "--zookeeper.connect", *tool.also}
    # With `--help` or without arguments a tool prints its usage; with an address it would complain instead.
    usage = given & HELP or not args
    if tool.bootstrap == "none" or told or (usage and not (tool.bootstrap == "zookeeper" or (tool.alone and not args))):
        return list(args)
    match tool.bootstrap:
        case "server":
            return ["--bootstrap-server", bootstrap, *args]
        case "server-last":
            return [*args, "--bootstrap-server", bootstrap]
        case "broker-list":
            return [*args] if "--broker-list" in given else ["--broker-list", bootstrap, *args]
        case "producer":
            return _producer(args, release, bootstrap)
        case "positional":
            return _positional(args, bootstrap)
        case "zookeeper":
            where = [] if args and ADDRESS.fullmatch(args[0]) else [_zookeeper(name, zookeeper)]
            return ["-server", *where, *args]
        case "zookeeper.connect":
            return ["--zookeeper.connect", _zookeeper(name, zookeeper), *args]


def _producer(args: Sequence[str], release: tuple[int, ...], bootstrap: str) -> list[str]:
    if any(each.startswith("bootstrap.servers=") for each in args):
        return list(args)
    if release >= PRODUCER_OPTION_SINCE:
        return ["--bootstrap-server", bootstrap, *args]
    address = f"bootstrap.servers={bootstrap}"
    if "--producer-props" in args:
        at = list(args).index("--producer-props") + 1
        return [*args[:at], address, *args[at:]]
    # Before the other options, so that the list of properties ends with the next of them.
    return ["--producer-props", address, *args]


def _positional(args: Sequence[str], bootstrap: str) -> list[str]:
    if args[0].startswith("--"):  # the newer option
        return ["--bootstrap-server", bootstrap, *args]
    return list(args) if ADDRESS.fullmatch(args[0]) else [bootstrap, *args]


def _zookeeper(name: str, zookeeper: str | None) -> str:
    if zookeeper is None:
        raise UsageProblem(f"This lab has no ZooKeeper for {name}: start one with `ackproof up --mode zookeeper`.")
    return zookeeper


def _options(args: Sequence[str]) -> Iterator[str]:
    """The names of the options among the arguments, `--name=value` as `--name`."""
    return (each.partition("=")[0] for each in args if each.startswith("-"))


def _serves(name: str, jars: Path) -> bool:
    return not name.startswith("zookeeper") or any(jars.glob("zookeeper-*.jar"))


def _version(jars: Path) -> str:
    for jar in sorted(jars.glob("kafka-clients-*.jar")):
        if match := re.fullmatch(r"kafka-clients-(\d+\.\d+[\w.]*)\.jar", jar.name):
            return match[1]
    raise CannotHere(f"There are no jars of Kafka in {jars}.")


def _release(jars: Path) -> tuple[int, ...]:
    return _numbers(_version(jars))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(each) for each in re.findall(r"\d+", version)[:2])


def _has(jars: Path, class_name: str) -> bool:
    entry = class_name.replace(".", "/") + ".class"
    likely = [jar for pattern in LIKELY_JARS for jar in sorted(jars.glob(pattern))]
    others = [jar for jar in sorted(jars.glob("*.jar")) if jar not in likely]
    return any(entry in _entries(jar) for jar in (*likely, *others))


@lru_cache(maxsize=256)
def _entries(jar: Path) -> frozenset[str]:
    with zipfile.ZipFile(jar) as opened:
        return frozenset(name for name in opened.namelist() if name.endswith(".class"))
