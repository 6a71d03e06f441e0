"""Start labs in a row in this one process, one for each line on standard input, and print a line of JSON after each.

The JSON says which descriptors, files and memory the process holds. The first line starts three labs, one of each kind:
a real lab, a lab whose nodes are stand-ins that serve, and a lab whose first node dies at once.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ackproof.core.errors import CannotHere
from ackproof.host.processes import resident_mb
from ackproof.kafka.distribution.jars import DEFAULT_ZOOKEEPER
from ackproof.lab import client as control
from ackproof.lab import launch
from ackproof.lab.ingredients import gather
from ackproof.lab.launch import Ingredients
from ackproof.lab.spec import LabSpec

SPEC = LabSpec(kafka=DEFAULT_ZOOKEEPER, name="row", mode="zookeeper", brokers=1, quorum=1)


def served(ingredients: Ingredients) -> None:
    launch.launch(SPEC, ingredients, lambda _: None).detach()
    assert {node["state"] for node in control.status(SPEC.name)["nodes"]} == {"running", "namespace"}
    control.down(SPEC.name)


def died(ingredients: Ingredients) -> None:
    try:
        launch.launch(SPEC, ingredients, lambda _: None)
    except CannotHere as problem:
        if "died while starting" not in problem.message:
            raise
    else:
        raise AssertionError("a lab whose nodes die is up")


def tell() -> None:
    gc.collect()
    folders = Path(os.environ["XDG_STATE_HOME"]), Path(tempfile.gettempdir())
    files = sorted({str(path) for folder in folders for path in folder.rglob("*")})
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    told = {"descriptors": descriptors, "files": files, "memory_mb": resident_mb(os.getpid())}
    print(json.dumps(told), flush=True)


def main(kinds: list[str], stand_in: str) -> None:
    ingredients = gather(SPEC, lambda *_: None)
    make: dict[str, Callable[[], None]] = {
        "real": lambda: served(ingredients),
        "stand-ins": lambda: served(replace(ingredients, java=stand_in)),
        "dying": lambda: died(replace(ingredients, java="/bin/false")),
    }
    sys.stdin.readline()
    for one in make.values():
        one()
    tell()
    for kind in kinds:
        sys.stdin.readline()
        make[kind]()
        tell()


if __name__ == "__main__":
    main(sys.argv[1].split(), sys.argv[2])
