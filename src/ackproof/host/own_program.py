"""The command lines of our own Python processes: the judge, the clients, the supervisor, its timers and relays.

A process that is started with `python -m` looks for modules in its working directory first. If the user is in a folder
that came from a stranger, a file `json.py` there would run as that user. So every process of ours is started here, with
the safe path: it imports only from the standard library and from our installation.

`PYTHONPATH` counts as the user set it, unless this process ignores it (`python -I`, as `./ackproof` does). Then its
children ignore it too.
"""

from __future__ import annotations

import sys

SAFE_PATH = {"PYTHONSAFEPATH": "1"}  # the same for a Python process that we do not start ourselves: Spark's workers


def own_program(module: str, *words: str) -> list[str]:
    """The command line that runs one of our modules in a process of its own."""
    how = "-I" if sys.flags.isolated else "-P"
    return [sys.executable, how, "-m", module, *words]
