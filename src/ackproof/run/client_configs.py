"""The program and the configuration of each client process of a run, from the scenario and the record.

Nothing here starts a process or asks the lab.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from ackproof.clients.consumer.main import ConsumerConfig
from ackproof.clients.final_read import FinalReadConfig
from ackproof.clients.observer import ObserverConfig
from ackproof.clients.producer.config import OutboxConfig, ProducerConfig, TransactionsConfig
from ackproof.clients.runtime import Login
from ackproof.core.sites import FIRST_SITE, placed
from ackproof.health.config import health_config
from ackproof.lab.directory import LabDirectory
from ackproof.lab.spec import client
from ackproof.model.nodes import NodePlace
from ackproof.model.run_record import ConsumerRecord, ProducerRecord, RunRecord
from ackproof.model.scenario import ConsumerPlan, HealthPlan, ProducerPlan, Scenario, TopicPlan, Value
from ackproof.run.client_files import ClientFiles
from ackproof.run.external_clients import ExternalClients

FLUSH_S = 120.0  # how long a producer waits for its last outcomes
FULL_ISR_S = 60.0


class Program(NamedTuple):
    """A client process to start: a module of `ackproof.clients`, where it runs, and its configuration."""

    module: str
    node: str
    config: msgspec.Struct


@dataclass(frozen=True)
class Entrances:
    """Where clients reach the cluster: the bootstrap servers of each site, the listener for users, all nodes."""

    sites: dict[str, str]
    for_users: str | None
    nodes: list[NodePlace]

    def of_role(self, role: str, site: str) -> list[NodePlace]:
        return [node for node in self.nodes if (node.role, node.site) == (role, site)]

    def brokers(self, site: str) -> dict[int, tuple[str, int]]:
        return {node.kafka_id: node.endpoint for node in self.of_role("broker", site)}


class ClientConfigs:
    def __init__(
        self, scenario: Scenario, record: RunRecord, files: ClientFiles, lab: str, entrances: Entrances
    ) -> None:
        self._scenario = scenario
        self._record = record
        self._files = files
        self._lab = lab
        self._external = ExternalClients(scenario, record, files, lab)
        self.entrances = entrances

    # -- producers and consumers -----------------------------------------------------------------------------------

    def client(self, name: str, life: int) -> Program:
        """A producer or a consumer. `life`: how often it was started, this time included."""
        for consumer in self._record.consumers:
            if consumer.name == name:
                return self._consumer_program(consumer, life)
        (producer,) = (producer for producer in self._record.producers if producer.name == name)
        return self._producer_program(producer, life)

    def _consumer_program(self, consumer: ConsumerRecord, life: int) -> Program:
        plan = self._scenario.each_consumer[consumer.id]
        if plan.command:
            external = self._external.consumer(plan, consumer, self.entrances.sites[FIRST_SITE], life)
            return Program("external.process", plan.where, external)
        return Program("consumer.main", client(plan.from_host).name, self.consumer(consumer, life))

    def _producer_program(self, producer: ProducerRecord, life: int) -> Program:
        plan = self._scenario.each_producer[producer.id]
        if plan.command:
            external = self._external.producer(plan, producer, self.entrances.sites[FIRST_SITE])
            return Program("external.process", plan.where, external)
        config = self.producer(producer, life)
        module = "outbox" if config.outbox else "transactional" if config.transactions else "main"
        return Program(f"producer.{module}", client(plan.from_host).name, config)

    def _entrance(self, plan: ProducerPlan | ConsumerPlan) -> tuple[str, Login | None]:
        """The bootstrap servers of a client, and its login. A user uses the listener for users."""
        if plan.user is not None and self.entrances.for_users is not None:
            return self.entrances.for_users, Login(plan.user, str(LabDirectory.of(self._lab).users))
        servers = self.entrances.sites[placed(plan.topic)[0]].split(",")
        told = [server for server in servers if not plan.bootstrap or server.split(":")[0] in plan.bootstrap]
        return ",".join(told), None

    def consumer(self, consumer: ConsumerRecord, life: int) -> ConsumerConfig:
        plan = self._scenario.each_consumer[consumer.id]
        bootstrap, login = self._entrance(plan)
        return ConsumerConfig(
            run=self._record.run,
            directory=str(self._files.directory),
            id=consumer.id,
            name=consumer.name,
            journal=_journal(consumer.name, life),
            topic=placed(plan.topic)[1],
            topic_id=consumer.topic,
            also={placed(name)[1]: self._record.topics.index(name) for name in plan.also},
            group=self._record.groups[consumer.group],
            group_id=consumer.group,
            bootstrap=bootstrap,
            login=login,
            progress=str(self._files.progress(consumer.name)),
            over=str(self._files.over),
            protocol=plan.protocol,
            static=plan.static,
            start=plan.start,
            commit=plan.commit if plan.receiver is None else "never",
            isolation=plan.isolation,
            print=plan.print,
            life=life,
            external=self._external.producers,
            receiver=None if plan.receiver is None else plan.receiver.strategy,
            partitions=self._scenario.topic(plan.topic).partitions,
            settings=consumer.settings,
        )

    def producer(self, producer: ProducerRecord, life: int) -> ProducerConfig:
        plan = self._scenario.each_producer[producer.id]
        bootstrap, login = self._entrance(plan)
        _, copy = self._scenario.producer_places[producer.id]
        topic = self._scenario.topic(plan.topic)
        outbox, transactions = msgspec.to_builtins(plan.outbox), msgspec.to_builtins(plan.transactions)
        return ProducerConfig(
            run=self._record.run,
            directory=str(self._files.directory),
            id=producer.id,
            name=producer.name,
            topic=placed(plan.topic)[1],
            topic_id=producer.topic,
            bootstrap=bootstrap,
            login=login,
            count=plan.count,
            rate=plan.rate,
            acks=plan.acks,
            size=plan.size,
            keys=plan.keys,
            print=plan.print,
            go=str(self._files.go(self._turn(producer))),
            progress=str(self._files.progress(producer.name)),
            flush_s=FLUSH_S,
            pauses=[(pause.after, pause.seconds) for pause in plan.pauses],
            topic_check=plan.topic_check,
            topic_timeout_s=plan.topic_timeout_s,
            partitions=topic.partitions,
            replication=topic.replication,
            grows=self._scenario.partitions_at_end(topic) > topic.partitions,
            outbox=msgspec.convert(outbox, OutboxConfig | None),
            transactions=msgspec.convert(transactions, TransactionsConfig | None),
            journal=_journal(producer.name, life),
            partition=None if plan.partition is None else plan.partition + copy,
            threads=plan.threads,
            settings=plan.settings,
        )

    def _turn(self, producer: ProducerRecord) -> str | None:
        """A producer that waits for a fault goes on its own; one that comes after others goes with its table."""
        plan = self._scenario.each_producer[producer.id]
        if plan.waits:
            return producer.name
        table, _ = self._scenario.producer_places[producer.id]
        return None if plan.after is None else str(table)

    # -- observer, health check, final read ------------------------------------------------------------------------

    def observer(self, name: str, site: str) -> Program:
        brokers, topics = self.entrances.brokers(site), self._topics(site)
        config = ObserverConfig(
            run=self._record.run,
            directory=str(self._files.directory),
            name=name,
            brokers=brokers,
            names={number: self._record.nodes[number] for number in brokers},
            zookeeper={node.name: node.endpoint for node in self.entrances.of_role("zookeeper", site)},
            topics=topics,
            transactional=self._transactional(topics),
            progress=str(self._files.progress(name)),
            groups=self.client_ids(),
        )
        return Program("observer", "observer", config)

    def health(self, name: str, plan: HealthPlan) -> Program:
        min_isr = {topic.name: self._min_isr(topic) for topic in self._scenario.topics}
        servers = self.entrances.sites[placed(plan.topic)[0]]
        data = LabDirectory.of(self._lab).data
        config = health_config(plan, self.entrances.nodes, servers, min_isr, data)
        of_run = {"run": self._record.run, "directory": str(self._files.directory)}
        progress = str(self._files.progress(name))
        return Program("health_check", "observer", msgspec.structs.replace(config, **of_run, progress=progress))

    def final_read(self, name: str, site: str, settle_s: float) -> Program:
        topics = self._topics(site)
        plans = {own: self._scenario.topic(self._record.topics[number]) for own, number in topics.items()}
        config = FinalReadConfig(
            run=self._record.run,
            directory=str(self._files.directory),
            name=name,
            bootstrap=self.entrances.sites[site],
            brokers=self.entrances.brokers(site),
            topics=topics,
            partitions={own: self._scenario.partitions_at_end(topic) for own, topic in plans.items()},
            min_isr={own: self._min_isr(topic) for own, topic in plans.items()},
            compacted=[
                own for own, topic in plans.items() if "compact" in str(self._setting(topic, "cleanup.policy", ""))
            ],
            transactional=self._transactional(topics),
            digests=bool(self._record.mirrors),
            mirrors=[own for own, number in topics.items() if number in self._record.mirrors],
            progress=str(self._files.progress(name)),
            settle_s=settle_s,
            full_isr_s=FULL_ISR_S,
            external=self._external.producers,
        )
        return Program("final_read", "observer", config)

    def client_ids(self) -> dict[str, list[str]]:
        """The client ids of our members of each group. A group with an external client is left out: it can have any."""
        found: dict[str, list[str]] = {}
        for consumer, reads in zip(self._record.consumers, self._scenario.each_consumer, strict=True):
            found.setdefault(reads.group, []).append(str(reads.settings.get("client.id", consumer.name)))
        for producer, plan in zip(self._record.producers, self._scenario.each_producer, strict=True):
            if plan.transactions is not None:
                found[f"{producer.name}-input"] = [f"{producer.name}-input"]
        with_external = {reads.group for reads in self._scenario.each_consumer if reads.command}
        return {group: ids for group, ids in found.items() if group not in with_external}

    def _topics(self, site: str) -> dict[str, int]:
        """The numbers of a site's topics, by the names that they have there."""
        places = [placed(name) for name in self._record.topics]
        return {own: number for number, (where, own) in enumerate(places) if where == site}

    def _transactional(self, topics: dict[str, int]) -> list[str]:
        """Those of these topics to which transactions write."""
        return [own for own, number in topics.items() if self._record.topics[number] in self._scenario.transactional]

    def _min_isr(self, topic: TopicPlan) -> int:
        return int(self._setting(topic, "min.insync.replicas", 1))

    def _setting(self, topic: TopicPlan, name: str, default: Value) -> Value:
        """A setting of a topic: its own, else what the brokers have for all topics, else the default."""
        servers = self._scenario.cluster.settings
        scopes = [servers.get(scope, {}) for scope in ("broker", "all")]
        of_brokers = [scope[each] for scope in scopes for each in (name, f"log.{name}") if each in scope]
        return topic.settings.get(name, of_brokers[0] if of_brokers else default)


def _journal(name: str, life: int) -> str:
    """The name of the client's files in the journal: each life has its own."""
    return name if life == 1 else f"{name}-{life}"
