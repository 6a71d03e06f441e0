"""Wait until the consumers of a run have read everything.

A silent consumer may have been stopped, or may wait for its group, so silence proves nothing. Each of our consumers
asks the leaders where the logs end, and reports when it is there in every partition that it owns. And every partition
must have an owner as long as the group has members. An external consumer cannot ask where the log ends: it has read
everything when it has printed the last message of each partition.

Every wait ends. What a group still lacks then goes into `run.json`. If the judge does not know how far such a group
came, it calls no message undelivered.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ackproof.clients.runtime import LogEnd
from ackproof.journal.files import STREAM_SUFFIX
from ackproof.journal.stream import read_stream

LOOK_EVERY_S = 0.1
LONGEST_S = 900.0

Lack = Literal["reading", "unowned", "quiet"]
# How long the run waits while nothing changes: for a consumer that does not read on; for a partition without an owner
# (longer than the usual session timeout, 45 s); for an external consumer that prints nothing new.
PATIENCE_S: Mapping[Lack, float] = {"reading": 120.0, "unowned": 60.0, "quiet": 15.0}


@dataclass(frozen=True)
class Member:
    """A consumer that runs, as it describes itself in its progress page."""

    name: str
    group: str
    topics: frozenset[str]
    foreign: bool
    ready: bool
    read: int
    owned: int
    read_whole: int  # partitions


def lacking(members: Sequence[Member], partitions: Mapping[str, int]) -> dict[str, tuple[Lack, str]]:
    """What each group still lacks, as a kind and in words. `partitions`: how many each topic has."""
    groups: dict[str, list[Member]] = defaultdict(list)
    for member in members:
        groups[member.group].append(member)
    found = {group: _lacks(group, own, partitions) for group, own in groups.items()}
    return {group: lack for group, lack in found.items() if lack is not None}


def _lacks(group: str, own: Sequence[Member], partitions: Mapping[str, int]) -> tuple[Lack, str] | None:
    for member in own:
        if not member.foreign and (not member.ready or member.read_whole < member.owned):
            return "reading", f"{member.name} did not say that it had read all of its partitions"
    topics = frozenset[str]().union(*(member.topics for member in own))
    total = sum(partitions[topic] for topic in topics)
    if any(member.foreign for member in own):
        if sum(member.read_whole for member in own) < total:
            words = "printed nothing more, though it had not printed the last message of every partition"
            return "quiet", f"group {group} {words}"
    elif (owned := sum(member.owned for member in own)) < total:
        return "unowned", f"only {owned} of {total} partitions had an owner in group {group}"
    return None


def wait_until_read(members: Callable[[], Sequence[Member]], partitions: Mapping[str, int]) -> dict[str, str]:
    """Wait until everything is read. Returns what each group still lacks when the wait is over, in words."""
    begun = changed = time.monotonic()
    before: Sequence[Member] = []
    while True:
        now = members()
        lacks = lacking(now, partitions)
        if not lacks:
            return {}
        if now != before:
            before, changed = now, time.monotonic()
        patience_s = max(PATIENCE_S[kind] for kind, _ in lacks.values())
        if time.monotonic() - changed > patience_s or time.monotonic() - begun > LONGEST_S:
            return {group: words for group, (_, words) in lacks.items()}
        time.sleep(LOOK_EVERY_S)


def log_ends(directory: Path) -> list[LogEnd]:
    """Where each log ends, as the final read found it; the logs of a mirror's topics too."""
    folders = [directory / "journal" / table for table in ("ends", "mirror_ends")]
    paths = [path for folder in folders for path in sorted(folder.glob(f"*{STREAM_SUFFIX}"))]
    rows = [row for path in paths for row in read_stream(path)[0].to_pylist()]
    return [LogEnd(row["topic"], row["partition"], row["log_start"], row["high_watermark"]) for row in rows]
