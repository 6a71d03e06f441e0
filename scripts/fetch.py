"""Fetch what real clusters and their judge need into the user's cache, for tests that have no network."""

from __future__ import annotations

import sys

from ackproof.host.java import find_java
from ackproof.kafka.distribution.jars import DEFAULT_KRAFT, DEFAULT_ZOOKEEPER, ensure, ensure_connector

OTHERS = ("3.4.1", "4.0.0")  # of tests/cluster/test_versions.py


def main() -> None:
    java = find_java()
    for version in (DEFAULT_ZOOKEEPER, DEFAULT_KRAFT, *OTHERS):
        ensure(version, java, tell)
    ensure_connector(java, tell)


def tell(done: int, total: int | None, what: str) -> None:
    print(f"{what} ({done} of {total or '?'})", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
