"""Measure what the laboratory costs: `scripts/bench lab`.

    start         from `ackproof up` to its end, against the same JVMs started bare: the lab's own command lines and
                  settings, taken from the lab's own code, side by side on 127.0.0.1 and without namespaces, ready by
                  the lab's own criterion and on the same kind of disk (memory). Lab and bare take turns.
    memory        resident, of a lab that has been left alone for a while
    cut + proof   inside the lab, from `asked` to `proved` in its audit trail; and as a whole command
    command line  what `ackproof --version` takes

Started by root it measures twice: as root, and in a process of its own as an ordinary user, whose labs live in user
namespaces. Numbers are medians. Nothing here judges a time; what could not be measured is said, and ends with 4.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import msgspec

from ackproof.cli.ui.console import console, say_json, table
from ackproof.core.errors import Problem
from ackproof.core.text import plain
from ackproof.host import namespaces as kernel
from ackproof.host.java import find_java
from ackproof.host.processes import Processes
from ackproof.kafka.distribution import jars
from ackproof.lab import client as control
from ackproof.lab import node_config as config
from ackproof.lab.audit_log import Events
from ackproof.lab.cluster import Cluster, Program
from ackproof.lab.directory import LabDirectory
from ackproof.lab.network.router import Network
from ackproof.lab.spec import LabSpec, Mode, Node, Setting

ROOT = Path(__file__).resolve().parent.parent
VERSIONS: dict[Mode, str] = {"zookeeper": jars.DEFAULT_ZOOKEEPER, "kraft": jars.DEFAULT_KRAFT}
COMMAND_S_MAX = 150.0
HALF_S_MAX = 3600.0
REST_S = 10.0
QUIET_LOAD, QUIET_S_MAX = 0.7, 240.0
COMMAND_LINE_TIMES = 10
ORDINARY_UID = 65534

FAULTS: dict[str, tuple[str, ...]] = {
    "cut": ("cut", "kafka1", "kafka2"),
    "cut --one-way": ("cut", "kafka1", "kafka2", "--one-way"),
    "cut --port": ("cut", "kafka1", "kafka2", "--port", "9092"),
    "cut --new-connections": ("cut", "kafka1", "kafka2", "--new-connections"),
    "cut --reset": ("cut", "kafka1", "kafka2", "--reset"),
    "partition": ("partition", "kafka3"),
    "flaky": ("flaky", "kafka2", "--loss", "10%"),
}
GOALS = {"ratio": 1.15, "proof_ms": 150, "command_line_ms": 300}
MEMORY_GOALS = {"broker": 400, "zookeeper": 120}


class Cost(msgspec.Struct, frozen=True):
    """The cost of one start, in seconds on the clock and in processor time, which a busy machine changes much less."""

    wall_s: float
    cpu_s: float


class Start(msgspec.Struct, frozen=True):
    mode: Mode
    lab: list[Cost]
    bare: list[Cost]


class Proof(msgspec.Struct, frozen=True):
    fault: str
    inside_ms: list[float]
    command_ms: list[float]


class Half(msgspec.Struct, frozen=True):
    """The figures that one user measured."""

    user: str
    command: list[str]
    starts: list[Start]
    memory_mb: dict[str, dict[str, float]]  # by mode and role, the largest
    proofs: list[Proof]
    command_line_ms: list[float]
    problems: list[str]


def tell(said: str) -> None:
    print(f"bench: {said}", file=sys.stderr, flush=True)


# -- the lab, through its command line -------------------------------------------------------------------------------


def ackproof() -> list[str]:
    """Return the launcher if this user can run it, as people do; else the command that it would run."""
    launcher = [str(ROOT / "ackproof")]
    return launcher if answers(launcher) else [sys.executable, "-P", "-m", "ackproof"]


def answers(command: Sequence[str], **how: Any) -> bool:
    try:
        asked = subprocess.run([*command, "--version"], capture_output=True, timeout=COMMAND_S_MAX, check=False, **how)
    except OSError:
        return False
    return asked.returncode == 0


def timed(*command: str) -> float:
    begun = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_S_MAX, check=False)
    took_s = time.monotonic() - begun
    if done.returncode != 0:
        raise Problem(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return took_s


@contextmanager
def lab(command: list[str], mode: Mode) -> Iterator[tuple[str, Cost]]:
    """Start a lab of our own, and yield it with the cost of its start."""
    name = f"bench-{os.getpid()}"
    try:
        before_s = children_cpu_s()
        took_s = timed(*command, "up", "--name", name, "--mode", mode)
        supervisor = LabDirectory.of(name).started().supervisor_pid
        used_s = cpu_s([supervisor, *children(supervisor)]) + children_cpu_s() - before_s
        yield name, Cost(took_s, used_s)
    finally:
        if LabDirectory.of(name).path.exists():
            control.down(name)


def children(pid: int) -> list[int]:
    return [int(child) for told in Path(f"/proc/{pid}/task").glob("*/children") for child in told.read_text().split()]


def cpu_s(pids: Sequence[int]) -> float:
    """Return the processor time of these processes, which are still alive."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(each[11]) + int(each[12]) for each in fields) / os.sysconf("SC_CLK_TCK")


def children_cpu_s() -> float:
    """Return the processor time of our children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# -- the same JVMs, bare ---------------------------------------------------------------------------------------------


class BareNode(Node, frozen=True):
    """A node of the lab on a port of the host's loopback."""

    bare_port: int = 0

    @property
    def address(self) -> str:
        return "127.0.0.1"

    @property
    def port(self) -> int:
        return self.bare_port


class BareProcesses:
    """Takes the place of the lab's own processes: it starts the same programs, but in no namespace."""

    def __init__(self) -> None:
        self._all: dict[str, subprocess.Popen[bytes]] = {}

    def spawn(
        self, name: str, argv: Sequence[str], *, namespace: int, output: Path, environment: Mapping[str, str]
    ) -> None:
        with output.open("ab") as log:
            self._all[name] = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,  # as in the lab: Linux shares a busy processor out by session
                preexec_fn=lambda: kernel.die_with_parent(signal.SIGKILL),
            )

    def get(self, name: str) -> object | None:
        return self._all[name] if self._all[name].poll() is None else None

    def state(self, name: str) -> str:
        return "running" if self.get(name) else "down"

    def last_exit(self, name: str) -> int | None:
        return self._all[name].poll()

    def pids(self) -> list[int]:
        return [process.pid for process in self._all.values()]

    def end(self) -> None:
        for process in self._all.values():
            process.kill()
        for process in self._all.values():
            process.wait(timeout=30)


def bare(mode: Mode) -> Cost:
    """Start the lab's JVMs without the lab, wait until they serve, and end them. Return the cost until they served."""
    spec, nodes = on_loopback(LabSpec(kafka=VERSIONS[mode], mode=mode))
    java = find_java()
    kafka = jars.ensure(spec.kafka, java)
    program = Program(java.path, kafka.classpath, jars.bootstrap_checkpoint(kafka, java) if mode == "kraft" else None)
    memory = Path("/dev/shm")  # noqa: S108  # the lab's disks are memory too
    where = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="ackproof-bench-", dir=where) as folder, ExitStack() as stack:
        directory = LabDirectory(Path(folder))
        for part in (directory.data, directory.path / "logs", directory.path / "settings"):
            part.mkdir()
        processes = BareProcesses()
        stack.callback(processes.end)
        network = SimpleNamespace(endpoints=defaultdict(lambda: SimpleNamespace(namespace=-1)))
        cluster = Cluster(spec, directory, program, cast(Network, network), cast(Processes, processes), {})
        cluster.nodes.update(nodes)
        begun = time.monotonic()
        for node in cluster.servers:
            cluster.launch(node)
        cluster.wait_until_serving(list(nodes), lambda _: None, everyone=True)
        return Cost(time.monotonic() - begun, cpu_s(processes.pids()))


def on_loopback(spec: LabSpec) -> tuple[LabSpec, dict[str, Node]]:
    """Return the same lab, but with a port of 127.0.0.1 for every address in its settings."""
    servers = [node for node in spec.nodes if node.role != "client"]
    ports = free_ports(3 * len(servers))
    nodes = {node.name: BareNode(**msgspec.structs.asdict(node), bare_port=ports.pop()) for node in servers}
    names = {f"{node.name}:{node.port}": f"127.0.0.1:{nodes[node.name].port}" for node in servers}
    names |= {f"{node.name}:2888:3888": f"127.0.0.1:{ports.pop()}:{ports.pop()}" for node in servers}
    settings = []
    for node in servers:
        for key, value in config.properties(spec, node, config.NodeFiles(Path(), Path())).items():
            moved = str(nodes[node.name].port) if key == "clientPort" else value
            for name, address in names.items():
                moved = moved.replace(name, address)
            settings += [Setting(node.name, key, moved)] if moved != value else []
    return msgspec.structs.replace(spec, settings=tuple(settings)), dict(nodes)


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


# -- one user's half -------------------------------------------------------------------------------------------------


def measure(repeats: int, cuts: int) -> Half:
    command = ackproof()
    half = Half(whoami(), command, [], {}, [], [], [])
    with noting(half, "command line"):
        half.command_line_ms.extend(1000 * timed(*command, "--version") for _ in range(COMMAND_LINE_TIMES))
    for mode in VERSIONS:
        with noting(half, f"start in {mode} mode"):
            half.starts.append(measure_start(command, mode, repeats, half.user))
    for mode in VERSIONS:
        with noting(half, f"memory and cuts in {mode} mode"), lab(command, mode) as (name, _):
            tell(f"{half.user}: {mode}: memory at rest")
            time.sleep(REST_S)
            half.memory_mb[mode] = memory(name)
            if mode == "zookeeper":
                half.proofs.extend(measure_proof(command, name, fault, cuts, half.user) for fault in FAULTS)
    return half


def whoami() -> str:
    return "root" if os.getuid() == 0 else f"uid {os.getuid()} (rootless)"


@contextmanager
def noting(half: Half, what: str) -> Iterator[None]:
    """Note what cannot be measured, and go on with the other measurements."""
    try:
        yield
    except (Problem, OSError, subprocess.SubprocessError) as problem:
        half.problems.append(f"{what}: {problem} {' '.join(getattr(problem, 'details', ()))}".strip())
        tell(f"{half.user}: {half.problems[-1]}")


def measure_start(command: list[str], mode: Mode, repeats: int, user: str) -> Start:
    start = Start(mode, [], [])
    for number in range(1, repeats + 1):
        with lab(command, mode) as (_, cost):
            start.lab.append(cost)
        start.bare.append(bare(mode))
        told = ", ".join(
            f"{what} {each[-1].wall_s:.2f} s ({each[-1].cpu_s:.2f} s of processor)"
            for what, each in (("lab", start.lab), ("bare", start.bare))
        )
        tell(f"{user}: {mode}: {number}/{repeats}: {told}")
    return start


def memory(name: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for node in control.status(name)["nodes"]:
        if node["memory_mb"] is not None:
            found[node["role"]] = max(found.get(node["role"], 0.0), node["memory_mb"])
    return found


def measure_proof(command: list[str], name: str, fault: str, cuts: int, user: str) -> Proof:
    proof = Proof(fault, [], [])
    trail = Events(LabDirectory.of(name).events)
    for _ in range(cuts):
        proof.command_ms.append(1000 * timed(*command, *FAULTS[fault], "--name", name))
        proof.inside_ms.append(asked_to_proved_ms(trail.read()))
        control.call(name, "heal")
    tell(f"{user}: {fault}: inside {median(proof.inside_ms):.0f} ms, command {median(proof.command_ms):.0f} ms")
    return proof


def asked_to_proved_ms(events: list[dict[str, Any]]) -> float:
    """Return the milliseconds from the newest `asked` to its `proved`."""
    number = max(number for number, event in enumerate(events) if event["event"] == "asked")
    proved = next((event for event in events[number:] if event["event"] == "proved"), None)
    if proved is None:
        raise Problem(f"nothing in the trail proves {events[number]}")
    return float(proved["at_ns"] - events[number]["at_ns"]) / 1e6


# -- the other half, as an ordinary user -----------------------------------------------------------------------------


def measure_as(uid: int, repeats: int, cuts: int) -> Half:
    """Measure in a process of that user, who has a home, a copy of the jars and a Python that the user can reach."""
    with tempfile.TemporaryDirectory(prefix="ackproof-bench-home-") as folder:
        home = Path(folder)
        lend_jars(home / "cache" / "ackproof" / "kafka")
        for path in (home, *(path for path in home.rglob("*") if path.is_dir())):
            os.chown(path, uid, uid)
        environment = {
            **{name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "JAVA_HOME")},
            "HOME": folder,
            "XDG_CACHE_HOME": f"{folder}/cache",
            "XDG_STATE_HOME": f"{folder}/state",
            "PYTHONPATH": os.pathsep.join(str(path) for path in (site_packages(), ROOT / "src")),
        }
        how: dict[str, Any] = {"user": uid, "group": uid, "extra_groups": [], "env": environment, "cwd": "/"}
        python = reachable_python(how)
        options = ["--half", "--repeats", str(repeats), "--cuts", str(cuts)]
        with subprocess.Popen([python, "-P", __file__, *options], stdout=subprocess.PIPE, **how) as process:
            said = waited_for(process)
    if process.returncode != 0:
        raise Problem(f"as uid {uid}: the measuring process ended with {process.returncode}")
    return msgspec.json.decode(said, type=Half)


def lend_jars(cache: Path) -> None:
    def lend(source: str, target: str) -> None:
        try:
            os.link(source, target)
        except OSError:  # another file system
            shutil.copyfile(source, target)

    java = find_java()
    for version in VERSIONS.values():
        kafka = jars.ensure(version, java)
        jars.bootstrap_checkpoint(kafka, java)
        ignored = shutil.ignore_patterns(".*")
        shutil.copytree(kafka.directory, cache / version, copy_function=lend, ignore=ignored)


def site_packages() -> Path:
    return Path(msgspec.__file__).parent.parent


def reachable_python(how: Mapping[str, Any]) -> str:
    """Return a Python of the same minor version that other users can run, because ours may be below a closed home."""
    wanted = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, shutil.which(wanted, path="/usr/local/bin:/usr/bin:/bin")):
        if python and answers([python, "-P", "-m", "ackproof"], **how):
            return python
    raise Problem(f"no {wanted} that uid {how['user']} can reach runs ackproof: install it for all users")


def waited_for(process: subprocess.Popen[bytes]) -> bytes:
    """Return the output of the process. If we are interrupted, the process gets the time to end its own labs."""
    try:
        said, _ = process.communicate(timeout=HALF_S_MAX)
    except BaseException:
        process.terminate()
        process.wait(timeout=60)
        raise
    return said


# -- telling ---------------------------------------------------------------------------------------------------------


def machine() -> dict[str, str]:
    with Path("/proc/meminfo").open() as lines:
        memory_mb = next(int(line.split()[1]) // 1024 for line in lines if line.startswith("MemTotal"))
    with Path("/proc/cpuinfo").open() as lines:
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
    return {
        "processor": model,
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{memory_mb} MB",
        "kernel": platform.release(),
        "python": platform.python_version(),
        "java": str(find_java().version),
        "load at the start": f"{os.getloadavg()[0]:.2f}",
    }


def wait_until_quiet(timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while os.getloadavg()[0] >= QUIET_LOAD and time.monotonic() < deadline:
        tell(f"the machine is busy (load {os.getloadavg()[0]:.2f}): waiting")
        time.sleep(min(15.0, max(0.0, deadline - time.monotonic())))


Row = tuple[str, str, str, str]


def rows(half: Half) -> list[Row]:
    found: list[Row] = []
    for start in half.starts:
        lab_s, bare_s = ([cost.wall_s for cost in each] for each in (start.lab, start.bare))
        lab_cpu_s, bare_cpu_s = ([cost.cpu_s for cost in each] for each in (start.lab, start.bare))
        what, goal = f"start, {start.mode}", f"{GOALS['ratio']}x"
        found.append((half.user, f"{what}, median of {len(lab_s)}", compared(median(lab_s), median(bare_s)), goal))
        # On a machine that others use too, the best time and the processor time say more than the median.
        found.append((half.user, f"{what}, best", compared(min(lab_s), min(bare_s)), ""))
        found.append((half.user, f"{what}, processor", compared(median(lab_cpu_s), median(bare_cpu_s)), ""))
    for mode, roles in half.memory_mb.items():
        for role, used in roles.items():
            goal = f"{MEMORY_GOALS[role]} MB" if role in MEMORY_GOALS else ""
            found.append((half.user, f"memory of a {role} at rest, {mode}", f"{used:.0f} MB", goal))
    for proof in half.proofs:
        measured = f"{median(proof.inside_ms):.0f} ms inside, {median(proof.command_ms):.0f} ms as a command"
        found.append(
            (half.user, f"{proof.fault} + proof, median of {len(proof.inside_ms)}", measured, f"{GOALS['proof_ms']} ms")
        )
    if half.command_line_ms:
        measured = f"{median(half.command_line_ms):.0f} ms"
        found.append((half.user, f"{Path(half.command[0]).name} --version", measured, f"{GOALS['command_line_ms']} ms"))
    return found


def compared(lab_s: float, bare_s: float) -> str:
    return f"{lab_s:.2f} s, bare {bare_s:.2f} s: {lab_s / bare_s:.2f}x"


def show(about: dict[str, str], halves: list[Half], problems: list[str]) -> None:
    screen = console()
    screen.print(plain(", ".join(f"{name} {value}" for name, value in about.items())))
    made = table("as", "what", "measured", "goal")
    for row in (row for half in halves for row in rows(half)):
        made.add_row(*row)
    screen.print(made)
    for problem in problems:
        screen.print(plain(f"not measured: {problem}"))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench lab", description="How much the laboratory costs.")
    parser.add_argument("--repeats", type=int, default=5, help="starts of each kind (default 5)")
    parser.add_argument("--cuts", type=int, default=20, help="faults of each kind (default 20)")
    parser.add_argument(
        "--uid",
        type=int,
        default=int(os.environ.get("SUDO_UID", ORDINARY_UID)),
        help="the user id of the ordinary user",
    )
    parser.add_argument("--only", choices=["root", "ordinary"], help="measure one user only")
    parser.add_argument("--wait", type=float, default=QUIET_S_MAX, help="seconds to wait for a quiet machine")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    parser.add_argument("--half", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def on_terminate(number: int, _: object) -> NoReturn:
    raise SystemExit(128 + number)


def main() -> int:
    signal.signal(signal.SIGTERM, on_terminate)  # so that what we started is ended on the way out
    wanted = arguments()
    if wanted.half:
        sys.stdout.buffer.write(msgspec.json.encode(measure(wanted.repeats, wanted.cuts)))
        return 0
    wait_until_quiet(wanted.wait)
    about, halves, problems = machine(), [], []
    if wanted.only != "ordinary":
        halves.append(measure(wanted.repeats, wanted.cuts))
    try:
        if os.getuid() == 0 and wanted.only != "root":
            halves.append(measure_as(wanted.uid, wanted.repeats, wanted.cuts))
    except (Problem, OSError, subprocess.SubprocessError) as problem:
        problems.append(f"as an ordinary user: {problem}")
    problems += [f"{half.user}: {problem}" for half in halves for problem in half.problems]
    if wanted.json:
        say_json(
            {"machine": about, "goals": {**GOALS, "memory_mb": MEMORY_GOALS}, "halves": halves, "problems": problems}
        )
    else:
        show(about, halves, problems)
    return 4 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
