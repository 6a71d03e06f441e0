"""Write the journal of the clients whose truth is a database: producers with an outbox, and receivers."""

from __future__ import annotations

from pathlib import Path

from ackproof.clients.consumer import deduplication
from ackproof.clients.producer import outbox
from ackproof.clients.sqlite import database_of
from ackproof.model.run_record import RunRecord
from ackproof.model.scenario import Scenario


def export_outboxes(scenario: Scenario, record: RunRecord, directory: Path) -> None:
    for producer, plan in zip(record.producers, scenario.each_producer, strict=True):
        if plan.outbox is not None and database_of(directory, producer.name).exists():
            outbox.export(directory, record.run, producer.id, producer.topic, producer.name)


def export_receivers(record: RunRecord, directory: Path) -> None:
    for consumer in record.consumers:
        path = database_of(directory, consumer.name)
        if path.exists():
            deduplication.export(path, directory, record.run, consumer.id, consumer.topic, consumer.name)
