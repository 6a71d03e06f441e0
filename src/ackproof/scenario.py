"""A scenario: what is started, what is sent, what breaks when, and what is expected. Frozen data from one TOML file.

A file may hold `[shapes.NAME]` tables that change some of it (slow, crowd); `--set` changes single fields. Everything
is read and checked in full before anything starts, and every problem is named with its file and line.

Times are seconds since the load began (`at_s`), or the messages sent by all producers together (`at_messages`).
A fault ends at `until_s`, at `until_messages`, or, with `until = "load-ended"`, after the last send; and never before a
new leader epoch was seen on `not_before_new_epoch`, or `not_before_max_s` have passed since the fault began.
"""

from __future__ import annotations

import copy
import difflib
import re
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

import msgspec

from ackproof.errors import UsageProblem
from ackproof.record import Expected

Mode = Literal["zookeeper", "kraft"]
Value = str | int | float | bool

FAULT_KINDS: dict[str, str] = {
    "kill": "the process ends at once (SIGKILL)",
    "stop": "an orderly stop (SIGTERM)",
    "start": "started again",
    "restart": "stopped and started again",
    "replace": "killed, its disk lost, started again empty under its old id",
    "pause": "frozen (SIGSTOP)",
    "isolate": "cut off from all other nodes, or from `apart_from`; clients keep their way in",
    "partition": "the network splits into `groups`",
    "cut": "links between `targets` and `apart_from` are cut",
    "flaky": "a share `loss` of all packets is lost",
    "slow": "packets are late by `delay_ms`",
    "elect": "an election is asked for `partitions`: the preferred leader or, with `unclean`, any replica",
}
_ONE_OF = (frozenset({"at_s", "at_messages"}), frozenset({"until_s", "until_messages", "until"}))
LASTING = frozenset({"pause", "isolate", "partition", "cut", "flaky", "slow"})  # these are healed; the others are done
ROLE_PREFIXES = ("leader:", "follower:", "followers:", "coordinator:")
PLAIN_ROLES = ("controller", "zookeeper-leader", "all-brokers", "quorum")
CLIENTS = ("producer:", "consumer:")  # by number, counted from 1 in the scenario's order
CLIENT_KINDS = ("kill", "stop", "start", "pause")


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class ClusterPlan(Strict, frozen=True):
    brokers: int = 3
    quorum: int = 3
    racks: list[str] = []
    log_dirs: int = 1
    settings: dict[str, dict[str, Value]] = {}  # scope: key: value, as in `up --set scope.key=value`


class TopicPlan(Strict, frozen=True):
    name: str
    partitions: int = 1
    replication: int = 3
    settings: dict[str, Value] = {}


class PausePlan(Strict, frozen=True):
    after: int  # so many messages of this producer
    seconds: float


class OutboxPlan(Strict, frozen=True):
    give_up_after: int = 5  # failures in a row
    retry_s: float = 1.0
    exit_code: int = 75


class ProducerPlan(Strict, frozen=True):
    topic: str
    count: int
    rate: float | None = None  # messages a second, each; null: as fast as it goes
    acks: Literal["0", "1", "all"] = "all"
    copies: int = 1  # this many processes
    size: int = 16  # bytes of the value
    keys: int | None = None  # this many different keys; null: no key
    print: bool = False  # say each value and its offset
    pauses: list[PausePlan] = []  # in which nothing is due; only with a rate
    topic_check: Literal["validate", "create", "assume"] = "validate"  # before the first message
    topic_timeout_s: float = 30.0
    outbox: OutboxPlan | None = None  # messages go to a table first, in one transaction with the business
    exits: list[int] = []  # the exit codes expected of it, life after life; none: it ends well
    settings: dict[str, Value] = {}  # any of librdkafka's


class ConsumerPlan(Strict, frozen=True):
    topic: str
    group: str
    copies: int = 1
    protocol: Literal["eager", "cooperative", "consumer"] = "eager"  # the last is KIP-848's, where the broker has it
    static: bool = False  # a member that is known by its name again when it comes back
    start: Literal["earliest", "latest"] = "earliest"  # where the group has no committed offset
    commit: Literal["journaled", "auto", "never"] = "journaled"
    print: bool = False  # say each value, and each change of the assignment
    settings: dict[str, Value] = {}  # any of librdkafka's


class FaultPlan(Strict, frozen=True):
    kind: str
    targets: list[str] = []
    apart_from: list[str] = []
    groups: list[list[str]] = []
    at_s: float | None = None
    at_messages: int | None = None
    until_s: float | None = None
    until_messages: int | None = None
    until: Literal["load-ended"] | None = None
    not_before_new_epoch: str | None = None  # TOPIC/PARTITION
    not_before_max_s: float = 30.0
    one_way: bool = False
    new_connections: bool = False
    reset: bool = False
    port: int | None = None
    loss: float | None = None
    delay_ms: float | None = None
    partitions: list[str] = []  # of `elect`: TOPIC/PARTITION, or TOPIC/* for all
    unclean: bool = False
    may_fail: bool = False  # a refusal is an answer too
    before_clients: bool = False  # it begins before any client is started, in place of at_s

    @property
    def starts_a_producer(self) -> bool:
        return self.kind == "start" and any(target.startswith("producer:") for target in self.targets)

    @property
    def on_clients(self) -> bool:
        return any(target.startswith(CLIENTS) for target in self.targets)

    @property
    def lasting(self) -> bool:
        return self.kind in LASTING

    def when(self) -> str:
        if self.before_clients:
            return "before the clients start"
        return f"at {self.at_messages:,} messages" if self.at_messages is not None else f"at {self.at_s:g} s"

    def heals(self) -> str:
        if not self.lasting:
            return ""
        if self.until_messages is not None:
            end = f"at {self.until_messages:,} messages"
        else:
            end = "after the last send" if self.until else f"at {self.until_s:g} s"
        if self.not_before_new_epoch is None:
            return end
        return f"{end}, and not before a new leader epoch was seen or {self.not_before_max_s:g} s have passed"


class JudgePlan(Strict, frozen=True):
    """The judge's lines, where the scenario wants others than the judge's own."""

    unavailable_ms: float | None = None  # a wait for an acknowledgement that counts as an outage
    late_ms: float | None = None  # an acknowledgement that counts as late
    rate_line: float | None = None  # messages a second below which somebody should be told


class ClaimPlan(Strict, frozen=True):
    """What the brokers are expected to say of partitions at one moment of the run.

    `at` is "start" (the load begins), "before N" and "during N" (just before fault N, and just before it ends or the
    next one begins), or "end" (the final read). A broker is a node's name, or "target:N": what fault N hit.
    """

    at: str
    partitions: str  # TOPIC/PARTITION, or TOPIC/* for all
    leader: list[str] = []  # one of these leads
    not_leader: list[str] = []  # none of these leads
    isr: list[str] = []  # exactly these are in sync
    isr_without: list[str] = []
    isr_full: bool = False
    preferred: bool = False  # the first replica leads
    same_leader_as: str | None = None  # another moment


class Scenario(Strict, frozen=True):
    name: str
    section: str
    title: str
    summary: str
    producers: list[ProducerPlan]
    topics: list[TopicPlan]
    modes: list[Mode] = msgspec.field(default_factory=lambda: ["zookeeper", "kraft"])
    cluster: ClusterPlan = ClusterPlan()
    consumers: list[ConsumerPlan] = []
    faults: list[FaultPlan] = []
    claims: list[ClaimPlan] = []
    expect: dict[str, str] = {}  # check: required, allowed or forbidden
    expect_zookeeper: dict[str, str] = {}
    expect_kraft: dict[str, str] = {}
    judge: JudgePlan = JudgePlan()
    timeout_s: float = 600.0
    seed: int = 0

    def expected(self, mode: str) -> dict[str, Expected]:
        words = self.expect | (self.expect_kraft if mode == "kraft" else self.expect_zookeeper)
        return cast(dict[str, Expected], words)  # the words were checked when it was loaded

    @property
    def lasts_s(self) -> float | None:
        """How long the load lasts if nothing holds it up; null where a producer has no rate."""
        spans = [
            producer.count / producer.rate + sum(pause.seconds for pause in producer.pauses)
            for producer in self.producers
            if producer.rate
        ]
        return max(spans) if spans and len(spans) == len(self.producers) else None

    @property
    def total(self) -> int:
        return sum(producer.count * producer.copies for producer in self.producers)


# -- reading ---------------------------------------------------------------------------------------------------------


class Source(msgspec.Struct, frozen=True):
    """A scenario's file as text and as data, before shapes and settings are applied."""

    path: str
    text: str
    data: dict[str, Any]

    @property
    def shapes(self) -> list[str]:
        shapes = self.data.get("shapes", {})
        return ["base", *(shapes if isinstance(shapes, dict) else ())]


def bundled() -> list[str]:
    folder = resources.files("ackproof") / "scenarios"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def find(name: str) -> Source:
    """A scenario by the name of one of ours, or by the path of a file."""
    if name.endswith(".toml") or "/" in name:
        path = Path(name)
        try:
            return read_source(str(path), path.read_text(encoding="utf-8"))
        except OSError as problem:
            raise UsageProblem(f"{name} cannot be read: {problem.strerror}") from problem
        except UnicodeDecodeError:
            raise UsageProblem(f"{name} is no text in UTF-8") from None
    if name not in bundled():
        hint = did_you_mean(name, [f"{name}.toml"] if Path(f"{name}.toml").exists() else bundled())
        raise UsageProblem(f"no scenario {name!r}{hint}: `ackproof list` shows them; a file's name ends in .toml")
    text = (resources.files("ackproof") / "scenarios" / f"{name}.toml").read_text(encoding="utf-8")
    return read_source(f"{name}.toml", text)


def read_source(path: str, text: str) -> Source:
    try:
        return Source(path, text, tomllib.loads(text))
    except tomllib.TOMLDecodeError as problem:
        what, line = str(problem), re.search(r" \(at line (\d+), column \d+\)", str(problem))
        if line is None:
            raise UsageProblem(f"{path}: not TOML: {what}") from None
        raise UsageProblem(f"{path}:{line[1]}: not TOML: {what.replace(line[0], '')}") from None


def did_you_mean(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def load(source: Source, shape: str = "base", settings: Sequence[str] = ()) -> Scenario:
    """The scenario as it will run, or all its problems, each with its line."""
    data = copy.deepcopy(source.data)
    shapes = data.pop("shapes", {})
    if not isinstance(shapes, dict) or not all(isinstance(each, dict) for each in shapes.values()):
        raise UsageProblem(located(source, "shapes", "shapes: write each as a table, [shapes.NAME]"))
    if shape != "base":
        if shape not in shapes:
            raise UsageProblem(f"{source.path} has no shape {shape!r}: it has {', '.join(source.shapes)}")
        data = merged(data, shapes[shape])
    for setting in settings:
        _override(data, setting)
    scenario, found = _converted(data)
    if scenario is not None:
        from ackproof.scenario_check import problems

        found += [(where, what) for where, what in problems(scenario) if not _follows(where, what, found)]
    if scenario is None or found:
        told = [located(source, where, what) for where, what in found]
        raise UsageProblem(told[0] if len(told) == 1 else f"{source.path}: {len(told)} problems:", told[1:] and told)
    return scenario


_PROBLEMS_MAX = 50


def _converted(data: dict[str, Any]) -> tuple[Scenario | None, list[tuple[str, str]]]:
    """Everything that is wrong with the scenario's shape, and what is left of it without that.

    msgspec stops at the first problem; so what it complains of is taken out, or put in, and it is asked again.
    """
    found: list[tuple[str, str]] = []
    while len(found) < _PROBLEMS_MAX:
        try:
            scenario = msgspec.convert(data, Scenario)
        except msgspec.ValidationError as problem:
            where, what = _shape_problem(str(problem))
            if not _is_told(where, what, found):
                found.append((where, what))
            if not _mend(data, where, what):
                break
        else:
            return scenario, found
    return None, found


def _is_told(where: str, what: str, found: Sequence[tuple[str, str]]) -> bool:
    """A field that is missing because what stood there was taken out."""
    missing = re.search(r"required field `(\w+)`", what)
    return missing is not None and any(place == f"{where}.{missing[1]}".strip(".") for place, _ in found)


def _mend(data: Any, where: str, what: str) -> bool:
    *path, last = where.split(".") if where else [""]
    for step in path:
        data = data[int(step)] if isinstance(data, list) else data.get(step)
    if missing := re.search(r"required field `(\w+)`", what):
        table = data[int(last)] if isinstance(data, list) else data.get(last) if last else data
        if not isinstance(table, dict):
            return False
        table[missing[1]] = [] if missing[1] in ("topics", "producers") else 10**9 if missing[1] == "count" else "-"
        return True
    if isinstance(data, dict) and last in data:
        del data[last]
        return True
    return False


def _follows(where: str, what: str, found: Sequence[tuple[str, str]]) -> bool:
    """Whether this may only be a consequence of what was mended to be able to read on."""
    tables = {".".join(place.split(".")[:2]) for place, _ in found}
    if where in tables or any(where == place for place, _ in found):
        return True  # of the table as a whole: perhaps for want of the very key that was misspelt
    if any(what.endswith(f"required field `{where.rpartition('.')[2]}`") for _, what in found):
        return True
    topics_mended = any(place.startswith("topics") for place in tables)
    return topics_mended and ("no such partition" in what or "no topic" in what)


def merged(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Tables are merged, key by key; in lists of tables the entries are merged place by place.

    A new beginning or end takes the place of one that is written the other way.
    """
    ousted = {key for ways in _ONE_OF if ways & set(change) for key in ways}
    result = {key: value for key, value in base.items() if key not in ousted}
    for key, value in change.items():
        old = result.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            result[key] = merged(old, value)
        elif (
            isinstance(old, list) and isinstance(value, list) and all(isinstance(each, dict) for each in [*old, *value])
        ):
            pairs = [merged(each, new) for each, new in zip(old, value, strict=False)]
            result[key] = [*pairs, *old[len(pairs) :], *value[len(old) :]]
        else:
            result[key] = value
    return result


def _override(data: dict[str, Any], setting: str) -> None:
    """`producer.acks=all`: for every producer; `producers.0.rate=100`: for the first; `faults.0.at_s=5`."""
    name, separator, text = setting.partition("=")
    if not separator or not name.strip():
        raise UsageProblem(f"--set {setting}: write it as FIELD=VALUE, for example producer.acks=all")
    path = name.strip().split(".")
    plurals = {name: f"{name}s" for name in ("producer", "consumer", "topic", "fault", "claim")}
    value = _value(text)
    if path[:2] == ["cluster", "settings"] and len(path) > 3:  # cluster.settings.SCOPE.KEY, as `up --set` has it
        table: Any = data
        for step in path[:3]:
            table = table.setdefault(step, {})
            if not isinstance(table, dict):
                raise UsageProblem(f"--set {setting}: {step} is no table")
        table[".".join(path[3:])] = value
    elif path[0] in plurals and len(path) > 1:
        entries = data.get(plurals[path[0]], [])
        if not isinstance(entries, list):
            raise UsageProblem(f"--set {setting}: {plurals[path[0]]} is no list of tables")
        for entry in entries:
            _put(entry, path[1:], value, setting)
    else:
        _put(data, path, value, setting)


def _value(text: str) -> Any:
    """As TOML reads it; what is no TOML is text. acks is written bare by everybody, and is text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _put(data: Any, path: list[str], value: Any, setting: str) -> None:
    if "settings" in path[:-1]:  # a key of Kafka's has dots of its own
        place = path.index("settings")
        path = [*path[: place + 1], ".".join(path[place + 1 :])]
    for number, step in enumerate(path[:-1]):
        if isinstance(data, list):
            if not step.isdigit() or int(step) >= len(data):
                raise UsageProblem(f"--set {setting}: there is no {'.'.join(path[: number + 1])}")
            data = data[int(step)]
        elif isinstance(data, dict):
            data = data.setdefault(step, {})
    if not isinstance(data, dict):
        raise UsageProblem(f"--set {setting}: there is no such field")
    for ways in _ONE_OF:
        if path[-1] in ways:
            for other in ways:
                data.pop(other, None)
    data[path[-1]] = str(value) if path[-1] == "acks" else value


# -- where in the file -----------------------------------------------------------------------------------------------


def line_numbers(text: str) -> dict[str, int]:
    """The line of each key and table, by its path: `faults.0.targets`. Enough of TOML for our own files."""
    lines: dict[str, int] = {}
    prefix = ""
    counts: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if match := re.match(r"\s*\[\[\s*([^\]]+?)\s*\]\]", line):
            count = counts.get(match[1], 0)
            counts[match[1]] = count + 1
            prefix = f"{match[1]}.{count}"
            lines[prefix] = number
        elif match := re.match(r"\s*\[\s*([^\]]+?)\s*\]", line):
            prefix = match[1]
            lines[prefix] = number
        elif match := re.match(r"\s*([A-Za-z0-9_\"'.-]+)\s*=", line):
            key = match[1].replace('"', "").replace("'", "")
            lines[f"{prefix}.{key}" if prefix else key] = number
    return lines


def located(source: Source, where: str, what: str) -> str:
    """Name the line of the field or, where a shape or --set gave it, of the nearest table that holds it."""
    path, lines, place = source.path, line_numbers(source.text), where
    while place and place not in lines:
        place = place.rpartition(".")[0]
    number = lines.get(place)
    return f"{path}:{number}: {what}" if number else f"{path}: {what}"


_TABLES: dict[str, type[msgspec.Struct]] = {
    "cluster": ClusterPlan,
    "topics": TopicPlan,
    "producers": ProducerPlan,
    "consumers": ConsumerPlan,
    "faults": FaultPlan,
    "judge": JudgePlan,
    "claims": ClaimPlan,
}


def _shape_problem(message: str) -> tuple[str, str]:
    """msgspec's own complaint as a place and a sentence, with a hint where a key was only misspelt."""
    what, _, at = message.partition(" - at `")
    where = re.sub(r"\[(\d+)\]", r".\1", at.rstrip("`").removeprefix("$")).strip(".")
    where = where.replace("[...]", "")
    if match := re.match(r"Object contains unknown field `(.+)`", what):
        known = _fields(where)
        hint = did_you_mean(match[1], known) or f": known are {', '.join(known)}"
        return f"{where}.{match[1]}".strip("."), f"unknown key {match[1]!r}{hint}"
    if what.startswith("Invalid enum value") and (choices := _choices(where)):
        return where, f"{where}: {what.removeprefix('Invalid enum value ')} is none of {', '.join(choices)}"
    if match := re.match(r"Expected `(.+)`, got `(.+)`", what):
        wanted, got = (" or ".join(_KINDS.get(kind, kind) for kind in each.split(" | ")) for each in match.groups())
        return where, f"{where or 'the file'}: {wanted.removesuffix(' or nothing')} is wanted, not {got}"
    return where, f"{where or 'the file'}: {what[0].lower()}{what[1:]}"


_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
}


def _choices(where: str) -> list[str]:
    """The words that a field takes."""
    table, name = where.split(".")[0] if "." in where else "", re.sub(r"\.\d+$", "", where).rpartition(".")[2]
    kind = _TABLES.get(table, Scenario)
    hint = get_type_hints(kind).get(name)
    found: list[str] = []
    asked = [hint]
    while asked:
        each = asked.pop()
        found += [word for word in get_args(each) if isinstance(word, str)] if get_origin(each) is Literal else []
        asked += [] if get_origin(each) is Literal else list(get_args(each))
    return found


def _fields(where: str) -> list[str]:
    return [field.name for field in msgspec.structs.fields(_TABLES.get(where.split(".")[0], Scenario))]


def json_schema() -> dict[str, Any]:
    """For editors: what a scenario file may hold. A shape may change any part of it."""
    from ackproof.scenario_check import CHECK_NAMES

    schema = msgspec.json.schema(Scenario)
    definitions = schema["$defs"]
    properties = definitions["Scenario"]["properties"]
    properties["shapes"] = {"type": "object", "description": "Changes to the scenario, by the shape's name."}
    for name in ("expect", "expect_zookeeper", "expect_kraft"):
        word = {"enum": ["required", "allowed", "forbidden"]}
        properties[name] = {
            "type": "object",
            "properties": dict.fromkeys(CHECK_NAMES, word),
            "additionalProperties": False,
        }
    kinds = [{"const": kind, "description": words} for kind, words in FAULT_KINDS.items()]
    definitions["FaultPlan"]["properties"]["kind"] = {"oneOf": kinds}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Ackproof scenario", **schema}
