"""Where a consumer stands: it has read a log to its end if its position says so, never because nothing comes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from ackproof.clients.positions import PartitionId, PartitionPosition, Positions


class Client:
    """Owns partitions of `orders`, with these positions. A negative position means that it has read nothing yet."""

    def __init__(self, positions: dict[int, int], ends: dict[int, tuple[int, int] | None]) -> None:
        self.positions = positions
        self.ends = ends  # start and end; None: the leader does not answer
        self.asked: list[int] = []

    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition("orders", each) for each in self.positions]

    def position(self, places: list[TopicPartition]) -> list[TopicPartition]:
        return [TopicPartition("orders", each.partition, self.positions[each.partition]) for each in places]

    def get_watermark_offsets(self, place: TopicPartition, timeout: float) -> tuple[int, int]:
        assert timeout > 0, "without a timeout the client answers from its own memory, not from the leader"
        self.asked.append(place.partition)
        if (found := self.ends[place.partition]) is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return found


@pytest.mark.parametrize(
    ("position", "begin", "end", "read_whole"),
    [
        (100, 0, (0, 100), True),
        (99, 0, (0, 100), False),
        (-1001, 100, (0, 100), True),  # it began at the end, and read nothing
        (-1001, 99, (0, 100), False),
        (-1001, -1001, (0, 100), False),  # its first offset is not known
        (-1001, -1001, (0, 0), False),
        (40, 0, (100, 100), True),  # retention deleted what it had not read
        (40, 0, (99, 100), False),
        (100, 0, None, False),
    ],
)
def test_a_partition_is_read_whole_when_the_position_is_at_the_end_that_the_leader_reports(
    tmp_path: Path, position: int, begin: int, end: tuple[int, int] | None, read_whole: bool
) -> None:
    (tmp_path / "over").touch()
    positions, client = Positions(tmp_path / "over"), Client({0: position}, {0: end})
    positions.assigned([TopicPartition("orders", 0, begin)])
    positions.look(client)
    assert (positions.owned, positions.read_whole) == (1, int(read_whole))


def test_before_the_end_of_the_load_nothing_is_asked_and_nothing_is_read_whole(tmp_path: Path) -> None:
    positions, client = Positions(tmp_path / "over"), Client({0: 5, 1: 5}, {0: (0, 5), 1: (0, 5)})
    positions.look(client)
    assert (positions.owned, positions.read_whole, client.asked) == (2, 0, [])


def test_the_end_of_a_log_is_asked_until_its_leader_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    (tmp_path / "over").touch()
    positions, client = Positions(tmp_path / "over"), Client({0: 5, 1: 5, 2: 5}, {0: (0, 5), 1: None, 2: (0, 5)})
    positions.look(client)
    assert (positions.read_whole, client.asked) == (1, [0, 1])
    client.ends[1] = (0, 6)
    now += 1
    positions.look(client)
    assert (positions.read_whole, client.asked) == (2, [0, 1, 1, 2])
    client.positions[1] = 6
    now += 1
    positions.look(client)
    assert (positions.read_whole, client.asked) == (3, [0, 1, 1, 2])


def test_revoked_partitions_are_no_longer_counted(tmp_path: Path) -> None:
    (tmp_path / "over").touch()
    positions, client = Positions(tmp_path / "over"), Client({0: 5}, {0: (0, 5)})
    positions.look(client)
    assert (positions.owned, positions.read_whole) == (1, 1)
    positions.reset()
    assert (positions.owned, positions.read_whole) == (0, 0)


def test_a_consumer_that_is_ended_early_reports_its_position(tmp_path: Path) -> None:
    positions, client = Positions(tmp_path / "over"), Client({0: 3}, {0: (0, 5)})
    assert positions.current(client) == [PartitionPosition(PartitionId("orders", 0), 3, 5)]
