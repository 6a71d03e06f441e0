"""Pin a version of Kafka: write down every jar by module, version and SHA-256.

    .venv/bin/python scripts/pin.py 3.9.2

Use it for a version that is not pinned yet. To pin a version again, first remove its two files in `checksums`.
The jars are fetched into the user's cache as for any version. The modules are read from Ivy's own cache, whose
folders have their names. Read the difference before you commit it: every user then gets exactly these jars.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ackproof.host.java import find_java
from ackproof.kafka.distribution import jars

CHECKSUMS = Path(__file__).resolve().parent.parent / "src" / "ackproof" / "kafka" / "distribution" / "checksums"


def coordinates(name: str) -> str:
    """Return the coordinates of a jar: org.slf4j:slf4j-api:1.7.36 for slf4j-api-1.7.36.jar."""
    places = list((jars.cache_root() / "ivy").glob(f"*/*/*/{name}"))
    assert len(places) == 1, f"{name} is {len(places)} times in Ivy's cache, and has to be there once"
    organisation, module = places[0].parts[-4:-2]
    assert name.startswith(f"{module}-"), f"{name} is not the one jar of {organisation}:{module}"
    return f"{organisation}:{module}:{name.removeprefix(f'{module}-').removesuffix('.jar')}"


def pin(version: str) -> None:
    kafka = jars.ensure(version, find_java(), lambda done, total, what: print(done, what, file=sys.stderr))
    sums = (kafka.directory / jars.MANIFEST).read_text(encoding="utf-8")
    names = [line.split("  ")[1] for line in sums.splitlines()]
    modules = sorted(coordinates(name) for name in names)
    CHECKSUMS.mkdir(exist_ok=True)
    (CHECKSUMS / f"{version}.sha256").write_text(sums, encoding="utf-8")
    (CHECKSUMS / f"{version}.modules").write_text("".join(f"{line}\n" for line in modules), encoding="utf-8")


if __name__ == "__main__":
    for wanted in sys.argv[1:]:
        pin(wanted)
