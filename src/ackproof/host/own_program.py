"""The command lines of our own Python processes: the judge, the clients, the supervisor, its watchdogs and relays.

A process that Python starts with `-m` looks for modules in its working directory first. A user may stand in a folder
that came from a stranger, and a file there called `json.py` would then run as that user. So every process of ours is
started here, with the safe path: it imports from the standard library and from where we are installed.

`PYTHONPATH` is obeyed as the user set it, unless this process itself ignores it (`python -I`, as `./ackproof` does);
then its children ignore it too.
"""

from __future__ import annotations

import sys

SAFE_PATH = {"PYTHONSAFEPATH": "1"}  # the same, for a Python that somebody else starts for us: Spark's workers


def own_program(module: str, *words: str) -> list[str]:
    """The command that runs a module of ours in a process of its own."""
    how = "-I" if sys.flags.isolated else "-P"
    return [sys.executable, how, "-m", module, *words]
