"""Rows of a journal for tests that do not care what the rows say."""

from __future__ import annotations

from pathlib import Path

from ackproof.journal.writer import Writer


def write_probes(directory: Path, count: int, name: str = "w") -> Writer:
    """Return a writer of the table `probes` that has flushed `count` rows, the latest first."""
    writer = Writer(directory, "probes", 7, name)
    for number in range(count):
        writer.add(fault=1, at_ns=count - number, held=True, text=f"row {number}")
        writer.flush()
    return writer
