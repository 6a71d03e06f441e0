"""`explain`: what a word of a verdict or a scenario means, and what to do about it."""

from __future__ import annotations

from itertools import groupby
from typing import Annotated

import typer

from ackproof.cli.options import Json
from ackproof.cli.ui.console import say, say_json
from ackproof.core.errors import UsageProblem, did_you_mean


def _words() -> list[str]:
    from ackproof.model.glossary import glossary

    return list(dict.fromkeys(entry.word.replace(" ", "_") for entry in glossary()))


def explain(
    word: Annotated[
        str | None,
        typer.Argument(
            help="A check, a fate, a line about fitness, a kind of fault, or a word such as isr.", autocompletion=_words
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Say what a word means and what to do about it. Without a word, list all words.

    Example: ackproof explain lost
    """
    from ackproof.model.glossary import KINDS, entries, glossary

    found = list(glossary()) if word is None else entries(word)
    if word is not None and not found:
        raise UsageProblem(f"no word {word!r}{did_you_mean(word, _words())}: `ackproof explain` lists all of them")
    if as_json:
        say_json(found)
    elif word is None:
        for kind, of in groupby(found, key=lambda entry: entry.kind):
            say(f"{KINDS[kind]}:", f"  {', '.join(entry.word for entry in of)}")
    else:
        for entry in found:
            say(f"{entry.word} ({entry.kind})", f"  {entry.meaning}", f"  What to do: {entry.advice}")


def register(app: typer.Typer) -> None:
    app.command()(explain)
