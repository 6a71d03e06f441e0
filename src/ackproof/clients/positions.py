"""Where a consumer stands in each partition that it owns: its position, and where the log ends.

A time without messages proves nothing, because the consumer may have been stopped. So after the load it asks each
leader once where the log ends. It has read a partition whole when its position has reached that end. To a consumer of
committed messages the leader reports the last stable offset, and its position also passes the markers of transactions.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import KafkaException, TopicPartition

LOOK_EVERY_S = 0.2
ASK_S = 2.0  # how long one question about a log's end may take


class PartitionId(NamedTuple):
    topic: str
    partition: int


class PartitionPosition(NamedTuple):
    id: PartitionId
    position: int | None  # None: nothing was read, and the first offset is not known
    log_end: int | None  # None: the leader has not answered

    @property
    def read_whole(self) -> bool:
        return self.position is not None and self.log_end is not None and self.position >= self.log_end


class Positions:
    def __init__(self, over: Path) -> None:
        self._over = over  # this file exists when the load is over and the logs no longer grow
        self._begins: dict[PartitionId, int] = {}
        self._ends: dict[PartitionId, tuple[int, int]] = {}  # start and end of each log, after the load
        self._looked = 0.0
        self.owned = self.read_whole = 0

    def assigned(self, places: Iterable[Any]) -> None:
        """Note assigned partitions, each with the offset at which the consumer begins; a negative one is not known."""
        for each in places:
            place = PartitionId(each.topic, each.partition)
            self._begins.pop(place, None)
            if each.offset >= 0:
                self._begins[place] = each.offset
        self.reset()

    def reset(self) -> None:
        """Forget the counts after a change of the assignment; the next look counts again."""
        self._looked = 0.0
        self.owned = self.read_whole = 0

    def look(self, client: Any) -> None:
        """Count the owned partitions and, after the load, those that are read whole."""
        if time.monotonic() - self._looked < LOOK_EVERY_S:
            return
        self._looked = time.monotonic()
        if self._over.exists():
            found = self.current(client)
            self.owned, self.read_whole = len(found), sum(each.read_whole for each in found)
        else:
            self.owned, self.read_whole = len(client.assignment()), 0

    def current(self, client: Any) -> list[PartitionPosition]:
        places = [PartitionId(each.topic, each.partition) for each in client.assignment()]
        self._ask_ends(client, [place for place in places if place not in self._ends])
        found = client.position([TopicPartition(*place) for place in places]) if places else []
        positions = {PartitionId(each.topic, each.partition): each.offset for each in found}
        return [self._position(place, positions.get(place, -1)) for place in places]

    def _position(self, place: PartitionId, position: int) -> PartitionPosition:
        known = position if position >= 0 else self._begins.get(place)
        start, end = self._ends.get(place, (0, None))
        # What retention deleted can no longer be read; the client notices that only with the next message.
        return PartitionPosition(place, None if known is None else max(known, start), end)

    def _ask_ends(self, client: Any, places: list[PartitionId]) -> None:
        """Ask for the logs' ends. If a leader does not answer, stop here; the next look asks again."""
        for place in places:
            try:
                found = client.get_watermark_offsets(TopicPartition(*place), timeout=ASK_S)
            except KafkaException:
                return
            if found is None:
                return
            self._ends[place] = found
