"""The clients of a run over time: started in turn, told when to go, hit by faults, waited for, ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from ackproof.clients.runtime import Progress, write_whole
from ackproof.core.errors import CannotHere, Problem, UsageProblem
from ackproof.core.sites import FIRST_SITE
from ackproof.lab import requests
from ackproof.lab.requests import InjectAtClients, Injected, inject_at_clients
from ackproof.model.fault import AnyFault
from ackproof.model.faults import Kill, Pause, Restart, Start, Stop
from ackproof.model.run_record import RunRecord
from ackproof.model.scenario import ConsumerPlan, ProducerPlan, Scenario
from ackproof.run.client_configs import FLUSH_S, ClientConfigs, Entrances
from ackproof.run.client_files import ClientFiles
from ackproof.run.client_processes import ClientProcesses, Ended, ended_how
from ackproof.run.exports import export_receivers
from ackproof.run.leaders import Leaders
from ackproof.run.reading import Member, log_ends, wait_until_read

HEALTH = "health"
HEALTH_READY_S = 180.0  # Spark starts, and compiles its first batch
EXITS_EVERY_S = 0.25
FINAL_READ_S = 600.0

Watch = Callable[[dict[str, int]], None]


class Clients:
    def __init__(self, scenario: Scenario, record: RunRecord, directory: Path, lab: str) -> None:
        self.files = ClientFiles(directory)
        self.processes = ClientProcesses(self.files, lab)
        self.leaders = Leaders(lab, record.topics)
        self.configs: ClientConfigs  # set by `start`, which knows where the cluster is
        self.producers = [producer.name for producer in record.producers]
        self.consumers = [consumer.name for consumer in record.consumers]
        self._scenario = scenario
        self._record = record
        self._directory = directory
        self._lab = lab
        self._sites: list[str] = []  # at which clients start
        self._lives: dict[str, int] = {}  # how often each client was started
        self._disturbed: set[str] = set()  # clients that the scenario itself killed or stopped
        self._gone: set[int] = set()  # [[producers]] tables that come after others, and were told to go
        self._exits_at = 0.0  # when the processes that have ended were last looked up
        self._exited: set[str] = set()  # what was found then

    # -- starting --------------------------------------------------------------------------------------------------

    def start(self, sites: dict[str, str], for_users: str | None) -> None:
        """Start the observers, the health check and the first clients, and wait until they are ready."""
        entrances = Entrances(
            {site: bootstrap for site, bootstrap in sites.items() if bootstrap},
            for_users,
            requests.nodes(self._lab),
        )
        self.configs = ClientConfigs(self._scenario, self._record, self.files, self._lab, entrances)
        self._sites = list(entrances.sites)
        for site, observer in zip(self._sites, self._observers, strict=True):
            self.processes.start(observer, self.configs.observer(observer, site))
        if self._scenario.health is not None:
            self.processes.start(HEALTH, self.configs.health(HEALTH, self._scenario.health))
            self.processes.wait_until_ready([HEALTH], HEALTH_READY_S)
        first = [name for name, plan in self._plans().items() if not _comes_later(plan)]
        for name in first:
            self.start_client(name)
        doomed = {name for name, plan in self._plans().items() if isinstance(plan, ProducerPlan) and plan.exits}
        self.processes.wait_until_ready([*self._observers, *(name for name in first if name not in doomed)])
        self.leaders.start()

    @property
    def _observers(self) -> list[str]:
        return [_of_site("observer", site) for site in self._sites]

    def _plans(self) -> dict[str, ConsumerPlan | ProducerPlan]:
        """The plan of each client; consumers first, because they start first."""
        return {
            **dict(zip(self.consumers, self._scenario.each_consumer, strict=True)),
            **dict(zip(self.producers, self._scenario.each_producer, strict=True)),
        }

    def start_client(self, name: str) -> None:
        self._lives[name] = self._lives.get(name, 0) + 1
        self._exited.discard(name)
        self.processes.start(name, self.configs.client(name, self._lives[name]))

    # -- while they work -------------------------------------------------------------------------------------------

    def go(self, table: int | None = None) -> int:
        """Tell producers to begin, in a moment: all that begin with the load, or those of a table that comes later."""
        begun = time.monotonic_ns() + 100_000_000
        self._tell_to_go(None if table is None else str(table), begun)
        return begun

    def _tell_to_go(self, turn: str | None, begun_ns: int) -> None:
        write_whole(self.files.go(turn), str(begun_ns).encode())

    def start_next(self) -> None:
        """Start each table that has `after` when the earlier one has ended, and let it go when all of it is ready."""
        for table, plan in enumerate(self._scenario.producers, start=1):
            if plan.after is None or table in self._gone:
                continue
            names = self._of_table(table)
            if names[0] in self._lives:
                if all(self.processes.is_ready(name) for name in names):
                    self._gone.add(table)
                    self.go(table)
            elif self._have_ended(self._of_table(plan.after)):
                for name in names:
                    self.start_client(name)

    def _of_table(self, number: int) -> list[str]:
        places = self._scenario.producer_places
        return [name for name, (table, _) in zip(self.producers, places, strict=True) if table == number]

    def counts(self) -> dict[str, int]:
        """The sums of what the producers say of themselves."""
        pages = [page for name in self.producers if (page := self.processes.progress(name)) is not None]
        return {field: sum(page[field] for page in pages) for field in Progress.FIELDS}

    def all_ended(self) -> bool:
        return self._have_ended(self.producers)

    def _have_ended(self, names: list[str]) -> bool:
        """Whether each says that it is done, or its process has ended: a killed client says nothing."""
        if all((self.processes.progress(name) or {}).get("done") for name in names):
            return True
        if time.monotonic() - self._exits_at >= EXITS_EVERY_S:
            self._exits_at = time.monotonic()
            self._exited = set(self.raise_if_one_died())
        return self._exited.issuperset(names)

    def disturb(self, fault: AnyFault, for_s: float | None = None) -> Injected:
        """Inject a fault at clients: `consumer:2` is the process consumer2."""
        names = [target.replace(":", "") for target in fault.asked]
        match fault:
            case Restart():
                stopped, started = self.disturb(Stop(fault.targets)), self._start_again(names)
                return Injected(names, [*stopped.said, *started.said])
            case Start():
                return self._start_again(names)
            case Kill() | Stop() | Pause():
                if not isinstance(fault, Pause):
                    self._disturbed |= set(names)
                request = InjectAtClients(fault=fault, processes=names, heard=self._external, for_s=for_s)
                return inject_at_clients(self._lab, request)
            case _:
                raise UsageProblem(f"{fault.kind} cannot hit a client")

    def _start_again(self, names: list[str]) -> Injected:
        ended = self.processes.exits()
        if running := [name for name in names if name in self.processes.started and name not in ended]:
            raise UsageProblem(f"{running[0]} is running: there is nothing to start")
        first = [name for name in names if name not in self._lives]
        for name in names:
            self.start_client(name)
        self._disturbed -= set(names)
        self.processes.wait_until_ready(first)
        for name in first:
            self._tell_to_go(name, time.monotonic_ns())
        return Injected(names, [f"{name}: started{'' if name in first else ' again'}" for name in names])

    def raise_if_one_died(self) -> dict[str, Ended]:
        """Return how each ended process ended. Raise CannotHere if a process ended that the run needs to its end.

        Without its observer or one of its consumers, the run would lack data without any sign of it.
        """
        exits = self.processes.exits()
        ended = {name for name in exits if name not in self.producers or not self._may_end(name, exits[name])}
        # An external client may end at any time and in any way: the judge decides what it was worth.
        ended -= self._disturbed | set(self._external)
        if dead := sorted(name for name in ended if not name.startswith("final-read")):
            how, log = ended_how(*exits[dead[0]]), self.files.log_tail(dead[0])
            says = "its log ends:" if log else "its log is empty (was it killed, or memory short?)"
            raise CannotHere(f"{dead[0]} ended by itself ({how}); {says}", log)
        return exits

    def _may_end(self, name: str, how: Ended) -> bool:
        """Whether a producer ended well, or with the exit code that the scenario expects of this life."""
        expected = self._scenario.each_producer[self.producers.index(name)].exits
        life = self._lives[name]
        return how == Ended(expected[life - 1] if life <= len(expected) else 0, None)

    @property
    def _external(self) -> list[str]:
        """The external clients. A process of this name is the listener, whose child is the client itself."""
        return [name for name, plan in self._plans().items() if plan.command]

    # -- the end ---------------------------------------------------------------------------------------------------

    def stop_health(self) -> None:
        """When the load ends: silence after that is expected."""
        if self._scenario.health is not None:
            self._disturbed.add(HEALTH)
            self.processes.signal(HEALTH, "SIGTERM")

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
        name = _of_site("final-read", site)
        self.processes.start(name, self.configs.final_read(name, site, settle_s))
        deadline = time.monotonic() + settle_s + FINAL_READ_S
        while name not in (exits := self.raise_if_one_died()):
            if time.monotonic() > deadline:
                raise CannotHere("the final read did not end")
            time.sleep(0.02)
        for line in self.files.log_tail(name):
            tell(f"final read: {line}")
        return exits[name].code == 0

    def stop_watching(self, tell: Callable[[str], None]) -> dict[int, str]:
        """Let the consumers read to the end, then end them and the observers. Returns what each group still lacks."""
        unread = {}
        if self.consumers:
            unread = self._wait_until_read(tell)
            self.raise_if_one_died()
        self.leaders.stop()
        health = [HEALTH] if self._scenario.health is not None else []
        readers = [name for name in self.consumers if name in self.processes.started]
        self.processes.stop([*self._observers, *health, *readers], 10.0)
        export_receivers(self._record, self._directory)
        return unread

    def _wait_until_read(self, tell: Callable[[str], None]) -> dict[int, str]:
        """What each group lacked when the wait was over, by the group's number."""
        write_whole(self.files.over, msgspec.json.encode(log_ends(self._directory)))
        names = {name for plan in self._scenario.each_consumer for name in (plan.topic, *plan.also)}
        partitions = {name: self._scenario.partitions_at_end(self._scenario.topic(name)) for name in names}
        unread = wait_until_read(self._members, partitions)
        for words in unread.values():
            tell(f"the consumers end before they have read everything: {words}")
        return {self._record.groups.index(group): words for group, words in unread.items()}

    def _members(self) -> list[Member]:
        """The consumers that run, by what they say of themselves."""
        exits = self.processes.exits()
        members = []
        for name, plan in zip(self.consumers, self._scenario.each_consumer, strict=True):
            page = self.processes.progress(name) if name in self.processes.started and name not in exits else None
            if page is not None:
                topics = frozenset((plan.topic, *plan.also))
                members.append(
                    Member(
                        name,
                        plan.group,
                        topics,
                        foreign=bool(plan.command),
                        ready=bool(page["ready"]),
                        read=page["sent"],
                        owned=page["owned"],
                        read_whole=page["read_whole"],
                    )
                )
        return members

    def stop_all(self, timeout_s: float, stuck: Problem | None = None) -> None:
        """End all clients. With `stuck`, the reason why the lab does not answer, leave them to the end of the lab."""
        self.leaders.stop()
        if stuck is None:
            self.processes.stop(sorted(self.processes.started), timeout_s)
        export_receivers(self._record, self._directory)


def _of_site(program: str, site: str) -> str:
    """The name of a process that each site has: that of the second site has the site in its name."""
    return program if site == FIRST_SITE else f"{program}-{site}"


def _comes_later(plan: ConsumerPlan | ProducerPlan) -> bool:
    """Whether a fault starts this client, or the end of other producers."""
    return plan.waits or (isinstance(plan, ProducerPlan) and plan.after is not None)
