"""A producer and a consumer for use by hand: `ackproof produce` and `ackproof consume`. They print what happens.

python -m ackproof.clients.interactive produce|consume CONFIG    CONFIG is JSON
"""

from __future__ import annotations

import signal
import sys
import time
from typing import Any, Literal

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from ackproof.clients.consumer.main import PROTOCOLS
from ackproof.clients.runtime import GROUP_WORDS
from ackproof.core.text import plain
from ackproof.host import outputs
from ackproof.kafka.client_settings import Value, kafka_settings

FLUSH_S = 60.0


class Produce(msgspec.Struct, frozen=True):
    bootstrap: str
    topic: str
    values: list[str]
    acks: str
    keys: int | None
    rate: float | None
    settings: dict[str, Value] = {}


class Consume(msgspec.Struct, frozen=True):
    bootstrap: str
    topic: str
    group: str
    name: str
    start: Literal["earliest", "latest"]
    protocol: Literal["eager", "cooperative", "consumer"]
    count: int | None
    for_s: float | None
    settings: dict[str, Value] = {}


def say(text: str) -> None:
    print(f"{plain(text)}\n", end="", flush=True)  # in one write, because other processes use the same terminal


def produce(config: Produce) -> int:
    """Send the messages. Return 0 if every message was acknowledged."""
    client = Producer(
        {
            "bootstrap.servers": config.bootstrap,
            "acks": config.acks,
            "sticky.partitioning.linger.ms": 0,  # so that a handful of messages spreads over the partitions
            "broker.address.family": "v4",
            "log_level": 0,
            **kafka_settings(config.settings),
        }
    )
    failed: list[str] = []

    def reporter(value: str) -> Any:
        def report(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                failed.append(value)
                say(f"{value}: not acknowledged: {error.str()}")
            elif message.offset() is None or config.acks == "0":
                say(f"{value}: sent to partition {message.partition()}, without an acknowledgement")
            else:
                say(f"{value}: acknowledged, partition {message.partition()} offset {message.offset()}")

        return report

    begun = time.monotonic()
    for number, value in enumerate(config.values):
        key = None if config.keys is None else f"key{number % config.keys}".encode()
        client.produce(config.topic, value.encode(), key, on_delivery=reporter(value))
        client.poll(0)
        due = begun + (number + 1) / config.rate if config.rate else 0.0
        while (left_s := due - time.monotonic()) > 0:
            client.poll(left_s)  # it returns early, with the first report
    if left := client.flush(FLUSH_S):
        say(f"{left} messages have no answer after {FLUSH_S:.0f} s")
    return 1 if failed or left else 0


class InteractiveConsumer:
    def __init__(self, config: Consume) -> None:
        self._config = config
        self._count = 0
        self._over = False

    def stop(self, *_: Any) -> None:
        self._over = True

    def run(self) -> int:
        config = self._config
        client = Consumer(
            {
                "bootstrap.servers": config.bootstrap,
                "group.id": config.group,
                "client.id": config.name,
                "auto.offset.reset": config.start,
                **(
                    {} if config.protocol == "consumer" else {"session.timeout.ms": 6000, "heartbeat.interval.ms": 2000}
                ),
                "broker.address.family": "v4",
                "log_level": 0,
                **PROTOCOLS[config.protocol],
                **kafka_settings(config.settings),
            }
        )
        client.subscribe([config.topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
        say(f"{config.name} joins group {config.group}")
        deadline = None if config.for_s is None else time.monotonic() + config.for_s
        while not self._over and (deadline is None or time.monotonic() < deadline):
            message = client.poll(0.1)
            if message is None:
                continue
            if (error := message.error()) is not None:
                say(f"{config.name}: {error.str()}")
                continue
            self._read(message)
        client.close()
        say(f"{config.name} leaves the group after {self._count} message{'' if self._count == 1 else 's'}")
        return 0

    def _read(self, message: Any) -> None:
        value = (message.value() or b"").decode(errors="replace")
        say(f"{self._config.name} reads {value}, partition {message.partition()} offset {message.offset()}")
        self._count += 1
        if self._config.count is not None and self._count >= self._config.count:
            self._over = True

    def _assigned(self, _: Any, places: list[TopicPartition]) -> None:
        self._say_event("assigned", places)

    def _revoked(self, _: Any, places: list[TopicPartition]) -> None:
        self._say_event("revoked", places)

    def _lost(self, _: Any, places: list[TopicPartition]) -> None:
        self._say_event("lost", places)

    def _say_event(self, event: str, places: list[TopicPartition]) -> None:
        say(f"{self._config.name} {GROUP_WORDS[event]} {_named(places)}")


def _named(places: list[TopicPartition]) -> str:
    if not places:
        return "no partition"
    numbers = ", ".join(str(place.partition) for place in sorted(places, key=lambda place: place.partition))
    return f"partition{'s' if len(places) > 1 else ''} {numbers}"


def main() -> int:
    if sys.argv[1] == "produce":
        return produce(msgspec.json.decode(sys.argv[2], type=Produce))
    consumer = InteractiveConsumer(msgspec.json.decode(sys.argv[2], type=Consume))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, consumer.stop)
    return consumer.run()


def _run() -> int:
    try:
        return main()
    except KafkaException as problem:
        print(f"ackproof: {plain(problem.args[0].str())}", file=sys.stderr)
        return 2
    except outputs.Unwritten as unwritten:
        return unwritten.exit_code


if __name__ == "__main__":
    outputs.guard()
    sys.exit(outputs.finished(_run()))
