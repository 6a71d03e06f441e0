"""The commands that inject and heal faults. Each asks the lab, which proves the effect before it answers.

The command of a fault is made from its struct in `model/faults.py`: its help, its arguments and its options. Written
out here are the commands that heal, and those with options that no scenario has.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec
import typer

from ackproof.cli.options import For, Json, Name, Targets, Timeout, complete_targets, seconds, share
from ackproof.cli.ui.console import Steps, say, say_json
from ackproof.core.cluster_guard import refuse_elsewhere
from ackproof.core.errors import UsageProblem
from ackproof.lab import client as control
from ackproof.lab.spec import DEFAULT_NAME
from ackproof.model.fault import AnyFault, LastingFault, kind_of
from ackproof.model.faults import FAULTS, Restart, Start, Stop

Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it serves.")]


def _ask(name: str, verb: str, as_json: bool, title: str | None = None, **arguments: Any) -> None:
    given = {key: value for key, value in arguments.items() if value is not None}
    refuse_elsewhere(given.get("nodes"))
    with Steps(f"{title or verb} in lab {name}").running() as steps:
        result = control.call(name, verb, steps, **given)
    if as_json:
        say_json(result)
    else:
        say(*result["said"])


def _for(text: str | None) -> float | None:
    if text is None:
        return None
    if (value := seconds(text)) < 0.1:
        raise UsageProblem(f"{text}: a fault this short cannot be proved; use at least 100ms")
    return value


# -- commands made from the structs ----------------------------------------------------------------------------------


def _command(kind: type[AnyFault]) -> Callable[..., None]:
    """Make the command of a kind of fault."""
    fields = {field.name: _Parameter(field, hint) for field, hint in _options(kind)}

    def command(**given: Any) -> None:
        fault = kind(**{name: field.value(given[field.name]) for name, field in fields.items()})
        refuse_elsewhere(name for _, name in fault.names)
        for_s = _for(given.get("for_"))
        _ask(given["name"], "inject", given["as_json"], kind_of(kind), fault=fault, for_s=for_s)

    parameters = [field.parameter() for field in fields.values()]
    if kind.lasting:
        parameters.append(_parameter("for_", For, None))
    parameters += [_parameter("name", Name, DEFAULT_NAME), _parameter("as_json", Json, False)]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    return command


def _options(kind: type[AnyFault]) -> Iterator[tuple[msgspec.structs.FieldInfo, Any]]:
    """Yield the fields of a kind that are its own, with their types; the others say when it begins and ends."""
    hints = get_type_hints(kind, include_extras=True)
    when = {*AnyFault.__struct_fields__, *LastingFault.__struct_fields__}
    for field in msgspec.structs.fields(kind):
        if field.name not in when:
            yield field, hints[field.name]


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=annotation)


class _Parameter:
    """A field of a fault as an argument or an option of its command."""

    def __init__(self, field: msgspec.structs.FieldInfo, hint: Any) -> None:
        self._default = inspect.Parameter.empty if field.required else field.default
        hint = next(each for each in (hint, *get_args(hint)) if get_origin(each) is Annotated)
        self._kind: Any = get_args(hint)[0]
        self._notes = [note for note in hint.__metadata__ if isinstance(note, msgspec.Meta)]
        extra = {key: value for note in self._notes for key, value in (note.extra or {}).items()}
        self._unit = extra.get("unit")
        self._argument = extra.get("argument")
        self._option = extra.get("option", f"--{field.name.replace('_', '-')}")
        self.name = self._argument.lower() if self._argument else field.name

    def _noted(self, what: str) -> Any:
        """Return what the field's type notes of its help or its bounds."""
        return next((value for note in self._notes if (value := getattr(note, what)) is not None), None)

    def parameter(self) -> inspect.Parameter:
        words = self._noted("description")
        if self._argument:
            completes = None if self._argument == "GROUPS" else complete_targets
            argument = typer.Argument(help=words, autocompletion=completes)
            return _parameter(self.name, Annotated[list[str] if self._several else str, argument], self._default)
        low, high = (None, None) if self._unit else (self._noted("ge"), self._noted("le"))
        option = typer.Option(self._option, help=words, min=low, max=high)
        kind = str if self._unit else self._kind
        return _parameter(self.name, Annotated[kind | None if self._default is None else kind, option], self._default)

    @property
    def _several(self) -> bool:
        """Whether the command takes several words for it. The two sides of a cut are one word each, with commas."""
        return self._argument in ("NODES", "GROUPS")

    def value(self, given: Any) -> Any:
        """Return the field's value from what was typed."""
        if self._argument == "GROUPS":
            return [group.split(",") for group in given]
        if self._argument:
            return given if self._several else given.split(",")
        if self._unit == "share":
            return share(given)
        if self._unit == "ms":
            return self._within(seconds(given) * 1000, given)
        return given

    def _within(self, value: float, given: str) -> float:
        low, high = self._noted("ge"), self._noted("le")
        if not low <= value <= high:
            raise UsageProblem(f"{self._option} {given} is out of range: from {low:g}ms to {high / 1000:g}s")
        return value


def _help(kind: type[AnyFault]) -> str:
    examples = [f"ackproof {example}" for example in kind.about.examples]
    shown = f"Example: {examples[0]}" if len(examples) == 1 else "Examples:\n\n  " + "\n\n  ".join(examples)
    return f"{inspect.getdoc(kind)}\n\n{shown}"


# -- commands with options of their own ------------------------------------------------------------------------------


def stop(nodes: Targets, timeout: Timeout = None, name: Name = DEFAULT_NAME, as_json: Json = False) -> None:
    _ask(name, "stop", as_json, nodes=nodes, timeout_s=_for(timeout))


def start(
    nodes: Annotated[list[str] | None, typer.Argument(metavar="[NODES]...", help="Default: all stopped nodes.")] = None,
    wait: Wait = True,
    timeout: Timeout = None,
    name: Name = DEFAULT_NAME,
    as_json: Json = False,
) -> None:
    _ask(name, "start", as_json, nodes=nodes or [], wait=wait, timeout_s=_for(timeout))


def restart(
    nodes: Targets,
    kill_first: Annotated[bool, typer.Option("--kill", help="End it with SIGKILL instead of SIGTERM.")] = False,
    wipe: Annotated[bool, typer.Option("--wipe", help="Start it with an empty disk and its old id.")] = False,
    add_log_dir: Annotated[
        bool, typer.Option("--add-log-dir", help="Start it with one more log directory, which is empty.")
    ] = False,
    timeout: Timeout = None,
    name: Name = DEFAULT_NAME,
    as_json: Json = False,
) -> None:
    timeout_s = _for(timeout)
    _ask(
        name, "restart", as_json, nodes=nodes, kill=kill_first, wipe=wipe, add_log_dir=add_log_dir, timeout_s=timeout_s
    )


def resume(
    nodes: Annotated[list[str] | None, typer.Argument(metavar="[NODES]...", help="Default: all paused nodes.")] = None,
    name: Name = DEFAULT_NAME,
    as_json: Json = False,
) -> None:
    """Let paused nodes go on, all of them without a name.

    Examples: ackproof resume, or ackproof resume kafka3
    """
    _ask(name, "resume", as_json, nodes=nodes or [])


def add(wait: Wait = True, name: Name = DEFAULT_NAME, as_json: Json = False) -> None:
    """Add one more broker, with the next number.

    Example: ackproof add
    """
    _ask(name, "add", as_json, wait=wait)


def join(name: Name = DEFAULT_NAME, as_json: Json = False) -> None:
    """End all network partitions. Cuts and other faults stay.

    Example: ackproof join
    """
    _ask(name, "join", as_json)


def heal(
    faults: Annotated[list[str] | None, typer.Argument(help="Only these faults, by the names `status` shows.")] = None,
    name: Name = DEFAULT_NAME,
    as_json: Json = False,
) -> None:
    """End faults: cuts, partitions, loss, delay and pauses. Nodes that are down stay down: `start` them.

    Examples: ackproof heal, or ackproof heal f3
    """
    _ask(name, "heal", as_json, faults=faults or [])


def reset(name: Name = DEFAULT_NAME, as_json: Json = False) -> None:
    """Give the same lab with empty disks and no faults.

    Example: ackproof reset
    """
    _ask(name, "reset", as_json)


_WRITTEN_OUT: dict[str, Callable[..., None]] = {kind_of(Stop): stop, kind_of(Start): start, kind_of(Restart): restart}


def register(app: typer.Typer) -> None:
    for name, kind in FAULTS.items():
        if kind.about.examples:
            command: Callable[..., None] = _WRITTEN_OUT.get(name) or _command(kind)
            app.command(name, help=_help(kind))(command)
    for command in (resume, add, join, heal, reset):
        app.command()(command)
