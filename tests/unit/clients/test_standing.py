"""Where a consumer stands: at the log's end by the leader's word and its own position, never because nothing comes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from ackproof.clients.standing import Place, Standing, Stands


class Client:
    """Owns partitions of `orders`, and has come to these offsets; a negative one: it has read nothing yet."""

    def __init__(self, positions: dict[int, int], ends: dict[int, tuple[int, int] | None]) -> None:
        self.positions = positions
        self.ends = ends  # start and end; null: its leader does not answer
        self.asked: list[int] = []

    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition("orders", each) for each in self.positions]

    def position(self, places: list[TopicPartition]) -> list[TopicPartition]:
        return [TopicPartition("orders", each.partition, self.positions[each.partition]) for each in places]

    def get_watermark_offsets(self, place: TopicPartition, timeout: float) -> tuple[int, int]:
        assert timeout > 0, "it is the leader that is asked, and not what the client remembers"
        self.asked.append(place.partition)
        if (found := self.ends[place.partition]) is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return found


@pytest.mark.parametrize(
    ("position", "begin", "end", "read_whole"),
    [
        (100, 0, (0, 100), True),
        (99, 0, (0, 100), False),
        (-1001, 100, (0, 100), True),  # it was placed at the end, and read nothing
        (-1001, 99, (0, 100), False),
        (-1001, -1001, (0, 100), False),  # nobody knows where it began
        (-1001, -1001, (0, 0), False),
        (40, 0, (100, 100), True),  # retention took what it had not read
        (40, 0, (99, 100), False),
        (100, 0, None, False),
    ],
)
def test_a_partition_is_read_whole_by_position_and_the_leaders_word(
    tmp_path: Path, position: int, begin: int, end: tuple[int, int] | None, read_whole: bool
) -> None:
    (tmp_path / "over").touch()
    standing, client = Standing(tmp_path / "over"), Client({0: position}, {0: end})
    standing.given([TopicPartition("orders", 0, begin)])
    standing.look(client)
    assert (standing.owned, standing.read_whole) == (1, int(read_whole))


def test_before_the_load_is_over_nothing_is_asked_and_nothing_is_read_whole(tmp_path: Path) -> None:
    standing, client = Standing(tmp_path / "over"), Client({0: 5, 1: 5}, {0: (0, 5), 1: (0, 5)})
    standing.look(client)
    assert (standing.owned, standing.read_whole, client.asked) == (2, 0, [])


def test_where_the_log_ends_is_asked_once_and_again_where_nobody_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    (tmp_path / "over").touch()
    standing, client = Standing(tmp_path / "over"), Client({0: 5, 1: 5, 2: 5}, {0: (0, 5), 1: None, 2: (0, 5)})
    standing.look(client)
    assert (standing.read_whole, client.asked) == (1, [0, 1])
    client.ends[1] = (0, 6)
    now += 1
    standing.look(client)
    assert (standing.read_whole, client.asked) == (2, [0, 1, 1, 2])
    client.positions[1] = 6
    now += 1
    standing.look(client)
    assert (standing.read_whole, client.asked) == (3, [0, 1, 1, 2])


def test_what_is_taken_is_counted_no_more(tmp_path: Path) -> None:
    (tmp_path / "over").touch()
    standing, client = Standing(tmp_path / "over"), Client({0: 5}, {0: (0, 5)})
    standing.look(client)
    assert (standing.owned, standing.read_whole) == (1, 1)
    standing.taken()
    assert (standing.owned, standing.read_whole) == (0, 0)


def test_a_consumer_that_is_ended_early_tells_where_it_stood(tmp_path: Path) -> None:
    standing, client = Standing(tmp_path / "over"), Client({0: 3}, {0: (0, 5)})
    assert standing.stands(client) == [Stands(Place("orders", 0), 3, 5)]
