"""Real labs for tests, which run the command line as root or as an ordinary user."""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import termios
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyroute2 import IPRoute

import ackproof
from ackproof.host import namespaces as kernel
from ackproof.journal.files import sealed_files
from ackproof.journal.stream import read_stream
from ackproof.judge.run_source import opened
from ackproof.lab.directory import LabDirectory
from tests.support.skips import cannot_run

ORDINARY_UID = 65534
GONE_S = 5.0
_PR_SET_DUMPABLE = 4
STAND_IN = (Path(__file__).parent / "stand_in.py").read_text()
NEVER_SERVES = "this broker only sleeps"
AGENT = (Path(__file__).parent / "agent.py").read_text()

Done = subprocess.CompletedProcess[str]


@dataclass(frozen=True)
class User:
    """The user who runs the commands, the user's Python, and where the user's files are."""

    python: str
    environment: dict[str, str]
    state: Path
    uid: int | None = None

    def processes(self) -> set[Identity]:
        """Return every process of this user's commands: its environment or its arguments name the state folder."""
        return mentioning(str(self.state), ("cmdline", "environ"))

    def temporary_files(self) -> list[Path]:
        return list(Path(self.environment["TMPDIR"]).iterdir())

    def labs(self) -> list[Path]:
        """Return the folders of this user's labs, also of labs that were killed."""
        return list((self.state / "ackproof" / "labs").glob("*"))

    def run(self, *arguments: str, timeout_s: float = 120, first: Callable[[], None] | None = None) -> Done:
        process = self.start(*arguments, first=first)
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"ackproof {' '.join(arguments)} took more than {timeout_s} s: {out} {err}") from None
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def start(
        self, *arguments: str, terminal: int | None = None, first: Callable[[], None] | None = None
    ) -> subprocess.Popen[str]:
        """With `terminal`, on that and as the leader of its session, as a shell's window has it. `first` is done by the
        process itself, before it is the command."""
        return self.start_python("-m", "ackproof", *arguments, terminal=terminal, first=first)

    def start_python(
        self, *words: str, terminal: int | None = None, first: Callable[[], None] | None = None
    ) -> subprocess.Popen[str]:
        stream = subprocess.PIPE if terminal is None else terminal
        identity: dict[str, Any] = {} if self.uid is None else {"user": self.uid, "group": self.uid, "extra_groups": []}
        return subprocess.Popen(
            [self.python, *words],
            stdin=stream,
            stdout=stream,
            stderr=stream,
            text=True,
            env=self.environment,
            cwd="/",
            start_new_session=terminal is not None,
            preexec_fn=first if terminal is None else lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            **identity,
        )


@contextmanager
def ourselves() -> Iterator[User]:
    with tempfile.TemporaryDirectory(prefix="ackproof-test-") as folder:
        state = Path(folder)
        (state / "tmp").mkdir()
        environment = {**os.environ, "XDG_STATE_HOME": folder, "TMPDIR": str(state / "tmp")}
        yield User(sys.executable, environment, state)


@contextmanager
def an_ordinary_user() -> Iterator[User]:
    """Yield ourselves if we are not root; else another user, with a Python and a cache that this user can read."""
    if os.getuid() != 0:
        with ourselves() as user:
            yield user
        return
    home = Path(tempfile.mkdtemp(prefix="ackproof-test-"))
    try:
        cache = home / "cache" / "ackproof" / "kafka"
        cache.mkdir(parents=True)
        for version in (Path.home() / ".cache" / "ackproof" / "kafka").glob("[34].*"):
            shutil.copytree(version, cache / version.name, copy_function=link_or_copy)
        (home / "state" / "tmp").mkdir(parents=True)
        for folder in (home, home / "state", home / "state" / "tmp", *cache.parents[:2], cache, *cache.iterdir()):
            os.chown(folder, ORDINARY_UID, ORDINARY_UID)
        paths = [sysconfig.get_path("purelib"), str(Path(ackproof.__file__).parents[1])]
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_CACHE_HOME": str(home / "cache"),
            "TMPDIR": str(home / "state" / "tmp"),
            "PYTHONPATH": ":".join(paths),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        yield User(_python_for(ORDINARY_UID, environment), environment, home / "state", ORDINARY_UID)
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def with_stand_ins(user: User) -> Iterator[User]:
    """Yield the same user with a Java that never serves."""
    with a_java(user, "#!/bin/sh\nexec sleep 3600\n") as found:
        yield found


@contextmanager
def with_stand_ins_that_serve(user: User) -> Iterator[User]:
    """Yield the same user with a Java that answers for a lab of one broker, and does nothing else."""
    with a_java(user, f"#!{user.python} -IS\n{STAND_IN}") as found:
        yield found


@contextmanager
def with_brokers_that_never_serve(user: User) -> Iterator[User]:
    """Yield the same user with a Java that answers as ZooKeeper, but never as a broker; its log says why."""
    asked = "'clientPort=' in pathlib.Path(sys.argv[-1]).read_text()"
    never = f"print({NEVER_SERVES!r}, flush=True) or time.sleep(3600)"
    chosen = f"import pathlib, sys, time\nexec({STAND_IN!r}) if {asked} else {never}\n"
    with a_java(user, f"#!{user.python} -IS\n{chosen}") as found:
        yield found


@contextmanager
def a_java(user: User, program: str, version: str = "17.0.1") -> Iterator[User]:
    """Yield the same user with this program as Java."""
    with tempfile.TemporaryDirectory(prefix="ackproof-test-") as folder:
        java = Path(folder) / "bin" / "java"
        java.parent.mkdir()
        java.write_text(program)
        (Path(folder) / "release").write_text(f'JAVA_VERSION="{version}"\n')
        for path in (Path(folder), java.parent, java):
            path.chmod(0o755)
        yield replace(user, environment={**user.environment, "JAVA_HOME": folder})


@contextmanager
def with_an_empty_cache(user: User) -> Iterator[User]:
    with tempfile.TemporaryDirectory(prefix="ackproof-test-") as folder:
        if user.uid is not None:
            os.chown(folder, user.uid, user.uid)
        yield replace(user, environment={**user.environment, "XDG_CACHE_HOME": folder})


def without_network() -> None:
    """Leave the network: a process that does this `first` has none, not even loopback."""
    own_namespaces(kernel.CLONE_NEWNET)


def with_loopback_only() -> None:
    """Leave the network but for loopback, over which the judge talks to its Java. A process does this `first`."""
    without_network()
    with IPRoute() as network:
        network.link("set", index=1, state="up")


def own_namespaces(kinds: int) -> None:
    uid, gid = os.getuid(), os.getgid()
    try:
        kernel.unshare(kinds)
    except PermissionError:
        ctypes.CDLL(None).prctl(
            _PR_SET_DUMPABLE, 1, 0, 0, 0
        )  # otherwise /proc/self of a process that was root still belongs to root
        kernel.unshare(kernel.CLONE_NEWUSER | kinds)
        kernel.map_root(uid, gid)


def link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy(source, target)


def _python_for(uid: int, environment: dict[str, str]) -> str:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    said = ""
    for candidate in (sys.executable, f"/usr/bin/{version}", f"/usr/local/bin/{version}"):
        try:
            tried = subprocess.run(
                [candidate, "-c", "import ackproof.cli.main, ackproof.lab.network.router, confluent_kafka"],
                user=uid, group=uid, extra_groups=[], env=environment, cwd="/",
                capture_output=True, text=True, check=False, timeout=60,
            )  # fmt: skip
        except OSError as problem:
            said = str(problem)
            continue
        if tried.returncode == 0:
            return candidate
        said = tried.stderr.strip().rpartition("\n")[2]
    return cannot_run(f"no {version} that another user can run: {said}")


# -- a lab -----------------------------------------------------------------------------------------------------------


@dataclass
class RealLab:
    user: User
    name: str
    agents: dict[str, subprocess.Popen[str]] = field(default_factory=dict)
    count: int = 0

    # -- by its command line

    def run(self, verb: str, *arguments: str, timeout_s: float = 120, first: Callable[[], None] | None = None) -> Done:
        return self.user.run(verb, "--name", self.name, *arguments, timeout_s=timeout_s, first=first)

    def do(self, verb: str, *arguments: str, timeout_s: float = 120) -> str:
        """Run a verb that must succeed, and return its output."""
        done = self.run(verb, *arguments, timeout_s=timeout_s)
        assert done.returncode == 0, f"{verb} {arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def refused(self, code: int, verb: str, *arguments: str, timeout_s: float = 120) -> str:
        """Run a verb that must end with this code and one sentence."""
        done = self.run(verb, *arguments, timeout_s=timeout_s)
        said = [line for line in done.stderr.splitlines() if line.startswith("ackproof: ")]
        assert (done.returncode, len(said)) == (code, 1), f"{verb} {arguments}: {done}"
        assert "Traceback" not in done.stderr
        return said[0]

    def topic(self, verb: str, *arguments: str) -> str:
        done = self.user.run("topic", verb, "--name", self.name, *arguments)
        assert done.returncode == 0, done
        return done.stdout

    def status(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.do("status", "--json"))
        return told

    def node(self, name: str) -> dict[str, Any]:
        return next(node for node in self.status()["nodes"] if node["name"] == name)

    def events(self) -> list[dict[str, Any]]:
        told: list[dict[str, Any]] = json.loads(self.do("events", "--json"))
        return told

    @property
    def folder(self) -> Path:
        return self.user.state / "ackproof" / "labs" / self.name

    # -- by traffic of our own

    def tell(self, node: str, do: str, **order: Any) -> Any:
        agent = self.agents.get(node)
        if agent is None:
            arguments = ("exec", "--name", self.name, node, "--", self.user.python, "-u", "-c", AGENT)
            agent = self.agents[node] = self.user.start(*arguments)
        assert agent.stdin is not None
        assert agent.stdout is not None
        agent.stdin.write(json.dumps({"do": do, **order}) + "\n")
        agent.stdin.flush()
        return json.loads(agent.stdout.readline() or "null")

    def connect(self, source: str, target: str, port: int = 5556) -> str:
        return str(self.tell(source, "connect", to=target, port=port))

    def heard(self, names: list[str], expected: set[tuple[str, str]]) -> set[tuple[str, str]]:
        """Return the links on which a datagram arrives. It waits for the expected ones, and a while for others."""
        self.count += 1
        links = [(a, b) for a in names for b in names if a != b]
        for name in names:
            self.tell(name, "resolve", to=name)  # its agent is up
        for a, b in links:
            self.tell(a, "send", to=b, what=f"{self.count} {a} {b}")

        def arrived() -> set[tuple[str, str]]:
            return {(a, b) for a, b in links if self.tell(b, "got", what=f"{self.count} {a} {b}")}

        deadline = time.monotonic() + 2
        while not arrived() >= expected and time.monotonic() < deadline:
            time.sleep(0.01)
        return arrived()

    def close(self) -> None:
        for agent in self.agents.values():
            with suppress(OSError):
                agent.kill()
            agent.communicate()
        self.agents.clear()
        if self.folder.exists():
            self.run("down")


@contextmanager
def lab(user: User, name: str, *options: str, timeout_s: float = 120) -> Iterator[RealLab]:
    made = RealLab(user, name)
    try:
        made.do("up", *options, timeout_s=timeout_s)
        yield made
    finally:
        made.close()


# -- what will not end by itself --------------------------------------------------------------------------------------

DAEMON = "trap '' TERM; setsid sleep 987654 </dev/null >/dev/null 2>&1 &"  # ignores signals, and is no process's child
DEAF = "trap '' TERM INT HUP; echo deaf; while :; do sleep 987653; done"


def daemons() -> set[Identity]:
    return mentioning("sleep\0987654")


def deaf_ones() -> set[Identity]:
    return mentioning("sleep\0987653")


def stopped(pid: int) -> bool:
    return "State:\tT" in Path(f"/proc/{pid}/status").read_text()


@contextmanager
def left_stubborn(made: RealLab, *nodes: str) -> Iterator[set[Identity]]:
    """Return the processes of a lab with a daemon and a child that ignore signals, after stopping these nodes."""
    deaf = made.user.start("exec", "--name", made.name, "client", "--", "sh", "-c", f"({DAEMON}); {DEAF}")
    try:
        assert deaf.stdout is not None
        assert deaf.stdout.readline() == "deaf\n"
        supervisor = LabDirectory(made.folder).started().supervisor_pid
        wait_until(lambda: len(processes_of(supervisor) & daemons()) == 1, "the lab has a daemon")
        wait_until(lambda: len(processes_of(supervisor) & deaf_ones()) == 1, "the lab has a child that ignores signals")
        processes = processes_of(supervisor)
        pids = [pid for node in nodes for pid, _ in processes & mentioning(f"{made.folder}/settings/{node}/")]
        assert len(pids) == len(nodes)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: all(map(stopped, pids)), f"{' and '.join(nodes)} are stopped")
        yield processes
    finally:
        deaf.kill()
        deaf.communicate()


# -- what is left ----------------------------------------------------------------------------------------------------

Identity = tuple[int, str]


def processes_of(supervisor: int) -> set[Identity]:
    """Return every process in the lab's pid namespace, by number and start time, because numbers are used again."""
    return processes_in(Path(f"/proc/{supervisor}/ns/pid").readlink())


def processes_in(namespace: Path) -> set[Identity]:
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (entry / "ns" / "pid").readlink() == namespace:
                found.add((int(entry.name), _start_time(entry)))
    return found


def _start_time(entry: Path) -> str:
    return (entry / "stat").read_text().rpartition(")")[2].split()[19]


def alive(identities: set[Identity]) -> set[Identity]:
    left = set()
    for pid, started in identities:
        with suppress(OSError):
            if _start_time(Path(f"/proc/{pid}")) == started:
                left.add((pid, started))
    return left


def mentioning(text: str, where: tuple[str, ...] = ("cmdline",)) -> set[Identity]:
    """Return the processes whose command line holds this text, except our own."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int(entry.name) != os.getpid() and any(text.encode() in (entry / name).read_bytes() for name in where):
                found.add((int(entry.name), _start_time(entry)))
    return found


_CHANGING = {
    *("header", "event", "res_id", "attrs"),  # headers of the answer, and parts that are looked at one by one
    *("IFA_CACHEINFO", "RTA_CACHEINFO"),  # ages
    *("NFTA_CHAIN_COUNTERS", "NFTA_COUNTER_BYTES", "NFTA_COUNTER_PACKETS"),
}
_OF_A_LINK = ("IFLA_IFNAME", "IFLA_ADDRESS", "IFLA_MTU", "IFLA_QDISC", "IFLA_MASTER")
_CLONED = 0x200  # a route that the kernel derived from another


def host() -> dict[str, Any]:
    """Return what a lab must leave as it was: all links, addresses, routes, mounts, rules and control groups."""
    from pyroute2 import IPRoute
    from pyroute2.nftables.main import NFTables

    with IPRoute() as routes:
        links = [(each["index"], each["flags"], *map(each.get_attr, _OF_A_LINK)) for each in routes.get_links()]
        addresses = [_lasting(each) for each in routes.get_addr()]
        ways = [_lasting(each) for each in routes.get_routes() if not each["flags"] & _CLONED]
    rules: list[str] | None = None
    if os.getuid() == 0:
        with NFTables(nfgen_family=socket.AF_UNSPEC) as nft:
            asked = (nft.get_tables, nft.get_chains, nft.get_rules, nft.get_sets)
            rules = sorted(str(_lasting(each)) for ask in asked for each in ask())
    mounts = sorted(line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines())
    return {
        "links": sorted(map(str, links)),
        "addresses": sorted(map(str, addresses)),
        "routes": sorted(map(str, ways)),
        "rules": rules,
        "mounts": mounts,
        "groups": _groups(),
    }


def _lasting(told: Any) -> Any:
    """Return all that the kernel says of a thing, except what changes by itself."""
    if isinstance(told, dict):
        facts = [*told.items(), *told.get("attrs", ())]
        return [(name, _lasting(value)) for name, value in facts if name not in _CHANGING]
    if isinstance(told, (list, tuple)):
        return [_lasting(each) for each in told]
    return sorted(told) if isinstance(told, frozenset) else told


def network_namespaces() -> set[Path]:
    """Those of all processes that we may look at, but for the host's own services, which have control groups of their
    own."""
    ours, found = Path("/proc/self/cgroup").read_bytes(), set()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (entry / "cgroup").read_bytes() == ours:
                found.add((entry / "ns" / "net").readlink())
    return found


# Groups at the root that come and go without us: systemd's have such names, and one of our proofs makes its own.
_OTHERS = ("*.slice", "*.scope", "*.service", "*.mount", "*.socket", "*.swap", "ackproof-proof-*")


def _groups() -> list[str]:
    """Return the control groups below our own; if ours is the root, the groups directly below it."""
    found: list[Path] = []
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, kinds, ours = line.split(":", 2)
        root = Path("/sys/fs/cgroup", kinds.removeprefix("name="))
        if not kinds and (root / "unified").is_dir():  # the groups of version 2, if the host has both versions
            root /= "unified"
        if ours != "/":
            found += (root / ours.lstrip("/")).glob("**/cgroup.procs")
        else:
            at_the_root = root.glob("*/cgroup.procs")
            found += [each for each in at_the_root if not any(each.parent.match(name) for name in _OTHERS)]
    return sorted(map(str, found))


Host = tuple[dict[str, Any], set[Path]]


def on_the_host() -> Host:
    return host(), network_namespaces()


def assert_clean(user: User, before: Host, but: Collection[int] = ()) -> float:
    """Nothing of this user's commands runs, but for these pids, no file of theirs is left but a killed lab's logs, and
    the host is as it was: all of it within one time. After how many seconds that was seen."""
    things, namespaces = before
    begun = time.monotonic()
    deadline = begun + GONE_S
    clean: dict[str, Callable[[], bool]] = {
        "every process is gone": lambda: {pid for pid, _ in user.processes()} <= set(but),
        f"{user.environment['TMPDIR']} is empty": lambda: not user.temporary_files(),
        "every network is gone": lambda: network_namespaces() <= namespaces,
        "the host is as before": lambda: host() == things,
    }
    for what, condition in clean.items():
        while not condition():
            assert time.monotonic() < deadline, f"waited {GONE_S} s until {what}: {told_of(user.processes())}"
            time.sleep(0.02)
    assert [*(user.state / "ackproof").glob("labs/*/data/*")] == [], (
        "the disks of the nodes are memory that the lab's end frees"
    )
    return time.monotonic() - begun


def told_of(processes: set[Identity]) -> list[str]:
    """Return what each process runs, and its state."""
    found = []
    for pid, _ in sorted(processes):
        with suppress(OSError):
            place = Path(f"/proc/{pid}")
            state = (place / "stat").read_text().rpartition(")")[2].split()[0]
            found.append(f"{pid} {state} {(place / 'cmdline').read_bytes().replace(bytes(1), b' ').decode()}")
    return found


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = GONE_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout_s} s until {what}"
        time.sleep(0.02)


# -- what a run wrote down -------------------------------------------------------------------------------------------


def journal_rows(directory: Path) -> tuple[set[str], int]:
    """Return every row of a journal, sealed or growing, and the number of torn bytes."""
    found, torn = set(), 0
    for path in directory.glob("journal/*/*"):
        with suppress(FileNotFoundError):  # it was sealed meanwhile: its rows are in the file beside it
            if path.suffix == ".parquet" and not path.name.startswith("."):
                table = pq.ParquetFile(path).read()
            elif path.suffix == ".arrows":
                table, damage = read_stream(path)
                torn += damage.bytes_torn if damage else 0
            else:
                continue
            found |= {f"{path.parent.name} {row}" for row in table.to_pylist()}
    return found, torn


def told_torn(directory: Path) -> int:
    """Return the number of torn bytes that the judge reports. The judge seals the journal."""
    with opened(directory) as source:
        said = [re.search(r"its last ([0-9,]+) bytes cannot be read", remark.text) for remark in source.remarks]
    return sum(int(found[1].replace(",", "")) for found in said if found)


def rows(directory: Path, table: str) -> list[dict[str, Any]]:
    files = sealed_files(directory, table)
    return [row for path in files for row in pq.ParquetFile(path).read().to_pylist()]


def added_up(*directories: Path) -> str:
    """Assert that each intended message of each producer has one outcome, and return how many have which."""
    told: Counter[str] = Counter()
    for directory in directories:
        meant, ended = intents(directory), outcomes(directory)
        assert meant
        assert meant == {producer: counted.total() for producer, counted in ended.items()}
        told += sum(ended.values(), Counter())
    assert told.keys() <= {"ok", "fail", "info"}
    ends = " + ".join(f"{told[outcome]:,} {outcome}" for outcome in ("ok", "fail", "info"))
    return f"{told.total():,} intents = {ends}"


def intents(directory: Path) -> dict[int, int]:
    """Return the numbers that each producer reserved on disk and used."""
    used: Counter[int] = Counter()
    for row in rows(directory, "blocks"):
        used[row["producer"]] += row["used"] or 0
    return dict(used)


def outcomes(directory: Path) -> dict[int, Counter[str]]:
    """Return the outcomes of each producer, counted in columns: a soak has too many rows for a loop."""
    found: dict[int, Counter[str]] = defaultdict(Counter)
    for path in sealed_files(directory, "sends"):
        ended = pq.ParquetFile(path).read(columns=["producer", "outcome"])
        for row in ended.group_by(["producer", "outcome"]).aggregate([([], "count_all")]).to_pylist():
            found[row["producer"]][row["outcome"]] += row["count_all"]
    return found
