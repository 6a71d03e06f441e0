"""Where a consumer stands: in each partition that it owns, the offset from which it reads on, and where the log ends.

That no message came for a while proves nothing: the consumer may have been stopped. So after the load it asks each
leader once where the log ends for it, and has read a partition whole when its position is there. A reader of committed
messages is told the last stable offset, and its position goes past the markers of transactions.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import KafkaException, TopicPartition

LOOK_EVERY_S = 0.2
ASK_S = 2.0  # how long one question about a log's end may take


class Place(NamedTuple):
    topic: str
    partition: int


class Stands(NamedTuple):
    place: Place
    position: int | None  # null: nothing was read, and where it began is not known
    log_end: int | None  # null: the leader has not told

    @property
    def read_whole(self) -> bool:
        return self.position is not None and self.log_end is not None and self.position >= self.log_end


class Standing:
    def __init__(self, over: Path) -> None:
        self._over = over  # this file says that the load is over, and that the logs grow no more
        self._begins: dict[Place, int] = {}
        self._ends: dict[Place, tuple[int, int]] = {}  # of each log its start and its end, once the load was over
        self._looked = 0.0
        self.owned = self.read_whole = 0

    def given(self, places: Iterable[Any]) -> None:
        """Partitions with the offsets at which the consumer begins; a negative one is not known."""
        for each in places:
            place = Place(each.topic, each.partition)
            self._begins.pop(place, None)
            if each.offset >= 0:
                self._begins[place] = each.offset
        self._count_none()

    def taken(self) -> None:
        self._count_none()

    def _count_none(self) -> None:
        """What is owned is counted anew at the next look."""
        self._looked = 0.0
        self.owned = self.read_whole = 0

    def look(self, client: Any) -> None:
        """Count what is owned; and, after the load, what of it is read whole."""
        if time.monotonic() - self._looked < LOOK_EVERY_S:
            return
        self._looked = time.monotonic()
        if self._over.exists():
            stands = self.stands(client)
            self.owned, self.read_whole = len(stands), sum(each.read_whole for each in stands)
        else:
            self.owned, self.read_whole = len(client.assignment()), 0

    def stands(self, client: Any) -> list[Stands]:
        places = [Place(each.topic, each.partition) for each in client.assignment()]
        self._ask(client, [place for place in places if place not in self._ends])
        found = client.position([TopicPartition(*place) for place in places]) if places else []
        positions = {Place(each.topic, each.partition): each.offset for each in found}
        return [self._stands(place, positions.get(place, -1)) for place in places]

    def _stands(self, place: Place, position: int) -> Stands:
        known = position if position >= 0 else self._begins.get(place)
        start, end = self._ends.get(place, (0, None))
        # What retention took cannot be read any more; the client learns of it only with the next message.
        return Stands(place, None if known is None else max(known, start), end)

    def _ask(self, client: Any, places: list[Place]) -> None:
        """A leader that does not answer is asked again later, and the others are not asked meanwhile."""
        for place in places:
            try:
                found = client.get_watermark_offsets(TopicPartition(*place), timeout=ASK_S)
            except KafkaException:
                return
            if found is None:
                return
            self._ends[place] = found
