"""Compares a scenario file with the structs of the model, and reports every key and value of the wrong shape at once.

msgspec stops at the first problem. So what is wrong is left out here or, where the struct needs it, filled in. The rest
is read, so that it can be checked as well.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec.structs import FieldInfo

from ackproof.core.errors import did_you_mean
from ackproof.model.fault import ENDS, AnyFault, kind_of
from ackproof.model.faults import FAULTS
from ackproof.model.scenario import Scenario
from ackproof.scenario.source import Table

_FAULT_KEYS = {field.name for fault in FAULTS.values() for field in msgspec.structs.fields(fault)}
_WORDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false", list: "a list", dict: "a table"}
_MANY = 10**9  # in the place of a number that is missing: more than anything that the file asks for


Problem = tuple[str, str]  # where in the file, `faults.0.targets`, and what is wrong


class Shape:
    """What is wrong with the shape of a file."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._unsure: list[str] = []  # places where something was left out or filled in

    def add(self, place: str, text: str) -> None:
        self.problems.append((place, text))
        self._unsure.append(place)

    def add_unused(self, place: str, text: str) -> None:
        """Add a problem after which the rest of the table is read as it stands."""
        self.problems.append((place, text))

    def leave_open(self, place: str) -> None:
        """Note that something is filled in for which another problem is the reason."""
        self._unsure.append(place)

    def explains(self, problem: Problem) -> bool:
        """Whether another problem may only follow from what was left out or filled in."""
        where, text = problem
        if any(place == where or place.startswith(f"{where}.") for place in self._unsure):
            return True
        about_topics = "no topic" in text or "no such partition" in text
        return about_topics and any(place.startswith("topics") for place in self._unsure)


def read_shape(data: Table) -> tuple[Scenario, Shape]:
    """Return the scenario as far as it can be read, and what is wrong with its shape."""
    found = Shape()
    fitting = _table(Scenario, data, "", found)
    return msgspec.convert(fitting, Scenario), found


@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[dict[str, FieldInfo], Mapping[str, object]]:
    """Return the struct's fields and their types. They are kept, because to evaluate the types takes long."""
    return {field.name: field for field in msgspec.structs.fields(kind)}, get_type_hints(kind, include_extras=True)


def _table(kind: type[msgspec.Struct], data: Any, where: str, found: Shape) -> Table:
    """Return the keys that the struct has, each with a value that fits."""
    if not isinstance(data, dict):
        found.add(where, f"{where}: a table is wanted, not {_word(data)}")
        data = {}
    fields, hints = _fields(kind)
    fitting: Table = {}
    misspelt: set[str] = set()
    for key, value in data.items():
        place = _join(where, key)
        if key in fields:
            good, value = _value(hints[key], value, place, found)
            if good or fields[key].required:
                fitting[key] = value
            continue
        if issubclass(kind, AnyFault) and key in _FAULT_KEYS:
            if value not in ([], False):  # with which a shape takes away what another kind of fault had
                found.add_unused(place, _not_of_kind(kind, key))
            continue
        misspelt |= {*difflib.get_close_matches(key, fields, n=1)}
        found.add(place, f"unknown key {key!r}{did_you_mean(key, list(fields)) or ': known are ' + ', '.join(fields)}")
    for key, field in fields.items():
        if field.required and key not in fitting:
            fitting[key] = _filled_in(hints[key])
            place = _join(where, key)
            if key in misspelt:
                found.leave_open(place)
            else:
                found.add(place, f"{_name_of(kind, where)} needs {key}")
    return fitting


def _not_of_kind(kind: type[AnyFault], key: str) -> str:
    if key in ENDS:
        return f"{kind_of(kind)} does not last, so it has no end: use start, or another fault, to undo it"
    return f"{kind_of(kind)} has no {key}"


def _value(hint: Any, value: Any, where: str, found: Shape) -> tuple[bool, Any]:
    """Return whether a value fits its type, and the value, or what is read in its place."""
    options = _options(hint)
    tables = [each for each in options if isinstance(each, type) and issubclass(each, msgspec.Struct)]
    if tables:
        if issubclass(tables[0], AnyFault):
            return True, _fault(value, where, found)
        return True, _table(tables[0], value, where, found)
    bare = _bare(options[0])
    if get_origin(bare) is list and isinstance(value, list) and (value or not _needs_entries(hint)):
        inner = [_value(get_args(bare)[0], each, f"{where}.{place}", found) for place, each in enumerate(value)]
        fitting = [each for good, each in inner if good]
        return True, fitting or (_filled_in(hint) if value else [])
    if get_origin(bare) is dict and isinstance(value, dict):
        pairs = {key: _value(get_args(bare)[1], each, f"{where}.{key}", found) for key, each in value.items()}
        return True, {key: each for key, (good, each) in pairs.items() if good}
    try:
        return True, msgspec.convert(value, hint)
    except msgspec.ValidationError:
        found.add(where, f"{where}: {_wanted(options, value)}")
        return False, _filled_in(hint)


def _fault(data: Any, where: str, found: Shape) -> Table:
    """Return a fault that fits its kind, or where its kind is not known, the kind that comes nearest."""
    table: Table = data if isinstance(data, dict) else {}
    key = "kind" if "kind" in table else next(iter(difflib.get_close_matches("kind", table, n=1)), "kind")
    name, rest = table.get(key), {own: value for own, value in table.items() if own != key}
    if not isinstance(data, dict):
        found.add(where, f"{where}: a table is wanted, not {_word(data)}")
    elif key != "kind":
        found.add(f"{where}.{key}", f"unknown key {key!r} (did you mean kind?)")
    elif name is None:
        found.add(f"{where}.kind", "a fault needs kind")
    elif not isinstance(name, str):
        found.add(f"{where}.kind", f"{where}.kind: text is wanted, not {_word(name)}")
    elif name not in FAULTS:
        hint = did_you_mean(name, list(FAULTS))
        found.add(f"{where}.kind", f"no kind of fault {name!r}{hint}: known are {', '.join(FAULTS)}")
    if isinstance(name, str) and name in FAULTS:
        return {"kind": name, **_table(FAULTS[name], rest, where, found)}
    near = difflib.get_close_matches(str(name), FAULTS, n=1) or [max(FAULTS, key=lambda kind: _keys_of(kind, rest))]
    own = Shape()
    fitting = _table(FAULTS[near[0]], rest, where, own)
    for place, text in own.problems:
        if "did you mean" in text:
            found.add(place, text)
    return {"kind": near[0], **fitting}


def _keys_of(kind: str, table: Table) -> int:
    """Count how many keys of a table a kind of fault has."""
    return len(table.keys() & {field.name for field in msgspec.structs.fields(FAULTS[kind])})


def _options(hint: Any) -> list[Any]:
    """Return the types that a value may have, without None, which TOML does not have."""
    if get_origin(hint) in (Union, UnionType):
        return [option for each in get_args(hint) if each is not NoneType for option in _options(each)]
    return [hint]


def _bare(hint: Any) -> Any:
    """Return a type without its bounds."""
    return _bare(get_args(hint)[0]) if get_origin(hint) is Annotated else hint


def _bounds(hint: Any) -> list[msgspec.Meta]:
    noted = hint.__metadata__ if get_origin(hint) is Annotated else ()
    return [each for each in noted if isinstance(each, msgspec.Meta)]


def _needs_entries(hint: Any) -> bool:
    return any(bound.min_length for bound in _bounds(hint))


def _wanted(options: list[Any], value: Any) -> str:
    """Say what is wanted in the place of a value."""
    bare = [_bare(each) for each in options]
    choices = [choice for each in bare if get_origin(each) is Literal for choice in get_args(each)]
    if choices and isinstance(value, type(choices[0])):
        return f"{value!r} is none of {', '.join(map(str, choices))}"
    kinds = [str if get_origin(each) is Literal else get_origin(each) or each for each in bare]
    if type(value) in kinds or (float in kinds and type(value) is int):
        return _out_of_bounds(options[0], value)
    words = [_WORDS[kind] for kind in dict.fromkeys(kinds)]
    return f"{' or '.join(words)} is wanted, not {_word(value)}"


def _out_of_bounds(hint: Any, value: Any) -> str:
    if _needs_entries(hint):
        return "at least one entry is wanted"
    bounds = _bounds(hint)
    low = [f"from {each.ge:,}" for each in bounds if each.ge is not None]
    low += [f"above {each.gt:,}" for each in bounds if each.gt is not None]
    high = [f"up to {each.le:,}" for each in bounds if each.le is not None]
    return f"{value} is out of range: {', '.join([*low, *high])}"


def _filled_in(hint: Any) -> Any:
    """Return a value that fits, in the place of one that is missing or wrong."""
    option = _options(hint)[0]
    bare = _bare(option)
    if get_origin(bare) is list:
        return [_filled_in(get_args(bare)[0])] if _needs_entries(option) else []
    if bare in (int, float):
        return next((bound.le for bound in _bounds(option) if bound.le is not None), _MANY)
    if get_origin(bare) is Literal:
        return get_args(bare)[0]
    return "-" if bare is str else {}


def _word(value: Any) -> str:
    return _WORDS.get(type(value), "a date or a time")


def _join(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def _name_of(kind: type[msgspec.Struct], where: str) -> str:
    """Name a table in a sentence: a fault by its kind, another one by the key in the file."""
    if issubclass(kind, AnyFault):
        return kind_of(kind)
    names = [part for part in where.split(".") if part and not part.isdigit()]
    if not names:
        return "a scenario"
    last = names[-1]
    return f"a {last[:-1]}" if last.endswith("s") else last
