"""The table of faults in the docs, written from `model/faults.py`: `.venv/bin/python scripts/faults_doc.py`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ackproof.model.fault import AnyFault, LastingFault
from ackproof.model.faults import FAULTS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "faults.md"
BEGIN = "<!-- faults: written by scripts/faults_doc.py -->"
END = "<!-- end of faults -->"
_SHARED = {*AnyFault.__struct_fields__, *LastingFault.__struct_fields__}


def faults_table() -> str:
    head = ["| kind | what it does | options | what proves it | what ends it if nobody is there |", "| --- " * 5 + "|"]
    return "\n".join([*head, *(_row(name, fault) for name, fault in FAULTS.items())])


def traits_table() -> str:
    rows = {
        "lasts until it is healed": [name for name, fault in FAULTS.items() if fault.lasting],
        "has a command of its own": [name for name, fault in FAULTS.items() if fault.about.examples],
        "can hit clients (`producer:1`, `consumer:2`)": _that("hits_clients"),
        "can be drawn by lot (`[drawn]`)": _that("drawn"),
        "can move leaders, so the judge measures the failover": _that("moves_leaders"),
        "needs netem in the kernel": _that("needs_netem"),
    }
    lines = [f"| {trait} | {', '.join(names)} |" for trait, names in rows.items()]
    return "\n".join(["| a fault of this kind | kinds |", "| --- | --- |", *lines])


def page(text: str) -> str:
    """Return the page with the tables of today."""
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n{faults_table()}\n\n{traits_table()}\n{END}{after}"


def _row(name: str, fault: type[AnyFault]) -> str:
    summary = (inspect.getdoc(fault) or "").partition("\n")[0]
    options = ", ".join(_options(fault))
    cells = [name, summary, options, fault.about.proof, fault.about.ends]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _options(fault: type[AnyFault]) -> Iterator[str]:
    for field in msgspec.structs.fields(fault):
        if field.name not in _SHARED:
            yield f"**`{field.name}`**" if field.required else f"`{field.name}`"


def _that(trait: str) -> list[str]:
    return [name for name, fault in FAULTS.items() if getattr(fault.about, trait)]


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
