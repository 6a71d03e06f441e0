"""The glossary: what each word of a verdict means, and what to do about it. Its text is in glossary.toml."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources

import msgspec


class Entry(msgspec.Struct, frozen=True):
    kind: str  # a key of KINDS
    word: str
    meaning: str
    advice: str


KINDS = {
    "result": "Results of a run",
    "check": "Checks",
    "fate": "Fates of a message",
    "fitness": "Fitness: whether a run is evidence",
    "fault": "Faults",
}


@cache
def glossary() -> tuple[Entry, ...]:
    text = (resources.files("ackproof.model") / "glossary.toml").read_text(encoding="utf-8")
    tables = tomllib.loads(text)
    return tuple(Entry(kind, word, **tables[kind][word]) for kind in KINDS for word in tables[kind])


def entries(word: str) -> list[Entry]:
    """Return what a word means: several entries where, for example, a check and a fate have the same name."""
    wanted = word.strip().lower().replace(" ", "_")
    return [entry for entry in glossary() if entry.word.replace(" ", "_") == wanted]
