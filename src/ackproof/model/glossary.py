"""The glossary: what each word of a verdict means, and what to do about it.

The text of a check or a kind of fault is in its registry; that of results, fates and fitness is in glossary.toml.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources

import msgspec

from ackproof.model.checks import CHECKS
from ackproof.model.faults import FAULTS


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
    "term": "Words of Kafka and of the verdict",
}


@cache
def glossary() -> tuple[Entry, ...]:
    text = (resources.files("ackproof.model") / "glossary.toml").read_text(encoding="utf-8")
    tables = tomllib.loads(text)
    written = {
        kind: {word: Entry(kind, word, **text) for word, text in words.items()} for kind, words in tables.items()
    }
    written["check"] = {name: Entry("check", name, check.meaning, check.advice) for name, check in CHECKS.items()}
    written["fault"] = {name: Entry("fault", name, fault.meaning, fault.advice) for name, fault in FAULTS.items()}
    return tuple(entry for kind in KINDS for entry in written[kind].values())


def entries(word: str) -> list[Entry]:
    """Return what a word means: several entries where, for example, a check and a fate have the same name."""
    wanted = word.strip().lower().replace(" ", "_")
    return [entry for entry in glossary() if entry.word.replace(" ", "_") == wanted]
