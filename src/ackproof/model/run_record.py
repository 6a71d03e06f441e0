"""`run.json`: what was run, so that a run directory explains itself to the judge and to reports.

The run writes the whole file when it begins and again at each step. `ended` says how it ended; it is null while the run
goes on, and after everything was killed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from ackproof.core.errors import naming
from ackproof.core.run_files import require_own
from ackproof.core.safe_json import json_text, read_json
from ackproof.core.sites import RELAY
from ackproof.model.run_record_bounds import (
    PARTITIONS_MOST,
    Each,
    Id,
    Index,
    Many,
    Moment,
    Name,
    Some,
    Text,
    check_plan,
)
from ackproof.model.scenario import ConsumerPlan, Expected, ProducerPlan, Scenario, Value
from ackproof.model.tables.version import SCHEMA_VERSION


class ProducerRecord(msgspec.Struct, frozen=True):
    id: Id
    name: Name
    topic: Index
    acks: Name  # "0", "1" or "all"
    count: Some
    rate: float | None  # messages a second; null: as fast as it goes
    settings: dict[str, Value] = {}


class ConsumerRecord(msgspec.Struct, frozen=True):
    id: Id
    name: Name
    topic: Index
    group: Index
    settings: dict[str, Value] = {}
    start: Literal["earliest", "latest"] = "earliest"


class FaultRecord(msgspec.Struct, frozen=True):
    id: Id
    kind: Name
    asked: Many[Name]
    apart_from: Many[Name] = []
    when: Text = ""  # in words: "at 30,000 messages"
    heals: Text = ""  # in words: "after the last send, and not before a new leader epoch was seen or 30 s have passed"
    step: Text | None = None  # of a runbook, in words


class Clock(msgspec.Struct, frozen=True):
    """Both clocks, read at one moment: with them monotonic times become times of day."""

    wall_ns: Moment
    monotonic_ns: Moment


class Marks(msgspec.Struct, frozen=True):
    """Moments of the run on the monotonic clock; null if the run did not get that far."""

    ready_ns: Moment | None = None
    load_begun_ns: Moment | None = None
    load_ended_ns: Moment | None = None
    healed_ns: Moment | None = None
    drained_ns: Moment | None = None
    verdict_ns: Moment | None = None  # when the run itself printed it; null if it was judged later


class RunRecord(msgspec.Struct, frozen=True):
    run: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    name: Name  # the directory's name
    scenario: Name
    section: Name
    title: Text
    shape: Name  # base, slow or crowd
    mode: Name  # zookeeper or kraft
    kafka: Name
    seed: int
    argv: Many[Text]  # how to run it again
    versions: Each[Name]
    expect: dict[str, Expected]  # per check, resolved for this mode and shape
    topics: Many[Name]  # their numbers are the places in this list; so for groups
    groups: Many[Name]
    producers: Many[ProducerRecord]
    consumers: Many[ConsumerRecord]
    faults: Many[FaultRecord]
    nodes: Each[int]  # Kafka's id: the node's name
    began: Clock
    plan: Scenario  # as it was resolved, every field
    schema: int = SCHEMA_VERSION
    ended_at: Clock | None = None
    ended: Literal["complete", "interrupted", "failed"] | None = None
    problems: Many[Text] = []
    marks: Marks = Marks()
    mirrors: dict[Index, Index] = {}  # the number of a topic that a mirror made: the topic that it was made from
    others: Many[Text] = []  # commands of others to the lab during the run, each with its caller
    unread: dict[Index, Text] = {}  # groups whose consumers ended too early, and what they had not read
    rows: dict[Name, Some] = {}  # of each table when the journal was sealed: a file may be missing now

    def is_server(self, node: str) -> bool:
        """Whether a node is a server: a broker, or a node of ZooKeeper or of the quorum, in either cluster.

        A broker's relay counts too: without it clients on the host do not reach the broker.
        """
        own = node.removeprefix(RELAY).rsplit(".", 1)[-1]
        return node in self.nodes.values() or own.startswith(("zk", "controller", "kafka", "mirror"))

    @property
    def planned_producers(self) -> list[tuple[ProducerRecord, ProducerPlan]]:
        """Each producer with its plan."""
        return list(zip(self.producers, self.plan.each_producer, strict=False))

    @property
    def planned_consumers(self) -> list[tuple[ConsumerRecord, ConsumerPlan]]:
        """Each consumer with its plan."""
        return list(zip(self.consumers, self.plan.each_consumer, strict=False))

    def partitions(self, topic: int) -> int:
        """How many partitions a topic has in the end, by the plan; without a plan, at least one."""
        if not self.plan.topics:
            return 1
        return self.plan.partitions_at_end(self.plan.topics[self.mirrors.get(topic, topic)])


def write_record(run_directory: Path, record: RunRecord) -> None:
    temporary = run_directory / ".run.json.new"
    try:
        with naming(temporary), temporary.open("wb") as out:
            out.write(json_text(record))
            out.flush()
            os.fsync(out.fileno())
        temporary.rename(run_directory / "run.json")
    except BaseException:
        temporary.unlink(missing_ok=True)  # it may be what fills the disk
        raise


def read_record(run_directory: Path) -> RunRecord:
    """Read a run's record, and check that its numbers are within the bounds that any run keeps."""
    path = run_directory / "run.json"
    require_own(path, run_directory)
    record = read_json(path, RunRecord)
    check_plan(record.plan)
    if sum(map(record.partitions, {*range(len(record.topics)), *record.mirrors})) > PARTITIONS_MOST:
        raise msgspec.ValidationError(f"its plan has more than {PARTITIONS_MOST:,} partitions")
    return record
