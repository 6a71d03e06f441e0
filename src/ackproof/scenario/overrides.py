"""Changes a scenario's data by a shape, and by `--set FIELD=VALUE`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from ackproof.core.errors import UsageProblem
from ackproof.model.fault import BEGINNINGS, ENDS
from ackproof.scenario.source import Table, parsed

PLURALS = {name: f"{name}s" for name in ("producer", "consumer", "topic", "fault", "claim", "alert")}
_ONE_OF = ({*BEGINNINGS} - {"before_clients"}, {*ENDS})  # of the keys in each set, a fault has one


def merged(base: Mapping[str, Any], change: Mapping[str, Any]) -> Table:
    """Merge tables key by key, and lists of tables place by place.

    A new beginning or end of a fault replaces one that is written the other way.
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


def override(data: Table, setting: str) -> None:
    """Set `producer.acks=all` for every producer, `producers.0.rate=100` for the first, or `faults.0.at_s=5`."""
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
                raise UsageProblem(f"--set {setting}: {step} is not a table")
        table[".".join(path[3:])] = value
    elif path[0] in PLURALS and len(path) > 1:
        entries = data.get(PLURALS[path[0]], [])
        if not isinstance(entries, list):
            raise UsageProblem(f"--set {setting}: {PLURALS[path[0]]} is not a list of tables")
        for entry in entries:
            _put(entry, path[1:], value, setting)
    else:
        if isinstance(data.get(path[0]), list) and len(path) > 1 and not path[1].isdigit():
            one = next((word for word, words in PLURALS.items() if words == path[0]), "")
            ways = f"{one}.{'.'.join(path[1:])} for all of them, or " if one else ""
            raise UsageProblem(
                f"--set {setting}: {path[0]} is a list: write {ways}{path[0]}.0.{'.'.join(path[1:])} for the first"
            )
        _put(data, path, value, setting)


def _value(name: str, text: str) -> Any:
    """Read a value as TOML; what is not TOML is text."""
    try:
        data = parsed(f"value = {text}")
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
    data[path[-1]] = str(value) if path[-1] == "acks" else value  # acks is text, and people write it without quotes
