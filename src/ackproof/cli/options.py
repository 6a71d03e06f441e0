"""Options that several commands share, and how durations and shares are written."""

from __future__ import annotations

import re
import sys
from typing import Annotated

import typer

from ackproof.core.cluster_guard import refuse_settings
from ackproof.core.errors import CannotHere, UsageProblem
from ackproof.core.sites import FIRST_SITE
from ackproof.lab import client as control
from ackproof.lab.audit_log import Events
from ackproof.lab.directory import LabDirectory, labs_root
from ackproof.lab.spec import DEFAULT_NAME

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "": 1.0}

_SECONDS_MIN = 0.001
_SECONDS_MAX = 7 * 86_400.0


def seconds(text: str) -> float:
    """Read a duration: 30s, 500ms, 2m, 1h; a bare number is seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|)", text.strip())
    value = float(match[1]) * _UNITS_S[match[2]] if match else 0.0
    if not _SECONDS_MIN <= value <= _SECONDS_MAX:
        raise UsageProblem(f"{text!r} is no duration: write it as 30s, 500ms or 2m, from 1ms to a week")
    return value


def share(text: str) -> float:
    """Read a share of packets: 5%, or 0.05."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(%?)", text.strip())
    value = float(match[1]) / (100 if match[2] else 1) if match else -1.0
    if not 0.001 <= value <= 1:
        raise UsageProblem(f"{text!r} is no share of packets: write it as 5% (from 0.1% to 100%)")
    return value


def _lab_names() -> list[str]:
    try:
        return sorted(entry.name for entry in labs_root().iterdir())
    except (OSError, CannotHere):
        return []


def complete_targets(context: typer.Context, incomplete: str) -> list[str]:
    """Complete a target in the shell: the nodes of the lab, and the roles."""
    from ackproof.lab.targets import ROLES

    try:
        spec = LabDirectory.of(context.params.get("name") or DEFAULT_NAME).started().spec
    except (OSError, CannotHere, UsageProblem):
        return []
    done, comma, begun = incomplete.rpartition(",")
    names = [*(node.name for node in spec.nodes), *(role.partition("TOPIC")[0].partition("GROUP")[0] for role in ROLES)]
    return [done + comma + name for name in names if name.startswith(begun)]


Name = Annotated[str, typer.Option("--name", envvar="ACKPROOF_LAB", help="The lab.", autocompletion=_lab_names)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output, and nothing else.")]
For = Annotated[
    str | None,
    typer.Option("--for", help="End the fault by itself after this long, for example 30s."),
]
Target = Annotated[
    str,
    typer.Argument(
        help="A node, a glob, a role such as leader:orders/0, or several with commas.", autocompletion=complete_targets
    ),
]
Targets = Annotated[
    list[str],
    typer.Argument(
        help="Nodes: names, globs ('kafka*'), or roles such as leader:orders/0.", autocompletion=complete_targets
    ),
]
Timeout = Annotated[str | None, typer.Option("--timeout", help="How long to wait.")]


def bootstrap(name: str, site: str = FIRST_SITE) -> str:
    """Return the bootstrap servers for clients inside the lab."""
    servers: str = control.call(name, "bootstrap")["sites"][site]
    if not servers:
        raise UsageProblem(f"{site}: this lab has no second cluster; `ackproof up --second 1` gives it one")
    return servers


def tell_trail(name: str, verb: str) -> None:
    """Write a command into the lab's audit trail that the lab itself does not see. A run in this lab then knows of
    it."""
    control.call(name, "nodes")  # raises a problem if there is no such lab, or if it does not answer
    Events(LabDirectory.of(name).events).add("asked", verb=verb, asked=" ".join(sys.argv[1:]), by=control._by())


def pairs(settings: list[str] | None, example: str) -> dict[str, str]:
    """Read settings that are written as KEY=VALUE."""
    made: dict[str, str] = {}
    for text in settings or []:
        key, separator, value = text.partition("=")
        if not separator:
            raise UsageProblem(f"--set {text}: write it as KEY=VALUE, for example {example}")
        made[key] = value
    refuse_settings(made)
    return made
