"""The table of faults in the docs, written from `model/faults.py`: `.venv/bin/python scripts/faults_doc.py`."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec

from ackproof.model.fault import AnyFault, LastingFault
from ackproof.model.faults import FAULTS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "faults.md"
BEGIN = "<!-- faults: written by scripts/faults_doc.py -->"
END = "<!-- end of faults -->"
_SHARED = {*AnyFault.__struct_fields__, *LastingFault.__struct_fields__}


def faults_table() -> str:
    head = [
        "| kind | what it does | options | what proves it | what ends it if the command that began it is gone |",
        "| --- " * 5 + "|",
    ]
    return "\n".join([*head, *(_row(name, fault) for name, fault in FAULTS.items())])


def options_table() -> str:
    """What each option means, and the kinds that have it."""
    kinds: dict[tuple[str, str], list[str]] = {}
    for name, fault in FAULTS.items():
        for option, words in _options(fault).items():
            kinds.setdefault((option, words), []).append(name)
    rows = [f"| `{option}` | {words} | {', '.join(names)} |" for (option, words), names in kinds.items()]
    return "\n".join(["| option | meaning | kinds |", "| --- | --- | --- |", *rows])


def traits_table() -> str:
    rows = {
        "lasts until it is healed": [name for name, fault in FAULTS.items() if fault.lasting],
        "has a command of its own": [name for name, fault in FAULTS.items() if fault.about.examples],
        "can hit clients (`producer:1`, `consumer:2`)": _that("hits_clients"),
        "can be drawn at random (`[drawn]`)": _that("drawn"),
        "can move leaders, so the judge measures the failover": _that("moves_leaders"),
        "needs netem in the kernel": _that("needs_netem"),
    }
    lines = [f"| {trait} | {', '.join(names)} |" for trait, names in rows.items()]
    return "\n".join(["| a fault of this kind | kinds |", "| --- | --- |", *lines])


def page(text: str) -> str:
    """Return the page with the tables of today."""
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n{faults_table()}\n\n{options_table()}\n\n{traits_table()}\n{END}{after}"


def _row(name: str, fault: type[AnyFault]) -> str:
    summary = (inspect.getdoc(fault) or "").partition("\n")[0]
    required = {field.name for field in msgspec.structs.fields(fault) if field.required}
    options = ", ".join(f"**`{name}`**" if name in required else f"`{name}`" for name in _options(fault))
    cells = [name, summary, options, fault.about.proof, fault.about.ends]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _options(fault: type[AnyFault]) -> dict[str, str]:
    """Return the options that are a kind's own, with what they mean."""
    hints = get_type_hints(fault, include_extras=True)
    return {name: _meaning(hint) for name, hint in hints.items() if name in {*fault.__struct_fields__} - _SHARED}


def _meaning(hint: Any) -> str:
    """Return what the type of a field notes as its description."""
    annotated = next(each for each in (hint, *get_args(hint)) if get_origin(each) is Annotated)
    return next(str(note.description) for note in annotated.__metadata__ if getattr(note, "description", None))


def _that(trait: str) -> list[str]:
    return [name for name, fault in FAULTS.items() if getattr(fault.about, trait)]


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
