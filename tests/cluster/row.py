"""Labs in a row, made by this one process as whoever runs it: each at a line from outside, and after it a line of JSON
that tells what the process holds.

The first line is for two labs, one of each kind: a real one, and one whose first node dies at once.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from ackproof.cli_lab import gather
from ackproof.errors import CannotHere
from ackproof.kafka.jars import DEFAULT_ZOOKEEPER
from ackproof.lab import control, launch
from ackproof.lab.launch import Ingredients
from ackproof.lab.processes import resident_mb
from ackproof.lab.spec import LabSpec
from ackproof.screen import Steps

SPEC = LabSpec(kafka=DEFAULT_ZOOKEEPER, name="row", mode="zookeeper", brokers=1, quorum=1)


def real(ingredients: Ingredients) -> None:
    launch.launch(SPEC, ingredients, lambda _: None).detach()
    assert {node["state"] for node in control.status(SPEC.name)["nodes"]} == {"running", "namespace"}
    control.down(SPEC.name)


def stand_in(ingredients: Ingredients) -> None:
    try:
        launch.launch(SPEC, replace(ingredients, java="/bin/false"), lambda _: None)
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


def main(labs: int, real_every: int) -> None:
    ingredients = gather(SPEC, Steps("row"))
    sys.stdin.readline()
    real(ingredients)
    stand_in(ingredients)
    tell()
    for number in range(labs):
        sys.stdin.readline()
        (real if number % real_every == 0 else stand_in)(ingredients)
        tell()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
