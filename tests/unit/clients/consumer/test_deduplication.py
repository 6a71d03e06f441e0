"""A receiver accepts each message once, by its strategy, even if it is killed in between."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message, TopicPartition

from ackproof.clients.consumer import main as consumer
from ackproof.clients.consumer.deduplication import STRATEGIES, Costs, ReceivedMessage, Receiver, export
from ackproof.clients.consumer.main import ConsumerConfig, ConsumerLoop
from ackproof.clients.sqlite import database_of
from ackproof.journal.stream import read_stream
from ackproof.journal.writer import Writer

PARTITIONS, MESSAGES, BATCH, BATCHES_OF_A_LIFE = 2, 4_000, 25, 45


def accepted(receiver: Receiver) -> list[tuple[int, int]]:
    """(partition, number) of the accepted messages, in their order."""
    return [(row[1], row[4]) for rows in receiver.received() for row in rows if row[5]]


@pytest.mark.parametrize(
    ("strategy", "taken"),
    [
        ("nothing", [(0, 0), (0, 2), (0, 0), (1, 1), (1, 3), (1, 3)]),
        ("ids", [(0, 0), (0, 2), (1, 1), (1, 3)]),
        ("mark-per-partition", [(0, 0), (0, 2), (1, 1), (1, 3)]),
        ("mark-per-topic", [(0, 0), (0, 2), (1, 3)]),  # 1 is new, but below the highest number of both partitions
        ("mark-per-producer", [(0, 0), (0, 2), (1, 3)]),
    ],
)
def test_what_each_strategy_accepts_and_drops(tmp_path: Path, strategy: str, taken: list[tuple[int, int]]) -> None:
    receiver = Receiver(tmp_path / "receiver.sqlite", strategy, topic=0)
    first = [ReceivedMessage(0, 0, 7, 0), ReceivedMessage(0, 1, 7, 2), ReceivedMessage(0, 2, 7, 0)]
    receiver.handle(first)
    receiver.handle([ReceivedMessage(1, 0, 7, 1), ReceivedMessage(1, 1, 7, 3), ReceivedMessage(1, 2, 7, 3)])
    assert accepted(receiver) == taken
    assert receiver.positions() == {0: 3, 1: 3}


@pytest.mark.parametrize("strategy", sorted(set(STRATEGIES) - {"nothing"}))
def test_numbers_of_two_producers_are_kept_apart(tmp_path: Path, strategy: str) -> None:
    receiver = Receiver(tmp_path / "receiver.sqlite", strategy, topic=0)
    receiver.handle([ReceivedMessage(0, 0, 1, 5), ReceivedMessage(0, 1, 2, 5), ReceivedMessage(0, 2, 1, 5)])
    assert [row[3] for rows in receiver.received() for row in rows if row[5]] == [1, 2]


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_a_failed_transaction_leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strategy: str) -> None:
    path = tmp_path / "receiver.sqlite"
    receiver = Receiver(path, strategy, topic=0)
    receiver.handle([ReceivedMessage(0, 0, 0, 0)])
    broken = [ReceivedMessage(0, 1, 0, 1), ReceivedMessage(0, 2, 0, None)]  # type: ignore[arg-type]  # the second cannot be written
    with pytest.raises(Exception, match="constraint"):
        receiver.handle(broken)
    again = Receiver(path, strategy, topic=0)
    assert (accepted(again), again.positions()) == ([(0, 0)], {0: 1})
    again.handle([ReceivedMessage(0, 1, 0, 1), ReceivedMessage(0, 2, 0, 2)])
    assert accepted(again) == [(0, 0), (0, 1), (0, 2)]


# A topic as a client sees it: each number once and, after every twenty numbers, the last five once more.
WORKER = f"""
import sys
from pathlib import Path
from ackproof.clients.consumer.deduplication import ReceivedMessage, Receiver

def number(offset):
    cycle, place = divmod(offset, 25)
    return cycle * 20 + (place if place < 20 else place - 5)

receiver = Receiver(Path(sys.argv[1]), sys.argv[2], topic=0)
while True:
    known = receiver.positions()
    partition = min(range({PARTITIONS}), key=lambda each: known.get(each, 0))
    first = known.get(partition, 0)
    if number(first) * {PARTITIONS} >= {MESSAGES}:
        break
    offsets = range(first, first + {BATCH})
    receiver.handle([ReceivedMessage(partition, at, 0, number(at) * {PARTITIONS} + partition) for at in offsets])
    print("handled", flush=True)
"""


@pytest.mark.parametrize("strategy", ["ids", "mark-per-partition"])
def test_a_receiver_that_is_killed_often_accepts_each_message_exactly_once(tmp_path: Path, strategy: str) -> None:
    path = tmp_path / "receiver.sqlite"
    kills = 0
    while True:
        with subprocess.Popen([sys.executable, "-c", WORKER, str(path), strategy], stdout=subprocess.PIPE) as worker:
            assert worker.stdout is not None
            for _ in zip(range(BATCHES_OF_A_LIFE), worker.stdout, strict=False):
                pass
            worker.kill()  # somewhere within the next batch
        if worker.returncode == 0:
            break
        assert worker.returncode == -signal.SIGKILL
        kills += 1
    taken = [seq for _, seq in accepted(Receiver(path, strategy, topic=0))]
    assert len(taken) == len(set(taken)), "a copy was accepted"
    assert set(range(MESSAGES)) <= set(taken), "a message was dropped"
    assert kills > 0, "it was never killed"


def test_the_journals_rows_come_from_the_database(tmp_path: Path) -> None:
    path = tmp_path / "receiver.sqlite"
    receiver = Receiver(path, "ids", topic=3)
    receiver.handle([ReceivedMessage(0, 0, 7, 0), ReceivedMessage(0, 1, 7, 0)])
    receiver.close()
    export(path, tmp_path, run=1, consumer=2, topic=3, name="consumer3")
    table, damage = read_stream(tmp_path / "journal" / "received" / "consumer3.arrows")
    rows = [(row["consumer"], row["topic"], row["offset"], row["accepted"]) for row in table.to_pylist()]
    assert (rows, damage) == ([(2, 3, 0, True), (2, 3, 1, False)], None)


def test_each_row_of_costs_counts_since_the_row_before(tmp_path: Path) -> None:
    receiver = Receiver(tmp_path / "receiver.sqlite", "ids", topic=0)
    costs = Costs(receiver, Writer(tmp_path, "costs", 1, "consumer1"), consumer=0)
    for first, count in ((0, 10), (10, 5)):
        receiver.handle([ReceivedMessage(0, at, 0, at) for at in range(first, first + count)])
        costs.tell()
    costs.close()
    table, _ = read_stream(tmp_path / "journal" / "costs" / "consumer1.arrows")
    rows = table.to_pylist()
    assert [row["messages"] for row in rows] == [10, 5, 0]
    assert all(0 < row["deciding_ns"] <= row["handling_ns"] for row in rows[:2])
    assert all(row["memory_bytes"] > 0 and row["disk_bytes"] > 0 for row in rows)


def test_values_of_an_external_producer_are_received_by_their_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Client:
        """Returns three messages, and stops the consumer."""

        def __init__(self, _: dict[str, Any]) -> None: ...

        def assign(self, _: list[TopicPartition]) -> None: ...

        def consume(self, *_: float) -> list[Message]:
            loop.stop()
            values = enumerate((b"1.5", b"1.6", b"1.5"))
            return [Message(topic="orders", partition=0, offset=offset, value=value) for offset, value in values]

        def assignment(self) -> list[TopicPartition]:
            return [TopicPartition("orders", 0)]

        def position(self, _: list[TopicPartition]) -> list[TopicPartition]:
            return [TopicPartition("orders", 0, 3)]

        def get_watermark_offsets(self, _: TopicPartition, timeout: float) -> tuple[int, int]:
            return 0, 4

        def close(self) -> None: ...

    monkeypatch.setattr(consumer, "KafkaConsumer", Client)
    (tmp_path / "clients").mkdir()
    config = ConsumerConfig(
        run=1, directory=str(tmp_path), id=0, name="consumer1", journal="consumer1", topic="orders", topic_id=0,
        group="g", group_id=0, bootstrap="nowhere", progress=str(tmp_path / "progress"), commit="never",
        receiver="ids", external=[0], over=str(tmp_path / "over"),
    )  # fmt: skip
    loop = ConsumerLoop(config)
    loop.run()
    receiver = Receiver(database_of(tmp_path, "consumer1"), "ids", topic=0)
    assert accepted(receiver) == [(0, 5), (0, 6)]
    receiver.close()
    table, _ = read_stream(tmp_path / "journal" / "positions" / "consumer1.arrows")
    assert [(row["partition"], row["position"], row["log_end"]) for row in table.to_pylist()] == [(0, 3, 4)]
