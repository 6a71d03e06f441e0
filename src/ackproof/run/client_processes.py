"""The clients of a run as the run sees them: started where clients stand, counted while they work, ended in time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from ackproof.clients.consumer import deduplication as receiver
from ackproof.clients.consumer.main import ConsumerConfig
from ackproof.clients.final_read import FinalReadConfig
from ackproof.clients.observer import ObserverConfig
from ackproof.clients.producer import outbox
from ackproof.clients.producer.config import OutboxConfig, ProducerConfig, TransactionsConfig
from ackproof.clients.runtime import LogEnd, Login, Progress, write_whole
from ackproof.clients.sqlite import database_of
from ackproof.core.errors import CannotHere, Problem, UsageProblem
from ackproof.core.sites import FIRST_SITE, placed
from ackproof.host.own_program import own_program
from ackproof.journal.files import STREAM_SUFFIX
from ackproof.journal.stream import read_stream
from ackproof.lab import client as control
from ackproof.lab.directory import LabDirectory
from ackproof.lab.spec import client
from ackproof.model.run_record import ConsumerRecord, ProducerRecord, RunRecord
from ackproof.model.scenario import ConsumerPlan, ProducerPlan, Scenario, TopicPlan, Value
from ackproof.run.external_clients import Foreign, HostProcesses
from ackproof.run.health_check import health_config
from ackproof.run.reading import Member, wait_until_read

READY_S = 60.0
HEALTH_READY_S = 180.0  # Spark starts, and compiles its first batch
FLUSH_S = 120.0  # how long a producer waits for its last outcomes
FULL_ISR_S = 60.0
LEADERS_EVERY_S = 0.25
EXITS_EVERY_S = 0.25

Watch = Callable[[dict[str, int]], None]


def _of_site(program: str, site: str) -> str:
    """What stands beside each cluster has the second's name there."""
    return program if site == FIRST_SITE else f"{program}-{site}"


def ended_how(code: int | None, signal: int | None) -> str:
    return f"signal {signal}" if signal else f"exit code {code}"


class Clients:
    def __init__(self, scenario: Scenario, record: RunRecord, directory: Path, lab: str) -> None:
        self._scenario = scenario
        self._record = record
        self._directory = directory
        self._lab = lab
        self._folder = directory / "clients"
        self._folder.mkdir(exist_ok=True)
        self._progress: dict[str, Progress] = {}
        self._running: set[str] = set()
        self._sites: dict[str, str] = {}  # where clients of each site begin
        self.leaders: dict[str, tuple[str | None, int | None]] = {}  # TOPIC/PARTITION: who leads, in which epoch
        self._over = threading.Event()
        self._asked = 0.0
        self._exited: set[str] = set()  # as told when that was asked
        self._disturbed: set[str] = set()  # clients that the scenario itself killed or stopped
        self._lives: dict[str, int] = {}  # how often each client was started
        self._foreign = Foreign(scenario, record, directory, lab)
        self.on_host = HostProcesses()
        self._gone: set[int] = set()  # tables of producers that come after others, and were told to go

    # -- starting --------------------------------------------------------------------------------------------------

    def start(self, sites: dict[str, str], for_users: str | None) -> None:
        self._sites = {site: bootstrap for site, bootstrap in sites.items() if bootstrap}
        self._for_users = for_users
        self._nodes = control.call(self._lab, "nodes")["nodes"]
        for site in self._sites:
            self._observe(site)
        producers = dict(zip(self.producers, self._scenario.each_producer, strict=True))
        consumers = dict(zip(self.consumers, self._scenario.each_consumer, strict=True))
        self._start_health()
        first = [name for name, plan in (*consumers.items(), *producers.items()) if not _comes_later(plan)]
        for name in first:
            self._start(name)
        doomed = {name for name, plan in producers.items() if plan.exits}
        observers = [_of_site("observer", site) for site in self._sites]
        self._wait_until_ready([*observers, *(name for name in first if name not in doomed)])
        threading.Thread(target=self._follow_leaders, daemon=True).start()

    def _observe(self, site: str) -> None:
        name, brokers = _of_site("observer", site), self._addresses("broker", site)
        ensemble = [node for node in self._nodes if (node["role"], node["site"]) == ("zookeeper", site)]
        topics = self._topics(site)
        observer = ObserverConfig(
            run=self._record.run,
            directory=str(self._directory),
            name=name,
            brokers=brokers,
            names={number: self._record.nodes[number] for number in brokers},
            zookeeper={node["name"]: (node["address"], node["port"]) for node in ensemble},
            topics=topics,
            transactional=self._transactional(topics),
            progress=str(self._page(name)),
            groups=self._client_ids(),
        )
        self._spawn(name, "observer", "observer", observer)

    def _client_ids(self) -> dict[str, list[str]]:
        """By which the members of each group are known as ours; not of a group with a foreign client, which has any."""
        found: dict[str, list[str]] = {}
        for name, reads in zip(self.consumers, self._scenario.each_consumer, strict=True):
            found.setdefault(reads.group, []).append(str(reads.settings.get("client.id", name)))
        for name, plan in zip(self.producers, self._scenario.each_producer, strict=True):
            if plan.transactions is not None:
                found[f"{name}-input"] = [f"{name}-input"]
        of_others = {reads.group for reads in self._scenario.each_consumer if reads.command}
        return {group: ids for group, ids in found.items() if group not in of_others}

    def _topics(self, site: str) -> dict[str, int]:
        """The topics of a site by the names that they have there."""
        places = [placed(name) for name in self._record.topics]
        return {own: number for number, (where, own) in enumerate(places) if where == site}

    def _transactional(self, topics: dict[str, int]) -> list[str]:
        """Those of these topics that transactions write to."""
        return [own for own, number in topics.items() if self._record.topics[number] in self._scenario.transactional]

    @property
    def _health(self) -> list[str]:
        return [] if self._scenario.health is None else ["health"]

    def _start_health(self) -> None:
        if self._scenario.health is not None:
            min_isr = {topic.name: self._min_isr(topic) for topic in self._scenario.topics}
            servers = self._sites[placed(self._scenario.health.topic)[0]]
            config = health_config(self._scenario.health, self._lab, self._nodes, servers, min_isr)
            files = {"run": self._record.run, "directory": str(self._directory), "progress": str(self._page("health"))}
            self._spawn("health", "health_check", "observer", msgspec.structs.replace(config, **files))
            self._wait_until_ready(self._health, HEALTH_READY_S)

    def stop_health(self) -> None:
        """With the load: from then on silence is nobody's fault."""
        for name in self._health:
            self._disturbed.add(name)
            control.call(self._lab, "signal", process=name, signal="SIGTERM")

    def _start(self, name: str) -> None:
        self._lives[name] = self._lives.get(name, 0) + 1
        self._exited.discard(name)
        if name in self._progress:  # its last life may have ended with `done`, and this one has not even begun
            self._progress[name].write(*(0 for _ in Progress.FIELDS))
        for consumer in self._record.consumers:
            if consumer.name == name:
                self._start_consumer(consumer)
        for producer in self._record.producers:
            if producer.name == name:
                self._start_producer(producer)

    def _start_consumer(self, consumer: ConsumerRecord) -> None:
        plan = self._scenario.each_consumer[consumer.id]
        if plan.command:
            foreign = self._foreign.consumer(plan, consumer, self._sites[FIRST_SITE], self._lives[consumer.name])
            self._spawn(consumer.name, "external.process", plan.where, foreign)
        else:
            self._spawn(consumer.name, "consumer.main", client(plan.from_host).name, self._consumer(consumer))

    def _start_producer(self, producer: ProducerRecord) -> None:
        plan = self._scenario.each_producer[producer.id]
        if plan.command:
            foreign = self._foreign.producer(plan, producer, self._sites[FIRST_SITE])
            self._spawn(producer.name, "external.process", plan.where, foreign)
        else:
            config = self._producer(producer)
            module = "outbox" if config.outbox else "transactional" if config.transactions else "main"
            self._spawn(producer.name, f"producer.{module}", client(plan.from_host).name, config)

    @property
    def consumers(self) -> list[str]:
        return [consumer.name for consumer in self._record.consumers]

    def _entrance(self, plan: ProducerPlan | ConsumerPlan) -> dict[str, Any]:
        """Where a client comes in: at the brokers that it is told of, a user by the listener for users."""
        if plan.user is not None and self._for_users is not None:
            return {"bootstrap": self._for_users, "login": Login(plan.user, str(LabDirectory.of(self._lab).users))}
        servers = self._sites[placed(plan.topic)[0]]
        told = [each for each in servers.split(",") if not plan.bootstrap or each.split(":")[0] in plan.bootstrap]
        return {"bootstrap": ",".join(told)}

    def _consumer(self, consumer: ConsumerRecord) -> ConsumerConfig:
        plan = self._scenario.each_consumer[consumer.id]
        life = self._lives[consumer.name]
        _, topic = placed(plan.topic)
        return ConsumerConfig(
            run=self._record.run,
            directory=str(self._directory),
            id=consumer.id,
            name=consumer.name,
            journal=consumer.name if life == 1 else f"{consumer.name}-{life}",
            topic=topic,
            topic_id=consumer.topic,
            also={placed(name)[1]: self._record.topics.index(name) for name in plan.also},
            group=self._record.groups[consumer.group],
            group_id=consumer.group,
            **self._entrance(plan),
            progress=str(self._page(consumer.name)),
            over=str(self._load_over),
            protocol=plan.protocol,
            static=plan.static,
            start=plan.start,
            commit=plan.commit if plan.receiver is None else "never",
            isolation=plan.isolation,
            print=plan.print,
            life=life,
            external=self._foreign.producers,
            receiver=None if plan.receiver is None else plan.receiver.strategy,
            partitions=self._topic(plan.topic).partitions,
            settings=consumer.settings,
        )

    @property
    def producers(self) -> list[str]:
        return [producer.name for producer in self._record.producers]

    def _addresses(self, role: str, site: str) -> dict[int, tuple[str, int]]:
        those = [node for node in self._nodes if (node["role"], node["site"]) == (role, site)]
        return {node["kafka_id"]: (node["address"], node["port"]) for node in those}

    def _producer(self, producer: Any) -> ProducerConfig:
        plan = self._scenario.each_producer[producer.id]
        _, copy = self._scenario.producer_places[producer.id]
        topic = self._topic(plan.topic)
        _, own = placed(plan.topic)
        life = self._lives[producer.name]
        return ProducerConfig(
            run=self._record.run,
            directory=str(self._directory),
            id=producer.id,
            name=producer.name,
            topic=own,
            topic_id=producer.topic,
            **self._entrance(plan),
            count=plan.count,
            rate=plan.rate,
            acks=plan.acks,
            size=plan.size,
            keys=plan.keys,
            print=plan.print,
            go=str(self._go_file(self._go_name(producer))),
            progress=str(self._page(producer.name)),
            flush_s=FLUSH_S,
            pauses=[(pause.after, pause.seconds) for pause in plan.pauses],
            topic_check=plan.topic_check,
            topic_timeout_s=plan.topic_timeout_s,
            partitions=topic.partitions,
            replication=topic.replication,
            grows=self._scenario.partitions_at_end(topic) > topic.partitions,
            outbox=None if plan.outbox is None else msgspec.convert(msgspec.to_builtins(plan.outbox), OutboxConfig),
            transactions=None
            if plan.transactions is None
            else msgspec.convert(msgspec.to_builtins(plan.transactions), TransactionsConfig),
            journal=producer.name if life == 1 else f"{producer.name}-{life}",
            partition=None if plan.partition is None else plan.partition + copy,
            threads=plan.threads,
            settings=plan.settings,
        )

    def _topic(self, name: str) -> TopicPlan:
        return self._scenario.topic(name)

    def _page(self, name: str) -> Path:
        return self._folder / f"{name}.progress"

    def _spawn(self, name: str, module: str, node: str, config: msgspec.Struct) -> None:
        path = self._folder / f"{name}.json"
        path.write_bytes(msgspec.json.encode(config))
        argv = own_program(f"ackproof.clients.{module}", str(path))
        output = self._directory / "logs" / f"{name}.log"
        if node == "host":
            self.on_host.spawn(name, argv, output)
        else:
            control.call(self._lab, "spawn", process=name, node=node, argv=argv, output=str(output))
        self._running.add(name)

    def _wait_until_ready(self, names: list[str], within_s: float = READY_S) -> None:
        deadline = time.monotonic() + within_s
        for name in names:
            while not self._is_ready(name):
                self._raise_if_dead(name)
                if time.monotonic() > deadline:
                    raise CannotHere(
                        f"{name} was not ready within {within_s:.0f} s; its log ends:", self._log_tail(name)
                    )
                time.sleep(0.01)

    def _is_ready(self, name: str) -> bool:
        if name not in self._progress:
            try:
                self._progress[name] = Progress(self._page(name))
            except (OSError, ValueError):
                return False
        return self._progress[name].read()["ready"] == 1

    def _is_known(self, name: str) -> bool:
        """One that is expected to fail may never come to be ready."""
        self._is_ready(name)  # looks for its page
        return name in self._progress

    def _raise_if_dead(self, name: str) -> None:
        exits = self._exits()
        if name in exits:
            raise CannotHere(f"{name} ended before it was ready; its log ends:", self._log_tail(name))

    def _log_tail(self, name: str) -> list[str]:
        with suppress(OSError):
            return (self._directory / "logs" / f"{name}.log").read_text(errors="replace").splitlines()[-8:]
        return []

    # -- while they work -------------------------------------------------------------------------------------------

    def go(self, table: int | None = None) -> int:
        """The moment at which every producer begins, or those of one table that come later; a little ahead."""
        begun = time.monotonic_ns() + 100_000_000
        self._say_go(self._go_file(None if table is None else str(table)), begun)
        return begun

    def _say_go(self, file: Path, begun_ns: int) -> None:
        write_whole(file, str(begun_ns).encode())

    def _go_file(self, whose: str | None) -> Path:
        return self._folder / ("go" if whose is None else f"go-{whose}")

    def _go_name(self, producer: ProducerRecord) -> str | None:
        """A producer that waits is told by itself to go, one that comes after others with its table."""
        plan = self._scenario.each_producer[producer.id]
        if plan.waits:
            return producer.name
        table, _ = self._scenario.producer_places[producer.id]
        return None if plan.after is None else str(table)

    def start_next(self) -> None:
        """Producers that come after others: started when those have ended, told to go when all of them are ready."""
        for table, plan in enumerate(self._scenario.producers, start=1):
            if plan.after is None or table in self._gone:
                continue
            names = self._of_table(table)
            if names[0] in self._lives:
                if all(self._is_ready(name) for name in names):
                    self._gone.add(table)
                    self.go(table)
            elif self._have_ended(self._of_table(plan.after)):
                for name in names:
                    self._start(name)

    def _of_table(self, number: int) -> list[str]:
        places = self._scenario.producer_places
        return [name for name, (table, _) in zip(self.producers, places, strict=True) if table == number]

    def counts(self) -> dict[str, int]:
        pages = [self._progress[name].read() for name in self.producers if self._is_known(name)]
        return {field: sum(page[field] for page in pages) for field in Progress.FIELDS}

    def all_ended(self) -> bool:
        return self._have_ended(self.producers)

    def _have_ended(self, names: list[str]) -> bool:
        """By their own word, or by that of whoever started them: one that was killed says nothing."""
        if all(self._is_known(name) and self._progress[name].read()["done"] for name in names):
            return True
        if time.monotonic() - self._asked >= EXITS_EVERY_S:
            self._asked = time.monotonic()
            self._exited = set(self.raise_if_one_died())
        return self._exited.issuperset(names)

    def _exits(self) -> dict[str, Any]:
        inside = sorted(name for name in self._running if name not in self.on_host)
        exits: dict[str, Any] = control.call(self._lab, "processes", names=inside)["exits"]
        return exits | self.on_host.exits()

    def leader_epoch(self, partition: str) -> int | None:
        return self.leaders.get(partition, (None, None))[1]

    def _follow_leaders(self) -> None:
        while not self._over.wait(LEADERS_EVERY_S):
            with suppress(Problem, OSError):
                views = control.call(self._lab, "leaders")["topic_partitions"]
                for view in [view for view in views if view["topic"] in self._record.topics]:
                    self.leaders[f"{view['topic']}/{view['partition']}"] = (view["leader"], view["leader_epoch"])

    def disturb(self, kind: str, targets: list[str], for_s: float | None = None) -> dict[str, Any]:
        """A fault at clients: `consumer:2` is the process consumer2."""
        names = [target.replace(":", "") for target in targets]
        if kind == "restart":
            stopped, started = self.disturb("stop", targets), self.disturb("start", targets)
            return {"nodes": names, "said": [*stopped["said"], *started["said"]]}
        if kind == "start":
            ended = self._exits()
            if running := [name for name in names if name in self._running and name not in ended]:
                raise UsageProblem(f"{running[0]} runs: there is nothing to start")
            first = [name for name in names if name not in self._lives]
            for name in names:
                self._start(name)
            self._disturbed -= set(names)
            self._wait_until_ready(first)
            for name in first:
                self._say_go(self._go_file(name), time.monotonic_ns())
            return {"nodes": names, "said": [f"{name}: started{'' if name in first else ' again'}" for name in names]}
        if kind != "pause":
            self._disturbed |= set(names)
        result: dict[str, Any] = control.call(
            self._lab, "disturb", kind=kind, processes=names, heard=self._heard, for_s=for_s
        )
        return result

    # -- the end ---------------------------------------------------------------------------------------------------

    def raise_if_one_died(self) -> dict[str, Any]:
        """Without its observer or one of its consumers a run has a hole that nobody would see."""
        exits = self._exits()
        ended = {name for name in exits if name not in self.producers or not self._may_end(name, exits[name])}
        # What a foreign client was worth until it ended, however it ended, is for the judge to say.
        ended -= self._disturbed | set(self._heard)
        if dead := sorted(name for name in ended if not name.startswith("final-read")):
            how, told = ended_how(*exits[dead[0]] or (None, None)), self._log_tail(dead[0])
            says = "its log ends:" if told else "its log says nothing (was it killed, or memory short?)"
            raise CannotHere(f"{dead[0]} ended by itself ({how}); {says}", told)
        return exits

    def _may_end(self, name: str, how: list[int | None] | None) -> bool:
        """Well, or as the scenario expects of this life."""
        expected = self._scenario.each_producer[self.producers.index(name)].exits
        life = self._lives[name]
        return how == [expected[life - 1] if life <= len(expected) else 0, None]

    @property
    def _heard(self) -> list[str]:
        """Foreign clients: whatever goes by such a name is the listener, and not the client itself."""
        plans: list[ProducerPlan | ConsumerPlan] = [*self._scenario.each_producer, *self._scenario.each_consumer]
        names = [*self.producers, *self.consumers]
        return [name for name, plan in zip(names, plans, strict=True) if plan.command]

    def export_outboxes(self) -> None:
        """The journal's rows of producers whose truth is a database."""
        for producer, plan in zip(self._record.producers, self._scenario.each_producer, strict=True):
            if plan.outbox is not None and database_of(self._directory, producer.name).exists():
                outbox.export(self._directory, self._record.run, producer.id, producer.topic, producer.name)

    def _export_receivers(self) -> None:
        for consumer in self._record.consumers:
            path = database_of(self._directory, consumer.name)
            if path.exists():
                receiver.export(path, self._directory, self._record.run, consumer.id, consumer.topic, consumer.name)

    def wait_for_outcomes(self, watch: Watch) -> None:
        deadline = time.monotonic() + FLUSH_S + 10
        waiting = set(self.producers)
        while waiting:
            waiting -= set(self.raise_if_one_died())
            watch(self.counts())
            if time.monotonic() > deadline:
                raise CannotHere(f"{', '.join(sorted(waiting))} did not end within {FLUSH_S:.0f} s")
            time.sleep(0.02)

    def final_read(self, settle_s: float, tell: Callable[[str], None]) -> bool:
        """Whether every partition stood still and was read to its end."""
        read_whole = [self._read_finally(site, settle_s, tell) for site in self._sites]
        return all(read_whole)

    def _read_finally(self, site: str, settle_s: float, tell: Callable[[str], None]) -> bool:
        name, topics = _of_site("final-read", site), self._topics(site)
        plans = {own: self._scenario.topic(self._record.topics[number]) for own, number in topics.items()}
        config = FinalReadConfig(
            run=self._record.run,
            directory=str(self._directory),
            name=name,
            bootstrap=self._sites[site],
            brokers=self._addresses("broker", site),
            topics=topics,
            partitions={own: self._scenario.partitions_at_end(topic) for own, topic in plans.items()},
            min_isr={own: self._min_isr(topic) for own, topic in plans.items()},
            compacted=[
                own for own, topic in plans.items() if "compact" in str(self._setting(topic, "cleanup.policy", ""))
            ],
            transactional=self._transactional(topics),
            digests=bool(self._record.mirrors),
            mirrors=[own for own, number in topics.items() if number in self._record.mirrors],
            progress=str(self._page(name)),
            settle_s=settle_s,
            full_isr_s=FULL_ISR_S,
            external=self._foreign.producers,
        )
        self._spawn(name, "final_read", "observer", config)
        deadline = time.monotonic() + settle_s + 600
        while name not in (exits := self.raise_if_one_died()):
            if time.monotonic() > deadline:
                raise CannotHere("the final read did not end")
            time.sleep(0.02)
        for line in self._log_tail(name):
            tell(f"final read: {line}")
        code, _ = exits[name] or (None, None)
        return bool(code == 0)

    def _min_isr(self, topic: TopicPlan) -> int:
        return int(self._setting(topic, "min.insync.replicas", 1))

    def _setting(self, topic: TopicPlan, name: str, default: Value) -> Value:
        """The topic's own, or what the brokers were given for all topics."""
        servers = self._scenario.cluster.settings
        for_all = [servers.get(scope, {}) for scope in ("broker", "all")]
        names = (name, f"log.{name}")
        given = [scope[each] for scope in for_all for each in names if each in scope]
        return topic.settings.get(name, given[0] if given else default)

    def stop_watching(self, tell: Callable[[str], None]) -> dict[int, str]:
        """Give consumers time to read what is there, then end them and the observer; return what groups still lack."""
        unread = {}
        if self.consumers:
            unread = self._wait_until_read(tell)
            self.raise_if_one_died()
        self._over.set()
        observers = [_of_site("observer", site) for site in self._sites]
        readers = [name for name in self.consumers if name in self._running]
        self._stop([*observers, *self._health, *readers], 10.0)
        self._export_receivers()
        return unread

    def _wait_until_read(self, tell: Callable[[str], None]) -> dict[int, str]:
        """What each group lacked when the wait was over, by the group's number."""
        write_whole(self._load_over, msgspec.json.encode(self._ends()))
        plans = [*self._scenario.each_consumer]
        names = {name for plan in plans for name in (plan.topic, *plan.also)}
        partitions = {name: self._scenario.partitions_at_end(self._topic(name)) for name in names}
        unread = wait_until_read(self._members, partitions)
        for words in unread.values():
            tell(f"the consumers end before they have read everything: {words}")
        return {self._record.groups.index(group): words for group, words in unread.items()}

    @property
    def _load_over(self) -> Path:
        """Once this file is there, the load is over and the logs grow no more; it says how far each goes."""
        return self._folder / "over"

    def _ends(self) -> list[LogEnd]:
        """As the final read found them, of a mirror's topics too."""
        folders = [self._directory / "journal" / table for table in ("ends", "mirror_ends")]
        paths = [path for folder in folders for path in sorted(folder.glob(f"*{STREAM_SUFFIX}"))]
        rows = [row for path in paths for row in read_stream(path)[0].to_pylist()]
        return [LogEnd(row["topic"], row["partition"], row["log_start"], row["high_watermark"]) for row in rows]

    def _members(self) -> list[Member]:
        """The consumers that run, by what they say of themselves."""
        exits = self._exits()
        members = []
        for consumer, plan in zip(self._record.consumers, self._scenario.each_consumer, strict=True):
            name = consumer.name
            if name not in self._running or name in exits or not self._is_known(name):
                continue
            page = self._progress[name].read()
            members.append(
                Member(
                    name,
                    plan.group,
                    frozenset((plan.topic, *plan.also)),
                    foreign=bool(plan.command),
                    ready=bool(page["ready"]),
                    read=page["sent"],
                    owned=page["owned"],
                    read_whole=page["read_whole"],
                )
            )
        return members

    def stop_all(self, timeout_s: float, stuck: Problem | None = None) -> None:
        """`stuck`: why the lab cannot be asked."""
        self._over.set()
        if stuck is None:
            self._stop(sorted(self._running), timeout_s)
        self._export_receivers()

    def _stop(self, names: list[str], timeout_s: float) -> None:
        """Ask; then end what did not listen."""
        for name in names:
            self._signal(name, "SIGTERM")
        deadline = time.monotonic() + timeout_s
        while (left := set(names) - set(self._exits())) and time.monotonic() < deadline:
            time.sleep(0.02)
        for name in left:
            self._signal(name, "SIGKILL")

    def _signal(self, name: str, number: str) -> None:
        if name in self.on_host:
            self.on_host.signal(name, number)
        else:
            control.call(self._lab, "signal", process=name, signal=number)


def _comes_later(plan: object) -> bool:
    """A fault starts it, or the end of other producers does."""
    waits = isinstance(plan, ConsumerPlan | ProducerPlan) and plan.waits
    return waits or (isinstance(plan, ProducerPlan) and plan.after is not None)
