"""A scenario's TOML file: found, read, changed by a shape and by `--set`, and checked in full before anything starts.

A file may hold `[shapes.NAME]` tables that change some of it (slow, crowd); `--set` changes single fields. All problems
are named at once, each with its file and line.
"""

from __future__ import annotations

import bisect
import copy
import re
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from ackproof.core.cluster_guard import SETTINGS, is_elsewhere, refusal
from ackproof.core.errors import UsageProblem, did_you_mean
from ackproof.core.safe_read import read_named
from ackproof.model.checks import CHECKS
from ackproof.model.scenario import (
    FAULT_KINDS,
    AlertPlan,
    ClaimPlan,
    ClusterPlan,
    ConsumerPlan,
    DrawnPlan,
    FaultPlan,
    HealthPlan,
    JudgePlan,
    ProducerPlan,
    Scenario,
    TopicPlan,
)
from ackproof.scenario.validate.problems import problems

_ONE_OF = (frozenset({"at_s", "at_messages", "after_s"}), frozenset({"until_s", "until_messages", "until"}))
_PLURALS = {name: f"{name}s" for name in ("producer", "consumer", "topic", "fault", "claim", "alert")}
_PROBLEMS_MAX = 50
_DEEPEST = 50  # tables and lists in one another; a scenario has six


class Source(msgspec.Struct, frozen=True):
    """A scenario's file as text and as data, before shapes and settings are applied."""

    path: str
    text: str
    data: dict[str, Any]
    bundled: bool = False  # one of ours, and so no stranger's

    @property
    def shapes(self) -> list[str]:
        shapes = self.data.get("shapes", {})
        return ["base", *(shapes if isinstance(shapes, dict) else ())]


def bundled() -> list[str]:
    folder = resources.files("ackproof.scenario") / "library"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def find(name: str) -> Source:
    """A scenario by the name of one of ours, or by the path of a file."""
    if name.endswith(".toml") or "/" in name:
        path = Path(name)
        try:
            return read_source(str(path), read_named(path))
        except OSError as problem:
            raise UsageProblem(f"{name} cannot be read: {problem.strerror}") from problem
        except UnicodeDecodeError:
            raise UsageProblem(f"{name} is no text in UTF-8") from None
    if name not in bundled():
        beside = [path.name for path in Path().glob("*.toml")]
        hint = did_you_mean(name, [f"{name}.toml"] if f"{name}.toml" in beside else bundled())
        raise UsageProblem(f"no scenario {name!r}{hint}: `ackproof list` shows them; a file's name ends in .toml")
    text = (resources.files("ackproof.scenario") / "library" / f"{name}.toml").read_text(encoding="utf-8")
    return read_source(f"{name}.toml", text, bundled=True)


def read_source(path: str, text: str, bundled: bool = False) -> Source:
    try:
        if (data := _parsed(text)) is not None:
            return Source(path, text, data, bundled)
    except tomllib.TOMLDecodeError as problem:
        what, line = str(problem), re.search(r" \(at line (\d+), column \d+\)", str(problem))
        if line is None:  # something that it lacks, at its end
            last = text.rstrip().count("\n") + 1
            raise UsageProblem(f"{path}:{last}: not TOML: {what}") from None
        raise UsageProblem(f"{path}:{line[1]}: not TOML: {what.replace(line[0], '')}") from None
    raise UsageProblem(f"{path}:{_first_deep_line(text)}: nested too deeply")


def _parsed(text: str) -> dict[str, Any] | None:
    """Null where it is nested so deeply that whoever follows it down might not come back."""
    try:
        data = tomllib.loads(text)
    except RecursionError:
        return None
    level: list[Any] = [data]
    for _ in range(_DEEPEST):
        inside = (each.values() if isinstance(each, dict) else each for each in level)
        level = [value for value in chain.from_iterable(inside) if isinstance(value, dict | list)]
    return None if level else data


def _first_deep_line(text: str) -> int:
    lines = text.splitlines(keepends=True)

    def deep(last: int) -> bool:
        try:
            return _parsed("".join(lines[: last + 1])) is None
        except tomllib.TOMLDecodeError:
            return False

    return bisect.bisect_left(range(len(lines)), True, key=deep) + 1


def load(source: Source, shape: str = "base", settings: Sequence[str] = (), seed: int | None = None) -> Scenario:
    """The scenario as it will run with this seed, or all its problems, each with its line."""
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
        _refuse_elsewhere(source, scenario)
        found += [(where, what) for where, what in problems(scenario) if not _follows(where, what, found)]
    if scenario is None or found:
        told = [_told(source, where, what, settings) for where, what in found]
        raise UsageProblem(told[0] if len(told) == 1 else f"{source.path}: {len(told)} problems:", told[1:] and told)
    return scenario.draw(seed)


def _refuse_elsewhere(source: Source, scenario: Scenario) -> None:
    """A fault or a client that is aimed at somebody else's cluster."""
    drawn = scenario.drawn.faults if scenario.drawn else []
    faults = zip(
        [*_places("faults", scenario.faults), *_places("drawn.faults", drawn)], [*scenario.faults, *drawn], strict=True
    )
    aims = [(place, [*fault.targets, *fault.apart_from, *chain(*fault.groups)]) for place, fault in faults]
    places = [*_places("producers", scenario.producers), *_places("consumers", scenario.consumers)]
    for place, client in zip(places, scenario.clients, strict=True):
        aims.append((f"{place}.bootstrap", client.bootstrap))
        aims.append((f"{place}.settings", [key for key in client.settings if key in SETTINGS]))
    for place, names in aims:
        for name in names:
            if name in SETTINGS or is_elsewhere(name):
                raise refusal(located(source, place, name))


def _places(table: str, entries: Sequence[object]) -> list[str]:
    return [f"{table}.{number}" for number in range(len(entries))]


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
    missing = " ".join(what for _, what in found if "required field" in what)
    if "`producers`" in missing and "messages are sent" in what:
        return True
    topics_mended = "`topics`" in missing or any(place.startswith("topics") for place in tables)
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
    value = _value(name, text)
    if path[:2] == ["cluster", "settings"] and len(path) > 3:  # cluster.settings.SCOPE.KEY, as `up --set` has it
        table: Any = data
        for step in path[:3]:
            table = table.setdefault(step, {})
            if not isinstance(table, dict):
                raise UsageProblem(f"--set {setting}: {step} is no table")
        table[".".join(path[3:])] = value
    elif path[0] in _PLURALS and len(path) > 1:
        entries = data.get(_PLURALS[path[0]], [])
        if not isinstance(entries, list):
            raise UsageProblem(f"--set {setting}: {_PLURALS[path[0]]} is no list of tables")
        for entry in entries:
            _put(entry, path[1:], value, setting)
    else:
        if isinstance(data.get(path[0]), list) and len(path) > 1 and not path[1].isdigit():
            one = next((word for word, words in _PLURALS.items() if words == path[0]), "")
            ways = f"{one}.{'.'.join(path[1:])} for all of them, or " if one else ""
            raise UsageProblem(
                f"--set {setting}: {path[0]} is a list: write {ways}{path[0]}.0.{'.'.join(path[1:])} for the first"
            )
        _put(data, path, value, setting)


def _value(name: str, text: str) -> Any:
    """As TOML reads it; what is no TOML is text. acks is written bare by everybody, and is text."""
    try:
        data = _parsed(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    if data is None:
        raise UsageProblem(f"--set {name}: nested too deeply")
    return data["value"]


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
    """Name the line of the field or, where a shape gave it, of the nearest table that holds it."""
    path, lines, place = source.path, line_numbers(source.text), where
    while place and place not in lines:
        place = place.rpartition(".")[0]
    number = lines.get(place) or lines.get(f"{where}.0")  # the first of its [[tables]]
    return f"{path}:{number}: {what}" if number else f"{path}: {what}"


def _told(source: Source, where: str, what: str, settings: Sequence[str]) -> str:
    """A problem with its place: the `--set` that gave that field, if one did, or else the line."""
    for setting in reversed(settings):
        first, *rest = setting.partition("=")[0].strip().split(".")
        ways = (where, re.sub(r"\.\d+", "", where, count=1))  # of the first producer, or of every one
        if ".".join([_PLURALS.get(first, first), *rest]) in ways:
            return f"--set {setting}: {what}"
    return located(source, where, what)


_TABLES: dict[str, type[msgspec.Struct]] = {
    "cluster": ClusterPlan,
    "topics": TopicPlan,
    "producers": ProducerPlan,
    "consumers": ConsumerPlan,
    "faults": FaultPlan,
    "drawn": DrawnPlan,
    "judge": JudgePlan,
    "claims": ClaimPlan,
    "health": HealthPlan,
    "alerts": AlertPlan,
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
    table, name = where.rpartition(".")[0], re.sub(r"\.\d+$", "", where).rpartition(".")[2]
    hint = get_type_hints(_kind(table)).get(name)
    found: list[str] = []
    asked = [hint]
    while asked:
        each = asked.pop()
        found += [word for word in get_args(each) if isinstance(word, str)] if get_origin(each) is Literal else []
        asked += [] if get_origin(each) is Literal else list(get_args(each))
    return found


def _fields(where: str) -> list[str]:
    return [field.name for field in msgspec.structs.fields(_kind(where))]


def _kind(where: str) -> type[msgspec.Struct]:
    """What a table is, or a table within it: `consumers.0.receiver`."""
    name, *path = where.split(".")
    kind = _TABLES.get(name, Scenario)
    for step in path:
        hint = get_type_hints(kind).get(step)
        inner = [each for each in get_args(hint) if isinstance(each, type) and issubclass(each, msgspec.Struct)]
        kind = inner[0] if inner else kind
    return kind


def json_schema() -> dict[str, Any]:
    """For editors: what a scenario file may hold. A shape may change any part of it."""
    schema = msgspec.json.schema(Scenario)
    definitions = schema["$defs"]
    properties = definitions["Scenario"]["properties"]
    properties["shapes"] = {"type": "object", "description": "Changes to the scenario, by the shape's name."}
    for name in ("expect", "expect_zookeeper", "expect_kraft"):
        word = {"enum": ["required", "allowed", "forbidden"]}
        properties[name] = {
            "type": "object",
            "properties": dict.fromkeys(CHECKS, word),
            "additionalProperties": False,
        }
    kinds = [{"const": kind, "description": words} for kind, words in FAULT_KINDS.items()]
    definitions["FaultPlan"]["properties"]["kind"] = {"oneOf": kinds}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Ackproof scenario", **schema}
